//! What ran on each CPU, how often, how long and how long at most: recorded while the OS noise of a job is measured.
//!
//! A *spell* is the time of a thread on a CPU from when it gets it until it gives it up. A handler on its back does not end a spell, and its time
//! is not the thread's.

use super::ids::{CpuIndex, ThreadId};
use super::state::Kernel;
use std::collections::BTreeMap;

/// Whose spells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpellOf {
    /// A thread's, or a handler's.
    Thread(ThreadId),
    /// Another CPU called, and ran that thread. It takes no time.
    Call(Option<ThreadId>),
    /// The clock of the machine ticked. It takes no time.
    Clock,
    /// The interrupt that each CPU has once a second. It takes no time.
    Second,
}

/// The spells of one on one CPU, in nanoseconds.
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
pub struct SpellLog {
    spells: BTreeMap<(CpuIndex, SpellOf), Spells>,
    /// For each CPU and thread when its spell began, and what it had of it.
    current: BTreeMap<(CpuIndex, ThreadId), (u64, u64)>,
}

impl SpellLog {
    fn begin(&mut self, cpu: CpuIndex, thread: ThreadId, now: u64) {
        self.current.insert((cpu, thread), (now, 0));
        self.count(cpu, SpellOf::Thread(thread), 1);
    }

    fn count(&mut self, cpu: CpuIndex, source: SpellOf, times: u64) {
        if times > 0 {
            self.spells.entry((cpu, source)).or_default().count += times;
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
        self.spells.entry((cpu, SpellOf::Thread(thread))).or_default().join(more);
    }
}

impl Kernel {
    /// Begins to keep the account anew, or ends it.
    pub fn record_spells(&mut self, on: bool) {
        self.spell_log = on.then(SpellLog::default);
    }

    /// Whether the account is kept.
    #[must_use]
    pub fn records_spells(&self) -> bool {
        self.spell_log.is_some()
    }

    /// What was put down since this was asked last, by CPU.
    pub fn take_spells(&mut self) -> BTreeMap<(CpuIndex, SpellOf), Spells> {
        self.spell_log.as_mut().map(|spell_log| std::mem::take(&mut spell_log.spells)).unwrap_or_default()
    }

    /// A thread gets a CPU, not from a handler on its back.
    pub(super) fn note_begin(&mut self, cpu: CpuIndex, thread: ThreadId) {
        let now = self.now;
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.begin(cpu, thread, now);
        }
    }

    /// A thread had a CPU.
    pub(super) fn note_spent(&mut self, cpu: CpuIndex, thread: ThreadId, passed: u64) {
        let now = self.now;
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.spend(cpu, thread, passed, now);
        }
    }

    /// A CPU was called by another one.
    pub(super) fn note_call(&mut self, from: CpuIndex, to: CpuIndex) {
        let caller = self.cpus[from].running;
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.count(to, SpellOf::Call(caller), 1);
        }
    }

    /// The clock ticked so often, and each CPU was interrupted so often by its own.
    pub(super) fn note_clock(&mut self, ticks: u64, seconds: u64) {
        let (clock, cpus) = (self.clock_cpu, self.cpus.len());
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.count(clock, SpellOf::Clock, ticks);
            (0u32..).take(cpus).map(CpuIndex).for_each(|cpu| spell_log.count(cpu, SpellOf::Second, seconds));
        }
    }
}
