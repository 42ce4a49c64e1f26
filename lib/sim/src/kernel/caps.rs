//! Processor caps (reference §3.3, §3.8): how much of a processor's time threads may have together, on whichever processors.
//!
//! A tick charges the cap of whoever it finds running. Usage decays: each tick takes away as much as the cap allows for a
//! tick. Up to a tenth of a second of that may be used ahead; a thread that is charged beyond leaves its processor as soon
//! as it may be preempted, and waits in the queue of its cap. A later tick lets those go on that there is room for
//! again, those first that wait longest. So a cap is met in the long run to the tick, and says nothing of where threads run.

use super::{Kernel, RunState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// What a thread is charged for a tick, in hundredths of a tick.
const CHARGE: u64 = 100;

/// Usage ahead of the cap is allowed for this part of a second, and for a tick at least.
const AHEAD_HZ: u32 = 10;

/// A cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cap {
    /// Percent of one processor.
    percent: u32,
    /// What was used and has not decayed, in hundredths of a tick.
    used: u64,
    /// The tick until which it decayed.
    decayed: u64,
    /// Threads that wait until usage has decayed, in order of arrival.
    pub waiting: VecDeque<u32>,
}

impl Kernel {
    /// A new cap of so many percent of one processor, 1 at least; gives its number.
    pub fn cap(&mut self, percent: u32) -> u32 {
        let percent = percent.max(1);
        self.caps.push(Cap { percent, used: 0, decayed: self.lbolt(), waiting: VecDeque::new() });
        u32::try_from(self.caps.len() - 1).unwrap_or(u32::MAX)
    }

    /// Puts a thread, and those that it starts from now on, under a cap of [`Kernel::cap`], or under none. Handlers of
    /// interrupts and devices are under none.
    pub fn set_cap(&mut self, thread: u32, cap: Option<u32>) {
        let t = self.thread(thread);
        if t.cap == cap || t.device || t.level > 0 || t.state == RunState::Gone {
            return;
        }
        let waits = t.state == RunState::Capped;
        self.uncap(thread);
        self.t(thread).cap = cap;
        if waits {
            self.set_runnable(thread);
        }
    }

    /// Whether threads wait until a cap lets them go on.
    pub(super) fn any_capped(&self) -> bool {
        self.caps.iter().any(|cap| !cap.waiting.is_empty())
    }

    /// What may be used ahead, in hundredths of a tick.
    fn ahead(&self, cap: &Cap) -> u64 {
        u64::from(cap.percent) * u64::from((self.tunables.hz / AHEAD_HZ).max(1))
    }

    fn is_used_up(&self, cap: &Cap) -> bool {
        cap.used > self.ahead(cap)
    }

    /// Usage decays until this tick.
    pub(super) fn decay_caps(&mut self) {
        let tick = self.lbolt();
        for cap in &mut self.caps {
            let passed = tick.saturating_sub(cap.decayed);
            cap.used = cap.used.saturating_sub(passed.saturating_mul(u64::from(cap.percent)));
            cap.decayed = tick;
        }
    }

    /// A tick found the thread on a processor. One whose cap is used up is asked to leave it.
    pub(super) fn charge_cap(&mut self, thread: u32) {
        let Some(number) = self.thread(thread).cap else { return };
        let cap = &mut self.caps[number as usize];
        cap.used = cap.used.saturating_add(CHARGE);
        if self.is_used_up(&self.caps[number as usize]) {
            self.surrender(thread);
        }
    }

    /// The thread leaves its processor against its will. `true`: its cap is used up, and it waits for that.
    pub(super) fn park_if_capped(&mut self, thread: u32) -> bool {
        let Some(number) = self.thread(thread).cap else { return false };
        if !self.is_used_up(&self.caps[number as usize]) {
            return false;
        }
        self.count_at_home(thread, false);
        self.t(thread).state = RunState::Capped;
        self.caps[number as usize].waiting.push_back(thread);
        true
    }

    /// Takes a thread out of the queue of its cap, if it waits there; whoever calls puts it elsewhere.
    pub(super) fn uncap(&mut self, thread: u32) {
        if let Some(number) = self.thread(thread).cap {
            self.caps[number as usize].waiting.retain(|waiter| *waiter != thread);
        }
    }

    /// As many threads go on as can run for a tick until their cap is used up again.
    pub(super) fn release_capped(&mut self) {
        for number in 0..self.caps.len() {
            let cap = &self.caps[number];
            let Some(left) = self.ahead(cap).checked_sub(cap.used) else { continue };
            for _ in 0..=left / CHARGE {
                let Some(thread) = self.caps[number].waiting.pop_front() else { break };
                self.set_runnable(thread);
            }
        }
    }

    /// Every thread that waits for its cap is in the queue of that once, nobody else is, and the clock will let them go.
    pub(super) fn check_caps(&self) -> Result<(), String> {
        let numbered = || (0u32..).zip(&self.caps);
        let waits_here = |number: u32, thread: u32| {
            let found = self.threads.get(thread as usize);
            found.is_some_and(|t| t.state == RunState::Capped && t.cap == Some(number))
        };
        let sound = |(number, cap): (u32, &Cap)| {
            let waiters = cap.waiting.iter().all(|thread| waits_here(number, *thread));
            waiters && cap.percent > 0 && cap.decayed <= self.lbolt()
        };
        if !numbered().all(sound) {
            return Err("a cap of the kernel is none, or others than its own wait for it".into());
        }
        let waiting = || self.caps.iter().flat_map(|cap| &cap.waiting);
        let capped = self.threads.iter().filter(|t| t.state == RunState::Capped).count();
        if waiting().count() != capped || waiting().collect::<BTreeSet<_>>().len() != capped {
            return Err("threads of the kernel wait for no cap, or twice".into());
        }
        if capped > 0 && self.heap.at(super::Source::Clock).is_none() {
            return Err("threads of the kernel wait for a cap, and its clock does not tick".into());
        }
        Ok(())
    }
}
