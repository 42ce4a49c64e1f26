//! The laws by name, and the abilities that a machine needs for each.

use super::subject::Abilities;
use std::fmt;

/// A law. In the order in which they say something about the cause when several are broken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is said in full by its name")]
pub enum Law {
    OneSetEach,
    DestroyReturnsThreads,
    DestroyReturnsProcessors,
    UnbindingRestores,
    ChildrenInherit,
    ClassesSurvive,
    UndoneClassReturns,
    CapsHold,
    SharesAreKept,
    LowestFreeNumber,
    OrderOfArrival,
    StoppedKeepsItsSet,
    LgroupsHoldEverything,
    MemoryIsThere,
    SinceChangesWithState,
    LastOnlineStays,
    DefaultSetRuns,
    LastInterruptibleStays,
    ShelteredFromInterrupts,
    InterruptsArrive,
    StoppedRunsNothing,
    RunsWhereAllowed,
    BoundStayInside,
    OthersStayOutside,
    ReachWholeSet,
    IdleIsNoLongerThanElapsed,
    BooksBalance,
    RefusedForAReason,
    RefusedChangesNothing,
    UnfinishedIsPutBack,
    FinishedStays,
    TearDownForgets,
    TearDownRestores,
    DoesWhatItSays,
    NothingElseChanges,
    ForbiddenIsRefused,
}

/// What a law needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Sets.
    Sets,
    /// Sets that others are pushed out of.
    ExclusiveSets,
    /// Processors that can be taken out of service.
    Stopping,
    /// Processors that can be sheltered from interrupts.
    Shelter,
    /// States that change at all.
    States,
    /// Counters.
    Counters,
    /// Programs whose actions are shown exactly.
    Programs,
    /// Classes that can be changed.
    Classes,
    /// Shares and caps that can be changed, in class FSS.
    Controls,
    /// Lgroups, and sets whose memory can be confined to some.
    Lgroups,
    /// Interrupts that go elsewhere at once.
    PromptInterrupts,
}

impl Law {
    /// Every law, in the order of the report.
    pub const ALL: [Law; 36] = [
        Law::OneSetEach,
        Law::DestroyReturnsThreads,
        Law::DestroyReturnsProcessors,
        Law::UnbindingRestores,
        Law::ChildrenInherit,
        Law::ClassesSurvive,
        Law::UndoneClassReturns,
        Law::CapsHold,
        Law::SharesAreKept,
        Law::LowestFreeNumber,
        Law::OrderOfArrival,
        Law::StoppedKeepsItsSet,
        Law::LgroupsHoldEverything,
        Law::MemoryIsThere,
        Law::SinceChangesWithState,
        Law::LastOnlineStays,
        Law::DefaultSetRuns,
        Law::LastInterruptibleStays,
        Law::ShelteredFromInterrupts,
        Law::InterruptsArrive,
        Law::StoppedRunsNothing,
        Law::RunsWhereAllowed,
        Law::BoundStayInside,
        Law::OthersStayOutside,
        Law::ReachWholeSet,
        Law::IdleIsNoLongerThanElapsed,
        Law::BooksBalance,
        Law::RefusedForAReason,
        Law::RefusedChangesNothing,
        Law::UnfinishedIsPutBack,
        Law::FinishedStays,
        Law::TearDownForgets,
        Law::TearDownRestores,
        Law::DoesWhatItSays,
        Law::NothingElseChanges,
        Law::ForbiddenIsRefused,
    ];

    /// The law in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Law::OneSetEach => "every processor is in exactly one set",
            Law::DefaultSetRuns => "the default set has an active processor",
            Law::BoundStayInside => "a bound thread may run where it is bound, and nowhere else",
            Law::OthersStayOutside => "no other thread may run in an exclusive set",
            Law::LastOnlineStays => "the last active processor of a set cannot be taken out of service",
            Law::LastInterruptibleStays => "a processor that takes interrupts remains",
            Law::ShelteredFromInterrupts => "no movable interrupt may go to a sheltered processor",
            Law::ReachWholeSet => "a thread that is bound to no processor may run wherever its set does",
            Law::InterruptsArrive => "interrupts arrive at processors that take them",
            Law::StoppedRunsNothing => "nothing runs on a processor that is out of service",
            Law::RunsWhereAllowed => "a thread runs where it is allowed, and nowhere else",
            Law::BooksBalance => "a processor's time is accounted for, to the nanosecond",
            Law::IdleIsNoLongerThanElapsed => "idle time never exceeds elapsed time",
            Law::DestroyReturnsProcessors => "destroying a set returns its processors to the default set",
            Law::DestroyReturnsThreads => "destroying a set returns its threads to where they were",
            Law::UnbindingRestores => "unbinding restores what was allowed before",
            Law::OrderOfArrival => "members stand in order of arrival",
            Law::LowestFreeNumber => "a new set has the lowest free number",
            Law::StoppedKeepsItsSet => "a processor keeps its set through every state",
            Law::LgroupsHoldEverything => {
                "each active processor is in one leaf, each lgroup within its parent, all in the root"
            }
            Law::MemoryIsThere => "the memory of a set comes from lgroups that there are, as it was asked",
            Law::SinceChangesWithState => "since-times change exactly when states do",
            Law::ChildrenInherit => "children inherit the bindings and the class of their creator",
            Law::ClassesSurvive => "a class survives changes of sets, bindings and states",
            Law::UndoneClassReturns => "a change of class that is not made leaves all classes as they were",
            Law::CapsHold => {
                "a cap is exceeded by what it allows for a period at most, and a tick of each processor"
            }
            Law::SharesAreKept => {
                "two projects that contend for a processor get their shares within 2 % over 10 s, in slices of a tick"
            }
            Law::DoesWhatItSays => "a change does what it says",
            Law::NothingElseChanges => "what a change does not name stays as it was",
            Law::RefusedForAReason => "a refusal is justified by the situation",
            Law::ForbiddenIsRefused => "what the rules forbid is refused",
            Law::RefusedChangesNothing => "a refused change changes nothing at all",
            Law::UnfinishedIsPutBack => "a change that was killed before its end is put back",
            Law::FinishedStays => "a change that was killed after its end stays",
            Law::TearDownRestores => "ending all sets and bindings restores the beginning",
            Law::TearDownForgets => "ending all sets and bindings leaves no baseline in the journal",
        }
    }

    /// What the law needs.
    #[must_use]
    pub fn needs(self) -> Need {
        match self {
            Law::OthersStayOutside => Need::ExclusiveSets,
            Law::LastOnlineStays | Law::StoppedKeepsItsSet => Need::Stopping,
            Law::LastInterruptibleStays | Law::ShelteredFromInterrupts => Need::Shelter,
            Law::SinceChangesWithState => Need::States,
            Law::IdleIsNoLongerThanElapsed => Need::Counters,
            Law::InterruptsArrive => Need::PromptInterrupts,
            Law::StoppedRunsNothing | Law::RunsWhereAllowed | Law::BooksBalance => Need::Programs,
            Law::ClassesSurvive | Law::UndoneClassReturns => Need::Classes,
            Law::CapsHold | Law::SharesAreKept => Need::Controls,
            Law::LgroupsHoldEverything | Law::MemoryIsThere => Need::Lgroups,
            _ => Need::Sets,
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Need {
    /// Why a machine of these abilities does not have it, if so.
    #[must_use]
    pub fn missing(self, abilities: &Abilities) -> Option<&'static str> {
        let (there, why) = match self {
            Need::Sets => (true, ""),
            Need::Counters => (true, ""),
            Need::ExclusiveSets => (abilities.exclusive, "this machine makes no exclusive sets"),
            Need::Stopping => (abilities.can_stop(), "processors cannot be taken out of service here"),
            Need::Shelter => (abilities.can_shelter(), "processors cannot be sheltered here"),
            Need::Programs => (abilities.programs, "where programs run is not shown exactly here"),
            Need::Classes => (abilities.classes, "classes are not changed here"),
            Need::Controls => {
                (abilities.controls && abilities.programs, "shares and caps are not exact here")
            }
            Need::Lgroups => (abilities.lgroups, "the memory of sets cannot be confined here"),
            Need::PromptInterrupts => {
                (abilities.prompt_interrupts, "interrupts go elsewhere only with time here")
            }
            Need::States => (abilities.states.len() > 1, "processors cannot change their states here"),
        };
        if there { None } else { Some(why) }
    }
}
