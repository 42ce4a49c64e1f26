//! Causes of waits, from the records of the BPF programs. Translates thread ids, and finds the holder of a contended lock in the
//! memory of the process.
//!
//! A process in a PID namespace has other thread ids than we see. The words of its memory contain its own ids.

use crate::Os;
use millpond_bpf::microstates::{self, Lock, Operation, Record};
use millpond_model::{Causes, FutexFacts, FutexOperation, LwpId, Nanos, Pid, Wait, WaitFacts};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Value of a contended mutex in the C library, and offset of the owner field in bytes.
const CONTENDED: u32 = 2;
const OWNER_BEHIND: usize = 8;
/// Mask of the owner's thread id in a futex word. The other bits mean "has waiters" and "owner died".
const HOLDER: u32 = 0x3fff_ffff;

/// Our thread id by process and thread id in its namespace.
type Numbers = BTreeMap<(u32, u32), LwpId>;

/// The causes of each record's thread, where they are recorded.
pub(super) fn of(os: &Os, records: &[Record]) -> Vec<Option<Causes>> {
    let causes = |record: &Record| record.account.and_then(|account| account.causes);
    let number = |record: &Record| Some(((record.pid, causes(record)?.own_tid), LwpId(record.tid)));
    let numbers: Numbers = records.iter().filter_map(number).collect();
    let of_one = |record: &Record| {
        let mut causes = causes(record)?;
        if causes.present.holder.is_none() && may_name_holder(&causes.present) {
            causes.present.holder = holder(os, record.pid, &causes.present);
        }
        Some(caused(&causes, record, &numbers))
    };
    records.iter().map(of_one).collect()
}

fn may_name_holder(lock: &Lock) -> bool {
    lock.waited > 0
        && match lock.operation {
            Operation::LockPi => true,
            Operation::Wait => lock.values == (CONTENDED, CONTENDED),
            Operation::RequeuePi | Operation::Several => false,
        }
}

/// The holder of a mutex with a current waiter, from the memory of the process. `None` where the memory cannot be read, or when
/// the word has changed since the wait began.
fn holder(os: &Os, pid: u32, lock: &Lock) -> Option<u32> {
    let memory = File::open(os.root.proc.join(format!("{}/mem", Pid(pid)))).ok()?;
    let mut bytes = [0; OWNER_BEHIND + 4];
    let wanted = if lock.operation == Operation::LockPi { 4 } else { bytes.len() };
    memory.read_exact_at(&mut bytes[..wanted], lock.address).ok()?;
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    match lock.operation {
        Operation::LockPi => word(0).map(|word| word & HOLDER),
        _ if word(0)? == CONTENDED => word(OWNER_BEHIND),
        _ => None,
    }
}

fn caused(causes: &microstates::Causes, record: &Record, numbers: &Numbers) -> Causes {
    let mut waits: BTreeMap<u64, Wait> = BTreeMap::new();
    let known = causes.locks.iter().chain([&causes.present]).filter(|lock| lock.waited > 0);
    for lock in known {
        let wait = wait(lock, record, numbers);
        waits.entry(lock.address).and_modify(|sum| *sum = sum.joined(&wait)).or_insert(wait);
    }
    // All waits belong to one thread.
    for wait in waits.values_mut() {
        if let WaitFacts::Futex(facts) = &mut wait.facts {
            facts.longest = wait.time;
        }
    }
    Causes { disk: Nanos(causes.disk), waits }
}

fn wait(lock: &Lock, record: &Record, numbers: &Numbers) -> Wait {
    let number = |own: u32| numbers.get(&(record.pid, own)).copied();
    let operation = match lock.operation {
        Operation::Wait => FutexOperation::Wait,
        Operation::LockPi => FutexOperation::LockPi,
        Operation::RequeuePi => FutexOperation::RequeuePi,
        Operation::Several => FutexOperation::Several,
    };
    let facts = FutexFacts {
        operation,
        shared: lock.shared,
        values: lock.values,
        woken: lock.woken.into(),
        released: lock.released.into(),
        held: Nanos(lock.held),
        held_ran: Nanos(lock.held_ran),
        held_slept: Nanos(lock.held_slept),
        apart_ran: Nanos(lock.apart_ran),
        longest: Nanos(lock.waited),
        ended: lock.ends.into(),
        names_thread: number(lock.values.1).is_some(),
        holder: lock.holder.and_then(number).filter(|holder| *holder != LwpId(record.tid)),
    };
    Wait { time: Nanos(lock.waited), facts: WaitFacts::Futex(facts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use millpond_bpf::microstates::Account;
    use std::path::PathBuf;

    const EMPTY: microstates::Causes =
        microstates::Causes { disk: 0, forgotten: 0, locks: [NONE; 8], present: NONE, own_tid: 0 };
    const NONE: Lock = Lock {
        address: 0,
        waited: 0,
        values: (0, 0),
        woken: 0,
        released: 0,
        ends: 0,
        held: 0,
        held_ran: 0,
        held_slept: 0,
        apart_ran: 0,
        holder: None,
        operation: Operation::Wait,
        shared: false,
    };

    /// A thread of process 100 with the given causes of waits.
    fn record(tid: u32, causes: microstates::Causes) -> Record {
        let account = Account { began: 1, times: [0; 8], calls: None, signals: 0, causes: Some(causes) };
        Record {
            tid,
            pid: 100,
            session: 1,
            flags: 0,
            state: 1,
            exit_state: 0,
            on_cpu: false,
            cpu: 0,
            prio: 120,
            static_prio: 120,
            policy: 0,
            started: 0,
            uid: 0,
            euid: 0,
            runtime: 0,
            ended_runtime: 0,
            ticks: [0, 0],
            voluntary: 0,
            involuntary: 0,
            run_delay: 0,
            name: "x".to_owned(),
            now: 2,
            account: Some(account),
        }
    }

    /// The facts of the first record's thread at an address.
    fn facts(records: &[Record], address: u64) -> (Nanos, FutexFacts) {
        // This path does not exist, so no memory can be read.
        let os = Os::new(Root::live(PathBuf::from("/nonexistent")));
        let found = of(&os, records);
        let wait = found[0].as_ref().unwrap().waits[&address];
        match wait.facts {
            WaitFacts::Futex(facts) => (wait.time, facts),
            WaitFacts::Told(kind) => panic!("{kind:?}"),
        }
    }

    #[test]
    fn the_wait_that_goes_on_is_one_more_at_its_word() {
        let mut causes = EMPTY;
        causes.locks[3] = Lock { address: 0x10, waited: 5, values: (2, 2), woken: 4, released: 3, ..NONE };
        causes.present = Lock { address: 0x10, waited: 7, values: (3, 3), ..NONE };
        let (time, facts) = facts(&[record(101, causes)], 0x10);
        assert_eq!((time, facts.values, facts.woken, facts.released), (Nanos(12), (2, 3), 4, 3));
        assert_eq!((facts.holder, facts.names_thread, facts.longest), (None, false, Nanos(12)));
    }

    #[test]
    fn threads_of_a_namespace_are_known_by_the_numbers_that_we_have_for_them() {
        let mut waiter = microstates::Causes { own_tid: 1, ..EMPTY };
        waiter.locks[0] = Lock { address: 0x10, waited: 5, holder: Some(2), ..NONE };
        waiter.locks[1] = Lock { address: 0x20, waited: 5, values: (2, 2), shared: true, ..NONE };
        // The thread's own id, and an id that no thread of the process has: neither is a holder.
        waiter.locks[2] = Lock { address: 0x30, waited: 5, holder: Some(1), ..NONE };
        waiter.locks[3] = Lock { address: 0x40, waited: 5, holder: Some(102), ..NONE };
        let other = record(102, microstates::Causes { own_tid: 2, ..EMPTY });
        let records = [record(101, waiter), other];
        assert_eq!(facts(&records, 0x10).1.holder, Some(LwpId(102)));
        assert!(facts(&records, 0x20).1.names_thread);
        assert_eq!(facts(&records, 0x30).1.holder, None);
        assert_eq!(facts(&records, 0x40).1.holder, None);
    }
}
