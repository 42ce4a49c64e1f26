//! Child processes for the scheduler: one kind computes, the other also forks on a signal, and its children compute as well.

use crate::stage::until;
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A process that computes. Dropping the value ends it.
pub struct Actor {
    child: Child,
    /// Its process id.
    pub pid: u32,
    /// Its start time, in clock ticks since boot.
    pub start: u64,
}

/// Fork signals since the last fork.
static WANTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_signal(_: libc::c_int) {
    WANTED.fetch_add(1, Ordering::Relaxed);
}

/// The main loop of a process.
pub fn act(what: &str) -> ExitCode {
    let handler: extern "C" fn(libc::c_int) = on_signal;
    // SAFETY: the handler adds to an atomic word and does nothing else.
    unsafe { libc::signal(libc::SIGUSR1, handler as libc::sighandler_t) };
    loop {
        for round in 0..1000_u32 {
            black_box(round);
        }
        if WANTED.load(Ordering::Relaxed) > 0 && what == "fork" {
            WANTED.store(0, Ordering::Relaxed);
            // SAFETY: this process has one thread, and the child only continues this loop.
            unsafe { libc::fork() };
        }
    }
}

/// Fields of `/proc/PID/stat`, from the state on.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    Some(rest.split(' ').map(str::to_owned).collect())
}

/// CPU time of a process, in nanoseconds.
pub fn ran(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

impl Actor {
    /// A stopped process; [`Actor::go`] continues it.
    pub fn new(what: &str) -> Result<Actor, String> {
        let actor = Actor::started(what)?;
        // Once it has used some CPU time, it is in its loop.
        until("a process computes", || actor.ran() > 3_000_000)?;
        actor.stop()?;
        Ok(actor)
    }

    /// A process that computes at once.
    pub fn started(what: &str) -> Result<Actor, String> {
        let said = |e: std::io::Error| format!("cannot start a process: {e}");
        let me = std::env::current_exe().map_err(said)?;
        let child = Command::new(me)
            .args(["act", what])
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(said)?;
        let pid = child.id();
        let start =
            stat(pid).and_then(|words| words.get(19)?.parse().ok()).ok_or("a process has no beginning")?;
        Ok(Actor { child, pid, start })
    }

    /// Its CPU time, in nanoseconds.
    pub fn ran(&self) -> u64 {
        ran(self.pid)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: libc::c_int) {
        if let Ok(pid) = libc::pid_t::try_from(self.pid) {
            // SAFETY: a system call with plain numbers, to a child that is not yet waited for.
            unsafe { libc::kill(pid, signal) };
        }
    }

    /// Stops it.
    pub fn stop(&self) -> Result<(), String> {
        self.signal(libc::SIGSTOP);
        until("a process stands still", || stat(self.pid).is_some_and(|words| words[0] == "T"))
    }

    /// Continues it.
    pub fn go(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Sets its nice value.
    pub fn nice(&self, nice: libc::c_int) {
        // SAFETY: a system call with plain numbers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, self.pid, nice) };
    }

    /// Restricts it to a random subset of `cpus` CPUs.
    pub fn bind(&self, cpus: usize, dice: &mut dyn FnMut(u64) -> u64) {
        // SAFETY: all bytes zero are an empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let last = usize::try_from(dice(cpus as u64)).unwrap_or_default();
        for cpu in (0..cpus).filter(|cpu| *cpu == last || dice(3) == 0) {
            // SAFETY: the number is below that of the CPUs, which fit.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        if let Ok(pid) = libc::pid_t::try_from(self.pid) {
            // SAFETY: the set lives for the call.
            unsafe { libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &raw const set) };
        }
    }

    /// The pid of its only child.
    pub fn only_child(&self) -> Option<u32> {
        let file = format!("/proc/{0}/task/{0}/children", self.pid);
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // Its children are in its process group, so none is left.
        if let Ok(group) = libc::pid_t::try_from(self.pid) {
            // SAFETY: a system call with plain numbers.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
