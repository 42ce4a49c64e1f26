//! The arms on simulated machines: programs start and end when demand changes sides.

use super::{Arm, Every, Job, POOLS, Played};
use crate::Failure;
use crate::keeper::Keeper;
use crate::pools::MadePools;
use crate::published::{Bench, Lab, real};
use millpond_model::{Nanos, Pid};

/// Load of the program that wants little.
const LITTLE: &str = "batch --op 1 --sleep 2";

/// Operations per second of a CPU.
const OPS: f64 = 1e3;

/// Which programs want all CPUs in a turn; two turns are a cycle.
pub(super) fn wants(every: Every, turn: u64) -> [bool; 2] {
    match every {
        None => [true, true],
        Some(_) => [turn.is_multiple_of(2), !turn.is_multiple_of(2)],
    }
}

/// Seconds per turn and number of turns: whole cycles, for at least this many seconds.
pub(super) fn turns(every: Every, seconds: u64) -> (u64, u64) {
    match every {
        None => (seconds, 1),
        Some(every) => (every, 2 * seconds.div_ceil(2 * every)),
    }
}

struct Stage<'a> {
    bench: &'a Bench,
    job: Job,
    pools: Option<MadePools<'a>>,
    /// The programs that want all CPUs now, with their number of threads.
    bursts: [Option<(Pid, u64)>; 2],
    /// Operations of programs that have ended.
    done: u64,
}

/// Runs one arm.
pub(super) fn play(
    lab: &Lab<'_>,
    machine: &str,
    job: Job,
    arm: &Arm,
    every: Every,
    seconds: u64,
) -> Result<Played, Failure> {
    let bench = lab.open(machine)?;
    let cpus = bench.cpus();
    let size = match arm {
        Arm::Nothing => None,
        Arm::Split(size, _) => Some(*size),
        Arm::Pools(..) => Some(cpus.len() / 2),
    };
    let make = |size: usize| {
        MadePools::make(bench.machine(), false, |editor| arm.edit(editor, &cpus[cpus.len() - size..]))
    };
    let pools = size.map(make).transpose()?;
    let mut stage = Stage { bench: &bench, job, pools, bursts: [None, None], done: 0 };
    let mut little = Vec::new();
    for pool in POOLS {
        let pid = bench.start(LITTLE, "global")?;
        stage.bind(pid, pool)?;
        little.push(pid);
    }
    let mut keeper = match arm {
        Arm::Pools(policy, _) => Some(Keeper::begin(bench.machine(), policy)?),
        _ => None,
    };
    let began = bench.machine().clock().now();
    let (length, turns) = turns(every, seconds);
    for turn in 0..turns {
        stage.change(wants(every, turn))?;
        let end = Nanos(began.0 + Nanos::from_secs(length * (turn + 1)).0);
        match &mut keeper {
            Some(keeper) => keeper.until(end, lab.stop(), &mut || stage.follow())?,
            None => lab.pass(&bench, end - bench.machine().clock().now())?,
        }
    }
    stage.change([false, false])?;
    let time = real(length * turns);
    let work = match job {
        Job::Cg => real(stage.done) / 1e6 / time,
        Job::Batch => {
            let little: u64 = bench.operations(&little)?.iter().sum();
            real(stage.done + little) / OPS / time
        }
    };
    let (moves, changes) = keeper.as_ref().map_or((0, 0), |keeper| (keeper.moves, keeper.changes));
    drop(keeper);
    if let Some(pools) = stage.pools {
        pools.end()?;
    }
    Ok(Played { work, moves, changes })
}

impl Stage<'_> {
    fn bind(&self, pid: Pid, pool: &str) -> Result<(), Failure> {
        self.pools.as_ref().map_or(Ok(()), |pools| pools.bind(pid, pool))
    }

    /// Changes sides.
    fn change(&mut self, wants: [bool; 2]) -> Result<(), Failure> {
        for (program, wants) in wants.into_iter().enumerate() {
            match (self.bursts[program], wants) {
                (Some(_), false) => self.end(program)?,
                (None, true) => self.start(program)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Number of threads of a program that wants all CPUs.
    fn threads(&self, program: usize) -> Result<u64, Failure> {
        match &self.pools {
            Some(pools) if self.job == Job::Cg => Ok(pools.size(POOLS[program])?.max(1)),
            _ => Ok(self.bench.cpus().len() as u64),
        }
    }

    fn start(&mut self, program: usize) -> Result<(), Failure> {
        let threads = self.threads(program)?;
        let words = match self.job {
            Job::Batch => format!("batch --op 1 -t {threads}"),
            Job::Cg => format!("cg -t {threads}"),
        };
        let pid = self.bench.start(&words, "global")?;
        self.bind(pid, POOLS[program])?;
        self.bursts[program] = Some((pid, threads));
        Ok(())
    }

    fn end(&mut self, program: usize) -> Result<(), Failure> {
        let Some((pid, _)) = self.bursts[program].take() else { return Ok(()) };
        self.done += self.bench.operations(&[pid])?.iter().sum::<u64>();
        self.bench.kill(pid)
    }

    /// Malleable programs follow the size of their pools.
    fn follow(&mut self) -> Result<(), Failure> {
        for program in 0..POOLS.len() {
            if let Some((_, threads)) = self.bursts[program]
                && threads != self.threads(program)?
            {
                self.end(program)?;
                self.start(program)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_take_turns_in_whole_cycles() {
        assert_eq!(turns(Some(5), 20), (5, 4));
        assert_eq!(turns(Some(30), 20), (30, 2));
        assert_eq!(turns(Some(1), 3), (1, 4));
        assert_eq!(turns(None, 20), (20, 1));
        assert_eq!(
            [wants(Some(1), 0), wants(Some(1), 1), wants(None, 1)],
            [[true, false], [false, true], [true, true]]
        );
    }
}
