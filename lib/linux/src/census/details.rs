//! Data that costs one more file per process, and is read only on request: sizes, sets and zones.

use crate::census::entries::Seen;
use crate::zones::ContainerNames;
use crate::{LinuxMachine, Os, names};
use millpond_machine::facets::CensusOptions;
use millpond_model::{CpuId, LgrpId, Named, PsetId};
use std::collections::{BTreeMap, HashMap};

/// The zone of processes that are in no other zone.
const GLOBAL: &str = "global";

/// Data of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// Its address space, in KiB.
    pub(super) size: Option<u64>,
    /// Resident memory, in KiB.
    pub(super) rss: Option<u64>,
    /// Its zone.
    pub(super) zone: Named,
    set: PsetIdOr,
}

/// A set; the default set unless known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PsetIdOr(PsetId);

impl Default for PsetIdOr {
    fn default() -> Self {
        PsetIdOr(PsetId::DEFAULT)
    }
}

/// Data of each process, as far as requested.
#[derive(Debug, Default)]
pub(super) struct Places {
    own: BTreeMap<u32, Own>,
    /// Sets of threads whose set differs from that of their process.
    threads: BTreeMap<(u32, u32), PsetId>,
    homes: BTreeMap<CpuId, LgrpId>,
}

impl Places {
    /// Reads the processes of `seen`, which is in ascending order.
    pub(super) fn look(machine: &LinuxMachine, options: CensusOptions, seen: &[Seen]) -> Places {
        let mut places = Places::default();
        if !options.places && !options.memory {
            return places;
        }
        let mut zones = BTreeMap::new();
        let names =
            if options.places { ContainerNames::told(&machine.os) } else { ContainerNames::default() };
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
                own.zone =
                    zones.entry(path).or_insert_with_key(|path| zone_at(machine, &names, path)).clone();
            }
            places.own.insert(pid, own);
        }
        if options.places && options.lists_threads() && machine.os.hierarchy.is_v1() {
            places.look_at_threads(&machine.os, seen);
        }
        if options.places
            && let Ok(topology) = machine.read_topology()
        {
            places.homes = topology.processors().iter().map(|p| (p.id, p.lgroup)).collect();
        }
        places
    }

    /// On version 1, threads of one process can be in different cgroups. Reads the cgroups instead of the threads, because there
    /// are far fewer of them.
    fn look_at_threads(&mut self, os: &Os, seen: &[Seen]) {
        let Some(sets) = threads_of_sets(os) else { return };
        for threads in seen.chunk_by(|a, b| a.pid == b.pid).filter(|threads| threads.len() > 1) {
            let whole = self.set_of((threads[0].pid, threads[0].pid));
            for seen in threads {
                let set = sets.get(&seen.tid).copied().unwrap_or(PsetId::DEFAULT);
                if set != whole {
                    self.threads.insert((seen.pid, seen.tid), set);
                }
            }
        }
    }

    /// Data of a process.
    pub(super) fn of(&self, pid: u32) -> Option<&Own> {
        self.own.get(&pid)
    }

    /// The set of a thread.
    pub(super) fn set_of(&self, lwp: (u32, u32)) -> PsetId {
        let own = || self.own.get(&lwp.0).map_or(PsetId::DEFAULT, |own| own.set.0);
        self.threads.get(&lwp).copied().unwrap_or_else(own)
    }

    /// The home group of a thread that ran on `cpu` last.
    pub(super) fn home(&self, cpu: CpuId) -> Option<LgrpId> {
        self.homes.get(&cpu).copied()
    }
}

/// The set of each thread, from the cgroups of sets (version 1). Threads in no set are left out. `None` where the tree cannot be
/// read.
fn threads_of_sets(os: &Os) -> Option<HashMap<u32, PsetId>> {
    let mount = os.hierarchy.mount()?;
    let mut sets = HashMap::new();
    for name in os.root.dirs(mount).ok()? {
        let Some(set) = names::owner(&name) else { continue };
        let mut left = vec![mount.join(&name)];
        while let Some(dir) = left.pop() {
            // A removed cgroup has no threads.
            let tasks = os.root.read(&dir.join("tasks")).ok().flatten().unwrap_or_default();
            sets.extend(tasks.split_ascii_whitespace().filter_map(|tid| Some((tid.parse().ok()?, set))));
            left.extend(os.root.dirs(&dir).unwrap_or_default().iter().map(|name| dir.join(name)));
        }
    }
    Some(sets)
}

fn set_at(path: &str) -> PsetId {
    names::owner(path).unwrap_or(PsetId::DEFAULT)
}

/// The zone of a process: its cgroup, or its original cgroup if it was moved into a set.
fn zone_at(machine: &LinuxMachine, names: &ContainerNames, path: &str) -> Named {
    let home = match names::owner(path) {
        Some(_) => path.rsplit('/').next().and_then(names::origin).unwrap_or_default(),
        None => path.to_owned(),
    };
    let global = Named { id: 0, name: GLOBAL.into() };
    if home.trim_matches('/').is_empty() {
        return global;
    }
    let Some((_, name)) = names.classify(&home) else { return global };
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
    use crate::Root;
    use crate::census::entries::tests::seen;
    use std::fs;

    #[test]
    fn threads_of_a_process_can_be_in_several_sets_with_version_1() {
        let dir = tempfile::tempdir().unwrap();
        let groups = dir.path().join("cgroup/cpuset");
        for (group, tasks) in [("", "1\n7\n"), ("mpset2", ""), ("mpset2/web", "40\n42\n"), ("docker", "9\n")]
        {
            fs::create_dir_all(groups.join(group)).unwrap();
            fs::write(groups.join(group).join("tasks"), tasks).unwrap();
        }
        fs::write(groups.join("cpuset.cpus"), "0-3\n").unwrap();
        let os = Os::new(Root::captured(dir.path()));
        let mut places = Places::default();
        let own = Own { set: PsetIdOr(PsetId(2)), ..Own::default() };
        places.own = BTreeMap::from([(7, Own::default()), (40, own)]);
        places.look_at_threads(&os, &[(7, 7), (7, 42), (9, 9), (40, 40), (40, 41)].map(|(p, t)| seen(p, t)));
        let set = |lwp| places.set_of(lwp).0;
        assert_eq!([(7, 7), (7, 42), (40, 40), (40, 41)].map(set), [0, 2, 2, 0]);
    }

    #[test]
    fn sizes_are_in_pages() {
        assert_eq!(parse_statm("1122 910 700 5 0 200 0", 4), (Some(4488), Some(3640)));
        assert_eq!(parse_statm("x", 4), (None, None));
    }
}
