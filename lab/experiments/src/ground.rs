//! Facts about the machine of an experiment, and its usable CPUs.

use crate::Failure;
use millpond_machine::Absent;
use millpond_model::{CpuId, CpuSet, Processor};
use millpond_session::{Session, own_pid};
use schemars::JsonSchema;
use serde::Serialize;

/// The machine's properties that matter for experiments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Facts {
    /// CPUs, including off-line ones.
    pub processors: usize,
    /// Cores of these CPUs.
    pub cores: usize,
    /// Chips of these CPUs.
    pub chips: usize,
    /// Locality groups of these CPUs.
    pub lgroups: usize,
    /// The CPUs' brand name.
    pub brand: String,
    /// Existing processor sets.
    pub sets: usize,
    /// CPUs of the default set that this program may use, as a list.
    pub free: String,
}

impl Facts {
    /// The facts in one line, without a line end.
    #[must_use]
    pub fn text(&self) -> String {
        let sets = match self.sets {
            0 => "no processor sets".to_owned(),
            more => counted(more, "processor set"),
        };
        let brand = if self.brand.is_empty() { String::new() } else { format!(" ({})", self.brand) };
        format!(
            "{} on {}, {}, {}{brand}; {sets}; {} can be used",
            counted(self.processors, "CPU"),
            counted(self.cores, "core"),
            counted(self.chips, "chip"),
            counted(self.lgroups, "lgroup"),
            self.free,
        )
    }
}

/// Reads the machine's facts, and the CPUs of the default set that this process may use, in topology
/// order.
pub(crate) fn read(session: &Session) -> Result<(Facts, Vec<CpuId>), Failure> {
    let machine = session.machine();
    let absent = |absent: Absent| Failure::NotHere(absent);
    let processors = machine.processors().map_err(absent)?;
    let topology = processors.topology().map_err(Failure::refused("read CPUs"))?;
    let states = processors.states().map_err(Failure::refused("read CPUs"))?;
    let sets = machine.psets().map_err(absent)?.list().map_err(Failure::refused("read processor sets"))?;
    let own = machine.threads().map_err(absent)?;
    let own = own.lwps(own_pid()).map_err(Failure::refused("read this process"))?;

    let taken: CpuSet = sets.iter().flat_map(|set| set.members.iter().copied()).collect();
    let allowed: CpuSet = own.iter().flat_map(|lwp| lwp.allowed.iter()).collect();
    let runs = |cpu| states.iter().any(|status| status.cpu == cpu && status.state.runs_threads());
    let mut standing: Vec<&Processor> = topology.processors().iter().collect();
    standing.sort_by_key(|p| (p.lgroup, p.chip, p.core, p.id));
    let free: Vec<CpuId> = standing
        .iter()
        .map(|p| p.id)
        .filter(|&cpu| runs(cpu) && allowed.contains(cpu) && !taken.contains(cpu))
        .collect();
    let facts = Facts {
        processors: topology.processors().len(),
        cores: topology.cores().len(),
        chips: topology.chips().len(),
        lgroups: topology.lgroups().len(),
        brand: topology.processors().first().map(|p| p.brand.clone()).unwrap_or_default(),
        sets: sets.len(),
        free: free.iter().copied().collect::<CpuSet>().to_string(),
    };
    Ok((facts, free))
}

/// A count with its noun: `1 core`, `2 cores`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_told_in_a_line() {
        let brand = "Opteron 2210".into();
        let facts =
            Facts { processors: 2, cores: 2, chips: 1, lgroups: 1, brand, sets: 0, free: "0-1".into() };
        assert_eq!(
            facts.text(),
            "2 CPUs on 2 cores, 1 chip, 1 lgroup (Opteron 2210); no processor sets; 0-1 can be used"
        );
        let facts =
            Facts { processors: 1, cores: 1, brand: String::new(), sets: 2, free: "0".into(), ..facts };
        assert_eq!(facts.text(), "1 CPU on 1 core, 1 chip, 1 lgroup; 2 processor sets; 0 can be used");
    }
}
