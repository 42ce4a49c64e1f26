//! Magazines: what lies between threads and slabs.
//!
//! A thread that finds its magazines empty, or full, exchanges one for a full, or an empty, one with the depot: one lock for as many buffers as a
//! magazine has rounds. Magazines of a cache have all one size, which grows when its lock is fought for (libumem's rule), and when there have been
//! [`MANY`] exchanges (ours: also without a fight a lock costs more than the rounds of a small magazine). Those of a size of before are emptied when
//! they come back.
//!
//! What a thread frees is in its processor's caches, and so are magazines, so that these lie in several shares, by the threads that brought them: who
//! comes again gets its own, and those of others only when there is none.

use super::{cache, lock, meta};
use crate::locks::word::Word;
use millpond_rt_layout::{Cache, Depot, Magazine, Pair, Pile, SHARES, Share, Thread};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Rounds of a magazine; chunks must be larger than the second figure for a cache to begin with it, and at most the third for it to grow
/// beyond, in bytes (libumem's).
const TYPES: [(u32, usize, usize); 9] = [
    (1, 3200, 65536),
    (3, 256, 32768),
    (7, 64, 16384),
    (15, 0, 8192),
    (31, 0, 4096),
    (47, 0, 2048),
    (63, 0, 1024),
    (95, 0, 512),
    (143, 0, 0),
];

/// So many exchanges show that magazines are too small for how they are used.
const MANY: u64 = 1024;

/// So much is kept in full magazines, however few buffers there are, in bytes: what one thread frees another one may be about to want.
const KEPT: u64 = 1 << 20;

/// But so many buffers at the most: small ones are made quickly.
const MOST_KEPT: u64 = 4096;

/// Bits of a link that are the pointer.
const POINTER: u64 = (1 << 48) - 1;

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

/// Bytes of a magazine.
fn bytes(rounds: u32) -> usize {
    size_of::<Magazine>() + rounds as usize * size_of::<*mut u8>()
}

/// The share of a thread.
///
/// # Safety
/// The block is the calling thread's.
pub(super) unsafe fn share(block: *mut Thread) -> usize {
    // SAFETY: our caller's promise.
    unsafe { (*block).tid as usize % SHARES }
}

/// A share by its number, which is taken modulo how many there are.
unsafe fn share_at(depot: *mut Depot, number: usize) -> *mut Share {
    // SAFETY: no reference is made, and there are so many.
    unsafe { (&raw mut (*depot).shares).cast::<Share>().add(number % SHARES) }
}

/// The shares, a thread's own first.
unsafe fn shares(depot: *mut Depot, own: usize) -> impl Iterator<Item = *mut Share> {
    // SAFETY: as above.
    (0..SHARES).map(move |at| unsafe { share_at(depot, own + at) })
}

/// The piles with rounds, a thread's own first.
unsafe fn full(depot: *mut Depot, own: usize) -> impl Iterator<Item = *mut Pile> {
    // SAFETY: as above.
    unsafe { shares(depot, own).map(|share| &raw mut (*share).full) }
}

/// Those without, a thread's own first.
unsafe fn empty(depot: *mut Depot, own: usize) -> impl Iterator<Item = *mut Pile> {
    // SAFETY: as above.
    unsafe { shares(depot, own).map(|share| &raw mut (*share).empty) }
}

/// All piles.
unsafe fn all(depot: *mut Depot) -> impl Iterator<Item = *mut Pile> {
    // SAFETY: as above.
    unsafe { full(depot, 0).chain(empty(depot, 0)) }
}

/// Where its rounds begin.
unsafe fn rounds_of(magazine: *mut Magazine) -> *mut *mut u8 {
    // SAFETY: rounds follow the head.
    unsafe { magazine.add(1).cast() }
}

/// The depot's lock. It is counted when somebody else had it.
unsafe fn hold(cache: *mut Cache) -> &'static Word {
    // SAFETY: our caller has a live cache; the count is changed under the lock.
    unsafe {
        let word = lock::word(&raw mut (*cache).depot.lock);
        if !word.try_lock() {
            word.lock();
            (*cache).depot.contention += 1;
        }
        word
    }
}

unsafe fn push(pile: *mut Pile, magazine: *mut Magazine, rounds: u32) {
    #[cfg(loom)]
    lock::touch();
    // SAFETY: under the depot's lock.
    unsafe {
        (*magazine).link = (*pile).top.expose_provenance() as u64 | u64::from(rounds) << 48;
        (*pile).top = magazine;
        (*pile).count += 1;
    }
}

unsafe fn pop(pile: *mut Pile) -> Option<(*mut Magazine, u32)> {
    #[cfg(loom)]
    lock::touch();
    // SAFETY: under the depot's lock.
    unsafe { take(pile) }
}

/// The same for the holder of the lock, or of the pile.
unsafe fn take(pile: *mut Pile) -> Option<(*mut Magazine, u32)> {
    // SAFETY: nobody else is at the pile.
    unsafe {
        let magazine = (*pile).top;
        if magazine.is_null() {
            return None;
        }
        let link = (*magazine).link;
        (*pile).top = ptr::with_exposed_provenance_mut((link & POINTER) as usize);
        (*pile).count -= 1;
        (*pile).fewest = (*pile).fewest.min((*pile).count);
        Some((magazine, (link >> 48) as u32))
    }
}

/// Loads a magazine.
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
unsafe fn loaded(pair: *mut Pair) -> Option<(*mut Magazine, u32, u32)> {
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

unsafe fn previous(pair: *mut Pair) -> Option<(*mut Magazine, u32, u32)> {
    // SAFETY: our caller's pair.
    unsafe {
        let magazine = (*pair).previous;
        (!magazine.is_null()).then(|| (magazine, (*pair).previous_rounds, (*pair).previous_room))
    }
}

unsafe fn set_previous(pair: *mut Pair, one: Option<(*mut Magazine, u32, u32)>) {
    let (magazine, rounds, room) = one.unwrap_or((ptr::null_mut(), 0, 0));
    // SAFETY: our caller's pair.
    unsafe {
        (*pair).previous = magazine;
        (*pair).previous_rounds = rounds;
        (*pair).previous_room = room;
    }
}

/// Loads the previous magazine, and the loaded one becomes the previous.
unsafe fn swap(pair: *mut Pair, (magazine, rounds, room): (*mut Magazine, u32, u32)) {
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
/// The pair is the calling thread's, for that cache, and its loaded magazine is empty or none.
pub(super) unsafe fn load_full(cache: *mut Cache, pair: *mut Pair, share: usize) -> bool {
    // SAFETY: our caller's promise; the depot is under its lock.
    unsafe {
        if let Some(full) = previous(pair).filter(|(_, rounds, _)| *rounds > 0) {
            swap(pair, full);
            return true;
        }
        let empty = previous(pair);
        let word = hold(cache);
        let room = (*cache).depot.rounds;
        (*cache).depot.exchanges += 1;
        let Some((magazine, rounds)) = full(&raw mut (*cache).depot, share).find_map(|pile| pop(pile)) else {
            word.unlock();
            return false;
        };
        let fits = empty.filter(|(_, _, those)| *those == room);
        if let Some((magazine, ..)) = fits {
            push(&raw mut (*share_at(&raw mut (*cache).depot, share)).empty, magazine, 0);
        }
        word.unlock();
        if let (Some((magazine, _, those)), None) = (empty, fits) {
            meta::free(magazine.cast(), bytes(those));
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
/// The pair is the calling thread's, for that cache, and its loaded magazine is full or none.
pub(super) unsafe fn load_empty(cache: *mut Cache, pair: *mut Pair, share: usize) -> bool {
    // SAFETY: our caller's promise; the depot is under its lock.
    unsafe {
        if let Some(empty) = previous(pair).filter(|(_, rounds, room)| rounds < room) {
            swap(pair, empty);
            return true;
        }
        let mut brought = previous(pair);
        let word = hold(cache);
        let room = (*cache).depot.rounds;
        (*cache).depot.exchanges += 1;
        let mut empties = empty(&raw mut (*cache).depot, share);
        let mut magazine = empties.find_map(|pile| pop(pile)).map(|(magazine, _)| magazine);
        if magazine.is_none() {
            word.unlock();
            let new: *mut Magazine = meta::alloc(bytes(room)).cast();
            if new.is_null() {
                return false;
            }
            magazine = Some(new);
            word.lock();
        }
        // Magazines may have grown meanwhile, and what nobody is likely to want again is better in slabs, of which whole ones go back.
        let now = (*cache).depot.rounds;
        let pile = &raw mut (*share_at(&raw mut (*cache).depot, share)).full;
        let fits = |those: u32| those == now && (*pile).count < most_full(cache, now);
        if let Some((magazine, rounds, _)) = brought.take_if(|(_, _, those)| fits(*those)) {
            push(pile, magazine, rounds);
        }
        word.unlock();
        if let Some(old) = brought {
            destroy(cache, old);
        }
        if let Some(magazine) = magazine {
            let was = loaded(pair);
            load(pair, magazine, 0, room);
            set_previous(pair, was);
        }
        true
    }
}

/// So many full magazines are kept in a pile: a megabyte for those who come next, or a sixteenth of all buffers.
unsafe fn most_full(cache: *mut Cache, rounds: u32) -> u64 {
    // SAFETY: as our caller promises. The count is another lock's: which of two values is read does not matter.
    unsafe {
        let buffers = AtomicU64::from_ptr(&raw mut (*cache).slabs.buffers).load(Ordering::Relaxed);
        (KEPT / (*cache).chunk as u64).min(MOST_KEPT).max(buffers / 16) / u64::from(rounds) + 2
    }
}

/// Takes both magazines of a pair that nobody uses, and counts its allocations.
///
/// # Safety
/// The cache is alive, and nobody else uses the pair.
pub(super) unsafe fn unload(cache: *mut Cache, pair: *mut Pair) {
    // SAFETY: our caller's promise; the depot is under its lock.
    unsafe {
        let both = [loaded(pair), previous(pair)];
        let word = hold(cache);
        cache::count(cache, (*pair).allocs);
        let room = (*cache).depot.rounds;
        for (magazine, rounds, _) in both.iter().flatten().filter(|(_, _, those)| *those == room) {
            let depot = &raw mut (*cache).depot;
            // Whoever comes next is as near to it as any other.
            let first = share_at(depot, 0);
            let pile = if *rounds > 0 { &raw mut (*first).full } else { &raw mut (*first).empty };
            push(pile, *magazine, *rounds);
        }
        // Before others can get them: a child of a fork must not find them twice.
        pair.write_bytes(0, 1);
        word.unlock();
        for old in both.into_iter().flatten().filter(|(_, _, those)| *those != room) {
            destroy(cache, old);
        }
    }
}

/// Gives the rounds of a magazine back to their slabs, and the magazine.
unsafe fn destroy(cache: *mut Cache, (magazine, rounds, room): (*mut Magazine, u32, u32)) {
    // SAFETY: our caller has the magazine, and nobody the rounds.
    unsafe {
        cache::return_to_slabs(cache, rounds_of(magazine), rounds as usize);
        meta::free(magazine.cast(), bytes(room));
    }
}

/// Magazines that nobody needed between the two updates before go.
///
/// # Safety
/// The cache is alive.
pub(super) unsafe fn reap(cache: *mut Cache) {
    // SAFETY: as our caller promises.
    unsafe {
        let depot = &raw mut (*cache).depot;
        for pile in all(depot) {
            let spare = |pile: *mut Pile| (*pile).spare.min((*pile).fewest);
            shrink(cache, pile, spare);
        }
    }
}

/// All magazines of the depot go.
///
/// # Safety
/// The cache is alive.
pub(super) unsafe fn clear(cache: *mut Cache) {
    // SAFETY: as our caller promises.
    unsafe {
        let depot = &raw mut (*cache).depot;
        for pile in all(depot) {
            shrink(cache, pile, |_| u64::MAX);
        }
    }
}

/// Destroys so many magazines of a pile, as long as there are some.
unsafe fn shrink(cache: *mut Cache, pile: *mut Pile, how_many: impl Fn(*mut Pile) -> u64) {
    // SAFETY: under the depot's lock; magazines that were taken out are ours.
    unsafe {
        let word = hold(cache);
        let mut left = how_many(pile);
        while left > 0 {
            let room = (*cache).depot.rounds;
            let Some((magazine, rounds)) = pop(pile) else { break };
            word.unlock();
            destroy(cache, (magazine, rounds, room));
            left -= 1;
            word.lock();
        }
        (*pile).spare = 0;
        word.unlock();
    }
}

/// The working set of the time since the latest update; and larger magazines when their lock was fought for more than `most` times.
///
/// # Safety
/// The cache is alive.
pub(super) unsafe fn update(cache: *mut Cache, most: u64) {
    // SAFETY: under the depot's lock.
    unsafe {
        let word = hold(cache);
        let depot = &raw mut (*cache).depot;
        for pile in all(depot) {
            (*pile).spare = (*pile).fewest;
            (*pile).fewest = (*pile).count;
        }
        let fought = (*depot).contention - (*depot).contention_before;
        (*depot).contention_before = (*depot).contention;
        word.unlock();
        if fought > most {
            grow(cache);
        }
    }
}

/// Larger magazines when there were many exchanges. The caller is at none.
///
/// # Safety
/// The cache is alive.
pub(super) unsafe fn look(cache: *mut Cache) {
    // SAFETY: as our caller promises. The count is read without the lock: who misses it sees it next time.
    unsafe {
        if (*cache).depot.exchanges >= MANY {
            grow(cache);
        }
    }
}

/// Magazines of the next size from now on. Those of the depot go: taken out under the lock, so that no other thread brings one of the old size meanwhile.
unsafe fn grow(cache: *mut Cache) {
    // SAFETY: as our caller promises; magazines that were taken out are ours.
    unsafe {
        let depot = &raw mut (*cache).depot;
        let word = hold(cache);
        (*depot).exchanges = 0;
        let before = (*depot).rounds;
        let Some(more) = more_rounds(before, (*cache).chunk) else { return word.unlock() };
        (*depot).rounds = more;
        let mut old = [Pile::EMPTY; 2 * SHARES];
        for (pile, old) in all(depot).zip(&mut old) {
            std::mem::swap(&mut *pile, old);
        }
        word.unlock();
        for pile in &mut old {
            while let Some((magazine, rounds)) = take(pile) {
                destroy(cache, (magazine, rounds, before));
            }
        }
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
        assert_eq!(more_rounds(143, 8), None);
    }
}
