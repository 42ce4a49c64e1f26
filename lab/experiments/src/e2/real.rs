//! E2 on the real machine: the arms of the demo, compared with the published figures.

use super::EXPERIMENT;
use crate::demo::{Act, Arm, ArmKind, Demo};
use millpond_report::{Cell, Table};

/// The arms by the names that they have on simulated machines. The job alone always runs too.
const WORDS: [(&str, Act); 5] = [
    ("nothing", Act::spinning(ArmKind::Fighting)),
    ("caps", Act::spinning(ArmKind::Capped)),
    ("pools", Act::spinning(ArmKind::Pools)),
    ("nothing-blocking", Act { kind: ArmKind::Fighting, blocks: true }),
    ("pools-blocking", Act { kind: ArmKind::Pools, blocks: true }),
];

/// The quantity of the published figures.
const SPEED: &str = "Mop/s per zone";

/// The named arms in order, preceded by the job alone for each kind of waiting; all arms without names.
///
/// # Errors
/// The first unknown name.
pub fn acts<'w>(words: &[&'w str]) -> Result<Vec<Act>, &'w str> {
    if let Some(word) = words.iter().find(|word| WORDS.iter().all(|(known, _)| known != *word)) {
        return Err(word);
    }
    let is_chosen = |word: &str| words.is_empty() || words.contains(&word);
    let mut acts = Vec::new();
    for blocks in [false, true] {
        let chosen = WORDS.iter().filter(|(word, act)| act.blocks == blocks && is_chosen(word));
        let chosen: Vec<Act> = chosen.map(|(_, act)| *act).collect();
        if !chosen.is_empty() {
            acts.push(Act { kind: ArmKind::Alone, blocks });
            acts.extend(chosen);
        }
    }
    Ok(acts)
}

/// The names of the arms.
#[must_use]
pub fn words() -> Vec<&'static str> {
    WORDS.iter().map(|(word, _)| *word).collect()
}

/// The published name of an arm.
fn name(arm: &Arm) -> String {
    let word = match arm.kind {
        ArmKind::Fighting => "nothing",
        ArmKind::Capped => "caps",
        // Where pools are impossible, separate sets replace them.
        ArmKind::Pools | ArmKind::Apart => "pools",
        ArmKind::Alone => "alone",
    };
    format!("{word}{}", if arm.blocks { ", blocking" } else { "" })
}

/// The final table: every arm compared with the job alone and with the published figures.
#[must_use]
pub fn summary(demo: &Demo) -> String {
    let published = EXPERIMENT.published();
    let mut table = Table::of(&["arm"], &["a Mop/s", "b Mop/s", "of alone", "published, Mop/s per zone"]);
    for arm in &demo.arms {
        let job = |index: usize| Cell::from(arm.jobs.get(index).map(|job| (job.mops, 1)));
        let figure = published.figure(SPEED, &name(arm)).map(|figure| (figure.value, 0));
        let share = demo.of_alone(arm).map(|share| (share, 2));
        table.row([name(arm).into(), job(0), job(1), share.into(), figure.into()]);
    }
    for phase in demo.story.iter().flat_map(|story| &story.phases) {
        let cell = |mops: Option<f64>| Cell::from(mops.map(|mops| (mops, 1)));
        table.row([phase.name.as_str().into(), cell(phase.a), cell(phase.b), Cell::Missing, Cell::Missing]);
    }
    format!("{}published: {}\n", table.text(), published.source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_are_chosen_with_the_job_alone_beside_them() {
        let names = |words: &[&'static str]| -> Vec<(ArmKind, bool)> {
            acts(words).unwrap().iter().map(|act| (act.kind, act.blocks)).collect()
        };
        use ArmKind::{Alone, Capped, Fighting, Pools};
        assert_eq!(
            names(&["pools-blocking", "nothing"]),
            [(Alone, false), (Fighting, false), (Alone, true), (Pools, true)]
        );
        let all = [
            (Alone, false),
            (Fighting, false),
            (Capped, false),
            (Pools, false),
            (Alone, true),
            (Fighting, true),
            (Pools, true),
        ];
        assert_eq!(names(&[]), all);
        assert_eq!(acts(&["pools", "psets"]), Err("psets"));
    }
}
