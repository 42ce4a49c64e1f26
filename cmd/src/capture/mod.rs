//! Writes down a machine: the files that describe its processors, interrupts, sets and processes, copied into
//! a directory, with what identifies the machine or its users taken out.
//!
//! Every command that only reads works on the copy (`--root DIR`), anywhere and at any time; so a report of a
//! fault can carry the machine with it. The directory must be empty, or not exist yet.
//!
//! ```text
//! $ millpond capture /tmp/web7
//! captured 1204 files, 3 could not be read
//! $ psrinfo --root /tmp/web7 -pv
//! ```
//!
//! A file that cannot be read is most often one of a process that ended meanwhile, or one that needs more
//! rights.
//!
//! # JSON
//!
//! ```text
//! {"directory":"/tmp/web7","files":1204,"skipped":3}
//! ```

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Example, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use serde_json::json;
use std::path::Path;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "capture",
        summary: "capture this machine into a directory, for --root",
        group: Group::Simulate,
        forms: &["directory"],
        operands: Operands { shown: "dir", kinds: &[ValueKind::Directory] },
        examples: &[Example { words: "here", what: "capture this machine into the directory here" }],
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
        ctx.json(&json!({ "directory": directory, "files": files, "skipped": skipped }));
    } else {
        let skipped = match skipped {
            0 => String::new(),
            some => format!(", {some} could not be read"),
        };
        ctx.out.line(format_args!("captured {files} files{skipped}"));
    }
    Ok(Exit::DONE)
}
