//! A stack as the kernel sees it: a mapping with a guard on each side, faulted in.

use super::sizes::{Class, page_size};
use crate::StackError;
use libc::{c_int, c_void};
use std::io;
use std::ptr::{self, NonNull};

/// A mapping, given back unless it is [kept](Mapping::keep).
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Where the lower guard begins.
    begin: NonNull<c_void>,
    class: Class,
}

impl Mapping {
    /// Maps a stack and faults every page in. Where all future memory is to be locked, the kernel locks it.
    ///
    /// # Errors
    /// [`StackError::NoMemory`], [`StackError::LockLimit`] or what the system says; nothing is left behind.
    pub(crate) fn new(class: Class) -> Result<Mapping, StackError> {
        let failed = |action| StackError::making(class.size(), action, io::Error::last_os_error());
        // Memory without access is not counted as used; only what becomes a stack below is.
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping where the kernel likes touches no memory that is mapped.
        let begin = unsafe { libc::mmap(ptr::null_mut(), whole(class), libc::PROT_NONE, flags, -1, 0) };
        let begin = match NonNull::new(begin) {
            Some(begin) if begin.as_ptr() != libc::MAP_FAILED => begin,
            _ => return Err(failed("map a stack")),
        };
        let mapping = Mapping { begin, class };
        let (stack, size) = (mapping.stack().as_ptr().cast::<c_void>(), class.size());
        // SAFETY: it is ours, and no other code knows it yet.
        if unsafe { libc::mprotect(stack, size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            return Err(failed("make a stack writable"));
        }
        mapping.unlock_guards();
        // A huge page is split and gathered behind the program's back, and each time the stack faults. Kernels without them refuse: fine.
        // SAFETY: as above.
        unsafe { libc::madvise(stack, size, libc::MADV_NOHUGEPAGE) };
        mapping.fault_in()?;
        Ok(mapping)
    }

    pub(crate) fn stack(&self) -> NonNull<u8> {
        // SAFETY: the mapping is two pages longer than the stack.
        unsafe { self.begin.cast::<u8>().add(page_size()) }
    }

    /// It stays mapped from here on.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }

    /// Where all future memory is to be locked the guards count as locked, too, though there is nothing in them.
    fn unlock_guards(&self) {
        let (page, stack) = (page_size(), self.stack().as_ptr());
        // SAFETY: both are ours. A failure leaves the count as it is, which does no harm.
        unsafe {
            libc::munlock(self.begin.as_ptr(), page);
            libc::munlock(stack.add(self.class.size()).cast(), page);
        }
    }

    fn fault_in(&self) -> Result<(), StackError> {
        let (stack, size) = (self.stack(), self.class.size());
        // SAFETY: it is ours, writable, and nothing is in it yet.
        if unsafe { libc::madvise(stack.as_ptr().cast(), size, libc::MADV_POPULATE_WRITE) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(StackError::making(size, "fault a stack in", error));
        }
        // Before Linux 5.14 each page must be written to. A read would not do: all pages that were only read are one.
        for at in (0..size).step_by(page_size()) {
            // SAFETY: within the stack, which is writable.
            unsafe { stack.add(at).write_volatile(0) };
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is ours, and no other code knows it.
        let _: c_int = unsafe { libc::munmap(self.begin.as_ptr(), whole(self.class)) };
    }
}

/// How long a stack with its guards is, in bytes.
fn whole(class: Class) -> usize {
    class.size() + 2 * page_size()
}
