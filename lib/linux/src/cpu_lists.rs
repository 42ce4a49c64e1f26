//! Files with sets of CPUs: a list, or on old kernels only a mask.

use crate::Root;
use millpond_model::CpuSet;
use std::path::Path;

/// Names of the list file and the mask file.
pub(crate) type ListAndMask = [&'static str; 2];

/// The strands of a core.
pub(crate) const CORE: [ListAndMask; 2] =
    [["core_cpus_list", "core_cpus"], ["thread_siblings_list", "thread_siblings"]];
/// The CPUs of a chip.
pub(crate) const CHIP: [ListAndMask; 2] =
    [["package_cpus_list", "package_cpus"], ["core_siblings_list", "core_siblings"]];
/// The CPUs that share a cache.
pub(crate) const CACHE: ListAndMask = ["shared_cpu_list", "shared_cpu_map"];
/// The CPUs of a node.
pub(crate) const NODE: ListAndMask = ["cpulist", "cpumap"];

/// The CPUs from the list or the mask in a directory; `None` if both are missing.
pub(crate) fn cpus(root: &Root, dir: &Path, [list, mask]: &ListAndMask) -> Option<CpuSet> {
    let read = |name: &str| root.read(&dir.join(name)).ok().flatten();
    let cpus = match read(list) {
        Some(text) => text.parse().ok(),
        None => read(mask).and_then(|text| CpuSet::from_mask(&text).ok()),
    };
    cpus.filter(|cpus: &CpuSet| !cpus.is_empty())
}

/// The CPUs from the first of `files` that exists.
pub(crate) fn first_of(root: &Root, dir: &Path, files: &[ListAndMask]) -> Option<CpuSet> {
    files.iter().find_map(|files| cpus(root, dir, files))
}
