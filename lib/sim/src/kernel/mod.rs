//! The kernel of a simulated machine: threads, dispatch queues, classes and the clock.
//!
//! # Nouns
//!
//! A [`Thread`] has a class, which gives it a *global priority*, 0 to 169. Threads that could run wait in dispatch
//! queues: one for each processor, and one for each *partition* (a processor set, or what is left) for those that may
//! preempt the kernel. A processor runs the best of its own queue and its partition's, and takes one from
//! elsewhere before it idles. What a class does on each event is in the files of the classes ([`ts`], [`fx`],
//! [`rt`]); where a thread waits and what a processor takes is in [`queues`] and [`choose`].
//!
//! ```text
//!   Heap ──next event──▶ clock tick ─▶ class tick of whoever runs, once a second the update
//!                        timer      ─▶ class wake-up ─▶ queue ─▶ ask a processor to switch
//!                        burst ends ─▶ the program's next action: compute, sleep, wait, fork …
//!                            │
//!                            └─ then every processor that was asked switches, if it may
//! ```
//!
//! # What callers must know
//!
//! * Time is in nanoseconds and moves by [`Kernel::run_until`] alone. Everything is plain data; two kernels that
//!   are equal have the same future. One that was loaded needs [`Kernel::reindex`] before anything else.
//! * At one instant things happen in the order of the reference's §3.11: the clock, timers and wake-ups by number of
//!   their thread, ends of bursts by number of their processor, and then the switches.
//! * The clock ticks only while somebody runs or waits for a cap. Threads that sleep learn of the updates of each second when they
//!   wake up ([`ts`]), so that a machine that does nothing costs nothing.
//!
//! # How true
//!
//! | What | How true |
//! |---|---|
//! | TS, IA, FX and RT: events, tables, priorities | exact (reference §3.2–§3.7, the rules of 2019) |
//! | dispatch queues, kp queue, asking to switch, preemption of user mode and of the kernel | exact (§3.9) |
//! | choice of a processor, balance of a level with the neighbour, stealing and not stealing yet | exact, except that the hardware's groups count by core only |
//! | order of threads in the update of each second | approximate: an address is 512 times a thread's number |
//! | a switch between threads | costs a fixed time in the kernel, the machine's `switch_ns`, charged to the thread that comes; to leave a processor idle costs nothing |
//! | strands of one pipeline | approximate: first order in how much of its time each one issues, bounded by one instruction in a cycle ([`hardware`]) |
//! | caches | approximate: the outer one, shared evenly by those that run; a thread that comes back, or moves, loads what was pushed out. Inner ones are part of a mix's rates |
//! | memory | approximate: a latency for each two lgroups, under load; no bandwidth, no queues |
//! | where shared memory is placed | exact (§3.10), except that a segment is of one kind: random over all lgroups is the mean of their latencies |
//! | interrupts as threads, pinning, the clock's and those of a stream | exact in order and priority (§3.11); their work is a fixed number of instructions |
//! | cross calls | counted where one processor asks another to switch; what they cost is absent, but for those of [`crate::workloads::latstat`] |
//! | locks with priority inheritance, faults | absent |
//! | FSS | exact (§3.8), but for what it does not say: a thread enters at 59, and a child has its parent's priority. Shares of processes are ours |
//! | CPU caps | approximate: usage decays evenly, and a tenth of a second may be used ahead (the reference has no figures) |
//! | SDC, the swapper, stopped threads | absent |

mod barriers;
mod bits;
mod caps;
mod check;
mod choose;
mod classes;
mod clock;
mod ends;
mod fss;
mod fx;
mod hardware;
mod heap;
mod holders;
mod ids;
mod index;
mod interrupts;
mod ledger;
mod logs;
mod memory;
mod place;
mod program;
mod queue;
mod queues;
mod rt;
mod run;
mod stuck;
mod thread;
mod ts;

#[cfg(test)]
mod tests;

pub use caps::{PERIOD, Taken};
pub use hardware::{Exclusive, Hardware, Pace};
pub use heap::{Heap, Source};
pub use holders::Level;
pub use ids::{
    BarrierId, CacheId, ChannelId, CpuIndex, HolderIndex, Id, LogId, MixId, PartitionId, PipelineId, QueueId,
    SegmentId, Table, ThreadId,
};
pub use ledger::{Ledger, Spells, Who};
pub use logs::Log;
pub use memory::{Placed, Wish};
pub use place::Arrangement;
pub use program::{Action, Mix, Program, Waiting};
pub use queue::{IDLE, LEVELS, Queue};
pub use run::Halt;
pub use stuck::{Stuck, WaitsFor};
pub use thread::{
    ClassState, Executed, FssState, FxState, Origin, RtState, RunState, Tally, Thread, TsState,
};

use bits::Bits;
use fss::FssSet;
use holders::Holder;
use index::Index;
use millpond_model::{COLUMNS, Column, DispatchTables};
use place::Partition;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The partition of threads that are bound to no set.
pub const DEFAULT: PartitionId = PartitionId(0);
/// The partition of threads that keep aside of sets that push nobody out.
pub const ASIDE: PartitionId = PartitionId(1);
/// The partition of set 0 would be this one; those of sets 1 and up follow.
pub const SETS: u32 = 1;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// What is tuned when a machine boots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tunables {
    /// Clock ticks per second.
    pub hz: u32,
    /// A thread is at home in a processor's cache for so many ticks after it left.
    pub rechoose_interval: u64,
    /// A thread that waits where it last ran is not taken elsewhere for so many nanoseconds. 0: it is at once.
    pub nosteal_nsec: u64,
    /// Priorities from here on preempt the kernel, and wait in the queue of the partition.
    pub kpreempt_pri: i16,
    /// How many ticks a thread may hold off preemption beyond its slice.
    pub hold_ticks: i64,
    /// Shared segments above so many KiB are placed at random.
    pub shm_random_kib: u64,
    /// Those are placed with regard to processor sets.
    pub mem_pset_aware: bool,
}

impl Default for Tunables {
    fn default() -> Self {
        Tunables {
            hz: 100,
            rechoose_interval: 3,
            nosteal_nsec: 100_000,
            kpreempt_pri: 99,
            hold_ticks: 2,
            shm_random_kib: 8 * 1_024,
            mem_pset_aware: false,
        }
    }
}

/// A processor as the dispatcher sees it. Its queue has its index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// The thread that it runs.
    pub running: Option<ThreadId>,
    /// The priority of that thread, [`IDLE`] for none.
    pub dispatch_pri: i16,
    /// It was asked to switch, once it is in user mode.
    pub runrun: bool,
    /// It was asked to switch, also in the kernel.
    pub kprunrun: bool,
    /// The priority of a thread that is on its way here by the queue of the partition.
    pub chosen_level: i16,
    /// Its partition.
    pub part: PartitionId,
    /// Its lgroup.
    pub lgroup: u32,
    /// Its core.
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
    pub pace: Pace,
    /// Threads under the handlers of interrupts, the innermost last.
    pub pinned: Vec<ThreadId>,
}

/// What threads wait at.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Channel {
    /// Posts that nobody waited for yet.
    posts: u64,
    /// Threads that wait, in order of arrival.
    waiting: VecDeque<ThreadId>,
}

/// Where threads wait for one another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Barrier {
    /// How many belong to it.
    parties: u32,
    /// Who is there already.
    there: Vec<ThreadId>,
}

/// The kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// What was tuned.
    pub tunables: Tunables,
    tables: DispatchTables,
    now: u64,
    heap: Heap,
    cpus: Table<CpuIndex, Cpu>,
    queues: Table<QueueId, Queue>,
    parts: Table<PartitionId, Partition>,
    /// For each lgroup the lgroups at growing distances: itself, then wider and wider groups without what was before.
    levels: Vec<Vec<Vec<u32>>>,
    threads: Table<ThreadId, Thread>,
    free: Vec<ThreadId>,
    channels: Table<ChannelId, Channel>,
    barriers: Table<BarrierId, Barrier>,
    /// What has shares and caps.
    #[serde(default)]
    holders: Table<HolderIndex, Holder>,
    /// Whether any of them has a cap.
    #[serde(default)]
    capped: bool,
    /// For each partition what FSS knows of it.
    #[serde(default)]
    fss: Table<PartitionId, FssSet>,
    /// The hardware.
    hardware: Hardware,
    /// What instructions are like; the first is what spins.
    mixes: Table<MixId, Mix>,
    /// For each segment of memory that was placed, picoseconds until it answers, by lgroup of the processor.
    segments: Table<SegmentId, Option<Vec<u64>>>,
    /// Where these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    placed: Vec<Placed>,
    /// For each outer cache how much was loaded into it since boot, in KiB.
    filled: Table<CacheId, u64>,
    /// What was noted of moments.
    logs: Table<LogId, Log>,
    /// What lots are drawn from.
    seed: u64,
    /// The processor where the clock's interrupts arrive.
    clock_cpu: CpuIndex,
    /// Until when those were counted, in nanoseconds.
    counted: u64,
    /// The processor whose doing has effects now.
    at: Option<CpuIndex>,
    /// Processors that have something to decide.
    asked: Bits,
    /// Processors that run a thread.
    busy: Bits,
    /// The processor at which the next tick begins.
    tick_start: CpuIndex,
    /// The list at which the next update begins.
    update_start: u32,
    /// Where threads ran, in nanoseconds, by thread and processor, while somebody watches.
    seen: Option<BTreeMap<ThreadId, BTreeMap<CpuIndex, u64>>>,
    /// Who had each processor how often and how long, while somebody asks what disturbs.
    #[serde(skip)]
    ledger: Option<Ledger>,
    /// Threads that were born of others and threads that ended, in order, for whoever asks.
    news: Vec<News>,
    /// For each partition, how long its threads waited for a processor, all together, before they got one: nanoseconds since boot.
    #[serde(default)]
    waited: Table<PartitionId, u64>,
    /// How much happened since boot: see [`Kernel::happened`].
    happened: u64,
    #[serde(skip)]
    index: Index,
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

/// How a machine's processors stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// For each processor its lgroup and its core.
    pub cpus: Vec<(u32, u32)>,
    /// For each lgroup the distances to all.
    pub distances: Vec<Vec<u32>>,
    /// How long things take.
    pub hardware: Hardware,
}

impl Layout {
    /// So many processors, each a core of its own, in one lgroup.
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
    /// The only processor that it may run on.
    pub bound: Option<CpuIndex>,
    /// Its partition.
    pub part: PartitionId,
    /// The processor on whose queue it is put first.
    pub cpu: CpuIndex,
    /// What it executes.
    pub program: Program,
}

impl Start {
    /// In the default partition, bound to nothing, beginning at processor 0.
    #[must_use]
    pub fn new(class: ClassState, program: Program) -> Self {
        Start { class, sys_pri: 60, bound: None, part: DEFAULT, cpu: CpuIndex(0), program }
    }
}

impl Kernel {
    /// A kernel that was just booted: all processors idle and in the default partition.
    #[must_use]
    pub fn new(layout: &Layout, tables: DispatchTables, tunables: Tunables) -> Self {
        let cpu = |&(lgroup, core): &(u32, u32)| Cpu {
            running: None,
            dispatch_pri: IDLE,
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
            pace: Pace::default(),
            pinned: Vec::new(),
        };
        let cpus: Table<CpuIndex, Cpu> = layout.cpus.iter().map(cpu).collect();
        let all: Bits = cpus.ids().collect();
        let mut kernel = Kernel {
            tunables,
            tables,
            now: 0,
            heap: Heap::default(),
            queues: vec![Queue::default(); cpus.len() + 2].into(),
            parts: vec![Partition::of(all); 2].into(),
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
            asked: Bits::default(),
            busy: Bits::default(),
            tick_start: CpuIndex(0),
            update_start: 0,
            seen: None,
            ledger: None,
            news: Vec::new(),
            waited: Table::default(),
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
    pub fn lbolt(&self) -> u64 {
        self.now / self.tick()
    }

    /// Updates of each second since boot.
    fn beats(&self) -> u64 {
        self.lbolt() / u64::from(self.tunables.hz)
    }

    /// Nanoseconds of a clock tick.
    fn tick(&self) -> u64 {
        SECOND / u64::from(self.tunables.hz.max(1))
    }

    /// The dispatch tables.
    #[must_use]
    pub fn tables(&self) -> &DispatchTables {
        &self.tables
    }

    /// Loads other tables. What threads have of their slices stays as it is.
    pub fn set_tables(&mut self, tables: DispatchTables) {
        // Sleepers see the seconds until now by the table that was.
        for thread in self.threads.ids() {
            self.catch_up(thread);
        }
        self.tables = tables;
    }

    /// All processors.
    #[must_use]
    pub fn cpus(&self) -> &Table<CpuIndex, Cpu> {
        &self.cpus
    }

    /// The queue of a processor.
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
    pub fn thread(&self, thread: ThreadId) -> &Thread {
        &self.threads[thread]
    }

    /// How long the threads of each partition have waited for a processor, all together: nanoseconds since boot. Those that wait now count.
    #[must_use]
    pub fn waited(&self) -> Table<PartitionId, u64> {
        let mut waited = self.waited.clone();
        for thread in self.queues.iter().flat_map(|queue| queue.threads(&self.threads)) {
            let t = self.thread(thread);
            add(&mut waited, t.part, self.now - t.queued_at);
        }
        waited
    }

    /// How many threads run or wait for a processor.
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

    fn t(&mut self, thread: ThreadId) -> &mut Thread {
        &mut self.threads[thread]
    }

    /// The number of a partition's queue for kernel preemption. Those that keep aside of shared sets use the default
    /// partition's.
    fn kp_queue(&self, part: PartitionId) -> QueueId {
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

    /// For how many nanoseconds each thread ran on each processor since the watching began or this was asked last.
    pub fn take_seen(&mut self) -> BTreeMap<ThreadId, BTreeMap<CpuIndex, u64>> {
        self.seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn count(&mut self, cpu: CpuIndex, column: Column) {
        self.cpus[cpu].events[column.index()] += 1;
    }

    /// A new barrier for so many threads; gives its number.
    pub fn barrier(&mut self, parties: u32) -> BarrierId {
        self.barriers.add(Barrier { parties, there: Vec::new() })
    }

    /// Another number of threads belongs to a barrier. If they are all there, they go on.
    pub fn set_parties(&mut self, barrier: BarrierId, parties: u32) {
        self.barriers[barrier].parties = parties;
        self.open_if_full(barrier);
    }

    /// A new channel; gives its number.
    pub fn channel(&mut self) -> ChannelId {
        self.filled_channel(0)
    }

    /// The same with so many posts that nobody waited for yet.
    pub fn filled_channel(&mut self, posts: u64) -> ChannelId {
        self.channels.add(Channel { posts, ..Channel::default() })
    }
}

/// Adds to the sum at a place, which may not be there yet.
fn add(sums: &mut Table<PartitionId, u64>, at: PartitionId, more: u64) {
    if sums.len() <= at.place() {
        sums.resize(at.place() + 1, 0);
    }
    sums[at] += more;
}

/// The rings around an lgroup: which lgroups are at each distance, nearest first.
fn levels(distances: &[u32]) -> Vec<Vec<u32>> {
    let rings: BTreeSet<u32> = distances.iter().copied().collect();
    let at = |ring: u32| {
        let lgroups = distances.iter().zip(0u32..).filter(move |(d, _)| **d == ring);
        lgroups.map(|(_, lgroup)| lgroup).collect()
    };
    rings.into_iter().map(at).collect()
}
