//! What else runs on a machine: threads of other processes, each for a moment.

use crate::Failure;
use crate::here::Here;
use crate::published::real;
use millpond_machine::facets::{CensusOptions, Depth};
use millpond_model::{Lwp, Nanos, Roster};
use millpond_session::own_pid;
use std::collections::BTreeMap;

/// How long is looked at.
const WINDOW: Nanos = Nanos::from_secs(1);

/// What other processes ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Others {
    /// How often in a second one of their threads left a CPU.
    pub times_s: f64,
    /// How long it had it, in nanoseconds on average.
    pub time_ns: f64,
}

impl Others {
    /// Hundredths of one CPU that they took.
    #[must_use]
    pub fn percent(&self) -> f64 {
        self.times_s * self.time_ns / 1e7
    }
}

/// Looks for a second, asleep.
pub(super) fn look(here: &Here<'_>) -> Result<Others, Failure> {
    let machine = here.machine();
    let census = machine.census().map_err(Failure::NotHere)?;
    let options = CensusOptions { threads: true, depth: Depth::Kept, ..CensusOptions::default() };
    let list = || census.list(options).map_err(Failure::refused("list threads"));
    let before = list()?;
    here.wait(machine.clock().now() + WINDOW)?;
    let after = list()?;
    Ok(between(&ran(&before), &ran(&after), after.at - before.at))
}

/// What each thread of others ran since it began: nanoseconds, and how often.
fn ran(roster: &Roster) -> BTreeMap<(Lwp, Nanos), (u64, u64)> {
    let others = roster.threads.iter().filter(|thread| thread.lwp.pid != own_pid());
    others
        .map(|thread| {
            let switches = thread.spent.map_or((None, None), |spent| (spent.voluntary, spent.involuntary));
            let times = switches.0.unwrap_or(0) + switches.1.unwrap_or(0);
            ((thread.lwp, thread.began), (thread.time.0, times))
        })
        .collect()
}

/// What was added by threads that are there at the end.
fn between(
    before: &BTreeMap<(Lwp, Nanos), (u64, u64)>,
    after: &BTreeMap<(Lwp, Nanos), (u64, u64)>,
    passed: Nanos,
) -> Others {
    let (mut nanos, mut times) = (0u64, 0u64);
    for (thread, (ran, count)) in after {
        let (ran_before, count_before) = before.get(thread).copied().unwrap_or_default();
        nanos += ran.saturating_sub(ran_before);
        times += count.saturating_sub(count_before);
    }
    let time_ns = if times == 0 { 0.0 } else { real(nanos) / real(times) };
    Others { times_s: real(times) / passed.as_secs_f64().max(1e-9), time_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{LwpId, Pid};

    #[test]
    fn what_was_added_counts() {
        let thread = |pid, began| (Lwp { pid: Pid(pid), lwp: LwpId(pid) }, Nanos(began));
        let before = BTreeMap::from([
            (thread(1, 0), (1_000, 10)),
            (thread(2, 0), (5_000, 3)),
            (thread(3, 0), (70, 7)),
            (thread(4, 0), (900, 9)),
        ]);
        // 1 ran 10 times for 300 ns in all; 2 did not; 3 is another one's number now; 4 ended; 5 is new.
        let after = BTreeMap::from([
            (thread(1, 0), (1_300, 20)),
            (thread(2, 0), (5_000, 3)),
            (thread(3, 9), (50, 2)),
            (thread(5, 9), (250, 3)),
        ]);
        let others = between(&before, &after, Nanos::from_millis(500));
        assert_eq!(others, Others { times_s: 30.0, time_ns: 40.0 });
        // 30 times 40 ns are 1.2 us of a second.
        assert!((others.percent() - 0.000_12).abs() < 1e-12);
        assert_eq!(between(&before, &before, WINDOW), Others { times_s: 0.0, time_ns: 0.0 });
    }
}
