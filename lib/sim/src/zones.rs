//! The zones facet.

use crate::machine::SimMachine;
use crate::state::SimState;
use crate::tables::{Bond, LwpRecord};
use crate::threads::{check_cpu_stays_inside, check_set};
use millpond_machine::facets::Zone;
use millpond_machine::{Change, Reason, Refusal, Subject, Zones};
use millpond_model::{Lwp, Pid, PsetId};

impl Zones for SimMachine {
    fn list(&self) -> Result<Vec<Zone>, Refusal> {
        Ok(self.view(|s| s.zones.iter().filter(|name| runs(s, name)).map(|name| zone(s, name)).collect()))
    }

    fn processes(&self, name: &str) -> Result<Vec<Pid>, Refusal> {
        let found = self.view(|s| {
            let inside =
                s.tables.processes.iter().filter(|(_, process)| process.zone == name && !process.kernel);
            (s.zones.iter().any(|zone| zone == name)).then(|| inside.map(|(pid, _)| *pid).collect())
        });
        found.ok_or_else(|| Refusal::new(Subject::Zone(name.to_owned()), Reason::NoSuchZone))
    }

    fn prepare_bind(&self, name: &str, to: Option<PsetId>) -> Result<Change<Zone>, Refusal> {
        self.sets_are_free()?;
        let subject = Subject::Zone(name.to_owned());
        let mut builder = self.builder();
        let Some(mut outcome) =
            self.view(|s| s.zones.iter().any(|z| z == name && runs(s, z)).then(|| zone(s, name)))
        else {
            return Err(Refusal::new(subject, Reason::NoSuchZone));
        };
        check_set(&builder.tables, to)?;
        let threads = self.view(|s| threads(s, name));
        for (lwp, record) in threads {
            check_cpu_stays_inside(&builder.tables, subject.clone(), &record, to)?;
            builder.bind_set(lwp, to.map(Bond::hard), true)?;
        }
        outcome.set = to.unwrap_or(PsetId::DEFAULT);
        let what = match to {
            Some(set) => format!("bind zone {name} to set {set}"),
            None => format!("unbind zone {name} from its set"),
        };
        Ok(builder.finish(what, outcome))
    }
}

/// Halted zones are not listed until they boot.
fn runs(state: &SimState, name: &str) -> bool {
    !state.halted_zones.contains(name)
}

/// A zone counts as in a set when all its threads are.
fn zone(state: &SimState, name: &str) -> Zone {
    let mut sets = threads(state, name).into_iter().map(|(_, r)| r.set_id());
    let first = sets.next().unwrap_or(PsetId::DEFAULT);
    let set = if sets.all(|s| s == first) { first } else { PsetId::DEFAULT };
    Zone { id: state.zone_id(name).unwrap_or_default(), name: name.to_owned(), kind: "zone".into(), set }
}

/// The bindable threads of a zone.
fn threads(state: &SimState, name: &str) -> Vec<(Lwp, LwpRecord)> {
    let inside = state.tables.processes.iter().filter(|(_, p)| p.zone == name && !p.kernel);
    inside
        .flat_map(|(pid, p)| p.lwps.iter().map(|(id, r)| (Lwp { pid: *pid, lwp: *id }, r.clone())))
        .collect()
}
