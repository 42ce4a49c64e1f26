//! The threads facet.

use crate::change_builder::ChangeBuilder;
use crate::machine::SimMachine;
use crate::tables::{Bond, LwpRecord, Tables};
use millpond_machine::facets::{Launch, LwpStatus, Process, Program, Rebinding};
use millpond_machine::{Change, Reason, Refusal, Subject, Threads};
use millpond_model::{CpuId, CpuSet, Lwp, LwpId, Pid, PsetId};

impl Threads for SimMachine {
    fn processes(&self) -> Result<Vec<Process>, Refusal> {
        Ok(self.view(|s| s.tables.processes.keys().filter_map(|pid| s.tables.process(*pid)).collect()))
    }

    fn lwps(&self, pid: Pid) -> Result<Vec<LwpStatus>, Refusal> {
        self.view(|s| {
            let process = s.tables.processes.get(&pid);
            let process = process.ok_or(Refusal::new(Subject::Process(pid), Reason::NoSuchProcess))?;
            Ok(process.lwps.iter().map(|(id, r)| s.tables.status(Lwp { pid, lwp: *id }, r)).collect())
        })
    }

    fn bound(&self) -> Result<Vec<LwpStatus>, Refusal> {
        Ok(self.view(|s| {
            s.tables.lwps().filter(|(_, r)| r.is_bound()).map(|(lwp, r)| s.tables.status(lwp, r)).collect()
        }))
    }

    fn prepare_bind_set(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal> {
        self.sets_are_free()?;
        let mut builder = self.builder();
        check_set(&builder.tables, to)?;
        let targets = Targets::find(&builder.tables, pid, lwps)?;
        let outcome = targets.outcome(to, |found| {
            // For a whole process, the kernel reports the last thread of its list.
            found.last().and_then(|r| r.set).map(|b| b.to)
        });
        for (lwp, record) in &targets.found {
            check_cpu_stays_inside(&builder.tables, targets.subject(*lwp), record, to)?;
            builder.bind_set(*lwp, to.map(Bond::hard), false)?;
        }
        let what = match to {
            Some(set) => format!("bind {} to set {set}", targets.noun()),
            None => format!("unbind {} from its set", targets.noun()),
        };
        Ok(builder.finish(what, outcome))
    }

    fn prepare_start_in_default(&self, pid: Pid) -> Result<Change<()>, Refusal> {
        let mut builder = self.builder();
        let targets = Targets::find(&builder.tables, pid, None)?;
        for (lwp, record) in &targets.found {
            check_cpu_stays_inside(&builder.tables, targets.subject(*lwp), record, None)?;
            builder.bind_set(*lwp, None, false)?;
            builder.keep_aside(*lwp)?;
        }
        Ok(builder.finish(format!("start {} in the default set", targets.noun()), ()))
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal> {
        self.launch_program(launch)
    }

    fn prepare_bind_cpus(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: &CpuSet,
    ) -> Result<Change<Vec<Rebinding<CpuSet>>>, Refusal> {
        let mut builder = self.builder();
        let targets = Targets::find(&builder.tables, pid, lwps)?;
        let bound = Some(to.clone()).filter(|to| !to.is_empty());
        let outcome = targets.outcome(bound.clone(), |found| {
            // For a whole process, the kernel reports any bound thread.
            found.iter().find_map(|r| r.cpu.as_ref()).map(|b| b.to.clone())
        });
        for (lwp, record) in &targets.found {
            for cpu in to.iter() {
                check_cpu(&builder, targets.subject(*lwp), cpu, record.set_id())?;
            }
            builder.bind_cpu(*lwp, bound.clone().map(Bond::hard), false)?;
        }
        let what = match bound {
            Some(to) => format!("bind {} to CPUs {to}", targets.noun()),
            None => format!("unbind {} from its CPUs", targets.noun()),
        };
        Ok(builder.finish(what, outcome))
    }
}

/// The threads whose binding is to change.
pub(crate) struct Targets {
    pid: Pid,
    named: bool,
    pub(crate) found: Vec<(Lwp, LwpRecord)>,
}

impl Targets {
    pub(crate) fn find(tables: &Tables, pid: Pid, lwps: Option<&[LwpId]>) -> Result<Self, Refusal> {
        let refuse = |subject, reason| Err(Refusal::new(subject, reason));
        let Some(process) = tables.processes.get(&pid) else {
            return refuse(Subject::Process(pid), Reason::NoSuchProcess);
        };
        if process.kernel {
            return refuse(Subject::Process(pid), Reason::KernelThread);
        }
        let wanted: Vec<LwpId> = match lwps {
            Some(lwps) => lwps.to_vec(),
            None => process.lwps.keys().copied().collect(),
        };
        let mut found = Vec::new();
        for lwp in wanted {
            let Some(record) = process.lwps.get(&lwp) else {
                return refuse(Subject::Thread(Lwp { pid, lwp }), Reason::NoSuchLwp);
            };
            found.push((Lwp { pid, lwp }, record.clone()));
        }
        Ok(Targets { pid, named: lwps.is_some(), found })
    }

    pub(crate) fn subject(&self, lwp: Lwp) -> Subject {
        if self.named { Subject::Thread(lwp) } else { Subject::Process(self.pid) }
    }

    pub(crate) fn noun(&self) -> String {
        match self.found.as_slice() {
            [(lwp, _)] if self.named => format!("thread {lwp}"),
            _ if self.named => format!("threads of process {}", self.pid),
            _ => format!("process {}", self.pid),
        }
    }

    /// One result for the process, or one for each named thread.
    fn outcome<T: Clone>(
        &self,
        to: Option<T>,
        answer: impl Fn(&[LwpRecord]) -> Option<T>,
    ) -> Vec<Rebinding<T>> {
        let records: Vec<LwpRecord> = self.found.iter().map(|(_, r)| r.clone()).collect();
        if !self.named {
            return vec![Rebinding { pid: self.pid, lwp: None, from: answer(&records), to }];
        }
        let one = |(lwp, r): &(Lwp, LwpRecord)| Rebinding {
            pid: self.pid,
            lwp: Some(lwp.lwp),
            from: answer(std::slice::from_ref(r)),
            to: to.clone(),
        };
        self.found.iter().map(one).collect()
    }
}

/// Checks that a set exists and has a running CPU.
pub(crate) fn check_set(tables: &Tables, to: Option<PsetId>) -> Result<(), Refusal> {
    let Some(set) = to else { return Ok(()) };
    let refuse = |reason| Refusal::new(Subject::Pset(set), reason);
    if set.is_default() {
        return Err(refuse(Reason::DefaultPset).hint("unbind from the other set instead: psrset -u"));
    }
    if !tables.has_set(set) {
        return Err(refuse(Reason::NoSuchPset));
    }
    if tables.active(set).is_empty() {
        return Err(refuse(Reason::EmptyPset(set)).hint("assign CPUs to it first: psrset -a"));
    }
    Ok(())
}

/// Refuses to bind a thread that is bound to a CPU to another set than that CPU's.
pub(crate) fn check_cpu_stays_inside(
    tables: &Tables,
    subject: Subject,
    record: &LwpRecord,
    to: Option<PsetId>,
) -> Result<(), Refusal> {
    let set = to.unwrap_or(PsetId::DEFAULT);
    let outside = |cpu: &CpuId| tables.processors.get(cpu).is_some_and(|p| p.set != set);
    match record.cpu.as_ref().and_then(|bond| bond.to.iter().find(outside)) {
        Some(cpu) => {
            let named = match &subject {
                Subject::Process(pid) => format!(" {pid}"),
                Subject::Thread(lwp) => format!(" {lwp}"),
                _ => String::new(),
            };
            let refusal = Refusal::new(subject, Reason::BoundElsewhere { cpu, set });
            Err(refusal.hint(format!("unbind it from the CPU first: pbind -u{named}")))
        }
        None => Ok(()),
    }
}

fn check_cpu(builder: &ChangeBuilder, subject: Subject, cpu: CpuId, thread: PsetId) -> Result<(), Refusal> {
    let about_cpu = |reason| Err(Refusal::new(Subject::Processor(cpu), reason));
    let Some(record) = builder.tables.processors.get(&cpu) else {
        return about_cpu(builder.no_such_processor());
    };
    if !record.state.runs_threads() {
        return about_cpu(Reason::NotActive(record.state));
    }
    if record.set != thread {
        let reason = Reason::ProcessorInOtherPset { cpu, of: record.set, thread };
        return Err(Refusal::new(subject, reason));
    }
    Ok(())
}
