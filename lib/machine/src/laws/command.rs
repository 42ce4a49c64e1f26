//! Commands: what a script is made of, and how random scripts are drawn.
//!
//! Commands name things by position, not by number, so that a script stays a script when any part of it is
//! left out. A position is taken modulo what there is.

use millpond_model::State;
use proptest::prelude::*;
use std::fmt;

/// A position in a list of what there is; the highest values name what there is not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pick(pub u8);

/// Below this a pick is a position.
const POSITIONS: u8 = 250;

impl Pick {
    /// What does not exist.
    pub const UNKNOWN: Pick = Pick(255);
    /// What exists and is not ours to change: the default set, a kernel process.
    pub const SPECIAL: Pick = Pick(254);
    /// What was named just before, once more.
    pub const AGAIN: Pick = Pick(253);

    /// Whether it is a position, and not one of the names of what there is not.
    #[must_use]
    pub fn is_position(self) -> bool {
        self.0 < POSITIONS
    }

    /// What is picked of a list; `None` of an empty one, and for those that are no position.
    #[must_use]
    pub fn of<T: Copy>(self, list: &[T]) -> Option<T> {
        if !self.is_position() || list.is_empty() {
            return None;
        }
        Some(list[usize::from(self.0) % list.len()])
    }
}

impl fmt::Debug for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pick({})", self.0)
    }
}

/// One line of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are positions of what the variant says")]
pub enum Command {
    /// A process is started.
    Spawn,
    /// The first thread of a process starts another.
    Thread { process: Pick },
    /// The first thread of a process divides it.
    Fork { process: Pick },
    /// A process ends.
    Exit { process: Pick },
    /// A change through the interface, as any command would make it.
    Do(Edit),
    /// The same, and something goes wrong.
    Hit { edit: Edit, fault: Fault },
    /// The same change is killed at each of its moments in turn, and repaired each time; then it is made.
    KillEverywhere(Edit),
}

/// A change of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are positions of what the variant says")]
pub enum Edit {
    /// Makes a set.
    Create { cpus: Vec<Pick>, shared: bool, forced: bool },
    /// Ends a set.
    Destroy { set: Pick },
    /// Moves processors into a set.
    Assign { set: Pick, cpus: Vec<Pick>, forced: bool },
    /// Takes processors out of their sets.
    Remove { cpus: Vec<Pick>, forced: bool },
    /// Binds a process, or one thread of it, to a set.
    BindSet { process: Pick, thread: Option<Pick>, set: Pick },
    /// Unbinds it.
    UnbindSet { process: Pick, thread: Option<Pick> },
    /// Binds a process, or one thread of it, to a processor.
    BindCpu { process: Pick, thread: Option<Pick>, cpu: Pick },
    /// Unbinds it.
    UnbindCpu { process: Pick, thread: Option<Pick> },
    /// Changes the state of processors.
    State { cpus: Vec<Pick>, to: State, forced: bool },
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The writer is killed at its n-th moment, counted from 0.
    Kill(u8),
    /// The same, and the next writer is killed after n writes of its repair.
    KillTwice(u8, u8),
    /// The machine resists the n-th step, counted from 0.
    Resist(u8),
    /// The n-th write of the journal fails, counted from 0.
    DiskFull(u8),
}

/// Random scripts of 1 to `length_max` commands.
pub fn scripts(length_max: usize) -> impl Strategy<Value = Vec<Command>> {
    proptest::collection::vec(command(), 1..=length_max)
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => Just(Command::Spawn),
        2 => pick().prop_map(|process| Command::Thread { process }),
        2 => pick().prop_map(|process| Command::Fork { process }),
        1 => pick().prop_map(|process| Command::Exit { process }),
        20 => edit().prop_map(Command::Do),
        4 => (edit(), fault()).prop_map(|(edit, fault)| Command::Hit { edit, fault }),
        1 => edit().prop_map(Command::KillEverywhere),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        5 => (cpus(), prop::bool::weighted(0.2), forced())
            .prop_map(|(cpus, shared, forced)| Edit::Create { cpus, shared, forced }),
        2 => pick().prop_map(|set| Edit::Destroy { set }),
        4 => (pick(), cpus(), forced()).prop_map(|(set, cpus, forced)| Edit::Assign { set, cpus, forced }),
        2 => (cpus(), forced()).prop_map(|(cpus, forced)| Edit::Remove { cpus, forced }),
        6 => (pick(), thread(), pick())
            .prop_map(|(process, thread, set)| Edit::BindSet { process, thread, set }),
        2 => (pick(), thread()).prop_map(|(process, thread)| Edit::UnbindSet { process, thread }),
        4 => (pick(), thread(), pick())
            .prop_map(|(process, thread, cpu)| Edit::BindCpu { process, thread, cpu }),
        2 => (pick(), thread()).prop_map(|(process, thread)| Edit::UnbindCpu { process, thread }),
        5 => (cpus(), state(), forced()).prop_map(|(cpus, to, forced)| Edit::State { cpus, to, forced }),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        40 => (0u8..POSITIONS).prop_map(Pick),
        1 => Just(Pick::SPECIAL),
        1 => Just(Pick::UNKNOWN),
    ]
}

fn thread() -> impl Strategy<Value = Option<Pick>> {
    proptest::option::weighted(0.4, pick())
}

/// Mostly different ones: a position that was named already is taken to mean the next.
fn cpus() -> impl Strategy<Value = Vec<Pick>> {
    let one = prop_oneof![60 => pick(), 1 => Just(Pick::AGAIN)];
    proptest::collection::vec(one, 0..5)
}

fn forced() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.2)
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![
        4 => Just(State::OnLine),
        3 => Just(State::OffLine),
        3 => Just(State::NoIntr),
        1 => Just(State::Spare),
        1 => Just(State::Faulted),
    ]
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        2 => (0u8..12).prop_map(Fault::Kill),
        1 => (0u8..12, 0u8..4).prop_map(|(at, writes)| Fault::KillTwice(at, writes)),
        1 => (0u8..8).prop_map(Fault::Resist),
        1 => (0u8..3).prop_map(Fault::DiskFull),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pick_is_a_position_modulo_what_there_is() {
        assert_eq!(Pick(7).of(&[10, 20, 30]), Some(20));
        assert_eq!(Pick(7).of::<u8>(&[]), None);
        assert_eq!(Pick::UNKNOWN.of(&[10]), None);
        assert_eq!(Pick::SPECIAL.of(&[10]), None);
    }
}
