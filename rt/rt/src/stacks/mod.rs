//! Thread stacks: the public calls. The head of the crate explains how they work.

mod group;
mod index;
mod mapping;
mod sizes;

pub(crate) use sizes::page_size;
pub use sizes::{StackSizes, fetch_stack_sizes};

use crate::{StackBounds, StackError};
use mapping::Mapping;
use sizes::Class;
use std::ptr::NonNull;

/// Allocates a stack of `size` bytes, one of [`fetch_stack_sizes`]. Returns its lowest address, which is page-aligned.
///
/// It is readable and writable. The pages below and above it are inaccessible. All its pages are pre-faulted, and locked if the kernel
/// locks all future memory (`mlockall`). `pthread_attr_setstack(&attr, address, size)` makes a thread run on it. Its contents are
/// undefined.
///
/// A freed stack is reused without a system call. If none is free, a new one is mapped, which takes as long as clearing its pages.
/// Not for signal handlers.
///
/// # Errors
/// * [`StackError::Size`]: not an offered size.
/// * [`StackError::NoMemory`]: no memory, no address space (`RLIMIT_AS`), or too many mappings.
/// * [`StackError::LockLimit`]: all future memory is to be locked, and the stack would exceed `RLIMIT_MEMLOCK`.
/// * [`StackError::System`]: another error of the kernel.
pub fn stack_alloc(size: usize) -> Result<NonNull<u8>, StackError> {
    let class = Class::of(size).ok_or(StackError::Size(size))?;
    match group::take(class).and_then(|address| NonNull::new(std::ptr::with_exposed_provenance_mut(address)))
    {
        Some(stack) => Ok(stack),
        None => make(class),
    }
}

/// Maps one more stack.
#[cold]
fn make(class: Class) -> Result<NonNull<u8>, StackError> {
    let mapping = Mapping::new(class)?;
    let stack = mapping.stack();
    group::add(class, stack.as_ptr().expose_provenance())?;
    mapping.keep();
    Ok(stack)
}

/// Frees a stack for the next caller of the same size. No system call is made.
///
/// A double free is detected as long as the stack was not allocated again in between. Afterwards it is the stack of another thread.
///
/// # Errors
/// The stack is unchanged:
/// * [`StackError::Size`]: not an offered size, or not that stack's size.
/// * [`StackError::Foreign`]: not the lowest address of a stack of this library.
/// * [`StackError::Twice`]: it is free already.
/// * [`StackError::InUse`]: the caller runs on it.
///
/// # Safety
/// No thread uses the stack or a pointer into it any more: its thread was joined. Other addresses have no requirement.
pub unsafe fn stack_free(address: *const u8, size: usize) -> Result<(), StackError> {
    let address = address.addr();
    Class::of(size).ok_or(StackError::Size(size))?;
    let found = index::find(address).ok_or(StackError::Foreign(address))?;
    if found.group.size() != size {
        return Err(StackError::Size(size));
    }
    let here = 0u8;
    if (&raw const here).addr().wrapping_sub(address) < size {
        return Err(StackError::InUse(address));
    }
    if found.group.give(found.place) { Ok(()) } else { Err(StackError::Twice(address)) }
}

/// The stack of this library that contains an address, itself or in a guard. For signal handlers: it searches all stacks.
pub(crate) fn beside(address: usize) -> Option<StackBounds> {
    let page = page_size();
    fetch_stack_sizes().iter().filter_map(|size| Class::of(*size)).find_map(|class| {
        let size = class.size();
        let is_beside = |base: &usize| address.wrapping_sub(base - page) < size + 2 * page;
        let base = group::groups(class).flat_map(group::Group::addresses).find(is_beside)?;
        Some(StackBounds { base, size })
    })
}
