//! The class FSS: fair shares (FSS(4)).
//!
//! A project's *usage* is the run time of its threads in each second, weighted by nice; it decays by a quarter each second. Once
//! a second, for each processor set, usage is *normalised* by the square of the project's fraction of the set's active shares. For
//! each tick that a thread runs, its `fsspri` grows by the normalised usage times the runnable threads of its project. It decays each
//! second. The largest `fsspri` of a set maps to the lowest priority. So projects with more than their shares sink, and those
//! with less rise, until usage is proportional to shares: with squares, threads are at equal priority when usage divided by
//! shares is the same for each project.
//!
//! Threads whose project or zone has no shares have priority 0: they run when nothing else does.
//!
//! Addition of this project, because Solaris has no shares of processes: a process with shares of its own counts in its
//! project as that many threads, independent of its number of threads.

use super::class::{Class, End};
use super::class_state::{ClassState, FssSet, FssState, UPRI_MAX};
use super::holder::Level;
use super::ids::{HolderIndex, Id, PartitionId, ThreadId};
use super::partition::{ASIDE, DEFAULT};
use super::state::Kernel;
use super::sys::SYS;
use super::thread::RunState;
use millpond_model::ClassParams;
use std::collections::BTreeMap;

/// The best user-mode priority.
const TOP: u8 = 59;
/// The user-mode priority of a thread that enters the class. The manual does not state it; this is the priority of a thread without usage.
const ENTRY: u8 = TOP;
/// Denominator of the decay factors.
const DECAY_BASE: u64 = 128;
/// A project's usage decays by 96/128 per second.
const DECAY_USAGE: u64 = 96;
/// A thread's `fsspri` decays by 83/128 per second at nice 0, and by 108/128 at nice 39; linear in between.
const DECAY_NICE_0: u64 = 83;
/// See [`DECAY_NICE_0`].
const DECAY_NICE_39: u64 = 108;
/// The default nice value.
const NZERO: u8 = 20;
/// The project of threads without a holder.
const NOBODY: HolderIndex = HolderIndex(u32::MAX);

/// The nice value of a user priority, 0 to 39.
fn nice(upri: i8) -> u8 {
    let nice = i16::from(NZERO) - i16::from(upri) * 20 / i16::from(UPRI_MAX);
    u8::try_from(nice.clamp(0, 39)).unwrap_or(NZERO)
}

fn decay(nice: u8) -> u64 {
    DECAY_NICE_0 + (DECAY_NICE_39 - DECAY_NICE_0) * u64::from(nice) / 39
}

/// The weight of a thread's tick.
fn weight(nice: u8) -> u64 {
    1000 * (60 - u64::from(nice.min(39))) / 40
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

pub(super) const FSS: Class = Class {
    enter: Kernel::fss_entry,
    set_params: Kernel::fss_set_params,
    store: fss_store,
    unset: ClassParams::Fss { uprilim: 0, upri: 0 },
    params: |state| {
        let FssState { uprilim, upri, .. } = *fss_of(state);
        ClassParams::Fss { uprilim, upri }
    },
    priority: |state| Some(i16::from(fss_of(state).umdpri)),
    tick: Kernel::fss_tick,
    preempt: Kernel::fss_preempt,
    wakeup: Kernel::fss_wakeup,
    yield_cpu: Kernel::fss_yield,
    fork: Kernel::fss_child,
    forkret: Kernel::fss_forkret,
    update: Kernel::fss_update,
    check: |kernel, thread| {
        let state = fss_of(&thread.class);
        if state.umdpri > TOP || state.decayed > kernel.beats() {
            return Err("has a level that FSS does not have");
        }
        Ok(())
    },
    ..SYS
};

fn fss_of(state: &ClassState) -> &FssState {
    match state {
        ClassState::Fss(state) => state,
        other => unreachable!("a thread of {other:?} in the rules of FSS"),
    }
}

/// The FSS parameters: user priority limit and user priority.
fn values(params: ClassParams) -> (i8, i8) {
    let ClassParams::Fss { uprilim, upri } = params else {
        unreachable!("parameters {params} in the rules of FSS")
    };
    (uprilim, upri)
}

fn fss_store(state: &mut ClassState, params: ClassParams) {
    let ClassState::Fss(state) = state else { return };
    let (uprilim, upri) = values(params);
    let uprilim = uprilim.clamp(-UPRI_MAX, UPRI_MAX);
    (state.uprilim, state.upri) = (uprilim, upri.clamp(-UPRI_MAX, uprilim));
}

impl Kernel {
    fn fss_entry(&self, params: ClassParams) -> ClassState {
        let (uprilim, upri) = values(params);
        ClassState::Fss(FssState {
            fsspri: 0,
            umdpri: ENTRY,
            upri,
            uprilim,
            timeleft: i64::from(self.tables.fss.ticks()),
            ticks: 0,
            decayed: self.beats(),
            back: false,
        })
    }

    fn fss(&mut self, thread: ThreadId) -> &mut FssState {
        match &mut self.threads[thread].class {
            ClassState::Fss(state) => state,
            other => unreachable!("a thread of {other:?} in the rules of FSS"),
        }
    }

    fn fss_seen(&self, thread: ThreadId) -> &FssState {
        fss_of(&self.threads[thread].class)
    }

    fn fss_refill(&mut self, thread: ThreadId) {
        let slice = i64::from(self.tables.fss.ticks());
        self.fss(thread).timeleft = slice;
    }

    /// The partition that a thread shares: ASIDE counts as the default one.
    fn fss_part(&self, thread: ThreadId) -> PartitionId {
        let part = self.thread(thread).part;
        if part == ASIDE { DEFAULT } else { part }
    }

    /// The project of a holder.
    fn project_of(&self, holder: HolderIndex) -> HolderIndex {
        match self.holders.row(holder) {
            Some(found) if found.level == Level::Process => found.parent.unwrap_or(NOBODY),
            _ => holder,
        }
    }

    fn fss_project(&self, thread: ThreadId) -> HolderIndex {
        self.thread(thread).holder.map_or(NOBODY, |holder| self.project_of(holder))
    }

    /// The shares of a project, and its zone with its shares.
    fn fss_shares(&self, project: HolderIndex) -> (u128, HolderIndex, u128) {
        let shares = |holder: HolderIndex| {
            let found = self.holders.row(holder);
            u128::from(found.and_then(|holder| holder.shares).unwrap_or(1))
        };
        let zone = self.holders.row(project).and_then(|project| project.parent).unwrap_or(NOBODY);
        (shares(project), zone, shares(zone))
    }

    /// Numbers of runnable FSS threads by holder in a partition.
    fn fss_runnable(&self, part: PartitionId) -> impl Iterator<Item = (HolderIndex, u64)> + '_ {
        let here = self.index.fss.range((part, HolderIndex(0))..=(part, HolderIndex(u32::MAX)));
        here.filter(|(_, count)| **count > 0).map(|((_, holder), count)| (*holder, *count))
    }

    /// Decays and normalises usage, once a second for each set.
    fn fss_decay(&mut self) {
        for part in self.fss.ids() {
            // Active shares of each zone's projects, and of the zones.
            let mut zones: BTreeMap<HolderIndex, (u128, u128)> = BTreeMap::new();
            let active: std::collections::BTreeSet<HolderIndex> =
                self.fss_runnable(part).map(|(holder, _)| self.project_of(holder)).collect();
            for project in active {
                let (shares, zone, of_zone) = self.fss_shares(project);
                let sum = zones.entry(zone).or_insert((0, of_zone));
                sum.0 += shares;
            }
            let set: u128 = zones.values().map(|(_, of_zone)| of_zone).sum();
            let projects: Vec<HolderIndex> = self.fss[part].projects.keys().copied().collect();
            for project in projects {
                let (shares, zone, of_zone) = self.fss_shares(project);
                let internal = zones.get(&zone).map_or(shares, |(internal, _)| *internal);
                let here = &mut self.fss[part];
                let Some(entry) = here.projects.get_mut(&project) else { continue };
                let kept = entry.usage.saturating_mul(DECAY_USAGE) / DECAY_BASE;
                entry.usage = kept.saturating_add(std::mem::take(&mut entry.ticks));
                let (numerator, denominator) = (set.max(1) * internal, shares * of_zone);
                // Multiply and divide in turn: usage times the squared shares of thousands of projects exceeds 128 bits.
                let by = |value: u128| value.saturating_mul(numerator).checked_div(denominator).unwrap_or(0);
                entry.shusage = narrow(by(by(u128::from(entry.usage))));
                if entry.usage == 0 {
                    here.projects.remove(&project);
                }
            }
            let here = &mut self.fss[part];
            here.largest =
                narrow(u128::from(here.largest) * u128::from(decay(NZERO)) / u128::from(DECAY_BASE));
        }
    }

    /// The runnable threads of a thread's project in units of this thread's weight, in 65,536ths.
    fn fss_beside(&self, thread: ThreadId) -> u128 {
        const ONE: u128 = 1 << 16;
        let project = self.fss_project(thread);
        let weigh = |holder: HolderIndex, count: u64| match self.holders.row(holder) {
            Some(found) if found.level == Level::Process => match found.shares {
                Some(shares) => u128::from(shares) * ONE,
                None => u128::from(count) * ONE,
            },
            _ => u128::from(count) * ONE,
        };
        let mut together = 0;
        let mut own = ONE;
        for (holder, count) in self.fss_runnable(self.fss_part(thread)) {
            if self.project_of(holder) == project {
                let heavy = weigh(holder, count);
                together += heavy;
                if self.thread(thread).holder == Some(holder) {
                    own = heavy / u128::from(count);
                }
            }
        }
        (together.max(ONE) * ONE).checked_div(own).unwrap_or_default()
    }

    /// Whether a thread only gets idle time: its process, project or zone has zero shares.
    fn fss_has_none(&self, thread: ThreadId) -> bool {
        self.holders_of(thread).any(|holder| self.holders[holder].shares == Some(0))
    }

    /// Computes a thread's user-mode priority from its own and its project's usage.
    fn fss_rank(&mut self, thread: ThreadId) {
        let (part, project) = (self.fss_part(thread), self.fss_project(thread));
        let (beat, beside, none) = (self.beats(), self.fss_beside(thread), self.fss_has_none(thread));
        let set = self.fss_set(part);
        let (shusage, largest) = (set.projects.get(&project).map_or(0, |entry| entry.shusage), set.largest);
        let state = self.fss(thread);
        let ticks = std::mem::take(&mut state.ticks);
        if none {
            state.umdpri = 0;
            return;
        }
        if state.decayed < beat {
            state.decayed = beat;
            state.fsspri = narrow(
                u128::from(state.fsspri) * u128::from(decay(nice(state.upri))) / u128::from(DECAY_BASE),
            );
        }
        let grown = u128::from(shusage).saturating_mul(beside).saturating_mul(u128::from(ticks)) >> 16;
        state.fsspri = state.fsspri.saturating_add(narrow(grown));
        let largest = largest.max(state.fsspri).max(1);
        let sunk = u128::from(state.fsspri) * u128::from(TOP - 1) / u128::from(largest);
        state.umdpri = TOP - u8::try_from(sunk).unwrap_or(TOP - 1);
        self.fss_set(part).largest = largest;
    }

    fn fss_set(&mut self, part: PartitionId) -> &mut FssSet {
        let least = part.place() + 1;
        if self.fss.len() < least {
            self.fss.resize_with(least, FssSet::default);
        }
        &mut self.fss[part]
    }

    /// Removes the usage of a deleted holder.
    pub(super) fn forget_usage(&mut self, holder: HolderIndex) {
        for set in &mut self.fss {
            set.projects.remove(&holder);
        }
    }

    /// Checks that usage only exists for existing sets and projects.
    pub(super) fn check_usage(&self) -> Result<(), String> {
        let is_project = |number: HolderIndex| {
            number == NOBODY || self.holders.row(number).is_some_and(|h| h.level == Level::Project)
        };
        let projects = self.fss.iter().flat_map(|set| set.projects.keys());
        if self.fss.len() > self.parts.len() || !projects.copied().all(is_project) {
            return Err("the kernel counts what was used by what does not exist".into());
        }
        Ok(())
    }

    fn fss_tick(&mut self, thread: ThreadId) {
        let (part, project) = (self.fss_part(thread), self.fss_project(thread));
        let (hold, most) = (self.thread(thread).hold, self.tunables.hold_ticks);
        let state = self.fss(thread);
        state.ticks = state.ticks.saturating_add(1);
        state.timeleft -= 1;
        let (left, heavy) = (state.timeleft, weight(nice(state.upri)));
        let usage = self.fss_set(part).projects.entry(project).or_default();
        usage.ticks = usage.ticks.saturating_add(heavy);
        if left <= 0 {
            if hold && left > -most {
                self.t(thread).asked_to_yield = true;
                return;
            }
            self.fss_rank(thread);
            let pri = i16::from(self.fss_seen(thread).umdpri);
            if self.change_pri(thread, pri, End::Back) {
                self.fss_refill(thread);
            } else {
                self.fss(thread).back = true;
                self.surrender(thread);
            }
            return;
        }
        let t = self.thread(thread);
        if t.state == RunState::Running && t.effective() < self.queues[t.cpu].best {
            self.fss(thread).back = true;
            self.surrender(thread);
        }
    }

    fn fss_preempt(&mut self, thread: ThreadId) {
        if self.thread(thread).hold {
            if self.fss_seen(thread).timeleft > -self.tunables.hold_ticks {
                self.t(thread).asked_to_yield = true;
                return self.enqueue(thread, End::Front);
            }
            self.t(thread).hold = false;
        }
        if std::mem::take(&mut self.fss(thread).back) {
            self.fss_refill(thread);
            self.enqueue(thread, End::Back);
        } else {
            self.enqueue(thread, End::Front);
        }
    }

    fn fss_wakeup(&mut self, thread: ThreadId) {
        self.fss(thread).back = false;
        let end = self.end_by_tick(thread);
        self.enqueue(thread, end);
    }

    fn fss_yield(&mut self, thread: ThreadId) {
        if self.fss_seen(thread).timeleft <= 0 {
            self.fss_rank(thread);
            self.fss_refill(thread);
            let pri = i16::from(self.fss_seen(thread).umdpri);
            self.t(thread).pri = pri;
        }
        self.fss(thread).back = false;
    }

    fn fss_child(&self, parent: ThreadId) -> ClassState {
        let timeleft = i64::from(self.tables.fss.ticks());
        ClassState::Fss(FssState { timeleft, ticks: 0, back: false, ..*self.fss_seen(parent) })
    }

    /// The child runs first; the parent only gives up its CPU.
    fn fss_forkret(&mut self, thread: ThreadId) -> bool {
        self.fss(thread).back = false;
        self.enqueue(thread, End::Back);
        true
    }

    /// Sets the user's parameters.
    fn fss_set_params(&mut self, thread: ThreadId, params: ClassParams) {
        fss_store(&mut self.t(thread).class, params);
        self.fss_rank(thread);
        self.fss_move(thread);
    }

    /// Moves the thread to its computed priority.
    fn fss_move(&mut self, thread: ThreadId) {
        let pri = i16::from(self.fss_seen(thread).umdpri);
        self.change_pri(thread, pri, End::Back);
        self.surrender_if_worse(thread);
    }

    /// The once-per-second update: decays usage, and recomputes the priorities of threads that wait for a CPU or a cap. Running threads
    /// are recomputed at the end of their slice.
    fn fss_update(&mut self) {
        if self.fss.is_empty() && self.index.fss.is_empty() {
            return;
        }
        self.fss_decay();
        let waiting = self.queues.iter().filter(|queue| !queue.is_empty());
        let waiting = waiting.flat_map(|queue| queue.threads(&self.threads));
        let capped =
            self.holders.iter().filter_map(|h| h.cap.as_ref()).flat_map(|c| c.waiting.iter().copied());
        let shared = |thread: &ThreadId| matches!(self.thread(*thread).class, ClassState::Fss(_));
        let mut order: Vec<(u32, ThreadId)> =
            waiting.chain(capped).filter(shared).map(|n| (self.update_turn(n), n)).collect();
        order.sort_unstable();
        for (_, thread) in order {
            let before = self.fss_seen(thread).umdpri;
            self.fss_rank(thread);
            if self.fss_seen(thread).umdpri != before {
                self.fss_move(thread);
            }
        }
    }

    /// Counts an FSS thread that becomes runnable, or no longer is.
    pub(super) fn count_fss(&mut self, thread: ThreadId, comes: bool) {
        let place = (self.fss_part(thread), self.thread(thread).holder.unwrap_or(NOBODY));
        let here = self.index.fss.entry(place).or_default();
        *here = if comes { *here + 1 } else { here.saturating_sub(1) };
        if *here == 0 {
            self.index.fss.remove(&place);
        }
    }
}
