//! Cost of pool changes compared with the bare writes of the same files, including the start of as many programs: binding a
//! process and unbinding it, and a configuration with a pool and without it.

use super::place::{POOL, Pools};
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Beside, Trouble, build_bare, run_ms, told};
use std::fs;
use std::process::Command;

const BIND: &str = "poolbind: a process into a pool and back (keeping others)";
const COMMIT: &str = "pooladm -c of a pool, pooladm -x (keeping others)";
const BARE: &str = "the bare writes, as a static program";
const V1: &str = "/sys/fs/cgroup/cpuset";
/// A cpuset without other threads.
const CPUSET: &str = "millpond-bench";

pub fn measure(bench: &Bench) -> Vec<Line> {
    let line = |name, result: Result<Pairs, Trouble>| Line::found(name, BARE, "ms", result, Goal::None);
    vec![line(BIND, binding(bench)), line(COMMIT, committing(bench))]
}

fn nodes() -> Result<String, Trouble> {
    let nodes = fs::read_to_string(format!("{V1}/cpuset.mems"));
    nodes
        .map(|text| text.trim().to_owned())
        .map_err(|_| "there is no version 1 cpuset hierarchy here".to_owned())
}

/// A cpuset for the bare writes, removed when this is dropped.
struct Bare<'b>(&'b std::path::Path);

impl Drop for Bare<'_> {
    fn drop(&mut self) {
        let _ = run_ms(Command::new(self.0).args(["destroy-v1", V1, CPUSET]));
    }
}

fn binding(bench: &Bench) -> Result<Pairs, Trouble> {
    let (nodes, cpu) = (nodes()?, crate::goals::tools::processor()?);
    let bare = build_bare(&bench.scratch)?;
    let _pools = Pools::make(bench)?;
    run_ms(Command::new(&bare).args(["create-v1", V1, CPUSET, &cpu, &nodes]))?;
    let _cpuset = Bare(&bare);
    let sleeper = Beside::start(Command::new("sleep").arg("3600"))?;
    let pid = sleeper.pid().to_string();
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let mut ours = run_ms(&mut bench.command(&["poolbind", "-p", POOL, &pid]))?;
        ours += run_ms(&mut bench.command(&["poolbind", "-p", "pool_default", &pid]))?;
        let mut peer = run_ms(Command::new(&bare).args(["move-v1", V1, CPUSET, &pid]))?;
        peer += run_ms(Command::new(&bare).args(["move-v1", V1, ".", &pid]))?;
        pairs.push(ours, peer);
    }
    Ok(pairs)
}

fn committing(bench: &Bench) -> Result<Pairs, Trouble> {
    let (nodes, cpu) = (nodes()?, crate::goals::tools::processor()?);
    let bare = build_bare(&bench.scratch)?;
    let _pools = Pools::make(bench)?;
    let file = bench.scratch.join("pools.conf");
    let file = file.to_str().ok_or("the scratch directory has no name in text")?;
    run_ms(&mut bench.command(&["pooladm", "-s", file]))?;
    told("look at the configuration", fs::metadata(file))?;
    run_ms(&mut bench.command(&["pooladm", "-x"]))?;
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let mut ours = run_ms(&mut bench.command(&["pooladm", "-c", file]))?;
        ours += run_ms(&mut bench.command(&["pooladm", "-x"]))?;
        let mut peer = run_ms(Command::new(&bare).args(["create-v1", V1, CPUSET, &cpu, &nodes]))?;
        peer += run_ms(Command::new(&bare).args(["destroy-v1", V1, CPUSET]))?;
        pairs.push(ours, peer);
    }
    Ok(pairs)
}
