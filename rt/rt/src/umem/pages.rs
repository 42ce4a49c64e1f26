//! Spans: runs of pages for slabs and for large buffers.
//!
//! Free spans are merged with their neighbours at once, and sorted into bins by size. So the smallest sufficient span is found without a search:
//! sizes below [`EXACT`] pages have a bin each, larger ones share four bins for each power of two.
//!
//! Free spans stay mapped, and keep their pages for a while, because getting them again costs a system call and a page fault each. A free page that
//! may have been written to is *dirty*. If more than an eighth of the memory in use is dirty, and more than a *floor*, dirty pages return to the
//! kernel until half of that limit is left, largest spans first. The floor is [`DIRTY`]. It doubles, up to the recent maximum of memory in use, when
//! half of it was returned and then needed again. Pages that stay dirty between two updates without being needed are returned as well, and the floor
//! is halved.

use super::{lock, map, meta, root};
use crate::stacks::page_size;
use millpond_rt_layout::{PAGE, Span, kind};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Sizes with a bin of their own, in pages.
const EXACT: usize = 64;
const BINS: usize = 256;
/// Size of a new mapping, in bytes.
const IMPORT: usize = 1 << 20;
/// Minimum size of a buffer with a mapping of its own, in bytes.
const ALONE: usize = 16 << 20;
/// Minimum size at which a growing buffer gets a mapping of its own, to which its pages move, in bytes.
const GROWN: usize = 256 << 10;
/// Minimum limit of dirty bytes. jemalloc and mimalloc keep more for a time; glibc keeps up to twice the largest buffer.
const DIRTY: usize = 16 << 20;
/// One part in this many of the memory in use may be dirty.
const PART: usize = 8;
/// Minimum size of a span that is worth a system call, in bytes.
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
    /// Minimum of `dirty` since the latest update: the part that was not needed.
    fewest: usize,
    /// Current minimum limit of dirty bytes.
    floor: usize,
    /// Bytes that were returned because of the limit since the latest update, and the part of them that was needed again.
    gone: usize,
    regained: usize,
    /// Maximum of bytes in use since the latest update.
    most: usize,
    /// No pages are returned below this number of dirty bytes: the rest is in spans that are too small.
    patience: usize,
}

struct Shared(UnsafeCell<Heap>);

// SAFETY: it is accessed under its lock only.
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

/// Allocates a span of at least `bytes` bytes that begins at a multiple of `align`. Null: out of memory.
///
/// `align` is a power of two. The span belongs to the caller, and has the requested kind.
pub(super) fn alloc(bytes: usize, align: usize, what: u32) -> *mut Span {
    get(bytes, align, what, Source::Any)
}

/// As [`alloc`], for a large buffer, from existing mappings.
pub(super) fn alloc_mapped(bytes: usize) -> *mut Span {
    get(bytes, 1, kind::LARGE, Source::Mapped)
}

/// As [`alloc`], for a large buffer, in a mapping of its own.
pub(super) fn alloc_alone(bytes: usize) -> *mut Span {
    get(bytes, 1, kind::LARGE, Source::Alone)
}

/// The source of a span.
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
    // SAFETY: under the lock, as `Heap` requires.
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

/// Frees a span.
///
/// # Safety
/// It is of [`alloc`], and no thread uses it or its pages.
pub(super) unsafe fn free(span: *mut Span) {
    // SAFETY: under the lock; the rest is the caller's promise.
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
        // SAFETY: no data structure refers to it any more.
        Old::Mapping(base, bytes) => unsafe {
            libc::munmap(base.cast(), bytes);
        },
        // SAFETY: the spans are this function's.
        Old::Spans(spans) => unsafe { purge(spans) },
    }
}

/// Memory to return to the kernel. This takes long, so no lock is held meanwhile.
enum Old {
    Mapping(*mut u8, usize),
    /// A list of spans without bins, by `next`.
    Spans(*mut Span),
}

/// Returns the dirty pages of spans to the kernel. They read as zeros afterwards. Locked pages stay. In the child of a fork that happens meanwhile,
/// these spans are leaked.
///
/// # Safety
/// A list of [`Heap::take_dirty`].
unsafe fn purge(list: *mut Span) {
    if list.is_null() {
        return;
    }
    // SAFETY: by the caller's promise; the contents of the pages are not needed.
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

/// Resizes a large buffer that has a mapping of its own, or that grows and gets one. Its pages move there, and the old place is unmapped. False:
/// nothing changed.
///
/// # Safety
/// The span is of [`alloc`], and no other thread uses its pages.
pub(super) unsafe fn resize(span: *mut Span, bytes: usize) -> bool {
    let Some(bytes) = bytes.checked_next_multiple_of(page_size()) else { return false };
    // SAFETY: under the lock; the rest is the caller's promise.
    lock::with(lock_word(), || unsafe {
        let (base, before) = ((*span).base, (*span).bytes);
        // Miri does not support mremap.
        if cfg!(miri) || bytes < GROWN || ((*span).alone == 0 && bytes < before) {
            return false;
        }
        // First reserve the new place, because its page-map tables must exist before the pages move.
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

/// Returns all free pages to the kernel; the address range stays.
pub(super) fn reap() {
    // SAFETY: under the lock; the list is this function's.
    unsafe { purge(lock::with(lock_word(), || (*HEAP.0.get()).take_dirty(0, 1))) };
}

/// Returns pages that stayed dirty since the latest update.
pub(super) fn update() {
    // SAFETY: under the lock; the list is this function's.
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

/// The kind of a span, which another thread may own.
unsafe fn kind_of(span: *mut Span) -> u32 {
    // SAFETY: the caller has a live record.
    unsafe { AtomicU32::from_ptr(&raw mut (*span).kind) }.load(Ordering::Relaxed)
}

/// Sets the kind of a span that the caller owns.
pub(super) unsafe fn set_kind(span: *mut Span, what: u32) {
    // SAFETY: the caller has a live record. Other threads only check whether the kind is FREE. It changes from or to FREE under the lock only.
    unsafe { AtomicU32::from_ptr(&raw mut (*span).kind) }.store(what, Ordering::Relaxed);
}

/// For the child of a fork during which another thread held the lock: rebuilds the list of free spans from the page map, and recounts the memory in
/// use. A span that the thread had taken out is leaked.
///
/// # Safety
/// This is the only thread, and it is not inside this file.
pub(super) unsafe fn mend() {
    // SAFETY: by the caller's promise; entries of the map are span records, whose memory is never used for anything else.
    unsafe {
        let heap = &mut *HEAP.0.get();
        heap.bins = [ptr::null_mut(); BINS];
        heap.there = [0; BINS / 64];
        // It is unknown which records are in use: they are leaked.
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
    /// Takes a free span. If none is large enough, more is mapped.
    unsafe fn take(&mut self, bytes: usize, align: usize, can_map: bool) -> *mut Span {
        // A span of this size contains an aligned place.
        let Some(enough) = bytes.checked_add(align - page_size()) else { return ptr::null_mut() };
        // SAFETY: the caller holds the lock; records in bins are free spans.
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
                // Without a record for the rest, the whole span is returned.
                if !rest.is_null() {
                    self.put(rest);
                }
            }
            span
        }
    }

    /// The first span of the smallest bin whose spans are all large enough, or a sufficient span of the bin before.
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

    /// Maps more memory. The new span is in its bin.
    unsafe fn import(&mut self, bytes: usize) -> *mut Span {
        // SAFETY: under the lock.
        unsafe {
            let mut span = self.map(bytes.max(IMPORT));
            // If there is no room for that much, the required size may still fit.
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
        // SAFETY: under the lock; the record is this function's.
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

    /// A mapping for a single buffer.
    unsafe fn map_alone(&mut self, bytes: usize, align: usize) -> *mut Span {
        let unit = page_size();
        let Some(enough) = bytes.checked_add(align - unit) else { return ptr::null_mut() };
        // SAFETY: under the lock; the trimmed parts are not in use.
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

    /// Splits a span that is in no bin: it keeps `bytes` bytes, and the rest is a new span in no bin. Null: no record is available.
    unsafe fn split(&mut self, span: *mut Span, bytes: usize) -> *mut Span {
        let rest = self.record();
        if !rest.is_null() {
            // SAFETY: both records are the caller's.
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

    /// Merges a span with its free neighbours and puts it into its bin.
    unsafe fn put(&mut self, mut span: *mut Span) -> *mut Span {
        // SAFETY: under the lock. The map entries of the pages before and after are live records.
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

    /// Takes spans out of their bins if too many pages are dirty. A list by `next`.
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

    /// Takes dirty spans out of their bins, largest first, until at most `left` dirty bytes remain in bins, or the remaining spans have fewer than
    /// `least` dirty bytes. A list by `next`.
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

    /// Merges two neighbours that are in no bin.
    unsafe fn join(&mut self, low: *mut Span, high: *mut Span) {
        // SAFETY: under the lock; the record of the higher one is not used again.
        unsafe {
            // Dirty pages are counted from the beginning. So clean pages of the lower span become dirty, too.
            if (*high).dirty > 0 {
                (*low).dirty = (*low).bytes + (*high).dirty;
            }
            (*low).bytes += (*high).bytes;
            self.retire(high);
        }
    }

    /// Takes a free span out of its bin and of the map.
    unsafe fn unlink(&mut self, span: *mut Span) {
        // SAFETY: under the lock.
        unsafe {
            let (base, bytes) = ((*span).base.addr(), (*span).bytes);
            map::enter_page(base, ptr::null_mut());
            map::enter_page(base + bytes - PAGE, ptr::null_mut());
            // For `mend`: from here on the record is not a free span.
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

    /// A zeroed record. Null: out of memory.
    fn record(&mut self) -> *mut Span {
        let first = self.records;
        if first.is_null() {
            return meta::alloc(size_of::<Span>()).cast();
        }
        // SAFETY: a retired record, owned by this function now; an all-zero span is valid and empty.
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
                // SAFETY: the span is this test's.
                unsafe { free(span) };
                continue;
            }
            let align = page_size() << ((state >> 50) % 4);
            let span = alloc(pages * page_size(), align, kind::LARGE);
            // SAFETY: the span is this test's until it is freed.
            let (base, bytes) = unsafe { ((*span).base, (*span).bytes) };
            assert_eq!(base.addr() % align, 0);
            assert!(bytes >= pages * page_size());
            assert!((0..bytes).step_by(PAGE).all(|at| map::find(base.addr() + at) == span));
            // SAFETY: the pages are this test's.
            unsafe { base.write_bytes(0x5a, bytes) };
            have.push(span);
        }
        for span in have {
            // SAFETY: each span is this test's, once.
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
        // SAFETY: the span is this test's.
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
        // SAFETY: the span is this test's.
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
        // SAFETY: the span is this test's.
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
