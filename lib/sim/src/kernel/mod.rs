//! The kernel of a simulated machine: threads, dispatch queues, classes and the clock.
//!
//! # Nouns
//!
//! A [`Thread`] has a class, which gives it a *global priority*, 0 to 169. Threads that could run wait in dispatch
//! queues: one for each CPU, and one for each *partition* (a processor set, or what is left) for those that may
//! preempt the kernel. A CPU runs the best of its own queue and its partition's, and takes one from
//! elsewhere before it idles. What a class does on each event is in the files of the classes ([`ts`], [`fx`],
//! [`rt`]); where a thread waits and what a CPU takes is in [`dispatch`] and [`choose_cpu`].
//!
//! ```text
//!   Heap ──next event──▶ clock tick ─▶ class tick of what runs, once a second the update
//!                        timer      ─▶ class wake-up ─▶ queue ─▶ ask a CPU to switch
//!                        burst ends ─▶ the program's next action: compute, sleep, wait, fork …
//!                            │
//!                            └─ then every CPU that was asked switches, if it may
//! ```
//!
//! # What callers must know
//!
//! * Time is in nanoseconds and moves by [`Kernel::run_until`] alone. Everything is plain data; two kernels that
//!   are equal have the same future. One that was loaded needs [`Kernel::reindex`] before anything else.
//! * At one instant things happen in the order of the reference's §3.11: the clock, timers and wake-ups by number of
//!   their thread, ends of bursts by number of their CPU, and then the switches.
//! * The clock ticks only while a thread runs or waits for a cap. Threads that sleep learn of the updates of each second when they
//!   wake up ([`ts`]), so that a machine that does nothing costs nothing.
//!
//! # How true
//!
//! | What | How true |
//! |---|---|
//! | TS, IA, FX and RT: events, tables, priorities | exact (reference §3.2–§3.7, the rules of 2019) |
//! | TS by the rules of Linux, where that is tuned | order and shares exact, balance approximate: see [`eevdf`] |
//! | dispatch queues, kp queue, asking to switch, preemption of user mode and of the kernel | exact (§3.9) |
//! | choice of a CPU, balance of a level with the neighbour, stealing and not stealing yet | exact, except that the hardware's groups count by core only |
//! | order of threads in the update of each second | approximate: an address is 512 times a thread's number |
//! | a switch between threads | costs a fixed time in the kernel, the machine's `switch_ns`, charged to the thread that comes, `space_switch_ns` more where that has another address space than is loaded, and `idle_exit_ns` more on a CPU that idled; to leave a CPU idle costs nothing |
//! | strands of one pipeline | approximate: first order in how much of its time each one issues, bounded by one instruction in a cycle ([`instruction_time`]) |
//! | caches | approximate: the outer one, shared evenly by those that run; a thread that comes back, or moves, loads what was pushed out. Inner ones are part of a mix's rates |
//! | floating-point units, banks of the outer cache, memory's bandwidth | approximate: as pipelines, where the machine says how fast they are |
//! | memory | approximate: a latency for each two lgroups, under load |
//! | where shared memory is placed | exact (§3.10), except that a segment is of one kind: random over all lgroups is the mean of their latencies |
//! | interrupts as threads, pinning, the clock's and those of a stream | exact in order and priority (§3.11); their work is a fixed number of instructions |
//! | cross calls | counted where one CPU asks another to switch; what they cost is absent, but for those of [`crate::workloads::latstat`], whose lengths are exponential |
//! | locks with priority inheritance, faults | absent |
//! | FSS | exact (§3.8), but for what it does not say: a thread enters at 59, and a child has its parent's priority. Shares of processes are ours |
//! | CPU caps | approximate: usage decays evenly, and a tenth of a second may be used ahead (the reference has no figures); under the rules of Linux a quota for each tenth of a second |
//! | SDC, the swapper, stopped threads | absent |

mod affinity;
mod barriers;
mod burst_ends;
mod caps;
mod check;
mod choose_cpu;
mod class;
mod class_state;
mod classes;
mod clock;
mod cpu_mask;
mod deadlock;
mod defaults;
mod dispatch;
pub mod dispatch_tables;
mod eevdf;
mod fss;
mod fx;
mod hardware;
mod heap;
mod holder;
mod holders;
mod ids;
mod index;
mod instruction_time;
mod interrupts;
mod logs;
mod memory;
mod noise;
mod partition;
mod placement;
mod program;
mod queue;
mod recall;
mod rt;
mod run;
mod settings;
mod state;
mod sys;
mod thread;
mod tick;
mod time;
mod ts;
mod waits;

#[cfg(test)]
mod tests;

pub use affinity::LgroupAffinities;
pub use class_state::{ClassState, EevdfState, FssState, FxState, RtState, TsState};
pub use deadlock::{Stuck, WaitsFor};
pub use hardware::{Exclusive, Hardware, InstructionTime, SOCKET_BYTES, Serves, Station};
pub use heap::{Heap, Source};
pub use holder::{Level, PERIOD, Taken};
pub use ids::{
    BarrierId, CacheId, ChannelId, CpuIndex, HolderIndex, Id, LogId, MixId, PartitionId, PipelineId, QueueId,
    SegmentId, StationId, Table, ThreadId,
};
pub use logs::Log;
pub use noise::{SpellLog, SpellOf, Spells};
pub use partition::{ASIDE, Arrangement, DEFAULT, SETS};
pub use program::{Action, Mix, Program, Waiting};
pub use queue::{IDLE, LEVELS, Queue};
pub use recall::Recalled;
pub use run::Halt;
pub use settings::{HolderSettings, Settings, ThreadSettings};
pub use state::{Cpu, HZ_MAX, Kernel, Layout, News, Placed, Start, Tunables};
pub use thread::{Executed, Origin, RunState, Tally, Thread};
