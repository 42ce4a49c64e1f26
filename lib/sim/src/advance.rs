//! Advances time: due events happen, and threads and processes begin and end.

use crate::kernel::{Executed, News, Program, Start, ThreadId};
use crate::state::{Note, SimState};
use crate::tables::{LwpRecord, ProcessRecord};
use crate::workloads::Load;
use millpond_model::{ControlValues, Lwp, LwpId, Pid, PsetId};
use std::collections::BTreeMap;

impl SimState {
    /// Advances time to `until`, in nanoseconds since boot, and executes all events that are due. A halted machine's clock
    /// advances, but nothing executes.
    pub fn advance(&mut self, until: u64) {
        while self.halted.is_none() && self.kernel.now() < until {
            self.go_on(until);
        }
        self.kernel.grow_old(until);
    }

    /// Advances time to `until` or to the first birth or end of a thread, and records those in the tables.
    pub(crate) fn go_on(&mut self, until: u64) {
        let end = self.ends.values().copied().min().unwrap_or(u64::MAX);
        if let Err(halt) = self.kernel.advance(until.min(end).min(self.load.due())) {
            self.halted = Some(halt);
        }
        self.hear();
        if self.kernel.now() >= self.load.due() {
            let spent = self.run_and_waited();
            self.load.go_on(self.kernel.now(), spent);
        }
        if self.kernel.now() >= end {
            self.end_due();
        }
    }

    /// Ends processes whose run time is over.
    fn end_due(&mut self) {
        let now = self.kernel.now();
        let due: Vec<Pid> = self.ends.iter().filter(|(_, end)| **end <= now).map(|(pid, _)| *pid).collect();
        for pid in due {
            self.ends.remove(&pid);
            self.tables.processes.remove(&pid);
        }
        self.apply_tables();
    }

    /// Copies births and ends of threads, and where threads ran, from the kernel into the tables.
    pub(crate) fn hear(&mut self) {
        for (thread, cpus) in self.kernel.take_seen() {
            let Some(lwp) = self.threads.get(&thread) else { continue };
            let here = self.residence.entry(lwp.pid).or_default();
            for (cpu, spent) in cpus {
                *here.entry(cpu).or_default() += spent;
            }
        }
        self.put_down();
        for news in self.kernel.take_news() {
            match news {
                News::Born { parent, child, same_process: false } => self.born(parent, child),
                News::Born { parent, child, same_process: true } => self.joined(parent, child),
                News::Counts { thread } => {
                    self.threads.get(&thread).copied().into_iter().for_each(|lwp| self.counts(lwp));
                }
                News::Ended { thread, done, executed } => self.ended(thread, done, executed),
            }
        }
    }

    fn born(&mut self, parent: ThreadId, child: ThreadId) {
        let Some(parent) = self.threads.get(&parent).copied() else { return };
        let Some(process) = self.tables.processes.get(&parent.pid) else { return };
        let record = process.lwps.get(&parent.lwp).cloned().unwrap_or_default();
        let lwps = BTreeMap::from([(LwpId(1), record)]);
        let held_by = if process.controls.is_none() { process.held_by } else { Some(parent.pid) };
        let controls = ControlValues::default();
        let process = ProcessRecord { lwps, parent: Some(parent.pid), controls, held_by, ..process.clone() };
        let pid = self.tables.add_process(process);
        self.threads.insert(child, Lwp { pid, lwp: LwpId(1) });
        if let Some(notes) = self.notes.as_mut() {
            notes.push(Note::Born { parent, child: pid });
        }
    }

    /// Adds a thread to a process, with its creator's bindings.
    fn joined(&mut self, creator: ThreadId, thread: ThreadId) {
        let Some(lwp) = self.threads.get(&creator).and_then(|creator| self.tables.add_thread(*creator))
        else {
            return;
        };
        self.threads.insert(thread, lwp);
    }

    fn ended(&mut self, thread: ThreadId, done: u64, executed: Executed) {
        let Some(lwp) = self.threads.remove(&thread) else { return };
        self.keep_used(lwp.pid, executed.user.saturating_add(executed.sys));
        if let Some(notes) = self.notes.as_mut() {
            notes.push(Note::Ended { lwp, executed });
        }
        if done > 0 {
            let sum = self.operations.entry(lwp.pid).or_default();
            *sum = sum.saturating_add(done);
        }
        let mut is_complete = false;
        if let Some(process) = self.tables.processes.get_mut(&lwp.pid) {
            process.lwps.remove(&lwp.lwp);
            if process.lwps.is_empty() {
                self.tables.processes.remove(&lwp.pid);
                is_complete = true;
            }
        }
        self.count_ended(lwp, done, is_complete);
    }

    /// Operations counted by the threads of a process, including ended threads.
    #[must_use]
    pub fn operations(&self, pid: Pid) -> u64 {
        let living = self.threads.iter().filter(|(_, lwp)| lwp.pid == pid);
        let living: u64 = living.map(|(thread, _)| self.kernel.thread(*thread).done).sum();
        living.saturating_add(self.operations.get(&pid).copied().unwrap_or(0))
    }

    /// Starts a process with one unbound thread of the default class for each program. It runs when time advances.
    pub fn start(&mut self, name: &str, programs: Vec<Program>) -> Pid {
        let pid = self.prepare(name);
        self.execute(pid, programs);
        pid
    }

    /// Makes a process of the default class with one thread, which sleeps until the process executes a workload.
    pub fn prepare(&mut self, name: &str) -> Pid {
        let mut process = crate::state::process(name, false, "global", 1);
        process.lwps.values_mut().for_each(|lwp| lwp.class = self.start_class);
        self.tables.add_process(process)
    }

    /// Makes a process execute a workload. It ends at the load's end time, if it has one.
    pub fn execute_load(&mut self, pid: Pid, load: &Load) {
        let cpus = self.cpus_of(pid);
        let programs = load.programs(&mut self.kernel, cpus);
        self.execute(pid, programs);
        if let Some(time) = load.duration {
            self.ends.insert(pid, self.now().0.saturating_add(time.0));
        }
        self.count_started(pid, load);
    }

    /// Number of CPUs that the first thread of a process may use.
    fn cpus_of(&self, pid: Pid) -> u64 {
        let record = self.tables.processes.get(&pid).and_then(|process| process.lwps.values().next());
        let bound = record.and_then(|record| record.cpu.as_ref()).map(|bond| bond.to.len());
        let set = record.map_or(PsetId::DEFAULT, LwpRecord::set_id);
        let cpus = bound.unwrap_or_else(|| self.tables.usable(set).len());
        u64::try_from(cpus.max(1)).unwrap_or(u64::MAX)
    }

    /// Makes a process execute programs, one thread for each, in the class and with the bindings of its first thread.
    pub(crate) fn execute(&mut self, pid: Pid, programs: Vec<Program>) {
        let Some(process) = self.tables.processes.get_mut(&pid) else { return };
        let record = process.lwps.values().next().cloned().unwrap_or_default();
        let class = record.class;
        process.lwps =
            programs.iter().zip((1u32..).map(LwpId)).map(|(_, lwp)| (lwp, record.clone())).collect();
        let mut first = None;
        for (program, lwp) in programs.into_iter().zip((1u32..).map(LwpId)) {
            let is_process = program.is_process();
            let thread = self.kernel.start(Start::new(self.kernel.entry(class), program));
            match first {
                Some(first) if !is_process => self.kernel.share_space(thread, first),
                _ => first = first.or(Some(thread)),
            }
            self.threads.insert(thread, Lwp { pid, lwp });
        }
    }
}
