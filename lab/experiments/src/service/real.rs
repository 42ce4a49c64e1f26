//! The arms on the real machine.

use super::{ALONE, Ask, POOLS, Played, arms, edit, has_pools, report};
use crate::Failure;
use crate::here::{Here, iterations, shared};
use crate::keeper::Keeper;
use crate::pools::MadePools;
use crate::published::{Choices, Findings, real};
use millpond_machine::Absent;
use millpond_model::{CpuId, Nanos};
use millpond_session::Cap;
use millpond_workloads::service::ServiceResult;

/// Requests of the first seconds are not counted.
const SETTLE: u64 = 2;

/// Weights of the service and of the batch job.
const SHARES: [u32; 2] = [100, 1];

/// Runs the chosen arms.
///
/// # Errors
/// [`Failure`]; all changes are undone.
pub fn run(here: &mut Here<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let (facts, free, pools) = here.look()?;
    let ask = Ask::of(choices, free.len() as u64, 150, 2)?;
    findings.machines.push(facts.text());
    let (speed, part) = here.speed(&free)?;
    findings.notes.extend(shared(part));
    let mut played = Vec::new();
    for arm in arms(choices) {
        (here.tell)(arm);
        let outcome = match (&pools, arm) {
            (Err(absent), arm) if has_pools(arm) => Err(absent.to_string()),
            _ => play(here, &free, arm, &ask, speed)?,
        };
        played.push((arm, outcome));
    }
    report(findings, &ask, &played);
    Ok(())
}

fn batch(free: &[CpuId]) -> String {
    format!("spin --threads {}", free.len())
}

fn play(
    here: &Here<'_>,
    free: &[CpuId],
    arm: &str,
    ask: &Ask,
    speed: f64,
) -> Result<Result<Played, String>, Failure> {
    let session = here.session;
    let mut pools = None;
    if has_pools(arm) {
        let size = usize::try_from(ask.leave).unwrap_or(free.len());
        pools = Some(MadePools::make(here.machine(), true, |editor| {
            edit(editor, arm, &free[free.len() - size..], ask.leave)
        })?);
    }
    let (mut caps, mut absent): (Vec<Cap<'_>>, Option<Absent>) = (Vec::new(), None);
    let mut keep = |cap| match cap {
        Ok(cap) => caps.push(cap),
        Err(why) => absent = Some(why),
    };
    let words = format!(
        "service --threads {} --rate {} --work {} --seed {} --settle {SETTLE}",
        ask.threads, ask.rate, ask.work, ask.seed
    );
    let mut service = here.ready(POOLS[0], &words, |pid| match &pools {
        Some(pools) => pools.bind(pid, POOLS[0]),
        None if arm == "cpu.weight" => {
            keep(session.share(pid, SHARES[0]));
            Ok(())
        }
        None => Ok(()),
    })?;
    let mut beside = None;
    if arm != ALONE {
        beside = Some(here.ready(POOLS[1], &batch(free), |pid| {
            match (&pools, arm) {
                (Some(pools), _) => pools.bind(pid, POOLS[1])?,
                (None, "cpu.weight") => keep(session.share(pid, SHARES[1])),
                (None, "cpu.max") => {
                    let left = u32::try_from(free.len() as u64 - ask.leave).unwrap_or(u32::MAX / 100);
                    keep(session.cap(pid, left * 100));
                }
                _ => {}
            }
            Ok(())
        })?);
    }
    if let Some(absent) = absent {
        return Ok(Err(absent.to_string()));
    }
    let mut keeper = match &pools {
        Some(_) => Some(Keeper::begin(here.machine(), "millpond")?),
        None => None,
    };
    let clock = here.machine().clock();
    if let Some(beside) = &mut beside {
        here.begin(beside)?;
    }
    let began = clock.now();
    here.begin(&mut service)?;
    let end = Nanos(clock.now().0 + Nanos::from_secs(SETTLE + ask.seconds).0);
    match &mut keeper {
        Some(keeper) => keeper.until(end, here.stop, &mut || Ok(()))?,
        None => here.wait(end)?,
    }
    let result = here.end(service)?;
    let result: ServiceResult = serde_json::from_value(result)
        .map_err(|error| Failure::Program { program: POOLS[0].into(), why: error.to_string() })?;
    let mut work = None;
    if let Some(beside) = beside {
        let done = iterations(&here.end(beside)?);
        work = Some(real(done) / (clock.now() - began).as_secs_f64() / speed);
    }
    let (moves, advice) = keeper.map_or((None, None), |keeper| (Some(keeper.moves), keeper.advice));
    caps.clear();
    if let Some(pools) = pools {
        pools.end()?;
    }
    let answered = real(result.requests) / result.seconds.max(f64::MIN_POSITIVE);
    let times = [result.p50_ms, result.p99_ms, result.p999_ms];
    Ok(Ok(Played { times, answered, batch: work, moves, advice }))
}
