//! Magazines: what lies between threads and slabs.
//!
//! A thread that finds its magazines empty, or full, exchanges one for a full, or an empty, one with the depot: one lock for as many buffers as a
//! magazine has rounds. New magazines of a share have one size, which grows when its lock is contended (libumem's rule), and when there have been
//! [`MANY`] exchanges (ours: also without a fight a lock costs more than the rounds of a small magazine). Those of a size of before go when
//! they come back empty.
//!
//! What a thread frees is in the caches of its CPU, and so are magazines. So a depot has several shares, each with a lock: a thread that comes again gets
//! its own, and those of others only when there is none.
//!
//! # Safety
//!
//! Every cache that is given to these functions is alive: that is the promise of their callers, beside what each says itself.

use super::{buffer, lock, meta};
use crate::locks::word::Word;
use millpond_rt_layout::{Cache, Magazine, Pair, Pile, SHARES, Share, Thread};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence};

/// Rounds of a magazine; chunks must be larger than the second figure for a cache to begin with it, and smaller than the third for it to grow
/// beyond, in bytes (libumem's, but for the last one: what is allocated in batches of a thousand is at the depot half as often. It fills
/// [`super::meta`]'s longest fine piece).
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

/// So many exchanges show that magazines are too small for how they are used.
const MANY: u64 = 1024;

/// So much is kept in full magazines, however few buffers there are, in bytes, where as much was lately taken from them: what one thread frees another one
/// may be about to want.
const KEPT: u64 = 1 << 20;

/// So much is kept before any is taken: strings that grow leave each size behind.
const LEAST_KEPT: u64 = 64 << 10;

/// But so many buffers at the most: small ones are made quickly.
const MOST_KEPT: u64 = 4096;

/// Bits of a link that are the pointer.
const POINTER: u64 = (1 << 48) - 1;

/// A magazine, its rounds and its room.
type Counted = (*mut Magazine, u32, u32);

/// With how many rounds magazines begin.
pub(super) fn first_rounds(chunk: usize) -> u32 {
    TYPES.iter().find(|(_, least, _)| chunk > *least).map_or(15, |(rounds, ..)| *rounds)
}

/// The next larger size of magazines, if a cache of such chunks may have it.
pub(super) fn more_rounds(rounds: u32, chunk: usize) -> Option<u32> {
    let at = TYPES.iter().position(|(those, ..)| *those == rounds)?;
    let (_, _, most) = TYPES[at];
    TYPES.get(at + 1).filter(|_| chunk < most).map(|(rounds, ..)| *rounds)
}

fn bytes(rounds: u32) -> usize {
    size_of::<Magazine>() + rounds as usize * size_of::<*mut u8>()
}

/// The number of a thread's share.
///
/// # Safety
/// The block is the calling thread's.
pub(super) unsafe fn own(block: *mut Thread) -> usize {
    // SAFETY: our caller's promise.
    unsafe { (*block).tid as usize }
}

/// A share by its number, which is taken modulo how many there are.
pub(super) unsafe fn share(cache: *mut Cache, number: usize) -> *mut Share {
    // SAFETY: no reference is made, and there are so many.
    unsafe { (&raw mut (*cache).depot.shares).cast::<Share>().add(number % SHARES) }
}

/// All shares from one on.
///
/// # Safety
/// The cache is alive while they are used.
pub(super) unsafe fn shares(cache: *mut Cache, first: usize) -> impl Iterator<Item = *mut Share> {
    // SAFETY: our caller's promise.
    (first..first + SHARES).map(move |number| unsafe { share(cache, number) })
}

/// Of a new cache with such chunks.
///
/// # Safety
/// No other thread has the cache.
pub(super) unsafe fn begin(cache: *mut Cache) {
    // SAFETY: our caller's promise.
    unsafe { shares(cache, 0).for_each(|share| (*share).rounds = first_rounds((*cache).chunk)) }
}

/// A magazine of another thread's share, from one of the piles that `of` tells: itself, its rounds, its room.
unsafe fn of_others(cache: *mut Cache, own: usize, of: impl Fn(*mut Share) -> *mut Pile) -> Option<Counted> {
    // SAFETY: our caller's cache. Whether there is something is first looked at without the lock: a thread that misses it makes one.
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

/// The lock of a share. It is counted when another thread had it.
unsafe fn hold(share: *mut Share) -> &'static Word {
    // SAFETY: our caller has a live cache's; the count is changed under the lock.
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
    // SAFETY: under the depot's lock.
    unsafe {
        let counts = u64::from(rounds) | u64::from(room) << 8;
        (*magazine).link = (*pile).top.expose_provenance() as u64 | counts << 48;
        // For `mend`: the pile is whole before and after the next line.
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
    // SAFETY: our caller's pair, and a magazine of so much room.
    unsafe {
        let base = rounds_of(magazine);
        (*pair).base = base;
        (*pair).limit = base.add(room as usize);
        (*pair).top = base.add(rounds as usize);
    }
}

/// The loaded magazine: itself, its rounds, its room.
unsafe fn loaded(pair: *mut Pair) -> Option<Counted> {
    // SAFETY: our caller's pair; the three pointers are of one magazine.
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
    // SAFETY: our caller's pair.
    unsafe {
        let magazine = (*pair).previous;
        (!magazine.is_null()).then(|| (magazine, (*pair).previous_rounds, (*pair).previous_room))
    }
}

unsafe fn set_previous(pair: *mut Pair, one: Option<Counted>) {
    let (magazine, rounds, room) = one.unwrap_or((ptr::null_mut(), 0, 0));
    // SAFETY: our caller's pair.
    unsafe {
        (*pair).previous = magazine;
        (*pair).previous_rounds = rounds;
        (*pair).previous_room = room;
    }
}

/// Loads the previous magazine, and the loaded one becomes the previous.
unsafe fn swap(pair: *mut Pair, (magazine, rounds, room): Counted) {
    // SAFETY: our caller's pair, which is changed by its owner only.
    unsafe {
        let was = loaded(pair);
        load(pair, magazine, rounds, room);
        set_previous(pair, was);
    }
}

/// Loads a magazine that has rounds. False: there is none.
///
/// # Safety
/// The pair is the calling thread's, for that cache, and its loaded magazine is empty or none. `own` is its share.
pub(super) unsafe fn load_full(cache: *mut Cache, pair: *mut Pair, own: usize) -> bool {
    // SAFETY: our caller's promise; a share is under its lock.
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

/// Loads a magazine that has room. False: there is no memory for one.
///
/// # Safety
/// The pair is the calling thread's, for that cache, and its loaded magazine is full or none. `own` is its share.
pub(super) unsafe fn load_empty(cache: *mut Cache, pair: *mut Pair, own: usize) -> bool {
    // SAFETY: our caller's promise; a share is under its lock.
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
        // What is unlikely to be wanted again is better in slabs, of which whole ones go back.
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

/// So many full magazines are kept in a pile from which so many were taken: up to a megabyte for later requests, or a sixteenth of all buffers.
unsafe fn most_full(cache: *mut Cache, rounds: u32, taken: u64) -> u64 {
    // SAFETY: as our caller promises. The count is another lock's: which of two values is read does not matter.
    unsafe {
        let buffers = AtomicU64::from_ptr(&raw mut (*cache).slabs.buffers).load(Ordering::Relaxed);
        let (chunk, rounds) = ((*cache).chunk as u64, u64::from(rounds));
        let kept = (LEAST_KEPT + taken * rounds * chunk).min(KEPT) / chunk;
        kept.min(MOST_KEPT).max(buffers / 16) / rounds + 2
    }
}

/// Takes both magazines of a pair that is unused, and counts its allocations.
///
/// # Safety
/// The cache is alive, and no other thread uses the pair. `own` was its thread's share.
pub(super) unsafe fn unload(cache: *mut Cache, pair: *mut Pair, own: usize) {
    // SAFETY: our caller's promise; a share is under its lock.
    unsafe {
        let (both, allocs) = ([loaded(pair), previous(pair)], (*pair).allocs);
        // First: a child of a fork must not find them twice.
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

/// Gives the rounds of a magazine back to their slabs, and the magazine.
unsafe fn destroy(cache: *mut Cache, (magazine, rounds, room): Counted) {
    // SAFETY: our caller has the magazine, and its rounds are free.
    unsafe {
        buffer::free(cache, rounds_of(magazine), rounds as usize);
        meta::free(magazine.cast(), bytes(room));
    }
}

/// Magazines that were not needed between the two updates before go.
pub(super) unsafe fn reap(cache: *mut Cache) {
    // SAFETY: as our caller promises.
    unsafe { shrink(cache, |pile| (*pile).spare.min((*pile).fewest)) }
}

/// All magazines of the depot go.
pub(super) unsafe fn clear(cache: *mut Cache) {
    // SAFETY: as our caller promises.
    unsafe { shrink(cache, |_| u64::MAX) }
}

/// In the child of a fork that came while another thread was at a share: its piles are counted again.
///
/// # Safety
/// This is the only thread, and it is not at that share.
pub(super) unsafe fn mend(share: *mut Share) {
    // SAFETY: our caller's promise. A pile's links are whole at any moment; see `push`.
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

/// Destroys so many magazines of each pile, as long as there are some.
unsafe fn shrink(cache: *mut Cache, how_many: impl Fn(*mut Pile) -> u64) {
    // SAFETY: under the locks of shares; magazines that were taken out are ours.
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

/// The working set of the time since the latest update; and larger magazines where a lock was contended more than `most` times.
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

/// Larger magazines when there were many exchanges. The caller is at none.
pub(super) unsafe fn look(cache: *mut Cache, own: usize) {
    // SAFETY: as our caller promises. The count is read without the lock: a thread that misses it sees it next time.
    unsafe {
        let mine = share(cache, own);
        if AtomicU64::from_ptr(&raw mut (*mine).exchanges).load(Ordering::Relaxed) >= MANY {
            grow(cache, mine);
        }
    }
}

/// Magazines of the next size from now on. Those of before are used as they are, and go when they come back empty: no allocation waits until all their
/// rounds are in slabs.
unsafe fn grow(cache: *mut Cache, share: *mut Share) {
    // SAFETY: as our caller promises.
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
