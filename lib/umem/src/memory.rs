//! Reads records and numbers from an image, with a cache of its pages.

use millpond_machine::facets::Image;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Unit of the cache.
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = PAGE as u64;
/// Longer reads bypass the cache.
const KEPT_BYTES: usize = 2 * PAGE;
/// Maximum size of a record. Larger sizes are invalid.
const RECORD_MAX: usize = 1 << 24;
/// Maximum number of cached pages. If it is exceeded, the cache is cleared.
const KEPT: usize = 1 << 16;

/// A record of the layout, as in the memory of the other process. Its pointers are addresses there.
///
/// # Safety
/// Any bytes are a valid value: it contains only numbers, raw pointers, optional functions, and arrays and records of these.
pub(crate) unsafe trait Plain: Sized {}

macro_rules! plain {
    ($($record:ident)*) => {
        $(
            // SAFETY: its fields are of those kinds.
            unsafe impl Plain for millpond_rt_layout::$record {}
        )*
    };
}

plain! { Root Cache Span Region Pair Bufctl }

/// Reads numbers from an image. Pages are cached until [`Memory::forget`].
pub struct Memory<'a> {
    image: &'a dyn Image,
    pages: RefCell<HashMap<u64, Option<Rc<[u8]>>>>,
}

impl<'a> Memory<'a> {
    /// A reader of an image.
    #[must_use]
    pub fn of(image: &'a dyn Image) -> Self {
        Memory { image, pages: RefCell::default() }
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &'a dyn Image {
        self.image
    }

    /// Clears the cache.
    pub fn forget(&self) {
        self.pages.borrow_mut().clear();
    }

    fn page(&self, begin: u64) -> Option<Rc<[u8]>> {
        if let Some(known) = self.pages.borrow().get(&begin) {
            return known.clone();
        }
        let mut bytes = [0; PAGE];
        let page = (self.image.read(begin, &mut bytes) == PAGE).then(|| Rc::from(bytes));
        let mut pages = self.pages.borrow_mut();
        if pages.len() > KEPT {
            pages.clear();
        }
        pages.insert(begin, page.clone());
        page
    }

    /// `count` bytes at an address; `None` if one of them cannot be read.
    #[must_use]
    pub fn bytes(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let end = address.checked_add(count as u64)?;
        if count > RECORD_MAX {
            return None;
        }
        if count > KEPT_BYTES {
            let mut bytes = vec![0; count];
            return (self.image.read(address, &mut bytes) == count).then_some(bytes);
        }
        let mut found = Vec::with_capacity(count);
        let mut at = address;
        while at < end {
            let begin = at - at % PAGE_BYTES;
            let page = self.page(begin)?;
            let to = (begin + (PAGE_BYTES - 1)).min(end - 1) - begin;
            found.extend_from_slice(&page[usize::try_from(at - begin).ok()?..=usize::try_from(to).ok()?]);
            at = begin.checked_add(PAGE_BYTES)?;
        }
        Some(found)
    }

    /// The record at an address; `None` if one of its bytes cannot be read.
    pub(crate) fn get<T: Plain>(&self, address: u64) -> Option<T> {
        let bytes = (address != 0).then(|| self.bytes(address, size_of::<T>())).flatten()?;
        // SAFETY: there are as many bytes as the record has, and any bytes are a valid record.
        Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
    }

    /// `count` words at an address.
    pub(crate) fn words(&self, address: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(address, count.checked_mul(8)?)?;
        Some(bytes.chunks_exact(8).map(|word| word_at(word, 0)).collect())
    }

    /// Follows a list of at most `most` elements. `next` reads the element at an address and returns the address of the next one; 0 is the end.
    ///
    /// # Errors
    /// The list has a cycle, or leads to unreadable memory, as a sentence.
    pub(crate) fn list(
        &self,
        of: &str,
        first: u64,
        most: usize,
        mut next: impl FnMut(u64) -> Option<u64>,
    ) -> Result<(), String> {
        let mut seen = HashSet::new();
        let mut at = first;
        while at != 0 {
            if !seen.insert(at) || seen.len() > most {
                return Err(format!("the list of {of} has no end: {at:x} comes again"));
            }
            let behind = next(at);
            at = behind.ok_or_else(|| format!("the list of {of} leads to {at:x}, which cannot be read"))?;
        }
        Ok(())
    }

    /// The word at an address.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8).map(|bytes| word_at(&bytes, 0))
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// The eight bytes at an offset; 0 if they are incomplete.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// The four bytes at an offset; 0 if they are incomplete.
pub(crate) fn half_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

#[cfg(test)]
mod unit {
    use super::*;
    use crate::tests::space::Space;

    #[test]
    fn what_spans_pages_is_read_and_what_ends_is_not() {
        let mut space = Space::default();
        space.map(0x10000, 0x2000, "rw", "");
        space.put(0x10ffc, &[1, 2, 3, 4, 5, 6, 7, 8]);
        let memory = Memory::of(&space);
        assert_eq!(memory.word(0x10ffc), Some(0x0807_0605_0403_0201));
        assert_eq!(memory.word(0x11ff8), Some(0));
        assert_eq!(memory.word(0x11ffc), None);
        assert_eq!(memory.word(0xf000), None);
        assert_eq!(memory.bytes(u64::MAX - 3, 8), None);
        assert!(memory.get::<millpond_rt_layout::Region>(0).is_none());
    }

    #[test]
    fn behind_the_end_there_are_zeros() {
        let bytes = [1; 12];
        assert_eq!(
            (half_at(&bytes, 8), word_at(&bytes, 8), word_at(&bytes, usize::MAX)),
            (0x0101_0101, 0, 0)
        );
    }
}
