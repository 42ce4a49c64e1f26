//! What is thought of each set in one frame: its demand, what it asks for, what it should have, and what it hopes for.

use super::advice::fresh;
use super::claims::{Ask, allot, ask};
use super::{State, hope, propose};
use crate::num::{real, up};
use crate::{Demand, Frame, demand};
use millpond_model::Nanos;

/// Who asks again for a little more gets so many times what it asks for, if there is enough.
const ROOM: f64 = 1.1;

/// One set in this frame. The places are those of [`Frame::sets`].
#[derive(Debug, Clone, Copy)]
pub(super) struct SetView {
    pub demand: Option<Demand>,
    pub ask: Ask,
    /// What it should have.
    pub allotted: usize,
    /// What it asks for by this frame's demand alone.
    pub now: usize,
    /// What it needs, with what came by hope.
    pub uses: usize,
    /// How much longer its need must last to be believed.
    pub doubt: Nanos,
    /// How long what it gets will be of use.
    pub stay: Nanos,
    /// How many processors it gave for the hope of others.
    pub lent: usize,
    /// How many more it hopes for, and would if it were not hopeless.
    pub hope: usize,
    pub wish: usize,
    /// How much longer it is hopeless.
    pub hopeless: Nanos,
    /// What it should have if all that hope share by importance.
    pub fair: usize,
    /// How many more it claims of what others have by hope.
    pub claim: usize,
}

impl State {
    /// What each set asks for, at what level, and what it uses with what came by hope.
    fn asks(&mut self, frame: &Frame, demands: &[Option<Demand>]) -> (Vec<Ask>, Vec<f64>, Vec<usize>) {
        let total = frame.total();
        let (mut asks, mut levels, mut uses) = (Vec::new(), Vec::new(), Vec::new());
        for (set, demand) in frame.sets.iter().zip(demands) {
            let size = set.size();
            let memory = self.sets.entry(set.id).or_default();
            let Some(demand) = *demand else {
                // Of whom nothing is known it is believed that it needs what it has.
                let ask = ask(set, memory.level().unwrap_or(real(size)), total);
                let kept = size.clamp(ask.low, ask.high);
                asks.push(Ask { low: kept, need: kept, want: kept, high: ask.high });
                levels.push(memory.level().unwrap_or(real(size)));
                uses.push(kept);
                continue;
            };
            let now = ask(set, demand.wanted, total);
            memory.see(demand, size, now.want > size, frame);
            memory.mean_used += fresh(frame) * (demand.used - memory.mean_used);
            let level = memory.level().unwrap_or(real(size));
            let all = ask(set, level, total);
            // It asks for what it would ask for without hope.
            let level = memory.hope.own().map_or(level, |own| level.min(real(own)));
            let mut ask = Ask { high: all.high, ..ask(set, level, total) };
            // What bounds ask for needs no room.
            if memory.was_served(frame) && ask.want > ask.low {
                ask.want = up(real(ask.want) * ROOM).min(ask.high);
            }
            levels.push(level);
            // What it had and does not wait for, it does not use.
            let used = all.need.min(now.need.max(size));
            // What it claimed is not taken from it before it could use it.
            let on_trial = if memory.hope.has_claim_on_trial() { size.min(all.high) } else { 0 };
            uses.push(used.max(on_trial));
            asks.push(ask);
        }
        (asks, levels, uses)
    }

    /// What each set needs and should have.
    pub(super) fn views(&mut self, frame: &Frame) -> Vec<SetView> {
        let total = frame.total();
        let demands: Vec<Option<Demand>> = frame.sets.iter().map(|set| demand(set, frame.elapsed)).collect();
        let wanted: Vec<Option<f64>> = demands.iter().map(|demand| demand.map(|d| d.wanted)).collect();
        self.advice.see(frame, &demands);
        let (asks, levels, uses) = self.asks(frame, &demands);
        let held: Vec<usize> =
            uses.iter().zip(&asks).map(|(uses, ask)| uses.saturating_sub(ask.want)).collect();
        let allotted = allot(frame, &asks, &levels, &held);
        let view = |at: usize| {
            let set = &frame.sets[at];
            let memory = self.sets.get(&set.id);
            SetView {
                demand: demands[at],
                ask: asks[at],
                allotted: allotted[at],
                uses: uses[at],
                now: wanted[at].map_or(0, |wanted| {
                    let now = ask(set, wanted, total).want;
                    let by_little = now > set.size() && real(now) <= real(set.size()) * ROOM;
                    let again = by_little && memory.is_some_and(|memory| memory.was_served(frame));
                    if again { up(real(now) * ROOM) } else { now }
                }),
                doubt: memory.map_or(Nanos(0), |memory| memory.doubt(frame)),
                stay: memory.map_or(Nanos(0), |memory| memory.stay(frame)),
                lent: memory.map_or(0, |memory| memory.hope.lent()),
                hope: 0,
                wish: 0,
                hopeless: memory.map_or(Nanos(0), |memory| memory.hope.hopeless(frame)),
                fair: 0,
                claim: 0,
            }
        };
        let mut views: Vec<SetView> = (0..frame.sets.len()).map(view).collect();
        self.hopes(frame, &mut views);
        views
    }

    /// What sets hope for, and would hope for if none were hopeless.
    fn hopes(&self, frame: &Frame, views: &mut [SetView]) {
        let wishes = |at: usize| {
            let (set, demand) = (&frame.sets[at], views[at].demand);
            let is_on_trial = self.sets.get(&set.id).is_none_or(|memory| memory.hope.is_on_trial());
            demand.is_some_and(|demand| hope::is_full(demand, set.size()))
                && !is_on_trial
                && hope::may(frame, set)
        };
        let wishing: Vec<bool> = (0..views.len()).map(wishes).collect();
        let all = hope::share(frame, views, |at| wishing[at]);
        let some = hope::share(frame, views, |at| wishing[at] && views[at].hopeless.0 == 0);
        for (at, set) in frame.sets.iter().enumerate() {
            // Whose threads waited not long ago has said how many it needs.
            let was_served = self.sets.get(&set.id).is_some_and(|memory| memory.was_served(frame));
            let least = if was_served { hope::NOISE * real(set.size()) } else { 0.0 };
            let view = &mut views[at];
            let is_worth = |share: &usize| real(*share) > least && propose::is_worth_hoping(frame, view);
            let (wish, hope) = (Some(all[at]).filter(is_worth), Some(some[at]).filter(is_worth));
            (view.wish, view.hope) = (wish.unwrap_or(0), hope.unwrap_or(0));
        }
        let is_hoping = |views: &[SetView], at: usize| wishing[at] && views[at].hopeless.0 == 0;
        // Who is on trial may come to use all, too.
        let wants = |views: &[SetView], at: usize| {
            is_hoping(views, at)
                || views[at].demand.is_some_and(|demand| hope::is_full(demand, frame.sets[at].size()))
        };
        let fair = hope::fair(frame, views, |at| wants(views, at) && hope::may(frame, &frame.sets[at]));
        views.iter_mut().zip(fair).for_each(|(view, fair)| view.fair = fair);
        if views.iter().any(|view| view.hope > 0) {
            return;
        }
        let claims = hope::claims(frame, views, |at| is_hoping(views, at));
        for (view, claim) in views.iter_mut().zip(claims) {
            view.claim = if propose::is_worth_hoping(frame, view) { claim } else { 0 };
        }
    }
}
