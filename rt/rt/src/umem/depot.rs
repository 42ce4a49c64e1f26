//! The depot: magazines between threads and slabs.
//!
//! A thread whose magazines are empty (or full) exchanges one for a full (or empty) one in the depot. That takes one lock for as many buffers as a
//! magazine has rounds. New magazines of a share have one size. It grows when its lock is contended (the rule of libumem), and after [`MANY`]
//! exchanges (an addition: an uncontended lock, too, costs more than the rounds of a small magazine). Magazines of an earlier size are freed when
//! they come back empty.
//!
//! Freed buffers and magazines are in the cache of the CPU that freed them. So a depot has several shares, each with a lock. A thread uses its own
//! share, and others only if its own has no magazine.
//!
//! # Safety
//!
//! Every cache that is passed to these functions must be alive. This is a promise of all callers, in addition to those of each function.

use super::{buffer, lock, meta};
use crate::locks::word::Word;
use millpond_rt_layout::{Cache, Magazine, Pair, Pile, SHARES, Share, Thread};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// Size classes of magazines: rounds; the chunk size in bytes above which a cache begins with the class; the chunk size below which it may grow to
/// the next one. The values are libumem's, except the last row: batches of a thousand allocations then use the depot half as often. That magazine
/// fills the largest piece of [`super::meta`] with a list of its own.
const TYPES: [(u32, usize, usize); 10] = [
    (1, 3200, 65536),
    (3, 256, 32768),
    (7, 64, 16384),
    (15, 0, 8192),
    (31, 0, 4096),
    (47, 0, 2048),
    (63, 0, 1024),
    (95, 0, 512),
    (143, 0, 256),
    (255, 0, 0),
];

/// After this many exchanges, magazines are too small for the workload.
const MANY: u64 = 1024;

/// Maximum size of buffers in full magazines, in bytes, if as much was taken lately. Another thread may want the buffers that one thread freed. It
/// holds even if the cache has few buffers.
const KEPT: u64 = 1 << 20;

/// The limit before any were taken, in bytes. A growing string frees one buffer of each size, which are not wanted again.
const LEAST_KEPT: u64 = 64 << 10;

/// Maximum number of buffers in full magazines. Small ones are made quickly.
const MOST_KEPT: u64 = 4096;

/// The pointer bits of a link.
const POINTER: u64 = (1 << 48) - 1;

/// A magazine, its filled rounds and its capacity.
type Counted = (*mut Magazine, u32, u32);

/// Initial number of rounds of magazines.
pub(super) fn first_rounds(chunk: usize) -> u32 {
    TYPES.iter().find(|(_, least, _)| chunk > *least).map_or(15, |(rounds, ..)| *rounds)
}

/// The next larger number of rounds, if a cache of this chunk size may use it.
pub(super) fn more_rounds(rounds: u32, chunk: usize) -> Option<u32> {
    let at = TYPES.iter().position(|(those, ..)| *those == rounds)?;
    let (_, _, most) = TYPES[at];
    TYPES.get(at + 1).filter(|_| chunk < most).map(|(rounds, ..)| *rounds)
}

fn bytes(rounds: u32) -> usize {
    size_of::<Magazine>() + rounds as usize * size_of::<*mut u8>()
}

/// Index of a thread's share.
///
/// # Safety
/// The block is the calling thread's.
pub(super) unsafe fn own(block: *mut Thread) -> usize {
    // SAFETY: by the caller's promise.
    unsafe { (*block).tid as usize }
}

/// A share by its index, modulo the number of shares.
pub(super) unsafe fn share(cache: *mut Cache, number: usize) -> *mut Share {
    // SAFETY: no reference is made, and the index is in range.
    unsafe { (&raw mut (*cache).depot.shares).cast::<Share>().add(number % SHARES) }
}

/// All shares, beginning with one.
///
/// # Safety
/// The cache is alive while they are used.
pub(super) unsafe fn shares(cache: *mut Cache, first: usize) -> impl Iterator<Item = *mut Share> {
    // SAFETY: by the caller's promise.
    (first..first + SHARES).map(move |number| unsafe { share(cache, number) })
}

/// Initialises the shares of a new cache.
///
/// # Safety
/// No other thread has the cache.
pub(super) unsafe fn begin(cache: *mut Cache) {
    // SAFETY: by the caller's promise.
    unsafe { shares(cache, 0).for_each(|share| (*share).rounds = first_rounds((*cache).chunk)) }
}

/// A magazine of another share, from the pile that `of` selects.
unsafe fn of_others(cache: *mut Cache, own: usize, of: impl Fn(*mut Share) -> *mut Pile) -> Option<Counted> {
    // SAFETY: a live cache. The first check is without the lock: a thread that misses a magazine makes one.
    unsafe {
        shares(cache, own + 1).take(SHARES - 1).find_map(|other| {
            let pile = of(other);
            if AtomicPtr::from_ptr(&raw mut (*pile).top).load(Ordering::Relaxed).is_null() {
                return None;
            }
            let word = hold(other);
            let found = pop(pile);
            word.unlock();
            found
        })
    }
}

unsafe fn rounds_of(magazine: *mut Magazine) -> *mut *mut u8 {
    // SAFETY: rounds follow the head.
    unsafe { magazine.add(1).cast() }
}

/// Locks a share, and counts contention.
unsafe fn hold(share: *mut Share) -> &'static Word {
    // SAFETY: the share belongs to a live cache; the count is changed under the lock.
    unsafe {
        let word = lock::word(&raw mut (*share).lock);
        if !word.try_lock() {
            word.lock();
            (*share).contention += 1;
        }
        word
    }
}

unsafe fn push(pile: *mut Pile, (magazine, rounds, room): Counted) {
    #[cfg(loom)]
    lock::touch();
    // SAFETY: under the lock of the share.
    unsafe {
        let counts = u64::from(rounds) | u64::from(room) << 8;
        (*magazine).link = (*pile).top.expose_provenance() as u64 | counts << 48;
        // For `mend`: the pile is consistent before and after the next line.
        fence(Ordering::Release);
        (*pile).top = magazine;
        (*pile).count += 1;
    }
}

unsafe fn pop(pile: *mut Pile) -> Option<Counted> {
    #[cfg(loom)]
    lock::touch();
    // SAFETY: under the share's lock.
    unsafe {
        let magazine = (*pile).top;
        if magazine.is_null() {
            return None;
        }
        let link = (*magazine).link;
        (*pile).top = ptr::with_exposed_provenance_mut((link & POINTER) as usize);
        (*pile).count -= 1;
        (*pile).fewest = (*pile).fewest.min((*pile).count);
        (*pile).taken += 1;
        Some((magazine, (link >> 48 & 0xff) as u32, (link >> 56) as u32))
    }
}

unsafe fn load(pair: *mut Pair, magazine: *mut Magazine, rounds: u32, room: u32) {
    // SAFETY: the pair is the caller's, and the magazine has a capacity of `room`.
    unsafe {
        let base = rounds_of(magazine);
        (*pair).base = base;
        (*pair).limit = base.add(room as usize);
        (*pair).top = base.add(rounds as usize);
    }
}

/// The loaded magazine.
unsafe fn loaded(pair: *mut Pair) -> Option<Counted> {
    // SAFETY: the pair is the caller's; its three pointers are of one magazine.
    unsafe {
        let base = (*pair).base;
        if base.is_null() {
            return None;
        }
        let rounds = (*pair).top.offset_from(base) as u32;
        Some((base.cast::<Magazine>().sub(1), rounds, (*pair).limit.offset_from(base) as u32))
    }
}

unsafe fn previous(pair: *mut Pair) -> Option<Counted> {
    // SAFETY: the pair is the caller's.
    unsafe {
        let magazine = (*pair).previous;
        (!magazine.is_null()).then(|| (magazine, (*pair).previous_rounds, (*pair).previous_room))
    }
}

unsafe fn set_previous(pair: *mut Pair, one: Option<Counted>) {
    let (magazine, rounds, room) = one.unwrap_or((ptr::null_mut(), 0, 0));
    // SAFETY: the pair is the caller's.
    unsafe {
        (*pair).previous = magazine;
        (*pair).previous_rounds = rounds;
        (*pair).previous_room = room;
    }
}

/// Loads the previous magazine, and the loaded one becomes the previous.
unsafe fn swap(pair: *mut Pair, (magazine, rounds, room): Counted) {
    // SAFETY: the pair is the caller's; only its owner changes it.
    unsafe {
        let was = loaded(pair);
        load(pair, magazine, rounds, room);
        set_previous(pair, was);
    }
}

/// Loads a magazine with rounds. False: there is no full one.
///
/// # Safety
/// The pair is the calling thread's, for that cache. Its loaded magazine is empty or missing. `own` is its share.
pub(super) unsafe fn load_full(cache: *mut Cache, pair: *mut Pair, own: usize) -> bool {
    // SAFETY: by the caller's promise; a share is accessed under its lock.
    unsafe {
        if let Some(full) = previous(pair).filter(|(_, rounds, _)| *rounds > 0) {
            swap(pair, full);
            return true;
        }
        let mine = share(cache, own);
        let word = hold(mine);
        (*mine).exchanges += 1;
        let mut full = pop(&raw mut (*mine).full);
        let mut empty = previous(pair);
        let push_empty = |empty: &mut Option<Counted>| {
            if let Some(one) = empty.take_if(|(_, _, room)| *room == (*mine).rounds) {
                push(&raw mut (*mine).empty, one);
            }
        };
        if full.is_some() {
            push_empty(&mut empty);
        }
        word.unlock();
        if full.is_none() {
            full = of_others(cache, own, |other| &raw mut (*other).full);
            if full.is_some() {
                let word = hold(mine);
                push_empty(&mut empty);
                word.unlock();
            }
        }
        let Some((magazine, rounds, room)) = full else { return false };
        if let Some((old, _, those)) = empty {
            meta::free(old.cast(), bytes(those));
        }
        let was = loaded(pair);
        load(pair, magazine, rounds, room);
        set_previous(pair, was);
        true
    }
}

/// Loads a magazine with room. False: out of memory.
///
/// # Safety
/// The pair is the calling thread's, for that cache. Its loaded magazine is full or missing. `own` is its share.
pub(super) unsafe fn load_empty(cache: *mut Cache, pair: *mut Pair, own: usize) -> bool {
    // SAFETY: by the caller's promise; a share is accessed under its lock.
    unsafe {
        if let Some(empty) = previous(pair).filter(|(_, rounds, room)| rounds < room) {
            swap(pair, empty);
            return true;
        }
        let mine = share(cache, own);
        let mut brought = previous(pair);
        let word = hold(mine);
        let now = (*mine).rounds;
        (*mine).exchanges += 1;
        let mut empty = pop(&raw mut (*mine).empty);
        // Buffers beyond the limit are unlikely to be wanted soon. They return to slabs, of which free ones return to the system.
        let push_brought = |brought: &mut Option<Counted>| {
            if let Some(one) =
                brought.take_if(|_| (*mine).full.count < most_full(cache, now, (*mine).full.taken))
            {
                push(&raw mut (*mine).full, one);
            }
        };
        if empty.is_some() {
            push_brought(&mut brought);
        }
        word.unlock();
        if empty.is_none() {
            empty = of_others(cache, own, |other| &raw mut (*other).empty).or_else(|| make(now));
            if empty.is_none() {
                return false;
            }
            let word = hold(mine);
            push_brought(&mut brought);
            word.unlock();
        }
        if let Some(old) = brought {
            destroy(cache, old);
        }
        if let Some((magazine, _, room)) = empty {
            let was = loaded(pair);
            load(pair, magazine, 0, room);
            set_previous(pair, was);
        }
        true
    }
}

fn make(room: u32) -> Option<Counted> {
    let new: *mut Magazine = meta::alloc(bytes(room)).cast();
    (!new.is_null()).then_some((new, 0, room))
}

/// Maximum number of full magazines in a pile, from the number that was taken lately: up to a megabyte of buffers, or a sixteenth of all buffers.
unsafe fn most_full(cache: *mut Cache, rounds: u32, taken: u64) -> u64 {
    // SAFETY: by the caller's promise. The count is under another lock; an old or new value will do.
    unsafe {
        let buffers = AtomicU64::from_ptr(&raw mut (*cache).slabs.buffers).load(Ordering::Relaxed);
        let (chunk, rounds) = ((*cache).chunk as u64, u64::from(rounds));
        let kept = (LEAST_KEPT + taken * rounds * chunk).min(KEPT) / chunk;
        kept.min(MOST_KEPT).max(buffers / 16) / rounds + 2
    }
}

/// Takes both magazines out of an unused pair, and adds its allocations to the count.
///
/// # Safety
/// The cache is alive, and no other thread uses the pair. `own` was its thread's share.
pub(super) unsafe fn unload(cache: *mut Cache, pair: *mut Pair, own: usize) {
    // SAFETY: by the caller's promise; a share is accessed under its lock.
    unsafe {
        let (both, allocs) = ([loaded(pair), previous(pair)], (*pair).allocs);
        // First, so that the child of a fork does not find them twice.
        pair.write_bytes(0, 1);
        fence(Ordering::Release);
        buffer::count(cache, allocs);
        let mine = share(cache, own);
        let word = hold(mine);
        for one in both.into_iter().flatten() {
            push(if one.1 > 0 { &raw mut (*mine).full } else { &raw mut (*mine).empty }, one);
        }
        word.unlock();
    }
}

/// Returns the rounds of a magazine to their slabs, and frees the magazine.
unsafe fn destroy(cache: *mut Cache, (magazine, rounds, room): Counted) {
    // SAFETY: the caller owns the magazine, and its rounds are free.
    unsafe {
        buffer::free(cache, rounds_of(magazine), rounds as usize);
        meta::free(magazine.cast(), bytes(room));
    }
}

/// Destroys magazines that were not needed between the last two updates.
pub(super) unsafe fn reap(cache: *mut Cache) {
    // SAFETY: by the caller's promise.
    unsafe { shrink(cache, |pile| (*pile).spare.min((*pile).fewest)) }
}

/// Destroys all magazines of the depot.
pub(super) unsafe fn clear(cache: *mut Cache) {
    // SAFETY: by the caller's promise.
    unsafe { shrink(cache, |_| u64::MAX) }
}

/// For the child of a fork during which another thread held the lock of a share: recounts its piles.
///
/// # Safety
/// This is the only thread, and it does not hold the share's lock.
pub(super) unsafe fn mend(share: *mut Share) {
    // SAFETY: by the caller's promise. The links of a pile are valid at every instruction; see `push`.
    unsafe {
        for pile in piles(share) {
            let (mut count, mut magazine) = (0, (*pile).top);
            while !magazine.is_null() {
                count += 1;
                magazine = ptr::with_exposed_provenance_mut(((*magazine).link & POINTER) as usize);
            }
            (*pile).count = count;
            (*pile).fewest = (*pile).fewest.min(count);
            (*pile).spare = (*pile).spare.min(count);
        }
    }
}

unsafe fn piles(share: *mut Share) -> [*mut Pile; 2] {
    // SAFETY: no reference is made.
    unsafe { [&raw mut (*share).full, &raw mut (*share).empty] }
}

/// Destroys up to `how_many` magazines of each pile.
unsafe fn shrink(cache: *mut Cache, how_many: impl Fn(*mut Pile) -> u64) {
    // SAFETY: under the locks of shares; a popped magazine belongs to this function.
    unsafe {
        for share in shares(cache, 0) {
            for pile in piles(share) {
                let word = hold(share);
                let mut left = how_many(pile);
                while left > 0 {
                    let Some(old) = pop(pile) else { break };
                    word.unlock();
                    destroy(cache, old);
                    left -= 1;
                    word.lock();
                }
                (*pile).spare = 0;
                word.unlock();
            }
        }
    }
}

/// Ends an interval: records the working set, and enlarges magazines of shares whose lock was contended more than `most` times.
pub(super) unsafe fn update(cache: *mut Cache, most: u64) {
    // SAFETY: under the locks of shares.
    unsafe {
        for share in shares(cache, 0) {
            let word = hold(share);
            for pile in piles(share) {
                (*pile).spare = (*pile).fewest;
                (*pile).fewest = (*pile).count;
                (*pile).taken /= 2;
            }
            let fought = (*share).contention - (*share).contention_before;
            (*share).contention_before = (*share).contention;
            word.unlock();
            if fought > most {
                grow(cache, share);
            }
        }
    }
}

/// Enlarges magazines after many exchanges. The caller holds no share's lock.
pub(super) unsafe fn look(cache: *mut Cache, own: usize) {
    // SAFETY: by the caller's promise. The count is read without the lock: a thread that misses the limit sees it next time.
    unsafe {
        let mine = share(cache, own);
        if AtomicU64::from_ptr(&raw mut (*mine).exchanges).load(Ordering::Relaxed) >= MANY {
            grow(cache, mine);
        }
    }
}

/// New magazines get the next size. Earlier ones stay in use, and are freed when they come back empty, so that no allocation waits until all their
/// rounds are in slabs.
unsafe fn grow(cache: *mut Cache, share: *mut Share) {
    // SAFETY: by the caller's promise.
    unsafe {
        let word = hold(share);
        (*share).exchanges = 0;
        (*share).rounds = more_rounds((*share).rounds, (*cache).chunk).unwrap_or((*share).rounds);
        word.unlock();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn magazines_begin_and_grow_as_published() {
        let begins: Vec<u32> = [8, 64, 65, 256, 257, 3200, 3201, 65536].map(first_rounds).into();
        assert_eq!(begins, [15, 15, 7, 7, 3, 3, 1, 1]);
        assert_eq!(more_rounds(1, 4096), Some(3));
        assert_eq!(more_rounds(1, 65536), None);
        assert_eq!(more_rounds(15, 8), Some(31));
        assert_eq!(more_rounds(95, 8), Some(143));
        assert_eq!([64, 248, 256].map(|chunk| more_rounds(143, chunk)), [Some(255), Some(255), None]);
        assert_eq!(more_rounds(255, 8), None);
        assert_eq!(bytes(255), 2048);
    }
}
