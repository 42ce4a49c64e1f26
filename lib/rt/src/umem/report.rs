//! What is wrong, in words; and what happens then.

use super::cache::words;
use super::slab::Stray;
use super::{audit, messages, settings};
use libc::c_int;
use millpond_rt_layout::{Bufctl, Cache, NAME};
use std::ffi::CStr;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Frames of a stack that is said.
const STACK: usize = 24;

/// What a buffer was found to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Damage {
    /// Somebody wrote to it after it was freed: where, what is there, and what ought to be.
    Modified { offset: usize, found: u64, expected: u64 },
    /// Somebody wrote past its end.
    Redzone,
    /// It was freed twice.
    Twice,
    /// Its tag is not one: `bufctl ^ bxstat`, and what that should be.
    Tag { found: usize, expected: usize },
    /// Its record is another one's.
    Record,
    /// It has another size than whoever frees it says.
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

/// The name of a cache.
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
        messages::say_stack(audit::frames_of(record));
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
    messages::say(format_args!("buffer={address:x}  bufctl=0  cache: {}\n", name(cache)));
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
    let mut here = audit::Here::new();
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

/// Who is asked when there is no memory for a request that must not fail.
static CALLBACK: AtomicUsize = AtomicUsize::new(0);

/// See `umem_nofail_callback`.
pub(super) fn set_callback(callback: Option<unsafe extern "C" fn() -> c_int>) {
    CALLBACK.store(callback.map_or(0, |callback| callback as usize), Ordering::Release);
}

/// There is no memory: whether to try again. It does not return when the program is to end.
pub(super) fn shall_retry(how: c_int) -> bool {
    static ASKING: AtomicBool = AtomicBool::new(false);
    if how & words::NOFAIL == 0 {
        return false;
    }
    let mut status = EXIT | 255;
    let callback = CALLBACK.load(Ordering::Acquire);
    if callback != 0 {
        // SAFETY: what was set is a function of that kind.
        let callback: unsafe extern "C" fn() -> c_int =
            unsafe { std::mem::transmute::<*const (), _>(std::ptr::with_exposed_provenance(callback)) };
        if ASKING.swap(true, Ordering::AcqRel) && asking_thread() {
            messages::say(format_args!("recursive UMEM_NOFAIL callback\n"));
            messages::end();
        }
        set_asking_thread();
        // SAFETY: whoever set it promises that it may be called when there is no memory.
        status = unsafe { callback() };
        ASKING.store(false, Ordering::Release);
        if status == 0 {
            return true;
        }
    }
    // SAFETY: it ends the program, with what it registered for that.
    unsafe { libc::exit(if status & !0xff == EXIT { status & 0xff } else { 255 }) }
}

/// The thread that asks the callback.
static ASKER: AtomicUsize = AtomicUsize::new(0);

fn set_asking_thread() {
    ASKER.store(crate::locks::word::thread_number() as usize, Ordering::Release);
}

fn asking_thread() -> bool {
    ASKER.load(Ordering::Acquire) == crate::locks::word::thread_number() as usize
}
