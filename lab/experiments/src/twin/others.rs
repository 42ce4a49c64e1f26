//! Activity of other programs on a machine: short runs of threads of other processes.

use crate::Failure;
use crate::here::Here;
use crate::published::real;
use millpond_machine::Absent;
use millpond_machine::facets::{CensusOptions, Depth};
use millpond_model::{Microstate, Nanos, Pid, Roster};
use millpond_observe::{Follower, Picture};
use millpond_session::own_pid;

/// Length of the measurement.
const WINDOW: Nanos = Nanos::from_secs(1);

/// Activity of other processes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// How often per second one of their threads left a CPU.
    pub times_s: f64,
    /// Average run time before that, in nanoseconds.
    pub time_ns: f64,
}

impl Others {
    /// Their CPU time in percent of one CPU.
    #[must_use]
    pub fn percent(&self) -> f64 {
        self.times_s * self.time_ns / 1e7
    }
}

/// Up to this load in percent of the machine, the median of rounds equals that of an idle machine.
const BUSY_MAX: f64 = 50.0;

impl Others {
    /// Refuses to measure when other programs use too much of this many CPUs: most rounds would be late, and the longest would fail.
    pub(super) fn leave(&self, cpus: usize) -> Result<(), Failure> {
        let busy = self.percent() / 100.0;
        if self.percent() <= BUSY_MAX * real(cpus as u64) {
            return Ok(());
        }
        let why = format!("other programs use {busy:.1} of {cpus} CPUs");
        Err(Failure::NotHere(Absent::with_help(why, "stop them, or measure later: prstat -s cpu shows them")))
    }
}

/// Measures for a second, asleep.
pub(super) fn look(here: &Here<'_>) -> Result<Others, Failure> {
    let machine = here.machine();
    let census = machine.census().map_err(Failure::NotHere)?;
    let options = CensusOptions { threads: true, depth: Depth::Kept, ..CensusOptions::default() };
    let list = || census.list(options).map_err(Failure::refused("list threads"));
    let before = list()?;
    here.wait(machine.clock().now() + WINDOW)?;
    Ok(between(&before, list()?, own_pid()))
}

/// The activity of threads that exist at the end, except those of one process.
fn between(before: &Roster, after: Roster, own: Pid) -> Others {
    let mut follower = Follower::default();
    follower.begin(before);
    let Picture { roster, thread_spent, .. } = follower.next(after);
    let (mut nanos, mut times) = (0, 0);
    for (_, spent) in roster.threads.iter().zip(&thread_spent).filter(|(thread, _)| thread.lwp.pid != own) {
        let ran = |state: Microstate| spent.times[state.index()].map_or(0, |time| time.0);
        nanos += ran(Microstate::User) + ran(Microstate::System);
        times += spent.voluntary.unwrap_or(0) + spent.involuntary.unwrap_or(0);
    }
    let time_ns = if times == 0 { 0.0 } else { real(nanos) / real(times) };
    Others { times_s: real(times) / (roster.at - before.at).as_secs_f64().max(1e-9), time_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Class, Doing, Lwp, LwpId, PsetId, Spent, Standing, ThreadEntry};

    /// A thread with its start time, its run time (a third of it in the kernel), and its number of switches.
    fn thread(pid: u32, began: u64, ran: u64, times: u64) -> ThreadEntry {
        let mut spent =
            Spent { voluntary: Some(times / 2), involuntary: Some(times.div_ceil(2)), ..Spent::default() };
        spent.times[Microstate::System.index()] = Some(Nanos(ran / 3));
        spent.times[Microstate::User.index()] = Some(Nanos(ran - ran / 3));
        ThreadEntry {
            lwp: Lwp { pid: Pid(pid), lwp: LwpId(pid) },
            name: "some".into(),
            began: Nanos(began),
            standing: Standing {
                doing: Doing::Asleep,
                class: Class::Ts,
                priority: 59,
                nice: Some(0),
                cpu: None,
                home: None,
                set: PsetId::DEFAULT,
            },
            time: Nanos(ran),
            spent: Some(spent),
            causes: None,
        }
    }

    fn roster(at_ms: u64, threads: &[ThreadEntry]) -> Roster {
        Roster { at: Nanos::from_millis(at_ms), threads: threads.to_vec(), ..Roster::default() }
    }

    #[test]
    fn a_busy_machine_is_not_measured() {
        // 1,000 times 1.2 ms in a second.
        let busy = Others { times_s: 1_000.0, time_ns: 1_200_000.0 };
        let refused = busy.leave(2).unwrap_err();
        assert_eq!(refused.to_string(), "other programs use 1.2 of 2 CPUs");
        assert_eq!(refused.hint(), Some("stop them, or measure later: prstat -s cpu shows them"));
        assert!(busy.leave(3).is_ok());
    }

    #[test]
    fn what_was_added_counts() {
        let own = Pid(7);
        let begun = [
            thread(1, 0, 1_000, 10),
            thread(2, 0, 5_000, 3),
            thread(3, 0, 70, 7),
            thread(4, 0, 900, 9),
            thread(7, 0, 10, 1),
        ];
        let before = roster(1_000, &begun);
        // 1 ran 10 times for 300 ns in all; 2 did not; the id of 3 was reused; 4 ended; 5 is new; 7 is ours.
        let ended = [
            thread(1, 0, 1_300, 20),
            thread(2, 0, 5_000, 3),
            thread(3, 9, 50, 2),
            thread(5, 9, 250, 3),
            thread(7, 0, 9_000, 90),
        ];
        let others = between(&before, roster(1_500, &ended), own);
        assert_eq!(others, Others { times_s: 30.0, time_ns: 40.0 });
        // 30 times 40 ns are 1.2 us of a second.
        assert!((others.percent() - 0.000_12).abs() < 1e-12);
        assert_eq!(between(&before, roster(2_000, &begun), own), Others { times_s: 0.0, time_ns: 0.0 });
    }
}
