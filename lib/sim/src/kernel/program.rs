//! Programs of threads: lists of actions, as plain data.

use super::defaults::is_default;
use super::ids::{BarrierId, ChannelId, LogId, MixId, SegmentId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// One step of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Computes in user mode for this many nanoseconds of CPU time; `u64::MAX` for ever.
    User(u64),
    /// The same in the kernel, where only threads of kernel-preemption priority preempt.
    Kernel(u64),
    /// The same for one of these times, at random.
    KernelAmong(Vec<u64>),
    /// Executes this many instructions of the mix in user mode; the time depends on the hardware.
    Work(MixId, u64),
    /// The same in the kernel.
    KernelWork(MixId, u64),
    /// Uses this memory segment, of this many KiB, from now on.
    Map(SegmentId, u64),
    /// Sleeps for this many nanoseconds.
    Sleep(u64),
    /// Sleeps for one of these times, at random.
    SleepAmong(Vec<u64>),
    /// Takes a post of the channel; sleeps until there is one.
    Wait(ChannelId),
    /// Posts to the channel: wakes one waiting thread, or the next one that will wait.
    Post(ChannelId),
    /// Waits at the barrier until all its threads have arrived.
    Meet(BarrierId, Waiting),
    /// Counts this many system calls more, where one simulated call stands for several.
    Calls(u64),
    /// Counts this many operations, in the program's own unit.
    Done(u64),
    /// Records a timestamp for a stage of the log; the other stages are measured from stage 0.
    Stamp(LogId, u32),
    /// Records an arrival in the log, to be taken later.
    Arrive(LogId),
    /// Takes the first arrival of the first log; its time becomes stage 0 of the second log. Without an arrival, stage 0 is now.
    Take(LogId, LogId),
    /// Yields the CPU.
    Yield,
    /// Asks not to be preempted for a moment, or cancels that (schedctl).
    Hold(bool),
    /// Starts a process of one thread with this program.
    Fork(Program),
    /// Starts a thread of the same process with this program.
    Spawn(Program),
    /// Ends the thread.
    Exit,
}

/// A mix of instructions: its demands on a core, its caches and memory. The cost on a machine follows from these
/// (see [`super::hardware`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Thousandths of a cycle of an instruction that hits in the first cache.
    pub base_milli: u64,
    /// Misses of the first cache per million instructions.
    pub reach_ppm: u64,
    /// Memory accesses per million instructions, even with warm caches.
    pub miss_ppm: u64,
    /// Its working set in the outer cache, in KiB.
    pub footprint_kib: u64,
    /// Floating-point operations per million instructions.
    #[serde(default)]
    pub float_ppm: u64,
}

impl Mix {
    /// A loop that polls one word: a load, a comparison and a branch in 7 cycles, in each of which the strand lets others issue first
    /// (the T1's loads and branches take three cycles).
    pub const SPIN: Mix = Mix { base_milli: 2_333, ..Mix::PLAIN };

    /// One instruction per cycle, without misses.
    pub const PLAIN: Mix =
        Mix { base_milli: 1_000, reach_ppm: 0, miss_ppm: 0, footprint_kib: 0, float_ppm: 0 };

    /// Whether its numbers are valid.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        (1..=1_000_000).contains(&self.base_milli)
            && self.reach_ppm <= 1_000_000
            && self.miss_ppm <= 1_000_000
            && self.float_ppm <= 1_000_000
            && self.footprint_kib <= 1 << 40
    }
}

/// How a thread waits at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// Polling in user mode.
    Spin,
    /// Asleep.
    Block,
}

impl Action {
    /// Whether it runs in user mode.
    #[must_use]
    pub fn is_in_user_mode(&self) -> bool {
        matches!(self, Action::User(_) | Action::Work(..) | Action::Meet(_, Waiting::Spin))
    }

    /// Whether it computes in the kernel.
    #[must_use]
    pub fn computes_in_kernel(&self) -> bool {
        matches!(self, Action::Kernel(_) | Action::KernelAmong(_) | Action::KernelWork(..))
    }

    /// Whether the thread sleeps, leaves its CPU or starts another thread.
    #[must_use]
    pub fn pauses(&self) -> bool {
        matches!(
            self,
            Action::Sleep(_)
                | Action::SleepAmong(_)
                | Action::Wait(_)
                | Action::Meet(_, Waiting::Block)
                | Action::Yield
                | Action::Fork(_)
                | Action::Spawn(_)
        )
    }

    /// Whether it is part of a system call.
    #[must_use]
    pub fn enters_kernel(&self) -> bool {
        !matches!(
            self,
            Action::User(_)
                | Action::Work(..)
                | Action::Hold(_)
                | Action::Done(_)
                | Action::Stamp(..)
                | Action::Arrive(_)
                | Action::Take(..)
                | Action::Calls(_)
                | Action::Map(..)
                | Action::Meet(_, Waiting::Spin)
        )
    }
}

fn print_actions<S: Serializer>(actions: &Arc<[Action]>, out: S) -> Result<S::Ok, S::Error> {
    actions.as_ref().serialize(out)
}

fn parse_actions<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[Action]>, D::Error> {
    Vec::deserialize(from).map(Arc::from)
}

/// A program and the position in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Shared by threads with the same actions, so that a large team's actions stay in the host's cache.
    #[serde(serialize_with = "print_actions", deserialize_with = "parse_actions")]
    actions: Arc<[Action]>,
    /// Index of the next action.
    at: usize,
    /// Number of repetitions left; `u64::MAX` for ever.
    again: u64,
    /// Index at which a repetition starts.
    back: usize,
    /// Kernel time of its end, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    end_ns: u64,
    /// It has an address space of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    is_process: bool,
}

impl Program {
    /// A program that executes these actions once, and ends.
    #[must_use]
    pub fn once(actions: Vec<Action>) -> Self {
        Program { actions: actions.into(), at: 0, again: 0, back: 0, end_ns: 0, is_process: false }
    }

    /// A program that repeats these actions for ever. Without actions it ends at once.
    #[must_use]
    pub fn repeat(actions: Vec<Action>) -> Self {
        Program { again: u64::MAX, ..Self::once(actions) }
    }

    /// A program that executes these actions this many times, and ends.
    #[must_use]
    pub fn times(actions: Vec<Action>, times: u64) -> Self {
        match times.checked_sub(1) {
            None => Self::once(Vec::new()),
            Some(again) => Program { again, ..Self::once(actions) },
        }
    }

    /// A program that executes the first actions once, and then repeats the others for ever.
    #[must_use]
    pub fn begin(first: Vec<Action>, again: Vec<Action>) -> Self {
        let back = first.len();
        Program { back, ..Self::repeat([first, again].concat()) }
    }

    /// A program that executes the first actions once, then the others this many times, and ends.
    #[must_use]
    pub fn begin_times(first: Vec<Action>, actions: Vec<Action>, times: u64) -> Self {
        match times.checked_sub(1) {
            None => Self::once(first),
            Some(again) => Program { again, ..Self::begin(first, actions) },
        }
    }

    /// The same, with this many nanoseconds in the kernel before it ends.
    #[must_use]
    pub fn ending_in(self, end_ns: u64) -> Self {
        Program { end_ns, ..self }
    }

    /// The same with an address space of its own, even where it models a thread among others.
    #[must_use]
    pub fn as_process(self) -> Self {
        Program { is_process: true, ..self }
    }

    /// Whether it has an address space of its own.
    #[must_use]
    pub fn is_process(&self) -> bool {
        self.is_process
    }

    /// A program that computes for ever.
    #[must_use]
    pub fn hog() -> Self {
        Self::once(vec![Action::User(u64::MAX)])
    }

    /// All actions of it and its children.
    pub fn actions(&self) -> Box<dyn Iterator<Item = &Action> + '_> {
        Box::new(self.actions.iter().flat_map(|action| -> Box<dyn Iterator<Item = &Action> + '_> {
            match action {
                Action::Fork(child) | Action::Spawn(child) => {
                    Box::new(std::iter::once(action).chain(child.actions()))
                }
                _ => Box::new(std::iter::once(action)),
            }
        }))
    }

    /// The actions that may still be executed, beginning with the next one.
    pub(super) fn to_come(&self) -> &[Action] {
        let from = if self.again > 0 { self.at.min(self.back) } else { self.at };
        self.actions.get(from..).unwrap_or_default()
    }

    /// The channels that it and its children may still post to.
    pub fn posts(&self) -> Box<dyn Iterator<Item = ChannelId> + '_> {
        Box::new(self.to_come().iter().flat_map(|action| -> Box<dyn Iterator<Item = ChannelId> + '_> {
            match action {
                Action::Post(channel) => Box::new(std::iter::once(*channel)),
                Action::Fork(child) | Action::Spawn(child) => child.posts(),
                _ => Box::new(std::iter::empty()),
            }
        }))
    }

    /// Whether it only ends if it is killed.
    #[must_use]
    pub fn is_endless(&self) -> bool {
        let exits = self.actions.contains(&Action::Exit) || self.actions.is_empty();
        let for_ever = |action: &Action| {
            matches!(
                action,
                Action::User(u64::MAX)
                    | Action::Kernel(u64::MAX)
                    | Action::Work(_, u64::MAX)
                    | Action::KernelWork(_, u64::MAX)
            )
        };
        (self.again == u64::MAX && !exits) || self.to_come().iter().any(for_ever)
    }

    /// Returns the next action and advances.
    #[inline]
    pub fn step(&mut self) -> Action {
        if self.at == self.actions.len() && self.again > 0 {
            self.at = self.back;
            if self.again != u64::MAX {
                self.again -= 1;
            }
        }
        match self.actions.get(self.at) {
            Some(action) => {
                self.at += 1;
                action.clone()
            }
            None => match std::mem::take(&mut self.end_ns) {
                0 => Action::Exit,
                nanos => Action::Kernel(nanos),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_or_begins_again() {
        let mut once = Program::once(vec![Action::User(1), Action::Yield]);
        assert_eq!([once.step(), once.step(), once.step()], [Action::User(1), Action::Yield, Action::Exit]);
        let mut again = Program::repeat(vec![Action::User(1), Action::Yield]);
        assert_eq!(again.step(), Action::User(1));
        assert_eq!([again.step(), again.step()], [Action::Yield, Action::User(1)]);
        assert_eq!(Program::repeat(Vec::new()).step(), Action::Exit);
        let mut twice = Program::times(vec![Action::User(1)], 2);
        assert_eq!(
            [twice.step(), twice.step(), twice.step()],
            [Action::User(1), Action::User(1), Action::Exit]
        );
        assert_eq!(Program::times(vec![Action::User(1)], 0).step(), Action::Exit);
        let mut both = Program::begin_times(vec![Action::Yield], vec![Action::User(1)], 2);
        assert_eq!(
            [both.step(), both.step(), both.step()],
            [Action::Yield, Action::User(1), Action::User(1)]
        );
        assert_eq!(both.step(), Action::Exit);
        let mut begun = Program::begin(vec![Action::Yield], vec![Action::User(1)]);
        assert_eq!(
            [begun.step(), begun.step(), begun.step()],
            [Action::Yield, Action::User(1), Action::User(1)]
        );
        let mut last = Program::once(vec![Action::Yield]).ending_in(7);
        assert_eq!([last.step(), last.step(), last.step()], [Action::Yield, Action::Kernel(7), Action::Exit]);
    }
}
