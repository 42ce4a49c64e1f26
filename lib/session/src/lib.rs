//! Opens a machine by name, and provides a command's environment: the state directory with the journal, the time zone, its output, and
//! replacing the process by another program.
//!
//! # Nouns
//!
//! A [`Session`] is one open machine. Only this crate knows which machines exist: the *real* one, a *captured* one (a directory
//! with the files of a machine, written by `millpond capture` or by hand), and the *simulated* ones by name. An [`Output`] is the
//! destination of a command's text.
//!
//! # Rules for callers
//!
//! * Opening reads almost nothing; each facet reads on demand. So a command that needs little is fast.
//! * Reading never changes or repairs anything. [`Session::unfinished`] reports a change whose writer was killed; a reading
//!   command warns and continues.
//! * A simulated machine that was opened by name lasts as long as the session. [`Session::keeps_changes`] reports this, and a
//!   command that changes the machine informs the user. A file can keep the machine ([`OpenOptions::kept_in`],
//!   [`Session::keep`]). Operations that only simulated machines have are in [`Simulation`].
//! * A pool configuration is a file ([`Session::pools_file`]). It is locked before it is read, until after it is replaced.
//!   The configuration of a simulated machine is part of the machine.
//!
//! # Environment
//!
//! `MILLPOND_STATE` names the state directory, `TZ` the time zone. `MILLPOND_KILL_AT` names a fault point where the process kills
//! itself (fault injection, see the journal). `MILLPOND_RT` names the library for real-time programs, for experiments that need it ([`Library`]).
//!
//! Only this crate, `linux` and `member` contain paths that begin with `/`.

mod base_slice;
mod caps;
mod capture;
mod changed;
mod daemon;
mod filters;
mod follow;
mod interrupts;
mod journal;
mod kubelet;
mod library;
mod listening;
mod lossy_writer;
mod machine_file;
mod open;
mod output;
mod patterns;
mod pools_file;
mod posix;
mod process;
mod profiles;
mod record;
mod results;
mod saved_machine;
mod session;
mod signals;
mod simulation;
mod state_dir;
mod stop;
mod stopwatch;
mod supervise;
mod terminal;
mod text;
mod view;
mod workloads;
mod zone;

pub use base_slice::base_slice;
pub use caps::Cap;
pub use changed::{FieldChange, machine_description, machine_field};
pub use daemon::{Daemon, DaemonError, Log, NotifyState, tell_manager, watchdog};
pub use filters::{FILTERS, Filtered, Filters, NotStarted, filter_named};
pub use follow::{Follower, pool_environment};
pub use journal::{FileJournal, JournalFault};
pub use kubelet::{KUBELET_DIR, PLUGIN_SOCKET, static_cpu_manager};
pub use library::Library;
pub use listening::{Listening, Owned, read_secret};
pub use machine_file::is_machine_file;
pub use open::{MachineName, NO_DIRECTORY, NO_FILE, OpenError, OpenOptions, SIMULATED, open_core};
pub use output::{Output, reason};
pub use patterns::names_matching;
pub use pools_file::{FileError, LockedPools, PoolsFile};
pub use process::{
    exec, leave_behind, own_cpu_time, own_pid, own_program, program_on_path, wait_for_end,
    without_huge_pages, without_numa_balancing,
};
pub use profiles::{KeptText, is_fence_kept, keep_fence, kept_fences, profile_file, profile_names};
pub use record::{Recorded, RecordedLine, read_log};
pub use results::{Achieved, rate};
pub use saved_machine::KeepError;
pub use session::{Advice, Kind, Session, Unfinished};
pub use simulation::{
    Executed, KillError, Moment, NULL_FILE, NoSuchProcess, NoSuchZone, Project, Running, SYSTEM_FILE,
    SimDaemon, Simulation,
};
pub use state_dir::recordings_dir;
pub use stop::{
    refuse_writes_past_the_limit, stop_daemon_on_signal, stop_on_signal, take_hang_up, take_stop,
};
pub use stopwatch::Stopwatch;
pub use supervise::{Program, supervise};
pub use terminal::{
    LineEditor, Typed, file_names, input_is_terminal, input_lines, messages_are_seen, output_is_terminal,
};
pub use text::{create_file, create_output, open_plain, read_text, replace_bytes, replace_text};
pub use view::View;
pub use workloads::{Load, Workload};
pub use zone::read_zone;
