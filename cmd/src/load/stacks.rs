//! `load stacks`.

use super::{Job, Load};
use crate::args::Parsed;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use millpond_workloads::stacks;
use serde_json::json;

pub(super) const LOAD: Load = Load { name: "stacks", longs: &[], run };

fn run(_: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    job.event(ctx, "ready", json!({}));
    job.wait_to_begin();
    job.event(ctx, "started", json!({}));
    let result = stacks::run().map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.report(), &result);
    Ok(Exit::DONE)
}
