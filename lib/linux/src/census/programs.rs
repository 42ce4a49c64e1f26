//! Threads from the BPF programs that list them (`lib/bpf`).

use crate::Os;
use crate::census::entries::{BEGAN_NS, Kept, Seen};
use crate::census::wait_causes;
use millpond_bpf::microstates::{Keep, Record, STATES, Watching};
use millpond_machine::facets::Depth;
use millpond_machine::{Reason, Refusal};
use millpond_model::{CpuId, Doing, Microstate, Nanos, Spent, printable};

/// Bits of the kernel's thread state.
const STOPPED_OR_TRACED: u32 = 0x4 | 0x8;
const NEW: u32 = 0x800;

/// The microstates in the order of the BPF programs; the last one here is "stopped".
const IN_ORDER: [Microstate; STATES - 1] = [
    Microstate::User,
    Microstate::System,
    Microstate::TextFault,
    Microstate::DataFault,
    Microstate::Lock,
    Microstate::Sleep,
    Microstate::Latency,
];

/// Loads the BPF programs.
///
/// # Errors
/// Why they are unavailable, as the second half of a sentence.
pub(super) fn open(os: &Os, keep: Keep) -> Result<Watching, String> {
    if !os.root.is_live() {
        return Err("it is a captured machine".to_owned());
    }
    os.takes_programs()?;
    Watching::open(keep, os.width()).map_err(|why| why.to_string())
}

/// All threads, ascending, and the time of the list. Each thread is read at its own time; the result is the middle one.
/// `suspended` is the time for which the machine was suspended.
///
/// # Errors
/// [`Refusal`] when the kernel does not list them.
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
    // The kernel lists threads in one order, so their times ascend.
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
