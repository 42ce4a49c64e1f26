//! What a CPU did while a thread waited for it.

use millpond_model::{LATENCY_STAGES, LatencySample, Moment, MomentKind, Nanos};
use serde::{Deserialize, Serialize};

/// How many of the longest waits are kept.
const KEPT: usize = 16;
/// What is not named: the thread that waits.
const PROBE: &str = "probe";

/// An activity on the CPU during a part of a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Culprit {
    /// An interrupt, a softirq or a thread.
    pub what: String,
    /// Its time.
    #[serde(rename = "ns")]
    pub had: Nanos,
}

/// One of the longest waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Worst {
    /// When its timer was due, since the start of the run.
    #[serde(rename = "at_ns")]
    pub at: Nanos,
    /// Its length.
    #[serde(rename = "total_ns")]
    pub total: Nanos,
    /// The lengths of its stages, if measured; a stage that is `None` is part of the next one.
    #[serde(rename = "stages_ns")]
    pub stages: Option<[Option<Nanos>; LATENCY_STAGES]>,
    /// Activities on the CPU, longest first.
    pub culprits: Vec<Culprit>,
}

impl Worst {
    /// Of a sample and what happened, in a run that began then.
    #[must_use]
    pub fn of(sample: &LatencySample, moments: &[Moment], began: Nanos) -> Worst {
        Worst {
            at: sample.due - began,
            total: sample.total(),
            stages: sample.stages(),
            culprits: culprits(sample, moments),
        }
    }

    /// Keeps the longest ones of a list, longest first.
    pub fn keep(list: &mut Vec<Worst>) {
        list.sort_by_key(|worst| (std::cmp::Reverse(worst.total), worst.at));
        list.dedup();
        list.truncate(KEPT);
    }
}

/// What had the CPU from the timer until user mode, longest first; of an interrupt within another one the inner one. `moments` are in order,
/// and begin before the timer: what happened before the first of them is not known.
#[must_use]
pub fn culprits(sample: &LatencySample, moments: &[Moment]) -> Vec<Culprit> {
    let mut found: Vec<Culprit> = Vec::new();
    let mut charge = |what: &str, from: Nanos, to: Nanos| {
        let had = to.min(sample.user) - from.max(sample.due);
        if had == Nanos(0) || what == PROBE {
            return;
        }
        match found.iter_mut().find(|culprit| culprit.what == what) {
            Some(culprit) => culprit.had = culprit.had + had,
            None => found.push(Culprit { what: what.to_owned(), had }),
        }
    };
    let mut task: Option<&str> = None;
    let mut within: Vec<&str> = Vec::new();
    let mut since = moments.first().map_or(sample.user, |first| first.at);
    for moment in moments {
        // Of an interrupt that began before the first moment one sees only the end.
        let unseen = (moment.kind == MomentKind::End && within.is_empty()).then_some(&*moment.what);
        if let Some(what) = unseen.or(within.last().copied()).or(task) {
            charge(what, since, moment.at);
        }
        since = moment.at;
        match moment.kind {
            MomentKind::Switch => {
                task = Some(&moment.what);
                // A switch within an interrupt there is not: its end was not seen.
                within.clear();
            }
            MomentKind::Begin => within.push(&moment.what),
            MomentKind::End => drop(within.pop()),
        }
    }
    if let Some(what) = within.last().copied().or(task) {
        charge(what, since, sample.user);
    }
    found.sort_by(|a, b| b.had.cmp(&a.had).then_with(|| a.what.cmp(&b.what)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use MomentKind::{Begin, End, Switch};
    use proptest::prelude::*;

    fn moments(list: &[(u64, &str, MomentKind)]) -> Vec<Moment> {
        list.iter()
            .map(|(at, what, kind)| Moment { at: Nanos(*at), what: (*what).into(), kind: *kind })
            .collect()
    }

    fn found(due: u64, user: u64, list: &[(u64, &str, MomentKind)]) -> Vec<(String, u64)> {
        let sample = LatencySample { due: Nanos(due), user: Nanos(user), ..LatencySample::default() };
        culprits(&sample, &moments(list)).into_iter().map(|c| (c.what, c.had.0)).collect()
    }

    #[test]
    fn an_interrupt_that_holds_the_timer_up_is_named() {
        let list = [
            (50, "idle", Switch),
            (90, "interrupt 24 (net)", Begin),
            (130, "interrupt 24 (net)", End),
            (131, "local timer interrupt", Begin),
            (140, "local timer interrupt", End),
            (142, "probe", Switch),
        ];
        let expected = [("interrupt 24 (net)", 30), ("local timer interrupt", 9), ("idle", 3)];
        assert_eq!(found(100, 150, &list), expected.map(|(what, ns)| (what.to_owned(), ns)));
    }

    #[test]
    fn what_runs_within_something_else_is_charged_alone() {
        let list = [
            (10, "task cc1 (7)", Switch),
            (100, "soft interrupt NET_RX", Begin),
            (110, "interrupt 5 (disk)", Begin),
            (120, "interrupt 5 (disk)", End),
            (150, "soft interrupt NET_RX", End),
            (160, "probe", Switch),
        ];
        let expected = [("soft interrupt NET_RX", 40), ("interrupt 5 (disk)", 10), ("task cc1 (7)", 10)];
        assert_eq!(found(100, 170, &list), expected.map(|(what, ns)| (what.to_owned(), ns)));
    }

    #[test]
    fn of_an_interrupt_that_was_under_way_the_end_is_enough() {
        let list = [(95, "interrupt 5 (disk)", End), (96, "idle", Switch), (120, "probe", Switch)];
        assert_eq!(found(100, 130, &list), [("idle".to_owned(), 20)]);
        assert_eq!(found(100, 130, &[]), []);
    }

    proptest! {
        #[test]
        fn nobody_is_charged_more_than_there_was(
            steps in proptest::collection::vec((0..100u64, 0..4usize, 0..3usize), 0..60),
            due in 0..2000u64, length in 0..2000u64,
        ) {
            let mut at = 0;
            let kinds = [Switch, Begin, End];
            let names = ["idle", "task a (1)", "interrupt 1", "probe"];
            let list: Vec<_> = steps.iter().map(|(step, name, kind)| { at += step; (at, names[*name], kinds[*kind]) }).collect();
            let all: u64 = found(due, due + length, &list).iter().map(|(_, ns)| ns).sum();
            prop_assert!(all <= length);
        }
    }
}
