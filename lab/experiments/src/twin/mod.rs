//! A twin of a real machine: a simulated machine with its numbers, compared with the real one.
//!
//! # Claim
//!
//! A simulated machine with the measured cost of a switch, a wake-up, a message, a line of another CPU's cache, a scheduler slice
//! and one thread's work predicts the speed of programs that share CPUs on the real machine.
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
//!   hackbench           ten groups that pass messages, with a set of the last CPU in which a thread spins
//!   latstat             a thread in the real-time class that a timer wakes on the last CPU: the median wake-up latency
//! ```
//!
//! With `--machine real` the machine is measured first (`millpond sim --calibrate like-host` does only that). Then each arm runs
//! on the twin and on the real machine. Without it, only the twin of an earlier measurement runs. The prediction is the median over
//! seeds, with the minimum and the maximum; the measurement has these over rounds.
//!
//! # Interpretation
//!
//! *alone* shows how well one thread's speed was measured: it is the only figure that the twin was given. In the arms
//! *fighting* the result depends on which threads meet on which CPU, and varies widely on both sides. On a shared machine
//! the measurement includes other programs; a note says how much of the machine was available.

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

/// An arm, on either side.
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

/// Arms by name.
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

    /// Whether threads of different jobs compete for a CPU while others spin for them.
    fn fights(self) -> bool {
        matches!(self, Arm::Fighting { blocks: false } | Arm::Capped)
    }

    /// The factor by which a prediction may be too small or too large to meet the goal.
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

/// The median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    /// `None` without values.
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

/// Operations per second as Mop/s.
fn mops(rate: f64) -> f64 {
    rate / 1e6
}

#[cfg(test)]
mod tests;
