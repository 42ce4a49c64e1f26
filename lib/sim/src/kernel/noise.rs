//! Who had each processor, how often, how long and how long at most: kept while somebody asks what disturbs a job.
//!
//! A *spell* is the time of a thread on a processor from when it gets it until it gives it up. A handler on its back does not end a spell, and its time
//! is not the thread's.

use super::ids::{CpuIndex, ThreadId};
use super::state::Kernel;
use std::collections::BTreeMap;

/// Whose spells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A thread's, or a handler's.
    Thread(ThreadId),
    /// Another processor called, and ran that thread. It takes no time.
    Call(Option<ThreadId>),
    /// The clock of the machine ticked. It takes no time.
    Clock,
    /// The interrupt that each processor has once a second. It takes no time.
    Second,
}

/// The spells of one on one processor, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spells {
    /// How many began.
    pub count: u64,
    /// All of them.
    pub total: u64,
    /// The longest.
    pub longest: u64,
    /// When that began, since boot.
    pub longest_at: u64,
}

impl Spells {
    /// Both together.
    pub fn join(&mut self, other: Spells) {
        self.count += other.count;
        self.total += other.total;
        if other.longest > self.longest {
            (self.longest, self.longest_at) = (other.longest, other.longest_at);
        }
    }
}

/// The account.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    spells: BTreeMap<(CpuIndex, Who), Spells>,
    /// For each processor and thread when its spell began, and what it had of it.
    current: BTreeMap<(CpuIndex, ThreadId), (u64, u64)>,
}

impl Ledger {
    fn begin(&mut self, cpu: CpuIndex, thread: ThreadId, now: u64) {
        self.current.insert((cpu, thread), (now, 0));
        self.count(cpu, Who::Thread(thread), 1);
    }

    fn count(&mut self, cpu: CpuIndex, who: Who, times: u64) {
        if times > 0 {
            self.spells.entry((cpu, who)).or_default().count += times;
        }
    }

    fn spend(&mut self, cpu: CpuIndex, thread: ThreadId, passed: u64, now: u64) {
        if !self.current.contains_key(&(cpu, thread)) {
            // It was there before the account was.
            self.begin(cpu, thread, now - passed);
        }
        let (since, had) = self.current.entry((cpu, thread)).or_default();
        *had += passed;
        let more = Spells { count: 0, total: passed, longest: *had, longest_at: *since };
        self.spells.entry((cpu, Who::Thread(thread))).or_default().join(more);
    }
}

impl Kernel {
    /// Begins to keep the account anew, or ends it.
    pub fn keep_ledger(&mut self, on: bool) {
        self.ledger = on.then(Ledger::default);
    }

    /// Whether the account is kept.
    #[must_use]
    pub fn keeps_ledger(&self) -> bool {
        self.ledger.is_some()
    }

    /// What was put down since this was asked last, by processor.
    pub fn take_ledger(&mut self) -> BTreeMap<(CpuIndex, Who), Spells> {
        self.ledger.as_mut().map(|ledger| std::mem::take(&mut ledger.spells)).unwrap_or_default()
    }

    /// A thread gets a processor, not from a handler on its back.
    pub(super) fn note_begin(&mut self, cpu: CpuIndex, thread: ThreadId) {
        let now = self.now;
        if let Some(ledger) = &mut self.ledger {
            ledger.begin(cpu, thread, now);
        }
    }

    /// A thread had a processor.
    pub(super) fn note_spent(&mut self, cpu: CpuIndex, thread: ThreadId, passed: u64) {
        let now = self.now;
        if let Some(ledger) = &mut self.ledger {
            ledger.spend(cpu, thread, passed, now);
        }
    }

    /// A processor was called by another one.
    pub(super) fn note_call(&mut self, from: CpuIndex, to: CpuIndex) {
        let caller = self.cpus[from].running;
        if let Some(ledger) = &mut self.ledger {
            ledger.count(to, Who::Call(caller), 1);
        }
    }

    /// The clock ticked so often, and each processor was interrupted so often by its own.
    pub(super) fn note_clock(&mut self, ticks: u64, seconds: u64) {
        let (clock, cpus) = (self.clock_cpu, self.cpus.len());
        if let Some(ledger) = &mut self.ledger {
            ledger.count(clock, Who::Clock, ticks);
            (0u32..).take(cpus).map(CpuIndex).for_each(|cpu| ledger.count(cpu, Who::Second, seconds));
        }
    }
}
