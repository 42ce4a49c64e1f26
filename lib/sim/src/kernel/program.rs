//! What threads execute: small programs that say what to do next, as plain data.

use super::defaults::is_default;
use super::ids::{BarrierId, ChannelId, LogId, MixId, SegmentId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// One step of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Compute in user mode for so many nanoseconds of CPU time; `u64::MAX` for ever.
    User(u64),
    /// Compute in the kernel. Only better threads of the kernel's own rank preempt there.
    Kernel(u64),
    /// The same for one of these times, drawn by lot.
    KernelAmong(Vec<u64>),
    /// Execute so many instructions of the mix of that number in user mode; the hardware decides how long that takes.
    Work(MixId, u64),
    /// The same in the kernel.
    KernelWork(MixId, u64),
    /// Use the segment of memory of that number, of so many KiB, from now on.
    Map(SegmentId, u64),
    /// Sleep for so many nanoseconds.
    Sleep(u64),
    /// Sleep for one of these times, drawn by lot.
    SleepAmong(Vec<u64>),
    /// Sleep until a thread posts to the channel of that number, unless one did already.
    Wait(ChannelId),
    /// Let one thread that waits at the channel go on, or the next one that will.
    Post(ChannelId),
    /// Wait at the barrier of that number until all threads that belong to it are there.
    Meet(BarrierId, Waiting),
    /// Count so many more system calls: of those that are left out where one stands for many.
    Calls(u64),
    /// Note so many operations as done, in whatever unit the program counts.
    Done(u64),
    /// Note the moment as that stage of the log of that number; stage 0 is the one that others are measured from.
    Stamp(LogId, u32),
    /// Something arrives at the log of that number, to be taken.
    Arrive(LogId),
    /// What arrived first at the log of the first number is taken: when it did is stage 0 of the log of the second. Without any, now is.
    Take(LogId, LogId),
    /// Let others go first.
    Yield,
    /// Ask not to be preempted for a moment, or take that back.
    Hold(bool),
    /// Start a process of one thread with this program.
    Fork(Program),
    /// Start another thread of the same process with this program.
    Spawn(Program),
    /// End.
    Exit,
}

/// What instructions are like: how much they want of a core, of its caches and of memory. What they cost follows from it on a
/// machine (see [`super::hardware`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Thousandths of a cycle for an instruction that finds all it wants in the first cache.
    pub base_milli: u64,
    /// Accesses beyond the first cache, in a million instructions.
    pub reach_ppm: u64,
    /// Accesses that go to memory however warm the caches are, in a million instructions.
    pub miss_ppm: u64,
    /// What it would keep in the outer cache, in KiB.
    pub footprint_kib: u64,
    /// Floating-point operations, in a million instructions.
    #[serde(default)]
    pub float_ppm: u64,
}

impl Mix {
    /// A loop that looks at one place again and again: a load, a comparison and a branch in 7 cycles, of which each lets
    /// others go first (the T1's loads and branches take three).
    pub const SPIN: Mix = Mix { base_milli: 2_333, ..Mix::PLAIN };

    /// An instruction in a cycle, that wants nothing beyond the first cache.
    pub const PLAIN: Mix =
        Mix { base_milli: 1_000, reach_ppm: 0, miss_ppm: 0, footprint_kib: 0, float_ppm: 0 };

    /// Whether its numbers are possible.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        (1..=1_000_000).contains(&self.base_milli)
            && self.reach_ppm <= 1_000_000
            && self.miss_ppm <= 1_000_000
            && self.float_ppm <= 1_000_000
            && self.footprint_kib <= 1 << 40
    }
}

/// How one waits at a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waiting {
    /// Looking again and again, in user mode.
    Spin,
    /// Asleep.
    Block,
}

impl Action {
    /// Whether it is done in user mode.
    #[must_use]
    pub fn is_in_user_mode(&self) -> bool {
        matches!(self, Action::User(_) | Action::Work(..) | Action::Meet(_, Waiting::Spin))
    }

    /// Whether it computes in the kernel.
    #[must_use]
    pub fn computes_in_kernel(&self) -> bool {
        matches!(self, Action::Kernel(_) | Action::KernelAmong(_) | Action::KernelWork(..))
    }

    /// Whether it makes the thread sleep, leave its CPU or start another thread.
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

    /// Whether it is a part of a system call.
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

/// A program with its place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Threads that do the same share them, so that a large team finds them in the cache.
    #[serde(serialize_with = "print_actions", deserialize_with = "parse_actions")]
    actions: Arc<[Action]>,
    /// The action to come.
    at: usize,
    /// How often the end is still followed by a beginning; `u64::MAX` for ever.
    again: u64,
    /// Where that is.
    back: usize,
    /// What it takes in the kernel to end, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    end_ns: u64,
    /// What it executes in is an address space of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    is_process: bool,
}

impl Program {
    /// Does these once, and ends.
    #[must_use]
    pub fn once(actions: Vec<Action>) -> Self {
        Program { actions: actions.into(), at: 0, again: 0, back: 0, end_ns: 0, is_process: false }
    }

    /// Does these for ever. Without any it ends at once.
    #[must_use]
    pub fn repeat(actions: Vec<Action>) -> Self {
        Program { again: u64::MAX, ..Self::once(actions) }
    }

    /// Does these so many times, and ends.
    #[must_use]
    pub fn times(actions: Vec<Action>, times: u64) -> Self {
        match times.checked_sub(1) {
            None => Self::once(Vec::new()),
            Some(again) => Program { again, ..Self::once(actions) },
        }
    }

    /// Does the first ones once, and then the others for ever.
    #[must_use]
    pub fn begin(first: Vec<Action>, again: Vec<Action>) -> Self {
        let back = first.len();
        Program { back, ..Self::repeat([first, again].concat()) }
    }

    /// Does the first ones once, then the others so many times, and ends.
    #[must_use]
    pub fn begin_times(first: Vec<Action>, actions: Vec<Action>, times: u64) -> Self {
        match times.checked_sub(1) {
            None => Self::once(first),
            Some(again) => Program { again, ..Self::begin(first, actions) },
        }
    }

    /// The same, and then computes for so many nanoseconds in the kernel before it ends.
    #[must_use]
    pub fn ending_in(self, end_ns: u64) -> Self {
        Program { end_ns, ..self }
    }

    /// The same in an address space of its own, also where it stands for a thread among others.
    #[must_use]
    pub fn as_process(self) -> Self {
        Program { is_process: true, ..self }
    }

    /// Whether it has an address space of its own beside other threads.
    #[must_use]
    pub fn is_process(&self) -> bool {
        self.is_process
    }

    /// Computes for ever.
    #[must_use]
    pub fn hog() -> Self {
        Self::once(vec![Action::User(u64::MAX)])
    }

    /// Everything that it and its children do.
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

    /// What may still come of it, begun with what is to come.
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

    /// Whether it goes on for ever unless it is killed.
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

    /// What to do next.
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
