//! `load stacks`.

use super::job::{Job, Load, Phase, SHARED};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use millpond_cli::{Group, Parsed, Spec};
use millpond_workloads::stacks;

pub(super) const LOAD: Load = Load {
    spec: Spec {
        name: "load stacks",
        summary: "how many pages of a stack are in memory",
        group: Group::Try,
        forms: &[""],
        flags: &[],
        shared: SHARED,
        ..Spec::NEW
    },
    run,
};

fn run(_: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    job.event(ctx, Phase::Ready);
    job.wait_to_begin();
    job.event(ctx, Phase::Started);
    let result = stacks::run().map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.report(), &result);
    Ok(Exit::DONE)
}
