//! Initialisation at the first request, which may come before any constructor of a library runs.

use super::options::Settings;
use super::{builtin, fork, log, map, messages, root, settings, thread};
use millpond_rt_layout::{Root, flags};
use std::sync::atomic::{AtomicBool, Ordering};

/// Creates the built-in caches if they do not exist. False: the calling thread is inside this function already, or out of memory.
pub(super) fn begin() -> bool {
    root::begin(make, || {
        // These may allocate.
        fork::register();
        thread::register();
    })
}

/// As [`begin`], with the caches of malloc. The first caller creates them; its allocations meanwhile are served by spans.
pub(super) fn begin_malloc() -> bool {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if BEGUN.load(Ordering::Acquire) {
        return true;
    }
    if !begin() {
        return false;
    }
    let _held = root::BEGINNING_MALLOC.hold();
    if !BEGUN.load(Ordering::Acquire) && builtin::begin_malloc() {
        BEGUN.store(true, Ordering::Release);
    }
    BEGUN.load(Ordering::Acquire)
}

fn make() -> bool {
    let settings = read_settings();
    let root = root::root();
    // SAFETY: no other thread writes before the state is ready.
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

/// Reads the environment. Invalid items are reported at once, because the program is not checked as the user expects.
fn read_settings() -> &'static settings::Ready {
    let mut is_told = false;
    let asked = Settings::read(&mut |line| {
        is_told = true;
        messages::add(line);
        messages::add(b"\n");
    });
    // SAFETY: this thread initialises the allocator.
    unsafe { settings::set(asked) };
    if is_told {
        messages::print();
    }
    settings::get()
}
