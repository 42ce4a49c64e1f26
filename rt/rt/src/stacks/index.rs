//! Maps the address of a stack to its place: a hash table of lists that only grow.

use super::group::Group;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Number of lists. A process has at most 65,530 mappings (`vm.max_map_count`), and a stack has two, so a list has about eight entries at most.
/// With a thousand stacks it has at most a few.
const LISTS: usize = 4096;

static INDEX: [AtomicPtr<Entry>; LISTS] = [const { AtomicPtr::new(ptr::null_mut()) }; LISTS];

/// One stack. All zero: empty.
#[derive(Debug)]
pub(crate) struct Entry {
    address: AtomicUsize,
    group: AtomicPtr<Group>,
    place: AtomicU32,
    next: AtomicPtr<Entry>,
}

/// The place of a stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) group: &'static Group,
    pub(crate) place: u32,
}

impl Entry {
    /// The address of its stack. For the thread that owns the stack or found the entry.
    pub(crate) fn address(&self) -> usize {
        self.address.load(Ordering::Relaxed)
    }

    /// Enters a stack. Until then the entry belongs to the caller alone.
    pub(crate) fn enter(&'static self, address: usize, group: NonNull<Group>, place: u32) {
        self.address.store(address, Ordering::Relaxed);
        self.group.store(group.as_ptr(), Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
        let list = list(address);
        let mut first = list.load(Ordering::Relaxed);
        loop {
            self.next.store(first, Ordering::Relaxed);
            let entry = ptr::from_ref(self).cast_mut();
            match list.compare_exchange_weak(first, entry, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

/// The stack at an address, if it is of this library. The address is not dereferenced.
pub(crate) fn find(address: usize) -> Option<Found> {
    let mut entry = list(address).load(Ordering::Acquire);
    loop {
        // SAFETY: null, or an entry that was initialised before it was published, and is never removed.
        let one = unsafe { entry.as_ref() }?;
        if one.address() == address {
            // SAFETY: as above; groups are never freed.
            let group = unsafe { one.group.load(Ordering::Relaxed).as_ref() }?;
            return Some(Found { group, place: one.place.load(Ordering::Relaxed) });
        }
        entry = one.next.load(Ordering::Relaxed);
    }
}

/// The list of an address. Stacks are often at equal distances; multiplicative hashing spreads them (Knuth, golden ratio).
fn list(address: usize) -> &'static AtomicPtr<Entry> {
    let spread = (address as u64 >> 12).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &INDEX[(spread >> (u64::BITS - LISTS.trailing_zeros())) as usize % LISTS]
}
