//! Creating and removing a set by a program that keeps the machine open, such as a pool daemon, compared with the same bare writes in the same
//! program: no program is started.

use crate::line::Pairs;
use crate::trial::{CGROUP, Trouble, told};
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Machine, Refusal, Writer};
use millpond_model::{CpuId, PsetId};
use millpond_session::{OpenOptions, Session};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Pairs of milliseconds. Both restore the machine.
///
/// # Errors
/// A set cannot be created or removed.
pub fn measure(pairs: usize) -> Result<Pairs, Trouble> {
    let session = told("open the machine", Session::open(&OpenOptions::default()))?;
    let mut result = Pairs::default();
    // Discard the first round, which loads both into memory.
    for round in 0..=pairs {
        let begin = Instant::now();
        told("make a set and remove it", by_library(session.machine()))?;
        let ours = begin.elapsed();
        let begin = Instant::now();
        told("make a partition and remove it", by_hand(Path::new(CGROUP)))?;
        let peer = begin.elapsed();
        if round > 0 {
            result.push(ours.as_secs_f64() * 1e3, peer.as_secs_f64() * 1e3);
        }
    }
    Ok(result)
}

fn by_library(machine: &dyn Machine) -> Result<(), Refusal> {
    let psets = machine.psets()?;
    let create = || psets.prepare_create(&[CpuId(2), CpuId(3)], CreateOptions::default(), false);
    let (set, _): (PsetId, _) = Writer::open(machine)?.commit(create()?)?.outcome;
    Writer::open(machine)?.commit(psets.prepare_destroy(set)?)?;
    Ok(())
}

fn by_hand(root: &Path) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let group = root.join("bare");
    fs::write(root.join("cgroup.subtree_control"), "+cpuset").map_err(said)?;
    fs::create_dir(&group).map_err(said)?;
    fs::write(group.join("cpuset.cpus"), "2-3").map_err(said)?;
    fs::write(group.join("cpuset.cpus.partition"), "root").map_err(said)?;
    let is = fs::read_to_string(group.join("cpuset.cpus.partition")).map_err(said)?;
    if is.trim() != "root" {
        return Err(format!("the kernel says `{}`", is.trim()));
    }
    fs::remove_dir(&group).map_err(said)?;
    fs::write(root.join("cgroup.subtree_control"), "-cpuset").map_err(said)
}
