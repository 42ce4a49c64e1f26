//! From an address to the span that it lies in: three levels of tables that only grow, so that a reader of them needs no lock. And lists of spans.

use super::meta;
use millpond_rt_layout::{PAGE, Span, TABLE};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

type Leaf = [AtomicPtr<Span>; TABLE];
/// The middle one.
type Middle = [AtomicPtr<Leaf>; TABLE];

/// What all tables together lead to, in bytes of addresses: nothing longer can be had.
pub(super) const REACH: usize = TABLE * TABLE * TABLE * PAGE;

/// The highest one.
pub(super) static MAP: [AtomicPtr<Middle>; TABLE] = [const { AtomicPtr::new(ptr::null_mut()) }; TABLE];

/// The span of an address, or null: none of ours. The address is not followed. Free spans are found by their first and their last page only.
pub(super) fn find(address: usize) -> *mut Span {
    entry(address).map_or(ptr::null_mut(), |entry| entry.load(Ordering::Acquire))
}

/// Every page that has a span, in the order of addresses. Tables are not changed meanwhile; entries may be, by what is done.
pub(super) fn each(mut work: impl FnMut(usize, *mut Span)) {
    for (high, middle) in MAP.iter().enumerate() {
        // SAFETY: null, or a table that is never given back.
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

/// The place of an address, if there are tables for it.
fn entry(address: usize) -> Option<&'static AtomicPtr<Span>> {
    let page = address / PAGE;
    Some(&leaf(page)?[page % TABLE])
}

/// The lowest table for a page by its number, if there is one.
fn leaf(page: usize) -> Option<&'static Leaf> {
    // SAFETY: null, or a table that was made before it was published; none is given back.
    let middle = unsafe { MAP.get(page / TABLE / TABLE)?.load(Ordering::Acquire).as_ref() }?;
    // SAFETY: as above.
    unsafe { middle[page / TABLE % TABLE].load(Ordering::Acquire).as_ref() }
}

/// Makes the tables that so many bytes from an address need. False: there is no memory, or the address is beyond all tables. For one caller at a
/// time.
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

/// The table of a place, which is made when there is none. A table of zeros is an empty one.
fn table<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    let mut found = place.load(Ordering::Acquire);
    if found.is_null() {
        found = meta::alloc(size_of::<T>()).cast();
        place.store(found, Ordering::Release);
    }
    // SAFETY: null, or memory of that size, zeroed, that is never given back.
    unsafe { found.as_ref() }
}

/// Enters a span, or null, for every page of so many bytes. There are tables.
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

/// Puts a span before all others of a list.
///
/// # Safety
/// The caller has the lock of the list, and the span, which is in none.
#[inline]
pub(super) unsafe fn link(list: *mut *mut Span, span: *mut Span) {
    // SAFETY: our caller's promise.
    unsafe {
        (*span).previous = ptr::null_mut();
        (*span).next = *list;
        if !(*list).is_null() {
            (**list).previous = span;
        }
        *list = span;
    }
}

/// Takes a span out of a list.
///
/// # Safety
/// The caller has the lock of the list, and the span is in it.
#[inline]
pub(super) unsafe fn unlink(list: *mut *mut Span, span: *mut Span) {
    // SAFETY: our caller's promise.
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
