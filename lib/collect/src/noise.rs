//! OS noise on the CPUs of sets: the facet of `quiet`, watched for as long as the same CPUs are in sets.

use millpond_machine::facets::{DisturbanceWatch, Disturbances, Job, WatchedJob};
use millpond_model::{CpuId, CpuSet, Disturbance, DisturbanceKind, Doer, Nanos, PsetId};
use millpond_observe::Row;
use millpond_observe::catalogue::{Entity, noise};
use std::collections::BTreeMap;

/// The sets that are watched, with their CPUs.
pub(crate) type Watched = BTreeMap<PsetId, CpuSet>;

/// The watch, and what it is about.
pub(crate) struct Noise<'s> {
    facet: &'s dyn Disturbances,
    watched: Watched,
    watch: Option<Box<dyn DisturbanceWatch + 's>>,
    /// What is lacking, a sentence each.
    pub missing: Vec<String>,
    pub rows: Vec<Row>,
}

impl<'s> Noise<'s> {
    pub fn of(facet: &'s dyn Disturbances) -> Noise<'s> {
        Noise { facet, watched: Watched::new(), watch: None, missing: Vec::new(), rows: Vec::new() }
    }

    /// Reads what came since the watch began. Where sets got other CPUs meanwhile, a new watch begins, and its counts from 0.
    pub fn read(&mut self, sets: Watched) {
        (self.missing, self.rows) = (Vec::new(), Vec::new());
        if sets != self.watched {
            // A machine may watch one job at a time.
            self.watch = None;
            self.watched = sets;
        }
        if self.watched.is_empty() {
            return;
        }
        if self.watch.is_none() {
            let cpus = self.watched.values().flat_map(CpuSet::iter).collect();
            let job = Job { sets: self.watched.keys().copied().collect(), pids: Vec::new() };
            let what = WatchedJob { cpus, job, worth_telling: Nanos(u64::MAX), by_counts: false };
            match self.facet.watch(&what) {
                Ok(watch) => self.watch = Some(watch),
                Err(why) => self.missing.push(format!("OS noise: {why}")),
            }
        }
        let Some(watch) = &mut self.watch else { return };
        match watch.collect() {
            Ok(seen) => {
                self.missing
                    .extend(seen.missing.into_iter().chain(seen.lost).map(|why| format!("OS noise: {why}")));
                self.rows = rows(&self.watched, &seen.rows);
            }
            Err(why) => self.missing.push(format!("OS noise: {}", why.reason)),
        }
    }
}

/// How often, how long, and the longest; each where it is known of all.
type Sums = (Option<u64>, Option<Nanos>, Option<Nanos>);

fn rows(watched: &Watched, seen: &[Disturbance]) -> Vec<Row> {
    let mut sums: BTreeMap<(CpuId, DisturbanceKind, &str), Sums> = BTreeMap::new();
    for row in seen.iter().filter(|row| row.cause.doer != Doer::Job) {
        let key = (row.cpu, row.cause.kind, row.cause.name.as_str());
        let found = (row.count, row.total, row.longest);
        let joined = |old: Sums| {
            (
                old.0.zip(found.0).map(|(a, b)| a + b),
                old.1.zip(found.1).map(|(a, b)| a + b),
                old.2.max(found.2),
            )
        };
        sums.entry(key).and_modify(|old| *old = joined(*old)).or_insert(found);
    }
    let set = |cpu: CpuId| watched.iter().find(|(_, cpus)| cpus.contains(cpu)).map(|(set, _)| set.0);
    let row = |((cpu, kind, cause), (count, time, longest)): ((CpuId, DisturbanceKind, &str), Sums)| {
        Row::of(Entity::Noise)
            .with(noise::CPU, cpu.0)
            .with(noise::KIND, kind.word())
            .with(noise::CAUSE, cause)
            .with(noise::SET, set(cpu))
            .with(noise::COUNT, count)
            .with(noise::TIME, time)
            .with(noise::LONGEST, longest)
    };
    sums.into_iter().map(row).collect()
}
