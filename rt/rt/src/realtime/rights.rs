//! Capabilities and limits of the caller, for the messages of refusals.

use super::files;

/// Capability numbers of `linux/capability.h`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Capability {
    IpcLock = 14,
    SysNice = 23,
}

/// Whether the calling thread has the capability. In a user namespace it may have no effect.
pub(super) fn has(capability: Capability) -> bool {
    let set = files::status("CapEff:").and_then(|text| u64::from_str_radix(&text, 16).ok());
    set.is_some_and(|set| set & (1 << (capability as u32)) != 0)
}

/// The C library's type of resource numbers.
#[cfg(target_env = "gnu")]
pub(crate) type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
pub(crate) type Resource = libc::c_int;

/// A soft limit. `None`: infinite.
pub(crate) fn limit(resource: Resource) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}
