//! Memory for the allocator's own data: spans, bufctls, magazines, thread blocks, tables, caches. It is never between user buffers.

use super::lock;
use super::root;
use millpond_rt_layout::Region;
use std::cell::UnsafeCell;
use std::ptr;

/// Sizes up to this have lists in steps of [`STEP`]; larger ones are rounded up to powers of two.
const FINE: usize = 2048;
const STEP: usize = 16;
/// Size of a cache line in bytes.
const LINE: usize = 64;
/// The largest piece that is kept when it is freed, in bytes. Larger ones have mappings of their own.
const COARSE: usize = 64 << 10;
/// Size of a mapping for pieces, in bytes.
const CHUNK: usize = 256 << 10;

const LISTS: usize = FINE / STEP + (COARSE / FINE).trailing_zeros() as usize;

/// A freed piece.
struct Free {
    next: *mut Free,
}

struct Meta {
    lock: u32,
    at: *mut u8,
    left: usize,
    lists: [*mut Free; LISTS],
}

struct Shared(UnsafeCell<Meta>);

// SAFETY: it is accessed under its lock only.
unsafe impl Sync for Shared {}

static META: Shared =
    Shared(UnsafeCell::new(Meta { lock: 0, at: ptr::null_mut(), left: 0, lists: [ptr::null_mut(); LISTS] }));

/// The lock, for children of forks.
pub(super) fn lock_word() -> *mut u32 {
    // SAFETY: no reference is made.
    unsafe { &raw mut (*META.0.get()).lock }
}

/// The rounded size of a request, and its list, if it has one.
fn class(bytes: usize) -> (usize, Option<usize>) {
    if bytes <= FINE {
        let steps = bytes.max(1).div_ceil(STEP);
        (steps * STEP, Some(steps - 1))
    } else if bytes <= COARSE {
        let size = bytes.next_power_of_two();
        (size, Some(FINE / STEP + (size / FINE).trailing_zeros() as usize - 1))
    } else {
        (bytes.next_multiple_of(crate::stacks::page_size()), None)
    }
}

/// Allocates zeroed memory. It is aligned to 64 bytes if its size is a multiple of 64, else to 16. Null: out of memory. New pages are not touched
/// before their use.
pub(super) fn alloc(bytes: usize) -> *mut u8 {
    let (size, list) = class(bytes);
    // SAFETY: under the lock.
    lock::with(lock_word(), || unsafe {
        let meta = &mut *META.0.get();
        match list {
            Some(list) => meta.piece(size, list),
            None => meta.alone(size),
        }
    })
}

/// For the child of a fork during which another thread held the lock: free pieces are leaked.
///
/// # Safety
/// This is the only thread, and it is not inside this file.
pub(super) unsafe fn forget_free() {
    // SAFETY: by the caller's promise.
    let meta = unsafe { &mut *META.0.get() };
    (meta.at, meta.left, meta.lists) = (ptr::null_mut(), 0, [ptr::null_mut(); LISTS]);
}

impl Meta {
    /// A piece of a size with a list.
    unsafe fn piece(&mut self, size: usize, list: usize) -> *mut u8 {
        // SAFETY: under the lock. Pieces of a list were freed by `free` with the size of this list, and no thread has them.
        unsafe {
            let first = self.lists[list];
            if !first.is_null() {
                self.lists[list] = (*first).next;
                first.cast::<u8>().write_bytes(0, size);
                return first.cast();
            }
            let mut skip = skip_for(self.at, size);
            if self.left < skip + size {
                let chunk = pages_of_zeros(CHUNK);
                if chunk.is_null() {
                    return chunk;
                }
                // The record of the region is its first piece.
                let record: *mut Region = chunk.cast();
                enter(record, chunk, CHUNK);
                (self.at, self.left) = (chunk.add(LINE), CHUNK - LINE);
                skip = 0;
            }
            let piece = self.at.add(skip);
            self.at = piece.add(size);
            self.left -= skip + size;
            piece
        }
    }

    /// A piece with a region of its own.
    unsafe fn alone(&mut self, size: usize) -> *mut u8 {
        let (bytes, list) = class(size_of::<Region>());
        // SAFETY: under the lock.
        unsafe {
            let record: *mut Region = self.piece(bytes, list.unwrap_or_default()).cast();
            if record.is_null() {
                return ptr::null_mut();
            }
            let base = pages_of_zeros(size);
            if base.is_null() {
                self.put(record.cast(), list.unwrap_or_default());
            } else {
                enter(record, base, size);
            }
            base
        }
    }

    /// Adds a free piece to its list.
    unsafe fn put(&mut self, piece: *mut Free, list: usize) {
        // SAFETY: under the lock; a piece has room for a pointer.
        unsafe { (*piece).next = self.lists[list] };
        self.lists[list] = piece;
    }
}

/// Enters a new region in the list for other processes. The caller holds the lock.
unsafe fn enter(record: *mut Region, base: *mut u8, bytes: usize) {
    // SAFETY: under the lock.
    unsafe {
        let root = root::root();
        record.write(Region { next: (*root).regions, base, bytes });
        (*root).regions = record;
        (*root).heap.meta += bytes;
    }
}

/// Padding before a piece of this size.
fn skip_for(at: *mut u8, size: usize) -> usize {
    if size.is_multiple_of(LINE) { at.addr().wrapping_neg() % LINE } else { 0 }
}

/// Frees memory of [`alloc`].
///
/// # Safety
/// It was allocated with the same number of bytes, and no thread uses it.
pub(super) unsafe fn free(piece: *mut u8, bytes: usize) {
    let (size, list) = class(bytes);
    // SAFETY: under the lock; by the caller's promise the piece has this size and is unused.
    lock::with(lock_word(), || unsafe {
        let meta = &mut *META.0.get();
        if let Some(list) = list {
            return meta.put(piece.cast(), list);
        }
        let root = root::root();
        let mut link = &raw mut (*root).regions;
        while !(*link).is_null() && (**link).base != piece {
            link = &raw mut (**link).next;
        }
        let record = *link;
        if !record.is_null() {
            *link = (*record).next;
            meta.put(record.cast(), class(size_of::<Region>()).1.unwrap_or_default());
            (*root).heap.meta -= size;
            libc::munmap(piece.cast(), size);
        }
    });
}

/// New zeroed pages, or null. They do not count against the overcommit limit.
pub(super) fn pages_of_zeros(bytes: usize) -> *mut u8 {
    // Miri does not support the flag.
    let lazily = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | lazily);
    // SAFETY: a new mapping at an address of the kernel's choice affects no existing one.
    let pages = unsafe { libc::mmap(ptr::null_mut(), bytes, rights, flags, -1, 0) };
    if pages == libc::MAP_FAILED { ptr::null_mut() } else { pages.cast() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_comes_again_is_zero_again() {
        let one = alloc(100);
        // SAFETY: the piece is this test's and has that many bytes.
        unsafe {
            assert!((0..100).all(|at| *one.add(at) == 0));
            one.write_bytes(0xff, 100);
            free(one, 100);
            let again = alloc(97);
            assert!((0..112).all(|at| *again.add(at) == 0));
            free(again, 97);
        }
    }

    #[test]
    fn whole_lines_begin_at_a_line() {
        for bytes in [16, 64, 48, 128, 448, 80, 32 << 10] {
            let piece = alloc(bytes);
            assert!(piece.addr().is_multiple_of(if bytes % 64 == 0 { 64 } else { 16 }), "{bytes}");
            // SAFETY: the piece is this test's.
            unsafe { free(piece, bytes) };
        }
    }

    #[test]
    fn lists_are_by_size_and_none_is_another_ones() {
        assert_eq!(class(1), (16, Some(0)));
        assert_eq!(class(1160), (1168, Some(72)));
        assert_eq!(class(2048), (2048, Some(127)));
        assert_eq!(class(2049), (4096, Some(128)));
        assert_eq!(class(64 << 10), (64 << 10, Some(LISTS - 1)));
        assert_eq!(class((64 << 10) + 1).1, None);
    }
}
