//! Files with CPUs: a list, and a mask with the same CPUs, which is all that old kernels have.

use crate::Root;
use millpond_model::CpuSet;
use std::path::Path;

/// The names of both files.
pub(crate) type ListAndMask = [&'static str; 2];

/// The strands of the core.
pub(crate) const CORE: [ListAndMask; 2] =
    [["core_cpus_list", "core_cpus"], ["thread_siblings_list", "thread_siblings"]];
/// The CPUs of the chip.
pub(crate) const CHIP: [ListAndMask; 2] =
    [["package_cpus_list", "package_cpus"], ["core_siblings_list", "core_siblings"]];
/// The CPUs that share a cache.
pub(crate) const CACHE: ListAndMask = ["shared_cpu_list", "shared_cpu_map"];
/// The CPUs of a node.
pub(crate) const NODE: ListAndMask = ["cpulist", "cpumap"];

/// The CPUs in one of two files of a directory; `None` where there are none.
pub(crate) fn cpus(root: &Root, dir: &Path, [list, mask]: &ListAndMask) -> Option<CpuSet> {
    let read = |name: &str| root.read(&dir.join(name)).ok().flatten();
    let cpus = match read(list) {
        Some(text) => text.parse().ok(),
        None => read(mask).and_then(|text| CpuSet::from_mask(&text).ok()),
    };
    cpus.filter(|cpus: &CpuSet| !cpus.is_empty())
}

/// The CPUs of the first of these that has some.
pub(crate) fn first_of(root: &Root, dir: &Path, files: &[ListAndMask]) -> Option<CpuSet> {
    files.iter().find_map(|files| cpus(root, dir, files))
}
