//! The lgroups of a mutant.

use super::{Defect, Mutant};
use millpond_machine::facets::{Homed, NodeStatus, Reach};
use millpond_machine::{Change, Lgroups, Refusal};
use millpond_model::{Affinity, LgroupTree, LgrpId, LwpId, Pid, PsetId, SetMemory};
use std::collections::{BTreeMap, BTreeSet};

impl Lgroups for Mutant {
    fn tree(&self) -> Result<LgroupTree, Refusal> {
        self.sim.tree()
    }

    fn nodes(&self) -> Result<Vec<NodeStatus>, Refusal> {
        let mut nodes = self.sim.nodes()?;
        if self.is(Defect::LosesAProcessorOfANode)
            && let Some(node) = nodes.last_mut()
        {
            node.cpus = node.cpus.iter().skip(1).collect();
        }
        Ok(nodes)
    }

    fn own_reach(&self) -> Result<Reach, Refusal> {
        self.sim.own_reach()
    }

    fn homes(&self, pid: Pid) -> Result<Vec<Homed>, Refusal> {
        self.sim.homes(pid)
    }

    fn pages(&self, pid: Pid) -> Result<BTreeMap<LgrpId, u64>, Refusal> {
        self.sim.pages(pid)
    }

    fn set_memory(&self, set: PsetId) -> Result<(SetMemory, BTreeSet<LgrpId>), Refusal> {
        let (wanted, nodes) = self.sim.set_memory(set)?;
        let all = || self.sim.own_reach().map(|reach| reach.nodes);
        Ok(match self.defect {
            Defect::MemoryComesFromElsewhere => (wanted, all()?),
            Defect::ForgetsMemory => (SetMemory::All, all()?),
            _ => (wanted, nodes),
        })
    }

    fn prepare_set_memory(&self, set: PsetId, to: SetMemory) -> Result<Change<SetMemory>, Refusal> {
        self.leave_a_trace(self.sim.prepare_set_memory(set, to)).map(|change| self.spoil(change))
    }

    fn prepare_homes(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        homes: &[LgrpId],
    ) -> Result<Change<Vec<Homed>>, Refusal> {
        self.sim.prepare_homes(pid, lwps, homes)
    }

    fn prepare_affinities(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        affinities: &BTreeMap<LgrpId, Affinity>,
    ) -> Result<Change<Vec<Homed>>, Refusal> {
        self.sim.prepare_affinities(pid, lwps, affinities)
    }
}
