//! What costs a file per process, and is read only where it was asked for: sizes, sets and zones.

use crate::census::entries::Seen;
use crate::zones::classify;
use crate::{LinuxMachine, names};
use millpond_machine::facets::CensusOptions;
use millpond_model::{CpuId, LgrpId, Named, PsetId};
use std::collections::BTreeMap;

/// The zone of everything that is in no other.
const GLOBAL: &str = "global";

/// What belongs to a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// Its address space, in KiB.
    pub(super) size: Option<u64>,
    /// What of it is in memory, in KiB.
    pub(super) rss: Option<u64>,
    /// Its zone.
    pub(super) zone: Named,
    set: PsetIdOr,
}

/// A set; the default one unless it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PsetIdOr(PsetId);

impl Default for PsetIdOr {
    fn default() -> Self {
        PsetIdOr(PsetId::DEFAULT)
    }
}

/// What belongs to each process, as far as it was asked for.
#[derive(Debug, Default)]
pub(super) struct Places {
    own: BTreeMap<u32, Own>,
    /// Sets of threads that are elsewhere than their process.
    threads: BTreeMap<(u32, u32), PsetId>,
    homes: BTreeMap<CpuId, LgrpId>,
}

impl Places {
    /// Looks at the processes of threads that are ascending.
    pub(super) fn look(machine: &LinuxMachine, options: CensusOptions, seen: &[Seen]) -> Places {
        let mut places = Places::default();
        if !options.places && !options.memory {
            return places;
        }
        let mut zones = BTreeMap::new();
        for threads in seen.chunk_by(|a, b| a.pid == b.pid) {
            let pid = threads[0].pid;
            let mut own = Own { zone: Named { id: 0, name: GLOBAL.into() }, ..Own::default() };
            if options.memory {
                (own.size, own.rss) = sizes(machine, pid);
            }
            if options.places
                && let Some(path) = machine.os.place(pid, None).ok().flatten()
            {
                own.set = PsetIdOr(set_at(&path));
                own.zone = zones.entry(path).or_insert_with_key(|path| zone_at(machine, path)).clone();
            }
            if options.places && options.lists_threads() && machine.os.hierarchy.is_v1() && threads.len() > 1
            {
                places.look_at_threads(machine, threads, own.set.0);
            }
            places.own.insert(pid, own);
        }
        if options.places
            && let Ok(topology) = machine.read_topology()
        {
            places.homes = topology.processors().iter().map(|p| (p.id, p.lgroup)).collect();
        }
        places
    }

    /// Version 1 lets threads of a process be in different groups.
    fn look_at_threads(&mut self, machine: &LinuxMachine, threads: &[Seen], whole: PsetId) {
        for seen in threads {
            let path = machine.os.place(seen.pid, Some(seen.tid)).ok().flatten();
            if let Some(set) = path.map(|path| set_at(&path)).filter(|set| *set != whole) {
                self.threads.insert((seen.pid, seen.tid), set);
            }
        }
    }

    /// What belongs to a process.
    pub(super) fn of(&self, pid: u32) -> Option<&Own> {
        self.own.get(&pid)
    }

    /// The set of a thread.
    pub(super) fn set_of(&self, lwp: (u32, u32)) -> PsetId {
        let own = || self.own.get(&lwp.0).map_or(PsetId::DEFAULT, |own| own.set.0);
        self.threads.get(&lwp).copied().unwrap_or_else(own)
    }

    /// The home of who was on that CPU last.
    pub(super) fn home(&self, cpu: CpuId) -> Option<LgrpId> {
        self.homes.get(&cpu).copied()
    }
}

fn set_at(path: &str) -> PsetId {
    names::owner(path).unwrap_or(PsetId::DEFAULT)
}

/// The zone of a process: its cgroup, or the one from which it came into a set.
fn zone_at(machine: &LinuxMachine, path: &str) -> Named {
    let home = match names::owner(path) {
        Some(_) => path.rsplit('/').next().and_then(names::origin).unwrap_or_default(),
        None => path.to_owned(),
    };
    let global = Named { id: 0, name: GLOBAL.into() };
    if home.trim_matches('/').is_empty() {
        return global;
    }
    let Some((_, name)) = classify(&home) else { return global };
    use std::os::unix::fs::MetadataExt;
    let inode = machine.os.hierarchy.dir(&home).and_then(|dir| std::fs::metadata(dir).ok()).map(|m| m.ino());
    Named { id: inode.unwrap_or(0), name }
}

/// Address space and resident part of a process, in KiB.
fn sizes(machine: &LinuxMachine, pid: u32) -> (Option<u64>, Option<u64>) {
    let root = &machine.os.root;
    let text = root.read_value(&root.proc.join(pid.to_string()).join("statm")).ok().flatten();
    text.map_or((None, None), |text| parse_statm(&text, page_kib()))
}

fn page_kib() -> u64 {
    (rustix::param::page_size() / 1024) as u64
}

fn parse_statm(text: &str, page_kib: u64) -> (Option<u64>, Option<u64>) {
    let mut pages = text.split_ascii_whitespace().map(|word| word.parse::<u64>().ok());
    let mut kib = || pages.next().flatten().map(|pages| pages.saturating_mul(page_kib));
    (kib(), kib())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_pages() {
        assert_eq!(parse_statm("1122 910 700 5 0 200 0", 4), (Some(4488), Some(3640)));
        assert_eq!(parse_statm("x", 4), (None, None));
    }
}
