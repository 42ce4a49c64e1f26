//! A thread as the dispatcher sees it, with its class state.

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
    /// Its class and class state.
    pub class: ClassState,
    /// Its class's global priority.
    pub pri: i16,
    /// The priority inherited from threads that wait for it, [`IDLE`] if none.
    pub inherited: i16,
    /// Its run state.
    pub state: RunState,
    /// The CPU that it runs on, whose queue it waits in, or that it used before it slept.
    pub cpu: CpuIndex,
    /// The CPU that it left last; `None` before its first run.
    pub ran_on: Option<CpuIndex>,
    /// The tick at which it last left a CPU; `None` before its first run.
    pub left_tick: Option<u64>,
    /// The CPU that it is bound to.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bound: Option<CpuIndex>,
    /// The partition (processor set) that it may run in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub part: PartitionId,
    /// Its holder of shares and caps: its process or its project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<HolderIndex>,
    /// CPU time that its caps have been charged, in nanoseconds.
    #[serde(default, skip_serializing_if = "is_default")]
    pub charged: u64,
    /// Its home lgroup, where the search for a CPU starts.
    pub home: u32,
    /// Its lgroup affinities.
    #[serde(rename = "wish", default, skip_serializing_if = "LgroupAffinities::is_none")]
    pub affinities: LgroupAffinities,
    /// When it entered its queue, in nanoseconds.
    pub queued_at: u64,
    /// When it began to wait for a CPU, across queues; 0 in a machine saved before this field existed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub waits_since: u64,
    /// The previous thread in its queue.
    pub prev: ThreadId,
    /// The next thread in its queue.
    pub next: ThreadId,
    /// Its class must act at its return to user mode.
    pub trapret: bool,
    /// It asked not to be preempted (schedctl).
    pub hold: bool,
    /// It was asked to yield soon because it held off preemption.
    pub asked_to_yield: bool,
    /// Once-per-second updates that it has been through.
    pub beats: u64,
    /// It runs in kernel mode.
    pub in_kernel: bool,
    /// State of its present system call.
    #[serde(default, skip_serializing_if = "is_default")]
    pub call: Call,
    /// Rest of its present burst: nanoseconds, or instructions of its mix; `u64::MAX` never ends.
    pub left: u64,
    /// The instruction mix of its present burst; `None` if the burst is measured in time.
    pub mix: Option<MixId>,
    /// Femtoseconds spent on the current instruction.
    pub rest_fs: u64,
    /// Kernel nanoseconds to spend before it continues: the cost of switching to it.
    pub owed_sys: u64,
    /// User nanoseconds to spend after that: reloading its cache.
    pub owed_user: u64,
    /// An interrupt of the clock or a device made it runnable, and it has not run since then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_interrupt: bool,
    /// The outer cache that it used last, and that cache's fill count at the time.
    pub warm: Option<(CacheId, u64)>,
    /// It came to its CPU, and its cache loss is not computed yet.
    pub arrived: bool,
    /// Its memory segment; `None` for memory at its home.
    pub memory: Option<SegmentId>,
    /// The thread whose address space it shares; `None` for its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<ThreadId>,
    /// Instructions executed.
    pub instructions: u64,
    /// Instructions executed in user mode.
    #[serde(default)]
    pub user_instructions: u64,
    /// The interrupt level that it handles, 1 to 15; 0 for none.
    pub level: u8,
    /// The source of its interrupt.
    pub origin: Origin,
    /// It is a device: its actions take no CPU.
    pub device: bool,
    /// CPU time in user mode, in nanoseconds.
    pub user: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub sys: u64,
    /// The rest of its time.
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub tally: Tally,
    /// Operations that its program counted.
    pub done: u64,
    /// Its program.
    pub program: Program,
}

/// State of a thread's present system call. A call pauses (sleeps, waits, yields, creates a thread) and computes at most once each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Call {
    /// There is a call.
    pub entered: bool,
    /// It has paused.
    pub paused: bool,
    /// It has computed.
    pub computed: bool,
}

impl Call {
    /// Advances to the next action of the thread. `true`: a system call begins with it.
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

/// Time of a thread on no CPU, in nanoseconds, and its switches. The rest of its lifetime it ran or was runnable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tally {
    /// When it was created.
    pub born: u64,
    /// When it last began to sleep.
    pub asleep_since: u64,
    /// Its present sleep is at a barrier.
    pub for_lock: bool,
    /// Time asleep at barriers, without the present sleep.
    pub locked: u64,
    /// Time asleep for other reasons, without the present sleep.
    pub slept: u64,
    /// Time stopped by caps, without the present wait.
    #[serde(skip_serializing_if = "is_default")]
    pub capped: u64,
    /// Voluntary switches.
    pub voluntary: u64,
    /// Involuntary switches.
    pub involuntary: u64,
    /// System calls.
    pub calls: u64,
}

impl Tally {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde passes references
    fn is_empty(&self) -> bool {
        *self == Tally::default()
    }

    /// Initializes the tally of a thread that is created asleep.
    pub(super) fn born(&mut self, now: u64) {
        (self.born, self.asleep_since) = (now, now);
    }

    /// Ends a sleep.
    pub(super) fn wake(&mut self, now: u64) {
        let (locked, slept) = self.asleep_at(now);
        (self.locked, self.slept, self.for_lock) = (locked, slept, false);
    }

    /// Time that a sleeping thread has slept at barriers, and for other reasons, including the present sleep.
    #[must_use]
    pub fn asleep_at(&self, now: u64) -> (u64, u64) {
        let passed = now.saturating_sub(self.asleep_since);
        if self.for_lock { (self.locked + passed, self.slept) } else { (self.locked, self.slept + passed) }
    }
}

/// The run state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It sleeps or waits for an event.
    Asleep,
    /// It waits in this queue: of a CPU, or, with higher numbers, the kp queue of a partition.
    Queued(QueueId),
    /// It runs on its CPU.
    Running,
    /// It is on its CPU, pinned under an interrupt handler.
    Pinned,
    /// It is stopped by a cap.
    Capped,
    /// It has ended. Its number may be reused.
    Gone,
}

/// The source of an interrupt, which decides the CPU that it goes to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Not an interrupt.
    #[default]
    None,
    /// The machine's network: the CPU of that device's interrupts.
    Network,
    /// A timer: the last CPU of the thread that waits at this channel.
    Timer(ChannelId),
    /// A CPU's own check, once per second, that the clock still ticks; counted with the clock's interrupts.
    Look(ChannelId),
}

/// CPU time and instructions of a CPU or a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Executed {
    /// Nanoseconds in user mode.
    pub user: u64,
    /// Nanoseconds in the kernel.
    pub sys: u64,
    /// Instructions.
    pub instructions: u64,
    /// Instructions in user mode.
    pub user_instructions: u64,
}

impl Thread {
    /// Its CPU time and instructions so far.
    #[must_use]
    pub fn executed(&self) -> Executed {
        Executed {
            user: self.user,
            sys: self.sys,
            instructions: self.instructions,
            user_instructions: self.user_instructions,
        }
    }

    /// The priority that the dispatcher compares: the better of its class's and the inherited one.
    #[must_use]
    pub fn effective(&self) -> i16 {
        self.pri.max(self.inherited)
    }

    /// A sleeping thread without a CPU or a partition.
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
