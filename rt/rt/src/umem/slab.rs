//! Slabs: runs of pages divided into chunks of a cache. All bookkeeping is outside of them, so a buffer overflow damages other buffers only.
//!
//! # Safety
//!
//! Every cache that is passed to these functions must be alive. This is a promise of all callers, in addition to those of each function.

use super::map::{link, unlink};
use super::{lock, log, map, meta, pages, tags, walls};
use millpond_rt_layout::{Bufctl, CHUNKS, Cache, PAGE, Span, flags, kind, logs};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Why an address cannot be freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stray {
    /// In no slab, or not the beginning of a buffer.
    Foreign,
    /// It belongs to another cache.
    Other(*mut Cache),
    Twice,
}

/// The place of a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) span: *mut Span,
    pub(super) chunk: usize,
}

/// Takes up to `want` buffers of a cache, and writes them to an array. Returns their number. 0: out of memory.
///
/// # Safety
/// The cache is alive, and `out` has room for `want` pointers.
pub(super) unsafe fn take(cache: *mut Cache, out: *mut *mut u8, want: usize) -> usize {
    // SAFETY: under the cache's lock, which the lists require; the rest is the caller's promise.
    unsafe {
        lock::with(&raw mut (*cache).slabs.lock, || {
            let mut taken = 0;
            while taken < want {
                let mut span = (*cache).slabs.partial;
                if span.is_null() {
                    // At most one new slab per call.
                    span = if taken == 0 { make(cache) } else { ptr::null_mut() };
                }
                if span.is_null() {
                    break;
                }
                while taken < want && (*span).taken < (*cache).chunks {
                    out.add(taken).write(buffer(cache, span, take_chunk(cache, span)));
                    taken += 1;
                }
                if (*span).taken == (*cache).chunks {
                    unlink(&raw mut (*cache).slabs.partial, span);
                    link(&raw mut (*cache).slabs.full, span);
                }
            }
            (*cache).slabs.taken += taken as u64;
            taken
        })
    }
}

/// Returns the buffers of an array.
///
/// # Safety
/// The cache is alive, and no thread uses the buffers.
///
/// # Errors
/// The first invalid address, and why it is invalid. All others were returned.
pub(super) unsafe fn give(
    cache: *mut Cache,
    from: *const *mut u8,
    count: usize,
) -> Result<(), (usize, Stray)> {
    let mut wrong = Ok(());
    // SAFETY: under the cache's lock; the rest is the caller's promise.
    unsafe {
        lock::with(&raw mut (*cache).slabs.lock, || {
            for at in 0..count {
                let address = (*from.add(at)).addr();
                let given = find(cache, address).and_then(|place| give_chunk(cache, place));
                if let (Err(stray), Ok(())) = (given, wrong) {
                    wrong = Err((address, stray));
                }
            }
        });
    }
    wrong
}

/// Finds a buffer of a cache. The owner of the buffer may call it without the lock.
///
/// # Errors
/// The address is not a buffer of that cache.
pub(super) unsafe fn find(cache: *mut Cache, address: usize) -> Result<Place, Stray> {
    let span = map::find(address);
    // SAFETY: null, or a live record; a slab with an allocated buffer is not freed.
    unsafe {
        // A slab without a cache is just being made or destroyed.
        if span.is_null() || (*span).kind != kind::SLAB || (*span).cache.is_null() {
            return Err(Stray::Foreign);
        }
        if (*span).cache != cache {
            return Err(Stray::Other((*span).cache));
        }
        match chunk_at(cache, span, address) {
            Some((chunk, 0)) => Ok(Place { span, chunk }),
            _ => Err(Stray::Foreign),
        }
    }
}

/// The chunk of a slab that contains an address, and the offset in it.
///
/// # Safety
/// The span is a slab of that cache, and both are alive.
pub(super) unsafe fn chunk_at(cache: *mut Cache, span: *mut Span, address: usize) -> Option<(usize, usize)> {
    // SAFETY: by the caller's promise; both are only read.
    unsafe {
        let from = address.checked_sub((*span).base.addr() + (*span).first as usize)?;
        let chunk = from / (*cache).chunk;
        (chunk < (*cache).chunks as usize).then_some((chunk, from % (*cache).chunk))
    }
}

unsafe fn buffer(cache: *mut Cache, span: *mut Span, chunk: usize) -> *mut u8 {
    // SAFETY: within the slab, which was made for that number of chunks.
    unsafe { (*span).base.add((*span).first as usize + chunk * (*cache).chunk) }
}

/// The record of a chunk; null if the cache keeps no records.
pub(super) unsafe fn bufctl(cache: *mut Cache, place: Place) -> *mut Bufctl {
    // SAFETY: the array has a record for each chunk of the slab.
    unsafe {
        if (*place.span).bufctls.is_null() {
            return ptr::null_mut();
        }
        (*place.span).bufctls.add(place.chunk * (*cache).bufctl).cast()
    }
}

/// Takes a free chunk of a slab that has one. With checks, the search continues where it ended: a freed chunk is reused as late as possible, and a
/// slab is filled from one end to the other.
unsafe fn take_chunk(cache: *mut Cache, span: *mut Span) -> usize {
    // SAFETY: under the lock.
    unsafe {
        let words = ((*cache).chunks as usize).div_ceil(64);
        let hint = (*span).hint as usize;
        let here = (*span).free[hint / 64 % words] & (u64::MAX << (hint % 64));
        let (word, bits) = if here != 0 {
            (hint / 64 % words, here)
        } else {
            let after = (1..=words).map(|step| (hint / 64 + step) % words);
            let found = after.map(|word| (word, (*span).free[word])).find(|(_, bits)| *bits != 0);
            found.unwrap_or((0, 1))
        };
        let chunk = word * 64 + bits.trailing_zeros() as usize;
        (*span).free[word] &= !(1 << (chunk % 64));
        (*span).taken += 1;
        // Caches with checks reuse a buffer as late as possible; others prefer recently used ones.
        (*span).hint =
            if (*cache).tag == 0 { word as u32 * 64 } else { (chunk as u32 + 1) % (*cache).chunks };
        chunk
    }
}

unsafe fn give_chunk(cache: *mut Cache, place: Place) -> Result<(), Stray> {
    let Place { span, chunk } = place;
    // SAFETY: under the lock.
    unsafe {
        let (word, bit) = (chunk / 64, 1 << (chunk % 64));
        if (*span).free[word] & bit != 0 {
            return Err(Stray::Twice);
        }
        (*span).free[word] |= bit;
        let slabs = &raw mut (*cache).slabs;
        if (*span).taken == (*cache).chunks {
            unlink(&raw mut (*slabs).full, span);
            link(&raw mut (*slabs).partial, span);
        }
        (*span).taken -= 1;
        (*slabs).taken -= 1;
        if (*cache).tag == 0 {
            (*span).hint = (*span).hint.min(word as u32 * 64);
        }
        // The last slab with free chunks stays, so that alternating frees and allocations do not create slabs.
        let alone = (*slabs).partial == span && (*span).next.is_null();
        if (*span).taken == 0 && !alone {
            unlink(&raw mut (*slabs).partial, span);
            destroy(cache, span);
        }
        Ok(())
    }
}

/// Whether a cache has slabs.
///
/// # Safety
/// The cache is alive.
pub(super) unsafe fn is_used(cache: *mut Cache) -> bool {
    // SAFETY: by the caller's promise. The count is under another lock; an old or new value will do.
    unsafe { AtomicU64::from_ptr(&raw mut (*cache).slabs.count) }.load(Ordering::Relaxed) > 0
}

/// Frees slabs without allocated chunks.
pub(super) unsafe fn reap(cache: *mut Cache) {
    // SAFETY: under the cache's lock.
    unsafe {
        lock::with(&raw mut (*cache).slabs.lock, || {
            let mut span = (*cache).slabs.partial;
            while !span.is_null() {
                let next = (*span).next;
                if (*span).taken == 0 {
                    unlink(&raw mut (*cache).slabs.partial, span);
                    destroy(cache, span);
                }
                span = next;
            }
        });
    }
}

/// Makes a slab, and inserts it at the head of the list with free chunks. Null: out of memory.
unsafe fn make(cache: *mut Cache) -> *mut Span {
    // SAFETY: under the lock; the span is this function's.
    unsafe {
        let count = (*cache).chunks as usize;
        let mut records = ptr::null_mut();
        if (*cache).bufctl > 0 {
            records = meta::alloc((*cache).bufctl * count);
            if records.is_null() {
                return ptr::null_mut();
            }
        }
        let span = pages::alloc((*cache).slab, (*cache).align, kind::SLAB);
        if span.is_null() {
            if !records.is_null() {
                meta::free(records, (*cache).bufctl * count);
            }
            return span;
        }
        (*span).bufctls = records;
        (*span).taken = 0;
        (*span).hint = 0;
        (*span).first = first(cache);
        (*span).free = [0; CHUNKS / 64];
        for (word, bits) in (*span).free.iter_mut().enumerate() {
            *bits = match count.saturating_sub(word * 64) {
                0 => 0,
                some @ 1..64 => (1 << some) - 1,
                _ => u64::MAX,
            };
        }
        (*span).size = 0;
        if (*cache).flags & flags::FIREWALL != 0 {
            (*span).size = walls::raise((*span).base, (*span).bytes).unwrap_or(0);
        }
        for chunk in 0..if (*cache).tag == 0 { 0 } else { count } {
            let place = Place { span, chunk };
            tags::new(cache, buffer(cache, span, chunk), bufctl(cache, place), span);
        }
        // For `mend`: after the next line it belongs to the cache, and is complete.
        fence(Ordering::Release);
        (*span).cache = cache;
        link(&raw mut (*cache).slabs.partial, span);
        let slabs = &raw mut (*cache).slabs;
        (*slabs).count += 1;
        (*slabs).created += 1;
        (*slabs).buffers += count as u64;
        (*slabs).most = (*slabs).most.max((*slabs).buffers);
        log::event(logs::SLAB, cache, span);
        span
    }
}

/// For the child of a fork during which another thread held the lock of a cache's slabs: finds the slabs in the page map, and free chunks by their
/// bits.
///
/// # Safety
/// This is the only thread, and it does not hold that lock.
pub(super) unsafe fn mend(cache: *mut Cache) {
    // SAFETY: by the caller's promise; entries of the map are span records.
    unsafe {
        let slabs = &raw mut (*cache).slabs;
        ((*slabs).partial, (*slabs).full) = (ptr::null_mut(), ptr::null_mut());
        ((*slabs).count, (*slabs).buffers, (*slabs).taken) = (0, 0, 0);
        map::each(|page, span| {
            if (*span).kind != kind::SLAB || (*span).cache != cache || (*span).base.addr() != page {
                return;
            }
            let free: u32 = (*span).free.iter().map(|bits| bits.count_ones()).sum();
            (*span).taken = (*cache).chunks - free;
            let list = if free == 0 { &raw mut (*slabs).full } else { &raw mut (*slabs).partial };
            link(list, span);
            (*slabs).count += 1;
            (*slabs).buffers += u64::from((*cache).chunks);
            (*slabs).taken += u64::from((*span).taken);
        });
        (*slabs).most = (*slabs).most.max((*slabs).buffers);
    }
}

/// The offset of a slab's first buffer (slab colouring): one step of the alignment more than in the previous slab, as long as there is room. So
/// buffers of different slabs do not compete for the same cache lines.
unsafe fn first(cache: *mut Cache) -> u32 {
    // SAFETY: under the lock.
    unsafe {
        let (shift, align) = ((*cache).shift, (*cache).align);
        let page = crate::stacks::page_size();
        if (*cache).flags & flags::FIREWALL != 0 {
            // Buffers without tags are placed by their requested size. Others end at the wall, up to their alignment.
            let before = if shift == 0 || (*cache).tag == 0 { 0 } else { align - shift };
            return ((*cache).slab - page - before - (*cache).chunk) as u32;
        }
        let unused = (*cache).slab - (*cache).chunk * (*cache).chunks as usize - shift;
        let colour = (*cache).slabs.colour as usize;
        let next = colour + align;
        (*cache).slabs.colour = if next <= unused.min(PAGE - 1) { next as u32 } else { 0 };
        (shift + colour) as u32
    }
}

/// Frees a slab that is in no list.
unsafe fn destroy(cache: *mut Cache, span: *mut Span) {
    // SAFETY: under the lock; no chunk of it is allocated.
    unsafe {
        let slabs = &raw mut (*cache).slabs;
        (*slabs).count -= 1;
        (*slabs).destroyed += 1;
        (*slabs).buffers -= u64::from((*cache).chunks);
        // For `mend`: before the slab loses data that `mend` needs.
        (*span).cache = ptr::null_mut();
        fence(Ordering::Release);
        if !(*span).bufctls.is_null() {
            meta::free((*span).bufctls, (*cache).bufctl * (*cache).chunks as usize);
            (*span).bufctls = ptr::null_mut();
        }
        // If the wall cannot be removed, its span is leaked: address space only.
        let rest = std::mem::take(&mut (*span).size);
        if rest == 0 || walls::tear_down((*span).base, (*span).bytes, rest) {
            pages::free(span);
        }
    }
}
