//! The reasons of a plan as text. Each consists of a [`Phrase`] and figures.

use super::propose::Proposal;
use super::speculation::NOISE;
use super::view::SetView;
use crate::convert::real;
use crate::{Frame, SetFrame};
use millpond_model::Nanos;
use std::fmt::Write;

/// The number of sets that a reason names.
const NAMED: usize = 4;

millpond_model::words! {
    /// The fixed text of a reason, without names and figures. A test has a case for each.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Phrase {
        /// There is nothing to do.
        NothingLacks = "no set lacks anything",
        /// A set cannot get its minimum.
        BelowMinimum = "of its minimum of",
        /// A set lacks CPUs and has its maximum.
        AtMaximum = "has its maximum",
        /// A set lacks CPUs and has its share by weight.
        HasShare = "has its share",
        /// A set lacks a fraction of a CPU.
        HardlyMore = "would hardly use more",
        /// A set may lack CPUs, but did not use them before.
        BackedOff = "but it had more before and did not use it",
        /// An objective waits for savings.
        Unaffordable = "it gets more when that can cost no more than 0.5 % of the work that is done",
        /// An objective waits for CPUs.
        Kept = "other sets need the rest, or needed it recently",
        /// Moves cost more than they gain.
        NotWorth = "s of CPU time and cost",
        /// A batch was written recently.
        Dear = "more than a hundredth of the interval: the next one in",
        /// No set can give a CPU.
        NothingToSpare = "no set has anything to spare",
        /// A set is filled up to its minimum.
        Minimum = "its minimum is",
        /// A set gets CPUs that other sets hold.
        Claim = "and others hold more than their share",
        /// A set gets idle CPUs beyond its need.
        NeedAndIdle = "more: they may be of use to it",
        /// A set gets idle CPUs.
        Idle = "and no other set needs",
        /// A set gets CPUs for an objective.
        Objective = "its objective asks for",
        /// A set gets the CPUs that it needs.
        Need = "more wanted",
        /// A set gets CPUs that are above the maximum of other sets.
        Room = "others have more than their maximum",
        /// A set must give CPUs.
        OverMaximum = "its maximum is",
        /// Needs do not fit.
        ByWeight = "shared by weight",
        /// Of an alternative: idle CPUs were not used before.
        NotUsedBefore = "idle CPUs were not used before",
        /// Of an alternative: it leaves idle CPUs.
        LeavesIdle = "idle CPUs may be of use to a set that is always busy",
        /// Of an alternative: it costs more than it gains.
        CostsMore = "it would cost more than it wins",
        /// Of an alternative: it must wait.
        MustWait = "the next batch must wait",
        /// Of doing nothing: an objective is not met.
        Unmet = "an objective would not be met",
        /// Of doing nothing: no gain.
        WinsNothing = "to do nothing wins nothing",
    }
}

/// `2.5 of 4 used, 1.5 more wanted`.
fn state(frame: &Frame, views: &[SetView], at: usize) -> String {
    let size = frame.sets[at].size();
    match views[at].demand {
        // Only bounds move CPUs of an unmeasured set, and the reason then names the bounds.
        None => "not measured".to_owned(),
        Some(demand) if demand.wanted > real(size) => {
            let lacks = demand.wanted - real(size);
            format!("{:.1} of {size} used, {lacks:.1} {}", demand.used, Phrase::Need)
        }
        Some(demand) => format!("{:.1} of {size} used", demand.used),
    }
}

/// The first few parts, and the number of the others.
fn few(parts: Vec<String>) -> String {
    let more = parts.len().saturating_sub(NAMED);
    let mut text = parts.into_iter().take(NAMED).collect::<Vec<_>>().join("; ");
    if more > 0 {
        _ = write!(text, "; and {more} more");
    }
    text
}

/// The sets with less than their usage, their demand or their minimum.
fn lacking(frame: &Frame, views: &[SetView]) -> Vec<usize> {
    let lacks = |at: &usize| {
        let (size, view) = (frame.sets[*at].size(), &views[*at]);
        size < view.ask.low || view.demand.is_some_and(|demand| demand.cpus() > size)
    };
    (0..views.len()).filter(lacks).collect()
}

/// The reason to do nothing if no set lacks anything that it may have. `preferred` are the sizes for objectives without the limit of the
/// savings.
pub(super) fn nothing(frame: &Frame, views: &[SetView], preferred: &[usize]) -> String {
    let lacking = lacking(frame, views);
    if lacking.is_empty() {
        let first = vec![Phrase::NothingLacks.to_string()];
        return few([first, backoffs(frame, views), preferences(frame, views, preferred)].concat());
    }
    let say = |at: usize| {
        let (set, view) = (&frame.sets[at], &views[at]);
        if set.size() < view.ask.low {
            return format!("{} has {} {} {}", set.name, set.size(), Phrase::BelowMinimum, view.ask.low);
        }
        let why = if set.size() >= set.max {
            Phrase::AtMaximum
        } else if view.allotted <= set.size() {
            Phrase::HasShare
        } else {
            Phrase::HardlyMore
        };
        format!("{} {why} ({})", set.name, state(frame, views, at))
    };
    few(lacking.into_iter().map(say).collect())
}

/// The sets whose utilization objective asks for more than they have.
fn preferences(frame: &Frame, views: &[SetView], preferred: &[usize]) -> Vec<String> {
    let asks = |at: &usize| {
        let size = real(frame.sets[*at].size());
        real(views[*at].ask.preferred) - size > NOISE * size
    };
    let say = |at: usize| {
        let (set, asked) = (&frame.sets[at], views[at].ask.preferred);
        let why = if preferred[at] > 0 { Phrase::Unaffordable } else { Phrase::Kept };
        format!("the objective of {} asks for {asked} and it has {}: {why}", set.name, set.size())
    };
    (0..views.len()).filter(asks).map(say).collect()
}

/// The sets that get no idle CPUs because of their backoff.
fn backoffs(frame: &Frame, views: &[SetView]) -> Vec<String> {
    let sets =
        frame.sets.iter().zip(views).filter(|(_, view)| view.backoff.0 > 0 && view.without_backoff > 0);
    let say = |(set, view): (&SetFrame, &SetView)| {
        format!(
            "{} uses all of its {}, {}: it is asked again in {:.1} s",
            set.name,
            set.size(),
            Phrase::BackedOff,
            view.backoff.as_secs_f64()
        )
    };
    sets.map(say).collect()
}

/// The reason against moves that cost too much.
pub(super) fn not_worth(proposal: &Proposal) -> String {
    format!(
        "moving {} would win {:.3} {} {:.3} s",
        proposal.moves.len(),
        proposal.gain,
        Phrase::NotWorth,
        proposal.cost
    )
}

/// The reason for the delay of a batch.
pub(super) fn dear(frame: &Frame, wait: Nanos) -> String {
    format!(
        "writing a batch takes {:.1} ms, {} {:.1} s",
        frame.costs.batch.as_secs_f64() * 1e3,
        Phrase::Dear,
        wait.as_secs_f64()
    )
}

/// The reason for moves.
pub(super) fn reason(frame: &Frame, views: &[SetView], proposal: &Proposal, why: &str) -> String {
    let mut parts = Vec::new();
    for (at, set) in frame.sets.iter().enumerate().filter(|(at, _)| proposal.gets[*at] > 0) {
        let (size, gets) = (set.size(), proposal.gets[at]);
        let extra = proposal.speculative[at];
        let because = match () {
            () if size < set.min => format!("{} {}", Phrase::Minimum, set.min),
            () if proposal.claims[at] > 0 => {
                format!("it uses all of its {size} {}", Phrase::Claim)
            }
            () if extra > 0 && extra < gets => {
                let state = state(frame, views, at);
                format!("{state}; no other set needs {extra} {}", Phrase::NeedAndIdle)
            }
            () if extra > 0 => {
                format!("it uses all of its {size} {} {extra}: they may be of use to it", Phrase::Idle)
            }
            () if proposal.preferred[at] > 0 => {
                let (asked, state) = (views[at].ask.preferred, state(frame, views, at));
                format!("{state}; {} {asked}, and no other set needed {gets} recently", Phrase::Objective)
            }
            () if views[at].now > size => state(frame, views, at),
            () => Phrase::Room.to_string(),
        };
        parts.push(format!("{} {size} -> {} ({because})", set.name, size + gets));
    }
    for (at, set) in frame.sets.iter().enumerate().filter(|(at, _)| proposal.gives[*at] > 0) {
        let (size, gives) = (set.size(), proposal.gives[at]);
        let because = if size > set.max {
            format!("{} {}", Phrase::OverMaximum, set.max)
        } else {
            state(frame, views, at)
        };
        parts.push(format!("{} {size} -> {} ({because})", set.name, size - gives));
    }
    let mut text = few(parts);
    let needs: usize = views.iter().map(|view| view.ask.need).sum();
    if needs > frame.total() && !proposal.moves.is_empty() {
        _ = write!(text, "; all together need {needs} of {}, {}", frame.total(), Phrase::ByWeight);
    }
    if proposal.moves.is_empty() && why.is_empty() {
        let nothing = nothing(frame, views, &vec![0; views.len()]);
        let is_lacking = !lacking(frame, views).is_empty();
        return if is_lacking { format!("{}: {nothing}", Phrase::NothingToSpare) } else { nothing };
    }
    if !why.is_empty() {
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(why);
    }
    text
}
