//! Locked memory of the whole process, and of the caller's stack. Earlier locks are restored.

use super::files;
use super::holders::Holders;
use super::outcome::{Refusal, check, errno};
use super::rights::{Capability, has, limit};
use crate::mappings::parse;
use crate::stacks::page_size;
use crate::{StackMapping, stack_lock, stack_residency};
use libc::c_void;
use std::io;
use std::ops::Range;
use std::ptr;

/// Locked memory of a process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Locked {
    /// Locked ranges, without inaccessible ones.
    ranges: Vec<Range<usize>>,
    /// Whether later mappings will be locked (`MCL_FUTURE`).
    is_future: bool,
}

/// Locks do not nest, and unlocking all memory unlocks every stack. So locks of memory and of stacks are counted together: the first
/// holder saves the locked ranges, the last one restores them.
static HOLDERS: Holders<Locked> = Holders::new();

/// Locks all current and future memory of the process.
pub(super) fn lock() -> Result<(), Refusal> {
    HOLDERS.enter(Locked::now, || {
        // SAFETY: the call does not access the memory.
        check(unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE) })
            .map_err(|error| refused(&error))
    })
}

pub(super) fn unlock() -> Result<(), Refusal> {
    HOLDERS.leave(|before| before.restore()).unwrap_or(Ok(()))
}

fn refused(error: &io::Error) -> Refusal {
    let said = match (errno(error), limit(libc::RLIMIT_MEMLOCK)) {
        (libc::EPERM | libc::ENOMEM | libc::EAGAIN, Some(limit)) if !has(Capability::IpcLock) => {
            format!(
                "the limit on locked memory is {} kB: raise it (ulimit -l, LimitMEMLOCK=), or give CAP_IPC_LOCK",
                limit >> 10
            )
        }
        (libc::ENOMEM | libc::EAGAIN, _) => {
            "there is not so much memory: end others, or raise the limit of its cgroup".into()
        }
        _ => error.to_string(),
    };
    Refusal::new(errno(error), format!("cannot lock all memory: {said}"))
}

pub(super) fn locked() -> String {
    files::status("VmLck:").map_or_else(|| "unknown".to_owned(), |text| format!("{text} locked"))
}

impl Locked {
    /// The current state. Without `/proc` it is unknown, and nothing is restored.
    fn now() -> Locked {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // A new page shows whether new mappings are locked.
        // SAFETY: a new mapping at an address of the kernel's choice affects no existing one.
        let probe = unsafe {
            libc::mmap(ptr::null_mut(), page_size(), libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if probe == libc::MAP_FAILED {
            return Locked::default();
        }
        let text = files::mappings();
        // SAFETY: it was mapped above, and no other code has its address.
        unsafe { libc::munmap(probe, page_size()) };
        Locked::seen(&text, probe.addr()..probe.addr() + page_size())
    }

    /// Parses `smaps`, without the probe page.
    fn seen(text: &str, probe: Range<usize>) -> Locked {
        let mut found = Locked::default();
        for range in locked_ranges(text) {
            if range.contains(&probe.start) {
                found.is_future = true;
                found.ranges.extend([range.start..probe.start, probe.end..range.end]);
            } else {
                found.ranges.push(range);
            }
        }
        found.ranges.retain(|range| !range.is_empty());
        found
    }

    fn restore(self) -> Result<(), Refusal> {
        // SAFETY: memory is unlocked and locked, not accessed.
        unsafe { libc::munlockall() };
        let mut answer = Ok(());
        // SAFETY: as above.
        if self.is_future && unsafe { libc::mlockall(libc::MCL_FUTURE) } != 0 {
            answer = Err(refused(&io::Error::last_os_error()));
        }
        for Range { start, end } in self.ranges {
            // SAFETY: as above.
            let result = unsafe { libc::mlock(ptr::without_provenance::<c_void>(start), end - start) };
            let error = io::Error::last_os_error();
            // A range that was unmapped meanwhile needs no lock.
            if result != 0 && error.raw_os_error() != Some(libc::ENOMEM) {
                answer = Err(refused(&error));
            }
        }
        answer
    }
}

/// Locked mappings with access.
fn locked_ranges(smaps: &str) -> impl Iterator<Item = Range<usize>> {
    let wanted = |m: &StackMapping| m.has(StackMapping::LOCKED) && !m.has(StackMapping::GUARD);
    parse(smaps).filter(wanted).map(|m| m.address..m.end)
}

/// Makes the caller's whole stack resident and locks it.
pub(super) fn lock_stack() -> Result<(), Refusal> {
    HOLDERS
        .enter(Locked::now, || stack_lock().map_err(|error| Refusal::new(error.errno(), error.to_string())))
}

/// The resident part of the caller's stack, as text.
pub(super) fn resident() -> String {
    stack_residency().map_or_else(
        |error| error.to_string(),
        |found| format!("{} of {} pages resident", found.resident, found.pages),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
1000-3000 rw-p 00000000 00:00 0
Size:                  8 kB
VmFlags: rd wr mr mw me lo ac
4000-5000 ---p 00000000 00:00 0
VmFlags: mr mw me lo
6000-8000 r--p 00000000 fe:00 12 /usr/lib/loose.so
VmFlags: rd mr mw me
9000-c000 rw-p 00000000 00:00 0 [heap]
VmFlags: rd wr lo
";

    #[test]
    fn locked_mappings_are_those_with_the_flag_that_can_be_touched() {
        let seen = Locked::seen(SMAPS, 0x6000..0x7000);
        assert_eq!(seen, Locked { ranges: vec![0x1000..0x3000, 0x9000..0xc000], is_future: false });
    }

    #[test]
    fn a_probe_that_is_locked_tells_of_the_future_and_is_left_out() {
        let seen = Locked::seen(SMAPS, 0x9000..0xa000);
        assert_eq!(seen, Locked { ranges: vec![0x1000..0x3000, 0xa000..0xc000], is_future: true });
    }
}
