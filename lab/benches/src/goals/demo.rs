//! The demo: the speed-up of two programs that are separated instead of mixed, and their speed relative to running alone.
//!
//! A pair is one run of the whole demo with short arms; the compared arms follow each other in it.

use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, told};
use serde_json::Value;
use std::process::Stdio;

/// Seconds of each arm: enough for several iterations of two mixed programs.
const ARM_SECONDS: &str = "1";

const FIGHTING: (&str, &str, Goal) = ("demo: both jobs apart", "both fighting", Goal::RatioAtLeast(10.0));
const ALONE: (&str, &str, Goal) = ("demo: the slower job apart", "a job alone", Goal::RatioAtLeast(0.97));
const CAPPED: (&str, &str, Goal) = ("demo: both jobs apart", "both capped", Goal::None);

/// Measures this goal.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut all = [Pairs::default(), Pairs::default(), Pairs::default()];
    let mut trouble = None;
    for _ in 0..bench.pairs {
        match run(bench) {
            Ok(arms) => all.iter_mut().zip(arms.pairs()).for_each(|(pairs, pair)| {
                if let Some((ours, peer)) = pair {
                    pairs.push(ours, peer);
                }
            }),
            Err(why) => {
                trouble = Some(why);
                break;
            }
        }
    }
    [FIGHTING, ALONE, CAPPED]
        .into_iter()
        .zip(all)
        .map(|((name, peer, goal), pairs)| {
            if pairs.ours.is_empty() {
                let why = trouble.clone().unwrap_or_else(|| "this arm was left out here".into());
                return Line::unresolvable(name, peer, goal, why);
            }
            let line = Line::of(name, peer, "Mop/s", &pairs, goal);
            match &trouble {
                Some(why) => line.noting(why.clone()),
                None => line,
            }
        })
        .collect()
}

/// Mop/s of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Arms {
    alone: f64,
    fighting: f64,
    capped: Option<f64>,
    apart: f64,
    apart_slower: f64,
}

impl Arms {
    fn pairs(self) -> [Option<(f64, f64)>; 3] {
        [
            Some((self.apart, self.fighting)),
            Some((self.apart_slower, self.alone)),
            self.capped.map(|capped| (self.apart, capped)),
        ]
    }
}

fn run(bench: &Bench) -> Result<Arms, Trouble> {
    let mut command = bench.command(&["demo", "--json", "--seconds", ARM_SECONDS]);
    let output = told("start the demo", command.stderr(Stdio::piped()).output())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let last = said.lines().rfind(|line| line.starts_with("millpond")).unwrap_or("it said nothing");
        return Err(format!("the demo failed: {last}"));
    }
    let value = told("read what the demo says", serde_json::from_slice(&output.stdout))?;
    parse(&value).ok_or_else(|| "the demo left out an arm that is needed".into())
}

fn parse(demo: &Value) -> Option<Arms> {
    let jobs = |kind: &str| -> Vec<Vec<f64>> {
        let arms = demo["arms"].as_array().into_iter().flatten().filter(|arm| arm["kind"] == kind);
        let mops = |arm: &Value| {
            arm["jobs"].as_array().into_iter().flatten().filter_map(|job| job["mops"].as_f64()).collect()
        };
        arms.map(mops).filter(|jobs: &Vec<f64>| !jobs.is_empty()).collect()
    };
    let sum = |kind: &str| jobs(kind).first().map(|jobs| jobs.iter().sum::<f64>());
    let alone: Vec<f64> = jobs("alone").into_iter().flatten().collect();
    // Sets replace pools where pools are impossible.
    let kind = if jobs("pools").is_empty() { "apart" } else { "pools" };
    let apart = jobs(kind);
    let slower = apart.first()?.iter().copied().fold(f64::INFINITY, f64::min);
    Some(Arms {
        alone: alone.iter().sum::<f64>() / f64::from(u32::try_from(alone.len()).ok().filter(|n| *n > 0)?),
        fighting: sum("fighting")?,
        capped: sum("capped"),
        apart: sum(kind)?,
        apart_slower: slower,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arm(kind: &str, mops: &[f64]) -> Value {
        json!({ "kind": kind, "jobs": mops.iter().map(|m| json!({ "mops": m })).collect::<Vec<_>>() })
    }

    #[test]
    fn arms_are_compared_as_the_demo_does() {
        let demo = json!({ "arms": [
            arm("alone", &[100.0]), arm("fighting", &[5.0, 7.0]), arm("capped", &[4.0, 4.0]),
            arm("pools", &[99.0, 97.0]), arm("alone", &[102.0]),
        ]});
        let arms = parse(&demo).unwrap();
        assert_eq!(arms.pairs(), [Some((196.0, 12.0)), Some((97.0, 101.0)), Some((196.0, 8.0))]);
    }

    #[test]
    fn an_arm_that_was_left_out_is_not_made_up() {
        let demo = json!({ "arms": [
            arm("alone", &[100.0]), arm("fighting", &[5.0, 7.0]), arm("capped", &[]), arm("apart", &[99.0, 97.0]),
        ]});
        assert_eq!(parse(&demo).unwrap().pairs()[2], None);
        assert_eq!(parse(&json!({ "arms": [arm("alone", &[1.0])] })), None);
    }
}
