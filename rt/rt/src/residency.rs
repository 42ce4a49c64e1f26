//! How much of the calling thread's stack is in memory, and getting all of it there for good.

use crate::StackError;
use crate::bounds::{ABOVE_MAX, StackBounds, is_main, page_of, stack_getbounds};
use crate::realtime::limit;
use crate::stacks::page_size;
use libc::{c_int, c_uchar, c_void};
use std::io;
use std::ptr;

/// What is in memory of a stack, in pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StackResidency {
    /// How many pages there are between its bounds.
    pub pages: usize,
    /// How many of them exist: all, but for a main stack that has not grown to its limit.
    pub mapped: usize,
    /// How many of these can be used without a fault that would wait for memory.
    pub resident: usize,
}

/// How much of the calling thread's stack is in memory, by `mincore`.
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
        // Where a part is not mapped its pages are looked at one by one.
        at += seen.map_or(page_size(), |(mapped, _)| mapped * page_size());
    }
    Ok(found)
}

/// Pages that are asked for in one call.
const AT_ONCE: usize = 256;

/// How many pages from `begin` are mapped, which are all of `length` bytes, and how many of them are resident. `None`: not all are mapped.
fn look(begin: usize, length: usize) -> Option<(usize, usize)> {
    let mut pages = [0 as c_uchar; AT_ONCE];
    let count = length.div_ceil(page_size());
    // SAFETY: for each page of the range a byte is written, and there are as many; the memory itself is not touched.
    let answer: c_int =
        unsafe { libc::mincore(ptr::without_provenance_mut(begin), length, pages.as_mut_ptr().cast()) };
    (answer == 0).then(|| (count, pages[..count].iter().filter(|page| *page & 1 != 0).count()))
}

/// The lowest page of a main stack that exists. All above it do.
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

/// Makes the whole stack of the calling thread resident and locks it there: no use of it faults from then on.
///
/// * The main stack is first grown to its limit, `RLIMIT_STACK` as it is now: all of that is locked.
/// * The stack of a thread, and one of ours, is locked as it is; its guard is not.
/// * Bounds that the thread set itself are locked, and must be mapped.
///
/// Locks end with the mapping, with `munlock` and with `munlockall`; they do not nest.
///
/// # Errors
/// * [`StackError::Unlimited`]: the main stack has no limit.
/// * [`StackError::Growth`]: the main stack cannot grow to its limit: something is mapped there, or there is a limit on address space; or on locked
///   memory, where all that comes later is locked. It is as it was.
/// * [`StackError::LockLimit`]: that would be more than `RLIMIT_MEMLOCK`. A part may be locked. A main stack has grown.
/// * [`StackError::System`]: what else the kernel says: `EPERM` without any right to lock, `ENOMEM` for bounds that are not mapped.
pub fn stack_lock() -> Result<(), StackError> {
    let bounds = stack_getbounds()?;
    let mut end = bounds.base + bounds.size;
    if is_main(bounds) {
        grow(bounds)?;
        end = end_of_mapping(end);
    }
    // SAFETY: memory is locked, not touched.
    if unsafe { libc::mlock(ptr::without_provenance::<c_void>(bounds.base), end - bounds.base) } == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    let is_whole = || stack_residency().is_ok_and(|found| found.mapped == found.pages);
    match source.raw_os_error() {
        Some(libc::EAGAIN) => Err(StackError::LockLimit(bounds.size)),
        // One number for two things: a limit, and a hole.
        Some(libc::ENOMEM) if is_whole() => Err(StackError::LockLimit(bounds.size)),
        _ => Err(StackError::System { action: "lock the stack", source }),
    }
}

/// Where the mapping of the main stack ends: above what the C library calls the stack lies the environment.
///
/// It is locked, too. A mapping of which a part is locked is two for the kernel, and the C library, which counts the limit from the end of the
/// one that it finds, would tell other bounds from then on.
fn end_of_mapping(end: usize) -> usize {
    let mut at = end;
    while at - end < ABOVE_MAX && look(at, page_size()).is_some() {
        at += page_size();
    }
    at
}

/// Grows the main stack to its limit.
///
/// The kernel grows it by a fault at its lowest page, and kills the program if it may not. When the kernel itself reads from there it grows, too,
/// and a refusal is an error: so it is asked to read a set of signals from there, for an operation that does not exist.
fn grow(bounds: StackBounds) -> Result<(), StackError> {
    if limit(libc::RLIMIT_STACK).is_none() {
        return Err(StackError::Unlimited);
    }
    const NO_OPERATION: c_int = -1;
    const SET_BYTES: usize = 8;
    let none = ptr::null_mut::<c_void>();
    // SAFETY: it reads from the lowest page of this thread's own stack, and changes nothing.
    unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_OPERATION, bounds.base, none, SET_BYTES) };
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EINVAL) => Ok(()),
        _ => Err(StackError::Growth(bounds.size)),
    }
}
