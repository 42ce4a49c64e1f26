//! Creating and removing a fence by a program that keeps the machine open, compared with writing the same values by system calls only.

use crate::line::Pairs;
use crate::trial::{CGROUP, Trouble, told};
use millpond_formats::fence_profile;
use millpond_machine::facets::{FenceWish, Fences};
use millpond_machine::{Machine, Step, Writer};
use millpond_model::{CpuId, CpuSet, FenceName};
use millpond_session::{OpenOptions, Session};
use rustix::thread::{Pid, sched_setaffinity};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const PROFILE: &str = include_str!("../../../../docs/profiles/low-latency.toml");

/// Measured: milliseconds, and the number of values that a fence changes.
pub struct Fenced {
    pub up: Pairs,
    pub down: Pairs,
    pub writes: usize,
}

/// Fences the CPUs this many times. Both restore the machine.
///
/// # Errors
/// A fence cannot be created or removed.
pub fn measure(pairs: usize, cpus: &str) -> Result<Fenced, Trouble> {
    let session = told("open the machine", Session::open(&OpenOptions::default()))?;
    let machine = session.machine();
    let fences = told("find fences", machine.fences())?;
    let list: CpuSet = told("read the CPUs", cpus.parse())?;
    let cpus: Vec<CpuId> = list.iter().collect();
    let mut found = Fenced { up: Pairs::default(), down: Pairs::default(), writes: 0 };
    // Discard the first round, which loads everything into memory.
    for round in 0..=pairs {
        let ours = (up(machine, fences, &cpus)?, down(machine, fences)?);
        let steps = told("plan a fence", fences.prepare_fence(&wish(&cpus)?, false))?.steps;
        let steps: Vec<Step> = steps.into_iter().filter(|step| !step.is_note() && !step.falls).collect();
        let bare = (
            timed(|| steps.iter().try_for_each(|step| put(step, step.after.as_deref())))?,
            timed(|| steps.iter().rev().try_for_each(|step| put(step, step.before.as_deref())))?,
        );
        found.writes = steps.len();
        if round > 0 {
            found.up.push(ours.0, bare.0);
            found.down.push(ours.1, bare.1);
        }
    }
    Ok(found)
}

fn name() -> Result<FenceName, Trouble> {
    "bench".parse().map_err(|_| "a name of a fence".to_owned())
}

fn wish(cpus: &[CpuId]) -> Result<FenceWish, Trouble> {
    let shelter = told("read the profile", fence_profile::parse(PROFILE))?.shelter;
    Ok(FenceWish { name: name()?, profile: "low-latency".into(), shelter, cpus: cpus.to_vec() })
}

fn up(machine: &dyn Machine, fences: &dyn Fences, cpus: &[CpuId]) -> Result<f64, Trouble> {
    let wish = wish(cpus)?;
    timed(|| {
        let writer = told("open the machine for writing", Writer::open(machine))?;
        let change = told("plan a fence", fences.prepare_fence(&wish, false))?;
        told("put up a fence", writer.commit(change)).map(drop)
    })
}

fn down(machine: &dyn Machine, fences: &dyn Fences) -> Result<f64, Trouble> {
    let name = name()?;
    timed(|| {
        let writer = told("open the machine for writing", Writer::open(machine))?;
        let change = told("plan its end", fences.prepare_off(&name))?;
        told("take down a fence", writer.commit(change)).map(drop)
    })
}

/// Milliseconds of an operation.
fn timed(work: impl FnOnce() -> Result<(), Trouble>) -> Result<f64, Trouble> {
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().max(Duration::from_nanos(1)).as_secs_f64() * 1e3)
}

/// Sets the target of a step to a value. Fence records and cgroup marks are Millpond's own, and are skipped.
fn put(step: &Step, value: Option<&str>) -> Result<(), Trouble> {
    let Some((kind, rest)) = step.knob.0.split_once(':') else { return Ok(()) };
    let below = |root: &str| PathBuf::from(root).join(rest.trim_start_matches('/'));
    let done = match (kind, value) {
        ("dir", Some(_)) => fs::create_dir(below(CGROUP)),
        ("dir", None) => fs::remove_dir(below(CGROUP)),
        ("controller", value) => {
            let word = if value.is_some() { "+cpuset" } else { "-cpuset" };
            fs::write(below(CGROUP).join("cgroup.subtree_control"), word)
        }
        ("cg", Some(value)) => fs::write(below(CGROUP), value),
        ("proc", Some(value)) => fs::write(below("/proc"), value),
        ("sys", Some(value)) => fs::write(below("/sys"), value),
        ("kthread", Some(cpus)) => run_on(rest, cpus),
        _ => Ok(()),
    };
    if step.may_refuse { Ok(()) } else { told(&format!("bring {} to {value:?}", step.knob), done) }
}

/// Sets the affinity of a thread, given as `PID@BEGAN`.
fn run_on(task: &str, cpus: &str) -> io::Result<()> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{task} on {cpus}"));
    let pid = task.split('@').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let list: CpuSet = cpus.parse().map_err(|_| wrong())?;
    let mut mask = rustix::thread::CpuSet::new();
    for cpu in list.iter() {
        mask.set(usize::try_from(cpu.0).unwrap_or(usize::MAX));
    }
    Ok(sched_setaffinity(Some(pid.ok_or_else(wrong)?), &mask)?)
}
