//! Thread stacks: what is promised to callers. How it is kept: the head of the crate.

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

/// A stack of `size` bytes, which must be one of [`fetch_stack_sizes`]: the lowest address of it, which is the beginning of a page.
///
/// It can be read and written; the page below it and the page above it cannot be touched. Every page of it has been faulted in, and is locked when
/// the kernel was told to lock all future memory (`mlockall`). `pthread_attr_setstack(&attr, address, size)` makes a thread run on it. What is
/// in it is not defined.
///
/// A stack that was freed is given again without a system call. Only when there is none a new one is mapped, which takes as long as clearing its
/// pages does. Not for signal handlers.
///
/// # Errors
/// * [`StackError::Size`]: it is none of the sizes.
/// * [`StackError::NoMemory`]: no memory, no address space (`RLIMIT_AS`), or too many mappings.
/// * [`StackError::LockLimit`]: all future memory is to be locked, and that would be more than `RLIMIT_MEMLOCK`.
/// * [`StackError::System`]: what else the kernel says.
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

/// Frees a stack for the next caller that wants one of its size. No system call is made.
///
/// A stack that is freed twice is told as long as no thread was given it in between; after that it is the stack of another thread.
///
/// # Errors
/// The stack is then as it was before:
/// * [`StackError::Size`]: it is none of the sizes, or another one than that stack's.
/// * [`StackError::Foreign`]: that is not the lowest address of a stack of ours.
/// * [`StackError::Twice`]: it is free already.
/// * [`StackError::InUse`]: the caller runs on it.
///
/// # Safety
/// No thread uses the stack, or has a pointer into it that will be used: its thread was joined. For any other address nothing is asked.
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

/// The stack of ours that an address is in, or in a guard of. For signal handlers: it looks at all there are.
pub(crate) fn beside(address: usize) -> Option<StackBounds> {
    let page = page_size();
    fetch_stack_sizes().iter().filter_map(|size| Class::of(*size)).find_map(|class| {
        let size = class.size();
        let is_beside = |base: &usize| address.wrapping_sub(base - page) < size + 2 * page;
        let base = group::groups(class).flat_map(group::Group::addresses).find(is_beside)?;
        Some(StackBounds { base, size })
    })
}
