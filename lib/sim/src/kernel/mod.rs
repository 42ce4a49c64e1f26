//! The kernel of a simulated machine: threads, dispatch queues, classes and the clock.
//!
//! # Nouns
//!
//! A [`Thread`] has a class, which gives it a *global priority*, 0 to 169. Runnable threads wait in dispatch queues: one for each
//! CPU, and one for each *partition* (a processor set, or the default set) for threads that may preempt the kernel. A CPU runs
//! the best thread of its own queue and its partition's. Before it idles, it steals a thread from another CPU. The
//! reaction of a class to each event is in the files of the classes ([`ts`], [`fx`], [`rt`]). The choice of a queue and of
//! the next thread is in [`dispatch`] and [`choose_cpu`].
//!
//! ```text
//!   Heap ──next event──▶ clock tick ─▶ class tick of running threads, once a second the update
//!                        timer      ─▶ class wake-up ─▶ queue ─▶ request a switch of a CPU
//!                        burst ends ─▶ the program's next action: compute, sleep, wait, fork …
//!                            │
//!                            └─ then every CPU with a requested switch switches, if it may
//! ```
//!
//! # Rules for callers
//!
//! * Time is in nanoseconds. [`Kernel::run_until`] and [`Kernel::advance`] advance it. All state is plain data, and equal kernels
//!   have equal futures. After loading, call [`Kernel::reindex`] before anything else.
//! * Events of one instant happen in this order: the clock, timers and wake-ups by thread number, ends of bursts by CPU number,
//!   and then the switches.
//! * The clock ticks only while a thread runs or waits for a cap. A sleeping thread catches up with the once-per-second updates when
//!   it wakes up ([`ts`]). So an idle machine costs nothing.
//!
//! # Fidelity
//!
//! | What | Fidelity |
//! |---|---|
//! | TS, IA, FX and RT: events, tables, priorities | exact: ts_dptbl(5), fx_dptbl(5), rt_dptbl(5), with the kernel priorities of 2019 |
//! | TS by the rules of Linux, where tuned | order and shares exact, balance approximate: see [`eevdf`] |
//! | dispatch queues, kp queue, requests to switch, preemption of user mode and of the kernel | exact |
//! | choice of a CPU, balance of a level with the neighbour, stealing and its delay | exact, except that hardware groups count by core only |
//! | order of threads in the once-per-second update | approximate: a thread's address is taken as 512 times its number |
//! | a switch between threads | a fixed time in the kernel, charged to the incoming thread: the machine's `switch_ns`, plus `space_switch_ns` for another address space than the loaded one, plus `idle_exit_ns` on an idle CPU. A switch to idle costs nothing |
//! | strands of one pipeline | approximate: first order in each thread's issue rate, bounded by one instruction per cycle ([`instruction_time`]) |
//! | caches | approximate: the outer cache, shared equally by running threads; a thread that returns or moves reloads its evicted data. Inner caches are part of a mix's rates |
//! | floating-point units, banks of the outer cache, memory bandwidth | approximate: like pipelines, where the machine file gives their rates |
//! | memory | approximate: one latency under load for each pair of lgroups |
//! | placement of shared memory | exact, except that a segment is uniform: "random over all lgroups" is the mean of their latencies |
//! | interrupts as threads, pinning, the interrupts of the clock and of a stream | exact in order and priority; their work is a fixed number of instructions |
//! | cross calls | counted where one CPU asks another to switch. They cost nothing, except those of [`crate::workloads::latstat`], whose lengths are exponential |
//! | locks with priority inheritance, faults | absent |
//! | FSS | exact (FSS(4)), with assumptions where the manual is silent: a thread enters at 59, and a child has its parent's priority. Shares of processes are an addition |
//! | CPU caps | approximate, because no figures are published: usage decays evenly, and may be ahead by a tenth of a second. Under the rules of Linux, a quota per tenth of a second |
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
