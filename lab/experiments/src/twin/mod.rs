//! A twin of a machine: a simulated one with its numbers, and whether that does what the machine does.
//!
//! # Claim
//!
//! A simulated machine that knows what a switch, a wake-up, a message, a line of another CPU's cache, a slice of the
//! scheduler and one thread's speed are here tells what programs do here when they share CPUs.
//!
//! # Arms
//!
//! ```text
//!   alone               one job (NPB CG class S) on the CPUs that it would have apart
//!   fighting            two jobs on all CPUs, whose threads spin for each other
//!   capped              the same, each limited to the time of the CPUs that it would have apart
//!   pools               each on CPUs of its own
//!   fighting, blocking  as fighting, and threads sleep at barriers
//!   pools, blocking     as pools, and threads sleep at barriers
//!   hackbench           ten groups that pass messages, beside a set of the last CPU in which a thread spins
//!   latstat             a thread in the real-time class that a timer wakes on the last CPU: the median until it runs
//! ```
//!
//! With `--machine real` the machine is measured first (`millpond sim --calibrate like-host` does that alone), then each arm is
//! played on the twin, and here. Without, a machine that was measured before is played alone. Predicted is the median over
//! seeds of chance, with the least and the most; measured that over rounds.
//!
//! # What to expect
//!
//! *alone* shows how well one thread's speed was measured: of all figures it alone was given to the twin. Where jobs fight, it
//! matters which threads meet on which CPU, and both sides spread widely. A machine that others use at the same time is
//! measured with them; the note says how much of it was to be had.

pub mod calibrate;
mod measure;
mod others;
mod predict;

pub use calibrate::{Twin, calibrate};
pub use others::Others;

use crate::Failure;
use crate::here::{Here, shared};
use crate::published::{Choices, Experiment, Findings, Lab, SECONDS, SEED, median};
use millpond_cli::{Flag, ValueKind};
use millpond_report::{Cell, Table};
use millpond_session::machine_description;
use serde_json::Value;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "twin",
    options: &[
        Flag::long("machine", "the machine: real, like-host (measured before), a machine file; like-host")
            .value("NAME", ValueKind::Machine),
        Flag::long("arm", "which arms; all").value("NAME,...", ValueKind::Words(&WORDS)),
        Flag::long("draws", "how many seeds of chance each arm is played with on the twin; 20")
            .value("N", ValueKind::Count(1, 1_000)),
        Flag::long("rounds", "how often each arm is measured on the machine at hand; 3")
            .value("N", ValueKind::Count(1, 1_000)),
        SEED,
        Flag { help: "how many seconds each arm runs; 3", ..SECONDS },
    ],
    data: include_str!("about.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |_| true,
    run,
    here: Some(run_here),
};

/// What an arm is, on either side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arm {
    Alone,
    Fighting { blocks: bool },
    Capped,
    Pools { blocks: bool },
    Hackbench,
    Latstat,
}

const ARMS: [Arm; 8] = [
    Arm::Alone,
    Arm::Fighting { blocks: false },
    Arm::Capped,
    Arm::Pools { blocks: false },
    Arm::Fighting { blocks: true },
    Arm::Pools { blocks: true },
    Arm::Hackbench,
    Arm::Latstat,
];

/// Arms by their words.
const WORDS: [&str; 8] =
    ["alone", "fighting", "capped", "pools", "fighting-blocking", "pools-blocking", "hackbench", "latstat"];

/// Groups, and messages of each sender to each receiver.
const GROUPS: u64 = 10;
const LOOPS: u64 = 100;
/// Samples of the arm `latstat`.
const SAMPLES: u64 = 2_000;

impl Arm {
    fn word(self) -> &'static str {
        ARMS.iter().zip(WORDS).find(|(arm, _)| **arm == self).map_or("", |(_, word)| word)
    }

    /// Whether threads of different jobs want the same CPU while others spin for them.
    fn fights(self) -> bool {
        matches!(self, Arm::Fighting { blocks: false } | Arm::Capped)
    }

    /// Below 1 is worse than this and above 1 as much better is what a twin should keep within.
    fn goal(self) -> f64 {
        if self.fights() { 2.0 } else { 1.25 }
    }

    fn quantity(self) -> &'static str {
        match self {
            Arm::Hackbench => "hackbench",
            Arm::Latstat => "wake-up latency",
            _ => "Mop/s of each job",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Arm::Hackbench => "s",
            Arm::Latstat => "us",
            _ => "Mop/s",
        }
    }

    fn decimals(self) -> usize {
        if self == Arm::Hackbench { 3 } else { 1 }
    }
}

fn chosen(choices: &Choices) -> impl Iterator<Item = Arm> {
    ARMS.into_iter().filter(|arm| !choices.has("arm") || choices.words("arm").any(|word| word == arm.word()))
}

/// The median of several, with the least and the most.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// Of none there is none.
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        Some(Spread { median: median(&values), least, most })
    }
}

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let name = choices.word("machine").unwrap_or("like-host");
    let file = machine_description(name).map_err(|error| Failure::Machine(error.to_string()))?;
    let mut rows = Vec::new();
    for arm in chosen(choices) {
        lab.tell(arm.word());
        rows.push((arm, predict::over_seeds(lab, &file, arm, choices)?, None));
    }
    findings.machines.push(lab.open_described(&file)?.sentence());
    show(findings, &rows);
    Ok(())
}

fn run_here(here: &mut Here<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let (facts, free, _) = here.look()?;
    findings.machines.push(facts.text());
    let (_, part) = here.speed(&free)?;
    findings.notes.extend(shared(part));
    let twin = calibrate(here)?;
    let measured = measure::rounds(here, &chosen(choices).collect::<Vec<_>>(), choices)?;
    let stop = here.stop;
    let mut quiet = |_: &str| ();
    let mut rows = Vec::new();
    for (arm, measured) in measured {
        (here.tell)(&format!("{} on the twin", arm.word()));
        let lab = Lab::new(stop, Vec::new(), &mut quiet);
        rows.push((arm, predict::over_seeds(&lab, &twin.file, arm, choices)?, measured));
    }
    findings.tables.push(("the twin".into(), twin.table()));
    show(findings, &rows);
    Ok(())
}

fn show(findings: &mut Findings, rows: &[(Arm, Spread, Option<Spread>)]) {
    let numbers =
        ["predicted", "least", "most", "measured", "least", "most", "predicted over measured", "goal"];
    let mut table = Table::of(&["arm", "unit"], &numbers).and_words(&["within"]);
    for (arm, predicted, measured) in rows {
        let decimals = arm.decimals();
        let cells = |spread: Option<Spread>| -> [Cell; 3] {
            [
                spread.map(|s| (s.median, decimals)).into(),
                spread.map(|s| (s.least, decimals)).into(),
                spread.map(|s| (s.most, decimals)).into(),
            ]
        };
        let ratio = measured.map(|measured| predicted.median / measured.median);
        let goal = arm.goal();
        let within =
            ratio.map_or("-", |ratio| if (1.0 / goal..=goal).contains(&ratio) { "yes" } else { "NO" });
        findings.point(arm.quantity(), arm.word(), predicted.median);
        let mut row: Vec<Cell> = vec![arm.word().into(), arm.unit().into()];
        row.extend(cells(Some(*predicted)));
        row.extend(cells(*measured));
        row.extend([ratio.map(|ratio| (ratio, 2)).into(), Cell::from((goal, 2)), within.into()]);
        table.row(row);
    }
    findings.tables.push(("predicted and measured".into(), table));
}

/// A number of a machine file.
fn number(file: &Value, field: &str) -> f64 {
    file.pointer(field).and_then(Value::as_f64).unwrap_or(0.0)
}

fn seeds(choices: &Choices) -> std::ops::Range<u64> {
    let first = choices.number("seed").unwrap_or(1);
    first..first.saturating_add(choices.number("draws").unwrap_or(20))
}

fn seconds(choices: &Choices) -> u64 {
    choices.number("seconds").unwrap_or(3)
}

/// Operations a second as Mop/s.
fn mops(rate: f64) -> f64 {
    rate / 1e6
}

#[cfg(test)]
mod tests;
