//! The built-in caches: one for each size class of `umem_alloc`, and one for each of malloc.

use super::cache::{self, RawCachePlan};
use super::settings::{self, Ready};
use millpond_rt_layout::{Cache, LARGEST, NAME, flags};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::io::Write;
use std::ptr;

/// Size of a step of the tables below, in bytes.
const STEP: usize = 8;
/// Maximum number of caches in a family. Their indices are bytes.
const MOST: usize = 192;

/// The largest malloc buffers with caches when checks are off, in bytes. Larger buffers in magazines would withhold too much memory from other uses.
const LARGEST_UNCHECKED: usize = 32 << 10;

/// Caches of increasing size, and a table that finds the smallest sufficient one for a request.
struct Family(UnsafeCell<Members>);

struct Members {
    caches: [Cache; MOST],
    count: usize,
    /// Index of a cache by the size in steps, rounded up.
    by_size: [u8; LARGEST / STEP + 1],
    largest: usize,
}

// SAFETY: written by `begin` only, before the allocator is ready. Caches have their own locks.
unsafe impl Sync for Family {}

const NONE: Members = Members {
    // SAFETY: an all-zero cache is valid and empty.
    caches: unsafe { std::mem::zeroed() },
    count: 0,
    by_size: [0; LARGEST / STEP + 1],
    largest: 0,
};

static ALLOC: Family = Family(UnsafeCell::new(NONE));
static MALLOC: Family = Family(UnsafeCell::new(NONE));

/// Creates the caches of `umem_alloc`. False: out of memory, or too many caches.
pub(super) fn begin(settings: &Ready) -> bool {
    let sizes = settings.asked.options.sizes;
    ALLOC.fill("umem_alloc_", 0, sizes.as_slice().iter().copied())
}

/// Creates the caches of malloc. Their buffers begin eight bytes before a multiple of 16: first the tag, then data with full alignment.
pub(super) fn begin_malloc() -> bool {
    let is_checked = settings::get().flags & !flags::NOMAGAZINE != 0;
    let largest = if is_checked { LARGEST } else { LARGEST_UNCHECKED };
    MALLOC.fill("umem_malloc_", 8, malloc_sizes().take_while(|size| *size <= largest))
}

/// Size classes of malloc: steps of 16 bytes up to 256, then eight to each doubling, sixteen from 1024 to 4096, and steps of 32 bytes for sizes
/// slightly above a page, as databases and file systems use. Programs often use powers of two, so a power of two plus the tag is a class, too.
fn malloc_sizes() -> impl Iterator<Item = usize> {
    let steps = |from: usize, to: usize, step: usize| (from / step + 1..=to / step).map(move |at| at * step);
    let fine = steps(0, 256, 16);
    let some = [(256, 32), (512, 64)].into_iter().map(|(from, step)| (from, 2 * from, step));
    let pages = [(1024, 2048, 64), (2048, 4096, 128), (4096, 4608, 32), (4608, 8192, 512)];
    let many = (13..LARGEST.ilog2()).map(|power| (1 << power, 2 << power, 1 << (power - 3)));
    let coarse = some.chain(pages).chain(many).flat_map(move |(from, to, step): (usize, usize, usize)| {
        let round = from.is_power_of_two().then_some(from + 16);
        round.into_iter().chain(steps(from, to, step))
    });
    fine.chain(coarse)
}

/// The cache for a request of `size` bytes, or null if it is too large.
#[inline(always)]
pub(super) fn for_alloc(size: usize) -> *mut Cache {
    ALLOC.find(size)
}

/// The same for malloc.
#[inline(always)]
pub(super) fn for_malloc(size: usize) -> *mut Cache {
    MALLOC.find(size)
}

impl Family {
    fn fill(&self, prefix: &str, shift: usize, sizes: impl Iterator<Item = usize>) -> bool {
        // No reference to the whole: from here on other code has pointers to single caches.
        let members = self.0.get();
        let mut covered = 0;
        for size in sizes {
            let name = name(prefix, size);
            let plan = RawCachePlan {
                name: CStr::from_bytes_until_nul(&name).unwrap_or_default(),
                size,
                align: if shift > 0 { 16 } else { natural(size) },
                constructor: None,
                destructor: None,
                reclaim: None,
                private: ptr::null_mut(),
                cflags: 0,
            };
            // SAFETY: no other thread uses it before it is ready. The cache is a zeroed static that no other code has.
            unsafe {
                let count = (*members).count;
                if count == MOST || cache::init(&raw mut (*members).caches[count], &plan, shift).is_err() {
                    return false;
                }
                let end = size / STEP;
                let by_size = &mut (*members).by_size;
                by_size[covered..=end].fill(count as u8);
                covered = end + 1;
                (*members).count += 1;
                (*members).largest = size;
            }
        }
        true
    }

    #[inline(always)]
    fn find(&self, size: usize) -> *mut Cache {
        let members = self.0.get();
        // SAFETY: the index is within the table, and its values are indices of caches. Before it is ready `largest` is 0.
        unsafe {
            if size > (*members).largest {
                return ptr::null_mut();
            }
            let number = *(&raw const (*members).by_size).cast::<u8>().add(size.div_ceil(STEP));
            (&raw mut (*members).caches).cast::<Cache>().add(number as usize)
        }
    }
}

/// Default alignment: 64 for multiples of 64, else 16, or 8 below 16 bytes.
fn natural(size: usize) -> usize {
    match size {
        _ if size.is_multiple_of(64) => 64,
        _ if size >= 16 => 16,
        _ => 8,
    }
}

/// A prefix and a number, padded with zeros.
fn name(prefix: &str, number: usize) -> [u8; NAME] {
    let mut name = [0; NAME];
    let _ = write!(&mut name[..NAME - 1], "{prefix}{number}");
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_malloc_grow_by_an_eighth_at_most_and_end_with_the_largest() {
        let sizes: Vec<usize> = malloc_sizes().collect();
        assert!(sizes.is_sorted() && sizes.len() < MOST);
        assert_eq!(sizes[14..20], [240, 256, 272, 288, 320, 352]);
        assert!(sizes[15..].windows(2).all(|two| two[1] <= two[0] + two[0] / 8));
        let between = |from, to| sizes.iter().copied().filter(move |size| (from..to).contains(size));
        assert!(between(1024, 1153).eq([1024, 1040, 1088, 1152]));
        assert!(between(4096, 4225).eq([4096, 4112, 4128, 4160, 4192, 4224]));
        assert_eq!(sizes.last(), Some(&LARGEST));
    }

    #[test]
    fn names_have_their_size() {
        assert_eq!(name("umem_alloc_", 131_072)[..18], *b"umem_alloc_131072\0");
    }
}
