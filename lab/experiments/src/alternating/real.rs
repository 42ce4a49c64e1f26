//! The experiment on the real machine: programs start and end when demand changes sides.

use super::simulated::{turns, wants};
use super::{Arm, Every, Job, POOLS, Played, arms, demands, judge, sentence};
use crate::Failure;
use crate::here::{Here, iterations, shared};
use crate::keeper::Keeper;
use crate::pools::MadePools;
use crate::program::Program;
use crate::published::{Choices, Findings, real};
use millpond_machine::Absent;
use millpond_model::{CpuId, Nanos};

/// Load of the program that wants little: a third of a CPU.
const LITTLE: &str = "spin --threads 1 --duty 33";

/// Runs the chosen arms.
///
/// # Errors
/// [`Failure`]; all changes are undone.
pub fn run(here: &mut Here<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    if choices.word("job").is_some_and(|job| job != "batch") {
        let why = "on a real machine programs of cg take longer to get ready than a turn may last";
        return Err(Failure::NotHere(Absent::with_help(
            why,
            "leave --job away, or choose a simulated machine",
        )));
    }
    let (facts, free, pools) = here.look()?;
    findings.machines.push(facts.text());
    pools.map_err(Failure::NotHere)?;
    let (speed, part) = here.speed(&free)?;
    findings.notes.extend(shared(part));
    let seconds = choices.number("seconds").unwrap_or(20);
    let arms = arms(choices, free.len())?;
    for every in demands(choices) {
        let mut played = Vec::new();
        for arm in &arms {
            (here.tell)(&format!("{}: {}", sentence(every), arm.name()));
            played.push((arm.clone(), play(here, &free, arm, (every, seconds), speed)?));
        }
        judge(findings, every, Job::Batch, &played);
    }
    if free.len() == 2 {
        let note = "with two CPUs each set keeps the one that it has: there is nothing that poold could move";
        findings.notes.push(note.into());
    }
    Ok(())
}

/// Fields are dropped in this order: pools are removed after the programs in them.
struct Stage<'h, 'a> {
    here: &'h Here<'a>,
    bursts: [Option<Program>; 2],
    little: Vec<Program>,
    pools: Option<MadePools<'a>>,
    threads: usize,
    done: u64,
}

fn play(
    here: &Here<'_>,
    free: &[CpuId],
    arm: &Arm,
    (every, seconds): (Every, u64),
    speed: f64,
) -> Result<Played, Failure> {
    let size = match arm {
        Arm::Nothing => None,
        Arm::Split(size, _) => Some(*size),
        Arm::Pools(..) => Some(free.len() / 2),
    };
    let make = |size: usize| {
        MadePools::make(here.machine(), true, |editor| arm.edit(editor, &free[free.len() - size..]))
    };
    let pools = size.map(make).transpose()?;
    let mut stage =
        Stage { here, bursts: [None, None], little: Vec::new(), pools, threads: free.len(), done: 0 };
    for program in 0..POOLS.len() {
        let little = stage.start(program, LITTLE)?;
        stage.little.push(little);
    }
    let mut keeper = match arm {
        Arm::Pools(policy, _) => Some(Keeper::begin(here.machine(), policy)?),
        _ => None,
    };
    let clock = here.machine().clock();
    let began = clock.now();
    let (length, turns) = turns(every, seconds);
    for turn in 0..turns {
        stage.change(wants(every, turn))?;
        let end = Nanos(began.0 + Nanos::from_secs(length * (turn + 1)).0);
        match &mut keeper {
            Some(keeper) => keeper.until(end, here.stop, &mut || Ok(()))?,
            None => here.wait(end)?,
        }
    }
    stage.change([false, false])?;
    for little in std::mem::take(&mut stage.little) {
        stage.done += iterations(&here.end(little)?);
    }
    let time = (clock.now() - began).as_secs_f64();
    let (moves, changes) = keeper.as_ref().map_or((0, 0), |keeper| (keeper.moves, keeper.changes));
    drop(keeper);
    let work = real(stage.done) / speed / time;
    if let Some(pools) = stage.pools.take() {
        pools.end()?;
    }
    Ok(Played { work, moves, changes })
}

impl Stage<'_, '_> {
    fn start(&self, program: usize, words: &str) -> Result<Program, Failure> {
        let mut started = self.here.ready(POOLS[program], words, |pid| match &self.pools {
            Some(pools) => pools.bind(pid, POOLS[program]),
            None => Ok(()),
        })?;
        self.here.begin(&mut started)?;
        Ok(started)
    }

    /// Changes sides: the program that wants less ends first.
    fn change(&mut self, wants: [bool; 2]) -> Result<(), Failure> {
        for (program, wants) in wants.into_iter().enumerate() {
            if !wants && let Some(burst) = self.bursts[program].take() {
                self.done += iterations(&self.here.end(burst)?);
            }
        }
        for (program, wants) in wants.into_iter().enumerate() {
            if wants && self.bursts[program].is_none() {
                let words = format!("spin --threads {}", self.threads);
                self.bursts[program] = Some(self.start(program, &words)?);
            }
        }
        Ok(())
    }
}
