//! One report: what the CPUs of each group did in an interval, as a table or as JSON; and the summary of all intervals.

use super::options::{Key, Options, Order};
use crate::json;
use jiff::tz::TimeZone;
use millpond_formats::mpstat::{added, removed};
use millpond_formats::pg::{self as listing, Load, Placed, Software, Summary};
use millpond_formats::print_iso;
use millpond_model::{CpuId, CpuSet, Nanos, PgId, ProcessorGroups, Ticks};
use millpond_observe::digits::{thousandths, to_thousandths};
use millpond_observe::{Change, Rates};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// One report.
#[derive(Serialize, JsonSchema)]
pub struct Document<'c> {
    /// When the interval ended, as ISO 8601.
    time: String,
    #[serde(serialize_with = "thousandths")]
    interval_s: Option<f64>,
    /// CPUs that became active or inactive.
    changes: Vec<&'c Change>,
    groups: Vec<GroupRow>,
    /// `-C`: the CPUs of the groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    processors: Option<Vec<CpuRow>>,
    /// What is missing, and why.
    missing: [String; 1],
}

#[derive(Serialize, JsonSchema)]
struct GroupRow {
    id: PgId,
    /// What the CPUs share, as it is listed: `L2_Cache`.
    relationship: String,
    /// The group that it stands in; null for the system.
    parent: Option<PgId>,
    /// Those that run threads.
    cpus: Vec<CpuId>,
    /// Use of the hardware; null, because it is not measured.
    hw: Option<f64>,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Serialize, JsonSchema)]
struct CpuRow {
    cpu: CpuId,
    #[serde(flatten)]
    figures: Figures,
}

/// Use of time, in percent; null where there was none.
#[derive(Serialize, JsonSchema)]
struct Figures {
    /// `user` and `sys` together.
    sw: Option<f64>,
    user: Option<f64>,
    sys: Option<f64>,
    idle: Option<f64>,
}

/// `-A`, after the last report: all intervals together.
#[derive(Serialize, JsonSchema)]
pub struct Totals {
    summary: Vec<SummaryRow>,
    /// Length of all intervals.
    #[serde(serialize_with = "thousandths")]
    seconds: f64,
}

#[derive(Serialize, JsonSchema)]
struct SummaryRow {
    id: PgId,
    /// What the CPUs share, as it is listed.
    relationship: String,
    /// Use of the hardware; null, because it is not measured.
    hw: Option<Extent>,
    /// Use of time; null where there was none.
    sw: Option<Extent>,
}

/// In percent.
#[derive(Serialize, JsonSchema)]
struct Extent {
    min: f64,
    /// Over all of the time.
    avg: f64,
    max: f64,
}

/// What of a group's time was used, over all intervals so far.
#[derive(Debug, Clone, Copy)]
struct Used {
    least: f64,
    most: f64,
    used: Nanos,
    had: Nanos,
}

/// Draws reports, and keeps what the summary needs.
pub struct Reports<'a> {
    options: &'a Options,
    placed: Vec<Placed<'a>>,
    zone: &'a TimeZone,
    used: BTreeMap<PgId, Used>,
    on_line: CpuSet,
    elapsed: Nanos,
    drawn: u64,
}

impl<'a> Reports<'a> {
    /// Reports about some of the groups. None is drawn yet.
    pub fn new(
        options: &'a Options,
        groups: &'a ProcessorGroups,
        meant: &BTreeSet<PgId>,
        zone: &'a TimeZone,
    ) -> Self {
        let placed = listing::placed(groups.groups(), |group| meant.contains(&group.id));
        let (used, on_line) = (BTreeMap::new(), CpuSet::new());
        Reports { options, placed, zone, used, on_line, elapsed: Nanos(0), drawn: 0 }
    }

    /// Whether only one was drawn.
    pub fn is_first(&self) -> bool {
        self.drawn == 1
    }

    /// A report: lines about changes, the time, the head, the rows; or one line of JSON. `why` is why it has no figures of the hardware.
    pub fn draw(&mut self, frame: &Rates, changes: &[Change], why: &str) -> String {
        self.drawn += 1;
        self.elapsed = self.elapsed + frame.elapsed.unwrap_or_default();
        self.on_line = frame.cpus.iter().map(|cpu| cpu.cpu).collect();
        let rows = self.rows(frame);
        if self.options.json {
            return json::document(&self.document(frame, changes, &rows, why)) + "\n";
        }
        let mut text = String::new();
        for change in changes {
            match change {
                Change::Added(cpus) => text += &format!("{}\n", added(cpus)),
                Change::Removed(cpus) => text += &format!("{}\n", removed(cpus)),
                // Sets do not matter here.
                Change::Moved { .. } | Change::Created(_) | Change::Destroyed(_) => {}
            }
        }
        if let Some(stamp) = self.options.stamp {
            text += &format!("{}\n", stamp.line(frame.wall, self.zone));
        }
        let mut lines = Vec::new();
        let mut listed = CpuSet::new();
        for (index, row) in &rows {
            lines.push(row.clone());
            if self.options.cpus {
                let own = self.own_cpus(*index);
                lines.extend(
                    own.iter()
                        .filter(|cpu| !listed.contains(*cpu))
                        .map(|cpu| cpu_row(frame, cpu, row.depth + 1)),
                );
                listed = &listed | &own;
            }
        }
        text + &listing::loads(&lines, self.options.verbose)
    }

    /// The rows of groups in their order, with their places in the list. What they used is added to the summary's.
    fn rows(&mut self, frame: &Rates) -> Vec<(usize, Load)> {
        let flat = self.options.order.is_some_and(|order| order.key != Key::Depth || order.descends);
        let mut rows = Vec::with_capacity(self.placed.len());
        for (index, p) in self.placed.iter().enumerate() {
            let together = frame.together(&p.group.cpus).map(|group| group.interval.ticks);
            let software = together.as_ref().and_then(software);
            if let (Some(ticks), Some(software)) = (together, software) {
                let (now, had) = (software.used(), had(&ticks));
                let used = ticks.user + ticks.sys;
                let so_far = self.used.entry(p.group.id).or_insert(Used {
                    least: now,
                    most: now,
                    used: Nanos(0),
                    had: Nanos(0),
                });
                so_far.least = so_far.least.min(now);
                so_far.most = so_far.most.max(now);
                (so_far.used, so_far.had) = (so_far.used + used, so_far.had + had);
            }
            let load = Load {
                id: Some(p.group.id),
                depth: if flat { 0 } else { p.depth },
                label: listing::label(p.group, self.options.physical),
                hardware: None,
                software,
                cpus: &p.group.cpus & &self.on_line,
            };
            rows.push((index, load));
        }
        if let Some(order) = self.options.order {
            rows.sort_by(|(a, left), (b, right)| {
                let placed = (&self.placed[*a], &self.placed[*b]);
                compare(order, (*a, *b), placed, (left, right))
            });
        }
        rows.truncate(self.options.top.unwrap_or(usize::MAX));
        rows
    }

    /// The CPUs of a group that stand in no group inside it that is shown.
    fn own_cpus(&self, index: usize) -> CpuSet {
        let p = &self.placed[index];
        let inside = self.placed[index + 1..].iter().take_while(|other| other.depth > p.depth);
        let inside = inside.fold(CpuSet::new(), |all, other| &all | &other.group.cpus);
        &(&p.group.cpus - &inside) & &self.on_line
    }

    fn document<'c>(
        &self,
        frame: &Rates,
        changes: &'c [Change],
        rows: &[(usize, Load)],
        why: &str,
    ) -> Document<'c> {
        let matters = |change: &&Change| matches!(change, Change::Added(_) | Change::Removed(_));
        let group = |(index, row): &(usize, Load)| {
            let group = self.placed[*index].group;
            GroupRow {
                id: group.id,
                relationship: group.relationship.to_string(),
                parent: group.parent,
                cpus: row.cpus.iter().collect(),
                hw: row.hardware,
                figures: Figures::of(row),
            }
        };
        let processors = || {
            let shown = rows.iter().fold(CpuSet::new(), |all, (_, row)| &all | &row.cpus);
            let row = |cpu| CpuRow { cpu, figures: Figures::of(&cpu_row(frame, cpu, 0)) };
            shown.iter().map(row).collect()
        };
        Document {
            time: print_iso(frame.wall),
            interval_s: frame.elapsed.map(Nanos::as_secs_f64),
            changes: changes.iter().filter(matters).collect(),
            groups: rows.iter().map(group).collect(),
            processors: self.options.cpus.then(processors),
            missing: [format!("hw: {why}")],
        }
    }

    /// The summary of the intervals that were drawn; nothing where there was none.
    pub fn summary(&self) -> String {
        if self.drawn == 0 {
            return String::new();
        }
        let seconds = self.elapsed.as_secs_f64();
        let row = |p: &Placed<'_>| Summary {
            id: p.group.id,
            depth: p.depth,
            label: listing::label(p.group, self.options.physical),
            hardware: None,
            software: self.used.get(&p.group.id).map(|used| {
                let mean = 100.0 * used.used.as_secs_f64() / used.had.as_secs_f64();
                [used.least, mean, used.most]
            }),
            cpus: &p.group.cpus & &self.on_line,
        };
        let rows: Vec<Summary> = self.placed.iter().map(row).collect();
        if !self.options.json {
            return listing::summary(&rows, seconds);
        }
        let extent = |figures: [f64; 3]| {
            let [min, avg, max] = figures.map(to_thousandths);
            Extent { min, avg, max }
        };
        let row = |(row, p): (Summary, &Placed<'_>)| SummaryRow {
            id: row.id,
            relationship: p.group.relationship.to_string(),
            hw: row.hardware.map(extent),
            sw: row.software.map(extent),
        };
        let summary = rows.into_iter().zip(&self.placed).map(row).collect();
        json::document(&Totals { summary, seconds }) + "\n"
    }
}

/// The time that the machine had: that which the hypervisor took is no part of it.
fn had(ticks: &Ticks) -> Nanos {
    ticks.user + ticks.sys + ticks.wait + ticks.idle
}

/// Shares of that time; nothing where there was none.
fn software(ticks: &Ticks) -> Option<Software> {
    let had = had(ticks).as_secs_f64();
    let share = |part: Nanos| 100.0 * part.as_secs_f64() / had;
    (had > 0.0).then(|| Software {
        user: share(ticks.user),
        sys: share(ticks.sys),
        idle: share(ticks.idle + ticks.wait),
    })
}

fn cpu_row(frame: &Rates, cpu: CpuId, depth: usize) -> Load {
    let own = frame.cpus.iter().find(|row| row.cpu == cpu);
    Load {
        id: None,
        depth,
        label: "CPU".to_owned(),
        hardware: None,
        software: own.and_then(|row| software(&row.interval.ticks)),
        cpus: std::iter::once(cpu).collect(),
    }
}

impl Figures {
    fn of(row: &Load) -> Figures {
        let part = |of: fn(&Software) -> f64| row.software.as_ref().map(of).map(to_thousandths);
        Figures {
            sw: part(Software::used),
            user: part(|s| s.user),
            sys: part(|s| s.sys),
            idle: part(|s| s.idle),
        }
    }
}

/// The order of two rows. What has no figure comes last; what is equal stays in the order of the tree.
fn compare(
    order: Order,
    places: (usize, usize),
    placed: (&Placed<'_>, &Placed<'_>),
    rows: (&Load, &Load),
) -> Ordering {
    let directed = |ordering: Ordering| if order.descends { ordering.reverse() } else { ordering };
    let figures = |of: fn(&Load) -> Option<f64>| match (of(rows.0), of(rows.1)) {
        (Some(a), Some(b)) => directed(a.total_cmp(&b)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    let by_key = match order.key {
        Key::Pg => directed(rows.0.id.cmp(&rows.1.id)),
        Key::Depth => directed(places.0.cmp(&places.1)),
        Key::Breadth => directed(placed.0.depth.cmp(&placed.1.depth)),
        Key::Hardware => figures(|row| row.hardware),
        Key::Software => figures(|row| row.software.as_ref().map(Software::used)),
        Key::User => figures(|row| row.software.map(|s| s.user)),
        Key::Sys => figures(|row| row.software.map(|s| s.sys)),
        Key::Idle => figures(|row| row.software.map(|s| s.idle)),
    };
    by_key.then(places.0.cmp(&places.1))
}

#[cfg(test)]
mod tests;
