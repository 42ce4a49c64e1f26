//! OS noise measured by BPF programs: each event with its cause, sender and time.

use super::names::Names;
use super::symbols::Symbols;
use super::tables::{Stolen, now};
use super::{Aside, LinuxMachine};
use crate::interrupt_names::interrupt_counts;
use millpond_bpf::Ring;
use millpond_bpf::disturbances::{Disturbing, Kind, Options, RING_BYTES, Sum};
use millpond_machine::facets::{DisturbanceWatch, WatchedJob};
use millpond_machine::{Reason, Refusal};
use millpond_model::{
    Cause, CpuId, Disturbance, DisturbanceKind, Disturbed, Doer, InterruptCount, Nanos, Pid, Stretch,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The function by which a timer wakes the thread that set it.
const WAKES_SLEEPER: &str = "hrtimer_wakeup";

/// The most reported stretches that are kept until the next reading. Further ones are dropped and counted.
const STRETCHES_MAX: usize = 100_000;

const NOWHERE_ELSE: &str = "the watcher itself may run on the watched CPUs: there is no other for it";

/// The watch.
pub(super) struct ByPrograms<'a> {
    machine: &'a LinuxMachine,
    what: WatchedJob,
    programs: Disturbing,
    ring: Ring<'static>,
    heard: Rc<RefCell<Vec<millpond_bpf::disturbances::Stretch>>>,
    names: Names,
    members: BTreeSet<u32>,
    stolen: Option<Stolen>,
    checks: Vec<InterruptCount>,
    began: Nanos,
    forgotten: usize,
    missing: Vec<String>,
    /// Keeps the watcher off the watched CPUs.
    aside: Option<Aside>,
}

impl<'a> ByPrograms<'a> {
    /// Loads and attaches the programs, and begins to watch.
    ///
    /// # Errors
    /// Why this is not possible, as the second half of a sentence.
    pub(super) fn start(machine: &'a LinuxMachine, what: &WatchedJob) -> Result<Self, String> {
        Self::start_with(machine, what, RING_BYTES)
    }

    /// The same with another size of the ring buffer of stretches.
    ///
    /// # Errors
    /// As [`ByPrograms::start`].
    pub(super) fn start_with(
        machine: &'a LinuxMachine,
        what: &WatchedJob,
        ring_bytes: u32,
    ) -> Result<Self, String> {
        let os = &machine.os;
        os.takes_programs()?;
        let symbols = Symbols::read(&os.root);
        let options = Options {
            processors: os.width(),
            watcher: std::process::id(),
            worth_telling_ns: what.worth_telling.0,
            wakes_sleeper: symbols.address(WAKES_SLEEPER).unwrap_or(0),
            ring_bytes,
        };
        let programs = Disturbing::open(options).map_err(|why| why.to_string())?;
        let heard = Rc::new(RefCell::new(Vec::new()));
        let ears = Rc::clone(&heard);
        let ring = programs.stretches(move |stretch| ears.borrow_mut().push(stretch));
        let ring = ring.map_err(|why| why.to_string())?;
        let mut watch = ByPrograms {
            missing: Vec::new(),
            names: Names { symbols, devices: BTreeMap::new() },
            checks: Vec::new(),
            stolen: None,
            machine,
            what: what.clone(),
            programs,
            ring,
            heard,
            members: BTreeSet::new(),
            began: Nanos(0),
            forgotten: 0,
            aside: None,
        };
        let found = watch.follow_job();
        found.map_err(|refusal| refusal.reason.to_string())?;
        // No CPU is watched yet, because attaching patches code on all CPUs and sends IPIs to them.
        watch.programs.attach().map_err(|why| why.to_string())?;
        // The programs follow forks of known members from here on. This second reading finds threads that were forked before.
        watch.follow_job().map_err(|refusal| refusal.reason.to_string())?;
        watch.missing = missing(&watch.programs, &watch.names.symbols);
        watch.checks = interrupt_counts(&os.root).unwrap_or_default();
        watch.stolen = Stolen::open(&os.root).ok();
        watch.began = now();
        for cpu in what.cpus.iter() {
            watch.programs.watch(cpu.0, true).map_err(|why| why.to_string())?;
        }
        Ok(watch)
    }

    /// Passes the current threads of the job to the BPF program.
    fn follow_job(&mut self) -> Result<(), Refusal> {
        let now = self.machine.threads_of_job(&self.what.job)?;
        // A thread that has left a set is no longer a member. Descendants of a process stay members.
        if self.what.job.pids.is_empty() {
            for tid in self.members.difference(&now) {
                self.programs.member(*tid, false).map_err(|why| unreadable(&why.to_string()))?;
            }
        }
        for tid in now.difference(&self.members) {
            self.programs.member(*tid, true).map_err(|why| unreadable(&why.to_string()))?;
        }
        self.members = now;
        Ok(())
    }

    fn devices(&mut self, counts: &[InterruptCount]) {
        let named = counts.iter().filter(|count| !count.is_internal);
        self.names.devices.extend(named.map(|count| (count.label.clone(), count.name.clone())));
    }

    fn row(&self, sum: &Sum) -> Disturbance {
        let is_timed = sum.what.kind != Kind::Fault;
        let timed = |ns| is_timed.then_some(Nanos(ns));
        let pid = u32::try_from(sum.what.process).ok().filter(|pid| *pid > 0).map(Pid);
        Disturbance {
            cpu: CpuId(sum.processor),
            cause: self.names.cause(&sum.what),
            pid,
            count: Some(sum.count),
            total: timed(sum.total_ns),
            longest: timed(sum.longest_ns),
            longest_at: timed(sum.longest_at_ns),
        }
    }

    /// Machine checks: they have no tracepoint, so the kernel's count is used.
    fn checked(&self, counts: &[InterruptCount]) -> Vec<Disturbance> {
        let is_check = |count: &&InterruptCount| count.label == "MCE";
        let before = self.checks.iter().find(is_check);
        let after = counts.iter().find(is_check);
        let (Some(before), Some(after)) = (before, after) else { return Vec::new() };
        let grown = self.what.cpus.iter().filter_map(|cpu| {
            let more = after.counts.get(&cpu)?.checked_sub(before.counts.get(&cpu).copied().unwrap_or(0))?;
            let name = after.name.clone();
            let cause = Cause { kind: DisturbanceKind::Hardware, name, by: None, doer: Doer::Others };
            (more > 0).then_some(counted(cpu, cause, more))
        });
        grown.collect()
    }

    /// The stretches since the last call, at most [`STRETCHES_MAX`].
    fn take_stretches(&mut self) -> Vec<Stretch> {
        // An error means an interruption by a signal: the next call reads the rest.
        let _ = self.ring.take();
        let mut told = std::mem::take(&mut *self.heard.borrow_mut());
        self.forgotten += told.len().saturating_sub(STRETCHES_MAX);
        told.truncate(STRETCHES_MAX);
        told.iter().map(|stretch| self.stretch(stretch)).collect()
    }

    fn stretch(&self, stretch: &millpond_bpf::disturbances::Stretch) -> Stretch {
        Stretch {
            cpu: CpuId(stretch.processor),
            at: Nanos(stretch.at_ns),
            length: Nanos(stretch.length_ns),
            cause: self.names.cause(&stretch.culprit),
        }
    }

    pub(super) fn lost(&self) -> Vec<String> {
        let Ok(lost) = self.programs.lost() else { return Vec::new() };
        let stretches = lost.stretches.saturating_add(self.forgotten as u64);
        let said = [
            (lost.sums, "disturbances", "of more causes than there is room for"),
            (stretches, "stretches", "that came faster than they were read"),
            (lost.members, "threads", "of the job, which are shown as disturbances"),
            (lost.deep, "interrupts", "within more interrupts than there is room for"),
        ];
        let some = said.into_iter().filter(|(count, ..)| *count > 0);
        some.map(|(count, noun, why)| format!("{count} {noun} {why}")).collect()
    }
}

impl DisturbanceWatch for ByPrograms<'_> {
    fn join(&mut self, pid: Pid) -> Result<(), Refusal> {
        self.what.job.pids.push(pid);
        self.follow_job()
    }

    fn collect(&mut self) -> Result<Disturbed, Refusal> {
        // First of all, so that the work below is not measured.
        let at = now();
        let sums = self.programs.sums(at.0).map_err(|why| unreadable(&why.to_string()))?;
        let going_on = self.programs.going_on(at.0).map_err(|why| unreadable(&why.to_string()))?;
        if self.aside.is_none() {
            let aside = Aside::of(&self.what.cpus);
            if !aside.is_aside(&self.what.cpus) {
                self.missing.push(NOWHERE_ELSE.to_owned());
            }
            self.aside = Some(aside);
        }
        self.follow_job()?;
        let counts = interrupt_counts(&self.machine.os.root).unwrap_or_default();
        self.devices(&counts);
        let seen = sums.iter().filter(|sum| self.what.cpus.contains(CpuId(sum.processor)));
        let mut rows: Vec<Disturbance> = seen.map(|sum| self.row(sum)).collect();
        rows.extend(self.checked(&counts));
        if let Some(stolen) = &mut self.stolen {
            rows.extend(stolen.rows(&self.what.cpus));
        }
        Ok(Disturbed {
            began: self.began,
            at,
            cpus: self.what.cpus.clone(),
            rows,
            stretches: self.take_stretches(),
            going_on: going_on.iter().map(|stretch| self.stretch(stretch)).collect(),
            lost: self.lost(),
            missing: self.missing.clone(),
            has_unknown_lengths: false,
            source: "programs in the kernel".to_owned(),
            settings: self.machine.settings(),
        })
    }
}

/// OS noise with a known count and unknown times.
pub(super) fn counted(cpu: CpuId, cause: Cause, count: u64) -> Disturbance {
    Disturbance { cpu, cause, pid: None, count: Some(count), total: None, longest: None, longest_at: None }
}

fn missing(programs: &Disturbing, symbols: &Symbols) -> Vec<String> {
    let not_there = programs.missing().iter();
    let mut missing: Vec<String> = not_there.map(|(what, why)| format!("{what}: {why}")).collect();
    if symbols.are_hidden() {
        missing
            .push("names of functions: the kernel hides them (kernel.kptr_restrict, CAP_SYSLOG)".to_owned());
    }
    missing
}

fn unreadable(why: &str) -> Refusal {
    Refusal::operation(Reason::Machine(format!("what the programs in the kernel saw cannot be read: {why}")))
}
