//! Caches: how a request is served from a magazine or a slab, or fails.

use super::buffer::{self, Lack};
use super::settings::words;
use super::{depot, errno, log, meta, report, root, settings, slab, thread, update, visit};
use libc::{c_int, c_void};
use millpond_rt_layout::{Bufctl, Buftag, CHUNKS, Cache, NAME, NO_PAIR, Span, flags, logs};
use std::ffi::CStr;
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// More than any address space has.
const SIZE_MAX: usize = usize::MAX / 16;

/// What a cache is made of.
#[derive(Debug, Clone, Copy)]
pub struct RawCachePlan<'a> {
    /// Its name, for tools; the first 31 bytes are kept.
    pub name: &'a CStr,
    /// Bytes of a buffer.
    pub size: usize,
    /// A power of two up to a page, in bytes; 0: 8, or 16 from sixteen bytes on.
    pub align: usize,
    /// Makes an object of a buffer when it enters the cache: buffer, `private`, 0. Not 0: it cannot.
    pub constructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int>,
    /// Ends an object when it leaves the cache: buffer, `private`.
    pub destructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// Is told that memory is short: `private`.
    pub reclaim: Option<unsafe extern "C" fn(*mut c_void)>,
    /// What those are given.
    pub private: *mut c_void,
    /// `UMC_NOTOUCH` 0x10000, `UMC_NODEBUG` 0x20000, `UMC_NOMAGAZINE` 0x40000, `UMC_NOHASH` 0x80000.
    pub cflags: u32,
}

impl RawCachePlan<'_> {
    /// The errno of what cannot be.
    pub(super) fn check(&self) -> Result<usize, c_int> {
        let cannot = self.size == 0
            || (self.align != 0 && !self.align.is_power_of_two())
            || self.align > crate::stacks::page_size()
            || self.cflags & (words::NOTOUCH | words::NOHASH) == words::NOTOUCH | words::NOHASH;
        if cannot {
            return Err(libc::EINVAL);
        }
        // Whatever is added to it and however it is compared, no sum and no product below is too large.
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

/// A cache, in the list of all. The allocator is ready.
///
/// # Errors
/// `EINVAL`, `ENOMEM` when the size is too large, `EAGAIN` when there is no memory.
pub(super) fn create(plan: &RawCachePlan<'_>) -> Result<*mut Cache, c_int> {
    let cache: *mut Cache = meta::alloc(size_of::<Cache>()).cast();
    if cache.is_null() {
        return Err(libc::EAGAIN);
    }
    // SAFETY: memory of zeros, which is ours.
    let made = unsafe { init(cache, plan, 0) };
    if let Err(errno) = made {
        // SAFETY: as above; no other code knows it.
        unsafe { meta::free(cache.cast(), size_of::<Cache>()) };
        return Err(errno);
    }
    Ok(cache)
}

/// Makes a cache of zeros one of a plan, and enters it. Buffers begin at `shift`, modulo the alignment.
///
/// # Safety
/// It is the caller's alone, and stays where it is.
///
/// # Errors
/// As [`create`].
pub(super) unsafe fn init(cache: *mut Cache, plan: &RawCachePlan<'_>, shift: usize) -> Result<(), c_int> {
    let align = plan.check()?;
    // SAFETY: our caller's.
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

/// In the child of a fork that came while another thread changed the list: ways back are made anew from ways forth.
///
/// # Safety
/// This is the only thread, and it does not hold the list.
pub(super) unsafe fn mend_list() {
    let mut previous: *mut Cache = ptr::null_mut();
    let mut cache = root::caches().load(Ordering::Acquire);
    while !cache.is_null() {
        // SAFETY: a cache leads to the next one at any moment; see `append` and `destroy`.
        unsafe {
            (*cache).previous = previous;
            previous = cache;
            cache = (*cache).next;
        }
    }
}

/// Behind all others. For holders of the list.
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
        // For `mend_list`: it is whole before others lead to it.
        fence(Ordering::Release);
        (*last).next = cache;
    }
}

/// No slab of several chunks is longer, in bytes.
const LONGEST: usize = 1 << 20;

/// How long a slab is, and how many chunks it has: the length of which the least is unused or taken by its record, of those up to 32 KiB,
/// to 64 KiB for chunks of 512 bytes and more, or to four chunks.
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
        // For each byte of the slab.
        if lost(slab) * best < lost(best) * slab {
            best = slab;
        }
    }
    (best, chunks_of(best) as u32)
}

/// The cache goes. One that has buffers out is said and stays where it is, out of reach.
///
/// # Safety
/// It is of [`create`], and no thread uses it any more.
pub(super) unsafe fn destroy(cache: *mut Cache) {
    // SAFETY: our caller promises it.
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

/// A buffer of a cache, constructed where it has a constructor; or null.
///
/// # Safety
/// The cache is alive.
#[inline(always)]
pub(super) unsafe fn alloc(cache: *mut Cache, how: c_int) -> *mut u8 {
    let block = thread::current();
    if !block.is_null() {
        // SAFETY: the pair is this thread's; between its base and its top are rounds.
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
    // SAFETY: our caller's promise. Something is done with the answer, lest the function of the program's name be left by a jump: it is in the stacks of reports.
    black_box(unsafe { alloc_slowly(cache, how) })
}

/// Gives a buffer back.
///
/// # Safety
/// The cache is alive, and the buffer is unused. A cache that checks reports what is wrong, and so are addresses that are none.
#[inline(always)]
pub(super) unsafe fn free(cache: *mut Cache, buffer: *mut u8) {
    let block = thread::current();
    if !block.is_null() {
        // SAFETY: the pair is this thread's; between its top and its limit are places.
        unsafe {
            let pair = thread::pair(block, cache);
            let top = (*pair).top;
            if top < (*pair).limit {
                top.write(buffer);
                // A fork must not find the place taken before it is written to.
                std::sync::atomic::compiler_fence(Ordering::Release);
                (*pair).top = top.add(1);
                return;
            }
        }
    }
    // SAFETY: our caller's promise.
    unsafe { free_slowly(cache, buffer) }
}

#[cold]
#[inline(never)]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
unsafe fn alloc_slowly(cache: *mut Cache, how: c_int) -> *mut u8 {
    // SAFETY: our caller's promise.
    unsafe {
        loop {
            // One that shall fail does, and is not tried again: else fewer would than were asked for.
            if !settings::shall_fail() || (*cache).cflags & words::NODEBUG != 0 {
                let mut got = try_alloc(cache);
                if let Err(Lack::Memory) = got {
                    update::ask_for_memory();
                    // Once more: others gave back what they had.
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
    // SAFETY: our caller's promise; pairs are the calling thread's.
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
            // Several at once: the next ones are then as quick as they will ever be. Objects are made one by one, for only one was asked for.
            if (*cache).constructor.is_some() || !depot::load_empty(cache, pair, depot::own(block)) {
                return false;
            }
            let room = (*pair).limit.offset_from((*pair).base) as usize;
            let some = (4096 / (*cache).chunk).clamp(1, room);
            let taken = slab::take(cache, (*pair).base, some);
            // What is allocated one after the other shall lie so, too.
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
    // SAFETY: our caller's promise; pairs are the calling thread's.
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
