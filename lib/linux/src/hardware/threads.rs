//! Threads that are followed and counted: a group for each thread and set, opened while the thread stands still at its beginning.
//!
//! Everything that a thread does is told by `ptrace` as it happens, so that none is counted too late: a new thread does not run before its
//! counters do. What a thread counted stays readable after its end.

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

/// Nobody waits for longer without looking: a signal may have been taken by another thread of this process.
const LOOK: Duration = Duration::from_millis(50);
/// A thread that is let go of stands still within this time, unless it sleeps where nothing wakes it.
const PATIENCE: Nanos = Nanos(1_000_000_000);

/// A thread that is followed.
struct Task {
    pid: u32,
    /// A group for each set; none where it cannot be counted.
    groups: Vec<Group>,
}

/// The threads.
pub(super) struct Threads<'a> {
    os: &'a Os,
    pid: u32,
    codes: Vec<Vec<Code>>,
    set: usize,
    follow: Follow,
    ears: ChildSignals,
    tasks: BTreeMap<u32, Task>,
    /// Those who were announced and did not come yet, with their process.
    expected: BTreeMap<u32, u32>,
    /// Those who came and were not announced yet. They stand still.
    early: BTreeSet<u32>,
    told: VecDeque<Happening>,
}

impl<'a> Threads<'a> {
    /// Begins with a process that runs, or starts a program.
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
        // SAFETY: between fork and exec only system calls are made.
        unsafe { command.pre_exec(move || ptrace::trace_me(&before)) };
        let child = command.spawn().map_err(|error| cannot(&error))?;
        let tid = child.id();
        self.pid = tid;
        // It stands still at the first instruction of the program.
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
        // Whoever is started by one that is followed already is followed by itself; look until nobody else is new.
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

    /// A number from the `status` of a thread.
    fn status_line(&self, tid: u32, head: &str) -> Option<u32> {
        let path = self.os.root.proc.join(tid.to_string()).join("status");
        let text = self.os.root.read(&path).ok().flatten()?;
        text.lines().find_map(|line| line.strip_prefix(head))?.trim().parse().ok()
    }

    /// Opens a thread's counters, and starts those of the set that counts.
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

    /// One that died meanwhile tells so by itself.
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

    /// A new one stands still.
    fn arrived(&mut self, tid: u32) {
        match self.expected.remove(&tid) {
            Some(pid) => self.welcome(tid, pid),
            None => {
                self.early.insert(tid);
            }
        }
    }

    fn welcome(&mut self, tid: u32, pid: u32) {
        // The first thread of a process has its number.
        if tid == pid && !self.follow.forks {
            // The signal that it was stopped by is ours.
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

    /// A process became another program, in a thread that has its first one's number now. The others are no more.
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

    /// Lets one go, which may take a moment: it must stand still first.
    fn release(&self, tid: u32, pid: u32) {
        let asked = ptrace::interrupt(tid).is_ok();
        if !asked {
            let number = |n: u32| libc::pid_t::try_from(n).unwrap_or(0);
            // SAFETY: sends a signal, which stops a thread that we follow before it takes it.
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
            // A thread that has ended keeps what it counted.
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
