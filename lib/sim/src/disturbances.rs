//! The disturbances facet. The model knows its OS noise exactly: interrupt handlers of devices and timers, cross calls, the clock, and threads of
//! other jobs. Noise that the model lacks (soft interrupts, workers, faults) is never reported.

use crate::kernel::Id;
use crate::kernel::{Origin, SpellOf, Spells};
use crate::machine::SimMachine;
use crate::state::{Account, DeviceKind, SimState};
use millpond_machine::facets::{DisturbanceWatch, Disturbances, Job, WatchedJob};
use millpond_machine::{Absent, Refusal};
use millpond_model::{Cause, CpuId, Disturbance, DisturbanceKind, Disturbed, Doer, Nanos, Pid};
use std::collections::BTreeMap;

impl Disturbances for SimMachine {
    fn real_time_settings(&self) -> Result<Vec<millpond_model::RealTimeSetting>, Absent> {
        Err(Absent::because("a simulated machine has no kernel whose settings make threads late"))
    }

    fn watch(&self, what: &WatchedJob) -> Result<Box<dyn DisturbanceWatch + '_>, Absent> {
        let began = self.edit(|s| {
            s.kernel.record_spells(true);
            s.account = Some(Account { job: what.job.clone(), seen: BTreeMap::new() });
            s.now()
        });
        Ok(Box::new(Watch { machine: self, what: what.clone(), began }))
    }
}

struct Watch<'a> {
    machine: &'a SimMachine,
    what: WatchedJob,
    began: Nanos,
}

impl DisturbanceWatch for Watch<'_> {
    fn join(&mut self, pid: Pid) -> Result<(), Refusal> {
        self.machine.edit(|s| {
            if let Some(account) = &mut s.account {
                account.job.pids.push(pid);
            }
        });
        Ok(())
    }

    fn collect(&mut self) -> Result<Disturbed, Refusal> {
        let rows = self.machine.edit(|s| {
            s.put_down();
            let cpus: Vec<CpuId> = s.tables.processors.keys().copied().collect();
            let seen = s.account.iter().flat_map(|account| &account.seen);
            seen.filter_map(|((cpu, cause, pid), spells)| {
                let cpu = *cpus.get(cpu.place()).filter(|cpu| self.what.cpus.contains(**cpu))?;
                Some(row(cpu, cause, *pid, spells))
            })
            .collect()
        });
        Ok(Disturbed {
            began: self.began,
            at: self.machine.view(SimState::now),
            cpus: self.what.cpus.clone(),
            rows,
            stretches: Vec::new(),
            going_on: Vec::new(),
            lost: Vec::new(),
            missing: Vec::new(),
            has_unknown_lengths: false,
            source: "the simulated kernel".to_owned(),
            settings: millpond_model::KernelSettings::default(),
        })
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.machine.edit(|s| {
            s.kernel.record_spells(false);
            s.account = None;
        });
    }
}

fn row(cpu: CpuId, cause: &Cause, pid: Option<Pid>, spells: &Spells) -> Disturbance {
    Disturbance {
        cpu,
        cause: cause.clone(),
        pid,
        count: Some(spells.count),
        total: Some(Nanos(spells.total)),
        longest: Some(Nanos(spells.longest)),
        longest_at: Some(Nanos(spells.longest_at)),
    }
}

impl SimState {
    /// Collects the kernel's recorded spells under the present names of threads.
    pub(crate) fn put_down(&mut self) {
        if !self.kernel.records_spells() {
            return;
        }
        for ((cpu, source), spells) in self.kernel.take_spells() {
            let cause = self.cause_of(source);
            if let (Some((cause, pid)), Some(account)) = (cause, self.account.as_mut()) {
                account.seen.entry((cpu, cause, pid)).or_default().join(spells);
            }
        }
    }

    /// The cause of a spell; `None` for the job itself.
    fn cause_of(&self, source: SpellOf) -> Option<(Cause, Option<Pid>)> {
        let cause = |kind, name: String, by, doer| Cause { kind, name, by, doer };
        match source {
            SpellOf::Clock => Some((cause(DisturbanceKind::Tick, "clock".into(), None, Doer::Others), None)),
            SpellOf::Second => {
                Some((cause(DisturbanceKind::Tick, "deadman".into(), None, Doer::Others), None))
            }
            SpellOf::Call(caller) => {
                let pid = caller.and_then(|thread| self.threads.get(&thread)).map(|lwp| lwp.pid);
                let doer = if pid.is_some_and(|pid| self.is_job(pid)) { Doer::Job } else { Doer::Others };
                let by = pid.and_then(|pid| self.tables.processes.get(&pid)).map(|p| p.name.clone());
                Some((cause(DisturbanceKind::Ipi, "cross call".into(), by, doer), pid))
            }
            SpellOf::Thread(thread) if self.kernel.thread(thread).level > 0 => {
                let (kind, name) = match self.kernel.thread(thread).origin {
                    Origin::Network => (DisturbanceKind::Device, self.network()),
                    // It is reported with the clock's.
                    Origin::Look(_) => return None,
                    Origin::Timer(_) => (DisturbanceKind::Timer, "cyclic".to_owned()),
                    Origin::None => (DisturbanceKind::Device, "interrupt".to_owned()),
                };
                Some((cause(kind, name, None, Doer::Others), None))
            }
            SpellOf::Thread(thread) => {
                let pid = self.threads.get(&thread)?.pid;
                let name = self.tables.processes.get(&pid)?.name.clone();
                let task = || cause(DisturbanceKind::Task, name, None, Doer::Others);
                (!self.is_job(pid)).then(|| (task(), Some(pid)))
            }
        }
    }

    fn network(&self) -> String {
        let network = self.devices.iter().find(|device| device.kind == DeviceKind::Network);
        network.map_or_else(|| "network".to_owned(), |device| device.name.clone())
    }

    fn is_job(&self, pid: Pid) -> bool {
        let Some(account) = &self.account else { return false };
        let Job { sets, pids } = &account.job;
        let process = self.tables.processes.get(&pid);
        let is_member = |set: &millpond_model::PsetId| {
            process.is_some_and(|process| process.lwps.values().any(|lwp| lwp.set_id() == *set))
        };
        let parent =
            |pid: &Pid| self.tables.processes.get(pid).and_then(|p| p.parent).filter(|above| above < pid);
        sets.iter().any(is_member) || std::iter::successors(Some(pid), parent).any(|pid| pids.contains(&pid))
    }
}
