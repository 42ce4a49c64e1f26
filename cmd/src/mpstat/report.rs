//! One report: a frame as a table, or as JSON.

use super::options::Options;
use crate::json;
use jiff::tz::TimeZone;
use millpond_formats::mpstat::{self as listing, Row, Table};
use millpond_formats::print_iso;
use millpond_model::{CpuId, Nanos, Processor, PsetId, Topology};
use millpond_observe::digits::{thousandths, to_thousandths};
use millpond_observe::{Change, CpuRates, GroupRates, Interval, Rates, Shares};
use schemars::JsonSchema;
use serde::Serialize;

/// With a single processor there is a head only so often.
const HEAD_EVERY: u32 = 20;

/// What a line takes, more or less.
const TEXT_BYTES: usize = 96;

/// One report. It has rows of processors, sets, cores or chips.
#[derive(Default, Serialize, JsonSchema)]
pub struct Document<'f> {
    /// When the interval ended, as ISO 8601.
    time: String,
    /// Null since boot.
    #[serde(serialize_with = "thousandths")]
    interval_s: Option<f64>,
    /// The scheduler of sched_ext that was loaded when the interval ended: `ext millpond, whole`. Null for the kernel's own.
    scheduler: Option<&'f str>,
    changes: &'f [Change],
    #[serde(skip_serializing_if = "Option::is_none")]
    processors: Option<Vec<CpuRow>>,
    /// `-a`.
    #[serde(skip_serializing_if = "Option::is_none")]
    sets: Option<Vec<GroupRow>>,
    /// `-A core`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<Vec<GroupRow>>,
    /// `-A chip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    chips: Option<Vec<GroupRow>>,
    /// The figures that are missing, and why.
    missing: &'f [String],
}

#[derive(Serialize, JsonSchema)]
struct CpuRow {
    cpu: CpuId,
    set: PsetId,
    #[serde(flatten)]
    figures: Figures,
}

/// A set, a core or a chip.
#[derive(Default, Serialize, JsonSchema)]
struct GroupRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    core: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chip: Option<u32>,
    /// How many active CPUs it has.
    size: u32,
    #[serde(flatten)]
    figures: Figures,
}

/// Events per second, and the use of time in percent, which adds up to 100 with steal. The manual describes the columns.
#[derive(Default, Serialize, JsonSchema)]
struct Figures {
    minf: Option<f64>,
    mjf: Option<f64>,
    xcal: Option<f64>,
    intr: Option<f64>,
    ithr: Option<f64>,
    csw: Option<f64>,
    icsw: Option<f64>,
    migr: Option<f64>,
    smtx: Option<f64>,
    srw: Option<f64>,
    syscl: Option<f64>,
    usr: f64,
    sys: f64,
    wt: f64,
    idl: f64,
    /// Time that the hypervisor took.
    st: f64,
}

/// Draws reports. Knows how many it drew: not each has a head.
pub struct Reports<'z> {
    table: Table,
    options: Options,
    zone: &'z TimeZone,
    /// Where rows are of cores or chips.
    topology: Option<Topology>,
    /// The scheduler of sched_ext that is loaded now; JSON alone tells it.
    pub scheduler: Option<String>,
    drawn: u32,
}

impl<'z> Reports<'z> {
    /// None is drawn yet.
    pub fn new(options: &Options, zone: &'z TimeZone) -> Self {
        Reports {
            table: options.table,
            options: options.clone(),
            zone,
            topology: None,
            scheduler: None,
            drawn: 0,
        }
    }

    /// The same on a machine whose cores and chips are known.
    pub fn of(mut self, topology: Topology) -> Self {
        self.topology = Some(topology);
        self
    }

    /// A report: lines about changes, the time, the head, the rows; or one line of JSON. `frame` has all
    /// active processors, whichever are shown.
    pub fn draw(&mut self, frame: &Rates, changes: &[Change]) -> String {
        let many = frame.cpus.len() > 1;
        let shown = self.options.sets.as_ref().map(|sets| frame.clone().of_sets(sets));
        let shown = shown.as_ref().unwrap_or(frame);
        if self.options.json {
            let mut line = json::document(&self.document(shown, changes));
            line.push('\n');
            return line;
        }
        let mut text = String::with_capacity(TEXT_BYTES * (shown.cpus.len() + 1));
        if !self.options.quiet {
            changes.iter().for_each(|change| push_line(&mut text, &change_line(change)));
        }
        if let Some(stamp) = self.options.stamp {
            push_line(&mut text, &stamp.line(frame.wall, self.zone));
        }
        if many || self.drawn.is_multiple_of(HEAD_EVERY) {
            listing::push_head(self.table, self.options.steal, &mut text);
            text.push('\n');
        }
        self.drawn = self.drawn.wrapping_add(1);
        if let Some(groups) = self.groups(shown) {
            for group in groups {
                self.push_row(&mut text, group.id, &group.interval, Some(group.size));
            }
        } else {
            for cpu in &shown.cpus {
                let set = (self.table == Table::ProcessorsAndSets).then_some(cpu.set.0);
                self.push_row(&mut text, cpu.cpu.0, &cpu.interval, set);
            }
        }
        text
    }

    /// The groups that have a row; `None` where processors have rows.
    fn groups(&self, shown: &Rates) -> Option<Vec<GroupRates>> {
        let of = |number: fn(&Processor) -> u32| {
            shown.by(|cpu| self.topology.as_ref()?.processor(cpu.cpu).map(number))
        };
        match self.table {
            Table::Sets => Some(shown.sets()),
            Table::Cores => Some(of(|processor| processor.core.0)),
            Table::Chips => Some(of(|processor| processor.chip.0)),
            Table::Processors | Table::ProcessorsAndSets => None,
        }
    }

    fn push_row(&self, text: &mut String, id: u32, interval: &Interval, last: Option<u32>) {
        let all = interval.shares();
        let shares = if self.options.steal { all } else { all.without_steal() };
        let row = Row {
            id,
            rates: interval.rates,
            shares: [shares.user, shares.sys, shares.wait, shares.idle],
            steal: self.options.steal.then_some(all.steal),
            last,
        };
        listing::push_row(&row, text);
        text.push('\n');
    }

    fn document<'f>(&'f self, shown: &'f Rates, changes: &'f [Change]) -> Document<'f> {
        let mut document = Document {
            time: print_iso(shown.wall),
            interval_s: shown.elapsed.map(Nanos::as_secs_f64),
            scheduler: self.scheduler.as_deref(),
            changes,
            missing: &shown.missing,
            ..Document::default()
        };
        let rows = |named: fn(u32) -> GroupRow| {
            let row = |group: GroupRates| GroupRow {
                size: group.size,
                figures: Figures::of(&group.interval),
                ..named(group.id)
            };
            self.groups(shown).map(|groups| groups.into_iter().map(row).collect())
        };
        match self.table {
            Table::Sets => document.sets = rows(|id| GroupRow { set: Some(id), ..GroupRow::default() }),
            Table::Cores => document.cores = rows(|id| GroupRow { core: Some(id), ..GroupRow::default() }),
            Table::Chips => document.chips = rows(|id| GroupRow { chip: Some(id), ..GroupRow::default() }),
            Table::Processors | Table::ProcessorsAndSets => {
                let row = |c: &CpuRates| CpuRow { cpu: c.cpu, set: c.set, figures: Figures::of(&c.interval) };
                document.processors = Some(shown.cpus.iter().map(row).collect());
            }
        }
        document
    }
}

impl Figures {
    fn of(interval: &Interval) -> Figures {
        let [minf, mjf, xcal, intr, ithr, csw, icsw, migr, smtx, srw, syscl] =
            interval.rates.map(|rate| rate.map(to_thousandths));
        let Shares { user, sys, wait, idle, steal } = interval.shares();
        let [usr, sys, wt, idl, st] = [user, sys, wait, idle, steal].map(to_thousandths);
        Figures { minf, mjf, xcal, intr, ithr, csw, icsw, migr, smtx, srw, syscl, usr, sys, wt, idl, st }
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

fn change_line(change: &Change) -> String {
    match change {
        Change::Moved { cpu, from, to } => listing::moved(*cpu, *from, *to),
        Change::Added(cpus) => listing::added(cpus),
        Change::Removed(cpus) => listing::removed(cpus),
        Change::Created(set) => listing::set_created(*set),
        Change::Destroyed(set) => listing::set_destroyed(*set),
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::options;
    use super::*;
    use millpond_model::{COLUMNS, CpuSample, Sample, Ticks, WallTime};
    use serde_json::{Value, json};

    /// Four processors, each with its number times ten events in every column and 10 s of time.
    fn frame(cpus: &[(u32, u32)]) -> Rates {
        let s = Nanos::from_secs;
        let cpus = cpus.iter().map(|(cpu, set)| CpuSample {
            cpu: CpuId(*cpu),
            set: PsetId(*set),
            events: [Some(u64::from(*cpu) * 100); COLUMNS.len()],
            ticks: Ticks { user: s(2), sys: s(1), wait: s(0), idle: s(5), steal: s(2) },
        });
        Rates::since_boot(Sample {
            at: s(10),
            wall: WallTime(1_732_090_442),
            cpus: cpus.collect(),
            sets: vec![],
            missing: vec!["mjf: no".into()],
        })
    }

    fn draw(text: &str, frame: &Rates) -> String {
        Reports::new(&options(text).unwrap(), &TimeZone::UTC).draw(frame, &[])
    }

    #[test]
    fn a_row_per_processor_or_set_or_only_one_set() {
        let frame = frame(&[(0, 0), (1, 0), (2, 1), (3, 1)]);
        assert_eq!(
            draw("", &frame),
            "\
CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl
  0    0   0    0     0    0    0    0    0    0    0     0   25  12   0  62
  1   10  10   10    10   10   10   10   10   10   10    10   25  12   0  62
  2   20  20   20    20   20   20   20   20   20   20    20   25  12   0  62
  3   30  30   30    30   30   30   30   30   30   30    30   25  12   0  62
"
        );
        assert_eq!(
            draw("-a --steal", &frame),
            "\
SET minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl  st sze
  0   10  10   10    10   10   10   10   10   10   10    10   20  10   0  50  20   2
  1   50  50   50    50   50   50   50   50   50   50    50   20  10   0  50  20   2
"
        );
        assert_eq!(
            draw("-T u -P 1", &frame),
            "\
1732090442
CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl
  2   20  20   20    20   20   20   20   20   20   20    20   25  12   0  62
  3   30  30   30    30   30   30   30   30   30   30    30   25  12   0  62
"
        );
        assert_eq!(draw("-p", &frame).lines().nth(3).unwrap().split_whitespace().last(), Some("1"));
    }

    #[test]
    fn changes_come_first_unless_they_are_not_wanted() {
        let frame = frame(&[(0, 0), (1, 1)]);
        let change = [
            Change::Moved { cpu: CpuId(1), from: PsetId::DEFAULT, to: PsetId(1) },
            Change::Created(PsetId(1)),
        ];
        let with = |text| Reports::new(&options(text).unwrap(), &TimeZone::UTC).draw(&frame, &change);
        assert!(with("-p -T u").starts_with(
            "<<processor 1 moved from pset: 0 to: 1>>\n<<pset created: 1>>\n1732090442\nCPU minf"
        ));
        assert!(with("-pq").starts_with("CPU minf"));
        assert!(with("--json").starts_with(r#"{"changes":[{"from":0,"moved":1,"to":1},{"created":1}],"#));
    }

    #[test]
    fn one_processor_has_a_head_every_twenty_reports() {
        let frame = frame(&[(0, 0)]);
        let zone = TimeZone::UTC;
        let mut reports = Reports::new(&options("").unwrap(), &zone);
        let heads: Vec<bool> = (0..41).map(|_| reports.draw(&frame, &[]).starts_with("CPU")).collect();
        let with: Vec<usize> = (0..41).filter(|i| heads[*i]).collect();
        assert_eq!(with, [0, 20, 40]);
    }

    #[test]
    fn json_keeps_stolen_time_and_says_what_is_missing() {
        let frame = frame(&[(1, 0), (2, 1)]);
        let text = draw("--json -P 1", &frame);
        let report: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["time"], "2024-11-20T08:14:02Z");
        assert_eq!(report["interval_s"], Value::Null);
        assert_eq!(report["missing"], json!(["mjf: no"]));
        assert_eq!(report["processors"].as_array().unwrap().len(), 1);
        let row = &report["processors"][0];
        assert_eq!((row["cpu"].as_u64(), row["set"].as_u64()), (Some(2), Some(1)));
        assert_eq!(
            (row["syscl"].as_f64(), row["usr"].as_f64(), row["st"].as_f64()),
            (Some(20.0), Some(20.0), Some(20.0))
        );
        let report: Value = serde_json::from_str(&draw("--json -a", &frame)).unwrap();
        assert_eq!(report["sets"][1]["size"], 1);
        assert_eq!(report["scheduler"], Value::Null);
    }

    #[test]
    fn json_names_the_scheduler_that_is_loaded_now() {
        let zone = TimeZone::UTC;
        let mut reports = Reports::new(&options("--json").unwrap(), &zone);
        let mut named = |scheduler: Option<&str>| {
            reports.scheduler = scheduler.map(str::to_owned);
            let report: Value = serde_json::from_str(&reports.draw(&frame(&[(0, 0)]), &[])).unwrap();
            report["scheduler"].clone()
        };
        assert_eq!(named(Some("ext millpond, whole")), "ext millpond, whole");
        assert_eq!(named(None), Value::Null);
    }
}
