//! Tasks as processes: forked group by group, reaped one by one, killed on any error.

use super::channel::{Channel, Gates, open_group, take_ready, timespec};
use super::fifo::FifoGuard;
use super::task::{TaskError, block_broken_pipe_signal, receive, send, wait_for_wake};
use super::{HackbenchEvent, HackbenchResult, HackbenchSpec, Role, Task};
use crate::Error;
use crate::clock::STOP_POLL;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal, waitpid,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Runs `spec` with forked tasks.
pub(super) fn run(
    spec: &HackbenchSpec,
    tasks: u32,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(HackbenchEvent<'_>),
) -> Result<HackbenchResult, Error> {
    let received = SharedCount::new()?;
    let gates = Gates::open(spec)?;
    let mut crew = Crew::default();
    let mut message = vec![0_u8; spec.message_bytes.get() as usize];
    for group in 0..spec.groups.get() {
        let channels = open_group(spec, group)?;
        for role in [Role::Receiver, Role::Sender] {
            for index in 0..spec.pairs.get() {
                let task = Task { role, group, index };
                crew.fork(task, tasks, || {
                    child(spec, task, &gates, &channels, &mut message).inspect(|messages| {
                        received.get().fetch_add(*messages, Ordering::Relaxed);
                    })
                })?;
            }
        }
    }
    if !crew.all_report_ready(&gates.ready.reading, stop)? {
        return Ok(HackbenchResult { tasks, messages: 0, bytes: 0, seconds: 0.0, stopped: true });
    }
    on_event(HackbenchEvent::Ready { tasks, pids: &crew.pids() });
    let _fifo = spec.fifo.then(FifoGuard::take).transpose()?;
    let started = Instant::now();
    gates.open_wake().map_err(wait_failed)?;
    on_event(HackbenchEvent::Started);
    let stopped = !crew.all_end(stop)?;
    let seconds = started.elapsed().as_secs_f64();
    let messages = received.get().load(Ordering::Relaxed);
    Ok(HackbenchResult {
        tasks,
        messages,
        bytes: messages * u64::from(spec.message_bytes.get()),
        seconds,
        stopped,
    })
}

/// The code of a child. It only keeps the descriptors that it needs, so that the end of other tasks is visible; returns its number of received
/// messages.
fn child(
    spec: &HackbenchSpec,
    task: Task,
    Gates { ready, wake }: &Gates,
    channels: &[Channel],
    message: &mut [u8],
) -> Result<u64, TaskError> {
    close_in_child(&ready.reading);
    close_in_child(&wake.writing);
    for (number, channel) in (0_u32..).zip(channels) {
        match task.role {
            Role::Sender => close_in_child(&channel.reading),
            Role::Receiver => {
                close_in_child(&channel.writing);
                if number != task.index {
                    close_in_child(&channel.reading);
                }
            }
        }
    }
    block_broken_pipe_signal();
    wait_for_wake(ready.writing.as_fd(), wake.reading.as_fd())?;
    let Some(own) = channels.get(task.index as usize) else { return Err(TaskError::NotWoken) };
    match task.role {
        Role::Sender => {
            send(channels.iter().map(|channel| &channel.writing), spec.loops.get(), message).map(|()| 0)
        }
        Role::Receiver => {
            let messages = u64::from(spec.loops.get()) * u64::from(spec.pairs.get());
            receive(own.reading.as_fd(), messages, message).map(|()| messages)
        }
    }
}

/// Closes a descriptor in a child, where the owner's destructor never runs.
fn close_in_child(fd: &OwnedFd) {
    // SAFETY: the number is open, and in this process no code uses or closes it again: the child ends by `_exit`.
    unsafe { libc::close(fd.as_raw_fd()) };
}

/// The unreaped children. Dropping it kills and reaps them.
#[derive(Debug, Default)]
struct Crew {
    /// In order of creation, until the first is reaped.
    alive: Vec<(Pid, Task)>,
    /// The task that was checked last.
    cursor: usize,
}

impl Crew {
    /// Forks a child that runs `life` and exits with its result.
    fn fork(
        &mut self,
        task: Task,
        of: u32,
        life: impl FnOnce() -> Result<u64, TaskError>,
    ) -> Result<(), Error> {
        // Reserve first: without memory for the record, the child would be lost.
        self.alive.reserve(1);
        let parent = getpid();
        // SAFETY: the child only makes system calls on existing descriptors and memory (see `task`), takes no lock, does not
        // allocate, and leaves by `_exit` or `abort`. So neither locks held by other threads during the fork nor destructors of
        // this process matter.
        match unsafe { libc::fork() } {
            0 => {
                let _guard = AbortOnUnwind;
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                // The parent may have ended before the signal was set.
                let status = if getppid() == Some(parent) { life().err() } else { Some(TaskError::NotWoken) };
                // SAFETY: ends the child at once.
                unsafe { libc::_exit(status.map_or(0, TaskError::exit_status)) }
            }
            raw => {
                let failed = || Error::StartTask { task, of, source: io::Error::last_os_error() };
                // A negative number is an error.
                let pid = Some(raw).filter(|raw| *raw > 0).and_then(Pid::from_raw).ok_or_else(failed)?;
                self.alive.push((pid, task));
                Ok(())
            }
        }
    }

    fn pids(&self) -> Vec<u32> {
        self.alive.iter().map(|(pid, _)| pid.as_raw_nonzero().get().unsigned_abs()).collect()
    }

    /// Waits until every child has reported; false if stopped before.
    fn all_report_ready(&mut self, ready: &OwnedFd, stop: &AtomicBool) -> Result<bool, Error> {
        let mut missing = self.alive.len();
        while missing > 0 {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            match take_ready(ready, STOP_POLL).map_err(wait_failed)? {
                // Timeout: check whether a child has died.
                0 => self.none_has_ended()?,
                reports => missing = missing.saturating_sub(reports),
            }
        }
        Ok(true)
    }

    /// An error if a child has ended already.
    fn none_has_ended(&mut self) -> Result<(), Error> {
        for at in 0..self.alive.len() {
            let (pid, task) = self.alive[at];
            if let Some((_, status)) = wait(pid, WaitOptions::NOHANG)? {
                self.alive.remove(at);
                return Err(Error::TaskFailed { task, reason: reason(status) });
            }
        }
        Ok(())
    }

    /// Waits until every child has ended successfully; false if stopped before.
    fn all_end(&mut self, stop: &AtomicBool) -> Result<bool, Error> {
        match self.reap_all(stop) {
            // An interrupt from the terminal reaches the children too; it is a stop, not an error.
            Err(Error::TaskFailed { .. }) if stop.load(Ordering::Relaxed) => Ok(false),
            outcome => outcome,
        }
    }

    /// Reaps from the back; the order is irrelevant because all must end. Checks the other children meanwhile.
    fn reap_all(&mut self, stop: &AtomicBool) -> Result<bool, Error> {
        while let Some(&(pid, _)) = self.alive.last() {
            // Most children have ended by then: one call is enough for them.
            if self.reap(self.alive.len() - 1)? {
                continue;
            }
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(wait_failed)?;
            while !ends_soon(&pidfd)? {
                if stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                self.look_around()?;
            }
        }
        Ok(true)
    }

    /// Checks the next few children, so that a failure is detected early, at a small cost.
    fn look_around(&mut self) -> Result<(), Error> {
        const AT_ONCE: usize = 64;
        for _ in 0..AT_ONCE.min(self.alive.len()) {
            self.cursor = (self.cursor + 1) % self.alive.len().max(1);
            if self.cursor < self.alive.len() {
                self.reap(self.cursor)?;
            }
        }
        Ok(())
    }

    /// Reaps the child at `at` if it has ended; returns whether it has. An error if it failed.
    fn reap(&mut self, at: usize) -> Result<bool, Error> {
        let (pid, task) = self.alive[at];
        let Some((_, status)) = wait(pid, WaitOptions::NOHANG)? else { return Ok(false) };
        self.alive.swap_remove(at);
        if status.exit_status() == Some(0) { Ok(true) } else { Err(self.root_cause(task, status)) }
    }

    /// Of the failures that are visible now, one that is not just a consequence of another.
    fn root_cause(&mut self, task: Task, status: WaitStatus) -> Error {
        let is_consequence = |status: WaitStatus| {
            let error = status.exit_status().map(TaskError::of_exit_status);
            matches!(error, Some(TaskError::EndOfFile | TaskError::Call(Errno::PIPE | Errno::CONNRESET)))
        };
        let mut cause = (task, status);
        for at in (0..self.alive.len()).rev() {
            if !is_consequence(cause.1) {
                break;
            }
            let (pid, task) = self.alive[at];
            if let Ok(Some((_, status))) = wait(pid, WaitOptions::NOHANG) {
                self.alive.remove(at);
                if status.exit_status() != Some(0) && !is_consequence(status) {
                    cause = (task, status);
                }
            }
        }
        Error::TaskFailed { task: cause.0, reason: reason(cause.1) }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for (pid, _) in &self.alive {
            let _ = kill_process(*pid, Signal::KILL);
        }
        for (pid, _) in self.alive.drain(..) {
            let _ = wait(pid, WaitOptions::empty());
        }
    }
}

/// Waits a while for the end of a child, without reaping it; returns whether it ended.
fn ends_soon(pidfd: &OwnedFd) -> Result<bool, Error> {
    match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timespec(STOP_POLL))) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(wait_failed(errno)),
    }
}

fn wait(pid: Pid, options: WaitOptions) -> Result<Option<(Pid, WaitStatus)>, Error> {
    rustix::io::retry_on_intr(|| waitpid(Some(pid), options)).map_err(wait_failed)
}

fn wait_failed(errno: Errno) -> Error {
    Error::WaitForTasks { source: errno.into() }
}

/// The reason of a child's failure.
fn reason(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(0), _) => "it ended too early".to_owned(),
        (Some(code), _) => TaskError::of_exit_status(code).to_string(),
        (None, Some(signal)) => format!("it was killed by signal {signal}"),
        (None, None) => "it ended in an unknown way".to_owned(),
    }
}

/// Prevents a panic from unwinding a child into its parent's frames.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        abort();
    }
}

/// A counter that forked children share with their parent.
#[derive(Debug)]
struct SharedCount {
    page: NonNull<AtomicU64>,
}

impl SharedCount {
    fn new() -> Result<Self, Error> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice affects no other memory.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), size_of::<AtomicU64>(), access, flags) };
        let page = page.map_err(|errno| Error::ShareCounter { source: errno.into() })?;
        let no_page = || Error::ShareCounter { source: io::Error::from(io::ErrorKind::OutOfMemory) };
        Ok(Self { page: NonNull::new(page.cast()).ok_or_else(no_page)? })
    }

    fn get(&self) -> &AtomicU64 {
        // SAFETY: the mapping is page-aligned, zeroed, lives as long as `self`, and is only ever used as this atomic.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for SharedCount {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference into it exists any more.
        let _ = unsafe { munmap(self.page.as_ptr().cast(), size_of::<AtomicU64>()) };
    }
}
