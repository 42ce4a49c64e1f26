//! Keeps CPUs busy while the kernel removes their scheduling domains.
//!
//! The kernel lists idle CPUs (`nohz.idle_cpus_mask`). Busy CPUs wake one of them to balance load for all. The tick of a CPU that
//! is no longer idle removes it from the list, but only while the CPU has a scheduling domain. So a CPU that is idle when it loses its domain, as in
//! an isolated partition, stays on the list permanently. Other CPUs then wake it hundreds of times a second, although it takes no part in load
//! balancing.
//!
//! Therefore a busy-loop process runs on each of these CPUs, from at least one tick before the change until after it. It is in the cgroup that
//! becomes the partition: from any other cgroup the kernel would first move it away, and the CPU would be idle again.

use crate::LinuxMachine;
use crate::knob::{ControlFile, CpusetFile};
use libc::{c_int, c_void, pid_t};
use millpond_model::CpuSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read};
use rustix::pipe::pipe;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// The limit of the wait for a tick. A CPU on which the process does not run for this long is busy with threads of higher priority, so it is not
/// listed.
const PATIENCE: Duration = Duration::from_millis(500);

/// The busy-loop processes. They end when the value is dropped, and when the thread that created it ends.
pub(crate) struct Busy {
    children: Vec<Pid>,
}

/// Parameters of a child process.
struct Orders<'a> {
    parent: pid_t,
    /// `cgroup.procs` files: the child enters the first one that accepts it.
    places: &'a [OwnedFd],
    /// The mask of its CPU.
    mask: &'a [u64],
    /// The child writes a byte here after a tick, or if it cannot run there.
    ready: c_int,
}

impl LinuxMachine {
    /// Keeps the CPUs of a cgroup busy that is about to become a partition without scheduling domains. Does nothing where that is impossible: then
    /// other CPUs wake these CPUs more often.
    pub(crate) fn busy(&self, group: &str, partition: Option<&str>) -> Option<Busy> {
        if !self.os.root.is_live() || self.os.hierarchy.is_v1() {
            return None;
        }
        let cpus = self.read_file(&ControlFile::cpuset(group, CpusetFile::Cpus)).ok()??;
        let cpus = &cpus.parse::<CpuSet>().ok()? & &self.os.online().ok()?;
        // A partition of one CPU has no domain either.
        let loses_domains = partition == Some("isolated") || (partition == Some("root") && cpus.len() == 1);
        if !loses_domains {
            return None;
        }
        let dir = self.os.group(group).ok()?;
        let below = self.os.root.dirs(&dir).unwrap_or_default().into_iter().map(|name| dir.join(name));
        let file = |dir: std::path::PathBuf| {
            open(dir.join("cgroup.procs"), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).ok()
        };
        // A cgroup whose children have members accepts no process itself.
        let places: Vec<OwnedFd> = [dir.clone()].into_iter().chain(below).filter_map(file).collect();
        Busy::on(&cpus, &places)
    }
}

impl Busy {
    fn on(cpus: &CpuSet, places: &[OwnedFd]) -> Option<Busy> {
        let (ticks, ready) = pipe().ok()?;
        let parent = getpid().as_raw_nonzero().get();
        let mut busy = Busy { children: Vec::new() };
        for cpu in cpus.iter() {
            let mask = CpuSet::from_iter([cpu]).to_words();
            let orders = Orders { parent, places, mask: &mask, ready: ready.as_raw_fd() };
            busy.children.extend(fork(&orders));
        }
        drop(ready);
        wait_for_ticks(&ticks, busy.children.len());
        Some(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &self.children {
            let _ = kill_process(*child, Signal::KILL);
        }
        for child in &self.children {
            while let Err(Errno::INTR) = waitpid(Some(*child), WaitOptions::empty()) {}
        }
    }
}

/// Reads a byte from each child. Returns early when all remaining children have ended.
fn wait_for_ticks(ticks: &OwnedFd, mut children: usize) {
    let end = Instant::now() + PATIENCE;
    let mut bytes = [0u8; 64];
    while children > 0 {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(timeout) = rustix::event::Timespec::try_from(left) else { return };
        match poll(&mut [PollFd::new(ticks, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        match read(ticks, &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => children = children.saturating_sub(count),
        }
    }
}

fn fork(orders: &Orders<'_>) -> Option<Pid> {
    // SAFETY: the child makes only system calls, allocates no memory, and ends without returning.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        compute(orders);
    }
    Pid::from_raw(forked.max(0))
}

/// The body of the child: a busy loop until it is killed.
fn compute(orders: &Orders<'_>) -> ! {
    // SAFETY: system calls with plain numbers and with valid, large enough memory. Signal sets are filled before they are used.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::prctl(libc::PR_SET_NAME, c"millpond-busy".as_ptr());
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut signals);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const signals, std::ptr::null_mut());
        // 0 is the writing process.
        let enter = |place: &OwnedFd| libc::write(place.as_raw_fd(), c"0".as_ptr().cast::<c_void>(), 1) == 1;
        let is_ready = || libc::write(orders.ready, c"!".as_ptr().cast::<c_void>(), 1);
        let (bytes, words) = (size_of_val(orders.mask), orders.mask.as_ptr());
        if libc::getppid() != orders.parent
            || !orders.places.iter().any(enter)
            || libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, words) != 0
        {
            is_ready();
            libc::_exit(1);
        }
        // The tick checks CPU-time timers after it has updated the list of idle CPUs.
        let mut soon: libc::itimerval = std::mem::zeroed();
        soon.it_value.tv_usec = 1;
        libc::setitimer(libc::ITIMER_PROF, &raw const soon, std::ptr::null_mut());
        loop {
            libc::sigemptyset(&raw mut signals);
            libc::sigpending(&raw mut signals);
            if libc::sigismember(&raw const signals, libc::SIGPROF) == 1 {
                break;
            }
        }
        is_ready();
    }
    loop {
        std::hint::spin_loop();
    }
}
