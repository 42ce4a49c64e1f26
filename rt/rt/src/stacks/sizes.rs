//! Sizes of stacks.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The smallest size in bytes: 32 KB. The source of all sizes is experiment E7.
const SMALLEST: usize = 32 << 10;

/// Number of sizes: 32 KB to 2 MB in powers of two.
pub(crate) const CLASSES: usize = 7;

/// Sizes in bytes, ascending: see [`fetch_stack_sizes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackSizes {
    sizes: [usize; CLASSES],
    first: usize,
}

impl std::ops::Deref for StackSizes {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.sizes[self.first..]
    }
}

/// The sizes that [`stack_alloc`](crate::stack_alloc) offers, in bytes, ascending: 32 KB to 2 MB in powers of two.
///
/// Sizes below the page size are missing, since a stack is a whole number of pages.
#[must_use]
pub fn fetch_stack_sizes() -> StackSizes {
    let sizes: [usize; CLASSES] = std::array::from_fn(|class| SMALLEST << class);
    let first = sizes.iter().position(|size| *size >= page_size()).unwrap_or(CLASSES - 1);
    StackSizes { sizes, first }
}

/// Index of a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class(usize);

impl Class {
    /// The class of exactly this size.
    pub(crate) fn of(size: usize) -> Option<Class> {
        let class = size.trailing_zeros().wrapping_sub(SMALLEST.trailing_zeros()) as usize;
        (size.is_power_of_two() && class < CLASSES && size >= page_size()).then_some(Class(class))
    }

    pub(crate) fn index(self) -> usize {
        self.0
    }

    /// Size in bytes.
    pub(crate) fn size(self) -> usize {
        SMALLEST << self.0
    }
}

/// The page size in bytes, read once.
pub(crate) fn page_size() -> usize {
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    match KNOWN.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: the call has no effect.
            let asked = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
            let size = usize::try_from(asked).unwrap_or(4096);
            KNOWN.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_powers_of_two_from_32_kb_to_2_mb() {
        let kb: Vec<usize> = fetch_stack_sizes().iter().map(|size| size >> 10).collect();
        let published = [32, 64, 128, 256, 512, 1024, 2048];
        let first = published.len() - kb.len();
        assert_eq!(kb, published[first..]);
        assert!(first == 0 || page_size() > 32 << 10);
    }

    #[test]
    fn only_exact_sizes_have_a_class() {
        for size in fetch_stack_sizes().iter().copied() {
            assert_eq!(Class::of(size).map(Class::size), Some(size));
            assert_eq!(Class::of(size + 1), None);
            assert_eq!(Class::of(size - 1), None);
        }
        for size in [0, 1, 1 << 12, 1 << 14, 3 << 14, 1 << 22, 1 << 63, usize::MAX] {
            assert_eq!(Class::of(size), None, "{size}");
        }
    }
}
