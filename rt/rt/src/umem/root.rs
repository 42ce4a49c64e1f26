//! The root of everything, and how it comes to be: when somebody first asks for memory, which may be before any constructor of a library ran.

use super::{builtin, fork, log, map, messages, thread};
use crate::locks::word::Word;
use millpond_rt_layout::{Cache, Heap, Log, MESSAGES, Root, Thread, flags, state};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// What is shared with those who look in from outside.
#[repr(transparent)]
struct Shared(UnsafeCell<Root>);

// SAFETY: lists are changed under `LISTS`, counters by atomic operations, everything else before the state is `READY` and never again.
unsafe impl Sync for Shared {}

const NO_LOG: Log = Log { base: ptr::null_mut(), stride: 0, entries: 0, next: 0 };

/// Not all zero, so that it lies in a page of the file and not behind it.
static ROOT: Shared = Shared(UnsafeCell::new(Root {
    magic: [0; 2],
    this: ptr::null(),
    version: Root::VERSION,
    size: size_of::<Root>() as u32,
    state: state::UNINITIALISED,
    flags: 0,
    frames: 0,
    concurrency: 0,
    page: 0,
    caches: ptr::null_mut(),
    threads: ptr::null_mut(),
    map: ptr::null(),
    regions: ptr::null_mut(),
    logs: [NO_LOG; 4],
    heap: Heap { mapped: 0, used: 0, large: 0, large_buffers: 0, large_allocs: 0, failures: 0, meta: 0 },
    messages: [0; MESSAGES],
    message_end: 0,
    message_time: 0,
}));

/// Of the lists of caches and of threads.
pub(super) static LISTS: Word = Word::new();

/// Held by the one who initialises.
static BEGINNING: Word = Word::new();
/// The kernel's number of that thread.
static BEGINNER: AtomicU32 = AtomicU32::new(0);

/// The root, never as a reference.
pub(super) fn root() -> *mut Root {
    ROOT.0.get()
}

fn state() -> &'static AtomicU32 {
    // SAFETY: the place is a static's, aligned, and only used so.
    unsafe { AtomicU32::from_ptr(&raw mut (*root()).state) }
}

/// Whether caches can be used.
pub(super) fn is_ready() -> bool {
    state().load(Ordering::Acquire) == state::READY
}

/// Makes the built-in caches if nobody has. False: the calling thread is at it just now, further up its stack, or there was no memory.
pub(super) fn begin() -> bool {
    match state().load(Ordering::Acquire) {
        state::READY => return true,
        state::FAILED => return false,
        _ => {}
    }
    let me = crate::locks::word::thread_number();
    if BEGINNER.load(Ordering::Relaxed) == me {
        return false;
    }
    BEGINNING.lock();
    if state().load(Ordering::Acquire) == state::UNINITIALISED {
        BEGINNER.store(me, Ordering::Relaxed);
        state().store(state::IN_PROCESS, Ordering::Release);
        let made = make();
        state().store(if made { state::READY } else { state::FAILED }, Ordering::Release);
        if made {
            // These may allocate, which is possible from here on.
            fork::register();
            thread::register();
        }
        BEGINNER.store(0, Ordering::Relaxed);
    }
    BEGINNING.unlock();
    is_ready()
}

/// The lock of the one who initialises, for children of forks.
pub(super) fn beginning() -> &'static Word {
    &BEGINNING
}

fn make() -> bool {
    let settings = super::settings::read();
    let root = root();
    // SAFETY: nobody else writes before the state is ready.
    unsafe {
        (*root).version = Root::VERSION;
        (*root).this = root;
        (*root).page = crate::stacks::page_size();
        (*root).map = map::MAP.as_ptr().cast();
        (*root).flags = settings.flags;
        (*root).frames = if settings.flags & flags::AUDIT == 0 { 0 } else { settings.frames };
        (*root).concurrency = settings.concurrency;
        (*root).magic = Root::MAGIC;
    }
    messages::begin(settings);
    log::begin(settings);
    builtin::begin(settings)
}

/// Adds to the list of caches, or takes from it. For holders of [`LISTS`].
pub(super) fn caches() -> &'static AtomicPtr<Cache> {
    // SAFETY: as in `state`.
    unsafe { AtomicPtr::from_ptr(&raw mut (*root()).caches) }
}

/// The list of threads' blocks, which only grows.
pub(super) fn threads() -> &'static AtomicPtr<Thread> {
    // SAFETY: as in `state`.
    unsafe { AtomicPtr::from_ptr(&raw mut (*root()).threads) }
}
