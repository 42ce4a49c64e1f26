//! CPU caps: limits of a holder's total CPU time (the resource control `cpu-cap`).
//!
//! A thread's run time is charged to each capped holder above it: at each tick, and when it leaves its CPU. Usage decays at the rate
//! that the cap allows. Usage of up to a [`PERIOD`] at that rate may be ahead. A thread beyond that leaves its CPU as soon
//! as it may be preempted, and waits in the cap's queue. A later tick releases as many threads as there is room for, the
//! longest waiting first. So a cap holds in the long run; it is exceeded by at most its allowance for a period, and a tick of
//! each CPU.
//!
//! Under the rules of Linux ([`super::eevdf`]) usage does not decay. Each period has the time that the cap allows, and CPUs get it in
//! parts of 5 ms. When a CPU's part is used up and nothing is left, its threads wait for the next period
//! (`Documentation/scheduler/sched-bwc.rst`). Approximations: all periods begin at the same time and end at a tick, and a CPU whose threads
//! sleep does not return the rest of its part.

use super::heap::Source;
use super::holder::{Cap, PERCENT, Taken};
use super::ids::{CpuIndex, HolderIndex, ThreadId};
use super::state::Kernel;
use super::thread::RunState;
use std::collections::BTreeSet;

impl Kernel {
    /// Sets or removes the cap of a holder, in percent of one CPU, at least 1. Earlier usage stays charged.
    pub fn set_cap(&mut self, holder: HolderIndex, percent: Option<u32>) {
        let percent = percent.map(|percent| percent.max(1));
        let (now, has_quota) = (self.now, self.tunables.eevdf_slice_ns.is_some());
        match (&mut self.holders[holder].cap, percent) {
            (None, None) => return,
            (Some(cap), Some(percent)) => cap.percent = percent,
            (slot @ None, Some(percent)) => *slot = Some(Cap::new(percent, now, has_quota)),
            (slot, None) => {
                let waiting = slot.take().map(|cap| cap.waiting).unwrap_or_default();
                for thread in waiting {
                    self.threads[thread].tally.capped += now - self.threads[thread].queued_at;
                    self.set_runnable(thread);
                }
            }
        }
        for cpu in self.cpus.ids() {
            self.account(cpu);
        }
        let capped = self.holders.iter().any(|holder| holder.cap.is_some());
        if !self.capped {
            // Run time before the first cap is not charged.
            self.threads.iter_mut().for_each(|t| t.charged = t.user + t.sys);
        }
        self.capped = capped;
        self.wind_clock();
    }

    /// Effect of a holder's cap; `None` without a cap.
    #[must_use]
    pub fn taken(&self, holder: HolderIndex) -> Option<Taken> {
        let cap = self.holders[holder].cap.as_ref()?;
        let since = |thread: &ThreadId| self.now - self.thread(*thread).queued_at;
        let time = cap.taken.time + cap.waiting.iter().map(since).sum::<u64>();
        Some(Taken { time, ..cap.taken })
    }

    /// Whether any thread waits for a cap.
    pub(super) fn any_capped(&self) -> bool {
        self.capped && self.holders.iter().filter_map(|h| h.cap.as_ref()).any(|cap| !cap.waiting.is_empty())
    }

    /// Decays usage up to now.
    pub(super) fn decay_caps(&mut self) {
        let now = self.now;
        for cap in self.holders.iter_mut().filter_map(|holder| holder.cap.as_mut()) {
            cap.decay(now);
            if !cap.waiting.is_empty() {
                cap.note(now, true);
            }
        }
    }

    /// A tick found the thread on a CPU. If a cap is used up, the thread is asked to leave.
    pub(super) fn tick_caps(&mut self, cpu: CpuIndex, thread: ThreadId) {
        if self.capped {
            self.account(cpu);
            self.charge_caps(thread);
            if self.used_up(thread).is_some() {
                self.surrender(thread);
            }
        }
    }

    /// Charges the thread's run time since the last charge.
    pub(super) fn charge_caps(&mut self, thread: ThreadId) {
        if !self.capped {
            return;
        }
        let t = &mut self.threads[thread];
        let ran = t.user + t.sys - t.charged;
        t.charged += ran;
        let (mut above, now, cpu) = (t.holder, self.now, t.cpu);
        while let Some(number) = above {
            let holder = &mut self.holders[number];
            if let Some(cap) = holder.cap.as_mut() {
                cap.charge(cpu, ran);
                cap.note(now, false);
            }
            above = holder.parent;
        }
    }

    /// The first of its holders whose cap is used up.
    pub(super) fn used_up(&self, thread: ThreadId) -> Option<HolderIndex> {
        if !self.capped {
            return None;
        }
        let (tick, cpu) = (self.tick(), self.thread(thread).cpu);
        let is_used_up = |number: &HolderIndex| {
            let cap = self.holders[*number].cap.as_ref();
            cap.is_some_and(|cap| cap.is_used_up(tick, cpu))
        };
        self.holders_of(thread).find(is_used_up)
    }

    /// The thread is preempted. `true`: a cap is used up, and the thread waits for it.
    pub(super) fn park_if_capped(&mut self, thread: ThreadId) -> bool {
        self.charge_caps(thread);
        let Some(holder) = self.used_up(thread) else { return false };
        self.count_at_home(thread, false);
        self.eevdf_park(thread);
        self.t(thread).state = RunState::Capped;
        self.wait_for_cap(thread, holder);
        true
    }

    fn wait_for_cap(&mut self, thread: ThreadId, holder: HolderIndex) {
        let now = self.now;
        self.t(thread).queued_at = now;
        if let Some(cap) = self.holders[holder].cap.as_mut() {
            cap.waiting.push_back(thread);
            cap.note(now, true);
        }
    }

    /// Removes a thread from the queue of its cap, if it waits there; the caller puts it elsewhere.
    pub(super) fn uncap(&mut self, thread: ThreadId) {
        if self.thread(thread).state != RunState::Capped {
            return;
        }
        let waited = self.now - self.thread(thread).queued_at;
        self.t(thread).tally.capped += waited;
        for cap in self.holders.iter_mut().filter_map(|holder| holder.cap.as_mut()) {
            let before = cap.waiting.len();
            cap.waiting.retain(|waiter| *waiter != thread);
            if cap.waiting.len() < before {
                cap.taken.time += waited;
            }
        }
    }

    /// Releases as many threads as can run for a tick before their cap is used up again.
    pub(super) fn release_capped(&mut self) {
        if !self.capped {
            return;
        }
        let tick = self.tick();
        for number in self.holders.ids() {
            let Some(cap) = &self.holders[number].cap else { continue };
            let Some(left) = cap.ahead(tick).checked_sub(cap.used) else { continue };
            let most =
                if cap.quota.is_some() { cap.waiting.len() as u64 } else { left / (PERCENT * tick) + 1 };
            for _ in 0..most {
                let Some(cap) = self.holders[number].cap.as_mut() else { break };
                let Some(thread) = cap.waiting.pop_front() else { break };
                let waited = self.now - self.threads[thread].queued_at;
                cap.taken.time += waited;
                self.threads[thread].tally.capped += waited;
                match self.used_up(thread) {
                    Some(other) => self.wait_for_cap(thread, other),
                    None => self.set_runnable(thread),
                }
            }
        }
    }

    /// Checks that every capped thread is in the queue of one of its own caps exactly once, that no other thread is, and that the clock runs.
    pub(super) fn check_caps(&self) -> Result<(), String> {
        let capped = || self.holders.with_ids().filter_map(|(n, holder)| Some((n, holder.cap.as_ref()?)));
        if self.capped != capped().next().is_some() {
            return Err("the kernel does not know whether it has caps".into());
        }
        let waits_here = |number: HolderIndex, thread: ThreadId| {
            let found = self.threads.row(thread);
            found.is_some_and(|t| t.state == RunState::Capped && t.queued_at <= self.now)
                && self.holders_of(thread).any(|holder| holder == number)
        };
        let sound = |(number, cap): (HolderIndex, &Cap)| {
            let waiters = cap.waiting.iter().all(|thread| waits_here(number, *thread));
            waiters && cap.percent > 0 && cap.decayed <= self.now
        };
        if !capped().all(sound) {
            return Err("a cap of the kernel is none, or others than its own wait for it".into());
        }
        let waiting = || capped().flat_map(|(_, cap)| &cap.waiting);
        let parked = self.threads.iter().filter(|t| t.state == RunState::Capped).count();
        if waiting().count() != parked || waiting().collect::<BTreeSet<_>>().len() != parked {
            return Err("threads of the kernel wait for no cap, or twice".into());
        }
        if parked > 0 && self.heap.at(Source::Clock).is_none() {
            return Err("threads of the kernel wait for a cap, and its clock does not tick".into());
        }
        Ok(())
    }
}
