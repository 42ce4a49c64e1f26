//! E2: two jobs on one machine, mixed, and each on CPUs of its own.
//!
//! # Claim
//!
//! A job whose threads spin for each other loses most of its speed when another job has a part of every CPU: while one of its
//! threads waits for a CPU, the others waste theirs. Each job on CPUs of its own is as fast as it would be alone on that many.
//! A cap on the CPU time of each job does not help, because the problem is where threads run, not how much time they
//! get. A job that blocks at its barriers is not affected.
//!
//! # Arms
//!
//! ```text
//!   alone     one job has the machine, and starts a thread for each CPU
//!   nothing   both jobs, and each starts a thread for each CPU
//!   caps      as nothing, and each job under a cap of 100 % of one CPU
//!   pools     each job in a pool, with a thread for each of its CPUs: one pool has a set of half of them, the other stays on the default set
//!   psets     the same without pools: one job in a set, the other on the remaining CPUs
//! ```
//!
//! Each arm runs with spinning and with blocking barriers, *caps* only with spinning ones. Published figures exist for *nothing* and *pools* with
//! spinning barriers. It was also published, without a figure, that caps do not help, and where the jobs ran: the number of samples on each
//! CPU, of 100 per second.

pub mod real;

use crate::Failure;
use crate::pools::{MadePools, own_set};
use crate::published::{Bench, Choices, Experiment, Findings, Lab, SECONDS, SEEDS, Watched, mean};
use millpond_cli::{Flag, ValueKind};
use millpond_model::{CpuId, Nanos, Pid};
use millpond_report::{Cell, Table};
use millpond_session::NoSuchProcess;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "e2",
    options: &[
        Flag::long("machine", "the simulated machine, or a machine file; smartos-2").value("NAME", ValueKind::Machine),
        Flag::long("arm", "nothing, caps, pools, psets, nothing-blocking, pools-blocking, psets-blocking, beside the job alone; all").value("NAME,...", ValueKind::Words(&ARM_WORDS)),
        Flag::long("threads", "threads of each job; one for each CPU that it may use").value("N", ValueKind::Count(1, 4096)),
        Flag::long("class", "size of the problem; S").value("CLASS", ValueKind::Word(&CLASSES)),
        Flag { help: "how many simulated seconds each arm is measured; 10", ..SECONDS },
        SEEDS,
    ],
    data: include_str!("published.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |choices| {
        choices.word("machine").is_some_and(|name| name != MACHINE)
            || choices.word("class").is_some_and(|class| class != CLASSES[0])
            || choices.has("threads")
    },
    run,
    here: None,
};

/// A zone's other activity, with its monitor, in every arm. It is bound like the job.
pub(crate) const DAEMONS: &str = "daemons";

/// A note about jobs that share all CPUs.
pub(crate) const IN_STEP: &str = "with nothing, two jobs that change places in step stay so for a while: nearly half of the time on all CPUs together, \
     or hardly ever. Daemons bring them from the one to the other, by chance: one run says little, and --seeds how little";

/// A note about caps.
const AHEAD: &str = "with caps, ours depends on how far ahead of its cap a job may be, which was not published: here a tenth of a second; \
     with a whole second, caps change next to nothing";

const MACHINE: &str = "smartos-2";
const SPEED: &str = "Mop/s per zone";
const SAMPLES: &str = "samples on a CPU";
pub(crate) const CLASSES: [&str; 7] = ["S", "W", "A", "B", "C", "D", "E"];
const ZONES: [&str; 2] = ["zone1", "zone2"];

/// Settling time of jobs on the same CPUs before the measurement: long enough to forget how they started.
const SETTLING: Nanos = Nanos::from_secs(30);
/// The same for jobs with CPUs of their own.
const WARM_UP: Nanos = Nanos::from_millis(100);

/// The configuration of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arm {
    word: &'static str,
    jobs: usize,
    /// Each job has CPUs of its own.
    apart: bool,
    /// Separated by pools, not only by a set.
    pools: bool,
    /// Each job has a cap of this percentage of one CPU.
    cap: Option<u32>,
    wait: &'static str,
}

const ALONE: Arm = Arm { word: "alone", jobs: 1, apart: false, pools: false, cap: None, wait: "spin" };

const ARMS: [Arm; 9] = [
    ALONE,
    Arm { word: "nothing", jobs: 2, ..ALONE },
    Arm { word: "caps", jobs: 2, cap: Some(100), ..ALONE },
    Arm { word: "pools", jobs: 2, apart: true, pools: true, ..ALONE },
    Arm { word: "psets", jobs: 2, apart: true, ..ALONE },
    Arm { word: "alone, blocking", wait: "block", ..ALONE },
    Arm { word: "nothing, blocking", jobs: 2, wait: "block", ..ALONE },
    Arm { word: "pools, blocking", jobs: 2, apart: true, pools: true, wait: "block", ..ALONE },
    Arm { word: "psets, blocking", jobs: 2, apart: true, wait: "block", ..ALONE },
];

/// Names of the arms that can be chosen. The job alone always runs too.
const ARM_WORDS: [&str; 7] =
    ["nothing", "caps", "pools", "psets", "nothing-blocking", "pools-blocking", "psets-blocking"];

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let mut table = Table::of(&["arm", "zone"], &["threads", "Mop/s", "of alone"])
        .and_words(&["seen on CPU, samples of 100 a second"]);
    let mut alone = None;
    for arm in ARMS.into_iter().filter(|arm| is_chosen(arm, choices)) {
        lab.tell(arm.word);
        let played = play(lab, &arm, choices)?;
        if findings.machines.is_empty() {
            findings.machines.push(played.machine.clone());
        }
        if arm.jobs == 1 {
            alone = played.mops.first().copied();
        }
        let mean = mean(&played.mops);
        findings.point(SPEED, arm.word, mean);
        if arm.wait == "spin" && arm.jobs == 2 {
            seen(&played, &arm, findings);
        }
        for (job, mops) in played.mops.iter().enumerate() {
            let share = alone.map(|alone| (mops / alone, 2));
            table.row([
                arm.word.into(),
                ZONES[job].into(),
                u32::try_from(played.threads[job]).unwrap_or(u32::MAX).into(),
                (*mops, 1).into(),
                share.into(),
                Cell::from(places(&played, job)),
            ]);
        }
    }
    findings.tables.push(("each zone".into(), table));
    findings.notes.push(IN_STEP.into());
    if ARMS.iter().any(|arm| arm.cap.is_some() && is_chosen(arm, choices)) {
        findings.notes.push(AHEAD.into());
        let mops = |arm: &str| {
            findings.points.iter().find(|p| p.quantity == SPEED && p.variant == arm).map(|p| p.ours)
        };
        if let Some((nothing, caps)) = mops("nothing").zip(mops("caps")) {
            findings.notes.push(caps_claim(nothing, caps));
        }
    }
    Ok(())
}

/// The published claim about caps, and whether this run agrees. This is for one seed; with several, compare the medians in the table.
fn caps_claim(nothing: f64, caps: f64) -> String {
    let agrees = if caps <= nothing { "as published" } else { "not as published" };
    format!(
        "{agrees} in the first run: caps do not help ({caps:.0} Mop/s with caps, {nothing:.0} without; one run is chance, and --seeds shows how much)"
    )
}

fn is_chosen(arm: &Arm, choices: &Choices) -> bool {
    let mut chosen = choices.words("arm");
    match arm.jobs {
        _ if !choices.has("arm") => true,
        1 => chosen.any(|word| word.ends_with("blocking") == (arm.wait == "block")),
        _ => chosen.any(|word| word == arm.word.replace(", ", "-")),
    }
}

/// Measurements of an arm.
struct Played {
    machine: String,
    pids: Vec<Pid>,
    threads: Vec<usize>,
    /// The CPUs that each job may use.
    homes: Vec<Vec<CpuId>>,
    mops: Vec<f64>,
    cpus: Vec<CpuId>,
    watched: Watched,
}

fn play(lab: &Lab<'_>, arm: &Arm, choices: &Choices) -> Result<Played, Failure> {
    let bench = lab.open(choices.word("machine").unwrap_or(MACHINE))?;
    bench.needs_two()?;
    let cpus = bench.cpus();
    let homes: Vec<Vec<CpuId>> = if arm.apart {
        // As published, one job has a set and the other the remaining CPUs.
        let (left, set) = cpus.split_at(cpus.len().div_ceil(2));
        vec![left.to_vec(), set.to_vec()]
    } else {
        vec![cpus.clone(); arm.jobs]
    };
    let count = choices.number("threads").and_then(|count| usize::try_from(count).ok());
    let threads: Vec<usize> = homes.iter().map(|home| count.unwrap_or(home.len())).collect();
    let shared = arm.jobs > 1 && !arm.apart;
    let others =
        ZONES.iter().take(arm.jobs).map(|zone| bench.start(DAEMONS, zone)).collect::<Result<Vec<_>, _>>()?;
    let pids = start(lab, &bench, arm, choices, &threads, shared)?;
    let pools = if arm.pools { Some(in_pools(&bench, &homes[1], &[&pids, &others])?) } else { None };
    let set = if arm.apart && !arm.pools { Some(bench.set(&homes[1])?) } else { None };
    if let Some(set) = &set {
        bench.bind(pids[1], set)?;
        bench.bind(others[1], set)?;
    }
    lab.pass(&bench, if shared { SETTLING } else { WARM_UP })?;
    let watched = lab.watch(&bench, &pids, choices.number("seconds").unwrap_or(10))?;
    drop(pools);
    let mops = watched.rates.iter().map(|rate| rate / 1e6).collect();
    Ok(Played { machine: bench.sentence(), pids, threads, homes, mops, cpus, watched })
}

/// Two pools as published: one gets the new set, the other stays on the default set. Each zone, or its processes, is in one of them.
fn in_pools<'b>(bench: &'b Bench, set: &[CpuId], kinds: &[&[Pid]]) -> Result<MadePools<'b>, Failure> {
    let pools = MadePools::make(bench.machine(), false, |editor| {
        editor.create_pool(ZONES[0])?;
        own_set(editor, ZONES[1], set, 1)
    })?;
    for (at, zone) in ZONES.iter().enumerate() {
        if !pools.bind_zone(zone)? {
            kinds.iter().filter_map(|pids| pids.get(at)).try_for_each(|pid| pools.bind(*pid, zone))?;
        }
    }
    Ok(pools)
}

/// Starts the jobs. Jobs that share all CPUs are not synchronized: the second one starts at a random time within a second.
fn start(
    lab: &Lab<'_>,
    bench: &Bench,
    arm: &Arm,
    choices: &Choices,
    threads: &[usize],
    shared: bool,
) -> Result<Vec<Pid>, Failure> {
    let class = choices.word("class").unwrap_or(CLASSES[0]);
    let mut pids = Vec::new();
    for (threads, zone) in threads.iter().zip(ZONES) {
        if shared && !pids.is_empty() {
            lab.pass(bench, lab.second_moment())?;
        }
        let pid = bench.start(&format!("cg -t {threads} --class {class} --wait {}", arm.wait), zone)?;
        if let Some(percent) = arm.cap {
            let refused = |why: NoSuchProcess| Failure::Machine(why.to_string());
            bench.simulation()?.cap(pid, percent).map_err(refused)?;
        }
        pids.push(pid);
    }
    Ok(pids)
}

/// Adds where the jobs were sampled: the smallest and the largest percentage of a job on a CPU.
fn seen(played: &Played, arm: &Arm, findings: &mut Findings) {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (pid, home) in played.pids.iter().zip(&played.homes) {
        for cpu in &played.cpus {
            let samples = played.watched.samples(*pid, *cpu);
            if home.contains(cpu) { own.extend(samples) } else { others.extend(samples) }
        }
    }
    let (fewest, most) = (own.iter().min().copied(), own.iter().max().copied());
    let on_own = if arm.apart { " on its own" } else { "" };
    for (word, count) in [("fewest", fewest), ("most", most)] {
        if let Some(count) = count {
            findings.point(SAMPLES, &format!("{}: {word}{on_own}", arm.word), crate::published::real(count));
        }
    }
    if let Some(count) = others.iter().max() {
        findings.point(
            SAMPLES,
            &format!("{}: most on the other's", arm.word),
            crate::published::real(*count),
        );
    }
}

/// Maximum number of CPUs that are listed individually.
const TOLD_MAX: usize = 8;

/// Percentages by CPU: `0: 21-51, 1: 22-49`.
fn places(played: &Played, job: usize) -> String {
    let one = |cpu: &CpuId| {
        let samples = played.watched.samples(played.pids[job], *cpu);
        let (least, most) = (samples.iter().min()?, samples.iter().max()?);
        (*most > 0)
            .then(|| if least == most { format!("{cpu}: {most}") } else { format!("{cpu}: {least}-{most}") })
    };
    let told: Vec<String> = played.cpus.iter().filter_map(one).collect();
    match told.len() {
        0 => "nowhere".into(),
        count if count > TOLD_MAX => format!("{count} CPUs"),
        _ => told.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    fn findings(given: &[(&str, &str)]) -> Findings {
        let given: BTreeMap<String, String> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let choices = Choices::of(EXPERIMENT.options, &given).unwrap();
        let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
        EXPERIMENT.run(&mut Lab::new(&stop, Vec::new(), &mut quiet), &choices).unwrap()
    }

    fn ours(findings: &Findings, quantity: &str, variant: &str) -> f64 {
        let point = |p: &&crate::published::Point| p.quantity == quantity && p.variant == variant;
        findings.points.iter().find(point).unwrap().ours
    }

    #[test]
    fn jobs_that_spin_suffer_from_sharing_and_jobs_that_block_do_not() {
        let found = findings(&[("seconds", "1")]);
        let mops = |variant| ours(&found, SPEED, variant);
        // Together at most half of the time; how much less is random.
        assert!(mops("nothing") < mops("psets"));
        assert!(mops("nothing, blocking") > 0.9 * mops("psets, blocking"));
        // Alone, a job has twice the CPUs, less twice the loss to daemons.
        assert!((1.85..2.0).contains(&(mops("alone") / mops("psets"))));
        let samples = |variant| ours(&found, SAMPLES, variant);
        // Daemons take 5 % of the CPU that is in no set.
        assert!((90.0..100.0).contains(&samples("psets: fewest on its own")));
        assert_eq!(samples("psets: most on the other's"), 0.0);
        // Pools are named sets, so the results are equal.
        assert!((mops("pools") / mops("psets") - 1.0).abs() < 0.01);
        assert!((90.0..=100.0).contains(&samples("pools: fewest on its own")));
        assert_eq!(samples("pools: most on the other's"), 0.0);
        assert_eq!(found.tables[0].1.len(), 16);
    }

    #[test]
    fn arms_are_chosen_with_the_job_alone_beside_them() {
        let arms = |arm| {
            let found = findings(&[("seconds", "1"), ("arm", arm)]);
            let of_speed = found.points.iter().filter(|point| point.quantity == SPEED);
            of_speed.map(|point| point.variant.clone()).collect::<Vec<_>>()
        };
        assert_eq!(arms("pools"), ["alone", "pools"]);
        assert_eq!(
            arms("nothing-blocking,nothing"),
            ["alone", "nothing", "alone, blocking", "nothing, blocking"]
        );
    }

    #[test]
    fn how_long_jobs_that_share_all_cpus_are_together_is_chance() {
        let found = findings(&[("seconds", "1"), ("arm", "nothing"), ("seeds", "6")]);
        let point = |variant: &str| {
            found.points.iter().find(|p| p.quantity == SPEED && p.variant == variant).unwrap()
        };
        let alone = point("alone").ours;
        let (least, most) = point("nothing").over_seeds.unwrap();
        // Each has half of each CPU: together at most half of the time.
        assert!(most <= 0.5 * alone && 2.0 * least < most, "{least} {most} {alone}");
    }

    #[test]
    fn caps_do_not_help_jobs_that_spin() {
        let found = findings(&[("seconds", "2"), ("arm", "caps,psets")]);
        let [caps, psets] = ["caps", "psets"].map(|arm| ours(&found, SPEED, arm));
        // Two jobs on all CPUs are together at most half of the time, which is the result of a set of half of them.
        assert!(caps < psets, "{caps} {psets}");
    }

    #[test]
    fn the_claim_about_caps_is_judged() {
        assert!(caps_claim(101.2, 453.0).starts_with(
            "not as published in the first run: caps do not help (453 Mop/s with caps, 101 without;"
        ));
        assert!(caps_claim(257.0, 144.0).starts_with("as published in the first run: "));
    }

    #[test]
    fn other_conditions_are_not_compared() {
        let found = findings(&[("seconds", "1"), ("arm", "psets"), ("threads", "2")]);
        assert!(found.points.iter().all(|point| point.published.is_none()));
    }
}
