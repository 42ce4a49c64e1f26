//! The arms on simulated machines.

use super::{ALONE, Ask, POOLS, Played, edit, has_pools, percentiles};
use crate::Failure;
use crate::keeper::Keeper;
use crate::pools::MadePools;
use crate::published::{Bench, Lab, real};
use millpond_model::Nanos;
use millpond_session::NoSuchProcess;
use std::collections::BTreeMap;

/// Time until priorities and sizes have settled.
const SETTLING: Nanos = Nanos::from_secs(2);

/// Operations per second of a CPU.
const OPS: f64 = 1e3;

/// Runs one arm; or the reason why it is impossible.
pub(super) fn play(
    lab: &Lab<'_>,
    machine: &str,
    arm: &str,
    ask: &Ask,
) -> Result<Result<Played, String>, Failure> {
    if arm == "cpu.weight" {
        let why = "simulated threads are in class TS here, which shares by no weights";
        return Ok(Err(why.into()));
    }
    let bench = lab.open(machine)?;
    bench.simulation()?.set_seed(ask.seed);
    let cpus = bench.cpus();
    let words = format!("service -t {} --rate {} --work {}", ask.threads, ask.rate, ask.work);
    let service = bench.start(&words, "global")?;
    let batch = match arm {
        ALONE => None,
        _ => Some(bench.start(&format!("batch --op 1 -t {}", cpus.len()), "global")?),
    };
    if let (Some(batch), "cpu.max") = (batch, arm) {
        let left = u32::try_from(cpus.len() as u64 - ask.leave).unwrap_or(u32::MAX / 100);
        let refused = |why: NoSuchProcess| Failure::Machine(why.to_string());
        bench.simulation()?.cap(batch, left * 100).map_err(refused)?;
    }
    let mut pools = None;
    let mut keeper = None;
    if let Some(batch) = batch.filter(|_| has_pools(arm)) {
        let size = usize::try_from(ask.leave).unwrap_or(cpus.len());
        let made = MadePools::make(bench.machine(), false, |editor| {
            edit(editor, arm, &cpus[cpus.len() - size..], ask.leave)
        })?;
        made.bind(service, POOLS[0])?;
        made.bind(batch, POOLS[1])?;
        pools = Some(made);
        keeper = Some(Keeper::begin(bench.machine(), "millpond")?);
    }
    let mut pass = |time: Nanos| match &mut keeper {
        Some(keeper) => keeper.until(bench.machine().clock().now() + time, lab.stop(), &mut || Ok(())),
        None => lab.pass(&bench, time),
    };
    pass(SETTLING)?;
    let (before, had) = (times(&bench)?, bench.operations(batch.as_slice())?);
    pass(Nanos::from_secs(ask.seconds))?;
    let (mut after, has) = (times(&bench)?, bench.operations(batch.as_slice())?);
    for (time, count) in before {
        after.entry(time).and_modify(|all| *all -= count.min(*all));
    }
    after.retain(|_, count| *count > 0);
    let (times, answered) = percentiles(&after);
    let seconds = real(ask.seconds);
    let (moves, advice) = keeper.map_or((None, None), |keeper| (Some(keeper.moves), keeper.advice));
    if let Some(pools) = pools {
        pools.end()?;
    }
    let work = has.first().zip(had.first()).map(|(has, had)| real(has - had) / OPS / seconds);
    Ok(Ok(Played { times, answered: real(answered) / seconds, batch: work, moves, advice }))
}

/// A histogram of response times in nanoseconds so far.
fn times(bench: &Bench) -> Result<BTreeMap<u64, u64>, Failure> {
    let mut all = BTreeMap::new();
    for (time, count) in bench.simulation()?.logs().into_iter().flatten().flatten() {
        *all.entry(time).or_default() += count;
    }
    Ok(all)
}
