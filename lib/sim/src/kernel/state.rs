//! The kernel's data, and queries on it. The events are in the other files.

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

/// Most clock ticks per second: more than any machine has had.
pub const HZ_MAX: u32 = 10_000;

/// Boot-time tunables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunables {
    /// Clock ticks per second.
    pub hz: u32,
    /// Ticks for which a thread's data counts as cached after it left a CPU.
    pub rechoose_interval: u64,
    /// Nanoseconds for which a thread that waits on its last CPU is not stolen. 0: it may be stolen at once.
    pub nosteal_nsec: u64,
    /// Lowest priority that preempts the kernel and waits in the partition's kp queue.
    pub kpreempt_pri: i16,
    /// A wake-up by a program does not preempt a thread that began to run within this many nanoseconds. 0: it does, as in Solaris.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wakeup_parity_nsec: u64,
    /// How many ticks a thread may hold off preemption beyond its slice.
    pub hold_ticks: i64,
    /// Shared segments larger than this many KiB are placed at random.
    pub shm_random_kib: u64,
    /// Whether those are placed within the lgroups of the processor set.
    pub mem_pset_aware: bool,
    /// Slice in nanoseconds for TS under the rules of Linux; `None` for the rules of Solaris.
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

/// A CPU as the dispatcher sees it. Its queue has the same index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The thread that it runs.
    pub running: Option<ThreadId>,
    /// The priority of that thread, [`IDLE`] if none.
    pub dispatch_pri: i16,
    /// When that thread began to run, in nanoseconds; kept where `wakeup_parity_nsec` needs it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub begun_at: u64,
    /// It was asked to switch, once it is in user mode.
    pub runrun: bool,
    /// Preemption is requested, in the kernel too.
    pub kprunrun: bool,
    /// The priority of a thread in the kp queue that this CPU was chosen for.
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
    /// Time up to which its time is accounted, in nanoseconds.
    pub since: u64,
    /// Nanoseconds in user mode.
    pub user: u64,
    /// Nanoseconds in the kernel.
    pub sys: u64,
    /// Idle nanoseconds.
    pub idle: u64,
    /// Event counts since boot, by [`Column::index`].
    pub events: [u64; COLUMNS.len()],
    /// Instructions since boot.
    pub instructions: u64,
    /// Instructions in user mode.
    pub user_instructions: u64,
    /// Timing of the running thread.
    #[serde(rename = "pace")]
    pub instruction_time: InstructionTime,
    /// Threads pinned under interrupt handlers, the innermost last.
    pub pinned: Vec<ThreadId>,
    /// Last virtual time of its threads ([`super::eevdf`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub virtual_time: i64,
    /// Average number of threads on it, in thousandths ([`super::eevdf`]).
    #[serde(default, skip_serializing_if = "is_default")]
    pub average_load: u64,
    /// The loaded address space, identified by a thread; only kept where a switch of address spaces takes time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<ThreadId>,
}

/// A channel: threads wait there for posts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Channel {
    /// Posts that no thread has taken.
    pub posts: u64,
    /// It was created with posts: they are free slots, not messages.
    #[serde(default)]
    pub places: bool,
    /// Waiting threads, in order of arrival.
    pub waiting: VecDeque<ThreadId>,
}

/// A barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Barrier {
    /// Number of threads that it waits for.
    pub parties: u32,
    /// Threads that have arrived.
    pub there: Vec<ThreadId>,
    /// When the counter's cache line is free again.
    #[serde(default)]
    pub free_at: u64,
    /// The CPU that had the line last.
    #[serde(default)]
    pub last: Option<CpuIndex>,
}

/// A placed memory segment.
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

/// The kernel. Data that follows from the machine's tables is not saved: see [`Kernel::forget`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// The tunables.
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
    /// For each lgroup the others by distance: first itself, then rings of increasing distance.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) levels: Vec<Vec<Vec<u32>>>,
    pub(super) threads: Table<ThreadId, Thread>,
    pub(super) free: Vec<ThreadId>,
    pub(super) channels: Table<ChannelId, Channel>,
    pub(super) barriers: Table<BarrierId, Barrier>,
    /// Holders of shares and caps.
    #[serde(default)]
    pub(super) holders: Table<HolderIndex, Holder>,
    /// Whether any holder has a cap.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) capped: bool,
    /// State of FSS for each partition.
    #[serde(default)]
    pub(super) fss: Table<PartitionId, FssSet>,
    /// The hardware.
    pub(super) hardware: Hardware,
    /// Instruction mixes; the first is that of spinning threads.
    pub(super) mixes: Table<MixId, Mix>,
    /// Memory latency of each placed segment in picoseconds, by lgroup of the CPU.
    pub(super) segments: Table<SegmentId, Option<Vec<u64>>>,
    /// Placed segments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) placed: Vec<Placed>,
    /// KiB loaded into each outer cache since boot.
    pub(super) filled: Table<CacheId, u64>,
    /// Logs of timestamps.
    pub(super) logs: Table<LogId, Log>,
    /// State of the random number generator.
    pub(super) seed: u64,
    /// The CPU of the clock interrupt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(super) clock_cpu: CpuIndex,
    /// Time up to which clock interrupts are counted, in nanoseconds.
    pub(super) counted: u64,
    /// The CPU whose actions are being processed.
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
    /// The hash list at which the next update begins.
    pub(super) update_start: u32,
    /// Run time by thread and CPU in nanoseconds, while watched.
    pub(super) seen: Option<BTreeMap<ThreadId, BTreeMap<CpuIndex, u64>>>,
    /// Uninterrupted runs on each CPU with count and length, while OS noise is measured.
    #[serde(skip)]
    pub(super) spell_log: Option<SpellLog>,
    /// Births and ends of threads, in order, for [`Kernel::take_news`].
    pub(super) news: Vec<News>,
    /// Total time that threads of each partition have waited for a CPU, finished waits only, in nanoseconds since boot.
    #[serde(default)]
    pub(super) waited: Table<PartitionId, u64>,
    /// Histogram of the waits for each CPU.
    #[serde(default, with = "waits", skip_serializing_if = "Vec::is_empty")]
    pub(super) waits: Table<CpuIndex, Waits>,
    /// Number of events since boot: see [`Kernel::happened`].
    pub(super) happened: u64,
    #[serde(skip)]
    pub(super) index: Index,
}

/// A birth, first operation or end of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum News {
    /// A thread created a child.
    Born {
        /// The creator.
        parent: ThreadId,
        /// The new thread.
        child: ThreadId,
        /// Whether both are in one process.
        #[serde(default, skip_serializing_if = "is_default")]
        same_process: bool,
    },
    /// A thread counted its first operation.
    Counts {
        /// The thread.
        thread: ThreadId,
    },
    /// A thread ended. Its number may be in use again.
    Ended {
        /// Its number.
        thread: ThreadId,
        /// The operations that its program counted.
        done: u64,
        /// Its CPU time and instructions.
        #[serde(default)]
        executed: Executed,
    },
}

/// Topology and hardware of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Lgroup and core of each CPU.
    pub cpus: Vec<(u32, u32)>,
    /// Distances of each lgroup to all.
    pub distances: Vec<Vec<u32>>,
    /// Timing.
    pub hardware: Hardware,
}

impl Layout {
    /// This many CPUs, each a core of its own, in one lgroup.
    #[must_use]
    pub fn flat(cpus: u32) -> Self {
        Layout {
            cpus: (0..cpus).map(|core| (0, core)).collect(),
            distances: vec![vec![10]],
            hardware: Hardware::plain(cpus, 1),
        }
    }
}

/// Initial state of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Its class and class state; see [`Kernel::entry`].
    pub class: ClassState,
    /// The global priority of a SYS thread; other classes compute it.
    pub sys_pri: i16,
    /// The only CPU that it may run on.
    pub bound: Option<CpuIndex>,
    /// Its partition.
    pub part: PartitionId,
    /// The CPU in whose queue it starts.
    pub cpu: CpuIndex,
    /// Its program.
    pub program: Program,
}

impl Start {
    /// A thread of the default partition, not bound, starting at CPU 0.
    #[must_use]
    pub fn new(class: ClassState, program: Program) -> Self {
        Start { class, sys_pri: 60, bound: None, part: DEFAULT, cpu: CpuIndex(0), program }
    }
}

impl Kernel {
    /// A freshly booted kernel: all CPUs idle and in the default partition.
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
            // The partition ASIDE has no CPUs of its own.
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

    /// Nanoseconds since boot.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Number of events since boot: ends of bursts, timers, clock ticks (one for each charged thread), switches.
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

    /// Once-per-second updates since boot.
    pub(super) fn beats(&self) -> u64 {
        self.present_tick().beat
    }

    /// Length of a clock tick in nanoseconds.
    pub(super) fn tick(&self) -> u64 {
        self.present_tick().length
    }

    fn present_tick(&self) -> Tick {
        let (known, hz) = (self.index.tick, self.tunables.hz);
        if known.is_at(self.now, hz) { known } else { Tick::at(self.now, hz) }
    }

    /// Updates the cached tick after time has advanced.
    #[inline]
    pub(super) fn note_tick(&mut self) {
        self.index.tick = self.present_tick();
    }

    /// The dispatch tables.
    #[must_use]
    pub fn tables(&self) -> &DispatchTables {
        &self.tables
    }

    /// Replaces the dispatch tables. Running slices keep their lengths.
    pub fn set_tables(&mut self, tables: Arc<DispatchTables>) {
        // Sleepers are updated to now under the old table.
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

    /// All threads; skip entries that are [`RunState::Gone`].
    #[must_use]
    pub fn threads(&self) -> &Table<ThreadId, Thread> {
        &self.threads
    }

    /// A thread.
    #[must_use]
    #[inline]
    pub fn thread(&self, thread: ThreadId) -> &Thread {
        &self.threads[thread]
    }

    /// Histograms of the waits for each CPU.
    pub fn waits(&self) -> impl Iterator<Item = (CpuIndex, Histogram)> {
        waits::known(&self.waits)
    }

    /// Total time that threads of each partition have waited for a CPU, in nanoseconds since boot. Unfinished waits count.
    #[must_use]
    pub fn waited(&self) -> Table<PartitionId, u64> {
        let mut waited = self.waited.clone();
        for thread in self.queues.iter().flat_map(|queue| queue.threads(&self.threads)) {
            let t = self.thread(thread);
            add(&mut waited, t.part, self.now - t.queued_at);
        }
        waited
    }

    /// Number of threads that run or wait for a CPU.
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

    /// The kp queue of a partition. The partition ASIDE uses that of the default one.
    #[inline]
    pub(super) fn kp_queue(&self, part: PartitionId) -> QueueId {
        let part = if part == ASIDE { DEFAULT } else { part };
        QueueId::at(self.cpus.len().saturating_add(part.place()))
    }

    /// Births and ends of threads since the last call.
    pub fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Starts or stops recording where threads run.
    pub fn watch(&mut self, on: bool) {
        self.seen = if on { Some(self.seen.take().unwrap_or_default()) } else { None };
    }

    /// Nanoseconds that each thread ran on each CPU since recording began or since the last call.
    pub fn take_seen(&mut self) -> BTreeMap<ThreadId, BTreeMap<CpuIndex, u64>> {
        self.seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub(super) fn count(&mut self, cpu: CpuIndex, column: Column) {
        self.cpus[cpu].events[column.index()] += 1;
    }

    /// Creates a barrier for this many threads.
    pub fn barrier(&mut self, parties: u32) -> BarrierId {
        self.barriers.add(Barrier { parties, there: Vec::new(), free_at: 0, last: None })
    }

    /// Creates a channel.
    pub fn channel(&mut self) -> ChannelId {
        self.filled_channel(0)
    }

    /// Creates a channel with this many posts.
    pub fn filled_channel(&mut self, posts: u64) -> ChannelId {
        self.channels.add(Channel { posts, places: posts > 0, ..Channel::default() })
    }

    /// Posts that no thread has taken, in channels that were created empty: unread messages.
    #[must_use]
    pub fn messages_waiting(&self) -> u64 {
        self.channels.iter().filter(|channel| !channel.places).map(|channel| channel.posts).sum()
    }

    /// Most bytes of unread messages.
    #[must_use]
    pub fn socket_bytes(&self) -> u64 {
        self.hardware.socket_bytes
    }

    /// Kernel time of a process exit, in nanoseconds.
    #[must_use]
    pub fn process_end_ns(&self) -> u64 {
        self.hardware.process_end_ns
    }
}

/// Adds to a sum, and creates the entry if needed.
pub(super) fn add(sums: &mut Table<PartitionId, u64>, at: PartitionId, more: u64) {
    if sums.len() <= at.place() {
        sums.resize(at.place() + 1, 0);
    }
    sums[at] += more;
}

/// The rings of an lgroup: the lgroups at each distance, nearest first.
pub(super) fn levels(distances: &[u32]) -> Vec<Vec<u32>> {
    let rings: BTreeSet<u32> = distances.iter().copied().collect();
    let at = |ring: u32| {
        let lgroups = distances.iter().zip(0u32..).filter(move |(d, _)| **d == ring);
        lgroups.map(|(_, lgroup)| lgroup).collect()
    };
    rings.into_iter().map(at).collect()
}
