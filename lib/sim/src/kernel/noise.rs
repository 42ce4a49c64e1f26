//! OS noise: what ran on each CPU, with count, total and longest time. It is recorded while the noise of a job is measured.
//!
//! A *spell* is the time of a thread on a CPU, from the switch to it until the switch away. An interrupt handler on top of it does not
//! end the spell, and the handler's time does not count for the thread.

use super::ids::{CpuIndex, ThreadId};
use super::state::Kernel;
use std::collections::BTreeMap;

/// The source of a spell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpellOf {
    /// A thread or an interrupt handler.
    Thread(ThreadId),
    /// A cross call from another CPU, by that thread. It takes no time.
    Call(Option<ThreadId>),
    /// A tick of the machine's clock. It takes no time.
    Clock,
    /// Each CPU's own interrupt once per second. It takes no time.
    Second,
}

/// Spells of one source on one CPU, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spells {
    /// Number of spells.
    pub count: u64,
    /// Total time.
    pub total: u64,
    /// The longest one.
    pub longest: u64,
    /// Start of the longest one, since boot.
    pub longest_at: u64,
}

impl Spells {
    /// Adds another sum.
    pub fn join(&mut self, other: Spells) {
        self.count += other.count;
        self.total += other.total;
        if other.longest > self.longest {
            (self.longest, self.longest_at) = (other.longest, other.longest_at);
        }
    }
}

/// The record of spells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SpellLog {
    spells: BTreeMap<(CpuIndex, SpellOf), Spells>,
    /// For each CPU and thread: the start of its present spell, and its time so far.
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
            // The spell began before the record did.
            self.begin(cpu, thread, now - passed);
        }
        let (since, had) = self.current.entry((cpu, thread)).or_default();
        *had += passed;
        let more = Spells { count: 0, total: passed, longest: *had, longest_at: *since };
        self.spells.entry((cpu, SpellOf::Thread(thread))).or_default().join(more);
    }
}

impl Kernel {
    /// Starts a new record, or stops recording.
    pub fn record_spells(&mut self, on: bool) {
        self.spell_log = on.then(SpellLog::default);
    }

    /// Whether spells are recorded.
    #[must_use]
    pub fn records_spells(&self) -> bool {
        self.spell_log.is_some()
    }

    /// The spells since the last call, by CPU.
    pub fn take_spells(&mut self) -> BTreeMap<(CpuIndex, SpellOf), Spells> {
        self.spell_log.as_mut().map(|spell_log| std::mem::take(&mut spell_log.spells)).unwrap_or_default()
    }

    /// A thread gets a CPU, other than by the end of a handler on top of it.
    pub(super) fn note_begin(&mut self, cpu: CpuIndex, thread: ThreadId) {
        let now = self.now;
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.begin(cpu, thread, now);
        }
    }

    /// Adds time that a thread had on a CPU.
    pub(super) fn note_spent(&mut self, cpu: CpuIndex, thread: ThreadId, passed: u64) {
        let now = self.now;
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.spend(cpu, thread, passed, now);
        }
    }

    /// Records a cross call.
    pub(super) fn note_call(&mut self, from: CpuIndex, to: CpuIndex) {
        let caller = self.cpus[from].running;
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.count(to, SpellOf::Call(caller), 1);
        }
    }

    /// Records clock ticks and the CPUs' own once-per-second interrupts.
    pub(super) fn note_clock(&mut self, ticks: u64, seconds: u64) {
        let (clock, cpus) = (self.clock_cpu, self.cpus.len());
        if let Some(spell_log) = &mut self.spell_log {
            spell_log.count(clock, SpellOf::Clock, ticks);
            (0u32..).take(cpus).map(CpuIndex).for_each(|cpu| spell_log.count(cpu, SpellOf::Second, seconds));
        }
    }
}
