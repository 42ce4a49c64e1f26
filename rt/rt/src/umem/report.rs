//! What is wrong, in words; and what happens then.

use super::settings::words;
use super::slab::{self, Stray};
use super::{messages, settings, trace};
use libc::c_int;
use millpond_rt_layout::{Bufctl, Cache, NAME};
use std::ffi::CStr;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Frames of a stack that is said.
const STACK: usize = 24;

/// What a buffer was found to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Damage {
    /// Use after free: the offset, what is there, and what ought to be.
    Modified { offset: usize, found: u64, expected: u64 },
    /// Buffer overflow.
    Redzone,
    /// Double free.
    Twice,
    /// Its tag is not one: `bufctl ^ bxstat`, and what that should be.
    Tag { found: usize, expected: usize },
    /// Its record is another one's.
    Record,
    /// It is freed with another size than it was allocated with.
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
    // SAFETY: caches are alive while they are spoken of, and names do not change.
    let name: &[u8; NAME] = unsafe {
        let name: *const [u8; NAME] = &raw const (*cache).name;
        &*name
    };
    CStr::from_bytes_until_nul(name).ok().and_then(|name| name.to_str().ok()).unwrap_or("?")
}

/// Says what a buffer is, and what happened to it before, and ends the program unless it was asked not to.
#[cold]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub(super) fn damaged(cache: *const Cache, buffer: usize, record: *const Bufctl, damage: Damage) {
    messages::say(format_args!("umem allocator: {damage}\n"));
    tell(&Known { cache, buffer, record });
    corrupted();
}

/// A buffer of a cache, and its record, if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    pub(super) cache: *const Cache,
    pub(super) buffer: usize,
    pub(super) record: *const Bufctl,
}

/// Where a buffer is from, and what happened to it before.
fn tell(&Known { cache, buffer, record }: &Known) {
    messages::say(format_args!("buffer={buffer:x}  bufctl={:x}  cache: {}\n", record.addr(), name(cache)));
    // SAFETY: null, or a record of the cache's.
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

/// An address that cannot be given back to a cache.
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

/// What another cache knows of a buffer of its own, or null.
fn record_of(address: usize, stray: Stray) -> *const Bufctl {
    let Stray::Other(other) = stray else { return std::ptr::null() };
    // SAFETY: the cache of a slab is alive, and its records stay as long as a thread has a buffer of the slab.
    unsafe { slab::find(other, address).map_or(std::ptr::null(), |place| slab::bufctl(other, place)) }
}

/// Something was written behind the end of a large buffer.
#[cold]
#[cfg_attr(not(miri), unsafe(link_section = "millpond_umem"))]
pub(super) fn overrun(address: usize) {
    messages::say(format_args!("umem allocator: {}\nbuffer={address:x}  large\n", Damage::Redzone));
    corrupted();
}

/// A large buffer is freed with another size, or from another address, than it was allocated.
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

/// What is given to `free` is no buffer of malloc, or is one no more.
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

/// A cache was destroyed that has buffers out.
#[cold]
pub(super) fn not_empty(cache: *const Cache) {
    messages::say(format_args!("umem_cache_destroy: '{}' ({:x}) not empty\n", name(cache), cache.addr()));
}

/// What a callback without memory answers with: this and a status in the lower eight bits, and the program ends with that.
const EXIT: c_int = 0x100;

/// The callback for a request that must not fail, when there is no memory. It may leave by `longjmp`, `pthread_exit` or a C++ exception: what it
/// unwinds has nothing to drop.
pub(super) type Callback = unsafe extern "C-unwind" fn() -> c_int;

static CALLBACK: AtomicUsize = AtomicUsize::new(0);

pub(super) fn set_callback(callback: Option<Callback>) {
    CALLBACK.store(callback.map_or(0, |callback| callback as usize), Ordering::Release);
}

/// There is no memory: whether to try again. It does not return when the program is to end.
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
        // SAFETY: what was set is a function of that kind.
        let callback = unsafe {
            std::mem::transmute::<*const (), Callback>(std::ptr::with_exposed_provenance(callback))
        };
        // SAFETY: the program promises that it may be called when there is no memory.
        status = unsafe { callback() };
        if status == 0 {
            asking::end();
            return true;
        }
    }
    // What runs at the end of the program may ask again: that is recursion, too.
    // SAFETY: it ends the program, with what it registered for that.
    unsafe { libc::exit(if status & !0xff == EXIT { status & 0xff } else { 255 }) }
}

/// Whether the callback asks for what it is asked about.
///
/// One that is called within itself is further down the stack each time. One that left without returning is not: the next request is anywhere. A few steps
/// down are therefore allowed, for the callback may have left by `longjmp`, and its thread may ask again from further down.
mod asking {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Steps that are allowed.
    const STEPS: usize = 8;

    /// The thread that asks; 0: none. When several do it is the latest, and recursion of another one is seen a call later.
    static THREAD: AtomicUsize = AtomicUsize::new(0);
    /// Where on its stack.
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    /// How often it went further down.
    static DEPTH: AtomicUsize = AtomicUsize::new(0);

    /// The calling thread asks.
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
