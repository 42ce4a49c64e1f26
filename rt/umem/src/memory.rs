//! Numbers out of an image: a cache of its pages, and fields of records by their place.

use millpond_machine::facets::Image;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What is kept at a time.
const PAGE: usize = 4096;
const PAGE_BYTES: u64 = PAGE as u64;
/// What is longer is read as it is, and not kept.
const KEPT_BYTES: usize = 2 * PAGE;
/// No record of the library is longer, and none that says so is believed.
const RECORD_MAX: usize = 1 << 24;
/// Pages that are kept; more than that and all are forgotten.
const KEPT: usize = 1 << 16;

/// Reads numbers from an image. Pages are kept until [`Memory::forget`].
pub struct Memory<'a> {
    image: &'a dyn Image,
    pages: RefCell<HashMap<u64, Option<Rc<[u8]>>>>,
}

impl<'a> Memory<'a> {
    /// Of that image.
    #[must_use]
    pub fn of(image: &'a dyn Image) -> Self {
        Memory { image, pages: RefCell::default() }
    }

    /// The image.
    #[must_use]
    pub fn image(&self) -> &'a dyn Image {
        self.image
    }

    /// Reads from the image again from now on.
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

    /// So many bytes from an address on; `None` where one of them cannot be read.
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

    /// A record of so many bytes.
    #[must_use]
    pub fn record(&self, address: u64, size: usize) -> Option<Record> {
        (address != 0).then(|| self.bytes(address, size)).flatten().map(Record)
    }

    /// A word.
    #[must_use]
    pub fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address, 8).map(|bytes| Record(bytes).word(0))
    }
}

/// The bytes of a record. Places beyond its end hold zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record(Vec<u8>);

impl Record {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: Vec<u8>) -> Self {
        Record(bytes)
    }

    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        if let Some(bytes) = at.checked_add(N).and_then(|end| self.0.get(at..end)) {
            array.copy_from_slice(bytes);
        }
        array
    }

    /// The eight bytes at that place.
    #[must_use]
    pub fn word(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    /// The four bytes at that place.
    #[must_use]
    pub fn half(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    /// Bytes from one place to another, as many as there are.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> &[u8] {
        let to = to.min(self.0.len());
        self.0.get(from..to).unwrap_or_default()
    }
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
        assert_eq!(memory.record(0, 8), None);
    }

    #[test]
    fn a_record_has_zeros_behind_its_end() {
        let record = Record::of(vec![1; 12]);
        assert_eq!((record.half(8), record.word(8), record.word(usize::MAX)), (0x0101_0101, 0, 0));
        assert_eq!(record.slice(10, 99), [1, 1]);
    }
}
