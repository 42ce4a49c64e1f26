//! A thread as the dispatcher sees it, and what its class remembers about it.

use super::affinity::LgroupAffinities;
use super::class_state::ClassState;
use super::defaults::is_default;
use super::ids::{
    CacheId, ChannelId, CpuIndex, HolderIndex, MixId, PartitionId, QueueId, SegmentId, ThreadId,
};
use super::partition::DEFAULT;
use super::program::{Action, Program};
use super::queue::{IDLE, NONE};
use serde::{Deserialize, Serialize};

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// What its class remembers.
    pub class: ClassState,
    /// The global priority that its class gives it.
    pub pri: i16,
    /// The priority that it inherits from those that wait for it, [`IDLE`] for none.
    pub inherited: i16,
    /// What it is doing.
    pub state: RunState,
    /// The CPU that it runs on, or whose queue it waits in, or where it was when it fell asleep.
    pub cpu: CpuIndex,
    /// The CPU it last left; `None` before it ever ran.
    pub ran_on: Option<CpuIndex>,
    /// The tick during which it last left a CPU; `None` before it ever ran.
    pub left_tick: Option<u64>,
    /// The only CPU that it may run on, if it is bound to one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bound: Option<CpuIndex>,
    /// The partition (processor set) that it may run in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub part: PartitionId,
    /// What holds it, with shares and caps: its process, or its project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderIndex>,
    /// For how much of its CPU time its caps were charged, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub charged: u64,
    /// Its home: the lgroup from which CPUs are looked for.
    pub home: u32,
    /// Which lgroups it prefers.
    #[serde(rename = "wish", default, skip_serializing_if = "LgroupAffinities::is_none")]
    pub affinities: LgroupAffinities,
    /// Since when it is in a queue, in nanoseconds.
    pub queued_at: u64,
    /// Since when it waits for a CPU, in one queue after another; 0 in a machine that was saved before this was kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits_since: u64,
    /// Its neighbours in its queue.
    pub prev: ThreadId,
    /// Its neighbours in its queue.
    pub next: ThreadId,
    /// Something awaits it on its way back to user mode.
    pub trapret: bool,
    /// It asked not to be preempted for a moment.
    pub hold: bool,
    /// It was asked to yield soon, since it was not preempted.
    pub asked_to_yield: bool,
    /// The updates of each second that it has seen.
    pub beats: u64,
    /// It executes in the kernel.
    pub in_kernel: bool,
    /// What its present system call has done.
    #[serde(default, skip_serializing_if = "is_default")]
    pub call: Call,
    /// What is left of its present burst: nanoseconds, or instructions of its mix; `u64::MAX` never ends.
    pub left: u64,
    /// The mix of its present burst; `None` while that is measured in time.
    pub mix: Option<MixId>,
    /// Femtoseconds that it spent on the instruction that it is at.
    pub rest_fs: u64,
    /// What it owes before it goes on, in nanoseconds in the kernel: switching to it.
    pub owed_sys: u64,
    /// What it owes after that, in nanoseconds in user mode: loading what its cache has lost.
    pub owed_user: u64,
    /// An interrupt of the clock or a device made it runnable, and it has not run since.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_interrupt: bool,
    /// The outer cache that it used last, and how much had been loaded there when it was warm.
    pub warm: Option<(CacheId, u64)>,
    /// It came to its CPU and has not looked yet what its cache has lost.
    pub arrived: bool,
    /// The segment of memory that it uses; `None` for memory at its home.
    pub memory: Option<SegmentId>,
    /// The thread whose address space it has; `None` for its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<ThreadId>,
    /// Instructions so far.
    pub instructions: u64,
    /// Those of them that were executed in user mode.
    #[serde(default)]
    pub user_instructions: u64,
    /// The level of the interrupt whose handler it is, 1 to 15; 0 for none.
    pub level: u8,
    /// Where its interrupt arrives.
    pub origin: Origin,
    /// It is a device: what it does takes no CPU.
    pub device: bool,
    /// CPU time so far in user mode, in nanoseconds.
    pub user: u64,
    /// CPU time so far in the kernel, in nanoseconds.
    pub sys: u64,
    /// Where the rest of its time went.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub tally: Tally,
    /// Operations that its program noted as done.
    pub done: u64,
    /// What it executes.
    pub program: Program,
}

/// What the present system call of a thread has done. A call pauses (sleeps, waits, yields, starts a thread) and computes at most once each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Call {
    /// There is one.
    pub entered: bool,
    /// It has paused.
    pub paused: bool,
    /// It has computed.
    pub computed: bool,
}

impl Call {
    /// The next action of the thread. `true`: a system call begins with it.
    pub(super) fn next(&mut self, action: &Action) -> bool {
        if !action.enters_kernel() {
            if action.is_in_user_mode() {
                *self = Call::default();
            }
            return false;
        }
        let (pauses, computes) = (action.pauses(), action.computes_in_kernel());
        let begins =
            !self.entered || (pauses && (self.paused || self.computed)) || (computes && self.computed);
        if begins {
            *self = Call::default();
        }
        self.entered = true;
        self.paused |= pauses;
        self.computed |= computes;
        begins
    }
}

/// Where the time of a thread went that it was on no CPU, in nanoseconds, and how often it left one. What is left of its age it could
/// have run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tally {
    /// When it began.
    pub born: u64,
    /// When it last fell asleep.
    pub asleep_since: u64,
    /// It sleeps until others are at a barrier.
    pub for_lock: bool,
    /// How long it slept until others were at a barrier; not the sleep that goes on.
    pub locked: u64,
    /// How long it slept for any other reason; not the sleep that goes on.
    pub slept: u64,
    /// How long it waited until one of its caps let it go on; not the wait that goes on.
    #[serde(skip_serializing_if = "is_default")]
    pub capped: u64,
    /// Left a CPU of its own will.
    pub voluntary: u64,
    /// Was made to leave one.
    pub involuntary: u64,
    /// Entered the kernel.
    pub calls: u64,
}

impl Tally {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
    fn is_empty(&self) -> bool {
        *self == Tally::default()
    }

    /// Begins at that moment, asleep.
    pub(super) fn born(&mut self, now: u64) {
        (self.born, self.asleep_since) = (now, now);
    }

    /// Its sleep is over.
    pub(super) fn wake(&mut self, now: u64) {
        let (locked, slept) = self.asleep_at(now);
        (self.locked, self.slept, self.for_lock) = (locked, slept, false);
    }

    /// How long a thread that sleeps has done so for a barrier, and for other reasons, the present sleep included.
    #[must_use]
    pub fn asleep_at(&self, now: u64) -> (u64, u64) {
        let passed = now.saturating_sub(self.asleep_since);
        if self.for_lock { (self.locked + passed, self.slept) } else { (self.locked, self.slept + passed) }
    }
}

/// What a thread is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It waits for something.
    Asleep,
    /// It waits in the queue of that number: of a CPU, or beyond those of a partition.
    Queued(QueueId),
    /// It is on its CPU.
    Running,
    /// It is on its CPU, under the handler of an interrupt.
    Pinned,
    /// It waits until one of its caps lets it go on.
    Capped,
    /// It has ended. Its place may be given to a new thread.
    Gone,
}

/// Where an interrupt comes from, which decides where it arrives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Nowhere.
    #[default]
    None,
    /// The machine's network: it arrives where that device's interrupts go.
    Network,
    /// A timer: it arrives where the thread was last that waits at the channel of that number.
    Timer(ChannelId),
    /// The same of a CPU's own look, once a second, whether the clock still ticks: that is counted with the clock's.
    Look(ChannelId),
}

/// What was executed, by a CPU or by a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Executed {
    /// Nanoseconds in user mode.
    pub user: u64,
    /// Nanoseconds in the kernel.
    pub sys: u64,
    /// Instructions.
    pub instructions: u64,
    /// Those of them in user mode.
    pub user_instructions: u64,
}

impl Thread {
    /// What it has executed so far.
    #[must_use]
    pub fn executed(&self) -> Executed {
        Executed {
            user: self.user,
            sys: self.sys,
            instructions: self.instructions,
            user_instructions: self.user_instructions,
        }
    }

    /// The priority that the dispatcher compares: its class's, or the inherited one where that is better.
    #[must_use]
    pub fn effective(&self) -> i16 {
        self.pri.max(self.inherited)
    }

    /// A thread that sleeps and belongs nowhere yet.
    #[must_use]
    pub fn new(class: ClassState, pri: i16, program: Program) -> Self {
        Thread {
            class,
            pri,
            inherited: IDLE,
            state: RunState::Asleep,
            cpu: CpuIndex(0),
            ran_on: None,
            left_tick: None,
            bound: None,
            part: DEFAULT,
            holder: None,
            charged: 0,
            home: 0,
            affinities: LgroupAffinities::default(),
            queued_at: 0,
            waits_since: 0,
            prev: NONE,
            next: NONE,
            trapret: false,
            hold: false,
            asked_to_yield: false,
            beats: 0,
            in_kernel: false,
            call: Call::default(),
            left: 0,
            mix: None,
            rest_fs: 0,
            owed_sys: 0,
            owed_user: 0,
            by_interrupt: false,
            warm: None,
            arrived: false,
            memory: None,
            space: None,
            instructions: 0,
            user_instructions: 0,
            level: 0,
            origin: Origin::None,
            device: false,
            user: 0,
            sys: 0,
            tally: Tally::default(),
            done: 0,
            program,
        }
    }
}
