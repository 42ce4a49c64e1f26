//! The laws by name, and the abilities that a machine needs for each.

use super::subject::Abilities;

millpond_model::words! {
    /// A law. The order is by significance for the cause when several are broken at once.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[expect(missing_docs, reason = "each is said in full by its name")]
    pub enum Law {
        OneSetEach = "every CPU is in exactly one set",
        DestroyReturnsThreads = "destroying a set returns its threads to where they were",
        DestroyReturnsProcessors = "destroying a set returns its CPUs to the sets that they were taken from",
        UnbindingRestores = "unbinding restores what was allowed before",
        ChildrenInherit = "children inherit the bindings and the class of their creator",
        ClassesSurvive = "a class survives changes of sets, bindings and states",
        UndoneClassReturns = "a change of class that is not made leaves all classes as they were",
        CapsHold = "a cap is exceeded by what it allows for a period at most, and a tick of each CPU",
        SharesAreKept = "two projects that contend for a CPU get their shares within 2 % over 10 s, in slices of a tick",
        LowestFreeNumber = "a new set has the lowest free number",
        OrderOfArrival = "members stand in order of arrival",
        StoppedKeepsItsSet = "a CPU keeps its set through every state",
        LgroupsHoldEverything = "each active CPU is in one leaf, each lgroup within its parent, all in the root",
        MemoryIsThere = "the memory of a set comes from lgroups that there are, as it was asked",
        SinceChangesWithState = "since-times change exactly when states do",
        LastOnlineStays = "the last active CPU of a set cannot be taken out of service",
        DefaultSetRuns = "the default set has an active CPU",
        LastInterruptibleStays = "a CPU that takes interrupts remains",
        ShelteredFromInterrupts = "no movable interrupt may go to a sheltered CPU",
        InterruptsArrive = "interrupts arrive at CPUs that take them",
        StoppedRunsNothing = "nothing runs on a CPU that is out of service",
        RunsWhereAllowed = "a thread runs where it is allowed, and nowhere else",
        BoundStayInside = "a bound thread may run where it is bound, and nowhere else",
        OthersStayOutside = "no other thread may run in an exclusive set",
        ReachWholeSet = "a thread that is bound to no CPU may run wherever its set does",
        IdleIsNoLongerThanElapsed = "idle time never exceeds elapsed time",
        BooksBalance = "a CPU's time is accounted for, to the nanosecond",
        RefusedForAReason = "a refusal is justified by the situation",
        RefusedChangesNothing = "a refused change changes nothing at all",
        UnfinishedIsPutBack = "a change that was killed before its end is put back",
        FinishedStays = "a change that was killed after its end stays",
        TearDownForgets = "ending all sets and bindings leaves no baseline in the journal",
        TearDownRestores = "ending all sets and bindings restores the beginning",
        DoesWhatItSays = "a change does what it says",
        NothingElseChanges = "what a change does not name stays as it was",
        ForbiddenIsRefused = "what the rules forbid is refused",
    }
}

/// A requirement of a law.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Sets.
    Sets,
    /// Sets that exclude other threads.
    ExclusiveSets,
    /// CPUs that can go off-line.
    Stopping,
    /// CPUs that can be sheltered from interrupts.
    Shelter,
    /// States that can change.
    States,
    /// Counters.
    Counters,
    /// Programs whose run time is reported exactly.
    Programs,
    /// Classes that can be changed.
    Classes,
    /// Shares and caps that can be changed, in class FSS.
    Controls,
    /// Lgroups, and sets with memory settings.
    Lgroups,
    /// Interrupts that move at once.
    PromptInterrupts,
}

impl Law {
    /// The requirement of the law.
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

impl Need {
    /// The reason why a machine with these abilities does not meet it, if so.
    #[must_use]
    pub fn missing(self, abilities: &Abilities) -> Option<&'static str> {
        let (there, why) = match self {
            Need::Sets => (true, ""),
            Need::Counters => (true, ""),
            Need::ExclusiveSets => (abilities.exclusive, "this machine makes no exclusive sets"),
            Need::Stopping => (abilities.can_stop(), "CPUs cannot be taken out of service here"),
            Need::Shelter => (abilities.can_shelter(), "CPUs cannot be sheltered here"),
            Need::Programs => (abilities.programs, "where programs run is not shown exactly here"),
            Need::Classes => (abilities.classes, "classes are not changed here"),
            Need::Controls => {
                (abilities.controls && abilities.programs, "shares and caps are not exact here")
            }
            Need::Lgroups => (abilities.lgroups, "the memory of sets cannot be confined here"),
            Need::PromptInterrupts => {
                (abilities.prompt_interrupts, "interrupts go elsewhere only with time here")
            }
            Need::States => (abilities.states.len() > 1, "CPUs cannot change their states here"),
        };
        if there { None } else { Some(why) }
    }
}
