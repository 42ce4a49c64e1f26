//! A simulated machine, on which commands, laws, golden transcripts and experiments run.
//!
//! # Why
//!
//! Trying a processor set on real hardware is expensive: it takes a machine with many CPUs, the privileges to change it,
//! and no other users. Here any machine of the last thirty years is a value in memory. The same commands run on it, through
//! the same interface (`millpond_machine::Machine`), under the same laws as on a real kernel.
//!
//! # How
//!
//! ```text
//!   machines/t2000.json ──description──▶ SimState ◀──save, load──▶ text
//!                                          │ topology, devices, zones
//!                                          ├ kernel: time, running and waiting threads
//!                                          │    ▲ apply: the kernel's view of the tables
//!                                          └ tables: CPUs, sets, processes with threads
//!                                               ▲                    │
//!                              knobs: write one value         ChangeBuilder: a copy to prepare on
//!                                               ▲                    │
//!                                          Writer::commit ◀── steps ─┘
//! ```
//!
//! [`SimState`] is the complete state, as plain data. [`SimMachine`] is a cell around it that implements the facets. A facet
//! prepares a change on a [`change_builder::ChangeBuilder`], a copy of the tables. The preparation uses the function that later
//! writes the knobs. So the rules check each CPU move in sequence, and the prepared result is the final one.
//!
//! Settings by commands are only in the tables. The kernel has its own copy, for speed ([`kernel::Settings`]). It is computed from
//! the tables after each change and when a machine is loaded; it is never read back and not saved. Both share one value for the
//! dispatch tables. Births and ends of threads reach the tables as events; maps link the threads and holders of both.
//!
//! Knob values include order of arrival in a set, order of creation of sets, and times. Restoring a value therefore
//! restores order and time too, and an undone change leaves no trace.
//!
//! # Consequences
//!
//! * The machine does not remember where a thread was before it was bound. As on Solaris, unbinding returns it to the
//!   default set. So the journal needs no baselines.
//! * Time advances only while a caller sleeps on the machine's clock; then all due events happen ([`kernel`]). Two runs
//!   of one script produce the same text.
//! * Pids are never reused, so that a knob of a thread always refers to the same thread.
//!
//! # Fidelity
//!
//! | What | Fidelity |
//! |---|---|
//! | rules of states, sets and bindings (hard and soft), numbers, order, inheritance | exact: psrset(8), psradm(8), psrinfo(8), pbind(8), except below |
//! | a set whose creation fails half-way | never exists: a change is all or nothing |
//! | a loop of five clock ticks before bound threads refuse a change | refused at once |
//! | shared sets, whose CPUs other threads may use too, and threads that avoid them | an addition, with the same meaning as on Linux |
//! | privileges, zones' own views | absent: every user is root in the global zone |
//! | the CPU of a device's interrupts | approximate: its own CPU, else the next one that takes interrupts; the stream's network and the clock are active, other devices are only names |
//! | classes and parameters of threads, dispatch tables | exact: priocntl(1), dispadmin(8), except that every user is root |
//! | parents, process groups, sessions, users of processes | absent: root owns all processes |
//! | classes, dispatch queues, choice of a CPU, preemption, stealing, CPU caps | see the table of [`kernel`] |
//! | processes of a freshly booted machine | approximate: they exist and sleep for ever |
//! | events of `mpstat` | counted: switches, involuntary switches, migrations, system calls, interrupts, interrupts as threads, cross calls. Faults (minf, mjf) and locks (smtx, srw) stay 0: there are neither pages nor locks |
//! | lgroups, homes, affinities | exact in the choice of an lgroup by affinity; approximate in load, which is the number of threads that run or wait now, at home, without aging |
//! | memory of lgroups | approximate: shared segments have a size and a place; a thread's private memory has a place and no size |
//! | counters of cycles and instructions, per CPU and per thread | exact for the model: work that is measured in time counts one instruction per cycle. An idle CPU counts nothing; a real one counts its idle loop in the kernel (`cpustat` counts user mode by default). Every machine has two counters, each of which can count both |
//! | workloads | approximate: few kinds of steps, with instructions and times that are assumed, or fitted to one published figure; see [`workloads`] |
//! | pipelines, caches, memory latency, costs of switches | approximate, by a short formula each: see the table of [`kernel`] |
//! | machines | each figure has its source in the machine file: published, adopted, or fitted |
//! | locks of programs, pages, disks, other machines on the network | absent: sleeps of random length model disks and peers |
//! | load averages | exact: exponential, each second, over the time that threads ran or waited |
//! | services of the pools | their enabled state is stored; CPUs move only while a shell with a daemon is open on the machine |

mod accounting;
mod advance;
mod apply;
pub mod boot;
pub mod catalogue;
mod census;
pub mod change_builder;
mod controls;
mod counters;
mod daemon;
mod description;
mod dispatcher;
mod disturbances;
mod fences;
mod hardware_counters;
pub mod holder_map;
mod interrupts;
pub mod kernel;
mod knob_values;
pub mod knobs;
mod layout;
mod lgroups;
mod load_average;
mod machine;
mod pools;
mod posix;
mod processors;
mod programs;
mod progress;
pub mod projects;
mod psets;
pub mod results;
mod sampler;
pub mod state;
pub mod tables;
mod threads;
pub mod workloads;
mod zones;

pub use daemon::Daemon;
pub use description::DescriptionError;
pub use machine::{SimError, SimMachine};
pub use posix::posix_answer;
pub use state::{LoadError, SimState};
