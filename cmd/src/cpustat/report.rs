//! Output of samples: lines, totals, the distribution of cycles per instruction; and their recording.

use super::options::Options;
use super::places::Places;
use super::watch::Sampled;
use crate::counting::{Sets, share_note};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit};
use jiff::tz::TimeZone;
use millpond_formats::cpustat::{Figures, Layout, cpustat_head, cpustat_row};
use millpond_formats::print_iso;
use millpond_model::{CpuId, LgrpId, Nanos, PsetId, WallTime};
use millpond_observe::recording::{Clock, Distributed, Event};
use millpond_observe::{Distribution, recording};
use millpond_report::{Align, Cell, Table};
use millpond_session::{Output, reason};
use std::collections::{BTreeMap, BTreeSet};

/// The sums of a set.
#[derive(Debug, Clone, Default)]
struct Total {
    time: Nanos,
    cpus: BTreeSet<CpuId>,
    tick: u64,
    counts: Vec<u64>,
    /// The smallest counted share of an interval.
    share: Option<f64>,
}

/// Prints samples, and adds them up.
pub struct Report<'a> {
    /// The event sets.
    pub sets: Sets,
    /// The exit status.
    pub exit: Exit,
    options: &'a Options,
    layout: Layout,
    places: Places,
    zone: &'a TimeZone,
    record: Option<Output<'static>>,
    totals: Vec<Total>,
    /// Cycles per instruction of each line.
    cpis: BTreeMap<CpuId, Vec<f64>>,
}

impl<'a> Report<'a> {
    /// A report without any output yet.
    pub fn new(
        options: &'a Options,
        sets: Sets,
        layout: Layout,
        places: Places,
        zone: &'a TimeZone,
        record: Option<Output<'static>>,
    ) -> Self {
        let totals = vec![Total::default(); sets.len()];
        let cpis = BTreeMap::new();
        Report { sets, exit: Exit::DONE, options, layout, places, zone, record, totals, cpis }
    }

    /// Prints the head, and writes the first line of a recording.
    pub fn begin(&mut self, machine: &str, wall: WallTime, ctx: &mut Ctx<'_>) {
        if let Some(record) = &mut self.record {
            let interval = self.options.repetition.interval.as_secs_f64();
            record.line(recording::head(machine, &print_iso(wall), interval));
        }
        if self.options.head && !self.options.json {
            ctx.out.line(cpustat_head(&self.layout));
        }
        ctx.out.flush();
    }

    /// Prints the lines of an interval.
    pub fn sample(&mut self, set: usize, sampled: &[Sampled], wall: WallTime, ctx: &mut Ctx<'_>) {
        if let (Some(stamp), false) = (self.options.stamp, self.options.json) {
            ctx.out.line(stamp.line(wall, self.zone));
        }
        for one in sampled {
            self.add(set, one);
            let cpi = one.counted.counts.as_ref().and_then(|counts| self.sets.cpi(set, counts));
            if let Some(cpi) = cpi {
                self.cpis.entry(one.cpu).or_default().push(cpi);
            }
            if self.options.json || self.record.is_some() {
                let tick = self.tick(set, one, cpi);
                let line = self.record.is_some().then(|| tick.line());
                if self.options.json {
                    ctx.json(&tick);
                }
                if let (Some(record), Some(line)) = (&mut self.record, line) {
                    record.line(line);
                }
                if self.options.json {
                    continue;
                }
            }
            let notes = self.sets.note(set).into_iter().chain(share_note(one.counted.share)).collect();
            let figures = Figures { tick: Some(one.tick), counts: one.counted.counts.clone(), cpi, notes };
            let time = one.time.as_secs_f64();
            ctx.out.line(cpustat_row(&self.layout, time, one.cpu.0, "tick", &figures));
        }
        ctx.out.flush();
        if let Some(record) = &mut self.record {
            record.flush();
        }
    }

    fn add(&mut self, set: usize, one: &Sampled) {
        if one.counted.counts.is_none() {
            self.exit = Exit::REFUSED;
        }
        let Some(total) = self.totals.get_mut(set) else { return };
        let counts = one.counted.counts.as_deref().unwrap_or_default();
        total.time = one.time;
        total.cpus.insert(one.cpu);
        total.tick = total.tick.saturating_add(one.tick);
        total.counts.resize(total.counts.len().max(counts.len()), 0);
        for (sum, count) in total.counts.iter_mut().zip(counts) {
            *sum = sum.saturating_add(*count);
        }
        total.share = Some(total.share.map_or(one.counted.share, |least| least.min(one.counted.share)));
    }

    fn place(&self, cpu: CpuId) -> (PsetId, LgrpId) {
        self.places.0.get(&cpu).copied().unwrap_or((PsetId::DEFAULT, LgrpId(0)))
    }

    fn tick<'s>(&'s self, set: usize, one: &Sampled, cpi: Option<f64>) -> Event<'s> {
        let (pset, lgroup) = self.place(one.cpu);
        Event::Tick {
            time_s: one.time.as_secs_f64(),
            elapsed_s: one.elapsed.as_secs_f64(),
            cpu: one.cpu,
            pset,
            lgroup,
            spec: self.sets.0.get(set).map_or("", |spec| &spec.text),
            counts: one.counted.counts.as_ref().map(|counts| self.sets.counts(set, counts)),
            share: one.counted.share,
            cpi,
            tick: self.layout.tick.as_ref().map(|name| Clock { name, count: one.tick }),
        }
    }

    /// Prints the totals and the distribution of cycles per instruction. Returns the exit status.
    pub fn end(mut self, ctx: &mut Ctx<'_>) -> Exit {
        for (set, total) in self.totals.iter().enumerate().filter(|(_, total)| !total.cpus.is_empty()) {
            let cpi = self.sets.cpi(set, &total.counts);
            if self.options.json {
                ctx.json(&Event::Total {
                    time_s: total.time.as_secs_f64(),
                    cpus: total.cpus.len(),
                    spec: &self.sets.0[set].text,
                    counts: self.sets.counts(set, &total.counts),
                    cpi,
                });
                continue;
            }
            // Events that were never counted have no total.
            let counted = total.share.is_some_and(|share| share > 0.0) || total.counts.iter().any(|c| *c > 0);
            let estimated = match total.share.filter(|share| *share < 1.0) {
                Some(_) if counted => Some("scaled in part".to_owned()),
                Some(share) => share_note(share),
                None => None,
            };
            let notes = self.sets.note(set).into_iter().chain(estimated).collect();
            let counts = counted.then(|| total.counts.clone());
            let figures = Figures { tick: Some(total.tick), counts, cpi, notes };
            let cpus = u32::try_from(total.cpus.len()).unwrap_or(u32::MAX);
            ctx.out.line(cpustat_row(&self.layout, total.time.as_secs_f64(), cpus, "total", &figures));
        }
        if self.options.cpi {
            self.distributions(ctx);
        }
        ctx.out.flush();
        self.finish_record(ctx);
        self.exit
    }

    fn distributions(&self, ctx: &mut Ctx<'_>) {
        let mut groups: Vec<(String, Vec<f64>)> = vec![("all".into(), Vec::new())];
        let (mut sets, mut lgroups) = (BTreeMap::new(), BTreeMap::new());
        for (cpu, cpis) in &self.cpis {
            let (set, lgroup) = self.place(*cpu);
            groups[0].1.extend(cpis);
            sets.entry(set).or_insert_with(Vec::new).extend(cpis);
            lgroups.entry(lgroup).or_insert_with(Vec::new).extend(cpis);
        }
        groups.extend(sets.into_iter().map(|(set, cpis)| (format!("set {set}"), cpis)));
        groups.extend(lgroups.into_iter().map(|(lgroup, cpis)| (format!("lgroup {lgroup}"), cpis)));
        groups.extend(self.cpis.iter().map(|(cpu, cpis)| (format!("cpu {cpu}"), cpis.clone())));
        let found: Vec<Distributed<'_>> = groups.iter().filter_map(distributed).collect();
        if self.options.json {
            ctx.json(&Event::Cpi { distributions: found });
            return;
        }
        if found.is_empty() {
            ctx.warn("no instructions were counted, so there are no cycles for each");
        } else {
            ctx.out.text(&table(&found).text());
        }
    }

    fn finish_record(&mut self, ctx: &mut Ctx<'_>) {
        let Some(record) = &mut self.record else { return };
        if let Err(error) = record.finish() {
            let file =
                self.options.record.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
            ctx.complain(&Complaint::new(format!("write recording {file}"), reason(&error)));
            self.exit = Exit::REFUSED;
        }
    }
}

fn distributed((of, cpis): &(String, Vec<f64>)) -> Option<Distributed<'_>> {
    Some(Distributed { of, distribution: Distribution::of(cpis)? })
}

/// The table with a row for each distribution.
fn table(found: &[Distributed<'_>]) -> Table {
    let heads = ["samples", "min", "median", "p90", "p99", "max"].map(|head| (head, Align::Right));
    let mut table = Table::new(&[&[("cpi of", Align::Left)], heads.as_slice()].concat());
    for Distributed { of, distribution: d } in found {
        let ranks = [d.min, d.median, d.p90, d.p99, d.max].map(|rank| Cell::Real(rank, 2));
        let samples = Cell::Count(d.samples as u64);
        table.row([Cell::from(*of), samples].into_iter().chain(ranks));
    }
    table
}
