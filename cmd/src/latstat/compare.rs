//! Comparison with `cyclictest`, interleaved: the same CPU, class and priority, and the same mean time between timers.

use super::options::{Options, PEER};
use super::show::{cell, us};
use crate::failure::{Complaint, Failure, facet};
use millpond_formats::cyclictest::{self, Cyclictest};
use millpond_machine::Machine;
use millpond_machine::facets::{Launch, LaunchMode};
use millpond_model::{CpuId, LATENCY_STAGES, LatencySample, Nanos, PsetId};
use millpond_observe::latency::{Latencies, QUANTILES, Row};
use millpond_report::{Align, Cell, Table};
use millpond_session::program_on_path;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};

/// The length of a turn. With a duration, turns are about this long.
const TURN: Nanos = Nanos::from_secs(5);
/// The range of cyclictest's histogram in microseconds. Longer latencies count as the longest one of their turn.
const REACH_US: u64 = 20_000;
/// The interval of checks whether cyclictest has ended.
const LOOK: Nanos = Nanos::from_millis(20);
/// The additional time after its turn in which cyclictest must end, for its start and its output.
const PATIENCE: Nanos = Nanos::from_secs(30);
/// The number of compared quantiles.
const COMPARED: usize = 4;

/// The length of a turn, and the number of turns of each program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turns {
    pub length: Nanos,
    pub each: Option<u64>,
}

impl Turns {
    /// With a comparison, an even number of turns of length [`TURN`], or of about that length if they fill a
    /// duration. Without one, a single turn of latstat, possibly endless.
    pub fn of(options: &Options) -> Turns {
        match (options.compare, options.duration) {
            (false, duration) => Turns { length: duration.unwrap_or(Nanos(u64::MAX)), each: Some(1) },
            (true, None) => Turns { length: TURN, each: None },
            (true, Some(all)) => {
                let each = (all.0.saturating_add(TURN.0) / (2 * TURN.0)).max(1);
                Turns { length: Nanos(all.0 / (2 * each)), each: Some(each) }
            }
        }
    }
}

/// The measurement of the other program.
#[derive(Debug, Default)]
pub(super) struct Peer {
    pub latencies: Latencies,
    pub turns: u64,
}

fn cannot(why: impl Into<String>) -> Complaint {
    Complaint::new(format!("run {PEER}"), why)
}

/// Fails early if the program is not installed.
pub(super) fn must_be_there() -> Result<(), Failure> {
    if program_on_path(PEER).is_some() {
        return Ok(());
    }
    Err(cannot("it is not installed").hint("it is in Debian's package rt-tests").into())
}

/// The command line of cyclictest: one thread, locked memory, `SCHED_FIFO`, as many timers as fit into the turn, and no
/// change to the idle states of CPUs.
fn words(cpu: CpuId, options: &Options, length: Nanos) -> Vec<OsString> {
    let sum: u64 = options.intervals.iter().map(|interval| interval.0 / 1_000).sum();
    let mean_us = (sum / (options.intervals.len() as u64).max(1)).max(1);
    let loops = (length.0 / 1_000 / mean_us).max(1);
    let priority = options.level + 1;
    let words = format!(
        "{PEER} --quiet --mlockall --default-system --policy=fifo --priority={priority} --threads=1 --affinity={cpu} \
         --interval={mean_us} --loops={loops} --histogram={REACH_US}"
    );
    words.split(' ').map(Into::into).collect()
}

/// The total of a sample in whole microseconds, rounded down. cyclictest counts no finer, and programs differ by
/// about half a microsecond.
pub(super) fn as_counted(sample: &LatencySample) -> LatencySample {
    LatencySample { user: Nanos(sample.total().0 / 1_000 * 1_000), ..LatencySample::default() }
}

impl Peer {
    /// Runs one turn of cyclictest.
    pub fn turn(
        &mut self,
        machine: &dyn Machine,
        (cpu, set): (CpuId, PsetId),
        options: &Options,
        length: Nanos,
        stop: &AtomicBool,
    ) -> Result<(), Failure> {
        let words = words(cpu, options, length);
        let launch = Launch { words: &words, mode: LaunchMode::Captured(set) };
        let program = facet("threads", machine.threads())?.launch(&launch);
        let mut program =
            program.map_err(|refusal| Complaint::refused(&format!("run {PEER}"), |_| None, &refusal))?;
        let clock = machine.clock();
        let end = clock.now() + length + PATIENCE;
        let mut asked = None;
        while !program.has_ended() {
            let now = clock.now();
            if stop.load(Ordering::Relaxed) && asked.is_none() {
                program.terminate();
                asked = Some(now + PATIENCE);
            }
            if now >= asked.unwrap_or(end) {
                return Err(cannot("it does not end").into());
            }
            clock.sleep_until(now + LOOK);
        }
        let exit = program.exit();
        // If it was ended early, it still prints its results, and its status is not 0.
        if let (Some(why), None) = (&exit.failure, asked) {
            return Err(cannot(why.clone()).into());
        }
        match cyclictest::parse(&exit.output) {
            Ok(said) => self.add(&said),
            Err(_) if asked.is_some() => return Ok(()),
            Err(error) => return Err(cannot(format!("what it prints is not understood: {error}")).into()),
        }
        self.turns += 1;
        Ok(())
    }

    fn add(&mut self, said: &Cyclictest) {
        let waits = said.counts.iter().map(|(us, count)| (*us, *count));
        for (us, count) in waits.chain([(said.max_us, said.over)]) {
            let user = Nanos(us.saturating_mul(1_000));
            (0..count)
                .for_each(|_| self.latencies.record(&LatencySample { user, ..LatencySample::default() }));
        }
    }

    /// A table row for each figure.
    fn figures(&self, ours: &Latencies) -> Vec<(&'static str, Option<Nanos>, Option<Nanos>)> {
        let (ours, theirs) = (ours.row(LATENCY_STAGES), self.latencies.row(LATENCY_STAGES));
        let both =
            |of: &dyn Fn(&Row) -> Option<Nanos>| (ours.as_ref().and_then(of), theirs.as_ref().and_then(of));
        let mut figures = Vec::new();
        let mut figure = |name, (a, b)| figures.push((name, a, b));
        figure("min", both(&|row| Some(row.min)));
        for (n, (name, _)) in QUANTILES.iter().enumerate().take(COMPARED) {
            figure(name, both(&|row| row.quantiles[n]));
        }
        figure("max", both(&|row| Some(row.max)));
        figures
    }

    /// The comparison as text: the totals of both programs, and the ratio of latstat to cyclictest.
    pub fn text(&self, ours: &Latencies) -> String {
        let heads = ["latstat", PEER, "ratio"].map(|head| (head, Align::Right));
        let mut table = Table::new(&[&[("us", Align::Left)], &heads[..]].concat());
        let counts = [ours.samples(), self.latencies.samples()].map(Cell::Count);
        table.row([Cell::from("samples")].into_iter().chain(counts).chain([Cell::Missing]));
        for (name, a, b) in self.figures(ours) {
            let cells = [a, b].map(|time| time.map_or(Cell::Missing, cell));
            let ratio = ratio(a, b).map_or(Cell::Missing, |ratio| Cell::Real(ratio, 2));
            table.row([Cell::from(name)].into_iter().chain(cells).chain([ratio]));
        }
        let turns = if self.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", self.turns) };
        format!("\ninterleaved with {PEER} ({turns} each)\n{}", table.text())
    }

    /// The same in JSON.
    pub fn compared(&self, ours: &Latencies) -> Compared {
        let figures = self.figures(ours).into_iter();
        let samples = Samples { ours: ours.samples(), theirs: self.latencies.samples() };
        let figures = figures.map(|(name, a, b)| (name, Figure { ours: a, theirs: b, ratio: ratio(a, b) }));
        Compared { with: PEER, turns: self.turns, samples, figures: figures.collect() }
    }
}

/// Results of the other program and of this one, in alternating turns.
#[derive(Serialize, JsonSchema)]
pub(super) struct Compared {
    with: &'static str,
    /// The number of turns of each.
    turns: u64,
    samples: Samples,
    /// `min`, `max` and quantiles.
    figures: BTreeMap<&'static str, Figure>,
}

#[derive(Serialize, JsonSchema)]
struct Samples {
    ours: u64,
    theirs: u64,
}

/// In nanoseconds; null if there are too few samples.
#[derive(Serialize, JsonSchema)]
struct Figure {
    ours: Option<Nanos>,
    theirs: Option<Nanos>,
    /// This program's figure divided by the other's.
    ratio: Option<f64>,
}

fn ratio(a: Option<Nanos>, b: Option<Nanos>) -> Option<f64> {
    a.zip(b.filter(|b| b.0 > 0)).map(|(a, b)| us(a) / us(b))
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::options;
    use super::*;
    use serde_json::json;

    fn latencies(us: &[u64]) -> Latencies {
        let mut latencies = Latencies::default();
        for us in us {
            latencies.record(&LatencySample { user: Nanos(us * 1_000), ..LatencySample::default() });
        }
        latencies
    }

    #[test]
    fn turns_are_an_even_number_of_about_five_seconds() {
        let turns = |text: &str| Turns::of(&options(text).unwrap());
        let of = |ns, each| Turns { length: Nanos(ns), each };
        assert_eq!(turns("--compare cyclictest"), of(5_000_000_000, None));
        assert_eq!(turns("--compare cyclictest --duration 60"), of(5_000_000_000, Some(6)));
        assert_eq!(turns("--compare cyclictest --duration 24"), of(6_000_000_000, Some(2)));
        assert_eq!(turns("--compare cyclictest --duration 2"), of(1_000_000_000, Some(1)));
        assert_eq!(turns("--duration 2"), of(2_000_000_000, Some(1)));
        assert_eq!(turns(""), of(u64::MAX, Some(1)));
    }

    #[test]
    fn it_is_told_to_do_as_we_do() {
        let words = words(CpuId(3), &options("--level 5").unwrap(), Nanos::from_secs(5));
        let words: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
        for word in ["--policy=fifo", "--priority=6", "--affinity=3", "--mlockall", "--threads=1"] {
            assert!(words.contains(&word), "{word}: {words:?}");
        }
        let number = |name: &str| -> u64 {
            words.iter().find_map(|word| word.strip_prefix(name)).unwrap().parse().unwrap()
        };
        let (interval, loops) = (number("--interval="), number("--loops="));
        assert!((980..=1020).contains(&interval), "{interval}");
        assert!((5_000_000 - interval..=5_000_000).contains(&(interval * loops)), "{loops}");
    }

    #[test]
    fn the_whole_is_counted_in_whole_microseconds() {
        let sample = LatencySample { due: Nanos(5_000), user: Nanos(12_999), ..LatencySample::default() };
        assert_eq!(as_counted(&sample).total(), Nanos(7_000));
    }

    #[test]
    fn both_stand_in_a_table() {
        let mut peer = Peer { turns: 2, ..Peer::default() };
        peer.add(&Cyclictest { counts: [(4, 1), (8, 2)].into(), over: 1, max_us: 30 });
        let ours = latencies(&[2, 8, 8]);
        assert_eq!(
            peer.text(&ours),
            "
interleaved with cyclictest (2 turns each)
us       latstat  cyclictest  ratio
samples        3           4      -
min         2.00        4.00   0.50
median      8.00        8.00   1.00
p99            -           -      -
p99.9          -           -      -
p99.99         -           -      -
max         8.00        30.0   0.27
"
        );
        let json = serde_json::to_value(peer.compared(&ours)).unwrap();
        assert_eq!((&json["with"], &json["turns"]), (&json!("cyclictest"), &json!(2)));
        assert_eq!(json["samples"], json!({"ours": 3, "theirs": 4}));
        let figures = &json["figures"];
        assert_eq!(figures["p99"], json!({"ours": null, "theirs": null, "ratio": null}));
        let ratio = figures["min"]["ratio"].as_f64().unwrap();
        assert!((ratio - 0.5).abs() < 0.001, "{ratio}");
    }
}
