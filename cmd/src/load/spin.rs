//! `load spin`.

use super::job::{Job, Load, Phase, SHARED};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::values::{seconds, value};
use millpond_cli::{Flag, Group, Parsed, Spec, ValueKind};
use millpond_workloads::spin::{self, Duty, SpinEvent, SpinSpec};

pub(super) const LOAD: Load = Load {
    spec: Spec {
        name: "load spin",
        summary: "threads that use all CPU time they get, and what each gets",
        group: Group::Try,
        forms: &["[--threads N] [--seconds T] [--duty N [--period T]] [--interval T] [--memory MIB]"],
        flags: &[
            Flag::long("threads", "how many (as many as the CPUs it may use)").value("n", ValueKind::Text),
            Flag::long("seconds", "how long (until stopped)").value("t", ValueKind::Time),
            Flag::long("duty", "burn this percent of the time").value("n", ValueKind::Text),
            Flag::long("period", "of periods of this length (0.02)").value("t", ValueKind::Time),
            Flag::long("interval", "tell the iterations so often").value("t", ValueKind::Time),
            Flag::long(
                "memory",
                "read so much memory at random, each place known only when the one before was read",
            )
            .value("mib", ValueKind::Text),
        ],
        shared: SHARED,
        ..Spec::NEW
    },
    run,
};

fn run(options: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let spec = SpinSpec {
        threads: value(options, "threads")?,
        duration: seconds(options, "seconds")?,
        duty: duty(options)?,
        interval: seconds(options, "interval")?,
        memory_mib: value(options, "memory")?,
    };
    job.event(ctx, Phase::Ready);
    job.wait_to_begin();
    let mut tell = |event| {
        if let SpinEvent::Progress { seconds, iterations } = event {
            job.text(ctx, &format!("{seconds:.1} s: {iterations} iterations\n"));
        }
        job.event(ctx, event);
    };
    let result = spin::run(&spec, job.stop, &mut tell).map_err(|error| job.failed(&error))?;
    job.result(ctx, &result.report(), &result);
    Ok(Exit::DONE)
}

fn duty(options: &Parsed) -> Result<Option<Duty>, Failure> {
    let period = seconds(options, "period")?;
    let Some(percent) = value::<u8>(options, "duty")? else {
        return match period {
            Some(_) => Err(Failure::Usage("option --period needs --duty".into())),
            None => Ok(None),
        };
    };
    let duty = Duty::new(percent, period.unwrap_or(Duty::PERIOD_DEFAULT));
    duty.map(Some).map_err(|bad| Failure::Operand(bad.to_string()))
}
