//! The memory of a stack: a mapping with a guard on each side, pre-faulted.

use super::sizes::{Class, page_size};
use crate::StackError;
use libc::{c_int, c_void};
use std::io;
use std::ptr::{self, NonNull};

/// A mapping, unmapped when dropped unless it is [kept](Mapping::keep).
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Address of the lower guard.
    begin: NonNull<c_void>,
    class: Class,
}

impl Mapping {
    /// Maps a stack and pre-faults every page. The kernel locks it if all future memory is to be locked (`MCL_FUTURE`).
    ///
    /// # Errors
    /// [`StackError::NoMemory`], [`StackError::LockLimit`] or another error of the system. Nothing stays mapped.
    pub(crate) fn new(class: Class) -> Result<Mapping, StackError> {
        let failed = |action| StackError::making(class.size(), action, io::Error::last_os_error());
        // PROT_NONE: inaccessible memory does not count against the overcommit limit. Only the stack itself does, below.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping at an address of the kernel's choice affects no existing one.
        let begin = unsafe { libc::mmap(ptr::null_mut(), whole(class), libc::PROT_NONE, flags, -1, 0) };
        let begin = match NonNull::new(begin) {
            Some(begin) if begin.as_ptr() != libc::MAP_FAILED => begin,
            _ => return Err(failed("map a stack")),
        };
        let mapping = Mapping { begin, class };
        let (stack, size) = (mapping.stack().as_ptr().cast::<c_void>(), class.size());
        // SAFETY: it was mapped above, and no other code has its address.
        if unsafe { libc::mprotect(stack, size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(failed("make a stack writable"));
        }
        mapping.unlock_guards();
        // The kernel splits and collapses huge pages at any time, and the stack faults each time. Kernels without them return an error: ignored.
        // SAFETY: as above.
        unsafe { libc::madvise(stack, size, libc::MADV_NOHUGEPAGE) };
        mapping.fault_in()?;
        Ok(mapping)
    }

    pub(crate) fn stack(&self) -> NonNull<u8> {
        // SAFETY: the mapping is two pages longer than the stack.
        unsafe { self.begin.cast::<u8>().add(page_size()) }
    }

    /// Keeps it mapped for ever.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// With `MCL_FUTURE` the guards count as locked memory, too, although they are empty.
    fn unlock_guards(&self) {
        let (page, stack) = (page_size(), self.stack().as_ptr());
        // SAFETY: both pages belong to the mapping. A failure only leaves the count too high.
        unsafe {
            libc::munlock(self.begin.as_ptr(), page);
            libc::munlock(stack.add(self.class.size()).cast(), page);
        }
    }

    fn fault_in(&self) -> Result<(), StackError> {
        let (stack, size) = (self.stack(), self.class.size());
        // SAFETY: the stack is writable and not in use yet.
        if unsafe { libc::madvise(stack.as_ptr().cast(), size, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(StackError::making(size, "fault a stack in", error));
        }
        // Before Linux 5.14 each page must be written. Reads would map the shared zero page.
        for at in (0..size).step_by(page_size()) {
            // SAFETY: within the stack, which is writable.
            unsafe { stack.add(at).write_volatile(0) };
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by `new`, and no other code has it.
        let _: c_int = unsafe { libc::munmap(self.begin.as_ptr(), whole(self.class)) };
    }
}

/// Size of a stack with its guards, in bytes.
fn whole(class: Class) -> usize {
    class.size() + 2 * page_size()
}
