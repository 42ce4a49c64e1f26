//! What threads execute: small programs that say what to do next, as plain data.

use serde::{Deserialize, Serialize};

/// One step of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Compute in user mode for so many nanoseconds of processor time; `u64::MAX` for ever.
    User(u64),
    /// Compute in the kernel. Only better threads of the kernel's own rank preempt there.
    Kernel(u64),
    /// Sleep for so many nanoseconds.
    Sleep(u64),
    /// Sleep until somebody posts to the channel of that number, unless somebody did already.
    Wait(u32),
    /// Let one thread that waits at the channel go on, or the next one that will.
    Post(u32),
    /// Let others go first.
    Yield,
    /// Ask not to be preempted for a moment, or take that back.
    Hold(bool),
    /// Start a child with this program.
    Fork(Program),
    /// End.
    Exit,
}

impl Action {
    /// Whether it is a system call.
    #[must_use]
    pub fn enters_kernel(&self) -> bool {
        !matches!(self, Action::User(_) | Action::Hold(_))
    }
}

/// A program with its place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    actions: Vec<Action>,
    /// The action to come.
    at: usize,
    /// Whether the end is followed by the beginning.
    again: bool,
}

impl Program {
    /// Does these once, and ends.
    #[must_use]
    pub fn once(actions: Vec<Action>) -> Self {
        Program { actions, at: 0, again: false }
    }

    /// Does these for ever. Without any it ends at once.
    #[must_use]
    pub fn repeat(actions: Vec<Action>) -> Self {
        Program { actions, at: 0, again: true }
    }

    /// Computes for ever.
    #[must_use]
    pub fn hog() -> Self {
        Self::once(vec![Action::User(u64::MAX)])
    }

    /// The channels that it and its children use.
    pub fn channels(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        Box::new(self.actions.iter().flat_map(|action| -> Box<dyn Iterator<Item = u32> + '_> {
            match action {
                Action::Wait(channel) | Action::Post(channel) => Box::new(std::iter::once(*channel)),
                Action::Fork(child) => child.channels(),
                _ => Box::new(std::iter::empty()),
            }
        }))
    }

    /// What to do next.
    pub fn step(&mut self) -> Action {
        if self.at == self.actions.len() && self.again {
            self.at = 0;
        }
        match self.actions.get(self.at) {
            Some(action) => {
                self.at += 1;
                action.clone()
            }
            None => Action::Exit,
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
    }
}
