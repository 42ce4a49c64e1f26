//! A simulated machine as a subject of the laws, by itself or with a defect in front of it.

use millpond_machine::Machine;
use millpond_machine::laws::{Abilities, Subject, Times};
use millpond_model::{Lwp, LwpId, Pid, WallTime};
use millpond_sim::SimMachine;

/// A machine that is, or stands in front of, a simulated one.
pub trait OnSim: Machine {
    /// The simulated one.
    fn sim(&self) -> &SimMachine;
    /// What a process that divides leaves to its child. A defect may forget.
    fn fork(&self, parent: Lwp) -> Option<Pid> {
        self.sim().fork(parent)
    }
}

impl OnSim for SimMachine {
    fn sim(&self) -> &SimMachine {
        self
    }
}

/// The subject.
pub struct SimSubject<M: OnSim>(pub M);

impl<M: OnSim> SimSubject<M> {
    fn first(pid: Pid) -> Lwp {
        Lwp { pid, lwp: LwpId(1) }
    }
}

impl<M: OnSim> Subject for SimSubject<M> {
    fn machine(&self) -> &dyn Machine {
        &self.0
    }

    fn abilities(&self) -> Abilities {
        Abilities::all(&self.0.sim().view(|s| s.topology.cpus()))
    }

    fn snapshot(&self, times: Times) -> Result<String, String> {
        let sim = self.0.sim();
        let mut tables = sim.view(|s| s.tables.clone());
        tables.next_pid = Pid(u32::MAX);
        if times == Times::LeftOut {
            tables.processors.values_mut().for_each(|p| p.since = WallTime(0));
        }
        let rest = sim.view(|s| format!("{:?} {:?}", s.devices, s.zones));
        let tables = serde_json::to_string(&tables).map_err(|error| error.to_string())?;
        Ok(format!("{rest} {tables}"))
    }

    fn spawn(&mut self) -> Result<Pid, String> {
        Ok(self.0.sim().spawn("subject", 1))
    }

    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String> {
        self.0.sim().add_thread(Self::first(pid)).ok_or_else(|| format!("no process {pid}"))
    }

    fn fork(&mut self, parent: Pid) -> Result<Pid, String> {
        self.0.fork(Self::first(parent)).ok_or_else(|| format!("no process {parent}"))
    }

    fn exit(&mut self, pid: Pid) -> Result<(), String> {
        if self.0.sim().exit(pid) { Ok(()) } else { Err(format!("no process {pid}")) }
    }
}
