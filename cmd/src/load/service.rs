//! `load service`.

use super::options::{seconds, value};
use super::{Job, Load};
use crate::args::Parsed;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use millpond_workloads::service::{Service, ServiceSpec};
use serde_json::json;
use std::num::NonZeroU32;
use std::time::Duration;

pub(super) const LOAD: Load =
    Load { name: "service", longs: &["threads:", "rate:", "work:", "seed:", "settle:", "seconds:"], run };

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
    job.event(ctx, "ready", json!({ "threads": spec.threads }));
    job.wait_to_begin();
    let result = service.run(job.stop, &mut || job.event(ctx, "started", json!({})));
    let result = result.map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.report(), &result);
    Ok(Exit::DONE)
}

/// Milliseconds.
fn work(options: &Parsed) -> Result<f64, Failure> {
    match value::<f64>(options, "work")? {
        None => Ok(2.0),
        Some(ms) if (0.001..=10_000.0).contains(&ms) => Ok(ms),
        Some(ms) => {
            Err(Failure::Operand(format!("cannot use --work {ms}: it is not within 0.001 and 10000")))
        }
    }
}
