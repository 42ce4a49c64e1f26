//! Words of a BPF map in shared memory, read without a system call.

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Decodes text that the kernel copied into words: up to the first NUL, or all of it.
#[must_use]
pub fn text(words: &[u64]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// A word of an iterator's record; 0 beyond its end.
pub(crate) fn word_of(record: &[u8], at: usize) -> u64 {
    let word = record.get(at * 8..).and_then(<[u8]>::first_chunk);
    word.copied().map_or(0, u64::from_ne_bytes)
}

/// A BPF map that is mapped into this process's memory.
#[derive(Debug)]
pub struct MappedWords {
    base: NonNull<u64>,
    count: usize,
}

// SAFETY: the words are only ever read here, atomically, and belong to no thread.
unsafe impl Send for MappedWords {}

impl MappedWords {
    /// Maps `count` words of an array that was created with `BPF_F_MMAPABLE`.
    ///
    /// # Errors
    /// If mmap fails.
    #[cfg_attr(not(feature = "programs"), allow(dead_code, reason = "nothing is ever mapped"))]
    pub(crate) fn map(map: impl AsFd, count: usize) -> io::Result<MappedWords> {
        let bytes = count.saturating_mul(size_of::<u64>()).max(1);
        // SAFETY: a new mapping at an address that the kernel chooses; it replaces no other memory.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, map, 0) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(MappedWords { base, count })
    }

    /// A word; 0 if the index is out of range.
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

impl Drop for MappedWords {
    fn drop(&mut self) {
        let bytes = self.count.saturating_mul(size_of::<u64>()).max(1);
        // SAFETY: made by `map` with this length, and no borrow of it exists any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
    }
}
