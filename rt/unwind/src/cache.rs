//! The cache of rows, by their place. Any number of threads and signal handlers read it without a lock.
//!
//! An entry is one word, so no thread reads half of one. The address of code has 47 bits. A reversible multiplication spreads them: 13 bits of the
//! product select a pair of entries, and the other 34 are stored with the row. So a matching entry belongs to that place and no other.
//!
//! ```text
//!   product of the place   │  set, 13 bits  │         tag, 34 bits          │
//!   entry                  │         tag, 34 bits          │  row, 30 bits  │     zero: empty
//! ```

use super::modules::Module;
use super::row::{self, Row};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Maximum bits of an address in a program that does not request more.
pub(super) const ADDRESS_BITS: u32 = 47;

const SET_BITS: u32 = 13;
const TAG_BITS: u32 = ADDRESS_BITS - SET_BITS;
const _: () = assert!(TAG_BITS + row::BITS <= u64::BITS);

type Set = [AtomicU64; 2];

static SETS: [Set; 1 << SET_BITS] = [const { [const { AtomicU64::new(0) }; 2] }; 1 << SET_BITS];

/// Modules with rows in the cache. They detect that another module replaced one at the same addresses.
static MODULES: [Known; 256] = [const { Known::new() }; 256];

/// Set while a thread computes and stores a row. Another thread stores none meanwhile. So no thread waits, neither in a signal handler nor in real
/// time.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// Number of times that the cache was cleared.
static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Known {
    begin: AtomicUsize,
    end: AtomicUsize,
    identity: AtomicU64,
}

/// The row bits for a place, which has at most 47 bits; higher bits are undefined. Zero: the place is in no module.
#[inline(always)]
pub(super) fn row(place: usize) -> u64 {
    let (set, tag) = divide(place);
    let [first, second] = set;
    let first = first.load(Ordering::Relaxed);
    if is_of(first, tag) {
        return first;
    }
    let second = second.load(Ordering::Relaxed);
    if is_of(second, tag) {
        return second;
    }
    work_out(place, set, tag)
}

/// Checks a row with which a walk failed. It may be right (code that the program generated), or its module may have been replaced by another one. In
/// the latter case all rows are cleared. Each row is checked once.
#[cold]
pub(super) fn doubt(place: usize) {
    let (set, tag) = divide(place);
    for kept in set {
        let entry = kept.load(Ordering::Relaxed);
        if !is_of(entry, tag) || entry & row::MARK != 0 {
            continue;
        }
        let now = Module::of(place).and_then(|module| module.row(place)).unwrap_or(Row::End);
        alone(|| {
            if now == Row::unpack(entry) {
                // No other thread writes here now.
                kept.store(entry | row::MARK, Ordering::Relaxed);
            } else {
                forget();
            }
        });
    }
}

/// Number of times that the cache was cleared. If it changed, rows that were read in between may be wrong.
pub(super) fn forgotten() -> usize {
    FORGOTTEN.load(Ordering::Relaxed)
}

/// For the child of a fork: a thread of the parent may have been storing a row.
pub(super) fn after_fork() {
    IS_BUSY.store(false, Ordering::Relaxed);
}

#[inline(always)]
fn divide(place: usize) -> (&'static Set, u64) {
    // An odd factor, so that two places have two products; by the golden ratio, as Knuth recommends.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = (place as u64).wrapping_mul(SPREAD) & ((1 << ADDRESS_BITS) - 1);
    let set = (product >> TAG_BITS) as usize;
    (&SETS[set % SETS.len()], product & ((1 << TAG_BITS) - 1))
}

/// Whether an entry is not empty and belongs to the place.
#[inline(always)]
fn is_of(entry: u64, tag: u64) -> bool {
    entry >> row::BITS == tag && entry != 0
}

#[cold]
#[inline(never)]
fn work_out(place: usize, set: &Set, tag: u64) -> u64 {
    // The absence of a module is not cached: a module can be loaded there without notice.
    let Some(module) = Module::of(place) else { return 0 };
    let entry = tag << row::BITS | module.row(place).unwrap_or(Row::End).pack();
    alone(|| {
        recognise(&module);
        keep(set, entry);
    });
    entry
}

/// Runs `body`, unless another thread is in such a section.
fn alone(body: impl FnOnce()) {
    if !IS_BUSY.swap(true, Ordering::Acquire) {
        body();
        IS_BUSY.store(false, Ordering::Release);
    }
}

/// Stores an entry in the first place of a set, and moves the previous one to the second. The caller holds `IS_BUSY`.
fn keep(set: &Set, entry: u64) {
    let [first, second] = set;
    let before = first.swap(entry, Ordering::Relaxed);
    if before != 0 {
        second.store(before, Ordering::Relaxed);
    }
}

/// Registers a module. If it overlaps another one, that one is gone, and all rows are cleared. The caller holds `IS_BUSY`.
fn recognise(module: &Module) {
    let mut free = None;
    for known in &MODULES {
        let (begin, end) = (known.begin.load(Ordering::Relaxed), known.end.load(Ordering::Relaxed));
        if begin == end {
            free = free.or(Some(known));
        } else if begin < module.end && module.begin < end {
            let is_same = (begin, end) == (module.begin, module.end);
            if is_same && known.identity.load(Ordering::Relaxed) == module.identity {
                return;
            }
            forget();
            free = None;
            break;
        }
    }
    // After clearing, the first entry is free. If there are too many modules, all are cleared.
    let known = free.unwrap_or_else(|| {
        forget();
        &MODULES[0]
    });
    known.begin.store(module.begin, Ordering::Relaxed);
    known.end.store(module.end, Ordering::Relaxed);
    known.identity.store(module.identity, Ordering::Relaxed);
}

fn forget() {
    for known in &MODULES {
        known.end.store(0, Ordering::Relaxed);
        known.begin.store(0, Ordering::Relaxed);
    }
    SETS.iter().flatten().for_each(|entry| entry.store(0, Ordering::Relaxed));
    FORGOTTEN.fetch_add(1, Ordering::Relaxed);
}

impl Known {
    const fn new() -> Known {
        Known { begin: AtomicUsize::new(0), end: AtomicUsize::new(0), identity: AtomicU64::new(0) }
    }
}
