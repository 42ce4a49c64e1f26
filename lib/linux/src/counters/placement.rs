//! Placement: the sets of CPUs, and the CPUs without interrupts.

use super::changes::Traces;
use crate::{LinuxMachine, Root};
use millpond_machine::{Psets, Refusal};
use millpond_model::{CpuId, CpuSet, PsetId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The sets and shielded CPUs at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Placement {
    /// The set of each CPU that is in a non-default set.
    pub(super) set_of: BTreeMap<CpuId, PsetId>,
    /// The existing sets besides the default one, ascending. Empty sets are only listed here.
    pub(super) sets: Vec<PsetId>,
    /// CPUs that must not be disturbed: members of exclusive sets, and CPUs without interrupts.
    pub(super) shielded: CpuSet,
}

/// The current placement, called for each sample. The same `Rc` again means that nothing changed.
pub(super) type Placements<'a> = Box<dyn Fn() -> Result<Rc<Placement>, Refusal> + 'a>;

impl Placement {
    /// The set of a CPU.
    pub(super) fn set_of(&self, cpu: CpuId) -> PsetId {
        self.set_of.get(&cpu).copied().unwrap_or(PsetId::DEFAULT)
    }
}

impl LinuxMachine {
    /// Reads the sets and shields.
    pub(super) fn placement(&self) -> Result<Placement, Refusal> {
        let mut placement = Placement { shielded: self.shielded()?, ..Placement::default() };
        for set in self.list()? {
            if set.mode.is_exclusive() {
                placement.shielded = &placement.shielded | &set.cpus();
            }
            placement.set_of.extend(set.members.iter().map(|cpu| (*cpu, set.id)));
            placement.sets.push(set.id);
        }
        placement.sets.sort_unstable();
        Ok(placement)
    }

    /// Returns the placement on each call; reads it again only after a change.
    pub(super) fn placements(&self) -> Placements<'_> {
        let groups = self.os.hierarchy.mount().cloned();
        let traces = Traces::watch(self.os.root.state.clone(), groups);
        let last: RefCell<Option<Rc<Placement>>> = RefCell::default();
        Box::new(move || {
            let still = traces.as_ref().is_ok_and(|traces| !traces.stirred());
            let mut last = last.borrow_mut();
            if let Some(placement) = last.as_ref().filter(|_| still) {
                return Ok(Rc::clone(placement));
            }
            let now = Rc::new(self.placement()?);
            let same = last.as_ref().filter(|last| **last == now).map(Rc::clone);
            Ok(Rc::clone(last.insert(same.unwrap_or(now))))
        })
    }
}

/// CPUs isolated at boot. They do not change while the machine runs.
pub(super) fn set_apart_at_boot(root: &Root) -> CpuSet {
    let list = |name: &str| -> CpuSet {
        let text = root.read(&root.sys.join("devices/system/cpu").join(name)).ok().flatten();
        // Some kernels write `(null)` for an empty list.
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    &list("isolated") | &list("nohz_full")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn processors_set_apart_at_boot_are_those_isolated_and_those_without_a_tick() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::captured(dir.path());
        assert!(set_apart_at_boot(&root).is_empty());
        let cpu = root.sys.join("devices/system/cpu");
        fs::create_dir_all(&cpu).unwrap();
        fs::write(cpu.join("isolated"), "2-3\n").unwrap();
        fs::write(cpu.join("nohz_full"), "(null)\n").unwrap();
        assert_eq!(set_apart_at_boot(&root).to_string(), "2-3");
        fs::write(cpu.join("nohz_full"), "3,5\n").unwrap();
        assert_eq!(set_apart_at_boot(&root).to_string(), "2-3,5");
    }

    #[test]
    fn a_processor_in_no_set_is_in_the_default_one() {
        let placement = Placement { set_of: BTreeMap::from([(CpuId(1), PsetId(4))]), ..Placement::default() };
        assert_eq!(placement.set_of(CpuId(1)), PsetId(4));
        assert_eq!(placement.set_of(CpuId(0)), PsetId::DEFAULT);
    }
}
