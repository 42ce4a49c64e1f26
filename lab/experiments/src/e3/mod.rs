//! E3: a malleable job: its speed follows the CPUs of its set, and rises when the other job stops.
//!
//! # Claim
//!
//! Two jobs that start a thread for each of the machine's CPUs and spin almost stop each other. With a set of half of the CPUs
//! each, and as many threads, both are fast. When one stops, its CPUs go to the other, which starts a thread for each of them.
//!
//! # Arms
//!
//! ```text
//!   nothing       both jobs on all CPUs, with a given number of threads
//!   psets         each job in a set of a given number of CPUs, with as many threads
//!   one stopped   one job in a set of a given number of CPUs, with as many threads; the other one has stopped
//! ```
//!
//! With `--grow` both jobs are in pools, one stops and starts again, and a policy of poold moves CPUs. `--svg` draws the sizes over logarithmic
//! time, all policies in one picture. With `--machine real` the programs run on the real machine.
//!
//! Published: the first with 64 threads, the second with 32, and the third with 32, 34, 38, 39 and 62. Options choose other numbers; then
//! only the chosen arms run. A job that is given all CPUs has the machine, and no set.

mod growth;

use crate::Failure;
use crate::e2::{CLASSES, DAEMONS, IN_STEP};
use crate::published::{Bench, Choices, Experiment, Findings, Lab, SECONDS, SEEDS};
use millpond_cli::{Flag, ValueKind};
use millpond_model::{CpuId, Nanos, Pid};
use millpond_planner::POLICIES;
use millpond_session::SIMULATED;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "e3",
    options: &[
        Flag::long("threads", "one job with so many CPUs and threads, the other one stopped; 32,34,38,39,62")
            .value("N,...", ValueKind::Counts(1, 4096)),
        Flag::long("psets", "both jobs, each with so many CPUs and threads; 32")
            .value("N,...", ValueKind::Counts(1, 4096)),
        Flag::long("nothing", "both jobs with so many threads each on all CPUs; 64")
            .value("N,...", ValueKind::Counts(1, 4096)),
        Flag::long("machine", "the simulated machine; t2-64").value("NAME", ValueKind::Word(&SIMULATED)),
        Flag::long("class", "size of the problem; S").value("CLASS", ValueKind::Word(&CLASSES)),
        Flag::long("wait", "how threads wait at barriers; spin").value("HOW", ValueKind::Word(&WAITS)),
        Flag::long("grow", "one job stops and starts again under these policies of poold: millpond, solaris")
            .value("POLICY,...", ValueKind::Words(&POLICIES)),
        Flag { help: "how many simulated seconds each arm is measured; 10 with nothing, else 1", ..SECONDS },
        SEEDS,
    ],
    data: include_str!("published.json"),
    source: millpond_cli::head!(include_str!("mod.rs")),
    departs: |choices| {
        let other = |name, own| choices.word(name).is_some_and(|word| word != own);
        other("machine", MACHINE) || other("class", CLASSES[0]) || other("wait", WAITS[0])
    },
    run,
    here: None,
};

const MACHINE: &str = "t2-64";
const WAITS: [&str; 2] = ["spin", "block"];
const SPEED: &str = "Mop/s per zone";
const ZONES: [&str; 2] = ["zone1", "zone2"];

/// The published numbers, by option.
const PUBLISHED: [(&str, &[u64]); 3] =
    [("nothing", &[64]), ("psets", &[32]), ("threads", &[32, 34, 38, 39, 62])];

/// Settling time of two jobs on all CPUs before the measurement: long enough to forget how they started.
const SETTLING: Nanos = Nanos::from_secs(30);
/// The same for jobs with CPUs of their own.
const WARM_UP: Nanos = Nanos::from_millis(100);

fn run(lab: &mut Lab<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let everything = !choices.has("grow") && PUBLISHED.iter().all(|(option, _)| !choices.has(option));
    for (option, published) in PUBLISHED {
        let counts = choices.numbers(option).unwrap_or(if everything { published } else { &[] });
        for count in counts {
            arm(lab, choices, findings, option, *count)?;
        }
    }
    for name in choices.words("grow") {
        lab.tell(&format!("pools that grow: {name}"));
        let bench = lab.open(choices.word("machine").unwrap_or(MACHINE))?;
        if findings.machines.is_empty() {
            findings.machines.push(bench.sentence());
        }
        growth::play(lab, &bench, name, findings)?;
    }
    if everything || choices.has("nothing") {
        findings.notes.push(IN_STEP.into());
    }
    Ok(())
}

/// Runs one arm and adds its point.
fn arm(
    lab: &mut Lab<'_>,
    choices: &Choices,
    findings: &mut Findings,
    option: &str,
    count: u64,
) -> Result<(), Failure> {
    let variant = match option {
        "nothing" => format!("nothing: {count} threads each"),
        "psets" => format!("psets: {count} threads each"),
        _ => format!("one stopped: {count} threads"),
    };
    lab.tell(&variant);
    let bench = lab.open(choices.word("machine").unwrap_or(MACHINE))?;
    if findings.machines.is_empty() {
        findings.machines.push(bench.sentence());
    }
    let seconds = |usual| Nanos::from_secs(choices.number("seconds").unwrap_or(usual));
    let job = |zone: &str| {
        let [class, wait] = [("class", CLASSES[0]), ("wait", WAITS[0])]
            .map(|(name, usual)| choices.word(name).unwrap_or(usual).to_owned());
        bench.start(&format!("cg -t {count} --class {class} --wait {wait}"), zone)
    };
    let others = [bench.start(DAEMONS, ZONES[0])?, bench.start(DAEMONS, ZONES[1])?];
    let rates = match option {
        "nothing" => {
            let first = job(ZONES[0])?;
            lab.pass(&bench, lab.second_moment())?;
            let pids = [first, job(ZONES[1])?];
            lab.pass(&bench, SETTLING)?;
            lab.rates(&bench, &pids, seconds(10))?
        }
        "psets" => {
            let cpus = shares(&bench, count, 2)?;
            measured(lab, &bench, &[job(ZONES[0])?, job(ZONES[1])?], &others, &cpus, seconds(1))?
        }
        _ => {
            let cpus = shares(&bench, count, 1)?;
            measured(lab, &bench, &[job(ZONES[0])?], &others, &cpus, seconds(1))?
        }
    };
    let jobs = u32::try_from(rates.len().max(1)).map_or(f64::MAX, f64::from);
    let mops = rates.iter().sum::<f64>() / jobs / 1e6;
    match option {
        "threads" => findings.point_at(SPEED, &variant, "one stopped", crate::published::real(count), mops),
        _ => findings.point(SPEED, &variant, mops),
    }
    if let [one, other] = rates.as_slice() {
        findings.notes.push(format!("{variant}: {:.1} and {:.1} Mop/s", one / 1e6, other / 1e6));
    }
    Ok(())
}

/// `count` CPUs for each of `jobs` jobs, in order of number: CPUs of a core together.
fn shares(bench: &Bench, count: u64, jobs: usize) -> Result<Vec<Vec<CpuId>>, Failure> {
    let cpus = bench.cpus();
    let each = usize::try_from(count).unwrap_or(usize::MAX);
    if each.saturating_mul(jobs) > cpus.len() {
        let why =
            format!("machine {} has {} CPUs, and {jobs} times {count} are wanted", bench.name(), cpus.len());
        return Err(Failure::Machine(why));
    }
    Ok(cpus.chunks(each).take(jobs).map(<[CpuId]>::to_vec).collect())
}

/// Operations per second of jobs, each in a set with its zone's other processes. The last job stays in the default set if that would otherwise be
/// empty.
fn measured(
    lab: &Lab<'_>,
    bench: &Bench,
    pids: &[Pid],
    others: &[Pid],
    cpus: &[Vec<CpuId>],
    time: Nanos,
) -> Result<Vec<f64>, Failure> {
    let mut left = bench.cpus().len();
    let mut sets = Vec::new();
    for ((pid, other), cpus) in pids.iter().zip(others).zip(cpus) {
        if cpus.len() < left {
            let set = bench.set(cpus)?;
            bench.bind(*pid, &set)?;
            bench.bind(*other, &set)?;
            sets.push(set);
            left -= cpus.len();
        }
    }
    lab.pass(bench, WARM_UP)?;
    lab.rates(bench, pids, time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    fn run(given: &[(&str, &str)]) -> Result<Findings, Failure> {
        let given: BTreeMap<String, String> =
            given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let choices = Choices::of(EXPERIMENT.options, &given).unwrap();
        let (stop, mut quiet) = (AtomicBool::new(false), |_: &str| ());
        EXPERIMENT.run(&mut Lab::new(&stop, Vec::new(), &mut quiet), &choices)
    }

    #[test]
    fn a_job_is_as_fast_as_its_set_whoever_has_the_other_processors() {
        let found = run(&[("threads", "8,16"), ("psets", "8"), ("nothing", "64"), ("seconds", "1")]).unwrap();
        let mops = |variant: &str| found.points.iter().find(|point| point.variant == variant).unwrap().ours;
        let (eight, sixteen) = (mops("one stopped: 8 threads"), mops("one stopped: 16 threads"));
        // 175 rows per thread, and 88 at most, of 366 instructions of about 9 cycles each. Threads meet four times per step, and each is counted in
        // 8.2 × 26 = 213 cycles: (576,450 + 4 × 8 × 213) / (289,872 + 4 × 16 × 213).
        assert!((sixteen / eight - 1.922).abs() < 0.05, "{eight} {sixteen}");
        assert!((mops("psets: 8 threads each") / eight - 1.0).abs() < 0.02);
        assert!(mops("nothing: 64 threads each") * 10.0 < eight);
        let x: Vec<f64> = found.points.iter().filter_map(|point| point.place.as_ref()).map(|p| p.1).collect();
        assert_eq!(x, [8.0, 16.0]);
    }

    #[test]
    fn pools_grow_at_once_or_processor_by_processor() {
        let found = run(&[("grow", "millpond")]).unwrap();
        let until = |found: &Findings, variant: &str| {
            found.points.iter().find(|point| point.variant == variant).map(|point| point.ours)
        };
        assert!(until(&found, "millpond: one stops").unwrap() <= 0.25);
        assert!(until(&found, "millpond: it starts again").unwrap() <= 1.5);
        let sizes: Vec<f64> =
            found.points.iter().filter(|point| point.place.is_some()).map(|point| point.ours).collect();
        // It gets a CPU, starts again with one thread, and doubles after each interval.
        assert_eq!(sizes, [32.0, 64.0, 64.0, 62.0, 60.0, 56.0, 48.0, 32.0]);
        let svg = found.svg();
        assert!(svg.contains(">millpond: stop<") && svg.contains(">0.1<"), "{svg}");
        // With two CPUs, the set of the stopped job gives its last one.
        let found = run(&[("grow", "millpond"), ("machine", "smartos-2")]).unwrap();
        let sizes: Vec<f64> =
            found.points.iter().filter(|point| point.place.is_some()).map(|point| point.ours).collect();
        assert_eq!(sizes, [1.0, 2.0, 2.0, 1.0]);
        // There is one CPU to gain; samples exist when the other job stops.
        let found = run(&[("grow", "solaris"), ("machine", "x4200")]).unwrap();
        assert_eq!(until(&found, "solaris: one stops"), Some(15.0));
    }

    #[test]
    fn who_gets_all_processors_has_no_set() {
        let found = run(&[("machine", "smartos-2"), ("threads", "1,2"), ("seconds", "1")]).unwrap();
        let (one, both) = (found.points[0].ours, found.points[1].ours);
        // Daemons of each zone take 5 % of a CPU. With sets, a zone's daemons are in its set; otherwise both zones' daemons delay both threads.
        assert!((both / one - 2.0 * 0.90 / 0.95).abs() < 0.02, "{one} {both}");
        assert_eq!(found.points[0].published, None);
        let refused = run(&[("machine", "smartos-2"), ("threads", "3")]).unwrap_err();
        assert_eq!(refused.to_string(), "machine smartos-2 has 2 CPUs, and 1 times 3 are wanted");
    }
}
