//! Spans: runs of pages for slabs and for large buffers.
//!
//! Free spans are joined with their neighbours at once, and lie in bins by their length, so that the shortest one that is long enough is found without a
//! search: lengths below [`EXACT`] pages have a bin each, longer ones share four bins for each power of two.
//!
//! What is free stays mapped, and keeps its pages for a while: to get them again costs a system call and a fault each. A free page that may have been written
//! to is *dirty*. When more than an eighth of what is in use is dirty, and more than a *floor*, the kernel gets back all but half of that, the longest
//! spans first. The floor is [`DIRTY`]. It doubles, up to what was lately in use at once, when half of it went and was needed again. What stays dirty
//! between two updates without being needed goes as well, and the floor is halved.

use super::{lock, map, meta, root};
use crate::stacks::page_size;
use millpond_rt_layout::{PAGE, Span, kind};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Lengths with a bin of their own, in pages.
const EXACT: usize = 64;
const BINS: usize = 256;
/// What the kernel is asked for at once, in bytes.
const IMPORT: usize = 1 << 20;
/// From here on a buffer has a mapping of its own, in bytes.
const ALONE: usize = 16 << 20;
/// From here on one that grows gets such a mapping, to which its pages move.
const GROWN: usize = 256 << 10;
/// So many dirty bytes may stay, whatever is in use. jemalloc and mimalloc keep more for a time, glibc keeps up to twice the largest buffer.
const DIRTY: usize = 16 << 20;
/// Of what is in use one part in so many may be dirty.
const PART: usize = 8;
/// A span that is shorter is not worth a system call, in bytes.
const PURGE: usize = 64 << 10;

struct Heap {
    lock: u32,
    bins: [*mut Span; BINS],
    /// A bit for each bin that is not empty.
    there: [u64; BINS / 64],
    /// Free span records.
    records: *mut Span,
    /// Free bytes that may have been written to.
    dirty: usize,
    /// The fewest of them since the latest update: what was not needed.
    fewest: usize,
    /// So many dirty bytes may stay, whatever is in use.
    floor: usize,
    /// Bytes that went because there were too many, and those of them that were needed again, since the latest update.
    gone: usize,
    regained: usize,
    /// The most bytes that were in use since then.
    most: usize,
    /// No pages go before there are more dirty bytes: the others are in pieces that are too short.
    patience: usize,
}

struct Shared(UnsafeCell<Heap>);

// SAFETY: it is used under its lock only.
unsafe impl Sync for Shared {}

static HEAP: Shared = Shared(UnsafeCell::new(Heap {
    lock: 0,
    bins: [ptr::null_mut(); BINS],
    there: [0; BINS / 64],
    records: ptr::null_mut(),
    dirty: 0,
    fewest: 0,
    floor: DIRTY,
    gone: 0,
    regained: 0,
    most: 0,
    patience: 0,
}));

/// The lock, for children of forks.
pub(super) fn lock_word() -> *mut u32 {
    // SAFETY: no reference is made.
    unsafe { &raw mut (*HEAP.0.get()).lock }
}

/// A run of pages of at least so many bytes, which begins at a multiple of `align`; or null.
///
/// `align` is a power of two. The span belongs to the caller, and has the kind that was asked for.
pub(super) fn alloc(bytes: usize, align: usize, what: u32) -> *mut Span {
    get(bytes, align, what, Source::Any)
}

/// As [`alloc`], for a large buffer, of what is mapped already.
pub(super) fn alloc_mapped(bytes: usize) -> *mut Span {
    get(bytes, 1, kind::LARGE, Source::Mapped)
}

/// As [`alloc`], for a large buffer, in a mapping of its own.
pub(super) fn alloc_alone(bytes: usize) -> *mut Span {
    get(bytes, 1, kind::LARGE, Source::Alone)
}

/// Where a span may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Any,
    Mapped,
    Alone,
}

fn get(bytes: usize, align: usize, what: u32, source: Source) -> *mut Span {
    let unit = page_size();
    let Some(bytes) = bytes.max(1).checked_next_multiple_of(unit) else { return ptr::null_mut() };
    if bytes > map::REACH {
        return ptr::null_mut();
    }
    let align = align.max(unit);
    // SAFETY: under the lock, as all of `Heap` wants it.
    lock::with(lock_word(), || unsafe {
        let heap = &mut *HEAP.0.get();
        let span = match source {
            Source::Mapped if bytes >= ALONE => ptr::null_mut(),
            Source::Any if bytes >= ALONE && what == kind::LARGE => heap.map_alone(bytes, align),
            Source::Alone => heap.map_alone(bytes, align),
            Source::Any | Source::Mapped => heap.take(bytes, align, source == Source::Any),
        };
        let counts = &raw mut (*root::root()).heap;
        if span.is_null() {
            (*counts).failures += u64::from(source != Source::Mapped);
            return span;
        }
        set_kind(span, what);
        (*span).next = ptr::null_mut();
        (*span).previous = ptr::null_mut();
        (*span).first = 0;
        (*counts).used += (*span).bytes;
        heap.most = heap.most.max((*counts).used);
        if what == kind::LARGE {
            (*counts).large += (*span).bytes;
            (*counts).large_buffers += 1;
            (*counts).large_allocs += 1;
        }
        map::enter((*span).base.addr(), (*span).bytes, span);
        span
    })
}

/// Gives a span back.
///
/// # Safety
/// It is of [`alloc`], and no thread uses it or its pages.
pub(super) unsafe fn free(span: *mut Span) {
    // SAFETY: under the lock, and our caller promises the rest.
    let old = lock::with(lock_word(), || unsafe {
        let heap = &mut *HEAP.0.get();
        let counts = &raw mut (*root::root()).heap;
        let (base, bytes) = ((*span).base, (*span).bytes);
        (*counts).used -= bytes;
        if (*span).kind == kind::LARGE {
            (*counts).large -= bytes;
            (*counts).large_buffers -= 1;
        }
        map::enter(base.addr(), bytes, ptr::null_mut());
        if (*span).alone == 1 {
            (*counts).mapped -= bytes;
            heap.retire(span);
            return Old::Mapping(base, bytes);
        }
        (*span).dirty = bytes;
        heap.put(span);
        Old::Spans(heap.take_excess((*counts).used))
    });
    match old {
        // SAFETY: nothing leads to it any more.
        Old::Mapping(base, bytes) => unsafe {
            libc::munmap(base.cast(), bytes);
        },
        // SAFETY: they are ours.
        Old::Spans(spans) => unsafe { purge(spans) },
    }
}

/// What goes back to the kernel, which takes long: no lock is held meanwhile.
enum Old {
    Mapping(*mut u8, usize),
    /// A list of spans in no bin, by `next`.
    Spans(*mut Span),
}

/// Gives the dirty pages of spans back to the kernel, which has zeros in their place from then on. Locked ones stay as they are. A child of a fork that
/// comes meanwhile lacks these spans.
///
/// # Safety
/// A list of [`Heap::take_dirty`].
unsafe fn purge(list: *mut Span) {
    if list.is_null() {
        return;
    }
    // SAFETY: our caller's promise; no thread needs what is in the pages.
    unsafe {
        let mut span = list;
        while !span.is_null() {
            if !cfg!(miri) && libc::madvise((*span).base.cast(), (*span).dirty, libc::MADV_DONTNEED) == 0 {
                (*span).dirty = 0;
            }
            span = (*span).next;
        }
        lock::with(lock_word(), || {
            let heap = &mut *HEAP.0.get();
            let mut span = list;
            while !span.is_null() {
                let next = (*span).next;
                heap.put(span);
                span = next;
            }
        });
    }
}

/// Changes how long a large buffer is: one with a mapping of its own, or one that grows and gets such a mapping. Its pages move there, and its place goes
/// back to the kernel. False: it is as it was.
///
/// # Safety
/// The span is of [`alloc`], and no other thread uses its pages.
pub(super) unsafe fn resize(span: *mut Span, bytes: usize) -> bool {
    let Some(bytes) = bytes.checked_next_multiple_of(page_size()) else { return false };
    // SAFETY: under the lock, and our caller promises the rest.
    lock::with(lock_word(), || unsafe {
        let (base, before) = ((*span).base, (*span).bytes);
        // Miri moves no pages.
        if cfg!(miri) || bytes < GROWN || ((*span).alone == 0 && bytes < before) {
            return false;
        }
        // The tables for the new place can only be made once it is known: so the old place stays, unless there are some for both.
        let room = libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        if room == libc::MAP_FAILED {
            return false;
        }
        if !map::reserve(room.addr(), bytes) {
            libc::munmap(room, bytes);
            return false;
        }
        map::enter(base.addr(), before, ptr::null_mut());
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let moved = libc::mremap(base.cast(), before, bytes, flags, room);
        if moved == libc::MAP_FAILED {
            libc::munmap(room, bytes);
            map::enter(base.addr(), before, span);
            return false;
        }
        (*span).base = moved.cast();
        (*span).bytes = bytes;
        (*span).alone = 1;
        map::enter(moved.addr(), bytes, span);
        let counts = &raw mut (*root::root()).heap;
        for count in [&raw mut (*counts).used, &raw mut (*counts).large, &raw mut (*counts).mapped] {
            *count = *count - before + bytes;
        }
        true
    })
}

/// Gives all free pages back to the kernel; their addresses stay.
pub(super) fn reap() {
    // SAFETY: under the lock; the list is ours.
    unsafe { purge(lock::with(lock_word(), || (*HEAP.0.get()).take_dirty(0, 1))) };
}

/// Gives back what stayed dirty since the latest update.
pub(super) fn update() {
    // SAFETY: under the lock; the list is ours.
    let old = lock::with(lock_word(), || unsafe {
        let heap = &mut *HEAP.0.get();
        let old = heap.take_dirty(heap.dirty - heap.fewest.min(heap.dirty), PURGE);
        heap.fewest = heap.dirty;
        heap.floor = DIRTY.max(heap.floor / 2);
        (heap.gone, heap.regained, heap.patience) = (0, 0, 0);
        heap.most = (*root::root()).heap.used;
        old
    });
    // SAFETY: as above.
    unsafe { purge(old) };
}

/// The kind of a span, which may be another thread's.
unsafe fn kind_of(span: *mut Span) -> u32 {
    // SAFETY: our caller has a live record.
    unsafe { AtomicU32::from_ptr(&raw mut (*span).kind) }.load(Ordering::Relaxed)
}

/// Makes a span one of another kind. It is the caller's.
pub(super) unsafe fn set_kind(span: *mut Span, what: u32) {
    // SAFETY: our caller has a live record. Neighbours look whether it is free, which it neither was nor becomes where no lock is held.
    unsafe { AtomicU32::from_ptr(&raw mut (*span).kind) }.store(what, Ordering::Relaxed);
}

/// In the child of a fork that came while another thread was here: free spans are found by the map, and what is in use is counted again. A span that
/// the thread had taken out is lost.
///
/// # Safety
/// This is the only thread, and it is not inside of this file.
pub(super) unsafe fn mend() {
    // SAFETY: our caller's promise; what the map leads to are records of spans, which are never anything else.
    unsafe {
        let heap = &mut *HEAP.0.get();
        heap.bins = [ptr::null_mut(); BINS];
        heap.there = [0; BINS / 64];
        // Which of the records are in use is not known.
        heap.records = ptr::null_mut();
        (heap.dirty, heap.fewest, heap.gone, heap.regained, heap.patience) = (0, 0, 0, 0, 0);
        heap.floor = DIRTY;
        let counts = &raw mut (*root::root()).heap;
        ((*counts).used, (*counts).large, (*counts).large_buffers) = (0, 0, 0);
        map::each(|page, span| {
            let (base, bytes) = ((*span).base.addr(), (*span).bytes);
            let is_first = base == page;
            if (*span).kind == kind::FREE {
                let last = base.wrapping_add(bytes).wrapping_sub(PAGE);
                if map::find(base) != span || map::find(last) != span {
                    map::enter_page(page, ptr::null_mut());
                } else if is_first {
                    heap.dirty += (*span).dirty;
                    heap.link(span);
                }
            } else if is_first {
                (*counts).used += bytes;
                if (*span).kind != kind::SLAB {
                    (*counts).large += bytes;
                    (*counts).large_buffers += 1;
                }
            }
        });
    }
}

fn bin_of(pages: usize) -> usize {
    if pages < EXACT {
        return pages;
    }
    let power = pages.ilog2() as usize;
    let quarter = (pages >> (power - 2)) & 3;
    (EXACT + (power - EXACT.ilog2() as usize) * 4 + quarter).min(BINS - 1)
}

impl Heap {
    /// A span out of the free ones; more is mapped when none is long enough.
    unsafe fn take(&mut self, bytes: usize, align: usize, can_map: bool) -> *mut Span {
        // With so much more there is a place in it that is aligned.
        let Some(enough) = bytes.checked_add(align - page_size()) else { return ptr::null_mut() };
        // SAFETY: under the lock, which our caller has; records in bins are free spans.
        unsafe {
            let mut span = self.find(enough);
            let is_new = span.is_null() && can_map;
            if is_new {
                span = self.import(enough);
            }
            if span.is_null() {
                return span;
            }
            self.unlink(span);
            if !is_new {
                let again = bytes.saturating_sub((*span).dirty).min(self.gone);
                self.gone -= again;
                self.regained += again;
            }
            let before = (*span).base.addr().wrapping_neg() & (align - 1);
            if before > 0 {
                let rest = self.split(span, before);
                if rest.is_null() {
                    self.put(span);
                    return rest;
                }
                self.put(span);
                span = rest;
            }
            if (*span).bytes > bytes {
                let rest = self.split(span, bytes);
                // Without a record for the rest the whole is given: more than was asked for.
                if !rest.is_null() {
                    self.put(rest);
                }
            }
            span
        }
    }

    /// The first free span of the shortest bin in which all are long enough, or one of the bin before that happens to be.
    unsafe fn find(&self, bytes: usize) -> *mut Span {
        let bin = bin_of(bytes / PAGE);
        // SAFETY: under the lock.
        unsafe {
            let mut span = self.bins[bin];
            for _ in 0..16 {
                if span.is_null() || (*span).bytes >= bytes {
                    break;
                }
                span = (*span).next;
            }
            if !span.is_null() && (*span).bytes >= bytes {
                return span;
            }
        }
        let mut word = (bin + 1) / 64;
        let mut mask = u64::MAX.checked_shl((bin as u32 + 1) % 64).unwrap_or(0);
        while word < self.there.len() {
            let found = self.there[word] & mask;
            if found != 0 {
                return self.bins[word * 64 + found.trailing_zeros() as usize];
            }
            (word, mask) = (word + 1, u64::MAX);
        }
        ptr::null_mut()
    }

    /// Maps more. The new span is in its bin.
    unsafe fn import(&mut self, bytes: usize) -> *mut Span {
        // SAFETY: under the lock.
        unsafe {
            let mut span = self.map(bytes.max(IMPORT));
            // When there is no room for so much at once, just what is needed may still fit.
            if span.is_null() && bytes < IMPORT {
                span = self.map(bytes);
            }
            if span.is_null() { span } else { self.put(span) }
        }
    }

    /// A new mapping with a record, in no bin.
    unsafe fn map(&mut self, bytes: usize) -> *mut Span {
        let span = self.record();
        if span.is_null() {
            return span;
        }
        let base = meta::pages_of_zeros(bytes);
        // SAFETY: under the lock; the record is ours.
        unsafe {
            if base.is_null() || !map::reserve(base.addr(), bytes) {
                if !base.is_null() {
                    libc::munmap(base.cast(), bytes);
                }
                self.retire(span);
                return ptr::null_mut();
            }
            (*span).base = base;
            (*span).bytes = bytes;
            (*root::root()).heap.mapped += bytes;
        }
        span
    }

    /// A mapping for one buffer alone.
    unsafe fn map_alone(&mut self, bytes: usize, align: usize) -> *mut Span {
        let unit = page_size();
        let Some(enough) = bytes.checked_add(align - unit) else { return ptr::null_mut() };
        // SAFETY: under the lock; what is cut off is not in use yet.
        unsafe {
            let span = self.map(enough);
            if span.is_null() {
                return span;
            }
            let base = (*span).base;
            let before = base.addr().wrapping_neg() & (align - 1);
            let after = enough - before - bytes;
            if before > 0 {
                libc::munmap(base.cast(), before);
            }
            if after > 0 {
                libc::munmap(base.add(before + bytes).cast(), after);
            }
            (*span).base = base.add(before);
            (*span).bytes = bytes;
            (*span).alone = 1;
            (*root::root()).heap.mapped -= before + after;
            span
        }
    }

    /// Cuts a span that is in no bin: it keeps so many bytes, and the rest is a new one in no bin. Null: there is no record for it.
    unsafe fn split(&mut self, span: *mut Span, bytes: usize) -> *mut Span {
        let rest = self.record();
        if !rest.is_null() {
            // SAFETY: both are ours.
            unsafe {
                (*rest).base = (*span).base.add(bytes);
                (*rest).bytes = (*span).bytes - bytes;
                (*rest).dirty = (*span).dirty.saturating_sub(bytes);
                (*span).dirty = (*span).dirty.min(bytes);
                (*span).bytes = bytes;
            }
        }
        rest
    }

    /// Joins a span with its free neighbours and puts it into its bin.
    unsafe fn put(&mut self, mut span: *mut Span) -> *mut Span {
        // SAFETY: under the lock. What the map has for the page before and the page behind is a live record.
        unsafe {
            let before = map::find((*span).base.addr() - 1);
            if !before.is_null() && kind_of(before) == kind::FREE {
                self.unlink(before);
                self.join(before, span);
                span = before;
            }
            let after = map::find((*span).base.addr() + (*span).bytes);
            if !after.is_null() && kind_of(after) == kind::FREE {
                self.unlink(after);
                self.join(span, after);
            }
            let (base, bytes) = ((*span).base.addr(), (*span).bytes);
            set_kind(span, kind::FREE);
            map::enter_page(base, span);
            map::enter_page(base + bytes - PAGE, span);
            self.dirty += (*span).dirty;
            self.link(span);
            span
        }
    }

    unsafe fn link(&mut self, span: *mut Span) {
        // SAFETY: under the lock.
        unsafe {
            let bin = bin_of((*span).bytes / PAGE);
            map::link(&raw mut self.bins[bin], span);
            self.there[bin / 64] |= 1 << (bin % 64);
        }
    }

    /// Takes spans out of their bins when too many pages are dirty. A list by `next`.
    unsafe fn take_excess(&mut self, used: usize) -> *mut Span {
        let mut limit = self.floor.max(used / PART);
        if self.dirty > limit && self.regained >= limit / 2 {
            self.floor = (2 * limit).min(self.most).max(limit);
            self.regained = 0;
            limit = self.floor;
        }
        if self.dirty <= limit.max(self.patience) {
            return ptr::null_mut();
        }
        let before = self.dirty;
        // SAFETY: under the lock.
        let old = unsafe { self.take_dirty(limit / 2, PURGE) };
        self.gone += before - self.dirty;
        self.patience = self.dirty + limit / 2;
        old
    }

    /// Takes spans with dirty pages out of their bins, the longest first, until so many dirty bytes are left in bins, or spans have less than `least`. A list
    /// by `next`.
    unsafe fn take_dirty(&mut self, left: usize, least: usize) -> *mut Span {
        let mut list: *mut Span = ptr::null_mut();
        // SAFETY: under the lock; records in bins are free spans.
        unsafe {
            for bin in (0..BINS).rev() {
                let mut span = self.bins[bin];
                while !span.is_null() && self.dirty > left {
                    let next = (*span).next;
                    if (*span).dirty >= least {
                        self.unlink(span);
                        (*span).next = list;
                        list = span;
                    }
                    span = next;
                }
            }
        }
        list
    }

    /// Two neighbours in no bin become one.
    unsafe fn join(&mut self, low: *mut Span, high: *mut Span) {
        // SAFETY: under the lock; the record of the higher one is not used again.
        unsafe {
            // What is dirty is at the beginning, all but the pages of a clean one before it.
            if (*high).dirty > 0 {
                (*low).dirty = (*low).bytes + (*high).dirty;
            }
            (*low).bytes += (*high).bytes;
            self.retire(high);
        }
    }

    /// Takes a free span out of its bin, and out of the map.
    unsafe fn unlink(&mut self, span: *mut Span) {
        // SAFETY: under the lock.
        unsafe {
            let (base, bytes) = ((*span).base.addr(), (*span).bytes);
            map::enter_page(base, ptr::null_mut());
            map::enter_page(base + bytes - PAGE, ptr::null_mut());
            // For `mend`: from here on the record is no free span.
            fence(Ordering::Release);
            self.dirty -= (*span).dirty;
            self.fewest = self.fewest.min(self.dirty);
            let bin = bin_of(bytes / PAGE);
            map::unlink(&raw mut self.bins[bin], span);
            if self.bins[bin].is_null() {
                self.there[bin / 64] &= !(1 << (bin % 64));
            }
        }
    }

    /// A record of zeros, or null.
    fn record(&mut self) -> *mut Span {
        let first = self.records;
        if first.is_null() {
            return meta::alloc(size_of::<Span>()).cast();
        }
        // SAFETY: a retired record, which is ours now; zeros are a span of nothing.
        unsafe {
            self.records = (*first).next;
            first.write_bytes(0, 1);
        }
        first
    }

    unsafe fn retire(&mut self, span: *mut Span) {
        // SAFETY: under the lock; no thread uses the record.
        unsafe {
            set_kind(span, kind::FREE);
            (*span).next = self.records;
        }
        self.records = span;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_spans_are_in_later_bins() {
        let bins: Vec<usize> = (1..10_000).map(bin_of).collect();
        assert!(bins.is_sorted());
        assert_eq!((bin_of(1), bin_of(63), bin_of(64), bin_of(80), bin_of(128)), (1, 63, 64, 65, 68));
    }

    #[test]
    fn spans_do_not_overlap_and_are_aligned_and_their_pages_lead_to_them() {
        let mut have: Vec<*mut Span> = Vec::new();
        let mut state = 1_u64;
        for round in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pages = 1 + (state >> 33) as usize % 90;
            if round % 3 == 2 {
                let span = have.swap_remove((state >> 40) as usize % have.len());
                // SAFETY: it is ours.
                unsafe { free(span) };
                continue;
            }
            let align = page_size() << ((state >> 50) % 4);
            let span = alloc(pages * page_size(), align, kind::LARGE);
            // SAFETY: it is ours until it is freed.
            let (base, bytes) = unsafe { ((*span).base, (*span).bytes) };
            assert_eq!(base.addr() % align, 0);
            assert!(bytes >= pages * page_size());
            assert!((0..bytes).step_by(PAGE).all(|at| map::find(base.addr() + at) == span));
            // SAFETY: the pages are ours.
            unsafe { base.write_bytes(0x5a, bytes) };
            have.push(span);
        }
        for span in have {
            // SAFETY: each is ours, once.
            unsafe {
                let bytes = (*span).bytes;
                assert!((0..bytes).all(|at| (*span).base.add(at).read() == 0x5a));
                free(span);
            }
        }
        reap();
    }

    #[test]
    #[cfg(not(miri))]
    fn a_buffer_with_a_mapping_of_its_own_grows_with_what_is_in_it() {
        let span = alloc(ALONE, 1 << 20, kind::LARGE);
        // SAFETY: it is ours.
        unsafe {
            assert_eq!(((*span).alone, (*span).base.addr() % (1 << 20)), (1, 0));
            (*span).base.write(7);
            assert!(resize(span, 2 * ALONE));
            assert_eq!(((*span).base.read(), (*span).bytes), (7, 2 * ALONE));
            assert_eq!(map::find((*span).base.addr() + 2 * ALONE - 1), span);
            let place = (*span).base.addr();
            free(span);
            assert!(map::find(place).is_null());
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn one_that_grows_takes_its_pages_along_to_a_mapping_of_its_own() {
        let span = alloc(GROWN / 2, page_size(), kind::LARGE);
        // SAFETY: it is ours.
        unsafe {
            let before = (*span).base;
            before.write_bytes(0x5a, GROWN / 2);
            assert!(!resize(span, GROWN - page_size()), "so little is copied");
            assert!(resize(span, GROWN));
            assert_eq!(((*span).alone, (*span).bytes), (1, GROWN));
            assert!((0..GROWN / 2).all(|at| (*span).base.add(at).read() == 0x5a));
            assert!((GROWN / 2..GROWN).all(|at| (*span).base.add(at).read() == 0));
            assert_ne!(map::find(before.addr()), span);
            assert!(resize(span, 2 * GROWN) && resize(span, GROWN));
            assert_eq!((*span).base.add(1).read(), 0x5a);
            assert!(!resize(span, GROWN / 2), "so little is better elsewhere");
            free(span);
        }
    }

    #[test]
    fn one_that_shall_be_shorter_stays_where_it_is() {
        let span = alloc(4 * GROWN, page_size(), kind::LARGE);
        // SAFETY: it is ours.
        unsafe {
            assert!(!resize(span, 2 * GROWN));
            assert_eq!(((*span).alone, (*span).bytes), (0, 4 * GROWN));
            free(span);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(alloc(usize::MAX, 1, kind::LARGE).is_null());
        assert!(alloc(usize::MAX / 2, 1, kind::LARGE).is_null());
        assert!(alloc(1 << 20, 1 << 62, kind::LARGE).is_null());
    }
}
