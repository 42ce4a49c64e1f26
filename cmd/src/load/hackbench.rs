//! `load hackbench`.

use super::job::{Job, Load, SHARED};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::values::value;
use millpond_cli::{Flag, Group, Parsed, Spec, ValueKind};
use millpond_workloads::hackbench::{self, HackbenchEvent, HackbenchSpec};

pub(super) const LOAD: Load = Load {
    spec: Spec {
        name: "load hackbench",
        summary: "groups of tasks that pass small messages: the cost of wake-ups and switches",
        group: Group::Try,
        forms: &["[--groups N] [--pairs N] [--loops N] [--bytes N] [--tasks KIND] [--transport \
                 KIND] [--fifo]"],
        flags: &[
            Flag::long("groups", "how many groups (10)").value("n", ValueKind::Text),
            Flag::long("pairs", "senders, and as many receivers, in each (20)").value("n", ValueKind::Text),
            Flag::long("loops", "messages from each sender to each receiver of its group (100)")
                .value("n", ValueKind::Text),
            Flag::long("bytes", "length of a message (100)").value("n", ValueKind::Text),
            Flag::long("tasks", "what a task is (process)")
                .value("process|thread", ValueKind::Word(&["process", "thread"])),
            Flag::long("transport", "what messages pass through (socket)")
                .value("pipe|socket", ValueKind::Word(&["pipe", "socket"])),
            Flag::long("fifo", "take the first real-time priority, so as to stay in control of many tasks"),
        ],
        shared: SHARED,
        ..Spec::NEW
    },
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
    let mut tell = |event: HackbenchEvent<'_>| {
        let is_ready = matches!(event, HackbenchEvent::Ready { .. });
        if is_ready {
            job.text(ctx, &spec.header());
        }
        job.event(ctx, event);
        if is_ready {
            job.wait_to_begin();
        }
    };
    let result = hackbench::run(&spec, job.stop, &mut tell).map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.time_line(), &result);
    Ok(Exit::DONE)
}
