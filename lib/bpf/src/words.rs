//! Words that programs add to and that we read, without asking the kernel.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A map of the kernel that is mapped into our memory.
#[derive(Debug)]
pub struct Words {
    base: NonNull<u64>,
    count: usize,
}

// SAFETY: the words are only ever read here, atomically, and belong to no thread.
unsafe impl Send for Words {}

impl Words {
    /// Maps `count` words of an array that was made with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// When the system refuses it.
    #[cfg_attr(not(feature = "programs"), allow(dead_code, reason = "nothing is ever mapped"))]
    pub(crate) fn map(map: impl AsFd, count: usize) -> io::Result<Words> {
        let bytes = count.saturating_mul(size_of::<u64>()).max(1);
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is replaced.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, map, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Words { base, count })
    }

    /// A word; 0 for one that is not there.
    #[must_use]
    pub fn get(&self, index: usize) -> u64 {
        if index >= self.count {
            return 0;
        }
        // SAFETY: within the mapping, which is aligned to a page and lives as long as `self`; programs change
        // the words atomically.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(index)) }.load(Ordering::Relaxed)
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let bytes = self.count.saturating_mul(size_of::<u64>()).max(1);
        // SAFETY: made by `map` with this length, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
    }
}
