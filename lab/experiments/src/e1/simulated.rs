//! Processor sets and interrupts, on a simulated machine.
//!
//! # Claim
//!
//! CPUs of a set that takes no interrupts are idle while nothing runs in it. The network's interrupts are elsewhere, even when the
//! stream that causes them runs inside. Then CPUs of such a set are only interrupted by other CPUs.
//!
//! # Method
//!
//! ```text
//!   phase 1   every CPU takes interrupts; the stream runs anywhere
//!   phase 2   a set of the first half of the CPUs, without interrupts; the stream runs outside
//!   phase 3   the stream runs inside
//! ```
//!
//! Each phase starts a new stream, with `mpstat`. Afterwards the CPUs take interrupts again and the set is destroyed: all are
//! on-line, and those of the set have new times.

use super::roles::observed;
use crate::Failure;
use crate::published::{Bench, Choices, Experiment, Findings, Lab, SECONDS, SEEDS, mpstat};
use crate::sets::Shelter;
use millpond_cli::{Flag, ValueKind};
use millpond_machine::facets::{Method, WatchOptions};
use millpond_model::{Column, CpuId, CpuSet, Nanos};
use millpond_observe::Rates;
use millpond_session::{SIMULATED, rate};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "e1",
    options: &[
        Flag::long("machine", "the simulated machine, t2000 or another one with a network")
            .value("NAME", ValueKind::Word(&SIMULATED)),
        Flag::long("phase", "which of the three; all").value("N,...", ValueKind::Counts(1, 3)),
        Flag::long("processors", "how many CPUs the set has; half of them")
            .value("N", ValueKind::Count(1, 4096)),
        Flag { help: "how many simulated seconds each phase is measured; 10", ..SECONDS },
        SEEDS,
    ],
    data: include_str!("simulated.json"),
    source: millpond_cli::head!(include_str!("simulated.rs")),
    departs: |choices| {
        choices.word("machine").is_some_and(|machine| machine != MACHINE) || choices.has("processors")
    },
    run,
    here: None,
};

const MACHINE: &str = "t2000";
/// Time until windows are full and all threads have a place.
const WARM_UP: Nanos = Nanos::from_secs(1);

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let phases = choices.numbers("phase").unwrap_or(&[1, 2, 3]);
    let mut both = Vec::new();
    for phase in phases {
        both.push((*phase, play(lab, choices, *phase, findings)?));
    }
    let speed = |wanted: u64| both.iter().find(|(phase, _)| *phase == wanted).map(|(_, speed)| *speed);
    if let Some((one, two)) = speed(1).zip(speed(2)) {
        findings.point("stream, phase 2 over 1", "both ways", two / one);
    }
    Ok(())
}

/// Runs a phase, adds its points, and returns the stream's speed, the sum of both directions, in Mbit/s.
fn play(lab: &mut Lab<'_>, choices: &Choices, phase: u64, findings: &mut Findings) -> Result<f64, Failure> {
    let name = format!("phase {phase}");
    lab.tell(&name);
    let bench = lab.open(choices.word("machine").unwrap_or(MACHINE))?;
    if findings.machines.is_empty() {
        findings.machines.push(bench.sentence());
    }
    let cpus = bench.cpus();
    let half =
        choices.number("processors").map_or(cpus.len() / 2, |n| usize::try_from(n).unwrap_or(usize::MAX));
    bench.needs_two()?;
    if half == 0 || half >= cpus.len() {
        let why = format!(
            "machine {} has {} CPUs: a set has from 1 to {} of them",
            bench.name(),
            cpus.len(),
            cpus.len() - 1
        );
        return Err(Failure::Machine(why));
    }
    let inside: Vec<CpuId> = cpus.into_iter().take(half).collect();
    let set = if phase > 1 { Some(bench.set(&inside)?) } else { None };
    let shelter = match phase {
        1 => None,
        _ => Some(Shelter::make(bench.machine(), &inside, &mut |_| ())?),
    };
    let stream = bench.start("iperf", "global")?;
    if let (Some(set), 3) = (&set, phase) {
        bench.bind(stream, set)?;
    }
    let seconds = choices.number("seconds").unwrap_or(10);
    let counters = bench.machine().counters().map_err(Failure::NotHere)?;
    let mut watch = counters.watch(WatchOptions::default()).map_err(Failure::NotHere)?;
    let sampler = bench.machine().sampler().map_err(Failure::NotHere)?;
    lab.pass(&bench, WARM_UP)?;
    let mut sightings = sampler.watch(&[stream], Method::Sample(100)).map_err(Failure::NotHere)?;
    let done_before = bench.simulation()?.operations_by_thread(stream);
    let before = watch.sample().map_err(Failure::refused("count"))?;
    lab.pass(&bench, Nanos::from_secs(seconds))?;
    let after = watch.sample().map_err(Failure::refused("count"))?;
    let done = bench.simulation()?.operations_by_thread(stream);
    let seen = sightings.collect().map_err(Failure::refused("watch where the stream runs"))?;
    let seen = seen.sightings.into_iter().max_by_key(|sighting| sighting.time).map(|most| most.cpu);
    let frame = Rates::between(&before, &after);
    let speeds: Vec<f64> = done
        .iter()
        .zip(&done_before)
        .filter_map(|(after, before)| rate("iperf", after - before, Nanos::from_secs(seconds)))
        .collect();
    let [out_mbits, in_mbits] = [0, 1].map(|at| speeds.get(at).copied().unwrap_or(0.0));
    let members: CpuSet = if phase > 1 { inside.iter().copied().collect() } else { CpuSet::new() };
    let figures = observed(&frame, &members, seen);
    findings.point("stream out", &name, out_mbits);
    findings.point("stream in", &name, in_mbits);
    let (network, of_set) = (&figures.network, &figures.set);
    for (quantity, value) in [
        ("network's CPU: intr", network.intr),
        ("network's CPU: ithr", network.ithr),
        ("network's CPU: xcal", network.xcal),
        ("network's CPU: sys", network.sys),
        ("set: intr, most", of_set.intr_most),
        ("set: csw, most", of_set.csw_most),
        ("set: idl, least", of_set.idl_least),
    ] {
        if let Some(value) = value {
            findings.point(quantity, &name, value);
        }
    }
    findings.tables.push((format!("mpstat of {name}, per second"), mpstat(&frame)));
    if phase == 3 {
        findings.notes.push(why(&frame, &members));
    }
    drop((shelter, set));
    if phase == 2 {
        findings.notes.push(afterwards(&bench, &members)?);
    }
    Ok(out_mbits + in_mbits)
}

/// The causes of interrupts on CPUs that take no device interrupts.
fn why(frame: &Rates, members: &CpuSet) -> String {
    let inside = || frame.cpus.iter().filter(|cpu| members.contains(cpu.cpu));
    let total = |column| inside().filter_map(|cpu| cpu.interval.rate(column)).sum::<f64>();
    let (all, threads) = (total(Column::Intr), total(Column::Ithr));
    let own = inside().fold(0.0, |sum, _| sum + 1.0);
    format!(
        "why CPUs of a set without interrupts show some: of {all:.0} a second inside, {own:.0} are each CPU's own look \
         whether the clock still ticks, {threads:.0} are of devices, and {:.0} are calls of other CPUs that wake a thread there",
        all - own - threads
    )
}

/// The published experiment ends with a listing: all CPUs on-line, with new times only on the set's CPUs.
fn afterwards(bench: &Bench, members: &CpuSet) -> Result<String, Failure> {
    let processors = bench.machine().processors().map_err(Failure::NotHere)?;
    let states = processors.states().map_err(Failure::refused("read CPUs"))?;
    let on_line = states.iter().all(|status| status.state == millpond_model::State::OnLine);
    let booted = bench.machine().clock().booted();
    let renewed: CpuSet =
        states.iter().filter(|status| status.since != booted).map(|status| status.cpu).collect();
    let renewed_only = if renewed == *members { "the set's CPUs alone" } else { "others" };
    let all = if on_line { "all CPUs are on-line" } else { "not all CPUs are on-line" };
    Ok(format!("afterwards {all}, with new times on {renewed}: {renewed_only}"))
}
