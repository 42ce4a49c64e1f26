//! Reports of errors, and the end of the program.

use super::settings::words;
use super::slab::{self, Stray};
use super::{messages, settings, trace};
use libc::c_int;
use millpond_rt_layout::{Bufctl, Cache, NAME};
use std::ffi::CStr;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum frames of a reported stack.
const STACK: usize = 24;

/// An error that was found in a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Damage {
    /// Use after free: the offset, the value found, and the expected one.
    Modified { offset: usize, found: u64, expected: u64 },
    /// Buffer overflow.
    Redzone,
    /// Double free.
    Twice,
    /// An invalid tag: `bufctl ^ bxstat`, and the expected value.
    Tag { found: usize, expected: usize },
    /// The tag refers to the record of another buffer.
    Record,
    /// The size of the free differs from that of the allocation.
    Size { freed: usize, allocated: usize },
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Damage::Modified { offset, found, expected } => write!(
                out,
                "buffer modified after being freed\nmodification occurred at offset {offset:#x} ({expected:#x} replaced by {found:#x})"
            ),
            Damage::Redzone => write!(out, "redzone violation: write past end of buffer"),
            Damage::Twice => write!(out, "duplicate free: buffer freed twice"),
            Damage::Tag { found, expected } => {
                write!(out, "boundary tag corrupted\nbcp ^ bxstat = {found:x}, should be {expected:x}")
            }
            Damage::Record => write!(out, "bufctl corrupted"),
            Damage::Size { freed, allocated } => {
                write!(out, "bad free: free size ({freed}) != alloc size ({allocated})")
            }
        }
    }
}

pub(super) fn name(cache: *const Cache) -> &'static str {
    // SAFETY: a cache is alive while it is reported, and names do not change.
    let name: &[u8; NAME] = unsafe {
        let name: *const [u8; NAME] = &raw const (*cache).name;
        &*name
    };
    CStr::from_bytes_until_nul(name).ok().and_then(|name| name.to_str().ok()).unwrap_or("?")
}

/// Reports an error in a buffer and its previous transaction, and ends the program unless configured not to.
#[cold]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub(super) fn damaged(cache: *const Cache, buffer: usize, record: *const Bufctl, damage: Damage) {
    messages::say(format_args!("umem allocator: {damage}\n"));
    tell(&Known { cache, buffer, record });
    corrupted();
}

/// A buffer of a cache, and its record or null.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) cache: *const Cache,
    pub(super) buffer: usize,
    pub(super) record: *const Bufctl,
}

/// Reports the origin of a buffer and its previous transaction.
fn tell(&Known { cache, buffer, record }: &Known) {
    messages::say(format_args!("buffer={buffer:x}  bufctl={:x}  cache: {}\n", record.addr(), name(cache)));
    // SAFETY: null, or a record of the cache.
    if let Some(known) = unsafe { record.as_ref() }.filter(|known| known.time > 0) {
        let ago = messages::now().cast_unsigned().saturating_sub(known.time);
        messages::say(format_args!("previous transaction on buffer {buffer:x}:\n"));
        messages::say(format_args!(
            "thread={}  time=T-{}.{:09}  slab={:x}  cache: {}\n",
            known.thread,
            ago / 1_000_000_000,
            ago % 1_000_000_000,
            known.span.addr(),
            name(known.cache)
        ));
        messages::say_stack(trace::frames_of(record));
    }
}

/// Reports an address that cannot be freed to a cache.
#[cold]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub(super) fn stray(cache: *const Cache, address: usize, stray: Stray) {
    match stray {
        Stray::Foreign => messages::say(format_args!("umem allocator: invalid free: buffer not in cache\n")),
        Stray::Twice => messages::say(format_args!("umem allocator: {}\n", Damage::Twice)),
        Stray::Other(other) => messages::say(format_args!(
            "umem allocator: buffer freed to wrong cache\nbuffer was allocated from {},\ncaller attempting free to {}.\n",
            name(other),
            name(cache)
        )),
    }
    tell(&Known { cache, buffer: address, record: record_of(address, stray) });
    corrupted();
}

/// The record of a buffer in the cache that it belongs to, or null.
fn record_of(address: usize, stray: Stray) -> *const Bufctl {
    let Stray::Other(other) = stray else { return std::ptr::null() };
    // SAFETY: the cache of a slab is alive. Its records exist as long as a buffer of the slab is allocated.
    unsafe { slab::find(other, address).map_or(std::ptr::null(), |place| slab::bufctl(other, place)) }
}

/// Reports a buffer overflow of a large buffer.
#[cold]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub(super) fn overrun(address: usize) {
    messages::say(format_args!("umem allocator: {}\nbuffer={address:x}  large\n", Damage::Redzone));
    corrupted();
}

/// Reports a large buffer that is freed with another size or address than it was allocated.
#[cold]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub(super) fn bad_free(freed: (usize, usize), allocated: (usize, usize)) {
    if freed.0 == allocated.0 {
        let damage = Damage::Size { freed: freed.1, allocated: allocated.1 };
        messages::say(format_args!("umem allocator: {damage}\n"));
    } else {
        messages::say(format_args!(
            "umem allocator: bad free: free address ({:x}) != alloc address ({:x})\n",
            freed.0, allocated.0
        ));
    }
    corrupted();
}

/// Reports an argument of `free` that is not an allocated buffer.
#[cold]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub(super) fn bad_malloc_free(address: usize, what: &str, known: Option<Known>) {
    messages::say(format_args!("free({address:x}): {what}\n"));
    if let Some(known) = known.filter(|known| !known.record.is_null()) {
        tell(&known);
    }
    corrupted();
}

#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
fn corrupted() {
    messages::say(format_args!("umem: heap corruption detected\nstack trace:\n"));
    let mut here = trace::Here::new();
    here.capture(STACK);
    messages::say_stack(&here);
    if !settings::get().asked.debug.no_abort {
        messages::end();
    }
}

/// Reports the destruction of a cache with allocated buffers.
#[cold]
pub(super) fn not_empty(cache: *const Cache) {
    messages::say(format_args!("umem_cache_destroy: '{}' ({:x}) not empty\n", name(cache), cache.addr()));
}

/// Result of a callback, plus a status in the lower eight bits: end the program with that status.
const EXIT: c_int = 0x100;

/// The callback of a request that must not fail, when out of memory. It may leave by `longjmp`, `pthread_exit` or a C++ exception: the frames
/// that it unwinds have no destructors.
pub(super) type Callback = unsafe extern "C-unwind" fn() -> c_int;

static CALLBACK: AtomicUsize = AtomicUsize::new(0);

pub(super) fn set_callback(callback: Option<Callback>) {
    CALLBACK.store(callback.map_or(0, |callback| callback as usize), Ordering::Release);
}

/// Out of memory: whether to try again. It does not return if the program must end.
#[cold]
#[inline(never)]
pub(super) fn shall_retry(how: c_int) -> bool {
    if how & words::NOFAIL == 0 {
        return false;
    }
    if asking::is_recursion() {
        messages::say(format_args!("recursive UMEM_NOFAIL callback\n"));
        messages::end();
    }
    let mut status = EXIT | 255;
    let callback = CALLBACK.load(Ordering::Acquire);
    if callback != 0 {
        // SAFETY: a value of that type was stored.
        let callback = unsafe {
            std::mem::transmute::<*const (), Callback>(std::ptr::with_exposed_provenance(callback))
        };
        // SAFETY: the program promises that it may be called when out of memory.
        status = unsafe { callback() };
        if status == 0 {
            asking::end();
            return true;
        }
    }
    // Exit handlers may allocate again: that is recursion, too.
    // SAFETY: it ends the program, with its exit handlers.
    unsafe { libc::exit(if status & !0xff == EXIT { status & 0xff } else { 255 }) }
}

/// Detects a callback that makes the request for which it was called.
///
/// A callback that is called within itself is deeper in the stack each time. After one that left without returning, the next request can be at any
/// depth. So a few steps down are allowed: the callback may have left by `longjmp`, and its thread may request again from deeper in the stack.
mod asking {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Allowed steps down.
    const STEPS: usize = 8;

    /// The thread that made the latest request; 0: none. If several do, recursion of an earlier one is detected a call later.
    static THREAD: AtomicUsize = AtomicUsize::new(0);
    /// Its stack address.
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    /// Consecutive steps down.
    static DEPTH: AtomicUsize = AtomicUsize::new(0);

    /// Registers a request of the calling thread.
    #[inline(never)]
    pub(super) fn is_recursion() -> bool {
        let local = 0_u8;
        let here = std::hint::black_box(&raw const local).addr();
        let me = crate::locks::word::thread_number() as usize;
        let is_further = THREAD.swap(me, Ordering::Relaxed) == me && here < PLACE.load(Ordering::Relaxed);
        PLACE.store(here, Ordering::Relaxed);
        let depth = if is_further { DEPTH.load(Ordering::Relaxed) + 1 } else { 0 };
        DEPTH.store(depth, Ordering::Relaxed);
        depth > STEPS
    }

    /// The callback returned.
    pub(super) fn end() {
        THREAD.store(0, Ordering::Relaxed);
    }
}
