//! A simulated machine: the fake that commands, laws, goldens and experiments run on.
//!
//! # Why
//!
//! A processor set is dear to try out: it takes a machine with many CPUs, the rights to change it, and
//! no other users. Here any machine of the last thirty years is a value in memory. The same commands run on
//! it, by the same interface (`millpond_machine::Machine`), under the same laws as on a real kernel.
//!
//! # How
//!
//! ```text
//!   machines/t2000.json ──description──▶ SimState ◀──save, load──▶ text
//!                                          │ topology, devices, zones
//!                                          ├ kernel: time, what runs and what waits
//!                                          │    ▲ apply: the kernel's view of the tables
//!                                          └ tables: CPUs, sets, processes with threads
//!                                               ▲                    │
//!                              knobs: write one value         ChangeBuilder: a copy to prepare on
//!                                               ▲                    │
//!                                          Writer::commit ◀── steps ─┘
//! ```
//!
//! [`SimState`] is plain data and the whole truth; [`SimMachine`] is a cell around it that answers by facet.
//! A facet prepares a change on a [`change_builder::ChangeBuilder`], a copy of the tables, with the very function that will
//! later write the knobs; so the rules see each CPU move in turn, and what was prepared is what will be.
//!
//! What commands set is in the tables alone. The kernel has it in a form of its own, for speed ([`kernel::Settings`]): made from the tables
//! after each change, never read back, not saved, and made anew when a machine is loaded. Dispatch tables are one value for both.
//! What the kernel does by itself, the tables get as events; what links them is which thread and which holder is which.
//!
//! Order of arrival in a set, order of creation of sets, and times are parts of the knobs' values. Undo of
//! a value therefore puts back the order and the time with it, and an undone change leaves no trace.
//!
//! # What follows
//!
//! * The machine has no memory of its own about where a thread was before it was bound: as on Solaris, to
//!   unbind is to return to the default set. Nothing here ever needs a baseline in the journal.
//! * Time passes only while a caller sleeps on the machine's clock, and then everything happens that is due
//!   ([`kernel`]). Two runs of one script give the same text.
//! * Process numbers are never given twice, so that a knob of a thread never comes to mean another thread.
//!
//! # Fidelity
//!
//! | What | How true |
//! |---|---|
//! | rules of states, sets and bindings (hard and soft), numbers, order, inheritance | exact (reference §1, §2, §4, §5), except below |
//! | a set whose creation fails half-way | never made: a change is all or nothing |
//! | a loop of five clock ticks before bound threads refuse a change | refused at once |
//! | sets that push no thread out, and what is started aside of them | an addition of ours, with the same meaning as on Linux |
//! | privileges, zones' own views, pools switched on | absent: everybody is root in the global zone |
//! | where a device interrupts | approximate: its own CPU, else the next that takes interrupts; the stream's network and the clock act, other devices are names |
//! | classes and parameters of threads, dispatch tables | exact (reference §1, §2), except that everybody is root |
//! | parents, process groups, sessions, users of processes | absent: everything is the superuser's |
//! | classes, dispatch queues, choice of a CPU, preemption, stealing, CPU caps | see the table of [`kernel`] |
//! | processes of a machine that was just booted | approximate: they are there and sleep for ever |
//! | events of `mpstat` | switches, involuntary ones, migrations, system calls, interrupts, interrupts as threads and cross calls are counted; faults (minf, mjf) and locks (smtx, srw) stay 0: there are neither pages nor locks |
//! | counters of cycles and instructions | exact for the model: what is measured by time counts as one instruction in a cycle |
//! | lgroups, homes, affinities | exact as to which lgroup is chosen by affinity (reference §3.10), approximate as to load: it is what runs or waits now, at home, and does not age |
//! | memory of lgroups | approximate: segments that threads share have a size and a place; what a thread has for itself has a place and no size |
//! | counters of cycles and instructions, per CPU and per thread | exact for the model: what is measured by time counts as one instruction in a cycle; a CPU that idles counts nothing, where a real one counts its idle loop in the kernel (`cpustat` counts user mode by itself); every machine has two counters, each of which can count both |
//! | workloads | approximate: few kinds of steps, whose instructions and times are assumed, or fitted to one published figure; see [`workloads`] |
//! | pipelines, caches, memory near and far, costs of switches | approximate, by a formula of a line or two each: see the table of [`kernel`] |
//! | machines | each figure has its source in the machine's file: published, taken, or fitted |
//! | locks of programs, pages, disks, other machines on the network | absent: sleeping for a time drawn by lot stands for a disk or a peer |
//! | averages of load | exact: exponential, each second, of the time that threads ran or waited |
//! | services of the pools | that they are enabled is remembered; what moves CPUs is a daemon of the machine while a shell is open on it |

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
