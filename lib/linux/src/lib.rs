//! The Linux machine: cgroups, sysfs, procfs, interrupts, scheduling and perf system calls, under an injected root.
//!
//! # How a set is enforced
//!
//! The kernel holds the state. A set is a cgroup directly under the root of the cpuset hierarchy. Its label `set` (an extended
//! attribute) has the requested attributes. The name of a leaf cgroup records the original cgroup of the tasks in it (`names`).
//! The only other stored state is the original values of settings that are not ours. These are in the journal.
//!
//! ```text
//!   View::read ──▶ View (current tree, baselines) ──┐
//!                                                   ├─▶ plan() ──▶ Steps ──▶ executor (millpond-machine)
//!   wanted sets, tasks that move ─────── Wanted ────┘    pure
//! ```
//!
//! On version 2 an exclusive set is a local partition: the kernel itself takes its CPUs from the root cgroup. Where systemd owns
//! the tree, changes are requested from systemd (`systemd`). On version 1 the kernel excludes no task from a CPU. So each movable
//! task is moved to `/mpdefault`, and the lists of all other cgroups are narrowed. The tree is read again after each change
//! ([`Knobs::settle`] of `millpond-machine`), to include tasks and cgroups that appeared meanwhile.
//!
//! # What it deliberately does not do
//!
//! It does not decide which CPUs a task should have. It writes only what was requested. It never touches the scheduling domains
//! of the root. On version 2 it leaves `cpuset.mems` alone unless requested (`psrset --mems`), because writing it moves memory
//! permanently.
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
