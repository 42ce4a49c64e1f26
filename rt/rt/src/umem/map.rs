//! The page map: from an address to its span, by three levels of tables that only grow, so that readers need no lock. Also lists of spans.

use super::meta;
use millpond_rt_layout::{PAGE, Span, TABLE};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Leaf = [AtomicPtr<Span>; TABLE];
/// The middle level.
type Middle = [AtomicPtr<Leaf>; TABLE];

/// The address range of all tables, in bytes. No allocation can be longer.
pub(super) const REACH: usize = TABLE * TABLE * TABLE * PAGE;

/// The top level.
pub(super) static MAP: [AtomicPtr<Middle>; TABLE] = [const { AtomicPtr::new(ptr::null_mut()) }; TABLE];

/// The span of an address. Null: not of this allocator. The address is not dereferenced. Free spans are entered for their first and last page only.
pub(super) fn find(address: usize) -> *mut Span {
    entry(address).map_or(ptr::null_mut(), |entry| entry.load(Ordering::Acquire))
}

/// Calls `work` for every page that has a span, in the order of addresses. No table may be added meanwhile; `work` may change entries.
pub(super) fn each(mut work: impl FnMut(usize, *mut Span)) {
    for (high, middle) in MAP.iter().enumerate() {
        // SAFETY: null, or a table that is never freed.
        let Some(middle) = (unsafe { middle.load(Ordering::Acquire).as_ref() }) else { continue };
        for (low, leaf) in middle.iter().enumerate() {
            // SAFETY: as above.
            let Some(leaf) = (unsafe { leaf.load(Ordering::Acquire).as_ref() }) else { continue };
            for (at, entry) in leaf.iter().enumerate() {
                let span = entry.load(Ordering::Acquire);
                if !span.is_null() {
                    work(((high * TABLE + low) * TABLE + at) * PAGE, span);
                }
            }
        }
    }
}

/// The entry of an address, if its tables exist.
fn entry(address: usize) -> Option<&'static AtomicPtr<Span>> {
    let page = address / PAGE;
    Some(&leaf(page)?[page % TABLE])
}

/// The lowest table for a page number, if it exists.
fn leaf(page: usize) -> Option<&'static Leaf> {
    // SAFETY: null, or a table that was initialised before it was published; tables are never freed.
    let middle = unsafe { MAP.get(page / TABLE / TABLE)?.load(Ordering::Acquire).as_ref() }?;
    // SAFETY: as above.
    unsafe { middle[page / TABLE % TABLE].load(Ordering::Acquire).as_ref() }
}

/// Creates the tables for an address range. False: out of memory, or the range is beyond all tables. One caller at a time.
#[must_use]
pub(super) fn reserve(base: usize, bytes: usize) -> bool {
    let leaf_bytes = PAGE * TABLE;
    let first = base / leaf_bytes;
    let last = (base + bytes.max(1) - 1) / leaf_bytes;
    (first..=last).all(|leaf| {
        let Some(high) = MAP.get(leaf / TABLE) else { return false };
        let Some(middle) = table(high) else { return false };
        table(&middle[leaf % TABLE]).is_some()
    })
}

/// The table of an entry, created if it does not exist. An all-zero table is valid and empty.
fn table<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    let mut found = place.load(Ordering::Acquire);
    if found.is_null() {
        found = meta::alloc(size_of::<T>()).cast();
        place.store(found, Ordering::Release);
    }
    // SAFETY: null, or zeroed memory of that size that is never freed.
    unsafe { found.as_ref() }
}

/// Enters a span, or null, for every page of a range. Its tables exist.
pub(super) fn enter(base: usize, bytes: usize, span: *mut Span) {
    let (mut page, end) = (base / PAGE, (base + bytes) / PAGE);
    while page < end {
        let count = (TABLE - page % TABLE).min(end - page);
        let entries = leaf(page).and_then(|leaf| leaf.get(page % TABLE..page % TABLE + count));
        for entry in entries.unwrap_or_default() {
            entry.store(span, Ordering::Release);
        }
        page += count;
    }
}

/// Enters a span, or null, for one page.
pub(super) fn enter_page(address: usize, span: *mut Span) {
    if let Some(entry) = entry(address) {
        entry.store(span, Ordering::Release);
    }
}

/// Inserts a span at the head of a list.
///
/// # Safety
/// The caller holds the lock of the list, and owns the span, which is in no list.
#[inline]
pub(super) unsafe fn link(list: *mut *mut Span, span: *mut Span) {
    // SAFETY: by the caller's promise.
    unsafe {
        (*span).previous = ptr::null_mut();
        (*span).next = *list;
        if !(*list).is_null() {
            (**list).previous = span;
        }
        *list = span;
    }
}

/// Removes a span from a list.
///
/// # Safety
/// The caller holds the lock of the list, and the span is in it.
#[inline]
pub(super) unsafe fn unlink(list: *mut *mut Span, span: *mut Span) {
    // SAFETY: by the caller's promise.
    unsafe {
        let (next, previous) = ((*span).next, (*span).previous);
        if !next.is_null() {
            (*next).previous = previous;
        }
        if previous.is_null() {
            *list = next;
        } else {
            (*previous).next = next;
        }
        (*span).next = ptr::null_mut();
    }
}
