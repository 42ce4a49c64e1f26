//! `load hackbench`.

use super::options::value;
use super::{Job, Load};
use crate::args::Parsed;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use millpond_workloads::hackbench::{self, HackbenchEvent, HackbenchSpec};
use serde_json::json;

pub(super) const LOAD: Load = Load {
    name: "hackbench",
    longs: &["groups:", "pairs:", "loops:", "bytes:", "tasks:", "transport:", "fifo"],
    run,
};

fn run(options: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let usual = HackbenchSpec::default();
    let spec = HackbenchSpec {
        groups: value(options, "groups")?.unwrap_or(usual.groups),
        pairs: value(options, "pairs")?.unwrap_or(usual.pairs),
        loops: value(options, "loops")?.unwrap_or(usual.loops),
        message_bytes: value(options, "bytes")?.unwrap_or(usual.message_bytes),
        mode: value(options, "tasks")?.unwrap_or(usual.mode),
        transport: value(options, "transport")?.unwrap_or(usual.transport),
        fifo: options.long("fifo"),
    };
    let mut tell = |event: HackbenchEvent<'_>| match event {
        HackbenchEvent::Ready { tasks, pids } => {
            job.text(ctx, &spec.header());
            job.event(ctx, "ready", json!({ "tasks": tasks, "pids": pids }));
            job.wait_to_begin();
        }
        HackbenchEvent::Started => job.event(ctx, "started", json!({})),
    };
    let result = hackbench::run(&spec, job.stop, &mut tell).map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.time_line(), &result);
    Ok(Exit::DONE)
}
