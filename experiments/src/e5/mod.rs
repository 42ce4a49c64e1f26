//! Cycles for an instruction: what counters of cycles and instructions say about memory.
//!
//! # Claim
//!
//! A loop that stays in the core needs about a cycle for an instruction, one that is all over memory six. One application, all of it in user
//! mode and without contention, needs twice as many cycles on a machine of six boards with a long interconnect as on one with
//! a short one: what it waits for is memory.
//!
//! # Conditions
//!
//! On `u2i` each loop runs alone for ten seconds. On `e6900` and `e25k` the application has a thread for each of the 48 processors,
//! and is sampled for 30 s at a time. Counters count user mode, as `cpustat` does by itself. The ten largest samples of single
//! processors are shown beneath.
//!
//! Without options all that was published is done; `--machine` chooses one of the three.

use crate::Failure;
use crate::published::{Bench, Choices, Experiment, Findings, Kind, Lab, Opt, SECONDS, real};
use millpond_model::{CpuId, Nanos};
use millpond_report::{Align, Cell, Table};
use millpond_session::Executed;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "e5",
    options: &[
        Opt {
            name: "machine",
            value: "NAME",
            summary: "the simulated machine; all three",
            kind: Kind::Word(&["u2i", "e6900", "e25k"]),
        },
        Opt {
            name: "threads",
            value: "N",
            summary: "threads of the application; one for each processor",
            kind: Kind::Count(1, 4096),
        },
        Opt {
            name: "samples",
            value: "N",
            summary: "samples of the application; 3",
            kind: Kind::Count(1, 1_000),
        },
        Opt { summary: "how many simulated seconds a sample takes; 10 on u2i, else 30", ..SECONDS },
    ],
    data: include_str!("published.json"),
    source: include_str!("mod.rs"),
    departs: |choices| choices.has("threads") || choices.has("seconds"),
    run,
};

const CPI: &str = "cycles for an instruction";
/// How many of the largest samples are shown.
const LARGEST: usize = 10;
/// Until caches are warm.
const WARM_UP: Nanos = Nanos::from_secs(1);

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let wanted = |name: &str| choices.word("machine").is_none_or(|machine| machine == name);
    if wanted("u2i") {
        loops(lab, choices.number("seconds").unwrap_or(10), findings)?;
    }
    let mut means = Vec::new();
    let mut largest: Vec<(f64, &str, u64, CpuId)> = Vec::new();
    for machine in ["e6900", "e25k"] {
        if wanted(machine) {
            means.push(application(lab, machine, choices, findings, &mut largest)?);
        }
    }
    if let [short, long] = means.as_slice() {
        let samples = choices.number("samples").unwrap_or(3);
        let variant =
            if samples == 3 { "mean of three samples".into() } else { format!("mean of {samples} samples") };
        findings.point("e25k over e6900", &variant, long / short);
    }
    if !largest.is_empty() {
        findings.tables.push(("the largest samples".into(), table(largest)));
    }
    Ok(())
}

/// The two loops, each alone.
fn loops(lab: &mut Lab<'_>, seconds: u64, findings: &mut Findings) -> Result<(), Failure> {
    for (workload, name) in [("busyloop", "u2i, busy loop"), ("randmem", "u2i, random memory")] {
        lab.tell(name);
        let bench = lab.open("u2i")?;
        if workload == "busyloop" {
            findings.machines.push(bench.sentence());
        }
        bench.start(workload, "global")?;
        lab.pass(&bench, WARM_UP)?;
        let before = bench.simulation()?.executed();
        lab.pass(&bench, Nanos::from_secs(seconds))?;
        let done = since(&before, &bench.simulation()?.executed());
        let (cycles, instructions) = totals(&bench, &done);
        if workload == "busyloop" && seconds == 10 {
            findings.point("cycles in 10 s", name, cycles / 1e6);
            findings.point("instructions in 10 s", name, instructions / 1e6);
        }
        findings.point(CPI, name, cycles / instructions);
    }
    Ok(())
}

/// The application on a machine: a point for each sample. Gives their mean.
fn application(
    lab: &mut Lab<'_>,
    machine: &'static str,
    choices: &Choices,
    findings: &mut Findings,
    largest: &mut Vec<(f64, &'static str, u64, CpuId)>,
) -> Result<f64, Failure> {
    let samples = choices.number("samples").unwrap_or(3);
    let bench = lab.open(machine)?;
    findings.machines.push(bench.sentence());
    let threads = choices.number("threads").unwrap_or(bench.cpus().len() as u64);
    bench.start(&format!("app -t {threads}"), "global")?;
    lab.pass(&bench, WARM_UP)?;
    let mut sum = 0.0;
    for sample in 1..=samples {
        let name = format!("{machine}, sample {sample}");
        lab.tell(&name);
        let before = bench.simulation()?.executed();
        lab.pass(&bench, Nanos::from_secs(choices.number("seconds").unwrap_or(30)))?;
        let done = since(&before, &bench.simulation()?.executed());
        let (cycles, instructions) = totals(&bench, &done);
        findings.point(CPI, &name, cycles / instructions);
        sum += cycles / instructions;
        let busy = done.iter().filter(|(_, one)| one.user_instructions > 0);
        largest.extend(busy.map(|(cpu, one)| {
            let (cycles, instructions) = totals(&bench, &[(*cpu, *one)]);
            (cycles / instructions, machine, sample, *cpu)
        }));
    }
    Ok(sum / real(samples))
}

/// What each processor did between two looks.
fn since(before: &[(CpuId, Executed)], after: &[(CpuId, Executed)]) -> Vec<(CpuId, Executed)> {
    let pairs = before.iter().zip(after);
    pairs
        .map(|((cpu, b), (_, a))| {
            let user_instructions = a.user_instructions - b.user_instructions;
            (*cpu, Executed { user: a.user - b.user, user_instructions })
        })
        .collect()
}

/// Cycles and instructions in user mode of all these together.
fn totals(bench: &Bench, done: &[(CpuId, Executed)]) -> (f64, f64) {
    let mhz = bench.topology().processors().first().and_then(|p| p.clock_mhz).unwrap_or(1_000);
    let user: u64 = done.iter().map(|(_, one)| one.user.0).sum();
    let instructions: u64 = done.iter().map(|(_, one)| one.user_instructions).sum();
    (real(user) * real(mhz) / 1e3, real(instructions))
}

fn table(mut largest: Vec<(f64, &str, u64, CpuId)>) -> Table {
    largest.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut table = Table::new(&[
        ("machine", Align::Left),
        ("sample", Align::Right),
        ("processor", Align::Right),
        (CPI, Align::Right),
    ]);
    for (cpi, machine, sample, cpu) in largest.into_iter().take(LARGEST) {
        table.row([Cell::from(machine), sample.into(), cpu.to_string().into(), (cpi, 2).into()]);
    }
    table
}
