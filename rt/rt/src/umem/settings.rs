//! The settings of the caches, derived once from the environment.

use super::options::{self, Settings};
use crate::realtime::mappings_max;
use millpond_rt_layout::flags;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Flags of requests and of cache creation, with their values in C.
pub(super) mod words {
    use libc::c_int;

    /// Null when out of memory.
    pub(in crate::umem) const DEFAULT: c_int = 0;
    /// The callback decides when out of memory.
    pub(in crate::umem) const NOFAIL: c_int = 0x100;
    /// Free buffers are not written to.
    pub(in crate::umem) const NOTOUCH: u32 = 0x1_0000;
    /// No checks.
    pub(in crate::umem) const NODEBUG: u32 = 0x2_0000;
    /// No magazines.
    pub(in crate::umem) const NOMAGAZINE: u32 = 0x4_0000;
    /// No bufctls.
    pub(in crate::umem) const NOHASH: u32 = 0x8_0000;
}

/// Default maximum number of mappings of a process.
const MAPPINGS: usize = 65530;

/// Values derived from the [`Settings`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Ready {
    pub(super) asked: Settings,
    /// A combination of [`flags`].
    pub(super) flags: u32,
    /// Return addresses in the record of an audited buffer.
    pub(super) frames: u32,
    pub(super) concurrency: u32,
    /// Bytes of a free buffer that are compared with the pattern.
    pub(super) verify: usize,
    /// Bytes of a freed buffer that are saved.
    pub(super) contents: usize,
    /// Maximum number of walls.
    pub(super) walls: usize,
}

struct Shared(UnsafeCell<Ready>);

// SAFETY: it is written once, by `set`, before the allocator is ready.
unsafe impl Sync for Shared {}

static READY: Shared = Shared(UnsafeCell::new(Ready {
    asked: Settings::STANDARD,
    flags: 0,
    frames: 0,
    concurrency: 1,
    verify: usize::MAX,
    contents: 0,
    walls: 0,
}));

/// The settings; constant once the allocator is ready.
pub(super) fn get() -> &'static Ready {
    // SAFETY: see above.
    unsafe { &*READY.0.get() }
}

/// Stores the settings.
///
/// # Safety
/// This thread is initialising the allocator.
pub(super) unsafe fn set(asked: Settings) {
    // SAFETY: by the caller's promise.
    unsafe { *READY.0.get() = Ready::of(asked) };
}

impl Ready {
    fn of(asked: Settings) -> Ready {
        let debug = asked.debug;
        let mut bits = 0;
        for (is_asked, bit) in [
            (debug.audit.is_some(), flags::AUDIT),
            (debug.guards, flags::DEADBEEF | flags::REDZONE),
            // Saved contents are found by the audit records.
            (debug.contents.is_some() && debug.audit.is_some(), flags::CONTENTS),
            (debug.lite, flags::LITE),
            (debug.firewall.is_some(), flags::FIREWALL),
            (debug.random, flags::RANDOMIZE),
            (asked.options.no_magazines || debug.mtbf.is_some(), flags::NOMAGAZINE),
        ] {
            bits |= if is_asked { bit } else { 0 };
        }
        let cpus = match asked.options.concurrency {
            Some(some) => some,
            // SAFETY: the call has no effect.
            None => usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1),
        };
        Ready {
            asked,
            flags: bits,
            frames: debug.audit.unwrap_or(0).min(options::FRAMES_MAX) as u32,
            concurrency: cpus.max(1) as u32,
            verify: debug.max_verify.unwrap_or(usize::MAX),
            contents: debug.contents.unwrap_or(0),
            walls: debug.firewall.map_or(0, |_| mappings_max().unwrap_or(MAPPINGS) / 8 * 3),
        }
    }
}

/// The check flags of a cache with these properties.
pub(super) fn flags_of(size: usize, align: usize, cflags: u32) -> u32 {
    let ready = get();
    let mut bits = ready.flags;
    if bits & flags::RANDOMIZE != 0 {
        bits = flags::RANDOMIZE | bits & random();
    }
    if cflags & (words::NODEBUG | words::NOTOUCH) != 0 {
        bits &= flags::NOMAGAZINE | flags::RANDOMIZE;
    }
    if bits & flags::LITE != 0 {
        // Tags only, and only where they cost little memory.
        let keeps = !size.is_multiple_of(1024) && align <= 1024 && cflags & words::NOHASH == 0;
        bits &= flags::NOMAGAZINE | flags::RANDOMIZE | if keeps { flags::LITE } else { 0 };
    }
    if cflags & words::NOHASH != 0 {
        bits &= !(flags::AUDIT | flags::FIREWALL | flags::CONTENTS);
    }
    if ready.asked.debug.firewall.is_some_and(|least| size < least) {
        bits &= !flags::FIREWALL;
    }
    if bits & flags::AUDIT == 0 {
        bits &= !flags::CONTENTS;
    } else {
        // A record is found by the tag.
        bits |= flags::REDZONE | flags::HASH;
    }
    if bits & (flags::BUFTAG | flags::FIREWALL) != 0 || cflags & words::NOMAGAZINE != 0 {
        bits |= flags::NOMAGAZINE;
    }
    bits
}

/// Pseudo-random bits (an xorshift by Marsaglia).
fn random() -> u32 {
    static STATE: AtomicU64 = AtomicU64::new(0x2545_f491_4f6c_dd1d);
    let mut bits = STATE.load(Ordering::Relaxed);
    bits ^= bits << 13;
    bits ^= bits >> 7;
    bits ^= bits << 17;
    STATE.store(bits, Ordering::Relaxed);
    (bits >> 16) as u32
}

/// Whether this allocation shall fail (fault injection, `mtbf`).
pub(super) fn shall_fail() -> bool {
    match get().asked.debug.mtbf {
        Some(mean) if mean > 0 => (random() as usize).is_multiple_of(mean),
        _ => false,
    }
}
