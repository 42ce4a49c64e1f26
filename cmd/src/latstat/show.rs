//! Results as text and as JSON.

use super::compare::Compared;
use super::loads;
use super::measure::Run;
use super::options::Options;
use millpond_model::{CpuId, LATENCY_STAGES, Nanos, PsetId, Sharer};
use millpond_observe::digits::to_thousandths;
use millpond_observe::latency::{QUANTILES, Row, Saved, Source, Worst};
use millpond_report::{Align, Cell, Table};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most other threads that are shown.
const SHARERS: usize = 12;
/// The most long waits that are shown.
const WORST: usize = 8;
/// The most causes of one wait that are shown.
const CULPRITS: usize = 3;
/// The row of the total.
const WHOLE: usize = LATENCY_STAGES;

/// The data to show: all samples, and the data of the run that has just ended.
pub(super) struct Shown<'s> {
    pub saved: &'s Saved,
    pub run: Option<&'s Run>,
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn us(time: Nanos) -> f64 {
    time.0 as f64 / 1e3
}

/// A time with three digits, the resolution of a histogram.
pub(super) fn cell(time: Nanos) -> Cell {
    let us = us(time);
    Cell::Real(
        us,
        if us < 9.995 {
            2
        } else if us < 99.95 {
            1
        } else {
            0
        },
    )
}

/// A time with its unit: `13 us`, `1.5 ms`.
fn word(time: Nanos) -> String {
    with_unit(time, |_| 3)
}

/// The same with three digits, the resolution of a histogram.
fn brief(time: Nanos) -> String {
    with_unit(time, |number| if number < 9.995 { 2 } else { usize::from(number < 99.95) })
}

fn with_unit(time: Nanos, digits: impl Fn(f64) -> usize) -> String {
    let (number, unit) = match time.0 {
        0..1_000 => return format!("{} ns", time.0),
        1_000..1_000_000 => (us(time), "us"),
        1_000_000..1_000_000_000 => (us(time) / 1e3, "ms"),
        _ => (time.as_secs_f64(), "s"),
    };
    let text = format!("{number:.*}", digits(number));
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {unit}")
}

/// A time as `1:02:03`.
fn clock(time: Nanos) -> String {
    let seconds = time.0 / 1_000_000_000;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// The progress in one line.
pub(super) fn progress(saved: &Saved, elapsed: Nanos, options: &Options) -> String {
    let done = saved.latencies.samples();
    let of = options.samples.map_or_else(String::new, |samples| format!(" of {samples}"));
    let left = options.duration.map_or_else(String::new, |all| format!(", {} left", clock(all - elapsed)));
    let Some(row) = saved.latencies.row(WHOLE) else {
        return format!("{}{left}: no sample yet", clock(elapsed));
    };
    let quantile = |n: usize| row.quantiles[n].map_or_else(|| "-".to_owned(), brief);
    format!(
        "{}{left}: {done}{of} samples, median {}, p99.9 {}, max {}",
        clock(elapsed),
        quantile(0),
        quantile(2),
        brief(row.max)
    )
}

impl Shown<'_> {
    /// The report as text.
    pub fn text(&self, above: &[Nanos]) -> String {
        let mut text = self.rows().text() + &self.timerlat();
        if let Some(scheduler) = self.run.and_then(|run| run.scheduler.as_ref()) {
            text += &format!("scheduler: {scheduler}\n");
        }
        let latencies = &self.saved.latencies;
        let samples = latencies.samples();
        let counts: Vec<String> = above
            .iter()
            .map(|limit| format!("above {}: {} of {samples}", word(*limit), latencies.above(*limit)))
            .collect();
        if !counts.is_empty() {
            text += &format!("{}\n", counts.join("; "));
        }
        if latencies.lost > 0 {
            text += &format!("lost: {} samples found no room\n", latencies.lost);
        }
        if (1..samples).contains(&latencies.unstaged()) {
            text += &format!("without stages: {} of {samples}\n", latencies.unstaged());
        }
        text += &self.run.map_or_else(String::new, |run| loads::text(&run.loads));
        text += &self.run.and_then(|run| Some(run.peer.as_ref()?.text(&run.own))).unwrap_or_default();
        if !self.saved.worst.is_empty() {
            text += &format!("\nlongest waits\n{}", self.worst().text());
        }
        text + &self.sharers()
    }

    /// The explanation of the rows of timerlat.
    fn timerlat(&self) -> String {
        if self.saved.source != Source::Timerlat {
            return String::new();
        }
        let each = self.run.and_then(|run| run.timerlat);
        let each = each.map_or_else(String::new, |interval| format!(", each {}", word(interval)));
        let rows = "thread is wake-up and on-cpu together; user ends when the thread asks for the next timer";
        format!("by timerlat{each}: {rows}\n")
    }

    fn rows(&self) -> Table {
        let heads: Vec<(&str, Align)> =
            [("us", Align::Left), ("samples", Align::Right), ("min", Align::Right)]
                .into_iter()
                .chain(QUANTILES.iter().map(|(name, _)| (*name, Align::Right)))
                .chain([("max", Align::Right)])
                .collect();
        let mut table = Table::new(&heads);
        for (row, name) in self.saved.source.rows() {
            let Some(Row { samples, min, quantiles, max }) = self.saved.latencies.row(row) else { continue };
            let quantiles = quantiles.into_iter().map(|q| q.map_or(Cell::Missing, cell));
            let first = [Cell::from(name), Cell::Count(samples), cell(min)];
            table.row(first.into_iter().chain(quantiles).chain([cell(max)]));
        }
        table
    }

    fn worst(&self) -> Table {
        let mut heads = vec![("at s", Align::Right), ("us", Align::Right)];
        let stages = self.saved.source.stages();
        heads.extend(stages.iter().map(|(_, name)| (*name, Align::Right)));
        heads.push(("ran on the CPU", Align::Left));
        let mut table = Table::new(&heads);
        for worst in self.saved.worst.iter().take(WORST) {
            let took = |(stage, _): &(usize, _)| worst.stages.and_then(|took| took[*stage]);
            let stages = stages.iter().map(|stage| took(stage).map_or(Cell::Missing, cell));
            let first = [Cell::Real(worst.at.as_secs_f64(), 3), cell(worst.total)];
            table.row(first.into_iter().chain(stages).chain([culprits(worst)]));
        }
        table
    }

    /// The other threads that ran on the CPU.
    fn sharers(&self) -> String {
        let Some(run) = self.run.filter(|run| !run.sharers.is_empty()) else { return String::new() };
        let mut table = Table::new(&[("what", Align::Left), ("times", Align::Right), ("ms", Align::Right)]);
        for sharer in run.sharers.iter().take(SHARERS) {
            let ms = Cell::Real(us(sharer.ran) / 1e3, 3);
            table.row([Cell::from(sharer.what.as_str()), Cell::Count(sharer.times), ms]);
        }
        let more = run.sharers.len().saturating_sub(SHARERS);
        let more = if more > 0 { format!("and {more} more\n") } else { String::new() };
        format!("\nalso on CPU {}\n{}{more}", run.cpu, table.text())
    }

    /// The sentence about an exceeded limit. `None` if the limit was kept.
    pub fn over(&self, options: &Options) -> Option<String> {
        let max = options.max?;
        let row = self.saved.latencies.row(WHOLE)?;
        let count = self.saved.latencies.above(max);
        (count > 0).then(|| {
            format!(
                "{count} of {} samples took longer than {}, the longest {}",
                row.samples,
                word(max),
                brief(row.max)
            )
        })
    }

    /// The report as JSON.
    pub fn json(&self, options: &Options) -> Measured<'_> {
        let latencies = &self.saved.latencies;
        let rows = self.saved.source.rows().into_iter();
        let above = |limit: &Nanos| Above { limit: *limit, samples: latencies.above(*limit) };
        let run = self.run;
        Measured {
            source: self.saved.source,
            cpu: run.map(|run| run.cpu),
            set: run.map(|run| run.set),
            scheduler: run.and_then(|run| run.scheduler.as_deref()),
            keep_others: run.map(|run| run.keep_others),
            runs: self.saved.runs,
            elapsed_s: to_thousandths(self.saved.elapsed.as_secs_f64()),
            samples: latencies.samples(),
            unstaged: latencies.unstaged(),
            lost: latencies.lost,
            rows: rows.map(|(row, name)| (name, latencies.row(row).map(Stage::of))).collect(),
            above: options.above.iter().map(above).collect(),
            worst: &self.saved.worst,
            sharers: run.map(|run| run.sharers.as_slice()),
            compare: run.and_then(|run| Some(run.peer.as_ref()?.compared(&run.own))),
            load: run.map(|run| run.loads.as_slice()),
            over_max: options.max.map(|_| self.over(options).is_some()),
        }
    }
}

/// Results. Fields of a single run are null where saved runs are shown.
#[derive(Serialize, JsonSchema)]
pub(super) struct Measured<'s> {
    source: Source,
    cpu: Option<CpuId>,
    set: Option<PsetId>,
    keep_others: Option<bool>,
    /// The sched_ext scheduler during the run: `ext millpond, whole`. Null for the kernel's own.
    scheduler: Option<&'s str>,
    runs: u64,
    elapsed_s: f64,
    samples: u64,
    /// Samples without stages.
    unstaged: u64,
    /// Samples for which there was no room.
    lost: u64,
    /// Each stage, and `total`; null if it was not measured.
    rows: BTreeMap<&'static str, Option<Stage>>,
    above: Vec<Above>,
    /// The longest latencies.
    worst: &'s [Worst],
    /// Other activities on the CPU.
    sharers: Option<&'s [Sharer]>,
    /// Null without interleaved runs of another program.
    compare: Option<Compared>,
    /// The loads on the other CPUs.
    load: Option<&'s [loads::Got]>,
    /// Whether a sample exceeded `--max`; null without `--max`.
    over_max: Option<bool>,
}

/// A stage, in nanoseconds. Null: too few samples for this quantile.
#[derive(Serialize, JsonSchema)]
struct Stage {
    samples: u64,
    min: Nanos,
    median: Option<Nanos>,
    p99: Option<Nanos>,
    #[serde(rename = "p99.9")]
    p99_9: Option<Nanos>,
    #[serde(rename = "p99.99")]
    p99_99: Option<Nanos>,
    #[serde(rename = "p99.999")]
    p99_999: Option<Nanos>,
    #[serde(rename = "p99.9999")]
    p99_9999: Option<Nanos>,
    max: Nanos,
}

impl Stage {
    fn of(Row { samples, min, quantiles, max }: Row) -> Stage {
        let [median, p99, p99_9, p99_99, p99_999, p99_9999] = quantiles;
        Stage { samples, min, median, p99, p99_9, p99_99, p99_999, p99_9999, max }
    }
}

/// Samples whose total exceeds a limit.
#[derive(Serialize, JsonSchema)]
struct Above {
    /// In nanoseconds.
    limit: Nanos,
    samples: u64,
}

fn culprits(worst: &Worst) -> Cell {
    let one =
        |culprit: &millpond_observe::latency::Culprit| format!("{} {}", culprit.what, brief(culprit.had));
    let named: Vec<String> = worst.culprits.iter().take(CULPRITS).map(one).collect();
    if named.is_empty() { Cell::Missing } else { Cell::from(named.join(", ").as_str()) }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::options;
    use super::*;
    use millpond_observe::latency::Latencies;
    use serde_json::{Value, json};

    fn told(shown: &Shown<'_>, words: &str) -> Value {
        let options = options(words).unwrap();
        let measured = shown.json(&options);
        crate::json::assert_is_described(&measured);
        serde_json::to_value(measured).unwrap()
    }

    /// Two samples with stages of 1, 2, 3 and 4 us and of ten times as much, and the worst of them.
    const SAVED: &str = r#"{"latstat":1,"runs":1,"elapsed_ns":2500000000,"lost":0,"rows":{
        "irq":[[1000,1],[10000,1]],"wake-up":[[2000,1],[20000,1]],"on-cpu":[[3000,1],[30000,1]],"user":[[4000,1],[40000,1]],
        "total":[[10000,1],[100000,1]]},
        "worst":[{"at_ns":1500000000,"total_ns":100000,"stages_ns":[10000,20000,30000,40000],
        "culprits":[{"what":"interrupt 24 (eth0)","ns":9500},{"what":"idle","ns":700}]},
        {"at_ns":500000000,"total_ns":10000,"stages_ns":null,"culprits":[]}]}"#;

    fn run() -> Run {
        let sharer = |what: &str, times, ns| Sharer { what: what.into(), times, ran: Nanos(ns) };
        let sharers =
            vec![sharer("task kworker/1:0 (77)", 3, 1_250_000), sharer("local timer interrupt", 2500, 900)];
        let (peer, own) = (None, Latencies::default());
        Run {
            cpu: CpuId(1),
            set: PsetId(1),
            keep_others: true,
            scheduler: None,
            timerlat: None,
            sharers,
            peer,
            own,
            loads: vec![],
            failed: None,
        }
    }

    #[test]
    fn a_run_is_told_in_three_tables() {
        let (saved, run) = (Saved::parse(SAVED).unwrap(), run());
        let text = Shown { saved: &saved, run: Some(&run) }.text(&[Nanos(13_000), Nanos(1_000_000)]);
        assert_eq!(
            text,
            "\
us       samples   min  median  p99  p99.9  p99.99  p99.999  p99.9999   max
irq            2  1.00    1.00    -      -       -        -         -  10.0
wake-up        2  2.00    2.00    -      -       -        -         -  20.0
on-cpu         2  3.00    3.00    -      -       -        -         -  30.0
user           2  4.00    4.00    -      -       -        -         -  40.0
total          2  10.0    10.0    -      -       -        -         -   100
above 13 us: 1 of 2; above 1 ms: 0 of 2

longest waits
 at s    us   irq  wake-up  on-cpu  user  ran on the CPU
1.500   100  10.0     20.0    30.0  40.0  interrupt 24 (eth0) 9.5 us, idle 700 ns
0.500  10.0     -        -       -     -  -

also on CPU 1
what                   times     ms
task kworker/1:0 (77)      3  1.250
local timer interrupt   2500  0.001
"
        );
    }

    #[test]
    fn what_timerlat_does_not_split_is_one_row_and_said_to_be_that() {
        let text = r#"{"latstat":1,"source":"timerlat","runs":1,"elapsed_ns":2500000000,"lost":0,"rows":{
            "irq":[[1000,1]],"thread":[[5000,1]],"user":[[4000,1]],"total":[[10000,1]]},
            "worst":[{"at_ns":1500000000,"total_ns":10000,"stages_ns":[1000,null,5000,4000],"culprits":[]}]}"#;
        let saved = Saved::parse(text).unwrap();
        let run = Run { timerlat: Some(Nanos(500_000)), sharers: vec![], ..run() };
        let shown = Shown { saved: &saved, run: Some(&run) };
        assert_eq!(
            shown.text(&[]),
            "\
us      samples   min  median  p99  p99.9  p99.99  p99.999  p99.9999   max
irq           1  1.00       -    -      -       -        -         -  1.00
thread        1  5.00       -    -      -       -        -         -  5.00
user          1  4.00       -    -      -       -        -         -  4.00
total         1  10.0       -    -      -       -        -         -  10.0
by timerlat, each 500 us: thread is wake-up and on-cpu together; user ends when the thread asks for the next timer

longest waits
 at s    us   irq  thread  user  ran on the CPU
1.500  10.0  1.00    5.00  4.00  -
"
        );
        let json = told(&shown, "--timerlat");
        assert_eq!((&json["source"], json["rows"].as_object().unwrap().len()), (&json!("timerlat"), 4));
        assert_eq!(json["rows"]["thread"]["max"], json!(5003));
        assert_eq!(json["worst"][0]["stages_ns"], json!([1000, null, 5000, 4000]));
        let merged = Shown { saved: &saved, run: None }.text(&[]);
        assert!(merged.contains("\nby timerlat: thread is wake-up"), "{merged}");
    }

    #[test]
    fn what_stood_beside_is_told_before_the_longest_waits() {
        let saved = Saved::parse(SAVED).unwrap();
        let got = loads::Got { kind: super::super::options::LoadKind::Build, percent: 90.04 };
        let (peer, scheduler) = (super::super::compare::Peer::default(), "ext millpond, whole".to_owned());
        let run = Run { peer: Some(peer), scheduler: Some(scheduler), loads: vec![got], ..run() };
        let shown = Shown { saved: &saved, run: Some(&run) };
        let text = shown.text(&[]);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(
            at("\nload: build: 90.0 % of the other CPUs\n")
                < at("\ninterleaved with cyclictest (0 turns each)\n")
        );
        assert!(at("\ninterleaved with") < at("\nlongest waits\n"));
        assert!(at("\nscheduler: ext millpond, whole\n") < at("\nload: "));
        let json = told(&shown, "");
        assert_eq!(json["scheduler"], json!("ext millpond, whole"));
        assert_eq!(json["load"], json!([{"name": "build", "percent": 90.0}]));
        assert_eq!(json["compare"]["samples"], json!({"ours": 0, "theirs": 0}));
    }

    #[test]
    fn a_limit_decides_by_the_whole() {
        let saved = Saved::parse(SAVED).unwrap();
        let over = |text: &str| Shown { saved: &saved, run: None }.over(&options(text).unwrap());
        assert_eq!(over("--max 50us").unwrap(), "1 of 2 samples took longer than 50 us, the longest 100 us");
        assert_eq!((over("--max 1ms"), over("")), (None, None));
    }

    #[test]
    fn programs_are_told_the_same_in_nanoseconds() {
        let (saved, run) = (Saved::parse(SAVED).unwrap(), run());
        let json = told(&Shown { saved: &saved, run: Some(&run) }, "--above 13us --max 1ms");
        assert_eq!(
            (&json["cpu"], &json["samples"], &json["over_max"]),
            (&json!(1), &json!(2), &json!(false))
        );
        assert_eq!(json["above"], json!([{"limit": 13000, "samples": 1}]));
        assert_eq!(json["rows"]["user"]["median"], json!(4001));
        assert_eq!((&json["rows"]["user"]["p99"], &json["elapsed_s"]), (&Value::Null, &json!(2.5)));
        assert_eq!(json["worst"][0]["culprits"][0], json!({"what": "interrupt 24 (eth0)", "ns": 9500}));
        assert_eq!(json["sharers"][1], json!({"what": "local timer interrupt", "times": 2500, "ns": 900}));
        let merged = told(&Shown { saved: &saved, run: None }, "--merge f");
        assert_eq!(
            (&merged["cpu"], &merged["sharers"], &merged["over_max"]),
            (&Value::Null, &Value::Null, &Value::Null)
        );
    }

    #[test]
    fn a_line_tells_how_far_it_is() {
        let saved = Saved::parse(SAVED).unwrap();
        let line = |text: &str| progress(&saved, Nanos::from_secs(3723), &options(text).unwrap());
        assert_eq!(line("--samples 9"), "1:02:03: 2 of 9 samples, median 10 us, p99.9 -, max 100 us");
        assert!(line("--duration 2h").starts_with("1:02:03, 0:57:57 left: 2 samples, "));
        let none = progress(&Saved::default(), Nanos(0), &options("").unwrap());
        assert_eq!(none, "0:00:00: no sample yet");
    }
}
