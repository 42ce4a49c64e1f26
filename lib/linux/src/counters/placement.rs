//! Who is where: the sets of processors, and the processors that want to be left alone.

use crate::{LinuxMachine, Root};
use millpond_machine::{Psets, Refusal};
use millpond_model::{CpuId, CpuSet, PsetId};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The sets and shelters of a machine at an instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Placement {
    /// The set of each processor that is in one.
    pub(super) set_of: BTreeMap<CpuId, PsetId>,
    /// The sets that exist besides the default one, ascending; an empty set is in here alone.
    pub(super) sets: Vec<PsetId>,
    /// Processors that nobody may disturb: members of exclusive sets, and those without interrupts.
    pub(super) sheltered: CpuSet,
}

/// Who is where, asked anew for each sample.
pub(super) type Placements<'a> = Box<dyn Fn() -> Result<Placement, Refusal> + 'a>;

impl Placement {
    /// The set of a processor.
    pub(super) fn set_of(&self, cpu: CpuId) -> PsetId {
        self.set_of.get(&cpu).copied().unwrap_or(PsetId::DEFAULT)
    }
}

/// What a file looked like: enough to tell that somebody wrote to it or replaced it.
type Look = Option<(u64, u64, u64, i64, i64)>;

/// What the places looked like where a change of sets or shelters leaves its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark([Look; 3]);

fn look(path: &Path) -> Look {
    let data = std::fs::metadata(path).ok()?;
    Some((data.ino(), data.nlink(), data.size(), data.mtime(), data.mtime_nsec()))
}

impl LinuxMachine {
    /// Reads the sets and shelters.
    pub(super) fn placement(&self) -> Result<Placement, Refusal> {
        let mut placement = Placement { sheltered: self.sheltered()?, ..Placement::default() };
        for set in self.list()? {
            if set.mode.is_exclusive() {
                placement.sheltered = &placement.sheltered | &set.cpus();
            }
            placement.set_of.extend(set.members.iter().map(|cpu| (*cpu, set.id)));
            placement.sets.push(set.id);
        }
        placement.sets.sort_unstable();
        Ok(placement)
    }

    /// Whether [`LinuxMachine::placement`] could say something else than last time, at the price of three
    /// looks: every change of ours is written to the journal and most to a record, and cgroups that others
    /// make or remove change the number of links of the directory above.
    pub(super) fn placement_mark(&self) -> Mark {
        let root = &self.os.root;
        let groups = self.os.hierarchy.mount().and_then(|mount| look(mount));
        Mark([groups, look(&root.state.join("journal")), look(&root.state.join("records"))])
    }
}

/// Processors that were set apart at boot: they do not change while the machine runs.
pub(super) fn set_apart_at_boot(root: &Root) -> CpuSet {
    let list = |name: &str| -> CpuSet {
        let text = root.read(&root.sys.join("devices/system/cpu").join(name)).ok().flatten();
        // Some kernels write `(null)` for none.
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
        let root = Root::paper(dir.path());
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
