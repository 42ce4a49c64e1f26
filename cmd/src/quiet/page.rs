//! The page of a report: sentences, the table, and a timeline of the longest stretches.

use super::options::Options;
use super::show;
use super::watch::Run;
use millpond_model::Nanos;
use millpond_observe::Verdict;
use millpond_report::{Mark, Sheet};

/// The most points of the timeline. More of them would overlap.
const MARKS_MAX: usize = 1_000;

/// The page.
pub fn sheet(run: &Run, options: &Options, verdict: Option<&Verdict>) -> Sheet {
    let whom = match options.set {
        Some(set) => format!("set {set}"),
        None => format!("CPUs {}", run.cpus),
    };
    let mut facts = show::facts(run, options, verdict);
    facts.extend(run.seen.lost.iter().map(|line| format!("not kept: {line}")));
    facts.extend(run.seen.missing.iter().map(|line| format!("not told: {line}")));
    let mark = |stretch: &millpond_model::Stretch| Mark {
        at_s: (stretch.at - run.seen.began).as_secs_f64(),
        height: micros(stretch.length),
        group: stretch.cause.kind.word().to_owned(),
        title: format!(
            "{:.1} us on CPU {}: {}",
            micros(stretch.length),
            stretch.cpu,
            show::cause(&stretch.cause)
        ),
    };
    Sheet {
        title: format!("What disturbed {whom}"),
        facts,
        table: show::table(run),
        length_s: run.quiet.elapsed.as_secs_f64(),
        unit: "us".to_owned(),
        marks: run.quiet.stretches.iter().take(MARKS_MAX).map(mark).collect(),
    }
}

fn micros(time: Nanos) -> f64 {
    time.as_secs_f64() * 1e6
}
