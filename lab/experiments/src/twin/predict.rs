//! The arms on the twin.

use super::{Arm, GROUPS, LOOPS, SAMPLES, Spread, mops, seconds, seeds};
use crate::Failure;
use crate::demo::{Home, plan_homes};
use crate::e6;
use crate::published::{Bench, Choices, Lab, mean, real};
use millpond_model::{CpuId, Nanos, Pid};
use millpond_session::NoSuchProcess;
use serde_json::Value;

/// Run time of jobs before they are counted.
const SETTLING: Nanos = Nanos::from_millis(300);
/// Jobs begin at a random time within this many microseconds after boot.
const BEFORE_US: u64 = 100_000;
/// Delay of the second job's start after the first one's, in microseconds: at least until the first has begun, and at most a
/// turn, because the process that starts both may lose its CPU to the first.
const APART_US: std::ops::Range<u64> = 100..5_000;
/// Maximum delay in noticing that hackbench begins.
const LOOK: Nanos = Nanos::from_millis(1);
/// Longer than any hackbench here.
const LONGEST: Nanos = Nanos::from_secs(600);

/// Runs an arm with each seed.
pub(super) fn over_seeds(
    lab: &Lab<'_>,
    file: &Value,
    arm: Arm,
    choices: &Choices,
) -> Result<Spread, Failure> {
    let one = |seed| play(lab, file, arm, seed, seconds(choices));
    let all = seeds(choices).map(one).collect::<Result<Vec<f64>, Failure>>()?;
    Spread::of(all).ok_or_else(|| Failure::Machine("there is no seed to play with".into()))
}

fn play(lab: &Lab<'_>, file: &Value, arm: Arm, seed: u64, seconds: u64) -> Result<f64, Failure> {
    let bench = lab.open_described(file)?;
    let simulation = bench.simulation()?;
    simulation.set_seed(seed);
    if arm == Arm::Hackbench {
        return hackbench(lab, &bench, &mut |_| ());
    }
    let (cpus, homes) = shared_out(&bench)?;
    if arm == Arm::Latstat {
        return e6::median_us(lab, &bench, SAMPLES);
    }
    let apart = homes[0].cpus().len();
    let (jobs, threads) = match arm {
        Arm::Alone => (1, apart),
        Arm::Pools { .. } => (2, apart),
        _ => (2, cpus.len()),
    };
    let blocks = matches!(arm, Arm::Fighting { blocks: true } | Arm::Pools { blocks: true });
    let wait = if blocks { "block" } else { "spin" };
    // A random time between two runs of the balancer.
    lab.pass(&bench, Nanos(1_000 * (seed.wrapping_mul(7_919) % BEFORE_US)))?;
    let mut sets = Vec::new();
    let mut pids: Vec<Pid> = Vec::new();
    for home in homes.iter().take(jobs) {
        if !pids.is_empty() {
            let apart = APART_US.start + seed.wrapping_mul(1_237) % (APART_US.end - APART_US.start);
            lab.pass(&bench, Nanos(1_000 * apart))?;
        }
        let pid = bench
            .start(&format!("cg -t {threads} --class S --wait {wait} --start led --events"), "global")?;
        if let (Arm::Alone | Arm::Pools { .. }, Home::Set(cpus)) = (arm, home) {
            let set = bench.set(cpus)?;
            bench.bind(pid, &set)?;
            sets.push(set);
        }
        if arm == Arm::Capped {
            let refused = |why: NoSuchProcess| Failure::Machine(why.to_string());
            let percent = u32::try_from(apart * 100).unwrap_or(u32::MAX);
            simulation.cap(pid, percent).map_err(refused)?;
        }
        pids.push(pid);
    }
    lab.pass(&bench, SETTLING)?;
    let rates = lab.rates(&bench, &pids, Nanos::from_secs(seconds))?;
    Ok(mean(&rates.into_iter().map(mops).collect::<Vec<_>>()))
}

/// The CPUs of a machine, and the homes of two separated jobs.
fn shared_out(bench: &Bench) -> Result<(Vec<CpuId>, [Home; 2]), Failure> {
    let cpus = bench.cpus();
    let few = || Failure::Machine(format!("machine {} has nothing to share out", bench.name()));
    let homes = plan_homes(&cpus).ok_or_else(few)?;
    Ok((cpus, homes))
}

/// Seconds of hackbench on the CPUs outside a set, in which a thread spins. `waiting` gets the number of unread messages each millisecond.
fn hackbench(lab: &Lab<'_>, bench: &Bench, waiting: &mut dyn FnMut(f64)) -> Result<f64, Failure> {
    let (cpus, homes) = shared_out(bench)?;
    let (Home::Set(of_set) | Home::Default(of_set)) = &homes[0];
    let last = of_set.last().or(cpus.last()).copied().into_iter().collect::<Vec<_>>();
    let set = bench.set(&last)?;
    let spins = bench.start("spin -t 1", "global")?;
    bench.bind(spins, &set)?;
    lab.pass(bench, SETTLING)?;
    let clock = bench.machine().clock();
    let pid = bench.start(&format!("hackbench -g {GROUPS} -l {LOOPS}"), "global")?;
    let began = e6::hackbench_begins(lab, bench, pid, LOOK, &mut || Ok(()))?;
    let simulation = bench.simulation()?;
    while !simulation.run_until_ended(pid, LOOK) {
        waiting(real(simulation.messages_waiting()));
        lab.pass(bench, Nanos(0))?;
        if clock.now() - began > LONGEST {
            return Err(Failure::Machine(format!("hackbench did not end within {LONGEST}")));
        }
    }
    Ok((clock.now() - began).as_secs_f64())
}

/// Average number of hackbench's unread messages.
pub(super) fn messages_waiting(lab: &Lab<'_>, file: &Value) -> Result<f64, Failure> {
    let bench = lab.open_described(file)?;
    let mut seen = Vec::new();
    hackbench(lab, &bench, &mut |waiting| seen.push(waiting))?;
    Ok(if seen.is_empty() { 0.0 } else { mean(&seen) })
}

/// Nanoseconds of a hackbench call on this machine: the messages of one pair.
pub(super) fn call_ns(lab: &Lab<'_>, file: &Value) -> Result<f64, Failure> {
    const MESSAGES: u64 = 10_000;
    let words = format!("hackbench -g 1 -f 1 -l {MESSAGES} --start-instructions 0");
    let took = on_one_cpu(lab, file, &words, &mut |bench, _| Ok(bench.machine().clock().now()))?;
    Ok(took / real(2 * MESSAGES))
}

/// Nanoseconds that the probe's processes take on one CPU of this machine, from start to end.
pub(super) fn processes_ns(lab: &Lab<'_>, file: &Value) -> Result<f64, Failure> {
    /// Delay in noticing their start, distributed over all of them.
    const SEEN: Nanos = Nanos(20_000);
    let words = format!("hackbench -g {GROUPS} -l 1 --start-instructions 1000");
    on_one_cpu(lab, file, &words, &mut |bench, pid| {
        e6::hackbench_begins(lab, bench, pid, SEEN, &mut || Ok(()))
    })
}

/// Nanoseconds that a load takes on one CPU of this machine, from the time that `begins` gives to its end.
fn on_one_cpu(
    lab: &Lab<'_>,
    file: &Value,
    words: &str,
    begins: &mut dyn FnMut(&Bench, Pid) -> Result<Nanos, Failure>,
) -> Result<f64, Failure> {
    let bench = lab.open_described(file)?;
    let cpus = bench.cpus();
    let set = bench.set(&cpus[cpus.len() - 1..])?;
    let pid = bench.start(words, "global")?;
    bench.bind(pid, &set)?;
    let began = begins(&bench, pid)?;
    if !bench.simulation()?.run_until_ended(pid, LONGEST) {
        return Err(Failure::Machine(format!("a message did not end within {LONGEST}")));
    }
    Ok((bench.machine().clock().now() - began).as_secs_f64() * 1e9)
}
