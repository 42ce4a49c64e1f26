//! A service and a batch job in two pods, in a virtual machine whose clock counts instructions: a growing pool, weights only, and the
//! CPU lists that a kubelet with a static CPU manager writes. And how soon a container gets the CPUs that it needs.

use super::inside::{kernel, said};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, told};
use millpond_vm::{Accel, Case, Cgroup, Containerd, Guest, Image, Shape, obtain_containerd};
use serde::Deserialize;
use std::time::Duration;

const TIMES: &str = "pods: 99 of 100 response times of a service in a pool, beside a batch";
const WORK: &str = "pods: what the batch does in a second meanwhile";
const DEMAND: &str = "pods: from three threads that compute in a container of a pool with one CPU to its second one, while others compute";
const STEADY: &str = "pods: changes in a minute of steady load";
const WEIGHTS: &str = "weights alone";
const LISTS: &str = "lists as of CPU manager static";
const BY_HAND: &str = "poolcfg, by hand";

const DEMAND_GOAL: Goal = Goal::OursAtMost(250.0);
const STEADY_GOAL: Goal = Goal::OursAtMost(0.0);
const KERNEL: &str = "6.17";
const LIMIT: Duration = Duration::from_secs(3_000);
/// Each round takes a minute or more in the guest.
const ROUNDS: usize = 7;

/// The guest's output.
#[derive(Debug, Clone, Deserialize)]
struct Found {
    /// For each round, for pool, weights and lists: milliseconds, and millions of iterations per second.
    arms: Vec<[(f64, f64); 3]>,
    /// For each round: milliseconds by poold, and by hand.
    demand: Vec<(f64, f64)>,
    /// For each minute: number of changes, and of poold's decisions.
    steady: Vec<(f64, f64)>,
    /// The reasons.
    why: Vec<String>,
}

pub fn measure(bench: &Bench) -> Vec<Line> {
    let found = boot(bench);
    let line = |name, peer, unit, goal, of: &dyn Fn(&Found) -> Vec<(f64, f64)>| {
        let pairs = found.as_ref().map(|found| {
            let mut pairs = Pairs::default();
            of(found).into_iter().for_each(|(ours, peer)| pairs.push(ours, peer));
            pairs
        });
        Line::found(name, peer, unit, pairs.map_err(Clone::clone), goal)
    };
    let times =
        |peer: usize| move |found: &Found| found.arms.iter().map(|arms| (arms[0].0, arms[peer].0)).collect();
    let works =
        |peer: usize| move |found: &Found| found.arms.iter().map(|arms| (arms[0].1, arms[peer].1)).collect();
    let mut steady = line(STEADY, "looks of poold", "", STEADY_GOAL, &|found| found.steady.clone());
    if let Some(why) = found.as_ref().ok().map(|found| found.why.join("; ")).filter(|why| !why.is_empty()) {
        steady = steady.noting(why);
    }
    vec![
        line(DEMAND, BY_HAND, "ms", DEMAND_GOAL, &|found| found.demand.clone()),
        steady,
        line(TIMES, WEIGHTS, "ms", Goal::None, &times(1)),
        line(TIMES, LISTS, "ms", Goal::None, &times(2)),
        line(WORK, WEIGHTS, "M", Goal::None, &works(1)),
        line(WORK, LISTS, "M", Goal::None, &works(2)),
    ]
}

fn boot(bench: &Bench) -> Result<Found, Trouble> {
    let (cache, kernel) = kernel(KERNEL)?;
    let tools = told("get containerd", obtain_containerd(Containerd::Newest, &cache, &|_| {}))?;
    let mut image = told("make an image", Image::new().program("millpond", &bench.millpond))?;
    image = told("make an image", image.program("millpond-benches", &bench.own))?;
    image = told("make an image", tools.in_image(image))?;
    let rounds = bench.pairs.min(ROUNDS);
    let script = format!("ROUNDS={rounds}\n{}", include_str!("../guest/pods.sh"));
    let case = told("write a case", Case::new("pods", script))?.limit(LIMIT);
    let guest = Guest::new(kernel, told("shape a machine", Shape::flat(4, 1))?)
        .cgroup(Cgroup::V2)
        .memory_mb(3072)
        .accel(Accel::Counted)
        .image(&image);
    let report = told("run a virtual machine", guest.run_cases(&[case], &cache))?;
    let case = report.cases.first().ok_or("the virtual machine lost its case")?;
    told("read what the guest said", serde_json::from_str(&said(case)?))
}
