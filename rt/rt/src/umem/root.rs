//! The root of the shared layout, which other processes read first, and the state of initialisation.

use crate::locks::word::Word;
use millpond_rt_layout::{Cache, Heap, Log, MESSAGES, Root, Thread, state};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Data that other processes read.
#[repr(transparent)]
struct Shared(UnsafeCell<Root>);

// SAFETY: lists are changed under `LISTS`, counters by atomic operations. Everything else is written before the state is `READY` only.
unsafe impl Sync for Shared {}

const NO_LOG: Log = Log { base: ptr::null_mut(), stride: 0, entries: 0, next: 0 };

/// Not all zero, so that it is in `.data` and not in `.bss`.
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

/// Lock of the lists of caches and of threads.
pub(super) static LISTS: Word = Word::new();

/// Held while the allocator is initialised.
pub(super) static BEGINNING: Word = Word::new();
/// Kernel thread ID of the initialising thread.
static BEGINNER: AtomicU32 = AtomicU32::new(0);
/// Held while the caches of malloc are created.
pub(super) static BEGINNING_MALLOC: Word = Word::new();

/// The root. No reference to it is made.
pub(super) fn root() -> *mut Root {
    ROOT.0.get()
}

fn state() -> &'static AtomicU32 {
    // SAFETY: an aligned field of a static, accessed as an atomic only.
    unsafe { AtomicU32::from_ptr(&raw mut (*root()).state) }
}

pub(super) fn is_ready() -> bool {
    state().load(Ordering::Acquire) == state::READY
}

/// Initialises the allocator once: `make` builds it, then `finish` may allocate. False: the calling thread is inside `make` already, or out of
/// memory.
pub(super) fn begin(make: impl FnOnce() -> bool, finish: impl FnOnce()) -> bool {
    if let Some(known) = is_begun() {
        return known;
    }
    BEGINNING.lock();
    if state().load(Ordering::Acquire) == state::UNINITIALISED {
        BEGINNER.store(crate::locks::word::thread_number(), Ordering::Relaxed);
        state().store(state::IN_PROCESS, Ordering::Release);
        let made = make();
        state().store(if made { state::READY } else { state::FAILED }, Ordering::Release);
        if made {
            finish();
        }
        BEGINNER.store(0, Ordering::Relaxed);
    }
    BEGINNING.unlock();
    is_ready()
}

/// Whether the allocator is ready. `None`: another thread initialises it.
fn is_begun() -> Option<bool> {
    match state().load(Ordering::Acquire) {
        state::READY => Some(true),
        state::FAILED => Some(false),
        _ => {
            let is_own = BEGINNER.load(Ordering::Relaxed) == crate::locks::word::thread_number();
            is_own.then_some(false)
        }
    }
}

/// Whether the allocator is ready. Waits for another thread that initialises it.
pub(super) fn wait_until_ready() -> bool {
    is_begun().unwrap_or_else(|| {
        drop(BEGINNING.hold());
        is_ready()
    })
}

/// The head of the list of caches. It changes under [`LISTS`].
pub(super) fn caches() -> &'static AtomicPtr<Cache> {
    // SAFETY: as in `state`.
    unsafe { AtomicPtr::from_ptr(&raw mut (*root()).caches) }
}

/// The head of the list of thread blocks, which only grows.
pub(super) fn threads() -> &'static AtomicPtr<Thread> {
    // SAFETY: as in `state`.
    unsafe { AtomicPtr::from_ptr(&raw mut (*root()).threads) }
}
