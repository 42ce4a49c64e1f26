//! E6: timer wake-up latency of a real-time thread in a set of its own, under a load of thousands of other threads.
//!
//! # Claim
//!
//! On a CPU without interrupts and other threads, a program in the real-time class answers a timer within some
//! microseconds, independent of the load on other CPUs: of 320 million samples 300 took 13 us or more, and none more than about 30.
//!
//! # Method
//!
//! ```text
//!   1  hackbench at fixed priority 0 on the idle machine: its run time
//!   2  the same during a build, with latstat in a set of one CPU without interrupts, in RT at level 5: run time,
//!      load average over the whole run including the start of its processes, mpstat, and the latencies
//!   3  latstat in the same place for --samples, without the load, which does not affect it
//! ```
//!
//! Samples are delayed by cross calls of the kernel to all CPUs, which are rare. In 3 they are made as many times more frequent as
//! one sample represents published ones, and delayed samples get a correspondingly smaller weight. So as many samples are late as in the
//! published runs of 320 and 517 million, and the maximum is that of as many samples. The two runs differ only in their random numbers.
//!
//! The histogram is of the last stage, from the timer's due time until the program is back in user mode.
//!
//! With `--machine real` latstat measures on the real machine, for `--samples` (100000), and its results are compared with
//! the published ones. The machine is shared: no thread is evicted, no interrupt is moved, and no load is started; the report
//! lists other threads that ran on the CPU. `millpond latstat` measures on a CPU of its own.

pub mod real;

use crate::Failure;
use crate::published::{Bench, Choices, Experiment, Findings, Lab, SEED, SEEDS, mean, mpstat, real};
use crate::sets::{MadeSet, Shelter};
use millpond_cli::{Flag, ValueKind};
use millpond_machine::Writer;
use millpond_machine::facets::WatchOptions;
use millpond_model::{ClassRequest, Column, CpuId, Nanos, Pid, Quantum};
use millpond_observe::Rates;
use millpond_report::Table;
use std::collections::BTreeMap;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "e6",
    options: &[
        Flag::long("samples", "samples of each long run; 1000000").value("N", ValueKind::Count(1_000, 1_000_000_000)),
        Flag::long("groups", "groups of hackbench; 240").value("N", ValueKind::Count(1, 1_000)),
        Flag::long("loops", "of hackbench's 100 messages how many are simulated; the time counts as often as that goes into 100; 100").value("N", ValueKind::Count(1, 100)),
        Flag::long("only", "one of hackbench and samples; both").value("PART", ValueKind::Word(&PARTS)),
        SEED,
        SEEDS,
    ],
    data: include_str!("published.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |choices| choices.number("groups").is_some_and(|groups| groups != GROUPS),
    run,
    here: Some(real::run),
};

const MACHINE: &str = "x4200";
const PARTS: [&str; 2] = ["hackbench", "samples"];
const GROUPS: u64 = 240;
/// Messages of a sender to a receiver.
const LOOPS: u64 = 100;
/// Samples from this latency on were delayed.
const DELAYED_NS: u64 = 5_000;
/// Samples from this latency until [`LATEST_NS`] were counted in the published run of 517 million.
const LATER_NS: u64 = 7_000;
const LATEST_NS: u64 = 32_000;
/// Samples from this latency on are late.
const LATE_NS: u64 = 13_000;
/// The run time of hackbench.
const HACKBENCH: &str = "hackbench";
/// The quantities of mpstat under load, then those of long runs.
const OWN_CPU: &str = "mpstat of latstat's CPU";
const OTHER_CPUS: &str = "mpstat of the other CPUs";
const OTHER_TIME: &str = "time of the other CPUs";
const LATE: &str = "samples of 13 us and more";
const BODY: &str = "samples of 5 us and more";
const TAIL: &str = "samples of 7 to 32 us";
const WORST: &str = "worst sample";
/// Maximum of the workload's option.
const BOOST_MAX: u64 = 10_000;
/// Number of seeds: a run is slow, and the result for 9,600 threads is hardly random.
const HACKBENCH_SEEDS: u64 = 3;
/// Polling interval.
const LOOK: Nanos = Nanos::from_millis(100);
/// Timeout of hackbench.
const PATIENCE: Nanos = Nanos::from_secs(600);
/// Long runs, with the samples that they represent. Each has its own random numbers.
const LONG_RUNS: [(&str, u64); 2] = [("320 million", 320_000_000), ("517 million", 517_000_000)];

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let groups = choices.number("groups").unwrap_or(GROUPS);
    let wanted = |part: &str| choices.word("only").is_none_or(|only| only == part);
    findings.machines.push(lab.open(MACHINE)?.sentence());
    let first = choices.number(SEED.long.unwrap_or_default()).unwrap_or(1);
    if wanted("hackbench") && lab.seed().wrapping_sub(first) < HACKBENCH_SEEDS {
        let loops = choices.number("loops").unwrap_or(LOOPS);
        let variant = format!("{groups} groups, alone");
        lab.tell(&format!("hackbench, {variant}"));
        let bench = lab.open(MACHINE)?;
        let seconds = hackbench(lab, &bench, groups, loops, &mut || Ok(()))?;
        findings.point(HACKBENCH, &variant, seconds);
        loaded(lab, groups, loops, findings)?;
        findings.notes.push(format!("hackbench is done with the first {HACKBENCH_SEEDS} seeds at most"));
    }
    if wanted("samples") {
        let samples = choices.number("samples").unwrap_or(1_000_000);
        for (name, stands_for) in LONG_RUNS {
            let boost = (stands_for / samples).clamp(1, BOOST_MAX);
            let seed = lab.seed().wrapping_add(stands_for);
            long_run(lab, name, samples, boost, seed, findings)?;
        }
    }
    Ok(())
}

/// Runs hackbench at fixed priority 0 until it ends, with a callback each tenth of a second; returns seconds.
fn hackbench(
    lab: &Lab<'_>,
    bench: &Bench,
    groups: u64,
    loops: u64,
    look: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let pid = start_hackbench(bench, groups, loops)?;
    let begun = hackbench_begins(lab, bench, pid, LOOK, look)?;
    let passed = || bench.machine().clock().now() - begun;
    while !bench.simulation()?.run_until_ended(pid, LOOK) {
        lab.pass(bench, Nanos(0))?;
        look()?;
        if passed() >= PATIENCE {
            return Err(Failure::Machine(format!("hackbench did not end within {PATIENCE}")));
        }
    }
    Ok(passed().as_secs_f64() * real(LOOPS) / real(loops))
}

/// Waits until a simulated hackbench has started all its processes and begins to count. Returns that time, at most one polling interval late.
pub(crate) fn hackbench_begins(
    lab: &Lab<'_>,
    bench: &Bench,
    pid: Pid,
    every: Nanos,
    look: &mut dyn FnMut() -> Result<(), Failure>,
) -> Result<Nanos, Failure> {
    let clock = bench.machine().clock();
    let latest = clock.now() + PATIENCE;
    while bench.simulation()?.operations(pid) == 0 {
        if clock.now() >= latest {
            return Err(Failure::Machine(format!("hackbench did not begin within {PATIENCE}")));
        }
        lab.pass(bench, every)?;
        look()?;
    }
    Ok(clock.now())
}

fn start_hackbench(bench: &Bench, groups: u64, loops: u64) -> Result<Pid, Failure> {
    let pid = bench.start(&format!("hackbench {groups} -l {loops}"), "global")?;
    // Fixed priority 0, maximum 0.
    let request = ClassRequest::Fx { uprilim: Some(0), upri: Some(0), quantum: None };
    reclass(bench, pid, &request)?;
    Ok(pid)
}

fn reclass(bench: &Bench, pid: Pid, request: &ClassRequest) -> Result<(), Failure> {
    let machine = bench.machine();
    let what = "change the class of a process";
    let dispatcher = machine.dispatcher().map_err(Failure::NotHere)?;
    let writer = Writer::open(machine).map_err(Failure::refused(what))?;
    let change = dispatcher.prepare_class(pid, request).map_err(Failure::refused(what))?;
    writer.commit(change).map_err(Failure::refused(what)).map(drop)
}

/// Places latstat: a set of the last CPU, without interrupts, in the real-time class. Returns the guards of the placement.
fn place<'b>(bench: &'b Bench, words: &str) -> Result<(MadeSet<'b>, Shelter<'b>), Failure> {
    let cpu = *bench.cpus().last().unwrap_or(&CpuId(0));
    let set = bench.set(&[cpu])?;
    let shelter = Shelter::make(bench.machine(), &[cpu], &mut |_| ())?;
    let pid = bench.start(words, "global")?;
    bench.bind(pid, &set)?;
    let fifo = ClassRequest::Rt { pri: Some(5), quantum: Some(Quantum::Infinite), tqsig: None };
    reclass(bench, pid, &fifo)?;
    Ok((set, shelter))
}

/// Runs hackbench during a build and latstat: its run time, the number of threads that run or wait, and the latencies.
///
/// The published load was kept up for days, by running hackbench repeatedly. A load average is exponential: over all of
/// a periodic load its mean is that of the threads.
fn loaded(lab: &mut Lab<'_>, groups: u64, loops: u64, findings: &mut Findings) -> Result<(), Failure> {
    let variant = format!("{groups} groups, beside a build");
    lab.tell(&format!("hackbench, {variant}"));
    let bench = lab.open(MACHINE)?;
    let (set, shelter) = place(&bench, "latstat")?;
    bench.start("build --files 10000", "global")?;
    let counters = bench.machine().counters().map_err(Failure::NotHere)?;
    let mut watch = counters.watch(WatchOptions::default()).map_err(Failure::NotHere)?;
    let before = watch.sample().map_err(Failure::refused("count"))?;
    let mut looks = Vec::new();
    let seconds = hackbench(lab, &bench, groups, loops, &mut || {
        looks.push(real(bench.simulation()?.runnable()));
        Ok(())
    })?;
    findings.point(HACKBENCH, &variant, seconds);
    // With fewer messages the start takes too large a part.
    if loops == LOOPS {
        findings.point("load average", &variant, mean(&looks));
    }
    let after = watch.sample().map_err(Failure::refused("count"))?;
    let frame = Rates::between(&before, &after);
    beside_load(&frame, findings);
    findings.tables.push(("mpstat beside the load; latstat is on the last CPU".into(), mpstat(&frame)));
    findings.tables.push(("threads that run or wait beside the load, on average".into(), by_tenths(&looks)));
    histogram(&bench, 1, "samples of latstat beside the load", findings)?;
    drop((set, shelter));
    Ok(())
}

/// The figures of mpstat for latstat's CPU, the last one, and for the others, of which the minimum and the maximum were published.
fn beside_load(frame: &Rates, findings: &mut Findings) {
    let Some((own, others)) = frame.cpus.split_last() else { return };
    for column in [Column::Intr, Column::Ithr, Column::Csw, Column::Syscl] {
        if let Some(rate) = own.interval.rate(column) {
            findings.point(OWN_CPU, column.word(), rate);
        }
    }
    for column in [Column::Intr, Column::Csw, Column::Icsw, Column::Migr, Column::Syscl] {
        let rates = || others.iter().filter_map(|cpu| cpu.interval.rate(column));
        for (which, of) in [("least", f64::min as fn(f64, f64) -> f64), ("most", f64::max)] {
            if let Some(rate) = rates().reduce(of) {
                findings.point(OTHER_CPUS, &format!("{}, {which}", column.word()), rate);
            }
        }
    }
    let (usr, sys): (Vec<f64>, Vec<f64>) = others
        .iter()
        .map(|cpu| cpu.interval.shares().without_steal())
        .map(|shares| (shares.user, shares.sys))
        .unzip();
    findings.point(OTHER_TIME, "usr, mean", mean(&usr));
    findings.point(OTHER_TIME, "sys, mean", mean(&sys));
}

/// The mean of each tenth of a run.
fn by_tenths(looks: &[f64]) -> Table {
    let mut table = Table::of(&[], &["tenth of the run", "threads"]);
    let at = |tenth: usize| looks.len() * tenth / 10;
    for (tenth, number) in (0..10).zip(1u64..) {
        table.row([number.into(), (mean(&looks[at(tenth)..at(tenth + 1)]), 0).into()]);
    }
    table
}

/// A long run without load.
fn long_run(
    lab: &mut Lab<'_>,
    name: &str,
    samples: u64,
    boost: u64,
    seed: u64,
    findings: &mut Findings,
) -> Result<(), Failure> {
    lab.tell(&format!("latstat: {samples} samples for {name}"));
    let bench = lab.open(MACHINE)?;
    bench.simulation()?.set_seed(seed);
    let (set, shelter) = place(&bench, &format!("latstat --boost {boost}"))?;
    let mut done = 0;
    while done < samples {
        // A sample takes about a millisecond.
        lab.pass(&bench, Nanos::from_millis((samples - done).clamp(10, 10_000)))?;
        done = last_stage(&bench)?.values().sum();
    }
    let stage = last_stage(&bench)?;
    let from = |least: u64| stage.range(least..).map(|(_, count)| count).sum::<u64>();
    let in_a_million = |count: u64| real(count) * 1e6 / real(done) / real(boost);
    let worst = stage.last_key_value().map_or(0, |(time, _)| *time);
    findings.point(BODY, name, in_a_million(from(DELAYED_NS)));
    findings.point(TAIL, name, in_a_million(from(LATER_NS) - from(LATEST_NS)));
    findings.point(LATE, name, in_a_million(from(LATE_NS)));
    findings.point(WORST, name, real(worst) / 1e3);
    histogram(
        &bench,
        boost,
        &format!("samples of latstat for {name}, the rare ones {boost} times as often"),
        findings,
    )?;
    drop((set, shelter));
    Ok(())
}

/// Median latency of a placed simulated latstat over this many samples, in microseconds.
pub(crate) fn median_us(lab: &Lab<'_>, bench: &Bench, samples: u64) -> Result<f64, Failure> {
    let (set, shelter) = place(bench, "latstat")?;
    // A sample takes about a millisecond.
    lab.pass(bench, Nanos::from_millis(samples))?;
    let stage = last_stage(bench)?;
    let half = stage.values().sum::<u64>().div_ceil(2);
    let mut below = 0;
    let reaches_half = |(_, count): &(&u64, &u64)| {
        below += **count;
        below >= half
    };
    let median = stage.iter().find(reaches_half).map_or(0, |(time, _)| *time);
    drop((set, shelter));
    Ok(real(median) / 1e3)
}

fn last_stage(bench: &Bench) -> Result<BTreeMap<u64, u64>, Failure> {
    let logs = bench.simulation()?.logs();
    Ok(logs.first().and_then(|log| log.last()).cloned().unwrap_or_default())
}

/// A histogram of samples by whole microseconds.
fn histogram(bench: &Bench, boost: u64, title: &str, findings: &mut Findings) -> Result<(), Failure> {
    let stage = last_stage(bench)?;
    let (all, mut by_us) = (stage.values().sum::<u64>(), BTreeMap::<u64, u64>::new());
    for (time, count) in stage {
        *by_us.entry(time / 1_000).or_default() += count;
    }
    let mut table = Table::of(&[], &["us", "samples", "in a million, weighed"]);
    let usual = by_us.iter().max_by_key(|(_, count)| **count).map(|(us, _)| *us);
    for (us, count) in by_us {
        let weight = if Some(us) == usual { 1.0 } else { real(boost) };
        let share = real(count) * 1e6 / real(all.max(1)) / weight;
        table.row([us.into(), count.into(), (share, 3).into()]);
    }
    findings.tables.push((title.to_owned(), table));
    Ok(())
}
