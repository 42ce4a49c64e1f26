//! Caches: allocation and release through magazines and slabs, creation and destruction.

use super::buffer::{self, Lack};
use super::settings::words;
use super::{depot, errno, log, meta, report, root, settings, slab, thread, update, visit};
use libc::{c_int, c_void};
use millpond_rt_layout::{Bufctl, Buftag, CHUNKS, Cache, NAME, NO_PAIR, Span, flags, logs};
use std::ffi::CStr;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// More than the size of any address space.
const SIZE_MAX: usize = usize::MAX / 16;

/// The properties of a new cache.
#[derive(Debug, Clone, Copy)]
pub struct RawCachePlan<'a> {
    /// Name for tools; the first 31 bytes are kept.
    pub name: &'a CStr,
    /// Size of a buffer in bytes.
    pub size: usize,
    /// Alignment in bytes, a power of two up to a page. 0: 16, or 8 for sizes up to 8.
    pub align: usize,
    /// Constructs an object when its buffer enters the cache. Arguments: buffer, `private`, 0. A result other than 0: it failed.
    pub constructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int>,
    /// Destroys an object when its buffer leaves the cache. Arguments: buffer, `private`.
    pub destructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// Called when memory is short, with `private`.
    pub reclaim: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Argument of the callbacks.
    pub private: *mut c_void,
    /// `UMC_NOTOUCH` 0x10000, `UMC_NODEBUG` 0x20000, `UMC_NOMAGAZINE` 0x40000, `UMC_NOHASH` 0x80000.
    pub cflags: u32,
}

impl RawCachePlan<'_> {
    /// Checks the plan. Returns the alignment, or an errno.
    pub(super) fn check(&self) -> Result<usize, c_int> {
        let cannot = self.size == 0
            || (self.align != 0 && !self.align.is_power_of_two())
            || self.align > crate::stacks::page_size()
            || self.cflags & (words::NOTOUCH | words::NOHASH) == words::NOTOUCH | words::NOHASH;
        if cannot {
            return Err(libc::EINVAL);
        }
        // Larger values could overflow the sums and products below.
        if self.size > SIZE_MAX {
            return Err(libc::ENOMEM);
        }
        Ok(match self.align {
            0 if self.size > 8 => 16,
            0 => 8,
            some => some.max(8),
        })
    }
}

/// Creates a cache and adds it to the list of all caches. The allocator must be ready.
///
/// # Errors
/// `EINVAL`, `ENOMEM` if the size is too large, `EAGAIN` if out of memory.
pub(super) fn create(plan: &RawCachePlan<'_>) -> Result<*mut Cache, c_int> {
    let cache: *mut Cache = meta::alloc(size_of::<Cache>()).cast();
    if cache.is_null() {
        return Err(libc::EAGAIN);
    }
    // SAFETY: zeroed memory of this function.
    let made = unsafe { init(cache, plan, 0) };
    if let Err(errno) = made {
        // SAFETY: as above; no other code has it.
        unsafe { meta::free(cache.cast(), size_of::<Cache>()) };
        return Err(errno);
    }
    Ok(cache)
}

/// Initialises a zeroed cache from a plan, and adds it to the list. Buffers begin at `shift`, modulo the alignment.
///
/// # Safety
/// Only the caller uses the cache, and its address is fixed.
///
/// # Errors
/// As [`create`].
pub(super) unsafe fn init(cache: *mut Cache, plan: &RawCachePlan<'_>, shift: usize) -> Result<(), c_int> {
    let align = plan.check()?;
    // SAFETY: by the caller's promise.
    unsafe {
        for (to, from) in (&mut (*cache).name)[..NAME - 1].iter_mut().zip(plan.name.to_bytes()) {
            *to = *from;
        }
        (*cache).size = plan.size;
        (*cache).shift = shift;
        (*cache).cflags = plan.cflags;
        (*cache).constructor = plan.constructor;
        (*cache).destructor = plan.destructor;
        (*cache).reclaim = plan.reclaim;
        if plan.reclaim.is_some() {
            update::expect_reclaim();
        }
        (*cache).private = plan.private;
        (*cache).flags = settings::flags_of(plan.size, align, plan.cflags);
        let bits = (*cache).flags;
        let rounded = plan.size.next_multiple_of(8);
        let tagged = bits & flags::BUFTAG != 0;
        if tagged {
            (*cache).tag = rounded;
            (*cache).verify = plan.size.min(settings::get().verify) / 8 * 8;
            let frames = if bits & flags::AUDIT == 0 { 0 } else { settings::get().frames as usize };
            (*cache).bufctl = size_of::<Bufctl>() + frames * size_of::<usize>();
        }
        let whole = rounded + if tagged { size_of::<Buftag>() } else { 0 };
        (*cache).align = align;
        (*cache).chunk = whole.next_multiple_of(align);
        if bits & flags::FIREWALL == 0 {
            let (slab, chunks) = shape((*cache).chunk, shift);
            (*cache).slab = slab;
            (*cache).chunks = chunks;
        } else {
            let page = crate::stacks::page_size();
            (*cache).slab = ((*cache).chunk + shift).next_multiple_of(page) + page;
            (*cache).chunks = 1;
        }
        depot::begin(cache);
        (*cache).index = if bits & flags::NOMAGAZINE == 0 { thread::enter(cache) } else { NO_PAIR };
        if (*cache).index == NO_PAIR {
            (*cache).flags |= flags::NOMAGAZINE;
        }
        let _held = root::LISTS.hold();
        append(cache);
    }
    Ok(())
}

/// For the child of a fork during which another thread changed the list: rebuilds the backward links from the forward links.
///
/// # Safety
/// This is the only thread, and it does not hold the list.
pub(super) unsafe fn mend_list() {
    let mut previous: *mut Cache = ptr::null_mut();
    let mut cache = root::caches().load(Ordering::Acquire);
    while !cache.is_null() {
        // SAFETY: the forward links are valid at every instruction; see `append` and `destroy`.
        unsafe {
            (*cache).previous = previous;
            previous = cache;
            cache = (*cache).next;
        }
    }
}

/// Appends to the list. The caller holds its lock.
unsafe fn append(cache: *mut Cache) {
    // SAFETY: caches of the list are alive.
    unsafe {
        let first = root::caches();
        let mut last = first.load(Ordering::Relaxed);
        if last.is_null() {
            return first.store(cache, Ordering::Release);
        }
        while !(*last).next.is_null() {
            last = (*last).next;
        }
        (*cache).previous = last;
        // For `mend_list`: the cache is complete before another one links to it.
        fence(Ordering::Release);
        (*last).next = cache;
    }
}

/// Maximum size of a slab with several chunks, in bytes.
const LONGEST: usize = 1 << 20;

/// Size of a slab and its number of chunks. Of all sizes up to a limit, the one with the smallest share of unused bytes and bookkeeping is taken. The
/// limit is 32 KiB for chunks below 512 bytes, else 64 KiB or four chunks, whichever is more.
fn shape(chunk: usize, shift: usize) -> (usize, u32) {
    let page = crate::stacks::page_size();
    let longest = if chunk < 512 { 32 << 10 } else { chunk.saturating_mul(4).max(64 << 10) };
    let longest = longest.next_multiple_of(page).min(LONGEST);
    let least = (chunk + shift).next_multiple_of(page);
    if least > LONGEST {
        return (least, 1);
    }
    let chunks_of = |slab: usize| ((slab - shift) / chunk).min(CHUNKS);
    let lost = |slab: usize| slab - chunks_of(slab) * chunk + size_of::<Span>();
    let mut best = least;
    for slab in (least..=longest.max(least)).step_by(page) {
        // Compares the losses per byte of the slab.
        if lost(slab) * best < lost(best) * slab {
            best = slab;
        }
    }
    (best, chunks_of(best) as u32)
}

/// Destroys a cache. If it has allocated buffers, this is reported and the cache is leaked.
///
/// # Safety
/// It was made by [`create`], and no thread uses it any more.
pub(super) unsafe fn destroy(cache: *mut Cache) {
    // SAFETY: by the caller's promise.
    unsafe {
        visit::when_alone(cache, || {
            let (next, previous) = ((*cache).next, (*cache).previous);
            if !next.is_null() {
                (*next).previous = previous;
            }
            if previous.is_null() {
                root::caches().store(next, Ordering::Release);
            } else {
                (*previous).next = next;
            }
            thread::begin_leaving(cache);
        });
        thread::leave(cache);
        depot::clear(cache);
        slab::reap(cache);
        if (*cache).slabs.taken > 0 {
            return report::not_empty(cache);
        }
        meta::free(cache.cast(), size_of::<Cache>());
    }
}

/// Allocates a buffer, constructed if the cache has a constructor. Null: out of memory.
///
/// # Safety
/// The cache is alive.
#[inline(always)]
pub(super) unsafe fn alloc(cache: *mut Cache, how: c_int) -> *mut u8 {
    let block = thread::current();
    if !block.is_null() {
        // SAFETY: the pair is this thread's; the places from its base to its top are filled.
        unsafe {
            let pair = thread::pair(block, cache);
            let top = (*pair).top;
            if top > (*pair).base {
                let round = top.sub(1);
                (*pair).allocs += 1;
                (*pair).top = round;
                return round.read();
            }
        }
    }
    // SAFETY: by the caller's promise. `black_box` prevents a tail call, which would remove the public function's frame from stack traces.
    black_box(unsafe { alloc_slowly(cache, how) })
}

/// Returns a buffer.
///
/// # Safety
/// The cache is alive, and the buffer is unused. Invalid addresses are reported, and so are errors that the checks of the cache find.
#[inline(always)]
pub(super) unsafe fn free(cache: *mut Cache, buffer: *mut u8) {
    let block = thread::current();
    if !block.is_null() {
        // SAFETY: the pair is this thread's; the places from its top to its limit are writable.
        unsafe {
            let pair = thread::pair(block, cache);
            let top = (*pair).top;
            if top < (*pair).limit {
                top.write(buffer);
                // The child of a fork must not find the place counted before it is written.
                std::sync::atomic::compiler_fence(Ordering::Release);
                (*pair).top = top.add(1);
                return;
            }
        }
    }
    // SAFETY: by the caller's promise.
    unsafe { free_slowly(cache, buffer) }
}

#[cold]
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn alloc_slowly(cache: *mut Cache, how: c_int) -> *mut u8 {
    // SAFETY: by the caller's promise.
    unsafe {
        loop {
            // Injected failures are not retried, so that the failure rate is as configured.
            if !settings::shall_fail() || (*cache).cflags & words::NODEBUG != 0 {
                let mut got = try_alloc(cache);
                if let Err(Lack::Memory) = got {
                    update::ask_for_memory();
                    // Reaping may have freed memory: try again.
                    got = try_alloc(cache);
                }
                if let Ok(buffer) = got {
                    return buffer;
                }
            }
            AtomicU64::from_ptr(&raw mut (*cache).failures).fetch_add(1, Ordering::Relaxed);
            log::event(logs::FAIL, cache, ptr::null_mut());
            if !report::shall_retry(how) {
                errno::set(libc::ENOMEM);
                return ptr::null_mut();
            }
        }
    }
}

#[inline(always)]
unsafe fn try_alloc(cache: *mut Cache) -> Result<*mut u8, Lack> {
    // SAFETY: by the caller's promise; pairs are the calling thread's.
    unsafe {
        if (*cache).index == NO_PAIR {
            return buffer::alloc(cache);
        }
        let block = thread::current_or_new();
        if block.is_null() {
            return buffer::alloc(cache);
        }
        let pair = thread::pair(block, cache);
        let filled = thread::exchange(block, || {
            if depot::load_full(cache, pair, depot::own(block)) {
                return true;
            }
            // Fill the magazine from the slab, for the next allocations. Objects are constructed one by one, because only one was requested.
            if (*cache).constructor.is_some() || !depot::load_empty(cache, pair, depot::own(block)) {
                return false;
            }
            let room = (*pair).limit.offset_from((*pair).base) as usize;
            let some = (4096 / (*cache).chunk).clamp(1, room);
            let taken = slab::take(cache, (*pair).base, some);
            // Consecutive allocations get ascending addresses.
            std::slice::from_raw_parts_mut((*pair).base, taken).reverse();
            (*pair).top = (*pair).base.add(taken);
            taken > 0
        });
        depot::look(cache, depot::own(block));
        update::look();
        if !filled {
            return buffer::alloc(cache);
        }
        let round = (*pair).top.sub(1);
        (*pair).allocs += 1;
        (*pair).top = round;
        Ok(round.read())
    }
}

#[cold]
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn free_slowly(cache: *mut Cache, buffer: *mut u8) {
    let _errno = errno::keep();
    // SAFETY: by the caller's promise; pairs are the calling thread's.
    unsafe {
        if (*cache).tag > 0 {
            return buffer::free_checked(cache, buffer);
        }
        if (*cache).index != NO_PAIR {
            let block = thread::current_or_new();
            if !block.is_null() {
                let pair = thread::pair(block, cache);
                if thread::exchange(block, || depot::load_empty(cache, pair, depot::own(block))) {
                    let top = (*pair).top;
                    top.write(buffer);
                    std::sync::atomic::compiler_fence(Ordering::Release);
                    (*pair).top = top.add(1);
                    depot::look(cache, depot::own(block));
                    return update::look();
                }
            }
        }
        buffer::free(cache, &raw const buffer, 1);
    }
}
