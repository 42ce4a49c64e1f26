//! E5 on a real machine with hardware counters: a loop that stays in the core, and one that reads memory at random.

use super::recorder::{Pair, Recorder, SPEC, total};
use super::{CPI, totals};
use crate::here::Here;
use crate::published::{Choices, Findings};
use crate::{Failure, ground};
use millpond_machine::{Absent, Machine};
use millpond_model::{CpuId, Nanos, Topology};
use millpond_observe::recording::{Recording, beside, table};
use millpond_session::Kind;

/// Default length of a sample in seconds.
const SECONDS: u64 = 10;
/// MiB that each thread reads at random: more than any cache holds.
const MEMORY_MIB: u64 = 256;
/// Time until memory has been written once and caches are warm.
const WARM_UP: Nanos = Nanos::from_secs(1);

/// Runs the experiment.
///
/// # Errors
/// [`Failure::NotHere`] without counters; otherwise [`Failure`]. All changes are undone.
pub fn run(here: &mut Here<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let machine = here.machine();
    if here.session.kind() != Kind::Real {
        let why = format!("machine {} runs no programs of ours", machine.name());
        return Err(Failure::NotHere(Absent::because(why)));
    }
    machine.hardware_counters().and_then(|counters| counters.hardware()).map_err(Failure::NotHere)?;
    let processors = machine.processors().map_err(Failure::NotHere)?;
    let topology = processors.topology().map_err(Failure::refused("read CPUs"))?;
    let (facts, cpus) = ground::read(here.session)?;
    findings.machines.push(facts.text());
    let samples = choices.number("samples").unwrap_or(1);
    let interval = Nanos::from_secs(choices.number("seconds").unwrap_or(SECONDS));
    let threads = choices.number("threads").unwrap_or(cpus.len() as u64);
    let (mut counted, mut recordings) = (Vec::new(), Vec::new());
    for (name, memory) in [("busy loop", String::new()), ("random memory", format!(" --memory {MEMORY_MIB}"))]
    {
        (here.tell)(name);
        let mut program = here.ready(name, &format!("spin --threads {threads}{memory}"), |_| Ok(()))?;
        here.begin(&mut program)?;
        here.wait(machine.clock().now() + WARM_UP)?;
        let (pair, recording) =
            count(machine, &topology, &cpus, (interval, samples), &mut |until| here.wait(until))?;
        here.end(program)?;
        findings.point(CPI, &format!("this machine, {name}"), pair.cpi());
        counted.push((format!("this machine, {name}"), pair));
        recordings.push(recording);
    }
    let title = format!("cpustat -nc {SPEC} {} {samples}", interval.as_secs_f64());
    findings.tables.push((title, totals(&counted)));
    if let [busy, random] = recordings.as_slice() {
        let title = "the busy loop (A) and random memory (B), as millpond compare shows them";
        findings.tables.push((title.into(), table(&beside(busy, random))));
    }
    findings.notes.push("what else runs on these CPUs is counted, too: user mode of all programs".into());
    Ok(())
}

/// Counts on these CPUs for this many samples of a given length; `wait` sleeps until a time.
fn count(
    machine: &dyn Machine,
    topology: &Topology,
    cpus: &[CpuId],
    (interval, samples): (Nanos, u64),
    wait: &mut dyn FnMut(Nanos) -> Result<(), Failure>,
) -> Result<(Pair, Recording), Failure> {
    let mut recorder = Recorder::begin(machine, topology, cpus, interval)?;
    let (mut due, mut sum) = (machine.clock().now(), Pair::default());
    for _ in 0..samples {
        due = due + interval;
        wait(due)?;
        let sample = total(&recorder.sample()?);
        sum =
            Pair { cycles: sum.cycles + sample.cycles, instructions: sum.instructions + sample.instructions };
    }
    Ok((sum, recorder.recording()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::Lab;
    use std::sync::atomic::AtomicBool;

    /// 360 MHz, 1.08 cycles per instruction: a simulated machine stands in for any machine with counters.
    #[test]
    fn counts_of_a_loop_are_recorded_on_any_machine_with_counters() {
        let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
        let lab = Lab::new(&stop, Vec::new(), &mut quiet);
        let bench = lab.open("u2i").unwrap();
        bench.start("busyloop", "global").unwrap();
        lab.pass(&bench, WARM_UP).unwrap();
        let clock = bench.machine().clock();
        let mut wait = |until| {
            clock.sleep_until(until);
            Ok(())
        };
        let sizes = (Nanos::from_secs(2), 3);
        let (pair, recording) =
            count(bench.machine(), bench.topology(), &bench.cpus(), sizes, &mut wait).unwrap();
        assert!((pair.cpi() - 1.08).abs() < 1e-6, "{pair:?}");
        assert!(pair.cycles.abs_diff(6 * 360_000_000) < 1_000, "{pair:?}");
        assert_eq!((recording.machine.as_str(), recording.cpus, recording.samples), ("u2i", 1, 3));
    }
}
