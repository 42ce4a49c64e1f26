//! Affinity masks of any width. The C library's `cpu_set_t`, and most wrappers around it, end at 1,024 CPUs.

use millpond_model::{CpuSet, NodeSet};
use std::io;

/// The affinity mask of a thread. The buffer has room for at least `width` CPUs.
///
/// # Errors
/// As `sched_getaffinity`.
pub(crate) fn get(tid: u32, width: u32) -> io::Result<CpuSet> {
    let tid = i32::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut words = vec![0u64; (width.div_ceil(64) as usize).max(16)];
    loop {
        let bytes = words.len() * 8;
        // SAFETY: the kernel writes at most `bytes` bytes into `words`, which is that long and outlives the call.
        let result = unsafe { libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, words.as_mut_ptr()) };
        if result >= 0 {
            return Ok(CpuSet::from_words(words));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel's masks are wider than the buffer.
        if error.raw_os_error() == Some(libc::EINVAL) && words.len() < 4096 {
            words.resize(words.len() * 2, 0);
            continue;
        }
        return Err(error);
    }
}

/// Whether a thread has no memory: it is a kernel thread, or has exited. `move_pages` then fails with EINVAL. This is one system
/// call; `/proc` would need three. `false` where the kernel gives no answer.
pub(crate) fn has_no_memory(tid: u32) -> bool {
    let Ok(tid) = i32::try_from(tid) else { return false };
    let none = std::ptr::null::<u8>();
    // SAFETY: the page count is 0, so the kernel follows none of the pointers.
    let result = unsafe { libc::syscall(libc::SYS_move_pages, tid, 0_usize, none, none, none, 0) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// Sets the affinity mask of a thread.
///
/// # Errors
/// As `sched_setaffinity`.
pub(crate) fn set(tid: u32, mask: &CpuSet) -> io::Result<()> {
    let tid = i32::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let words = mask.to_words();
    // SAFETY: the kernel reads `words.len() * 8` bytes from `words` and keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, tid, words.len() * 8, words.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves the pages of a process from the nodes `from` to the nodes `to`. Pages that cannot be moved now stay.
///
/// # Errors
/// As `migrate_pages`.
pub(crate) fn move_pages(pid: u32, from: &NodeSet, to: &NodeSet) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let (mut from, mut to) = (from.to_words(), to.to_words());
    let words = from.len().max(to.len()).max(1);
    from.resize(words, 0);
    to.resize(words, 0);
    // `migrate_pages` expects one more than the number of bits.
    let bits = words * 64 + 1;
    // SAFETY: the kernel reads `words` words from each list. Both lists are that long, and the kernel keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_migrate_pages, pid, bits, from.as_ptr(), to.as_ptr()) };
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_mask_can_be_read_and_written_back() {
        let mine = get(0, 1).unwrap();
        assert!(!mine.is_empty());
        set(0, &mine).unwrap();
        assert_eq!(get(0, 1).unwrap(), mine);
    }
}
