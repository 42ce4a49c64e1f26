//! Histograms of the waits for each CPU.
//!
//! A wait is recorded at each switch. A [`Histogram`] would search for the bucket; here each bucket has a fixed index. In a file the
//! data is a map of histograms.

use super::cpu_mask::INDEX_MAX;
use super::ids::{CpuIndex, Id, Table};
use millpond_model::{HISTOGRAM_BUCKETS, Histogram, Nanos};
use serde::{Deserialize, Deserializer, Serializer, de};
use std::collections::BTreeMap;

/// Waits for one CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Waits {
    /// Waits per bucket; empty before the first wait.
    counts: Vec<u64>,
    sum: Nanos,
}

impl Waits {
    #[inline]
    fn record(&mut self, time: Nanos) {
        if self.counts.is_empty() {
            self.counts.resize(HISTOGRAM_BUCKETS, 0);
        }
        let count = &mut self.counts[usize::from(Histogram::bucket(time))];
        *count = count.saturating_add(1);
        self.sum = Nanos(self.sum.0.saturating_add(time.0));
    }

    fn histogram(&self) -> Histogram {
        Histogram::of_counts(self.counts.iter().copied(), self.sum)
    }
}

/// Records a wait for a CPU, and creates its entry if needed.
#[inline]
pub(super) fn record(waits: &mut Table<CpuIndex, Waits>, cpu: CpuIndex, time: Nanos) {
    if waits.len() <= cpu.place() {
        waits.resize_with(cpu.place() + 1, Waits::default);
    }
    waits[cpu].record(time);
}

/// Histograms of the CPUs that have waits.
pub(super) fn known(waits: &Table<CpuIndex, Waits>) -> impl Iterator<Item = (CpuIndex, Histogram)> {
    let known = waits.with_ids().filter(|(_, waits)| !waits.counts.is_empty());
    known.map(|(cpu, waits)| (cpu, waits.histogram()))
}

pub(super) fn serialize<S: Serializer>(waits: &Table<CpuIndex, Waits>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(known(waits))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Table<CpuIndex, Waits>, D::Error> {
    let map: BTreeMap<CpuIndex, Histogram> = BTreeMap::deserialize(from)?;
    let mut waits = Table::default();
    for (cpu, histogram) in map {
        // An entry exists for each lower index, so the index is limited.
        if cpu.0 >= INDEX_MAX {
            return Err(de::Error::custom("waits for CPUs that do not exist"));
        }
        waits.resize_with(cpu.place() + 1, Waits::default);
        let mut counts = vec![0; HISTOGRAM_BUCKETS];
        histogram.buckets().iter().for_each(|(bucket, count)| counts[usize::from(*bucket)] = *count);
        waits[cpu] = Waits { counts, sum: histogram.sum() };
    }
    Ok(waits)
}
