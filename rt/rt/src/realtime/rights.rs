//! What the caller may: its capabilities and limits, for sentences about what it may not.

use super::files;

/// As `linux/capability.h` numbers them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Capability {
    IpcLock = 14,
    SysNice = 23,
}

/// Whether the calling thread has it. In a user namespace that need not mean much.
pub(super) fn has(capability: Capability) -> bool {
    let set = files::status("CapEff:").and_then(|text| u64::from_str_radix(&text, 16).ok());
    set.is_some_and(|set| set & (1 << (capability as u32)) != 0)
}

/// How the C library numbers limits.
#[cfg(target_env = "gnu")]
pub(crate) type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
pub(crate) type Resource = libc::c_int;

/// A soft limit. None: there is none.
pub(crate) fn limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the record is written to.
    let known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}
