//! Copies the kernel files that describe this machine to a directory, for use with `--root`.
//!
//! ```text
//! $ millpond capture /tmp/web7
//! captured 1204 files, 3 could not be read
//! $ psrinfo --root /tmp/web7 -pv
//! ```
//!
//! The files describe CPUs, interrupts, sets and processes. Each command that only reads works on the copy, on any
//! machine, so a bug report can contain the machine. Names of your programs and cgroups, and the boot id, are replaced.
//! The directory must be empty or absent.
//!
//! Most unreadable files belong to processes that ended, or need more rights.
//!
//! # JSON
//!
//! The schema is docs/reference/json/capture.json.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::{self, Describe};
use millpond_cli::{Example, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Captured<'_>>()];

/// The result of a capture.
#[derive(Serialize, JsonSchema)]
struct Captured<'d> {
    directory: &'d Path,
    files: usize,
    /// Files that could not be read.
    skipped: usize,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "capture",
        summary: "copy the description of this machine to a directory, for --root",
        group: Group::Machine,
        forms: &["directory"],
        operands: Operands { shown: "dir", kinds: &[ValueKind::Directory] },
        examples: &[Example { words: "here", what: "capture this machine in the directory here" }],
        status: &[("0", "done"), ("1", "the machine could not be captured"), MISUSED],
        see_also: &["psrinfo(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let [directory] = parsed.operands.as_slice() else {
        return Err(Failure::Usage("must specify one directory".into()));
    };
    let directory = Path::new(directory);
    let session = ctx.reading(&parsed.common)?;
    let refused = |why| Complaint::new(format!("capture the machine into {}", directory.display()), why);
    if parsed.common.dry_run {
        ctx.warn(format_args!("{} would be filled; nothing is written", directory.display()));
        return Ok(Exit::DONE);
    }
    let (files, skipped) = session.capture(directory).map_err(refused)?;
    if parsed.common.json {
        ctx.json(&Captured { directory, files, skipped });
    } else {
        let skipped = match skipped {
            0 => String::new(),
            some => format!(", {some} could not be read"),
        };
        ctx.out.line(format_args!("captured {files} files{skipped}"));
    }
    Ok(Exit::DONE)
}
