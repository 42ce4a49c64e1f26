//! Rosters to what `prstat` shows: where time went since the one before, and recent use of CPUs.
//!
//! Recent use decays: after a time t in which a part u of it was used, p becomes p e^(-t/τ) + u (1 - e^(-t/τ)), with τ = 21.5 s (reference
//! §4.5: 2^31 decay factors of 10 ns). What is seen for the first time is taken to have used its CPU evenly since it began.

use millpond_model::{Lwp, MICROSTATES, Nanos, Pid, Roster, Spent};
use std::collections::HashMap;

/// τ, in seconds: 2^31 times 10 ns.
const DECAY_S: f64 = 2_147_483_648.0 * 10e-9;

/// A thread or process, so that a later one of the same number is another one.
type Key<Id> = (Id, Nanos);

/// What is known of CPU time from one roster to the next.
#[derive(Debug, Clone, Copy)]
struct Use {
    time: Nanos,
    recent: f64,
}

/// A roster, and beside each of its entries what was made of it.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    /// What was seen.
    pub roster: Roster,
    /// The time between it and the one before; `None` when it is about the life of each.
    pub elapsed: Option<Nanos>,
    /// For each process, recent use in percent of all CPUs.
    pub process_use: Vec<f64>,
    /// For each thread likewise.
    pub thread_use: Vec<f64>,
    /// For each process, what its threads spent since the roster before.
    pub process_spent: Vec<Spent>,
    /// For each thread likewise.
    pub thread_spent: Vec<Spent>,
}

/// Follows a machine from roster to roster.
#[derive(Debug, Default)]
pub struct Follower {
    at: Option<Nanos>,
    processes: HashMap<Key<Pid>, Use>,
    threads: HashMap<Key<Lwp>, Use>,
    spent: HashMap<Key<Lwp>, Spent>,
}

impl Follower {
    /// From this roster on time is counted, which is the first one of a watch.
    pub fn begin(&mut self, roster: &Roster) {
        self.spent = spent_of(roster);
    }

    /// What the roster shows beside the one before. What was not in that one is shown as a whole.
    pub fn next(&mut self, roster: Roster) -> Picture {
        let elapsed = self.at.map(|before| roster.at - before);
        let thread_spent: Vec<Spent> = roster
            .threads
            .iter()
            .map(|t| {
                let now = t.spent.unwrap_or_default();
                self.spent.get(&(t.lwp, t.began)).map_or(now, |before| since(&now, before))
            })
            .collect();
        let processors = f64::from(roster.processors.max(1));
        let decay = |known: Option<&Use>, time, began| recent(known, time, roster.at - began, elapsed);
        let processes: Vec<(Key<Pid>, Use)> = roster
            .processes
            .iter()
            .map(|p| ((p.pid, p.began), decay(self.processes.get(&(p.pid, p.began)), p.time, p.began)))
            .collect();
        let threads: Vec<(Key<Lwp>, Use)> = roster
            .threads
            .iter()
            .map(|t| ((t.lwp, t.began), decay(self.threads.get(&(t.lwp, t.began)), t.time, t.began)))
            .collect();
        let percent = |used: &Use| 100.0 * used.recent / processors;
        let picture = Picture {
            elapsed,
            process_use: processes.iter().map(|(_, used)| percent(used)).collect(),
            thread_use: threads.iter().map(|(_, used)| percent(used)).collect(),
            process_spent: by_process(&roster, &thread_spent),
            thread_spent,
            roster,
        };
        self.at = Some(picture.roster.at);
        self.spent = spent_of(&picture.roster);
        self.processes = processes.into_iter().collect();
        self.threads = threads.into_iter().collect();
        picture
    }
}

fn spent_of(roster: &Roster) -> HashMap<Key<Lwp>, Spent> {
    roster.threads.iter().filter_map(|t| Some(((t.lwp, t.began), t.spent?))).collect()
}

/// Recent use, as a part of one CPU; threads of a process may use several.
fn recent(known: Option<&Use>, time: Nanos, age: Nanos, elapsed: Option<Nanos>) -> Use {
    let (before, used, passed) = match (known, elapsed) {
        (Some(known), Some(elapsed)) => (known.recent, time - known.time, elapsed),
        _ => (0.0, time, age),
    };
    if passed == Nanos(0) {
        return Use { time, recent: before };
    }
    let kept = (-passed.as_secs_f64() / DECAY_S).exp();
    let part = used.as_secs_f64() / passed.as_secs_f64();
    Use { time, recent: before * kept + part * (1.0 - kept) }
}

/// What was spent between two looks. Nothing goes back.
fn since(now: &Spent, before: &Spent) -> Spent {
    let counted = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
    Spent {
        times: std::array::from_fn(|n| Some(now.times[n]? - before.times[n].unwrap_or(Nanos(0)))),
        stopped: now.stopped - before.stopped,
        capped: now.capped.map(|now| now - before.capped.unwrap_or(Nanos(0))),
        voluntary: counted(now.voluntary, before.voluntary),
        involuntary: counted(now.involuntary, before.involuntary),
        calls: counted(now.calls, before.calls),
        signals: counted(now.signals, before.signals),
    }
}

/// The sums over the threads of each process.
fn by_process(roster: &Roster, spent: &[Spent]) -> Vec<Spent> {
    let mut sums: HashMap<Pid, Spent> = HashMap::new();
    for (thread, spent) in roster.threads.iter().zip(spent) {
        let sum = sums.entry(thread.lwp.pid).or_default();
        *sum = both(sum, spent);
    }
    roster.processes.iter().map(|p| sums.get(&p.pid).copied().unwrap_or_default()).collect()
}

pub(crate) fn both(a: &Spent, b: &Spent) -> Spent {
    let count = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    };
    let time = |a: Option<Nanos>, b: Option<Nanos>| count(a.map(|t| t.0), b.map(|t| t.0)).map(Nanos);
    Spent {
        times: std::array::from_fn(|n| time(a.times[n], b.times[n])),
        stopped: a.stopped + b.stopped,
        capped: time(a.capped, b.capped),
        voluntary: count(a.voluntary, b.voluntary),
        involuntary: count(a.involuntary, b.involuntary),
        calls: count(a.calls, b.calls),
        signals: count(a.signals, b.signals),
    }
}

/// Percent of all the time that was spent, by microstate. Together with the time in which it was stopped they are 100, or 0 when no time was
/// spent.
#[must_use]
pub fn percents(spent: &Spent) -> [Option<f64>; MICROSTATES.len()] {
    let total = spent.total().as_secs_f64();
    spent.times.map(|time| {
        let part = time?.as_secs_f64();
        Some(if total > 0.0 { 100.0 * part / total } else { 0.0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Class, Doing, LwpId, Named, ProcessEntry, PsetId, Standing, ThreadEntry};
    use proptest::prelude::*;

    const STANDING: Standing = Standing {
        doing: Doing::Asleep,
        class: Class::Ts,
        priority: 59,
        nice: Some(0),
        cpu: None,
        home: None,
        set: PsetId::DEFAULT,
    };

    /// A machine of two CPUs with one process that began at its boot.
    fn roster(at_s: u64, time_s: u64, threads: &[(u32, Spent)]) -> Roster {
        let thread = |(lwp, spent): &(u32, Spent)| ThreadEntry {
            lwp: Lwp { pid: Pid(1), lwp: LwpId(*lwp) },
            name: "x".into(),
            began: Nanos(0),
            standing: STANDING,
            time: Nanos::from_secs(time_s),
            spent: Some(*spent),
            causes: None,
        };
        let process = ProcessEntry {
            pid: Pid(1),
            name: "x".into(),
            began: Nanos(0),
            standing: STANDING,
            time: Nanos::from_secs(time_s),
            threads: 1,
            euid: 0,
            uid: 0,
            size: None,
            rss: None,
            zone: Named::default(),
            task: 0,
            project: Named::default(),
        };
        Roster {
            at: Nanos::from_secs(at_s),
            processors: 2,
            processes: vec![process],
            threads: threads.iter().map(thread).collect(),
            ..Roster::default()
        }
    }

    fn spent(user: u64, sleep: u64) -> Spent {
        let mut spent = Spent { calls: Some(user), ..Spent::default() };
        (spent.times[0], spent.times[6]) = (Some(Nanos(user)), Some(Nanos(sleep)));
        spent
    }

    #[test]
    fn use_decays_by_a_fifth_in_five_seconds() {
        let mut follower = Follower::default();
        // It used one of two CPUs since boot, for ever so long.
        let first = follower.next(roster(100_000, 100_000, &[]));
        assert!((first.process_use[0] - 50.0).abs() < 1e-9);
        let second = follower.next(roster(100_005, 100_000, &[]));
        assert!((second.process_use[0] - 50.0 * (-5.0 / DECAY_S).exp()).abs() < 1e-9);
        assert!((second.process_use[0] / first.process_use[0] - 0.79).abs() < 0.01);
        assert_eq!((first.elapsed, second.elapsed), (None, Some(Nanos::from_secs(5))));
    }

    #[test]
    fn a_report_is_about_the_time_since_the_one_before_and_new_threads_are_shown_whole() {
        let mut follower = Follower::default();
        follower.next(roster(10, 0, &[(1, spent(10, 90))]));
        let picture = follower.next(roster(20, 0, &[(1, spent(40, 160)), (2, spent(5, 5))]));
        assert_eq!(picture.thread_spent, [spent(30, 70), spent(5, 5)]);
        assert_eq!(picture.process_spent, [spent(35, 75)]);
        let parts = percents(&picture.thread_spent[0]).map(|part| part.map(f64::round));
        assert_eq!((parts[0], parts[1], parts[6]), (Some(30.0), None, Some(70.0)));
    }

    #[test]
    fn a_watch_begins_where_it_begins() {
        let mut follower = Follower::default();
        follower.begin(&roster(10, 0, &[(1, spent(7, 0))]));
        follower.next(roster(10, 0, &[(1, spent(1000, 0))]));
        follower.begin(&roster(10, 0, &[(1, spent(7, 0))]));
        let picture = follower.next(roster(11, 0, &[(1, spent(8, 3))]));
        assert_eq!(picture.thread_spent, [spent(1, 3)]);
    }

    #[test]
    fn a_later_thread_of_the_same_number_is_another_one() {
        let mut follower = Follower::default();
        follower.next(roster(10, 0, &[(1, spent(100, 0))]));
        let mut later = roster(20, 0, &[(1, spent(3, 2))]);
        later.threads[0].began = Nanos::from_secs(15);
        assert_eq!(follower.next(later).thread_spent, [spent(3, 2)]);
    }

    fn any_spent() -> impl Strategy<Value = Spent> {
        let times = proptest::array::uniform8(proptest::option::of(0u64..1 << 50));
        (times, 0u64..1 << 50).prop_map(|(times, stopped)| Spent {
            times: times.map(|time| time.map(Nanos)),
            stopped: Nanos(stopped),
            ..Spent::default()
        })
    }

    proptest! {
        #[test]
        fn what_a_thread_did_is_a_hundred_percent(spent in any_spent()) {
            let parts = percents(&spent);
            let sum: f64 = parts.iter().flatten().sum();
            let stopped = 100.0 * spent.stopped.as_secs_f64() / spent.total().as_secs_f64().max(1e-9);
            let whole = if spent.total() == Nanos(0) { 0.0 } else { 100.0 };
            prop_assert!((sum + stopped - whole).abs() < 1e-6);
            prop_assert!(parts.iter().zip(&spent.times).all(|(part, time)| part.is_some() == time.is_some()));
        }

        #[test]
        fn the_same_columns_remain_between_any_two_looks(now in any_spent(), before in any_spent()) {
            let change = since(&now, &before);
            for (n, time) in now.times.iter().enumerate() {
                prop_assert_eq!(change.times[n].is_some(), time.is_some());
            }
            prop_assert!(change.total() <= now.total());
        }
    }
}
