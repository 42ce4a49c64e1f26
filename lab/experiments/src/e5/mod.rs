//! E5: cycles per instruction: memory latency in the counters of cycles and instructions.
//!
//! # Claim
//!
//! A loop that stays in the core needs about one cycle per instruction, one with random memory accesses needs six. One
//! application, all of it in user mode and without contention, needs twice as many cycles on a machine of six boards with a
//! long interconnect as on one with a short one: it waits for memory.
//!
//! # Conditions
//!
//! On `u2i` each loop runs alone for ten seconds. On `e6900` and `e25k` the application has a thread for each of the 48 CPUs,
//! and is sampled for 30 s at a time. Counters count user mode, the default of `cpustat`. The ten largest samples of single
//! CPUs are listed below.
//!
//! # Method
//!
//! Where do threads spend their time: in user mode, on locks, waiting for a CPU? If in user mode, how many cycles does an
//! instruction take? If many, memory is the cause: memory that is near on one machine is far on the other. A program that is
//! bound to a set is no longer migrated, but its memory stays where it is. So the experiment runs it once more on the machine
//! with the long interconnect, with a thread for each CPU of a board, unbound and in a set of that board; the cycles do not
//! change.
//!
//! The counts are recorded as `cpustat --record` writes them, and the two machines are compared as by `millpond compare`.
//!
//! # The real machine
//!
//! `--machine real` counts on the real machine, with a thread on each usable CPU: one loop that stays in the core, one that reads memory at
//! random (`millpond load spin`, `--memory 256`). Without hardware counters it says so. Only the two loops are compared with published figures.
//!
//! Without options all published runs are done; `--machine` chooses one of the three, or the real machine.

mod method;
pub mod real;
mod recorder;

use crate::Failure;
use crate::e2::DAEMONS;
use crate::published::{Bench, Choices, Experiment, Findings, Lab, SECONDS, SEEDS, real as number};
use method::{Look, sentence};
use millpond_cli::{Flag, ValueKind};
use millpond_model::{CpuId, Nanos};
use millpond_observe::recording::{self, Recording};
use millpond_report::{Cell, Table};
use recorder::{Pair, Recorder, SPEC, total};
use std::collections::BTreeMap;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "e5",
    options: &[
        Flag::long("machine", "the simulated machine, or real; all three")
            .value("NAME", ValueKind::Word(&["u2i", "e6900", "e25k"])),
        Flag::long("threads", "threads of the application; one for each CPU")
            .value("N", ValueKind::Count(1, 4096)),
        Flag::long("samples", "samples of the application; 3").value("N", ValueKind::Count(1, 1_000)),
        Flag { help: "how many simulated seconds a sample takes; 10 on u2i, else 30", ..SECONDS },
        SEEDS,
    ],
    data: include_str!("published.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |choices| choices.has("threads") || choices.has("seconds"),
    run,
    here: Some(real::run),
};

const CPI: &str = "cycles for an instruction";
/// Number of listed largest samples.
const LARGEST: usize = 10;
const LARGEST_OF: &str = "largest of the samples of single CPUs";
const SPREAD: &str = "largest over least sample";
/// The application is sampled at a random time within this many seconds: two of its longest phases.
const PHASES_S: u64 = 240;
/// Time until caches are warm.
const WARM_UP: Nanos = Nanos::from_secs(1);
/// The machine with the long interconnect, where the bound run is done.
const FAR: &str = "e25k";

/// Results of the application on a machine.
struct Played {
    machine: &'static str,
    mean: f64,
    recording: Recording,
    /// Each sample of each CPU: cycles per instruction, machine, number of the sample, CPU.
    all: Vec<(f64, &'static str, u64, CpuId)>,
}

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let wanted = |name: &str| choices.word("machine").is_none_or(|machine| machine == name);
    if wanted("u2i") {
        loops(lab, choices.number("seconds").unwrap_or(10), findings)?;
    }
    let mut played = Vec::new();
    for machine in ["e6900", FAR] {
        if wanted(machine) {
            played.push(application(lab, machine, choices, findings)?);
        }
    }
    if let [short, long] = played.as_slice() {
        let samples = choices.number("samples").unwrap_or(3);
        let variant =
            if samples == 3 { "mean of three samples".into() } else { format!("mean of {samples} samples") };
        findings.point("e25k over e6900", &variant, long.mean / short.mean);
        let title = format!(
            "recordings of {} (A) and {} (B), as millpond compare shows them",
            short.machine, long.machine
        );
        findings
            .tables
            .push((title, recording::table(&recording::beside(&short.recording, &long.recording))));
    }
    if wanted(FAR) {
        bound(lab, choices, findings)?;
    }
    let all: Vec<_> = played.into_iter().flat_map(|one| one.all).collect();
    if !all.is_empty() {
        findings.tables.push(("samples of single CPUs".into(), spread(&all)));
        findings.tables.push(("the largest samples".into(), table(all)));
    }
    Ok(())
}

/// Runs the two loops, each alone.
fn loops(lab: &mut Lab<'_>, seconds: u64, findings: &mut Findings) -> Result<(), Failure> {
    let mut counted = Vec::new();
    for (workload, name) in [("busyloop", "u2i, busy loop"), ("randmem", "u2i, random memory")] {
        lab.tell(name);
        let bench = lab.open("u2i")?;
        if workload == "busyloop" {
            findings.machines.push(bench.sentence());
        }
        bench.start(workload, "global")?;
        lab.pass(&bench, WARM_UP)?;
        let interval = Nanos::from_secs(seconds);
        let mut recorder = recorder(&bench, &bench.cpus(), interval)?;
        lab.pass(&bench, interval)?;
        let pair = total(&recorder.sample()?);
        if workload == "busyloop" && seconds == 10 {
            findings.point("cycles in 10 s", name, number(pair.cycles) / 1e6);
            findings.point("instructions in 10 s", name, number(pair.instructions) / 1e6);
        }
        findings.point(CPI, name, pair.cpi());
        counted.push((name.to_owned(), pair));
    }
    findings.tables.push((format!("cpustat -nc {SPEC} {seconds} 1"), totals(&counted)));
    Ok(())
}

/// Runs the application on a machine: adds a point for each sample, and the sentence of the method.
fn application(
    lab: &mut Lab<'_>,
    machine: &'static str,
    choices: &Choices,
    findings: &mut Findings,
) -> Result<Played, Failure> {
    let samples = choices.number("samples").unwrap_or(3);
    let interval = sample_of(choices);
    let bench = lab.open(machine)?;
    findings.machines.push(bench.sentence());
    let threads = choices.number("threads").unwrap_or(bench.cpus().len() as u64);
    bench.start(DAEMONS, "global")?;
    let pid = bench.start(&format!("app -t {threads}"), "global")?;
    lab.pass(&bench, WARM_UP + Nanos(lab.second_moment().0 * PHASES_S))?;
    let mut recorder = recorder(&bench, &bench.cpus(), interval)?;
    let look = Look::begin(bench.machine())?;
    let (mut means, mut all) = (Vec::new(), Vec::new());
    for sample in 1..=samples {
        let name = format!("{machine}, sample {sample}");
        lab.tell(&name);
        lab.pass(&bench, interval)?;
        let pairs = recorder.sample()?;
        let cpi = total(&pairs).cpi();
        findings.point(CPI, &name, cpi);
        means.push(cpi);
        let busy = || pairs.iter().filter(|(_, pair)| pair.instructions > 0);
        if let Some(largest) = busy().map(|(_, pair)| pair.cpi()).reduce(f64::max) {
            findings.point(LARGEST_OF, &name, largest);
        }
        all.extend(busy().map(|(cpu, pair)| (pair.cpi(), machine, sample, *cpu)));
    }
    let mean = means.iter().sum::<f64>() / number(samples);
    if samples == 3 {
        let [least, most] = [f64::min, f64::max].map(|of| means.iter().copied().reduce(of).unwrap_or(1.0));
        findings.point(SPREAD, machine, most / least);
    }
    findings.notes.push(sentence(machine, look.end(pid)?, mean));
    Ok(Played { machine, mean, recording: recorder.recording()?, all })
}

/// Runs the application with as many threads as a board has CPUs, unbound and in a set of that board.
fn bound(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let interval = sample_of(choices);
    let mut found = Vec::new();
    for (is_bound, how) in
        [(false, "one board's worth of threads, unbound"), (true, "the same in a set of that board")]
    {
        let name = format!("{FAR}, {how}");
        lab.tell(&name);
        let bench = lab.open(FAR)?;
        let board = board(&bench);
        bench.start(DAEMONS, "global")?;
        let pid = bench.start(&format!("app -t {}", board.len()), "global")?;
        let set = if is_bound { Some(bench.set(&board)?) } else { None };
        if let Some(set) = &set {
            bench.bind(pid, set)?;
        }
        lab.pass(&bench, WARM_UP)?;
        let mut recorder = recorder(&bench, &bench.cpus(), interval)?;
        lab.pass(&bench, interval)?;
        let cpi = total(&recorder.sample()?).cpi();
        findings.point(CPI, &name, cpi);
        found.push(cpi);
    }
    if let [unbound, bound] = found.as_slice() {
        findings.notes.push(format!(
            "{FAR}: a set of one board keeps the threads from moving, and their memory stays where it is: {bound:.2} cycles for an instruction in the set, {unbound:.2} without"
        ));
    }
    Ok(())
}

/// The CPUs of the first board.
fn board(bench: &Bench) -> Vec<CpuId> {
    let processors = bench.topology().processors();
    let first = processors.first().map(|processor| processor.lgroup);
    processors
        .iter()
        .filter(|processor| Some(processor.lgroup) == first)
        .map(|processor| processor.id)
        .collect()
}

fn sample_of(choices: &Choices) -> Nanos {
    Nanos::from_secs(choices.number("seconds").unwrap_or(30))
}

fn recorder<'b>(bench: &'b Bench, cpus: &[CpuId], interval: Nanos) -> Result<Recorder<'b>, Failure> {
    Recorder::begin(bench.machine(), bench.topology(), cpus, interval)
}

/// Counts of the loops, and the published ones, which have other lengths: only the last column is comparable.
fn totals(counted: &[(String, Pair)]) -> Table {
    let mut table = Table::of(&["loop"], &["pic0", "pic1", CPI]);
    let published = PUBLISHED.map(|(name, pair)| (format!("{name}, published"), pair));
    for (name, pair) in counted.iter().chain(&published) {
        let count = |value| Cell::Count(value);
        table.row([
            name.as_str().into(),
            count(pair.cycles),
            count(pair.instructions),
            (pair.cpi(), 2).into(),
        ]);
    }
    table
}

/// The published lines of `cpustat`.
const PUBLISHED: [(&str, Pair); 2] = [
    ("u2i, busy loop", Pair { cycles: 3_554_903_403, instructions: 3_279_712_368 }),
    ("u2i, random memory", Pair { cycles: 205_607_856, instructions: 34_023_849 }),
];

/// The minimum, median and maximum over CPUs of each sample.
fn spread(all: &[(f64, &str, u64, CpuId)]) -> Table {
    let mut of_each: BTreeMap<(&str, u64), Vec<f64>> = BTreeMap::new();
    for (cpi, machine, sample, _) in all {
        of_each.entry((machine, *sample)).or_default().push(*cpi);
    }
    let mut table = Table::of(&["machine"], &["sample", "CPUs", "least", "median", "largest"]);
    for ((machine, sample), mut cpis) in of_each {
        cpis.sort_by(f64::total_cmp);
        let at = |part: usize| Cell::Real(cpis[(cpis.len() - 1) * part / 2], 2);
        table.row([Cell::from(machine), sample.into(), (cpis.len() as u64).into(), at(0), at(1), at(2)]);
    }
    table
}

fn table(mut largest: Vec<(f64, &str, u64, CpuId)>) -> Table {
    largest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut table = Table::of(&["machine"], &["sample", "processor", CPI]);
    for (cpi, machine, sample, cpu) in largest.into_iter().take(LARGEST) {
        table.row([Cell::from(machine), sample.into(), cpu.to_string().into(), (cpi, 2).into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_counts_give_the_published_cycles() {
        let published = EXPERIMENT.published();
        for (name, pair) in PUBLISHED {
            let figure = published.figure(CPI, name).unwrap();
            assert!((pair.cpi() - figure.value).abs() < 0.005, "{name}: {}", pair.cpi());
        }
    }
}
