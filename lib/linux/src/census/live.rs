//! Microstates on the machine that runs the tests. The tests check relations, never absolute times: a thread that computes spends
//! most of its time on a CPU, and a sleeping thread is asleep for as long as it slept. A test that the machine or the rights do
//! not allow is skipped with a message.

use super::programs;
use crate::{Os, Root};
use millpond_bpf::microstates::{Detail, Keep, Record, Watching};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

const MANY: u64 = 50_000;

pub(super) fn own_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()
}

pub(super) fn watching(name: &str, calls: bool) -> Option<Watching> {
    let keep = Keep::Accounts(Detail { calls, causes: true });
    match programs::open(&Os::new(Root::live(PathBuf::from("/nonexistent"))), keep) {
        Ok(watching) => Some(watching),
        Err(why) => {
            println!("skipped: census::{name}: {why}");
            None
        }
    }
}

pub(super) fn listed(watching: &mut Watching) -> BTreeMap<u32, Record> {
    watching.list().unwrap().into_iter().map(|record| (record.tid, record)).collect()
}

/// Time that a thread spent between two readings, by state.
pub(super) fn between(before: &BTreeMap<u32, Record>, after: &BTreeMap<u32, Record>, tid: u32) -> [u64; 8] {
    let (before, after) = (before[&tid].account.unwrap(), after[&tid].account.unwrap());
    std::array::from_fn(|state| after.times[state] - before.times[state])
}

/// Makes `times` system calls.
fn call(times: u64) {
    for _ in 0..times {
        let _ = rustix::process::getppid();
    }
}

#[test]
fn each_moment_of_every_thread_belongs_to_one_state() {
    for calls in [false, true] {
        let name = "live::each_moment_of_every_thread_belongs_to_one_state";
        let Some(mut watching) = watching(name, calls) else { return };
        listed(&mut watching);
        call(MANY);
        listed(&mut watching);
        call(MANY);
        let records = watching.list().unwrap();
        assert!(records.iter().any(|record| record.tid == own_number()));
        for record in records {
            let account = record.account.unwrap();
            assert_eq!(account.times.iter().sum::<u64>(), record.now - account.began, "{record:?}");
            assert_eq!(account.calls.is_some(), calls);
        }
    }
}

#[test]
fn what_a_thread_does_is_found_in_its_state() {
    for calls in [false, true] {
        let Some(watching) = watching("live::what_a_thread_does_is_found_in_its_state", calls) else {
            return;
        };
        check_states(watching, calls);
    }
}

fn check_states(mut watching: Watching, keeps_calls: bool) {
    let (tell, hear) = mpsc::channel();
    let (gate, open) = (Mutex::new(false), Condvar::new());
    let (before, after, waiter, sleeper) = std::thread::scope(|scope| {
        let (gate, open) = (&gate, &open);
        // Waits in a futex until the end.
        let name = tell.clone();
        scope.spawn(move || {
            name.send(own_number()).unwrap();
            let _end = open.wait_while(gate.lock().unwrap(), |open| !*open);
        });
        let waiter = hear.recv().unwrap();
        // Sleeps on a pipe until the end.
        let (mut reader, writer) = std::io::pipe().unwrap();
        let name = tell.clone();
        scope.spawn(move || {
            name.send(own_number()).unwrap();
            let _ = std::io::Read::read(&mut reader, &mut [0]);
        });
        let sleeper = hear.recv().unwrap();
        while listed(&mut watching)
            .values()
            .filter(|r| [waiter, sleeper].contains(&r.tid) && r.state != 0)
            .count()
            < 2
        {
            std::thread::yield_now();
        }
        let before = listed(&mut watching);
        let began = Instant::now();
        call(MANY);
        while began.elapsed() < Duration::from_millis(300) {
            std::hint::spin_loop();
        }
        let after = listed(&mut watching);
        drop(writer);
        *gate.lock().unwrap() = true;
        open.notify_all();
        (before, after, waiter, sleeper)
    });
    let spent = between(&before, &after, own_number());
    let [user, system, _, _, lock, _, waiting, _] = spent;
    let calls = |at: &BTreeMap<u32, Record>| at[&own_number()].account.unwrap().calls;
    assert!(!keeps_calls || calls(&after).unwrap() - calls(&before).unwrap() >= MANY);
    assert!(user > 0 && (system > 0 || !keeps_calls), "{spent:?}");
    // Loading BPF programs in another test can delay the last reading.
    let whole = spent.iter().sum::<u64>() - lock;
    assert!(user + system + waiting > whole / 10 * 9, "{spent:?}");
    for (tid, state) in [(waiter, 4), (sleeper, 5)] {
        let spent = between(&before, &after, tid);
        assert!(spent[state] > spent.iter().sum::<u64>() / 10 * 9, "{tid}: {spent:?}");
    }
}
