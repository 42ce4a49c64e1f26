//! Emulates the effects of the kernel and systemd on a root that is only files: a captured machine or a synthetic tree.
//!
//! It does just enough that a change reads back as on a real machine: a task is in one cgroup, a new cgroup has its control
//! files, a partition takes its CPUs from its parent, an off-line CPU leaves the lists. It schedules nothing, counts nothing, and
//! refuses only what the control files themselves refuse.

use super::{Done, Fs};
use crate::cpu_tree::{CpuTree, lists_cpu};
use crate::files::{Replacing, replace_file};
use crate::hierarchy::lists_cpuset;
use crate::knob::TaskId;
use crate::os::{BUSY, NO_ROOM, knob_error};
use crate::policy::Policy;
use crate::systemd::{self, Manager};
use crate::{Os, Root, is_gone};
use millpond_machine::KnobError;
use millpond_model::{CpuId, CpuSet, NodeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory with a machine's files.
#[derive(Debug)]
pub(crate) struct Captured;

impl Fs for Captured {
    fn may_write_groups(&self, mount: &Path) -> Done {
        let is_locked = |path: &Path| fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o222 == 0);
        match (is_locked(mount), is_locked(&mount.join("cgroup.procs"))) {
            (true, _) => Err(KnobError::ReadOnly),
            (_, true) => Err(KnobError::NotPermitted),
            _ => Ok(()),
        }
    }

    fn write(&self, os: &Os, path: &Path, text: &str) -> Done {
        narrowing(os, || refreshing(os, || write(os, path, text)))
    }

    fn make_group(&self, os: &Os, _path: &str, dir: &Path) -> Done {
        make_group(os, dir)
    }

    fn remove_group(&self, os: &Os, dir: &Path) -> Done {
        narrowing(os, || refreshing(os, || remove_group(&os.root, dir)))
    }

    fn label(&self, os: &Os, dir: &Path, key: &str) -> Result<Option<String>, KnobError> {
        os.root.read(&label_file(dir, key)).map_err(knob_error)
    }

    fn set_label(&self, os: &Os, dir: &Path, key: &str, value: Option<&str>) -> io::Result<()> {
        let file = label_file(dir, key);
        match value {
            Some(value) => replace_file(&os.root.at(&file)?.path, value.as_bytes(), Replacing::default()),
            None => match os.root.remove(file) {
                Err(error) if is_gone(&error) => Ok(()),
                result => result,
            },
        }
    }

    fn attach(&self, os: &Os, task: TaskId, path: &str) -> Done {
        attach(os, task, path)
    }

    fn affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError> {
        allowed(os, task)
    }

    fn whole_affinity(&self, os: &Os, task: TaskId) -> Result<CpuSet, KnobError> {
        let (place, cpuset) = cpuset_of(os, task)?;
        // Only the root cpuset takes no notice of CPUs that go off-line.
        let free = if place == ROOT { unpartitioned(os)? } else { cpuset };
        Ok(remembered(os, task)?.map_or_else(|| free.clone(), |mask| within(&mask, &free)))
    }

    fn set_affinity(&self, os: &Os, task: TaskId, mask: Option<&CpuSet>) -> Done {
        set_mask(os, task, mask)
    }

    fn own_affinity(&self, _os: &Os) -> io::Result<Option<CpuSet>> {
        Ok(None)
    }

    fn kept_policy(&self, os: &Os, task: TaskId) -> Option<Policy> {
        os.root.text(policy_file(os, task)).ok()?.parse().ok()
    }

    fn set_policy(&self, os: &Os, task: TaskId, to: Policy) -> Done {
        os.root.replace(policy_file(os, task), to.to_string()).map_err(knob_error)
    }

    fn move_pages(&self, _os: &Os, _task: TaskId, _to: &NodeSet) -> Done {
        Ok(())
    }

    fn effective(&self, os: &Os, path: &str) -> Result<CpuSet, KnobError> {
        effective(os, path)
    }

    fn make_cache_group(&self, os: &Os, dir: &Path) -> io::Result<()> {
        os.root.make_dir(dir)?;
        // A new resctrl group has all cache and bandwidth, and no CPU.
        let root = dir.parent().unwrap_or(dir);
        os.root.replace(dir.join("schemata"), os.root.text(root.join("schemata"))?)?;
        os.root.replace(dir.join("cpus_list"), "\n")
    }

    fn remove_cache_group(&self, os: &Os, dir: &Path) -> io::Result<()> {
        os.root.remove_tree(dir)
    }

    fn make_cpu_group(&self, os: &Os, tree: &CpuTree, path: &str) -> io::Result<()> {
        make_cpu_group(os, tree, path)
    }

    fn attach_cpu(&self, os: &Os, tree: &CpuTree, task: TaskId, path: &str) -> Done {
        attach_cpu(os, tree, task, path)
    }

    fn manager<'a>(&self, os: &'a Os) -> Result<Box<dyn Manager + 'a>, KnobError> {
        Ok(systemd::captured(os))
    }
}

/// The file of a label. A captured root may be on a file system without extended attributes.
pub(crate) fn label_file(dir: &Path, key: &str) -> PathBuf {
    dir.join(format!(".label.{key}"))
}

fn refused(why: &str) -> KnobError {
    KnobError::Refused(why.to_owned())
}

fn write(os: &Os, path: &Path, text: &str) -> Result<(), KnobError> {
    if !path.exists() {
        return Err(KnobError::Gone);
    }
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let text = text.trim_end_matches('\n');
    match name {
        "cpuset.cpus" => check_cpus(os, path, text)?,
        "cpuset.cpus.partition" => {
            let valid = text == "member" || partition_is_possible(os, path)?;
            let kept = if valid {
                text.to_owned()
            } else {
                format!("{text} invalid (Cpu list in cpuset.cpus not exclusive)")
            };
            return os.root.replace(path, kept + "\n").map_err(knob_error);
        }
        "cpuset.mems" if os.hierarchy.is_v1() => check_nodes(&os.root, path, text)?,
        "cpuset.mems"
            if text.is_empty()
                && !os.empties_lists()
                && path.parent().is_some_and(|dir| is_populated(&os.root, dir)) =>
        {
            return Err(refused(NO_ROOM));
        }
        "cgroup.subtree_control" => return write_subtree(os, path, text),
        "schemata" => return write_schema(&os.root, path, text),
        "cpu.idle" => return write_idle(&os.root, path, text),
        "cpu.weight" | "cpu.shares" | "cpu.max" | "cpu.cfs_quota_us" => {
            check_cpu(&os.root, path, name, text)?
        }
        "online" => return write_online(os, path, text),
        _ => {}
    }
    os.root.replace(path, format!("{text}\n")).map_err(knob_error)
}

fn check_cpus(os: &Os, path: &Path, text: &str) -> Result<(), KnobError> {
    let wanted: CpuSet = text.parse().map_err(|_| refused("the kernel says that it is not valid"))?;
    if !wanted.is_subset(&os.cpu_list("possible")?) {
        return Err(refused("the kernel says that it is not valid"));
    }
    let dir = path.parent().unwrap_or(path);
    let keeps = os.hierarchy.is_v1() || !os.empties_lists();
    if wanted.is_empty() && keeps && is_populated(&os.root, dir) {
        return Err(refused(NO_ROOM));
    }
    if !os.hierarchy.is_v1() {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(dir);
    if parent.join("cpuset.cpus").exists() && !wanted.is_subset(&read_cpus(&os.root, parent)) {
        return Err(KnobError::NotPermitted);
    }
    for child in child_dirs(dir) {
        if !read_cpus(&os.root, &child).is_subset(&wanted) {
            return Err(refused(BUSY));
        }
    }
    Ok(())
}

/// The nodes of a cgroup must be a subset of its parent's, and include those of its children.
fn check_nodes(root: &Root, path: &Path, text: &str) -> Result<(), KnobError> {
    let wanted: NodeSet = text.parse().map_err(|_| refused("the kernel says that it is not valid"))?;
    let dir = path.parent().unwrap_or(path);
    let read = |dir: &Path| {
        let text = root.text(dir.join("cpuset.mems")).ok()?;
        text.trim_end().parse::<NodeSet>().ok()
    };
    if dir.parent().and_then(read).is_some_and(|above| !wanted.is_subset(&above)) {
        return Err(KnobError::NotPermitted);
    }
    if child_dirs(dir).iter().filter_map(|child| read(child)).any(|below| !below.is_subset(&wanted)) {
        return Err(refused(BUSY));
    }
    Ok(())
}

/// Whether a cgroup or a descendant has tasks.
fn is_populated(root: &Root, dir: &Path) -> bool {
    let has = |file: &str| root.text(dir.join(file)).is_ok_and(|text| !text.trim().is_empty());
    has("tasks")
        || has("cgroup.threads")
        || has("cgroup.procs")
        || child_dirs(dir).iter().any(|d| is_populated(root, d))
}

fn partition_is_possible(os: &Os, file: &Path) -> Result<bool, KnobError> {
    let dir = file.parent().unwrap_or(file);
    let mine = partition_cpus(&os.root, dir);
    let online = os.online()?;
    if (&mine & &online).is_empty() || online.is_subset(&mine) {
        return Ok(false);
    }
    let parent = dir.parent().unwrap_or(dir);
    Ok(child_dirs(parent).iter().filter(|d| *d != dir).all(|d| read_cpus(&os.root, d).is_disjoint(&mine)))
}

fn write_subtree(os: &Os, path: &Path, text: &str) -> Result<(), KnobError> {
    let root = &os.root;
    let mut on: Vec<String> =
        root.text(path).map_err(knob_error)?.split_ascii_whitespace().map(str::to_owned).collect();
    for word in text.split_ascii_whitespace() {
        let (sign, name) = word.split_at(1);
        on.retain(|c| c != name);
        if sign == "+" {
            on.push(name.to_owned());
        }
    }
    root.replace(path, on.join(" ") + "\n").map_err(knob_error)?;
    let enabled = on.iter().any(|c| c == "cpuset");
    let cpu = on.iter().any(|c| c == "cpu");
    for child in child_dirs(path.parent().unwrap_or(path)) {
        give(root, &child, CPU_FILES, cpu).map_err(knob_error)?;
    }
    for child in child_dirs(path.parent().unwrap_or(path)) {
        give_cpuset(os, &child, enabled).map_err(knob_error)?;
    }
    Ok(())
}

const CPUSET_FILES: &[(&str, &str)] =
    &[("cpuset.cpus", ""), ("cpuset.mems", ""), ("cpuset.cpus.partition", "member\n")];

const EXCLUSIVE_FILES: &[(&str, &str)] = &[("cpuset.cpus.exclusive", "")];

/// Creates the files of the cpuset controller that the release has.
fn give_cpuset(os: &Os, dir: &Path, enabled: bool) -> io::Result<()> {
    let has_exclusive = enabled && os.releases_remote_partitions();
    give(&os.root, dir, CPUSET_FILES, enabled)?;
    give(&os.root, dir, EXCLUSIVE_FILES, has_exclusive)
}

const CPU_FILES: &[(&str, &str)] =
    &[("cpu.weight", "100\n"), ("cpu.max", "max 100000\n"), ("cpu.idle", "0\n")];

/// Creates the files of a controller with their initial values, or removes them.
fn give(root: &Root, dir: &Path, files: &[(&str, &str)], enabled: bool) -> std::io::Result<()> {
    for (name, text) in files {
        let file = dir.join(name);
        if enabled && !file.exists() {
            root.replace(file, text)?;
        } else if !enabled && file.exists() {
            root.remove(file)?;
        }
    }
    Ok(())
}

/// An idle cgroup has no weight. When it stops being idle, it has the default weight.
fn write_idle(root: &Root, path: &Path, text: &str) -> Result<(), KnobError> {
    let dir = path.parent().unwrap_or(path);
    let (file, default) = match dir.join("cpu.weight").exists() {
        true => ("cpu.weight", "100\n"),
        false => ("cpu.shares", "1024\n"),
    };
    let weight = if text == "1" { "0\n" } else { default };
    root.replace(dir.join(file), weight)
        .and_then(|()| root.replace(path, format!("{text}\n")))
        .map_err(knob_error)
}

/// Refuses weights and quotas that the kernel refuses.
fn check_cpu(root: &Root, path: &Path, name: &str, text: &str) -> Result<(), KnobError> {
    let first = text.split(' ').next().unwrap_or_default();
    let is_idle = || root.text(path.with_file_name("cpu.idle")).is_ok_and(|t| t.trim() == "1");
    let fits = match name {
        "cpu.weight" => !is_idle() && first.parse().is_ok_and(|weight: u64| (1..=10_000).contains(&weight)),
        "cpu.shares" => !is_idle() && first.parse::<u64>().is_ok(),
        // The smallest quota is 1 ms.
        _ => matches!(first, "max" | "-1") || first.parse().is_ok_and(|us: u64| us >= 1_000),
    };
    if fits { Ok(()) } else { Err(refused("the kernel says that it is not valid")) }
}

fn make_cpu_group(os: &Os, tree: &CpuTree, path: &str) -> io::Result<()> {
    let root = &os.root;
    let dir = tree.dir(path);
    root.make_dir(&dir)?;
    let v2 = ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"];
    let v1 = ["cgroup.procs", "tasks"];
    for name in if tree.v1 { &v1[..] } else { &v2[..] } {
        root.replace(dir.join(name), "")?;
    }
    if tree.v1 {
        for (name, text) in [
            ("cpu.shares", "1024\n"),
            ("cpu.idle", "0\n"),
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ] {
            root.replace(dir.join(name), text)?;
        }
        return Ok(());
    }
    let on = root.text(dir.parent().unwrap_or(&dir).join("cgroup.subtree_control"));
    let on = on.unwrap_or_default();
    give(root, &dir, CPU_FILES, lists_cpu(&on))?;
    give_cpuset(os, &dir, lists_cpuset(&on))
}

/// Moves a process in the hierarchy of the CPU controller.
fn attach_cpu(os: &Os, tree: &CpuTree, task: TaskId, path: &str) -> Result<(), KnobError> {
    let of_process = os.root.proc.join(format!("{}/cgroup", task.pid));
    let old = os.cpu_place(task.pid)?.unwrap_or_else(|| "/".to_owned());
    let mut files = vec![of_process];
    for tid in os.tids(task.pid).map_err(knob_error)? {
        files.push(os.root.proc.join(format!("{}/task/{tid}/cgroup", task.pid)));
        for (group, add) in [(old.as_str(), false), (path, true)] {
            for list in ["tasks", "cgroup.threads"] {
                note(&os.root, &tree.dir(group), list, tid, add).map_err(knob_error)?;
            }
        }
    }
    for (group, add) in [(old.as_str(), false), (path, true)] {
        note(&os.root, &tree.dir(group), "cgroup.procs", task.pid, add).map_err(knob_error)?;
    }
    for file in files {
        let text = os.root.text(&file).map_err(knob_error)?;
        os.root.replace(&file, tree.replaced(&text, path)).map_err(knob_error)?;
    }
    Ok(())
}

/// Whether a SCHED_DEADLINE thread may run on a CPU. A real kernel checks whether the remaining bandwidth is sufficient. A
/// captured root has no figures of bandwidth, and always refuses.
fn is_promised(os: &Os, cpu: CpuId) -> bool {
    let threads = |pid: u32| os.tids(pid).unwrap_or_default().into_iter().map(move |tid| (pid, tid));
    os.pids().unwrap_or_default().into_iter().flat_map(threads).any(|(pid, tid)| {
        os.stat(pid, Some(tid)).ok().flatten().is_some_and(|stat| {
            let task = TaskId { pid, tid: Some(tid), start: stat.start };
            stat.policy == 6 && allowed(os, task).is_ok_and(|cpus| cpus.contains(cpu))
        })
    })
}

fn write_online(os: &Os, path: &Path, text: &str) -> Result<(), KnobError> {
    let cpu = path
        .parent()
        .and_then(|d| d.file_name()?.to_str()?.strip_prefix("cpu")?.parse().ok())
        .map(CpuId)
        .ok_or(KnobError::Gone)?;
    let mut online = os.online()?;
    if text == "1" {
        online.insert(cpu);
    } else {
        online.remove(cpu);
        if online.is_empty() || is_promised(os, cpu) {
            return Err(refused(BUSY));
        }
        if let (true, Some(root)) = (os.hierarchy.is_v1(), os.hierarchy.mount()) {
            forget_cpu(&os.root, root, cpu).map_err(knob_error)?;
        }
    }
    let list = os.root.sys.join("devices/system/cpu/online");
    os.root.replace(list, format!("{online}\n")).map_err(knob_error)?;
    if let (true, Some(root)) = (os.hierarchy.is_v1(), os.hierarchy.mount()) {
        os.root.replace(root.join("cpuset.cpus"), format!("{online}\n")).map_err(knob_error)?;
    }
    os.root.replace(path, format!("{text}\n")).map_err(knob_error)
}

/// Version 1 removes an off-line CPU permanently from every list.
fn forget_cpu(root: &Root, dir: &Path, cpu: CpuId) -> std::io::Result<()> {
    let mut cpus = read_cpus(root, dir);
    if cpus.remove(cpu) {
        root.replace(dir.join("cpuset.cpus"), format!("{cpus}\n"))?;
    }
    for child in child_dirs(dir) {
        forget_cpu(root, &child, cpu)?;
    }
    Ok(())
}

fn make_group(os: &Os, dir: &Path) -> Done {
    if dir.exists() {
        return Ok(());
    }
    os.root.make_dir(dir).map_err(knob_error)?;
    let files: &[&str] = if os.hierarchy.is_v1() {
        &[
            "cgroup.procs",
            "tasks",
            "cpuset.cpus",
            "cpuset.mems",
            "cpuset.memory_migrate",
            "cpuset.cpu_exclusive",
        ]
    } else {
        &["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"]
    };
    for name in files {
        let text = if name.ends_with("memory_migrate") { "0\n" } else { "" };
        os.root.replace(dir.join(name), text).map_err(knob_error)?;
    }
    if !os.hierarchy.is_v1() {
        let parent = dir.parent().unwrap_or(dir);
        let on = os.root.text(parent.join("cgroup.subtree_control")).unwrap_or_default();
        give_cpuset(os, dir, lists_cpuset(&on)).map_err(knob_error)?;
        give(&os.root, dir, CPU_FILES, lists_cpu(&on)).map_err(knob_error)?;
    }
    Ok(())
}

/// Replaces the line of the same resource.
fn write_schema(root: &Root, path: &Path, text: &str) -> Done {
    let resource = |line: &str| line.trim().split_once(':').map(|(name, _)| name.to_owned());
    let old = root.text(path).map_err(knob_error)?;
    let new = old.lines().map(|line| if resource(line) == resource(text) { text } else { line });
    root.replace(path, new.map(|line| format!("{line}\n")).collect::<String>()).map_err(knob_error)
}

fn remove_group(root: &Root, dir: &Path) -> Result<(), KnobError> {
    let busy = ["cgroup.procs", "tasks", "cgroup.threads"]
        .iter()
        .any(|f| root.text(dir.join(f)).is_ok_and(|t| !t.trim().is_empty()));
    if busy || !child_dirs(dir).is_empty() {
        return Err(refused(BUSY));
    }
    match root.remove_tree(dir) {
        Err(error) if is_gone(&error) => Err(KnobError::Gone),
        result => result.map_err(knob_error),
    }
}

fn attach(os: &Os, task: TaskId, path: &str) -> Result<(), KnobError> {
    let dir = os.group(path)?;
    if !dir.join("cgroup.procs").exists() {
        return Err(refused(&format!("there is no cgroup {path}")));
    }
    if effective(os, path)?.is_empty() {
        return Err(refused(NO_ROOM));
    }
    let moved = match task.tid {
        Some(tid) => vec![tid],
        None => os.tids(task.pid).map_err(knob_error)?,
    };
    for tid in moved {
        let file = os.root.proc.join(format!("{}/task/{tid}/cgroup", task.pid));
        let old = os.place(task.pid, Some(tid)).map_err(knob_error)?.unwrap_or_else(|| "/".to_owned());
        for (group, add) in [(old.as_str(), false), (path, true)] {
            note(&os.root, &os.group(group)?, "tasks", tid, add).map_err(knob_error)?;
            note(&os.root, &os.group(group)?, "cgroup.threads", tid, add).map_err(knob_error)?;
            if tid == task.pid {
                note(&os.root, &os.group(group)?, "cgroup.procs", tid, add).map_err(knob_error)?;
            }
        }
        let line = if os.hierarchy.is_v1() { format!("1:cpuset:{path}\n") } else { format!("0::{path}\n") };
        let is = os.root.text(&file).unwrap_or_default();
        let others = is.lines().filter(|line| os.hierarchy.find(line).is_none());
        let line = others.map(|line| format!("{line}\n")).collect::<String>() + &line;
        os.root.replace(&file, &line).map_err(knob_error)?;
        if tid == task.pid {
            os.root.replace(os.root.proc.join(format!("{}/cgroup", task.pid)), &line).map_err(knob_error)?;
        }
    }
    Ok(())
}

/// Adds a thread id to a list of tasks, or removes it.
fn note(root: &Root, dir: &Path, file: &str, tid: u32, add: bool) -> std::io::Result<()> {
    let path = dir.join(file);
    let Ok(text) = root.text(&path) else { return Ok(()) };
    let mut tids: Vec<u32> = text.split_ascii_whitespace().filter_map(|t| t.parse().ok()).collect();
    tids.retain(|t| *t != tid);
    if add {
        tids.push(tid);
        tids.sort_unstable();
    }
    root.replace(path, tids.iter().map(|t| format!("{t}\n")).collect::<String>())
}

fn effective(os: &Os, path: &str) -> Result<CpuSet, KnobError> {
    let online = os.online()?;
    let dir = os.group(path)?;
    if os.hierarchy.is_v1() {
        return Ok(&read_cpus(&os.root, &dir) & &online);
    }
    // A kernel can be wrong about the root: what it said when it was captured counts until something changes.
    if path == ROOT && dir.join(EFFECTIVE).exists() {
        return Ok(read_list(&os.root, &dir.join(EFFECTIVE)));
    }
    computed_effective(os, path)
}

/// What version 2 makes of the partitions.
fn computed_effective(os: &Os, path: &str) -> Result<CpuSet, KnobError> {
    let online = os.online()?;
    let dir = os.group(path)?;
    if is_partition(&os.root, &dir) {
        return Ok(&partition_cpus(&os.root, &dir) & &online);
    }
    let taken = partitions_below(&os.root, &dir);
    if path == ROOT {
        return Ok(&online - &taken);
    }
    let parent = path.rsplit_once('/').map_or("/", |(p, _)| if p.is_empty() { "/" } else { p });
    let above = &computed_effective(os, parent)? - &taken;
    let mine = &read_cpus(&os.root, &dir) & &above;
    Ok(if mine.is_empty() { above } else { mine })
}

/// The CPUs that a partition takes: its exclusive list if it has one.
fn partition_cpus(root: &Root, dir: &Path) -> CpuSet {
    let exclusive = read_list(root, &dir.join("cpuset.cpus.exclusive"));
    if exclusive.is_empty() { read_cpus(root, dir) } else { exclusive }
}

/// The CPUs of all partitions below a cgroup.
fn partitions_below(root: &Root, dir: &Path) -> CpuSet {
    child_dirs(dir).iter().fold(CpuSet::new(), |all, child| {
        let taken = if is_partition(root, child) {
            partition_cpus(root, child)
        } else {
            partitions_below(root, child)
        };
        &all | &taken
    })
}

fn is_partition(root: &Root, dir: &Path) -> bool {
    let text = root.text(dir.join("cpuset.cpus.partition")).unwrap_or_default();
    matches!(text.trim(), "root" | "isolated")
}

/// The root cgroup.
const ROOT: &str = "/";

/// What the tasks of a cgroup may use.
const EFFECTIVE: &str = "cpuset.cpus.effective";

/// Does something that may change partitions, and writes again what the root has then, where that is shown.
fn refreshing(os: &Os, change: impl FnOnce() -> Done) -> Done {
    change()?;
    let Some(file) = os.hierarchy.mount().map(|mount| mount.join(EFFECTIVE)) else { return Ok(()) };
    if os.hierarchy.is_v1() || !file.exists() {
        return Ok(());
    }
    let left = computed_effective(os, ROOT)?;
    os.root.replace(file, format!("{left}\n")).map_err(knob_error)
}

/// Between a mask and the cpuset in which it was set, where a kernel forgets.
const SET_IN: &str = " in ";

fn mask_file(os: &Os, task: TaskId) -> PathBuf {
    os.root.proc.join(format!("{}/task/{}/mask", task.pid, task.leader()))
}

/// The cgroup of a task, and the CPUs that it allows.
fn cpuset_of(os: &Os, task: TaskId) -> Result<(String, CpuSet), KnobError> {
    let place = os.place(task.pid, Some(task.leader())).map_err(knob_error)?;
    let cpuset = match &place {
        Some(place) => effective(os, place)?,
        None => os.online()?,
    };
    Ok((place.unwrap_or_default(), cpuset))
}

/// The state on which a kernel before 6.2 makes a remembered mask depend: the cpuset and its allowed CPUs. The root cpuset
/// ignores CPUs that go off-line, so for it only the CPUs that partitions have taken count.
fn memory_of(os: &Os, place: &str, cpuset: &CpuSet) -> Result<String, KnobError> {
    let allows = if place == ROOT { partitions_below(&os.root, &os.group(place)?) } else { cpuset.clone() };
    Ok(format!("{place}:{allows}"))
}

/// The answer of `sched_getaffinity`: the remembered mask restricted to the cpuset, or the whole cpuset if they are disjoint. A
/// kernel before 6.2 has forgotten a mask that was set in another cpuset, or in another state of it. Every kernel forgets the
/// masks of its own threads when partitions change.
fn allowed(os: &Os, task: TaskId) -> Result<CpuSet, KnobError> {
    let (_, cpuset) = cpuset_of(os, task)?;
    Ok(remembered(os, task)?.map_or_else(|| cpuset.clone(), |mask| within(&mask, &cpuset)))
}

fn within(mask: &CpuSet, cpus: &CpuSet) -> CpuSet {
    let both = mask & cpus;
    if both.is_empty() { cpus.clone() } else { both }
}

/// The mask that the kernel remembers.
fn remembered(os: &Os, task: TaskId) -> Result<Option<CpuSet>, KnobError> {
    let (place, cpuset) = cpuset_of(os, task)?;
    let Ok(text) = os.root.text(mask_file(os, task)) else { return Ok(None) };
    let (mask, when) = text.split_once(SET_IN).unwrap_or((&text, ""));
    if !when.is_empty() && when != memory_of(os, &place, &cpuset)? {
        return Ok(None);
    }
    mask.parse().map(Some).map_err(|_| refused("the mask is damaged"))
}

/// The CPUs in no partition, including off-line ones.
fn unpartitioned(os: &Os) -> Result<CpuSet, KnobError> {
    Ok(&os.cpu_list("present")? - &partitions_below(&os.root, &os.group(ROOT)?))
}

/// Runs a change of partitions. A kernel before 6.2 then sets the masks of the threads in the root cgroup to the on-line CPUs
/// outside all partitions. These threads lose off-line CPUs.
fn narrowing(os: &Os, change: impl FnOnce() -> Done) -> Done {
    if os.remembers_masks()
        || os.hierarchy.is_v1()
        || os.hierarchy.mount().is_none()
        || os.offline()?.is_empty()
    {
        return change();
    }
    let before = unpartitioned(os)?;
    change()?;
    if unpartitioned(os)? == before {
        return Ok(());
    }
    let cpuset = effective(os, ROOT)?;
    let threads = os.root.text(os.group(ROOT)?.join(os.threads_file())).map_err(knob_error)?;
    for tid in threads.split_ascii_whitespace().filter_map(|tid| tid.parse().ok()) {
        let Some(pid) = os.process_of(tid).map_err(knob_error)? else { continue };
        let Some(stat) = os.stat(pid, Some(tid)).map_err(knob_error)?.filter(|stat| !stat.pinned) else {
            continue;
        };
        let file = mask_file(os, TaskId { pid, tid: Some(tid), start: stat.start });
        let when = memory_of(os, ROOT, &cpuset)?;
        os.root.replace(file, format!("{cpuset}{SET_IN}{when}")).map_err(knob_error)?;
    }
    Ok(())
}

fn set_mask(os: &Os, task: TaskId, mask: Option<&CpuSet>) -> Result<(), KnobError> {
    let file = mask_file(os, task);
    let is_kernels = || os.stat(task.pid, None).is_ok_and(|stat| stat.is_some_and(|stat| stat.kernel));
    let is_remembered = || os.remembers_masks() && (os.hierarchy.is_v1() || !is_kernels());
    // Before 6.2 a mask has no off-line CPUs.
    let online = if os.remembers_masks() || os.offline()?.is_empty() { None } else { Some(os.online()?) };
    let (place, cpuset) = cpuset_of(os, task)?;
    // The kernel refuses a mask without any CPU of the cpuset.
    if let Some(mask) = mask.filter(|_| !is_kernels())
        && mask.is_disjoint(&cpuset)
    {
        return Err(refused("Invalid argument"));
    }
    match mask {
        Some(mask) if is_remembered() => os.root.replace(file, mask.to_string()).map_err(knob_error),
        Some(mask) => {
            let when = memory_of(os, &place, &cpuset)?;
            let mask = online.map_or_else(|| mask.clone(), |online| mask & &online);
            os.root.replace(file, format!("{mask}{SET_IN}{when}")).map_err(knob_error)
        }
        None => match os.root.remove(file) {
            Err(error) if is_gone(&error) => Ok(()),
            result => result.map_err(knob_error),
        },
    }
}

/// The file of a policy that was set on this root. The captured `stat` of the thread is not changed.
fn policy_file(os: &Os, task: TaskId) -> PathBuf {
    mask_file(os, task).with_file_name("policy")
}

fn read_cpus(root: &Root, dir: &Path) -> CpuSet {
    read_list(root, &dir.join("cpuset.cpus"))
}

fn read_list(root: &Root, path: &Path) -> CpuSet {
    root.text(path).ok().and_then(|t| t.parse().ok()).unwrap_or_default()
}

fn child_dirs(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut dirs: Vec<PathBuf> = entries
        .flatten()
        .filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|e| e.path())
        .collect();
    dirs.sort();
    dirs
}
