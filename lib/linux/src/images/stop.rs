//! A process with all threads stopped, until the value is dropped.

use super::{Arch, FLOATING, GENERAL, TLS, VECTORS};
use crate::ptrace::{self, ChildSignals, TraceEvent};
use crate::{Root, is_gone};
use millpond_machine::facets::StoppedThread;
use millpond_machine::{Reason, Refusal, Subject};
use millpond_model::{Nanos, Pid};
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Longest wait for a thread to stop. A thread that waits for a disk or a file server stops only after the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximal number of searches for new threads.
const ROUNDS: usize = 1000;
/// Words of the largest register set.
const WORDS: usize = 2048;

/// The stopped threads.
pub(super) struct Stopped {
    pid: Pid,
    /// The signal that each thread was about to take; `None`: it has not stopped yet.
    threads: BTreeMap<u32, Option<i32>>,
    /// The time of the first stop request.
    since: Option<Instant>,
}

impl Stopped {
    /// Stops all threads of a process, including threads that start meanwhile.
    pub(super) fn all(root: &Root, pid: Pid) -> Result<Stopped, Refusal> {
        let mut stopped = Stopped { pid, threads: BTreeMap::new(), since: None };
        let ears = ChildSignals::open();
        for _ in 0..ROUNDS {
            if !stopped.seize_new(root)? {
                return Ok(stopped);
            }
            stopped.since.get_or_insert_with(Instant::now);
            let running = stopped.threads.iter().filter(|(_, signal)| signal.is_none());
            let running: Vec<u32> = running.map(|(tid, _)| *tid).collect();
            for tid in running {
                if ptrace::interrupt(tid).is_err() {
                    stopped.threads.remove(&tid);
                }
            }
            stopped.wait(&ears)?;
        }
        Err(stopped.refused("it starts threads faster than they can be stopped"))
    }

    fn refused(&self, why: impl Into<String>) -> Refusal {
        Refusal::new(Subject::Process(self.pid), Reason::Machine(why.into()))
    }

    /// Traces all threads that are not traced yet. Returns whether there was one.
    fn seize_new(&mut self, root: &Root) -> Result<bool, Refusal> {
        let dir = root.proc.join(self.pid.to_string()).join("task");
        let names = root.names(&dir).map_err(|error| self.refused(error.to_string()))?;
        let tids: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        if tids.is_empty() {
            return Err(Refusal::new(Subject::Process(self.pid), Reason::ExitedMeanwhile));
        }
        let mut found = false;
        for tid in tids {
            if self.threads.contains_key(&tid) {
                continue;
            }
            match ptrace::seize(tid, 0) {
                Ok(()) => {
                    self.threads.insert(tid, None);
                    found = true;
                }
                Err(error) if is_gone(&error) || is_ending(root, self.pid, tid) => {}
                Err(error) => return Err(self.why_not(root, &error)),
            }
        }
        Ok(found)
    }

    fn why_not(&self, root: &Root, error: &io::Error) -> Refusal {
        let status = root.proc.join(self.pid.to_string()).join("status");
        let text = root.read(&status).ok().flatten().unwrap_or_default();
        let tracer = text.lines().find_map(|line| line.strip_prefix("TracerPid:")).map(str::trim);
        match tracer.filter(|tracer| *tracer != "0") {
            Some(tracer) => {
                self.refused(format!("process {tracer} follows it already")).hint("end that debugger first")
            }
            None if error.raw_os_error() == Some(libc::EPERM) => super::live::not_permitted(root, self.pid),
            None => self.refused(error.to_string()),
        }
    }

    /// Waits until every traced thread has stopped or ended.
    fn wait(&mut self, ears: &ChildSignals) -> Result<(), Refusal> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let running = self.threads.iter().filter(|(_, signal)| signal.is_none());
            let running: Vec<u32> = running.map(|(tid, _)| *tid).collect();
            let Some(first) = running.first() else { return Ok(()) };
            let mut heard = false;
            for tid in &running {
                let told = match ptrace::wait_event(Some(*tid)) {
                    Ok(None) => continue,
                    Ok(Some((_, told))) => told,
                    Err(_) => TraceEvent::Gone,
                };
                heard = true;
                match told {
                    TraceEvent::Gone => drop(self.threads.remove(tid)),
                    TraceEvent::Signalled(signal) => drop(self.threads.insert(*tid, Some(signal))),
                    _ => drop(self.threads.insert(*tid, Some(0))),
                }
            }
            if heard {
                continue;
            }
            if Instant::now() > deadline {
                let why = format!("thread {first} does not stop: it waits within the kernel");
                return Err(self
                    .refused(why)
                    .hint("try again when the disk or file server that it waits for has answered"));
            }
            ears.wait(Duration::from_millis(20));
        }
    }

    /// The registers of all threads.
    pub(super) fn threads(&self) -> Vec<StoppedThread> {
        self.threads.keys().map(|tid| registers(*tid)).collect()
    }

    /// Resumes all threads. Returns for how long they were stopped.
    pub(super) fn go_on(mut self) -> Nanos {
        self.let_all_go();
        let elapsed = self.since.take().map(|since| since.elapsed()).unwrap_or_default();
        Nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    fn let_all_go(&mut self) {
        for (tid, signal) in std::mem::take(&mut self.threads) {
            if ptrace::detach(tid, signal.unwrap_or(0)).is_err() && signal.is_none() {
                // This thread has not stopped yet. The kernel detaches it when we exit.
                let _ = ptrace::wait_event(Some(tid));
                let _ = ptrace::detach(tid, 0);
            }
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        self.let_all_go();
    }
}

/// Whether a thread has ended and was not reaped yet.
fn is_ending(root: &Root, pid: Pid, tid: u32) -> bool {
    let path = root.proc.join(format!("{pid}/task/{tid}/stat"));
    let text = root.read_value(&path).ok().flatten();
    text.is_none_or(|text| {
        crate::procfs::stat_field(&text, crate::procfs::STATE).is_none_or(|state| "ZX".contains(state))
    })
}

fn registers(tid: u32) -> StoppedThread {
    let set = |which| {
        let mut words = vec![0; WORDS];
        let count = ptrace::registers(tid, which, &mut words).unwrap_or(0);
        words.truncate(count);
        words
    };
    let mut thread = Arch::own().thread(tid, set(GENERAL));
    if Arch::own() == Arch::Aarch64 {
        thread.thread_pointer = set(TLS).first().copied();
    }
    let vectors = set(VECTORS);
    thread.words.extend(if vectors.is_empty() { set(FLOATING) } else { vectors });
    thread
}
