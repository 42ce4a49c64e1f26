//! The kernel as data: what there is, and questions about it. What happens is in the other files.

use super::class_state::{ClassState, FssSet};
use super::cpu_mask::CpuMask;
use super::defaults::is_default;
use super::dispatch_tables;
use super::hardware::{Hardware, InstructionTime};
use super::heap::Heap;
use super::holder::Holder;
use super::ids::{
    BarrierId, CacheId, ChannelId, CpuIndex, HolderIndex, Id, LogId, MixId, PartitionId, QueueId, SegmentId,
    Table, ThreadId,
};
use super::index::Index;
use super::logs::Log;
use super::noise::SpellLog;
use super::partition::{ASIDE, DEFAULT, Partition};
use super::program::{Mix, Program};
use super::queue::{IDLE, Queue};
use super::thread::{Executed, Thread};
use super::tick::Tick;
use super::waits::{self, Waits};
use millpond_model::{COLUMNS, Column, DispatchTables, Histogram};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// More clock ticks in a second than any machine has had.
pub const HZ_MAX: u32 = 10_000;

/// What is tuned when a machine boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunables {
    /// Clock ticks per second.
    pub hz: u32,
    /// A thread is at home in a CPU's cache for so many ticks after it left.
    pub rechoose_interval: u64,
    /// A thread that waits where it last ran is not taken elsewhere for so many nanoseconds. 0: it is at once.
    pub nosteal_nsec: u64,
    /// Priorities from here on preempt the kernel, and wait in the queue of the partition.
    pub kpreempt_pri: i16,
    /// A wake-up by a program does not preempt a thread that began to run within so many nanoseconds. 0: it does, the rule of Solaris.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wakeup_parity_nsec: u64,
    /// How many ticks a thread may hold off preemption beyond its slice.
    pub hold_ticks: i64,
    /// Shared segments above so many KiB are placed at random.
    pub shm_random_kib: u64,
    /// Those are placed with regard to processor sets.
    pub mem_pset_aware: bool,
    /// Threads of TS share time by the rules of Linux, in slices of so many nanoseconds; by those of Solaris where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eevdf_slice_ns: Option<u64>,
}

impl Default for Tunables {
    fn default() -> Self {
        Tunables {
            hz: 100,
            rechoose_interval: 3,
            nosteal_nsec: 100_000,
            kpreempt_pri: 99,
            wakeup_parity_nsec: 0,
            hold_ticks: 2,
            shm_random_kib: 8 * 1_024,
            mem_pset_aware: false,
            eevdf_slice_ns: None,
        }
    }
}

/// A CPU as the dispatcher sees it. Its queue has its index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The thread that it runs.
    pub running: Option<ThreadId>,
    /// The priority of that thread, [`IDLE`] for none.
    pub dispatch_pri: i16,
    /// When that thread began to run, in nanoseconds; kept where `wakeup_parity_nsec` needs it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begun_at: u64,
    /// It was asked to switch, once it is in user mode.
    pub runrun: bool,
    /// It was asked to switch, also in the kernel.
    pub kprunrun: bool,
    /// The priority of a thread that is on its way here by the queue of the partition.
    pub chosen_level: i16,
    /// Its partition.
    #[serde(default, skip_serializing_if = "is_default")]
    pub part: PartitionId,
    /// Its lgroup.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lgroup: u32,
    /// Its core.
    #[serde(default, skip_serializing_if = "is_default")]
    pub core: u32,
    /// When its time was last accounted, in nanoseconds.
    pub since: u64,
    /// Nanoseconds in user mode.
    pub user: u64,
    /// Nanoseconds in the kernel.
    pub sys: u64,
    /// Nanoseconds without a thread.
    pub idle: u64,
    /// What happened here since boot, by [`Column::index`].
    pub events: [u64; COLUMNS.len()],
    /// Instructions since boot.
    pub instructions: u64,
    /// Those of them that were executed in user mode.
    pub user_instructions: u64,
    /// How fast what it runs goes on.
    #[serde(rename = "pace")]
    pub instruction_time: InstructionTime,
    /// Threads under the handlers of interrupts, the innermost last.
    pub pinned: Vec<ThreadId>,
    /// The virtual time of its threads of late ([`super::eevdf`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub virtual_time: i64,
    /// Thousandths of how many threads shared it on average of late ([`super::eevdf`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub average_load: u64,
    /// The address space that is loaded, named by a thread; kept where switching it takes time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<ThreadId>,
}

/// What threads wait at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Channel {
    /// Posts that no thread waited for yet.
    pub posts: u64,
    /// It was made with posts: they are free places, and no messages.
    #[serde(default)]
    pub places: bool,
    /// Threads that wait, in order of arrival.
    pub waiting: VecDeque<ThreadId>,
}

/// Where threads wait for one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Barrier {
    /// How many belong to it.
    pub parties: u32,
    /// The threads that are there already.
    pub there: Vec<ThreadId>,
    /// When the word is free again in which threads are counted.
    #[serde(default)]
    pub free_at: u64,
    /// The CPU that had it last.
    #[serde(default)]
    pub last: Option<CpuIndex>,
}

/// A segment that was placed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// Its number.
    pub segment: SegmentId,
    /// Its size, in KiB.
    pub kib: u64,
    /// The lgroups over which it is spread evenly.
    pub lgroups: Vec<u32>,
}

/// The kernel. What follows from the tables of its machine is not saved: see [`Kernel::forget`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// What was tuned.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tunables: Tunables,
    #[serde(
        default = "dispatch_tables::standard",
        with = "dispatch_tables",
        skip_serializing_if = "dispatch_tables::is_standard"
    )]
    pub(super) tables: Arc<DispatchTables>,
    pub(super) now: u64,
    pub(super) heap: Heap,
    pub(super) cpus: Table<CpuIndex, Cpu>,
    pub(super) queues: Table<QueueId, Queue>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Table<PartitionId, Partition>,
    /// For each lgroup the lgroups at growing distances: itself, then wider and wider groups without what was before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) levels: Vec<Vec<Vec<u32>>>,
    pub(super) threads: Table<ThreadId, Thread>,
    pub(super) free: Vec<ThreadId>,
    pub(super) channels: Table<ChannelId, Channel>,
    pub(super) barriers: Table<BarrierId, Barrier>,
    /// What has shares and caps.
    #[serde(default)]
    pub(super) holders: Table<HolderIndex, Holder>,
    /// Whether any of them has a cap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) capped: bool,
    /// For each partition what FSS knows of it.
    #[serde(default)]
    pub(super) fss: Table<PartitionId, FssSet>,
    /// The hardware.
    pub(super) hardware: Hardware,
    /// What instructions are like; the first is what spins.
    pub(super) mixes: Table<MixId, Mix>,
    /// For each segment of memory that was placed, picoseconds until it answers, by lgroup of the CPU.
    pub(super) segments: Table<SegmentId, Option<Vec<u64>>>,
    /// Where these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) placed: Vec<Placed>,
    /// For each outer cache how much was loaded into it since boot, in KiB.
    pub(super) filled: Table<CacheId, u64>,
    /// What was noted of moments.
    pub(super) logs: Table<LogId, Log>,
    /// What lots are drawn from.
    pub(super) seed: u64,
    /// The CPU where the clock's interrupts arrive.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) clock_cpu: CpuIndex,
    /// Until when those were counted, in nanoseconds.
    pub(super) counted: u64,
    /// The CPU whose doing has effects now.
    pub(super) at: Option<CpuIndex>,
    /// A program wakes a thread up, which preempts no thread that began to run within `wakeup_parity_nsec`.
    #[serde(skip)]
    pub(super) sparing: bool,
    /// CPUs that have something to decide.
    pub(super) asked: CpuMask,
    /// CPUs that run a thread.
    pub(super) busy: CpuMask,
    /// The CPU at which the next tick begins.
    pub(super) tick_start: CpuIndex,
    /// The list at which the next update begins.
    pub(super) update_start: u32,
    /// Where threads ran, in nanoseconds, by thread and CPU, while they are watched.
    pub(super) seen: Option<BTreeMap<ThreadId, BTreeMap<CpuIndex, u64>>>,
    /// What ran on each CPU, how often and how long, while OS noise is measured.
    #[serde(skip)]
    pub(super) spell_log: Option<SpellLog>,
    /// What became of threads by itself, in order, for [`Kernel::take_news`].
    pub(super) news: Vec<News>,
    /// For each partition, how long its threads waited for a CPU, all together, before they got one: nanoseconds since boot.
    #[serde(default)]
    pub(super) waited: Table<PartitionId, u64>,
    /// For each CPU how long threads waited before they got it.
    #[serde(default, with = "waits", skip_serializing_if = "Vec::is_empty")]
    pub(super) waits: Table<CpuIndex, Waits>,
    /// How much happened since boot: see [`Kernel::happened`].
    pub(super) happened: u64,
    #[serde(skip)]
    pub(super) index: Index,
}

/// What became of threads by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// A thread started a child.
    Born {
        /// The one.
        parent: ThreadId,
        /// The other.
        child: ThreadId,
        /// Whether both are of one process.
        #[serde(default, skip_serializing_if = "is_default")]
        same_process: bool,
    },
    /// A thread noted its first operation.
    Counts {
        /// The thread.
        thread: ThreadId,
    },
    /// A thread ended. Its place may be another one's already.
    Ended {
        /// Its number.
        thread: ThreadId,
        /// The operations that its program noted as done.
        done: u64,
        /// What it had executed.
        #[serde(default)]
        executed: Executed,
    },
}

/// How a machine's CPUs stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// For each CPU its lgroup and its core.
    pub cpus: Vec<(u32, u32)>,
    /// For each lgroup the distances to all.
    pub distances: Vec<Vec<u32>>,
    /// How long things take.
    pub hardware: Hardware,
}

impl Layout {
    /// So many CPUs, each a core of its own, in one lgroup.
    #[must_use]
    pub fn flat(cpus: u32) -> Self {
        Layout {
            cpus: (0..cpus).map(|core| (0, core)).collect(),
            distances: vec![vec![10]],
            hardware: Hardware::plain(cpus, 1),
        }
    }
}

/// How a thread starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Its class with what that remembers; see [`Kernel::entry`].
    pub class: ClassState,
    /// The global priority of a thread of the class SYS; others have theirs from their class.
    pub sys_pri: i16,
    /// The only CPU that it may run on.
    pub bound: Option<CpuIndex>,
    /// Its partition.
    pub part: PartitionId,
    /// The CPU on whose queue it is put first.
    pub cpu: CpuIndex,
    /// What it executes.
    pub program: Program,
}

impl Start {
    /// In the default partition, bound to nothing, beginning at CPU 0.
    #[must_use]
    pub fn new(class: ClassState, program: Program) -> Self {
        Start { class, sys_pri: 60, bound: None, part: DEFAULT, cpu: CpuIndex(0), program }
    }
}

impl Kernel {
    /// A kernel that was just booted: all CPUs idle and in the default partition.
    #[must_use]
    pub fn new(layout: &Layout, tables: impl Into<Arc<DispatchTables>>, tunables: Tunables) -> Self {
        let cpu = |&(lgroup, core): &(u32, u32)| Cpu {
            running: None,
            dispatch_pri: IDLE,
            begun_at: 0,
            runrun: false,
            kprunrun: false,
            chosen_level: IDLE,
            part: DEFAULT,
            lgroup,
            core,
            since: 0,
            user: 0,
            sys: 0,
            idle: 0,
            events: [0; COLUMNS.len()],
            instructions: 0,
            user_instructions: 0,
            instruction_time: InstructionTime::default(),
            pinned: Vec::new(),
            virtual_time: 0,
            average_load: 0,
            space: None,
        };
        let cpus: Table<CpuIndex, Cpu> = layout.cpus.iter().map(cpu).collect();
        let all: CpuMask = cpus.ids().collect();
        let mut kernel = Kernel {
            tunables,
            tables: tables.into(),
            now: 0,
            heap: Heap::default(),
            queues: vec![Queue::default(); cpus.len() + 2].into(),
            // No CPU belongs to the one aside.
            parts: vec![Partition::of(all.clone()), Partition { cpus: all, ..Partition::default() }].into(),
            levels: layout.distances.iter().map(|row| levels(row)).collect(),
            cpus,
            threads: Table::default(),
            free: Vec::new(),
            channels: Table::default(),
            barriers: Table::default(),
            holders: Table::default(),
            capped: false,
            fss: Table::default(),
            filled: vec![0; layout.hardware.cache_count()].into(),
            hardware: layout.hardware.clone(),
            mixes: vec![Mix::SPIN].into(),
            segments: Table::default(),
            placed: Vec::new(),
            logs: Table::default(),
            seed: 1,
            clock_cpu: CpuIndex(0),
            counted: 0,
            at: None,
            sparing: false,
            asked: CpuMask::default(),
            busy: CpuMask::default(),
            tick_start: CpuIndex(0),
            update_start: 0,
            seen: None,
            spell_log: None,
            news: Vec::new(),
            waited: Table::default(),
            waits: Table::default(),
            happened: 0,
            index: Index::default(),
        };
        kernel.reindex();
        kernel
    }

    /// Since boot, in nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many events there were since boot: ends of bursts, timers, clock ticks (one for each thread that is charged),
    /// switches.
    #[must_use]
    pub fn happened(&self) -> u64 {
        self.happened
    }

    /// Clock ticks since boot.
    #[must_use]
    #[inline]
    pub fn lbolt(&self) -> u64 {
        let known = &self.index.tick;
        if known.is_at(self.now, self.tunables.hz) { known.number } else { self.present_tick().number }
    }

    /// Updates of each second since boot.
    pub(super) fn beats(&self) -> u64 {
        self.present_tick().beat
    }

    /// Nanoseconds of a clock tick.
    pub(super) fn tick(&self) -> u64 {
        self.present_tick().length
    }

    fn present_tick(&self) -> Tick {
        let (known, hz) = (self.index.tick, self.tunables.hz);
        if known.is_at(self.now, hz) { known } else { Tick::at(self.now, hz) }
    }

    /// Time has moved.
    #[inline]
    pub(super) fn note_tick(&mut self) {
        self.index.tick = self.present_tick();
    }

    /// The dispatch tables.
    #[must_use]
    pub fn tables(&self) -> &DispatchTables {
        &self.tables
    }

    /// Loads other tables. What threads have of their slices stays as it is.
    pub fn set_tables(&mut self, tables: Arc<DispatchTables>) {
        // Sleepers see the seconds until now by the table that was.
        for thread in self.threads.ids() {
            self.catch_up(thread);
        }
        self.tables = tables;
    }

    /// All CPUs.
    #[must_use]
    pub fn cpus(&self) -> &Table<CpuIndex, Cpu> {
        &self.cpus
    }

    /// The queue of a CPU.
    #[must_use]
    pub fn queue(&self, cpu: CpuIndex) -> &Queue {
        &self.queues[cpu]
    }

    /// All threads; those that are [`RunState::Gone`] have no meaning.
    #[must_use]
    pub fn threads(&self) -> &Table<ThreadId, Thread> {
        &self.threads
    }

    /// One thread.
    #[must_use]
    #[inline]
    pub fn thread(&self, thread: ThreadId) -> &Thread {
        &self.threads[thread]
    }

    /// For each CPU how long threads waited before they got it.
    pub fn waits(&self) -> impl Iterator<Item = (CpuIndex, Histogram)> {
        waits::known(&self.waits)
    }

    /// How long the threads of each partition have waited for a CPU, all together: nanoseconds since boot. Those that wait now count.
    #[must_use]
    pub fn waited(&self) -> Table<PartitionId, u64> {
        let mut waited = self.waited.clone();
        for thread in self.queues.iter().flat_map(|queue| queue.threads(&self.threads)) {
            let t = self.thread(thread);
            add(&mut waited, t.part, self.now - t.queued_at);
        }
        waited
    }

    /// How many threads run or wait for a CPU.
    #[must_use]
    pub fn runnable(&self) -> u64 {
        self.index.at_home.iter().flatten().sum()
    }

    /// The same for each partition.
    #[must_use]
    pub fn runnable_by_part(&self) -> Table<PartitionId, u64> {
        self.index.at_home.iter().map(|homes| homes.iter().sum()).collect()
    }

    /// All partitions.
    pub fn parts(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.parts.ids()
    }

    #[inline]
    pub(super) fn t(&mut self, thread: ThreadId) -> &mut Thread {
        &mut self.threads[thread]
    }

    /// The number of a partition's queue for kernel preemption. Those that keep aside of shared sets use the default
    /// partition's.
    #[inline]
    pub(super) fn kp_queue(&self, part: PartitionId) -> QueueId {
        let part = if part == ASIDE { DEFAULT } else { part };
        QueueId::at(self.cpus.len().saturating_add(part.place()))
    }

    /// What became of threads since this was asked last.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Begins or ends noting where threads run.
    pub fn watch(&mut self, on: bool) {
        self.seen = if on { Some(self.seen.take().unwrap_or_default()) } else { None };
    }

    /// For how many nanoseconds each thread ran on each CPU since the watching began or this was asked last.
    pub fn take_seen(&mut self) -> BTreeMap<ThreadId, BTreeMap<CpuIndex, u64>> {
        self.seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn count(&mut self, cpu: CpuIndex, column: Column) {
        self.cpus[cpu].events[column.index()] += 1;
    }

    /// A new barrier for so many threads; gives its number.
    pub fn barrier(&mut self, parties: u32) -> BarrierId {
        self.barriers.add(Barrier { parties, there: Vec::new(), free_at: 0, last: None })
    }

    /// A new channel; gives its number.
    pub fn channel(&mut self) -> ChannelId {
        self.filled_channel(0)
    }

    /// The same with so many posts that no thread waited for yet.
    pub fn filled_channel(&mut self, posts: u64) -> ChannelId {
        self.channels.add(Channel { posts, places: posts > 0, ..Channel::default() })
    }

    /// Posts that nobody took yet, in channels that were made empty: messages that wait.
    #[must_use]
    pub fn messages_waiting(&self) -> u64 {
        self.channels.iter().filter(|channel| !channel.places).map(|channel| channel.posts).sum()
    }

    /// Bytes of messages that wait for a reader at most.
    #[must_use]
    pub fn socket_bytes(&self) -> u64 {
        self.hardware.socket_bytes
    }

    /// What a process takes in the kernel to end, in nanoseconds.
    #[must_use]
    pub fn process_end_ns(&self) -> u64 {
        self.hardware.process_end_ns
    }
}

/// Adds to the sum at a place, which may not be there yet.
pub(super) fn add(sums: &mut Table<PartitionId, u64>, at: PartitionId, more: u64) {
    if sums.len() <= at.place() {
        sums.resize(at.place() + 1, 0);
    }
    sums[at] += more;
}

/// The rings around an lgroup: which lgroups are at each distance, nearest first.
pub(super) fn levels(distances: &[u32]) -> Vec<Vec<u32>> {
    let rings: BTreeSet<u32> = distances.iter().copied().collect();
    let at = |ring: u32| {
        let lgroups = distances.iter().zip(0u32..).filter(move |(d, _)| **d == ring);
        lgroups.map(|(_, lgroup)| lgroup).collect()
    };
    rings.into_iter().map(at).collect()
}
