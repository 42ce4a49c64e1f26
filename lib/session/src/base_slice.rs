//! The base slice of the running kernel's fair scheduler.

/// The file of debugfs that has it (Linux 6.6 and later).
const FILE: &str = "/sys/kernel/debug/sched/base_slice_ns";

/// The base slice in nanoseconds, scaled by the number of CPUs; `None` where debugfs is not mounted or cannot be read.
#[must_use]
pub fn base_slice() -> Option<u64> {
    std::fs::read_to_string(FILE).ok()?.trim().parse().ok()
}
