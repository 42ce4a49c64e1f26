//! Threads as programs in the kernel list them (`lib/bpf`).

use crate::Os;
use crate::census::entries::{BEGAN_NS, Kept, Seen};
use crate::census::wait_causes;
use millpond_bpf::microstates::{Keep, Record, STATES, Watching};
use millpond_machine::facets::Depth;
use millpond_machine::{Reason, Refusal};
use millpond_model::{CpuId, Doing, Microstate, Nanos, Spent, printable};

/// Bits of what a thread does.
const STOPPED_OR_TRACED: u32 = 0x4 | 0x8;
const NEW: u32 = 0x800;

/// The microstates in the order of the programs; the last one of these is being stopped.
const IN_ORDER: [Microstate; STATES - 1] = [
    Microstate::User,
    Microstate::System,
    Microstate::TextFault,
    Microstate::DataFault,
    Microstate::Lock,
    Microstate::Sleep,
    Microstate::Latency,
];

/// Loads them.
///
/// # Errors
/// Why there are none, as the second half of a sentence.
pub(super) fn open(os: &Os, keep: Keep) -> Result<Watching, String> {
    if !os.root.is_live() {
        return Err("it is a captured machine".to_owned());
    }
    os.takes_programs()?;
    Watching::open(keep, os.width()).map_err(|why| why.to_string())
}

/// Everything that lives, ascending, and when it was seen: each thread at a moment of its own, of which this is the middle one. `suspended`: for how long
/// the machine was.
///
/// # Errors
/// [`Refusal`] when the kernel does not list it.
pub(super) fn look(
    os: &Os,
    watching: &mut Watching,
    depth: Depth,
    suspended: Nanos,
) -> Result<(Nanos, Vec<Seen>), Refusal> {
    let records = watching.list().map_err(|why| Refusal::operation(Reason::Machine(why.to_string())))?;
    let (faults, signals) = (watching.sees_faults().is_ok(), watching.sees_signals().is_ok());
    let mut found: Vec<Seen> = records.iter().map(|record| seen(record, depth, suspended)).collect();
    for (seen, causes) in found.iter_mut().zip(wait_causes::of(os, &records)) {
        seen.causes = causes;
    }
    for spent in found.iter_mut().filter_map(|seen| seen.spent.as_mut()).filter(|_| depth == Depth::Measured)
    {
        if !faults {
            spent.times[Microstate::TextFault.index()] = None;
            spent.times[Microstate::DataFault.index()] = None;
        }
        spent.signals = spent.signals.filter(|_| signals);
    }
    found.sort_unstable_by_key(|seen| (seen.pid, seen.tid));
    // The kernel lists them in one order, so that their moments are in order, too.
    let at = records.get(records.len() / 2).map_or(Nanos(0), |record| Nanos(record.now));
    Ok((at, found))
}

fn seen(record: &Record, depth: Depth, suspended: Nanos) -> Seen {
    let began = Nanos(record.started / BEGAN_NS * BEGAN_NS) - suspended;
    let spent = match (depth, &record.account) {
        (Depth::Use, _) => None,
        (_, Some(_)) => Some(measured(record)),
        (_, None) => Some(kept(record, began)),
    };
    Seen {
        pid: record.pid,
        tid: record.tid,
        session: record.session,
        name: printable(&record.name).into_owned(),
        flags: record.flags,
        doing: doing(record),
        cpu: record.cpu,
        prio: record.prio.cast_signed(),
        nice: record.static_prio.cast_signed().saturating_sub(120),
        policy: record.policy,
        level: None,
        began,
        time: Nanos(record.runtime),
        ended: Nanos(record.ended_runtime),
        users: (record.uid, record.euid),
        threads: 1,
        spent,
        causes: None,
    }
}

fn doing(record: &Record) -> Doing {
    match record {
        Record { exit_state: 1.., .. } => Doing::Zombie,
        Record { on_cpu: true, .. } => Doing::OnCpu(CpuId(record.cpu)),
        Record { state: 0, .. } => Doing::Runnable,
        Record { state, .. } if state & STOPPED_OR_TRACED != 0 => Doing::Stopped,
        Record { state, .. } if state & NEW != 0 => Doing::Idle,
        _ => Doing::Asleep,
    }
}

fn measured(record: &Record) -> Spent {
    let mut spent = Spent {
        voluntary: Some(record.voluntary),
        involuntary: Some(record.involuntary),
        ..Spent::default()
    };
    if let Some(account) = &record.account {
        for (state, time) in IN_ORDER.iter().zip(account.times) {
            spent.times[state.index()] = Some(Nanos(time));
        }
        spent.stopped = Nanos(account.times[STATES - 1]);
        (spent.calls, spent.signals) = (account.calls, Some(account.signals));
    }
    spent
}

fn kept(record: &Record, began: Nanos) -> Spent {
    let kept = Kept {
        age: Nanos(record.now) - began,
        time: Nanos(record.runtime),
        ticks: record.ticks,
        waited: Nanos(record.run_delay),
        voluntary: Some(record.voluntary),
        involuntary: Some(record.involuntary),
    };
    kept.spent()
}
