//! The probe's process from its parent's side: fork, start, check, end.

use super::child::{self, Orders, Timers};
use super::shared::{MOVED, Mapped, NO_CLASS, NO_LOCK, NO_TIMER};
use crate::LinuxMachine;
use crate::messages::reason;
use millpond_machine::facets::ProbePlan;
use millpond_machine::{Absent, Machine, Reason, Refusal};
use millpond_model::{CpuId, Nanos, Pid};
use rustix::io::write;
use rustix::pipe::pipe;
use rustix::process::{Pid as Number, Signal, WaitOptions, kill_process, waitpid};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

/// Limit for the preparations. Locking memory reads it from disk.
const PATIENCE: Nanos = Nanos::from_secs(30);

/// The process and the shared memory. Dropping the value ends the process.
pub(super) struct Process<'m> {
    pub machine: &'m LinuxMachine,
    child: Number,
    pub pid: Pid,
    cpu: CpuId,
    gate: OwnedFd,
    /// Whether it waits for timers of timerlat.
    traced: bool,
    pub shared: Mapped,
}

fn absent(what: &str, why: &impl ToString) -> Absent {
    Absent::because(format!("{what}: {}", why.to_string()))
}

impl<'m> Process<'m> {
    /// Forks the process, which waits for the start signal.
    pub fn fork(
        machine: &'m LinuxMachine,
        plan: &ProbePlan,
        intervals: &[u64],
        timers: Timers<'_>,
    ) -> Result<Self, Absent> {
        let traced = matches!(timers, Timers::Timerlat(..));
        let shared = Mapped::new().map_err(|error| absent("memory", &error))?;
        let (inside, gate) = pipe().map_err(|error| absent("a pipe", &error))?;
        let orders = Orders {
            shared: &shared,
            gate: inside.as_raw_fd(),
            // SAFETY: only returns a number.
            parent: unsafe { libc::getpid() },
            cpu: i32::try_from(plan.cpu.0).unwrap_or(-1),
            intervals,
            // As everywhere, level 0 is kernel priority 1.
            priority: i32::from(plan.level) + 1,
            seed: machine.clock().now().0,
            timers,
        };
        // SAFETY: the child only makes system calls, works on existing memory, and ends without returning (`child`).
        let forked = unsafe { libc::fork() };
        if forked == 0 {
            child::run(&orders);
        }
        let child = Number::from_raw(forked.max(0));
        let child = child.ok_or_else(|| absent("a process", &io::Error::last_os_error()))?;
        let pid = Pid(forked.unsigned_abs());
        Ok(Process { machine, child, pid, cpu: plan.cpu, gate, traced, shared })
    }

    /// Sends the start signal, and waits until the probe measures.
    pub fn go(&self) -> Result<(), Refusal> {
        let _ = write(&self.gate, b"!");
        let clock = self.machine.clock();
        let end = clock.now() + PATIENCE;
        while self.shared.ready.load(Ordering::Acquire) == 0 {
            self.check()?;
            if clock.now() >= end {
                let why = format!("after {} s it is not ready", PATIENCE.as_secs_f64());
                return Err(Refusal::operation(Reason::Machine(why)));
            }
            clock.sleep_until(clock.now() + Nanos::from_millis(1));
        }
        Ok(())
    }

    /// Whether the probe reported its end.
    pub fn has_ended(&self) -> bool {
        self.shared.ended.load(Ordering::Acquire) != 0
    }

    /// The error that ended the probe; `Ok` while it measures.
    pub fn check(&self) -> Result<(), Refusal> {
        let ended = self.shared.ended.load(Ordering::Acquire);
        let refused = |why: String| Refusal::operation(Reason::Machine(why));
        let number = i32::try_from(ended & u64::from(u32::MAX)).unwrap_or(0);
        let error = io::Error::from_raw_os_error(number);
        match ended >> 32 {
            0 => {}
            NO_LOCK => {
                return Err(refused(format!("its memory cannot be locked: {}", reason(&error)))
                    .hint("this needs CAP_IPC_LOCK, or a larger limit of locked memory (ulimit -l)"));
            }
            NO_CLASS => {
                return Err(refused(format!("it may not enter the real-time class: {}", reason(&error)))
                    .hint("this needs CAP_SYS_NICE, or a limit of real-time priority (ulimit -r)"));
            }
            MOVED => return Err(self.lost("it was moved to another CPU")),
            NO_TIMER => {
                let why =
                    format!("timerlat lets it not wait for timers of CPU {}: {}", self.cpu, reason(&error));
                return Err(refused(why).hint("end the program that uses timerlat, as rtla does"));
            }
            other => return Err(refused(format!("it ended ({other})"))),
        }
        match waitpid(Some(self.child), WaitOptions::NOHANG) {
            Ok(None) | Err(rustix::io::Errno::INTR) => Ok(()),
            _ if self.has_ended() => self.check(),
            // The end of a tracer, for example because its CPU goes off-line, kills the waiting process.
            _ if self.traced => {
                Err(self.lost("another program ended the tracer, or the process that measures"))
            }
            _ => Err(refused("another program ended the process that measures".to_owned())),
        }
    }

    /// The error for a probe that lost its CPU: `why`, unless the CPU is off-line.
    ///
    /// A CPU that goes off-line first moves its threads away. At the end, the kernel permanently moves interrupts that were bound
    /// to it to other CPUs. Restoring interrupt lists in between would lose them. The kernel answers a read of the CPU's own
    /// `online` file only after all of this.
    fn lost(&self, why: &str) -> Refusal {
        let os = &self.machine.os;
        let own = os.root.sys.join(format!("devices/system/cpu/cpu{}/online", self.cpu));
        let online = match os.root.read_value(&own) {
            Ok(Some(value)) => value == "1",
            // A CPU that cannot go off-line has no such file.
            _ => self.machine.online_now().is_ok_and(|online| online.contains(self.cpu)),
        };
        let why = if online { why } else { "its CPU went off-line" };
        Refusal::operation(Reason::Machine(why.to_owned()))
            .hint("what was measured until then is shown and kept")
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        // A process that has already ended must still be reaped.
        let _ = kill_process(self.child, Signal::KILL);
        while let Err(rustix::io::Errno::INTR) = waitpid(Some(self.child), WaitOptions::empty()) {}
    }
}
