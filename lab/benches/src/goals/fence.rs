//! Time to create and remove a fence: 4 of 64 CPUs of a virtual machine, by a program that keeps the machine open. The
//! machine's clock counts instructions, 2 ns each, so that its milliseconds are reproducible; a present machine executes
//! several instructions in that time.

use super::inside::{kernel, pairs_in, said};
use crate::line::{Goal, Line};
use crate::trial::{Bench, Trouble, told};
use millpond_vm::{Accel, Case, Cgroup, Guest, Image, Nic, Shape};
use serde_json::Value;
use std::time::Duration;

const KERNEL: &str = "6.17";
const LIMIT: Duration = Duration::from_secs(3000);
const UP: &str =
    "a fence of 4 of 64 CPUs is put up, the machine kept open (in a virtual machine, time by instructions)";
const DOWN: &str = "the same fence is taken down";
const PEER: &str = "the same values by system calls alone";
const GOAL: Goal = Goal::OursAtMost(100.0);

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let found = boot(bench);
    let line = |name, key: &str, goal| {
        let pairs = found.as_ref().map(|found| pairs_in(&found[key])).map_err(Clone::clone);
        let line = Line::found(name, PEER, "ms", pairs, goal);
        match &found {
            Ok(found) => line.noting(format!("{} values change", found["writes"])),
            Err(_) => line,
        }
    };
    vec![line(UP, "up", GOAL), line(DOWN, "down", Goal::None)]
}

fn boot(bench: &Bench) -> Result<Value, Trouble> {
    let (cache, kernel) = kernel(KERNEL)?;
    let image = told("make an image", Image::new().program("millpond-benches", &bench.own))?;
    let guest = Guest::new(kernel, told("shape a machine", Shape::flat(64, 2))?)
        .cgroup(Cgroup::V2)
        .nics(&[Nic::Virtio, Nic::Virtio])
        .interrupt_remapping()
        .accel(Accel::Counted)
        .image(&image);
    let script = format!("millpond-benches guest fence {} 60-63\n", bench.pairs);
    let case = told("write a case", Case::new("fence", script))?.limit(LIMIT);
    let report = told("run a virtual machine", guest.run_cases(&[case], &cache))?;
    let case = report.cases.first().ok_or("the virtual machine lost its case")?;
    told("read what the guest said", serde_json::from_str(&said(case)?))
}
