//! How long threads waited for each CPU, in a file: a map of those that threads waited for.

use super::cpu_mask::INDEX_MAX;
use super::ids::{CpuIndex, Id, Table};
use millpond_model::Histogram;
use serde::{Deserialize, Deserializer, Serializer, de};
use std::collections::BTreeMap;

/// Those of CPUs that threads waited for.
pub(super) fn known(waits: &Table<CpuIndex, Histogram>) -> impl Iterator<Item = (CpuIndex, &Histogram)> {
    waits.with_ids().filter(|(_, waits)| !waits.buckets().is_empty())
}

/// That of a CPU, which may not be there yet.
#[inline]
pub(super) fn of(waits: &mut Table<CpuIndex, Histogram>, cpu: CpuIndex) -> &mut Histogram {
    if waits.len() <= cpu.place() {
        waits.resize_with(cpu.place() + 1, Histogram::default);
    }
    &mut waits[cpu]
}

pub(super) fn serialize<S: Serializer>(waits: &Table<CpuIndex, Histogram>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(known(waits))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Table<CpuIndex, Histogram>, D::Error> {
    let map: BTreeMap<CpuIndex, Histogram> = BTreeMap::deserialize(from)?;
    let mut waits = Table::default();
    for (cpu, histogram) in map {
        // A place is kept for each number below.
        if cpu.0 >= INDEX_MAX {
            return Err(de::Error::custom("waits for CPUs that do not exist"));
        }
        *of(&mut waits, cpu) = histogram;
    }
    Ok(waits)
}
