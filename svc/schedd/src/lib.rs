//! Loads a Linux scheduler (sched_ext) that runs the classes TS, IA and FX by their dispatch tables.
//!
//! ```text
//! $ millpond schedd &
//! schedd: TS, IA and FX run by dispatch tables, for threads that are put into a class
//! $ dispadmin -c TS -s quick.txt
//! $ priocntl -e -c TS make -j
//! ```
//!
//! While it runs, `dispadmin -s` changes the tables of the running machine, and `priocntl` puts processes into TS, IA and FX with
//! all their levels, limits and slices. When it ends in any way, also by `kill -9`, the kernel returns all threads to its own
//! scheduler at once. The next instance has the same tables, and the same classes for threads that still run.
//!
//! Without `--whole` it schedules only the threads that `priocntl` puts into a class; they get the policy SCHED_EXT. All other threads run before
//! them. So use it in a processor set or pool whose threads are all in classes. With `--whole` it schedules all threads but those
//! in RT and SCHED_DEADLINE. Each thread begins in TS, with three points of user priority for one of nice. SCHED_IDLE is below all
//! levels. `--whole` needs Linux 7.0: before, a thread in RT that never sleeps makes the kernel end the scheduler.
//!
//! The kernel ends a scheduler that leaves a thread waiting for 30 seconds. By Solaris' rules a thread can wait forever: FX 0
//! below a busy TS 59. Such a thread runs for a clock tick after each 5 seconds of waiting (`--rescue`).
//!
//! The kernel may end the scheduler by itself. The reason is logged, with the thread and the kernel's dump. If a CPU went on-line
//! or off-line, it is loaded again at once. After an error it is loaded again once in ten minutes; a second error within that
//! time ends this command with status 1.
//!
//! A program that wakes up a thread of a better level keeps its CPU if it began to run less than 0.3 ms ago (`--parity`). The
//! better thread gets the CPU at the next clock tick or switch, or at the next wake-up after that time. Timers, devices and
//! threads of the kernel wake threads up without this delay. With `--parity 0` each wake-up of a better thread preempts, as in
//! Solaris; programs that pass many small messages then take up to 1.9 times as long.
//!
//! `cpu.max` of cgroups holds for the threads that it schedules, and so does `cpu.idle` from Linux 6.19 on. `cpu.weight` has no
//! effect on them. Without `--whole` the quota of `cpu.max` applies twice to a cgroup: once to its threads in a class, and once
//! to its other threads.

mod options;
mod service;

pub use options::{Options, SPEC, parse};
pub use service::run;
