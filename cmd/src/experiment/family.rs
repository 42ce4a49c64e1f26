//! Common code of experiments: options before and after the name, the real-time library, and the output of findings.

use crate::ctx::Ctx;
use crate::demo;
use crate::failure::Failure;
use crate::values;
use millpond_cli::{Common, Flag, MISUSED, Parsed, Spec, Status, ValueKind, help};
use millpond_experiments::Failure as Ended;
use millpond_session::Library;
use std::ffi::OsString;
use std::path::Path;

/// Options of the experiments on the library for real-time programs.
pub(super) const WITH_LIBRARY: &[Flag] = &[
    Flag::long("library", "this library, in place of the one that belongs to the program")
        .value("path", ValueKind::File),
    Flag::long("csv", "CSV, for spreadsheets, in place of lines and table"),
];

/// The exit status of experiments that compare with published figures.
pub(super) const COMPARES: &[Status] = &[
    ("0", "done; a figure that differs from the published one is no failure"),
    ("1", "it could not be done, or was interrupted"),
    MISUSED,
];

/// Parses the words after the name of an experiment, and merges its common options with `outer`, those before the
/// name. `None` if the manual was requested, which is then printed.
pub(super) fn parse(
    name: &str,
    spec: &Spec,
    rest: &[OsString],
    outer: &Common,
    ctx: &mut Ctx<'_>,
) -> Result<Option<(Parsed, Common)>, Failure> {
    let given = millpond_cli::parse(spec, rest)?;
    if given.common.help {
        ctx.out.text(&help::manual(spec));
        return Ok(None);
    }
    let common = joined(name, &given, outer)?;
    Ok(Some((given, common)))
}

/// The common options of an experiment, which may be before or after its name.
pub(super) fn joined(name: &str, given: &Parsed, outer: &Common) -> Result<Common, Failure> {
    if let Some(extra) = given.words().first() {
        return Err(Failure::Usage(format!("experiment {name} takes no operand, and was given `{extra}`")));
    }
    let mut common = given.common.clone();
    common.machine = common.machine.or_else(|| outer.machine.clone());
    common.root = common.root.or_else(|| outer.root.clone());
    common.state = common.state.or_else(|| outer.state.clone());
    common.json |= outer.json;
    if common.dry_run || outer.dry_run {
        return Err(Failure::Usage(
            "an experiment changes nothing that it does not put back: it has no --dry-run".into(),
        ));
    }
    Ok(common)
}

/// The library of `--library`, else the one that is found.
pub(super) fn library(what: &str, given: &Parsed) -> Result<Library, Failure> {
    let named = given.long_value("library");
    Library::open(named.as_deref().map(Path::new))
        .map_err(|absent| demo::failed(what, Ended::NotHere(absent)))
}

/// `--seconds`.
pub(super) fn seconds(given: &Parsed) -> Result<Option<u64>, Failure> {
    values::number(given, "seconds", 1, 3600)
}
