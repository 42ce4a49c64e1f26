//! The arms on the real machine: those of the demo, and hackbench next to a set.

use super::{Arm, GROUPS, LOOPS, SAMPLES, Spread, seconds};
use crate::Failure;
use crate::demo::{self, Act, ArmKind, Options};
use crate::e6;
use crate::here::Here;
use crate::published::{Choices, mean};
use crate::sets::{KEEP_OTHERS, MadeSet, bind};

/// Repeats each arm as often as requested, interleaved, so that a drift affects all of them.
pub(super) fn rounds(
    here: &mut Here<'_>,
    arms: &[Arm],
    choices: &Choices,
) -> Result<Vec<(Arm, Option<Spread>)>, Failure> {
    let rounds = choices.number("rounds").unwrap_or(3);
    let mut found: Vec<(Arm, Vec<f64>)> = arms.iter().map(|arm| (*arm, Vec::new())).collect();
    for round in 1..=rounds {
        for (arm, values) in &mut found {
            (here.tell)(&format!("{} here, {round} of {rounds}", arm.word()));
            values.extend(one(here, *arm, seconds(choices))?);
        }
    }
    Ok(found.into_iter().map(|(arm, values)| (arm, Spread::of(values))).collect())
}

fn one(here: &mut Here<'_>, arm: Arm, seconds: u64) -> Result<Option<f64>, Failure> {
    let (kind, blocks) = match arm {
        Arm::Alone => (ArmKind::Alone, false),
        Arm::Fighting { blocks } => (ArmKind::Fighting, blocks),
        Arm::Capped => (ArmKind::Capped, false),
        Arm::Pools { blocks } => (ArmKind::Pools, blocks),
        Arm::Hackbench => return hackbench(here).map(Some),
        Arm::Latstat => return e6::real::median_us(here, SAMPLES).map(Some),
    };
    let acts = [Act { kind, blocks }];
    let options = Options {
        acts: &acts,
        together_seconds: seconds,
        alone_seconds: seconds,
        phase_seconds: 0,
        ..Options::new(here.program, here.stop)
    };
    let played = demo::run(here.session, &options, &mut |_| ())?;
    let jobs = played.arms.first().map(|arm| arm.jobs.iter().map(|job| job.mops).collect::<Vec<_>>());
    Ok(jobs.filter(|jobs| !jobs.is_empty()).map(|jobs| mean(&jobs)))
}

/// Seconds of hackbench on all CPUs except a set of the last CPU, in which a thread spins.
fn hackbench(here: &mut Here<'_>) -> Result<f64, Failure> {
    let (_, free, _) = here.look()?;
    let last = free.last().copied().into_iter().collect::<Vec<_>>();
    let machine = here.machine();
    let set = MadeSet::make(machine, &last, KEEP_OTHERS, &mut |_| ())?;
    let mut spins =
        here.ready("spin", "spin --threads 1", |pid| bind(machine, pid, set.id(), &mut |_| ()))?;
    let words = format!("hackbench --groups {GROUPS} --loops {LOOPS}");
    let mut messages = here
        .ready("hackbench", &words, |pid| bind(machine, pid, millpond_model::PsetId::DEFAULT, &mut |_| ()))?;
    here.begin(&mut spins)?;
    here.begin(&mut messages)?;
    let result = messages.result(here.stop)?;
    here.end(spins)?;
    set.end()?;
    result["seconds"].as_f64().ok_or_else(|| Failure::Program {
        program: "hackbench".into(),
        why: "it does not tell how long it took".into(),
    })
}
