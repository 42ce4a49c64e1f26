//! A Machine made of Linux: cgroups, sysfs, procfs, interrupts, scheduling and perf calls, under an injected
//! root.
//!
//! # How a set is enforced
//!
//! State lives where it is true: in the kernel. A set is a cgroup directly under the root of the cpuset
//! hierarchy whose label `set` (an extended attribute) says what is wanted of it; where each of its tasks
//! came from is the name of the leaf that the task is in (`names`). Nothing else needs to be remembered
//! except the original values of what is not ours; those are in the journal.
//!
//! ```text
//!   View::read ──▶ View (the tree as it is, baselines) ─┐
//!                                                       ├─▶ plan() ──▶ Steps ──▶ executor (millpond-machine)
//!   sets as they should be, tasks that move ─── Wanted ─┘    pure
//! ```
//!
//! On version 2 an exclusive set is a local partition: the kernel itself takes its CPUs from the root
//! cgroup; where systemd owns the tree it is asked for it (`systemd`). On version 1 nothing keeps others out,
//! so each task that can be moved is moved to `/mpdefault`, and every other cgroup's list is narrowed. A second look at the tree after each change ([`Knobs::settle`] of
//! `millpond-machine`) finds what appeared meanwhile.
//!
//! # What it deliberately does not do
//!
//! It decides nothing about which CPUs a task should have. It never writes what it was not asked to, never
//! touches the scheduling domains of the root, and leaves `cpuset.mems` alone on version 2 unless asked (`psrset --mems`), where
//! writing it moves memory for good.
//!
//! [`Knobs::settle`]: millpond_machine::Knobs::settle

mod accounting;
mod affinity;
mod busy;
mod capture;
mod census;
mod classes;
mod clock;
mod controls;
mod cooperative;
mod counters;
mod cpu_info;
mod cpu_lists;
mod cpu_states;
mod cpu_tree;
mod cpu_view;
mod deadline;
mod detect;
mod devices;
mod dispatcher;
mod disturbances;
mod features;
mod fences;
mod files;
mod fs;
mod hardware;
mod hierarchy;
mod images;
mod inside;
mod interrupt_names;
mod irqbalance;
mod knob;
mod latency;
mod lgroups;
mod lock;
mod lock_file;
mod machine;
mod masks;
mod messages;
mod names;
mod notices;
mod numa;
mod offline;
mod os;
mod places;
mod plan;
mod policy;
mod pools;
mod pools_persist;
mod posix;
mod processors;
mod procfs;
mod programs;
mod ptrace;
mod readiness;
mod records;
mod remaining_tasks;
mod resctrl;
mod root;
mod sets;
mod settings;
mod shared_reads;
mod stale;
mod state_dir;
mod steering;
mod systemd;
mod threads;
mod topology;
mod tracefs;
mod view;
mod zones;

pub use capture::{Captured, capture};
pub use cpu_view::CpuView;
pub use files::{Replacing, beside, open_plain, replace_file, take_name};
pub use hierarchy::Hierarchy;
pub use images::open_core;
pub use interrupt_names::interrupt_counts;
pub use knob::{ControlFile, CpusetFile, Label, LinuxKnob, PacketMask, TaskId};
pub use lock_file::{has_name, open_lock_file};
pub use machine::LinuxMachine;
pub use os::Os;
pub use plan::{Destination, Wanted, plan};
pub use posix::posix_answer;
pub use root::{Root, is_gone};
pub use state_dir::{check_state_dir, make_private_dir, make_state_dir};
pub use view::{Group, SetLabel, TaskAt, View};
