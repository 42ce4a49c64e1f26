//! Results of the demo: arms, jobs, and the final line.

use super::outcome::Story;
use crate::ground::Facts;
use millpond_machine::Absent;
use millpond_model::CpuId;
use millpond_report::{Bars, Cell, Group, Table};
use schemars::JsonSchema;
use serde::Serialize;

/// The kind of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArmKind {
    /// One job, with nothing else running.
    Alone,
    /// Both on all CPUs.
    Fighting,
    /// Both on all CPUs, with CPU caps.
    Capped,
    /// Each in a pool, with a set of its own or the default set.
    Pools,
    /// Each on CPUs of its own by affinity, where pools are not available.
    Apart,
}

/// The configuration of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Act {
    /// The kind of arm.
    pub kind: ArmKind,
    /// Threads block at barriers instead of spinning.
    pub blocks: bool,
}

impl Act {
    /// An arm with spinning threads.
    #[must_use]
    pub const fn spinning(kind: ArmKind) -> Act {
        Act { kind, blocks: false }
    }

    /// The load's option value for the barriers.
    pub(super) fn barrier(self) -> &'static str {
        if self.blocks { "block" } else { "spin" }
    }
}

/// A job's place by samples: percent of samples on one CPU, second by second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Seen {
    /// The CPU.
    pub cpu: CpuId,
    /// The minimum over the seconds.
    pub least: f64,
    /// The mean over all seconds.
    pub mean: f64,
    /// The maximum over the seconds.
    pub most: f64,
}

/// A job's result in one arm.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JobResult {
    /// `a` or `b`.
    pub name: String,
    /// The number of threads that it started.
    pub threads: u64,
    /// Nominal millions of operations per second.
    pub mops: f64,
    /// Outer iterations.
    pub iterations: u64,
    /// Whether its answers were right; null if it reached none.
    pub verified: Option<bool>,
    /// Its places by samples.
    pub seen: Vec<Seen>,
}

/// An arm.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Arm {
    /// Its kind.
    pub kind: ArmKind,
    /// Whether threads blocked at barriers instead of spinning.
    pub blocks: bool,
    /// A description of the arm.
    pub sentence: String,
    /// Results of its jobs.
    pub jobs: Vec<JobResult>,
    /// Why it was left out, if it was.
    pub left_out: Option<String>,
    /// Why the places of the jobs are unknown, if they are.
    pub unseen: Option<String>,
}

/// The comparison of arms.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct SpeedUp {
    /// Speed of both in pools, divided by both on all CPUs.
    pub over_fighting: f64,
    /// Speed of both in pools, divided by both with caps.
    pub over_capped: Option<f64>,
    /// Speed of the slower one in a pool, divided by one alone.
    pub of_alone: f64,
}

/// The whole demo.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Demo {
    /// The machine.
    pub machine: Facts,
    /// The arms in their order.
    pub arms: Vec<Arm>,
    /// The growth of one's pool after the other stopped; null if it was not requested.
    pub story: Option<Story>,
    /// Null if an arm that it needs is missing.
    pub speed_up: Option<SpeedUp>,
}

impl ArmKind {
    /// The jobs of the arm.
    #[must_use]
    pub fn jobs(self) -> &'static [&'static str] {
        if self == ArmKind::Alone { &["a"] } else { &["a", "b"] }
    }

    /// Its name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ArmKind::Alone => "alone",
            ArmKind::Fighting => "fighting",
            ArmKind::Capped => "capped",
            ArmKind::Pools => "pools",
            ArmKind::Apart => "apart",
        }
    }
}

impl Seen {
    /// The summary of the percentages of each second.
    #[must_use]
    pub fn over(cpu: CpuId, seconds: &[f64]) -> Seen {
        let count = u32::try_from(seconds.len().max(1)).map_or(f64::MAX, f64::from);
        Seen {
            cpu,
            least: seconds.iter().copied().fold(f64::INFINITY, f64::min).min(100.0),
            mean: seconds.iter().sum::<f64>() / count,
            most: seconds.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl Arm {
    /// An arm that is impossible here.
    #[must_use]
    pub fn left_out(act: Act, sentence: String, absent: &Absent) -> Arm {
        let left_out = Some(absent.to_string());
        Arm { kind: act.kind, blocks: act.blocks, sentence, jobs: Vec::new(), left_out, unseen: None }
    }

    /// Its name: `pools, blocking`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}{}", self.kind.word(), if self.blocks { ", blocking" } else { "" })
    }

    /// Mop/s of all jobs; `None` if it was left out.
    #[must_use]
    pub fn mops(&self) -> Option<f64> {
        self.left_out.is_none().then(|| self.jobs.iter().map(|job| job.mops).sum())
    }

    /// The results as text, below the description.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(why) = &self.left_out {
            return format!("  left out: {why}\n");
        }
        let mut table = Table::of(&["job"], &["threads", "Mop/s"])
            .and_words(&["seen on CPU, percent of samples a second"]);
        for job in &self.jobs {
            let place = if self.unseen.is_some() { Cell::Missing } else { places(&job.seen).into() };
            table.row([job.name.as_str().into(), job.threads.into(), (job.mops, 1).into(), place]);
        }
        let mut text: String = table.text().lines().map(|line| format!("  {line}\n")).collect();
        if let Some(why) = &self.unseen {
            text += &format!("  where they ran is not known: {why}\n");
        }
        for job in self.jobs.iter().filter(|job| job.verified == Some(false)) {
            text += &format!("  the answer of {} was WRONG\n", job.name);
        }
        text
    }
}

/// A job alone that gets less than this percentage of its CPUs was not alone.
const IDLE_PERCENT: f64 = 90.0;

/// Maximum number of CPUs that are listed individually.
const LISTED_MAX: usize = 8;

/// Percentages by CPU: `0: 21-51, 1: 22-49`; for many CPUs the range over all of them.
fn places(seen: &[Seen]) -> String {
    let range = |least: f64, most: f64| {
        let (least, most) = (format!("{least:.0}"), format!("{most:.0}"));
        if least == most { most } else { format!("{least}-{most}") }
    };
    // CPUs with less than half a percent in every second are only the start or the end of a program.
    let seen: Vec<&Seen> = seen.iter().filter(|place| place.most >= 0.5).collect();
    if seen.len() > LISTED_MAX {
        let cpus: millpond_model::CpuSet = seen.iter().map(|place| place.cpu).collect();
        let least = seen.iter().map(|place| place.least).fold(f64::INFINITY, f64::min);
        let most = seen.iter().map(|place| place.most).fold(0.0, f64::max);
        return format!("{cpus}: {} each", range(least, most));
    }
    let each: Vec<String> =
        seen.iter().map(|place| format!("{}: {}", place.cpu, range(place.least, place.most))).collect();
    if each.is_empty() { "nowhere".to_owned() } else { each.join(", ") }
}

impl Demo {
    /// Compares the arms.
    #[must_use]
    pub fn new(machine: Facts, arms: Vec<Arm>, story: Option<Story>) -> Demo {
        let speed_up = compare(&arms);
        Demo { machine, arms, story, speed_up }
    }

    /// The final table and line.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut table = Table::of(&["arm"], &["a Mop/s", "b Mop/s", "of alone"]);
        for arm in &self.arms {
            let job = |index: usize| Cell::from(arm.jobs.get(index).map(|job| (job.mops, 1)));
            let share = self.of_alone(arm).map(|share| (share, 2));
            table.row([arm.name().into(), job(0), job(1), share.into()]);
        }
        for (name, a, b) in self.story.iter().flat_map(Story::speeds) {
            table.row([name.into(), a.into(), b.into(), Cell::Missing]);
        }
        let mut text = table.text();
        if let Some(share) = self.idle_percent().filter(|share| *share < IDLE_PERCENT) {
            text += &format!(
                "the machine was not idle: alone, a had {share:.0} % of its CPUs, and the rest went to others\n"
            );
        }
        match &self.speed_up {
            Some(speed_up) => {
                if let Some(over) = speed_up.over_capped {
                    text += &format!("over caps: {over:.1}x\n");
                }
                text += &format!(
                    "speed-up: {:.1}x (each job at {:.2} of alone)\n",
                    speed_up.over_fighting, speed_up.of_alone
                );
            }
            None => text += "speed-up: not known, since an arm was left out\n",
        }
        text
    }

    /// Speed of the slower job of an arm, relative to the job alone with the same kind of waiting.
    #[must_use]
    pub fn of_alone(&self, arm: &Arm) -> Option<f64> {
        let slower = arm.jobs.iter().map(|job| job.mops).reduce(f64::min)?;
        Some(slower / alone(&self.arms, arm.blocks)?)
    }

    /// A picture of the sizes of both pools over time.
    #[must_use]
    pub fn sizes_svg(&self) -> String {
        let sizes = self.story.as_ref().map(|story| story.sizes.as_slice()).unwrap_or_default();
        let end = self.story.iter().filter_map(|story| story.end).next();
        crate::timeline::svg("Two pools: a stops, and starts again", ["pool of a", "pool of b"], sizes, end)
    }

    /// The average percentage of its CPUs that the job alone had.
    fn idle_percent(&self) -> Option<f64> {
        let alone = self.arms.iter().filter(|arm| arm.kind == ArmKind::Alone && arm.unseen.is_none());
        let seen: Vec<f64> =
            alone.flat_map(|arm| &arm.jobs).flat_map(|job| &job.seen).map(|seen| seen.mean).collect();
        let count = u32::try_from(seen.len()).ok().filter(|count| *count > 0)?;
        Some(seen.iter().sum::<f64>() / f64::from(count))
    }

    /// A picture of the Mop/s of each job in each arm.
    #[must_use]
    pub fn svg(&self) -> String {
        let groups = self.arms.iter().map(|arm| Group {
            name: arm.name(),
            values: (0..2).map(|index| arm.jobs.get(index).map(|job| job.mops)).collect(),
        });
        let phases = self.story.iter().flat_map(Story::speeds);
        let phases =
            phases.map(|(name, a, b)| Group { name, values: [a, b].map(|mops| mops.map(|m| m.0)).to_vec() });
        let bars = Bars {
            title: "Two programs that share a machine".into(),
            unit: "Mop/s".into(),
            series: vec!["job a".into(), "job b".into()],
            groups: groups.chain(phases).collect(),
        };
        bars.svg()
    }
}

/// The mean Mop/s of the arms in which one job ran alone, with this kind of waiting.
fn alone(arms: &[Arm], blocks: bool) -> Option<f64> {
    let is_it = |arm: &&Arm| arm.kind == ArmKind::Alone && arm.blocks == blocks;
    let alone: Vec<f64> = arms.iter().filter(is_it).filter_map(Arm::mops).collect();
    let count = u32::try_from(alone.len()).ok().filter(|count| *count > 0)?;
    Some(alone.iter().sum::<f64>() / f64::from(count)).filter(|mops| *mops > 0.0)
}

fn compare(arms: &[Arm]) -> Option<SpeedUp> {
    let of = |kind| arms.iter().find(|arm| arm.kind == kind && !arm.blocks);
    let mops = |kind| of(kind).and_then(Arm::mops).filter(|mops| *mops > 0.0);
    let is_apart = |kind: &ArmKind| of(*kind).is_some_and(|arm| arm.left_out.is_none());
    let apart_kind = [ArmKind::Pools, ArmKind::Apart].into_iter().find(is_apart)?;
    let (apart, fighting, alone) = (mops(apart_kind)?, mops(ArmKind::Fighting)?, alone(arms, false)?);
    let slower = of(apart_kind)?.jobs.iter().map(|job| job.mops).reduce(f64::min)?;
    Some(SpeedUp {
        over_fighting: apart / fighting,
        over_capped: mops(ArmKind::Capped).map(|capped| apart / capped),
        of_alone: slower / alone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(name: &str, threads: u64, mops: f64, seen: &[(u32, &[f64])]) -> JobResult {
        let seen = seen.iter().map(|(cpu, seconds)| Seen::over(CpuId(*cpu), seconds)).collect();
        JobResult { name: name.into(), threads, mops, iterations: 100, verified: Some(true), seen }
    }

    fn arm(kind: ArmKind, jobs: Vec<JobResult>) -> Arm {
        Arm { kind, blocks: false, sentence: kind.word().into(), jobs, left_out: None, unseen: None }
    }

    fn published() -> Vec<Arm> {
        vec![
            arm(ArmKind::Alone, vec![job("a", 1, 1010.0, &[(1, &[100.0])])]),
            arm(
                ArmKind::Fighting,
                vec![
                    job("a", 2, 80.0, &[(0, &[21.4, 50.6]), (1, &[49.0, 23.0])]),
                    job("b", 2, 80.0, &[(0, &[51.0, 48.0]), (1, &[50.0, 50.2])]),
                ],
            ),
            arm(ArmKind::Capped, vec![job("a", 2, 100.0, &[]), job("b", 2, 100.0, &[])]),
            arm(ArmKind::Pools, vec![job("a", 1, 1000.0, &[]), job("b", 1, 980.0, &[])]),
            arm(ArmKind::Alone, vec![job("a", 1, 990.0, &[])]),
        ]
    }

    fn facts() -> Facts {
        let brand = "Opteron 2210".into();
        Facts { processors: 2, cores: 2, chips: 1, lgroups: 1, brand, sets: 0, free: "0-1".into() }
    }

    #[test]
    fn an_arm_is_a_table_of_its_jobs() {
        let expected = "  \
  job  threads  Mop/s  seen on CPU, percent of samples a second
  a          2   80.0  0: 21-51, 1: 23-49
  b          2   80.0  0: 48-51, 1: 50
";
        assert_eq!(published()[1].text(), expected);
    }

    #[test]
    fn many_processors_are_told_together() {
        let seen: Vec<Seen> =
            (0..64).map(|cpu| Seen::over(CpuId(cpu), &[40.0 + f64::from(cpu) / 10.0])).collect();
        assert_eq!(places(&seen), "0-63: 40-46 each");
    }

    #[test]
    fn the_end_compares_the_arms() {
        let demo = Demo::new(facts(), published(), None);
        let expected = "\
arm       a Mop/s  b Mop/s  of alone
alone      1010.0        -      1.01
fighting     80.0     80.0      0.08
capped      100.0    100.0      0.10
pools      1000.0    980.0      0.98
alone       990.0        -      0.99
over caps: 9.9x
speed-up: 12.4x (each job at 0.98 of alone)
";
        assert_eq!(demo.summary(), expected);
        let json = serde_json::to_value(&demo).unwrap();
        assert_eq!(json["speed_up"]["of_alone"], 0.98);
        assert_eq!(json["arms"][1]["jobs"][0]["seen"][0]["cpu"], 0);
        assert!(demo.svg().contains("<title>fighting, job b: 80.0 Mop/s</title>"));
    }

    #[test]
    fn a_machine_that_was_not_idle_is_told() {
        let mut arms = published();
        arms[4].jobs[0].seen = vec![Seen::over(CpuId(1), &[60.0])];
        let summary = Demo::new(facts(), arms, None).summary();
        let said =
            "the machine was not idle: alone, a had 80 % of its CPUs, and the rest went to others\nover caps";
        assert!(summary.contains(said), "{summary}");
    }

    #[test]
    fn an_arm_that_is_not_possible_says_why_and_is_not_compared() {
        let absent = Absent::because("there is no cgroup controller for processor time");
        let mut arms = published();
        arms[2] = Arm::left_out(Act::spinning(ArmKind::Capped), String::new(), &absent);
        assert_eq!(arms[2].text(), "  left out: there is no cgroup controller for processor time\n");
        let demo = Demo::new(facts(), arms.clone(), None);
        assert_eq!(demo.speed_up.unwrap().over_capped, None);
        assert!(demo.summary().contains("capped          -        -         -\n"), "{}", demo.summary());
        arms[1] = Arm::left_out(Act::spinning(ArmKind::Fighting), String::new(), &absent);
        assert!(
            Demo::new(facts(), arms, None)
                .summary()
                .ends_with("speed-up: not known, since an arm was left out\n")
        );
    }

    #[test]
    fn what_was_not_seen_or_was_wrong_is_told() {
        let mut arm = published().remove(1);
        arm.unseen = Some("no perf events here".into());
        arm.jobs[1].verified = Some(false);
        let expected = "  \
  job  threads  Mop/s  seen on CPU, percent of samples a second
  a          2   80.0  -
  b          2   80.0  -
  where they ran is not known: no perf events here
  the answer of b was WRONG
";
        assert_eq!(arm.text(), expected);
    }

    proptest! {
        #[test]
        fn the_mean_lies_between_the_least_and_the_most(seconds in proptest::collection::vec(0.0..100.0_f64, 1..20)) {
            let seen = Seen::over(CpuId(0), &seconds);
            prop_assert!(seen.least <= seen.mean + 1e-9 && seen.mean <= seen.most + 1e-9);
        }
    }
}
