//! The kernel's layout and tunables for a topology.

use crate::kernel::{Hardware, Layout, Tunables};
use crate::tables;
use millpond_model::Topology;

/// The kernel's layout of a topology's CPUs; indices ascend with CPU ids.
#[must_use]
pub fn layout(topology: &Topology, hardware: Hardware) -> Layout {
    let lgroup = |id| topology.lgroups().iter().position(|l| l.id == id).unwrap_or(0);
    let index = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    Layout {
        cpus: topology.processors().iter().map(|p| (index(lgroup(p.lgroup)), p.core.0)).collect(),
        distances: topology.lgroups().iter().map(|l| l.distances.clone()).collect(),
        hardware,
    }
}

/// The kernel's form of the tunables.
#[must_use]
pub fn tunables(tuned: &tables::Tunables) -> Tunables {
    let usual = Tunables::default();
    Tunables {
        hz: tuned.hz,
        mem_pset_aware: tuned.lgrp_mem_pset_aware == 1,
        rechoose_interval: tuned.rechoose_interval.unwrap_or(usual.rechoose_interval),
        eevdf_slice_ns: tuned.eevdf_slice_ns,
        wakeup_parity_nsec: tuned.wakeup_parity_nsec.unwrap_or(usual.wakeup_parity_nsec),
        nosteal_nsec: tuned.nosteal_nsec.unwrap_or(usual.nosteal_nsec),
        ..usual
    }
}
