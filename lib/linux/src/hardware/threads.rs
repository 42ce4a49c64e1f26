//! Counters of traced threads: one group per thread and set, opened while the new thread is stopped.
//!
//! `ptrace` reports every event of a thread as it happens. A new thread does not run before its counters do. The counts of a
//! thread stay readable after its end.

use super::catalogue::Code;
use super::group::{Group, Whom};
use super::refused;
use crate::Os;
use crate::counters::now;
use crate::ptrace::{self, ChildSignals, TraceEvent};
use millpond_machine::facets::{Follow, Happening, LwpReading, Tracked, Tracking};
use millpond_machine::{Reason, Refusal, Subject};
use millpond_model::{Lwp, LwpId, Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Longest wait between checks: another thread of this process may have consumed the signal.
const LOOK: Duration = Duration::from_millis(50);
/// A thread stops within this time, unless it is in uninterruptible sleep.
const PATIENCE: Nanos = Nanos(1_000_000_000);

/// A traced thread.
struct Task {
    pid: u32,
    /// One group per set; empty where it cannot be counted.
    groups: Vec<Group>,
}

/// The traced threads.
pub(super) struct Threads<'a> {
    os: &'a Os,
    pid: u32,
    codes: Vec<Vec<Code>>,
    set: usize,
    follow: Follow,
    ears: ChildSignals,
    tasks: BTreeMap<u32, Task>,
    /// Threads that were announced but have not stopped yet, with their process.
    expected: BTreeMap<u32, u32>,
    /// Threads that stopped before they were announced. They stay stopped.
    early: BTreeSet<u32>,
    told: VecDeque<Happening>,
}

impl<'a> Threads<'a> {
    /// Attaches to a running process, or starts a program.
    pub(super) fn begin(
        os: &'a Os,
        whose: &Tracked,
        codes: Vec<Vec<Code>>,
        follow: Follow,
    ) -> Result<Self, Refusal> {
        let mut threads = Threads {
            os,
            pid: 0,
            codes,
            set: 0,
            follow,
            ears: ChildSignals::open(),
            tasks: BTreeMap::new(),
            expected: BTreeMap::new(),
            early: BTreeSet::new(),
            told: VecDeque::new(),
        };
        match whose {
            Tracked::Process(pid) => threads.attach(pid.0)?,
            Tracked::Program(words) => threads.launch(words)?,
        }
        Ok(threads)
    }

    fn launch(&mut self, words: &[OsString]) -> Result<(), Refusal> {
        let cannot = |error: &io::Error| {
            let text = error.to_string();
            let why = text.split(" (os error ").next().unwrap_or_default();
            Refusal::operation(Reason::NotStarted(why.to_owned()))
        };
        let (name, arguments) = words.split_first().ok_or_else(|| cannot(&io::ErrorKind::NotFound.into()))?;
        let mut command = Command::new(name);
        command.args(arguments);
        let before = self.ears.before();
        // SAFETY: the closure makes only system calls between fork and exec.
        unsafe { command.pre_exec(move || ptrace::trace_me(&before)) };
        let child = command.spawn().map_err(|error| cannot(&error))?;
        let tid = child.id();
        self.pid = tid;
        // The child stops at the first instruction of the program.
        loop {
            match ptrace::wait_event(Some(tid)).map_err(|error| cannot(&error))? {
                Some((_, TraceEvent::Gone)) => {
                    return Err(cannot(&io::Error::from_raw_os_error(libc::ESRCH)));
                }
                Some((_, TraceEvent::Signalled(libc::SIGTRAP))) => break,
                Some((_, TraceEvent::Signalled(signal))) => self.resume(tid, signal),
                Some(_) => self.resume(tid, 0),
                None => {
                    self.ears.wait(LOOK);
                }
            }
        }
        ptrace::set_options(tid, ptrace::options(self.follow.forks)).map_err(|error| cannot(&error))?;
        self.count(tid, tid, false);
        self.resume(tid, 0);
        Ok(())
    }

    fn attach(&mut self, pid: u32) -> Result<(), Refusal> {
        self.pid = pid;
        let subject = Subject::Process(Pid(pid));
        let stat = self.os.stat(pid, None).ok().flatten();
        match stat {
            None => return Err(Refusal::new(subject, Reason::NoSuchProcess)),
            Some(stat) if stat.kernel => return Err(Refusal::new(subject, Reason::KernelThread)),
            Some(_) => {}
        }
        let options = ptrace::options(self.follow.forks);
        // Children of traced threads are traced automatically. Repeat until no new thread is found.
        let mut seen = BTreeSet::new();
        loop {
            let tids = self.os.tids(pid).unwrap_or_default();
            let new: Vec<u32> = tids.into_iter().filter(|tid| seen.insert(*tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match ptrace::seize(tid, options) {
                    Ok(()) => self.count(tid, pid, false),
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(_) if !self.tasks.is_empty() => {}
                    Err(error) => return Err(self.not_attached(subject, &error)),
                }
            }
        }
        if self.tasks.is_empty() {
            return Err(Refusal::new(subject, Reason::ExitedMeanwhile));
        }
        Ok(())
    }

    fn not_attached(&self, subject: Subject, error: &io::Error) -> Refusal {
        match self.status_line(self.pid, "TracerPid:") {
            Some(tracer) if tracer != 0 => {
                let why = format!("process {tracer} follows it already");
                Refusal::new(subject, Reason::Machine(why))
                    .hint("a process has one debugger or tracer at a time")
            }
            _ if error.raw_os_error() == Some(libc::EPERM) => Refusal::new(subject, Reason::NotPermitted),
            _ => Refusal::new(subject, Reason::Machine(error.to_string())),
        }
    }

    /// A number from the `status` file of a thread.
    fn status_line(&self, tid: u32, head: &str) -> Option<u32> {
        let path = self.os.root.proc.join(tid.to_string()).join("status");
        let text = self.os.root.read(&path).ok().flatten()?;
        text.lines().find_map(|line| line.strip_prefix(head))?.trim().parse().ok()
    }

    /// Opens a thread's counters, and starts those of the current set.
    fn count(&mut self, tid: u32, pid: u32, created: bool) {
        let lwp = lwp(pid, tid);
        let mut groups = Vec::with_capacity(self.codes.len());
        let mut failed = None;
        for set in &self.codes {
            match Group::open(Whom::Thread(tid), set) {
                Ok(group) => groups.push(group),
                Err((at, error)) => {
                    failed = Some(refused(Subject::Thread(lwp), set, at, &error).reason.to_string());
                    break;
                }
            }
        }
        if failed.is_none()
            && let Some(Err(error)) = groups.get_mut(self.set).map(Group::start)
        {
            failed = Some(error.to_string());
        }
        match failed {
            Some(why) => {
                groups.clear();
                self.told.push_back(Happening::NotCounted { lwp, why });
            }
            None => self.told.push_back(Happening::Began { lwp, created }),
        }
        self.tasks.insert(tid, Task { pid, groups });
    }

    /// Ignores errors: the end of a thread is reported separately.
    fn resume(&self, tid: u32, signal: i32) {
        let _ = ptrace::resume(tid, signal);
    }

    fn handle(&mut self, tid: u32, told: TraceEvent) {
        let known = self.tasks.contains_key(&tid);
        match told {
            TraceEvent::Gone => self.gone(tid),
            TraceEvent::Started { child, forked } => {
                self.started(tid, child, forked);
                self.resume(tid, 0);
            }
            TraceEvent::Exec { former } => self.became(tid, former),
            TraceEvent::Stopped | TraceEvent::GroupStop | TraceEvent::Signalled(_) if !known => {
                self.arrived(tid)
            }
            TraceEvent::Stopped => self.resume(tid, 0),
            TraceEvent::GroupStop => {
                if ptrace::listen(tid).is_err() {
                    self.resume(tid, 0);
                }
            }
            TraceEvent::Signalled(signal) => self.resume(tid, signal),
        }
    }

    /// A new thread has stopped.
    fn arrived(&mut self, tid: u32) {
        match self.expected.remove(&tid) {
            Some(pid) => self.welcome(tid, pid),
            None => {
                self.early.insert(tid);
            }
        }
    }

    fn welcome(&mut self, tid: u32, pid: u32) {
        // The first thread of a process has the process id.
        if tid == pid && !self.follow.forks {
            // The stop signal is from tracing and is not delivered.
            let _ = ptrace::detach(tid, 0);
            return;
        }
        self.count(tid, pid, tid != pid);
        self.resume(tid, 0);
    }

    fn started(&mut self, tid: u32, child: u32, forked: bool) {
        let Some(pid) = self.tasks.get(&tid).map(|task| task.pid) else { return };
        let of = if forked { child } else { self.status_line(child, "Tgid:").unwrap_or(pid) };
        if of == child {
            self.told.push_back(Happening::Forked { lwp: lwp(pid, tid), child: Pid(child) });
        }
        if self.early.remove(&child) {
            self.welcome(child, of);
        } else {
            self.expected.insert(child, of);
        }
    }

    fn gone(&mut self, tid: u32) {
        self.expected.remove(&tid);
        self.early.remove(&tid);
        let Some(task) = self.tasks.remove(&tid) else { return };
        let pid = task.pid;
        if let Some(reading) = reading(tid, &task, self.set) {
            self.told.push_back(Happening::Ended(reading));
        }
        if self.tasks.values().all(|other| other.pid != pid) {
            self.told.push_back(Happening::Exited { pid: Pid(pid) });
        }
    }

    /// A process called exec in a thread, which now has the id of its first thread. The other threads have ended.
    fn became(&mut self, tid: u32, former: u32) {
        let of_process = |task: &Task| task.pid == tid;
        let tids: Vec<u32> = self.tasks.iter().filter(|(_, t)| of_process(t)).map(|(tid, _)| *tid).collect();
        let set = self.set;
        let before = tids.iter().filter_map(|tid| reading(*tid, self.tasks.get(tid)?, set)).collect();
        tids.iter().for_each(|tid| {
            self.tasks.remove(tid);
        });
        self.expected.remove(&former);
        let image = std::fs::read_link(self.os.root.proc.join(tid.to_string()).join("exe")).ok();
        let image = image.map(|path| path.to_string_lossy().into_owned());
        let followed = self.follow.execs;
        self.told.push_back(Happening::Became { lwp: lwp(tid, tid), before, image, followed });
        if followed {
            self.count(tid, tid, false);
            self.resume(tid, 0);
        } else {
            let _ = ptrace::detach(tid, 0);
        }
    }

    /// Detaches from a thread. It must stop first, which can take a moment.
    fn release(&self, tid: u32, pid: u32) {
        let asked = ptrace::interrupt(tid).is_ok();
        if !asked {
            let number = |n: u32| libc::pid_t::try_from(n).unwrap_or(0);
            // SAFETY: sends a stop signal to a thread that we trace.
            unsafe { libc::syscall(libc::SYS_tgkill, number(pid), number(tid), libc::SIGSTOP) };
        }
        let deadline = now() + PATIENCE;
        while now() < deadline {
            match ptrace::wait_event(Some(tid)) {
                Ok(Some((_, TraceEvent::Signalled(signal)))) if !asked && signal != libc::SIGSTOP => {
                    self.resume(tid, signal);
                }
                Ok(Some((_, TraceEvent::Signalled(signal)))) => {
                    let _ = ptrace::detach(tid, if asked { signal } else { 0 });
                    return;
                }
                Ok(Some((_, TraceEvent::Gone))) | Err(_) => return,
                Ok(Some(_)) if asked => {
                    let _ = ptrace::detach(tid, 0);
                    return;
                }
                Ok(Some(_)) => self.resume(tid, 0),
                Ok(None) => {
                    self.ears.wait(LOOK);
                }
            }
        }
    }
}

fn lwp(pid: u32, tid: u32) -> Lwp {
    Lwp { pid: Pid(pid), lwp: LwpId(tid) }
}

fn reading(tid: u32, task: &Task, set: usize) -> Option<LwpReading> {
    let counted = task.groups.get(set)?.read().ok()?;
    Some(LwpReading { lwp: lwp(task.pid, tid), tick: counted.wanted.0, counted })
}

impl Tracking for Threads<'_> {
    fn pid(&self) -> Pid {
        Pid(self.pid)
    }

    fn next(&mut self, deadline: Nanos) -> Result<Happening, Refusal> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(told);
            }
            match ptrace::wait_event(None) {
                Ok(Some((tid, told))) => {
                    self.handle(tid, told);
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Happening::Over),
                Err(error) => {
                    return Err(Refusal::operation(Reason::Machine(format!("it does not tell: {error}"))));
                }
                Ok(None) if self.tasks.is_empty() => return Ok(Happening::Over),
                Ok(None) => {}
            }
            let left = deadline.0.saturating_sub(now().0);
            if left == 0 || !self.ears.wait(LOOK.min(Duration::from_nanos(left))) {
                return Ok(Happening::Due);
            }
        }
    }

    fn start(&mut self, set: usize) -> Result<(), Refusal> {
        let before = self.set;
        self.set = set;
        for task in self.tasks.values_mut() {
            // The counts of an ended thread are kept.
            let _ = task.groups.get(before).map(Group::stop);
            let _ = task.groups.get_mut(set).map(Group::start);
        }
        Ok(())
    }

    fn read(&mut self) -> Vec<LwpReading> {
        let set = self.set;
        self.tasks.iter().filter_map(|(tid, task)| reading(*tid, task, set)).collect()
    }
}

impl Drop for Threads<'_> {
    fn drop(&mut self) {
        for (tid, task) in &self.tasks {
            self.release(*tid, task.pid);
        }
        for tid in &self.early {
            let _ = ptrace::detach(*tid, 0);
        }
    }
}
