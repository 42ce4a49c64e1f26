//! The CPUs to count on, with their sets and lgroups.

use crate::failure::{Complaint, Failure, facet, read};
use millpond_model::{CpuId, LgrpId, PsetId};
use millpond_session::{Kind, Session, own_pid};
use std::collections::BTreeMap;

/// CPUs with their sets and lgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places(pub BTreeMap<CpuId, (PsetId, LgrpId)>);

impl Places {
    /// The on-line CPUs of the set of this process, or all on-line CPUs.
    ///
    /// # Errors
    /// [`Failure`] if the machine cannot be read.
    pub fn of(session: &Session, all: bool) -> Result<Places, Failure> {
        let machine = session.machine();
        let processors = facet("processors", machine.processors())?;
        let topology = read("processors", processors.topology())?;
        let states = read("processors", processors.states())?;
        let sets = match machine.psets() {
            Ok(psets) => read("processor sets", psets.list())?,
            Err(_) => Vec::new(),
        };
        let set_of = |cpu: CpuId| {
            let set = sets.iter().find(|set| set.members.contains(&cpu));
            set.map_or(PsetId::DEFAULT, |set| set.id)
        };
        // On other machines this process does not exist; assume the default set.
        let own = match (session.kind(), machine.threads()) {
            (Kind::Real, Ok(threads)) => {
                let lwps = read("our own threads", threads.lwps(own_pid()))?;
                lwps.first().map_or(PsetId::DEFAULT, |lwp| lwp.set)
            }
            _ => PsetId::DEFAULT,
        };
        let online = states.iter().filter(|status| status.state.runs_threads()).map(|status| status.cpu);
        let chosen = online.filter(|cpu| all || set_of(*cpu) == own);
        let place = |cpu| Some((cpu, (set_of(cpu), topology.processor(cpu)?.lgroup)));
        let places: BTreeMap<_, _> = chosen.filter_map(place).collect();
        if places.is_empty() {
            let why = format!("set {own}, in which this program runs, has no CPU that is on-line");
            return Err(Complaint::new("count events", why).hint("--all counts on every CPU").into());
        }
        Ok(Places(places))
    }

    /// The CPUs in ascending order.
    pub fn cpus(&self) -> Vec<CpuId> {
        self.0.keys().copied().collect()
    }
}
