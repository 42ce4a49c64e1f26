//! `load build`.

use super::job::{Job, Load, Phase, SHARED};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::values::{seconds, value};
use millpond_cli::{Flag, Group, Parsed, Spec, ValueKind};
use millpond_workloads::build::{self, BuildSpec};
use std::path::PathBuf;

pub(super) const LOAD: Load = Load {
    spec: Spec {
        name: "load build",
        summary: "compilers that start, run and exit",
        group: Group::Try,
        forms: &["[--jobs N] [--seconds T] [--compiler FILE]"],
        flags: &[
            Flag::long("jobs", "how many at once (as many as the CPUs it may use)")
                .value("n", ValueKind::Text),
            Flag::long("seconds", "how long (until stopped)").value("t", ValueKind::Time),
            Flag::long("compiler", "what compiles (cc)").value("file", ValueKind::File),
        ],
        shared: SHARED,
        ..Spec::NEW
    },
    run,
};

fn run(options: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let spec = BuildSpec {
        jobs: value(options, "jobs")?,
        duration: seconds(options, "seconds")?,
        compiler: options.long_value("compiler").map(PathBuf::from),
    };
    job.event(ctx, Phase::Ready);
    job.wait_to_begin();
    let result = build::run(&spec, job.stop, &mut |event| job.event(ctx, event))
        .map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.report(), &result);
    Ok(Exit::DONE)
}
