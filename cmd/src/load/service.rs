//! `load service`.

use super::job::{Job, Load, SHARED};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::values::{seconds, value};
use millpond_cli::{Flag, Group, Parsed, Spec, ValueKind};
use millpond_workloads::service::{Service, ServiceSpec};
use schemars::JsonSchema;
use serde::Serialize;
use std::num::NonZeroU32;
use std::time::Duration;

pub(super) const LOAD: Load = Load {
    spec: Spec {
        name: "load service",
        summary: "requests that arrive at random, and how long each takes",
        group: Group::Try,
        forms: &["[--threads N] [--rate N] [--work MS] [--seed N] [--settle T] [--seconds T]"],
        flags: &[
            Flag::long("threads", "how many threads answer (2)").value("n", ValueKind::Text),
            Flag::long("rate", "requests a second, on average (100)").value("n", ValueKind::Text),
            Flag::long("work", "CPU time of a request (2)").value("ms", ValueKind::Text),
            Flag::long("seed", "where chance begins (1)").value("n", ValueKind::Text),
            Flag::long("settle", "count requests only when so much time is over (0)")
                .value("t", ValueKind::Time),
            Flag::long("seconds", "how long then (until stopped)").value("t", ValueKind::Time),
        ],
        shared: SHARED,
        ..Spec::NEW
    },
    run,
};

#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum ServiceEvent {
    /// It is prepared, and waits for the start line.
    Ready { threads: NonZeroU32 },
    /// Requests arrive.
    Started,
}

const THREADS: NonZeroU32 = NonZeroU32::new(2).expect("it is not 0");
const RATE: NonZeroU32 = NonZeroU32::new(100).expect("it is not 0");

fn run(options: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let spec = ServiceSpec {
        threads: value(options, "threads")?.unwrap_or(THREADS),
        rate: value(options, "rate")?.unwrap_or(RATE),
        work_ms: work(options)?,
        seed: value(options, "seed")?.unwrap_or(1),
        settle: seconds(options, "settle")?.unwrap_or(Duration::ZERO),
        duration: seconds(options, "seconds")?,
    };
    let service = Service::prepare(&spec);
    job.event(ctx, ServiceEvent::Ready { threads: spec.threads });
    job.wait_to_begin();
    let result = service.run(job.stop, &mut || job.event(ctx, ServiceEvent::Started));
    let result = result.map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.report(), &result);
    Ok(Exit::DONE)
}

/// Parses the work per request in milliseconds.
fn work(options: &Parsed) -> Result<f64, Failure> {
    match value::<f64>(options, "work")? {
        None => Ok(2.0),
        Some(ms) if (0.001..=10_000.0).contains(&ms) => Ok(ms),
        Some(ms) => {
            Err(Failure::Operand(format!("cannot use --work {ms}: it is not within 0.001 and 10000")))
        }
    }
}
