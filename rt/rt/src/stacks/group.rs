//! Groups of 64 stacks of one size: allocation, release and growth.

use super::index::Entry;
use super::sizes::{CLASSES, Class};
use crate::StackError;
use crate::slots::Slots;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// Stacks of one size. All zero: empty.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Group {
    free: Slots,
    /// A size of [`Class::size`].
    size: AtomicUsize,
    /// The group that was added before.
    next: AtomicPtr<Group>,
    /// Number of used entries. It can exceed their count after a failed attempt.
    taken: AtomicU32,
    entries: [Entry; Slots::COUNT as usize],
}

/// The groups of one size.
struct Shelf {
    first: AtomicPtr<Group>,
    /// The group to which a stack was returned last: likely to have a free one.
    warm: AtomicPtr<Group>,
}

static SHELVES: [Shelf; CLASSES] =
    [const { Shelf { first: AtomicPtr::new(ptr::null_mut()), warm: AtomicPtr::new(ptr::null_mut()) } };
        CLASSES];

/// Takes a free stack. Returns its lowest address.
pub(crate) fn take(class: Class) -> Option<usize> {
    let shelf = &SHELVES[class.index()];
    // SAFETY: null, or a group that was initialised before it was published; groups are never freed.
    let warm = unsafe { shelf.warm.load(Ordering::Acquire).as_ref() };
    if let Some(address) = warm.and_then(Group::take) {
        return Some(address);
    }
    groups(class).find_map(Group::take)
}

/// All groups of a size, the newest first.
pub(crate) fn groups(class: Class) -> impl Iterator<Item = &'static Group> {
    // SAFETY: as in `take`.
    let first = unsafe { SHELVES[class.index()].first.load(Ordering::Acquire).as_ref() };
    // SAFETY: as in `take`; the link was written before the group was published, and does not change.
    std::iter::successors(first, |group| unsafe { group.next.load(Ordering::Relaxed).as_ref() })
}

/// Adds a stack, which the caller owns.
///
/// # Errors
/// [`StackError::NoMemory`]: out of memory for a new group.
pub(crate) fn add(class: Class, address: usize) -> Result<(), StackError> {
    let first = &SHELVES[class.index()].first;
    let mut latest = first.load(Ordering::Acquire);
    loop {
        // SAFETY: as in `take`.
        if NonNull::new(latest).is_some_and(|group| unsafe { Group::enter(group, address) }) {
            return Ok(());
        }
        // Only the newest group can have room: the next is added when it is full.
        let new = Group::new(class, latest)?;
        match first.compare_exchange(latest, new.as_ptr(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => latest = new.as_ptr(),
            Err(others) => {
                // SAFETY: it was allocated above with this layout, and no other code has it.
                unsafe { dealloc(new.as_ptr().cast(), Layout::new::<Group>()) };
                latest = others;
            }
        }
    }
}

impl Group {
    /// Size of its stacks in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().map(Entry::address).filter(|address| *address != 0)
    }

    fn take(&self) -> Option<usize> {
        let place = self.free.take()?;
        Some(self.entries[place as usize].address())
    }

    /// Returns a stack. False: it was free already.
    #[must_use]
    pub(crate) fn give(&'static self, place: u32) -> bool {
        let given = self.free.give(place);
        let warm = Class::of(self.size()).map(|class| &SHELVES[class.index()].warm);
        let this = ptr::from_ref(self).cast_mut();
        // Every thread reads that cache line, so it is written only on a change.
        if let Some(warm) = warm.filter(|warm| warm.load(Ordering::Relaxed) != this) {
            warm.store(this, Ordering::Release);
        }
        given
    }

    fn new(class: Class, next: *mut Group) -> Result<NonNull<Group>, StackError> {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(Layout::new::<Group>()) };
        let group = NonNull::new(memory.cast::<Group>()).ok_or(StackError::NoMemory(class.size()))?;
        // SAFETY: the memory has the size and alignment of a group, and an all-zero group is valid.
        let made = unsafe { group.as_ref() };
        made.size.store(class.size(), Ordering::Relaxed);
        made.next.store(next, Ordering::Relaxed);
        Ok(group)
    }

    /// Enters a stack that is in use. False: the group is full.
    ///
    /// # Safety
    /// The group was made by [`Group::new`] and published.
    unsafe fn enter(group: NonNull<Group>, address: usize) -> bool {
        // SAFETY: by the caller's promise; groups are never freed.
        let this: &'static Group = unsafe { group.as_ref() };
        let room = |taken: u32| (taken < Slots::COUNT).then_some(taken + 1);
        let Ok(place) = this.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) else {
            return false;
        };
        this.entries[place as usize].enter(address, group, place);
        true
    }
}
