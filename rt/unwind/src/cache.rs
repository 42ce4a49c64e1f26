//! Rows that were worked out before, by their place. Read without a lock, by any number of threads and by signal handlers.
//!
//! An entry is one word, so that no thread sees half of one. The address of code has 47 bits; a multiplication that loses nothing spreads them, 13 of the
//! product choose a pair of entries, and the other 34 are kept beside the row: an entry that fits is about that place and no other.
//!
//! ```text
//!   product of the place   │  set, 13 bits  │         tag, 34 bits          │
//!   entry                  │         tag, 34 bits          │  row, 30 bits  │     zero: empty
//! ```

use super::modules::Module;
use super::row::{self, Row};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Bits of an address that a program can have without asking for more.
pub(super) const ADDRESS_BITS: u32 = 47;

const SET_BITS: u32 = 13;
const TAG_BITS: u32 = ADDRESS_BITS - SET_BITS;
const _: () = assert!(TAG_BITS + row::BITS <= u64::BITS);

type Set = [AtomicU64; 2];

static SETS: [Set; 1 << SET_BITS] = [const { [const { AtomicU64::new(0) }; 2] }; 1 << SET_BITS];

/// Modules of which rows were kept, so that it is seen when another one stands in the place of one.
static MODULES: [Known; 256] = [const { Known::new() }; 256];

/// A thread works out a row and keeps it. A second thread meanwhile keeps none. So nothing waits: neither a signal handler nor a real-time thread.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// How often all rows were forgotten.
static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug)]
struct Known {
    begin: AtomicUsize,
    end: AtomicUsize,
    identity: AtomicU64,
}

/// The bits of the row for a place, which has no more than 47 bits; there is more above them. Zero: the place is in no module.
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

/// Looks again at a row that led nowhere: it is right where a program made code itself, and wrong where its module is gone and another one stands there. In the
/// latter case all rows are forgotten. Once for each row.
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

/// How often all rows were forgotten; when it is more than before, what was read in between may have been wrong.
pub(super) fn forgotten() -> usize {
    FORGOTTEN.load(Ordering::Relaxed)
}

/// In the child of a fork, whose parent's threads are gone: one of them may have been busy.
pub(super) fn after_fork() {
    IS_BUSY.store(false, Ordering::Relaxed);
}

#[inline(always)]
fn divide(place: usize) -> (&'static Set, u64) {
    // Odd: two places have two products. By the golden ratio, as Knuth recommends.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = (place as u64).wrapping_mul(SPREAD) & ((1 << ADDRESS_BITS) - 1);
    let set = (product >> TAG_BITS) as usize;
    (&SETS[set % SETS.len()], product & ((1 << TAG_BITS) - 1))
}

/// Whether an entry is there, and about that place of its set.
#[inline(always)]
fn is_of(entry: u64, tag: u64) -> bool {
    entry >> row::BITS == tag && entry != 0
}

#[cold]
#[inline(never)]
fn work_out(place: usize, set: &Set, tag: u64) -> u64 {
    // That there is none is not kept: a module may come there, and nothing tells.
    let Some(module) = Module::of(place) else { return 0 };
    let entry = tag << row::BITS | module.row(place).unwrap_or(Row::End).pack();
    alone(|| {
        recognise(&module);
        keep(set, entry);
    });
    entry
}

/// Does what only one thread may do at a time, unless another one is at it.
fn alone(body: impl FnOnce()) {
    if !IS_BUSY.swap(true, Ordering::Acquire) {
        body();
        IS_BUSY.store(false, Ordering::Release);
    }
}

/// Puts an entry before its neighbour, which falls out when both are taken. The caller is alone.
fn keep(set: &Set, entry: u64) {
    let [first, second] = set;
    let before = first.swap(entry, Ordering::Relaxed);
    if before != 0 {
        second.store(before, Ordering::Relaxed);
    }
}

/// Sees whether a module stands where another one stood, whose rows are wrong then. The caller is alone.
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
    // The first entry is free when all were forgotten; when there are too many modules, all are.
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
