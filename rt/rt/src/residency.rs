//! Counts the resident pages of the calling thread's stack, and locks all of it in memory.

use crate::StackError;
use crate::bounds::{ABOVE_MAX, StackBounds, is_main, page_of, stack_getbounds};
use crate::realtime::limit;
use crate::stacks::page_size;
use libc::{c_int, c_uchar, c_void};
use std::io;
use std::ptr;

/// Pages of a stack by their state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackResidency {
    /// Pages between its bounds.
    pub pages: usize,
    /// Mapped pages: all, except for a main stack that has not grown to its limit.
    pub mapped: usize,
    /// Mapped pages that are in memory.
    pub resident: usize,
}

/// Counts the calling thread's stack pages in memory, by `mincore`.
///
/// # Errors
/// Those of [`stack_getbounds`].
pub fn stack_residency() -> Result<StackResidency, StackError> {
    let bounds = stack_getbounds()?;
    let (begin, end) = (page_of(bounds.base), bounds.base + bounds.size);
    let mut found =
        StackResidency { pages: (end - begin).div_ceil(page_size()), ..StackResidency::default() };
    let mut at = if is_main(bounds) { grown_to(begin, page_of(end - 1)) } else { begin };
    while at < end {
        let length = (end - at).min(AT_ONCE * page_size());
        let seen = look(at, length).or_else(|| look(at, page_size().min(length)));
        found.mapped += seen.map_or(0, |(mapped, _)| mapped);
        found.resident += seen.map_or(0, |(_, resident)| resident);
        // In an incompletely mapped range, pages are examined one by one.
        at += seen.map_or(page_size(), |(mapped, _)| mapped * page_size());
    }
    Ok(found)
}

/// Maximum of pages in one call of `mincore`.
const AT_ONCE: usize = 256;

/// The number of pages in `length` bytes from `begin`, and of resident ones among them. `None`: not all are mapped.
fn look(begin: usize, length: usize) -> Option<(usize, usize)> {
    let mut pages = [0 as c_uchar; AT_ONCE];
    let count = length.div_ceil(page_size());
    // SAFETY: `mincore` writes one byte for each page of the range, and there are as many. The memory itself is not accessed.
    let answer: c_int =
        unsafe { libc::mincore(ptr::without_provenance_mut(begin), length, pages.as_mut_ptr().cast()) };
    (answer == 0).then(|| (count, pages[..count].iter().filter(|page| *page & 1 != 0).count()))
}

/// The lowest mapped page of a main stack. All pages above it are mapped.
fn grown_to(lowest: usize, highest: usize) -> usize {
    let (mut absent, mut there) = (lowest, highest);
    if look(lowest, page_size()).is_some() {
        return lowest;
    }
    while there - absent > page_size() {
        let middle = page_of(absent + (there - absent) / 2);
        match look(middle, page_size()) {
            Some(_) => there = middle,
            None => absent = middle,
        }
    }
    there
}

/// Makes the calling thread's whole stack resident and locks it. Later accesses do not fault.
///
/// * The main stack is first grown to its limit, the current `RLIMIT_STACK`, and locked up to there.
/// * A thread's stack, and one of [`stack_alloc`](crate::stack_alloc), is locked without its guard.
/// * Bounds that the thread set itself are locked, and must be mapped.
///
/// Locks end with the mapping, `munlock` or `munlockall`. They do not nest.
///
/// # Errors
/// * [`StackError::Unlimited`]: the main stack has no limit.
/// * [`StackError::Growth`]: the main stack cannot grow to its limit, because of another mapping, a limit on address space, or (if future memory is
///   to be locked) a limit on locked memory. The stack is unchanged.
/// * [`StackError::LockLimit`]: the stack exceeds `RLIMIT_MEMLOCK`. A part may be locked. A main stack has grown.
/// * [`StackError::System`]: another error of the kernel: `EPERM` without any right to lock, `ENOMEM` for bounds that are not mapped.
pub fn stack_lock() -> Result<(), StackError> {
    let bounds = stack_getbounds()?;
    let mut end = bounds.base + bounds.size;
    if is_main(bounds) {
        grow(bounds)?;
        end = end_of_mapping(end);
    }
    // SAFETY: the call does not access the memory.
    if unsafe { libc::mlock(ptr::without_provenance::<c_void>(bounds.base), end - bounds.base) } == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    let is_whole = || stack_residency().is_ok_and(|found| found.mapped == found.pages);
    match source.raw_os_error() {
        Some(libc::EAGAIN) => Err(StackError::LockLimit(bounds.size)),
        // ENOMEM has two causes: the limit, and an unmapped hole.
        Some(libc::ENOMEM) if is_whole() => Err(StackError::LockLimit(bounds.size)),
        _ => Err(StackError::System { action: "lock the stack", source }),
    }
}

/// End of the main stack's mapping. The environment is above the end that the C library reports.
///
/// The environment is locked, too. The kernel splits a partly locked mapping in two. The C library counts the limit from the end of the
/// mapping that it finds, and would report other bounds afterwards.
fn end_of_mapping(end: usize) -> usize {
    let mut at = end;
    while at - end < ABOVE_MAX && look(at, page_size()).is_some() {
        at += page_size();
    }
    at
}

/// Grows the main stack to its limit.
///
/// The kernel grows it on a fault at its lowest page, and kills the program if it cannot. If instead a system call reads from there, the stack
/// grows too, and a refusal is an error. So this calls `rt_sigprocmask` with a signal set at that address and an invalid operation.
fn grow(bounds: StackBounds) -> Result<(), StackError> {
    if limit(libc::RLIMIT_STACK).is_none() {
        return Err(StackError::Unlimited);
    }
    const NO_OPERATION: c_int = -1;
    const SET_BYTES: usize = 8;
    let none = ptr::null_mut::<c_void>();
    // SAFETY: the call reads from the lowest page of this thread's own stack, and changes nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_OPERATION, bounds.base, none, SET_BYTES) };
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EINVAL) => Ok(()),
        _ => Err(StackError::Growth(bounds.size)),
    }
}
