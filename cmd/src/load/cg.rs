//! `load cg`.

use super::job::{Job, Load, SHARED};
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure};
use crate::values::{seconds, value};
use millpond_cli::{Flag, Group, Parsed, Spec, ValueKind};
use millpond_member::{MemberError, Subscription};
use millpond_workloads::cg::{self, BarrierKind, CgEvent, CgSpec, Class, Verification};

pub(super) const LOAD: Load = Load {
    spec: Spec {
        name: "load cg",
        summary: "NPB CG: a sparse eigenvalue problem whose threads meet at a barrier every few \
                 microseconds",
        group: Group::Try,
        forms: &["[--class S|W|A|B] [--threads N] [--barrier spin|block] [--malleable] [--seconds T]"],
        flags: &[
            Flag::long("class", "the size of the problem (S)")
                .value("S|W|A|B", ValueKind::Word(&["S", "W", "A", "B"])),
            Flag::long("threads", "how many threads (as many as the CPUs it may use)")
                .value("n", ValueKind::Text),
            Flag::long("barrier", "how they wait: burning the CPU, or giving it away (spin)")
                .value("spin|block", ValueKind::Word(&["spin", "block"])),
            Flag::long(
                "malleable",
                "look again between iterations how many CPUs there are: in a pool, how \
                 many it has",
            ),
            Flag::long("seconds", "repeat until this time is over (one repetition)")
                .value("t", ValueKind::Time),
        ],
        shared: SHARED,
        ..Spec::NEW
    },
    run,
};

fn run(options: &Parsed, job: &Job, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let spec = CgSpec {
        threads: value(options, "threads")?,
        barrier: barrier(options)?,
        malleable: options.long("malleable"),
        duration: seconds(options, "seconds")?,
        ..CgSpec::new(value(options, "class")?.unwrap_or(Class::S))
    };
    let mut pool = if spec.malleable { own_pool() } else { None };
    let mut most = || size_of(&mut pool);
    let result = cg::run_within(&spec, job.stop, &mut most, &mut |event| tell(event, &spec, job, ctx))
        .map_err(|e| job.failed(&e))?;
    job.result(ctx, &cg::summary(&result), &result);
    Ok(if result.verification == Verification::Failed { Exit::REFUSED } else { Exit::DONE })
}

/// The pool of this process. `None` for the default pool, and without pools.
fn own_pool() -> Option<Subscription> {
    Subscription::of_own().ok().filter(|pool| !pool.is_default())
}

/// The number of CPUs of the pool. After the pool has vanished, it is not read again.
fn size_of(pool: &mut Option<Subscription>) -> Option<usize> {
    match pool.as_mut()?.size() {
        Ok(size) => Some(size.size()),
        Err(MemberError::Ended(_)) => {
            *pool = None;
            None
        }
        Err(_) => None,
    }
}

/// The kind of barrier, in the terms of the command line or of the load.
fn barrier(options: &Parsed) -> Result<BarrierKind, Failure> {
    match options.long_value("barrier").as_deref() {
        None | Some("spin") => Ok(BarrierKind::Spinning),
        Some("block") => Ok(BarrierKind::Blocking),
        Some(_) => Ok(value(options, "barrier")?.unwrap_or(BarrierKind::Spinning)),
    }
}

fn tell(event: CgEvent, spec: &CgSpec, job: &Job, ctx: &mut Ctx<'_>) {
    match event {
        CgEvent::Ready { threads, .. } => job.text(ctx, &cg::header(spec.class, threads, spec.barrier)),
        // Only the first repetition prints the traditional trace. The others would repeat it.
        CgEvent::Iteration(iteration) if iteration.repetition == 1 => {
            job.text(ctx, &(iteration.line() + "\n"))
        }
        CgEvent::Resized { from, to, seconds } => {
            job.text(ctx, &format!("{seconds:.3} s: {from} threads, now {to}\n"));
        }
        CgEvent::Started | CgEvent::Iteration(_) | CgEvent::Repetition { .. } => {}
    }
    job.event(ctx, event);
    if matches!(event, CgEvent::Ready { .. }) {
        job.wait_to_begin();
    }
}
