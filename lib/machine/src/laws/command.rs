//! Commands: the elements of scripts, and the generation of random scripts.
//!
//! Commands refer to objects by index, not by number, so that any part of a script is a valid script. An index is taken modulo the number
//! of existing objects.

use super::subject::Abilities;
use millpond_model::{ClassRequest, Quantum, State};
use proptest::prelude::*;
use proptest::strategy::Union;
use std::fmt;

/// An index into existing objects; the highest values select a missing one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pick(pub u8);

/// Picks below this value are indices.
const POSITIONS: u8 = 250;

impl Pick {
    /// An object that does not exist.
    pub const UNKNOWN: Pick = Pick(255);
    /// An object that exists and may not be changed: the default set, a kernel process.
    pub const SPECIAL: Pick = Pick(254);
    /// The object named just before.
    pub const AGAIN: Pick = Pick(253);

    /// Whether it is an index, and not one of the special values.
    #[must_use]
    pub fn is_position(self) -> bool {
        self.0 < POSITIONS
    }

    /// The selected element of a list; `None` for an empty list and for special values.
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
    /// Starts a process.
    Spawn,
    /// The first thread of a process starts another thread.
    Thread { process: Pick },
    /// The first thread of a process forks.
    Fork { process: Pick },
    /// Ends a process.
    Exit { process: Pick },
    /// Starts a process with a load.
    Start(Load),
    /// Lets this number of milliseconds pass.
    Pass(u16),
    /// Projects contend for a CPU of their own: for each its shares and its number of threads, at least 1.
    Contend(Vec<(u8, u8)>),
    /// A change through the interface, as any command makes it.
    Do(Edit),
    /// The same with a fault.
    Hit { edit: Edit, fault: Fault },
    /// The same change is killed at each of its points in turn, and repaired each time; then it is made.
    KillEverywhere(Edit),
}

/// The load of a started process. Its form and duration are defined by the subject. The rate of its events must be low
/// enough to simulate one second within a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Load {
    /// Threads compute endlessly.
    Spin,
    /// Threads compute for a short time, and end.
    Burst,
    /// Threads alternate between computing and sleeping.
    Nap,
    /// A thread starts a child at intervals.
    Fork,
    /// Jobs start children and wait for them; finally all have ended.
    Build,
    /// Pairs of threads wake one another, and end.
    Pingpong,
    /// Threads meet at barriers, some spinning, some sleeping.
    Meet,
}

impl Load {
    /// All loads.
    pub const ALL: [Load; 7] =
        [Load::Spin, Load::Burst, Load::Nap, Load::Fork, Load::Build, Load::Pingpong, Load::Meet];
}

/// A change of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are positions of what the variant says")]
pub enum Edit {
    /// Creates a set.
    Create { cpus: Vec<Pick>, shared: bool, forced: bool },
    /// Destroys a set.
    Destroy { set: Pick },
    /// Moves CPUs into a set.
    Assign { set: Pick, cpus: Vec<Pick>, forced: bool },
    /// Takes CPUs out of their sets.
    Remove { cpus: Vec<Pick>, forced: bool },
    /// Binds a process, or one thread of it, to a set.
    BindSet { process: Pick, thread: Option<Pick>, set: Pick },
    /// Unbinds it.
    UnbindSet { process: Pick, thread: Option<Pick> },
    /// Binds a process, or one thread of it, to CPUs.
    BindCpu { process: Pick, thread: Option<Pick>, cpus: Vec<Pick> },
    /// Unbinds it.
    UnbindCpu { process: Pick, thread: Option<Pick> },
    /// Changes the state of CPUs.
    State { cpus: Vec<Pick>, to: State, forced: bool },
    /// Sets the memory of a set.
    Memory { set: Pick, to: Memory },
    /// Puts a process into a class, or changes its parameters there.
    Class { process: Pick, request: ClassRequest },
    /// Sets or deletes the shares or the cap of a project, a zone or a process.
    Control { holder: Holder, shares: bool, value: Option<u16> },
    /// Replaces a row of a dispatch table by one derived from a number.
    Row { table: Pick, level: Pick, value: u16 },
}

/// A holder of shares and caps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// One of the projects.
    Project(Pick),
    /// One of the zones.
    Zone(Pick),
    /// A process.
    Process(Pick),
}

/// A memory setting of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memory {
    /// Any node.
    All,
    /// The nodes of its CPUs.
    Local,
    /// These nodes.
    Nodes(Vec<Pick>),
}

/// A fault to inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The writer is killed at its n-th point, counted from 0.
    Kill(u8),
    /// The same, and the next writer is killed after n writes of its repair.
    KillTwice(u8, u8),
    /// The machine refuses the n-th step, counted from 0.
    Resist(u8),
    /// The n-th write of the journal fails, counted from 0.
    DiskFull(u8),
}

/// Random scripts of 1 to `length_max` commands that a machine with these abilities can execute.
pub fn scripts(length_max: usize, abilities: &Abilities) -> impl Strategy<Value = Vec<Command>> + use<> {
    proptest::collection::vec(command(abilities), 1..=length_max)
}

fn command(abilities: &Abilities) -> Union<BoxedStrategy<Command>> {
    let edit = || edit(abilities);
    let mut kinds = vec![
        (3, Just(Command::Spawn).boxed()),
        (2, pick().prop_map(|process| Command::Thread { process }).boxed()),
        (2, pick().prop_map(|process| Command::Fork { process }).boxed()),
        (1, pick().prop_map(|process| Command::Exit { process }).boxed()),
        (20, edit().prop_map(Command::Do).boxed()),
        (4, (edit(), fault()).prop_map(|(edit, fault)| Command::Hit { edit, fault }).boxed()),
        (1, edit().prop_map(Command::KillEverywhere).boxed()),
    ];
    if abilities.programs {
        kinds.push((3, prop::sample::select(&Load::ALL[..]).prop_map(Command::Start).boxed()));
        kinds.push((5, (1u16..=60).prop_map(Command::Pass).boxed()));
    }
    if abilities.programs && abilities.controls {
        let groups = proptest::collection::vec((1u8..=10, 1u8..=4), 2);
        kinds.push((1, groups.prop_map(Command::Contend).boxed()));
    }
    Union::new_weighted(kinds)
}

fn edit(abilities: &Abilities) -> Union<BoxedStrategy<Edit>> {
    let mut kinds = vec![
        (
            5,
            (cpus(), prop::bool::weighted(0.2), forced())
                .prop_map(|(cpus, shared, forced)| Edit::Create { cpus, shared, forced })
                .boxed(),
        ),
        (2, pick().prop_map(|set| Edit::Destroy { set }).boxed()),
        (
            4,
            (pick(), cpus(), forced())
                .prop_map(|(set, cpus, forced)| Edit::Assign { set, cpus, forced })
                .boxed(),
        ),
        (2, (cpus(), forced()).prop_map(|(cpus, forced)| Edit::Remove { cpus, forced }).boxed()),
        (
            6,
            (pick(), thread(), pick())
                .prop_map(|(process, thread, set)| Edit::BindSet { process, thread, set })
                .boxed(),
        ),
        (2, (pick(), thread()).prop_map(|(process, thread)| Edit::UnbindSet { process, thread }).boxed()),
        (
            4,
            (pick(), thread(), prop::collection::vec(pick(), 1..=3))
                .prop_map(|(process, thread, cpus)| Edit::BindCpu { process, thread, cpus })
                .boxed(),
        ),
        (2, (pick(), thread()).prop_map(|(process, thread)| Edit::UnbindCpu { process, thread }).boxed()),
        (
            5,
            (cpus(), state(), forced())
                .prop_map(|(cpus, to, forced)| Edit::State { cpus, to, forced })
                .boxed(),
        ),
    ];
    if abilities.lgroups {
        kinds.push((2, (pick(), memory()).prop_map(|(set, to)| Edit::Memory { set, to }).boxed()));
    }
    if abilities.controls {
        let value = proptest::option::weighted(0.7, any::<u16>());
        let control = (holder(), any::<bool>(), value).prop_map(|(holder, shares, value)| Edit::Control {
            holder,
            shares,
            value,
        });
        kinds.push((4, control.boxed()));
    }
    if abilities.classes {
        let class = (pick(), request()).prop_map(|(process, request)| Edit::Class { process, request });
        let row = (pick(), pick(), any::<u16>()).prop_map(|(table, level, value)| Edit::Row {
            table,
            level,
            value,
        });
        kinds.extend([(5, class.boxed()), (1, row.boxed())]);
    }
    Union::new_weighted(kinds)
}

/// Mostly valid requests: the ranges extend slightly beyond those of the classes.
fn request() -> impl Strategy<Value = ClassRequest> {
    let own = || proptest::option::of(-62i32..=62);
    let quantum = || {
        let some = prop_oneof![4 => (1u32..=20).prop_map(Quantum::Ticks), 1 => Just(Quantum::Infinite)];
        proptest::option::of(some)
    };
    prop_oneof![
        (own(), own()).prop_map(|(uprilim, upri)| ClassRequest::Ts { uprilim, upri }),
        (own(), own()).prop_map(|(uprilim, upri)| ClassRequest::Fss { uprilim, upri }),
        (own(), own(), proptest::option::of(any::<bool>()))
            .prop_map(|(uprilim, upri, foreground)| ClassRequest::Ia { uprilim, upri, foreground }),
        (own(), own(), quantum()).prop_map(|(uprilim, upri, quantum)| ClassRequest::Fx {
            uprilim,
            upri,
            quantum
        }),
        (proptest::option::of(-1i32..=60), quantum(), proptest::option::of(0u8..=31))
            .prop_map(|(pri, quantum, tqsig)| ClassRequest::Rt { pri, quantum, tqsig }),
    ]
}

fn pick() -> impl Strategy<Value = Pick> {
    prop_oneof![
        40 => (0u8..POSITIONS).prop_map(Pick),
        1 => Just(Pick::SPECIAL),
        1 => Just(Pick::UNKNOWN),
    ]
}

fn holder() -> impl Strategy<Value = Holder> {
    prop_oneof![
        2 => pick().prop_map(Holder::Project),
        1 => pick().prop_map(Holder::Zone),
        3 => pick().prop_map(Holder::Process),
    ]
}

fn memory() -> impl Strategy<Value = Memory> {
    prop_oneof![
        2 => Just(Memory::All),
        3 => Just(Memory::Local),
        3 => proptest::collection::vec(pick(), 0..3).prop_map(Memory::Nodes),
    ]
}

fn thread() -> impl Strategy<Value = Option<Pick>> {
    proptest::option::weighted(0.4, pick())
}

/// Mostly different CPUs: an index that was used before selects the next one.
fn cpus() -> impl Strategy<Value = Vec<Pick>> {
    let one = prop_oneof![30 => pick(), 1 => Just(Pick::AGAIN)];
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
