//! The guards around a stack are inaccessible: children that access them are killed.

#![allow(clippy::unwrap_used)]

mod common;

use common::{End, address_of_death, handle_elsewhere, on_thread, page_size};
use millpond_rt::{fetch_stack_sizes, stack_alloc};
use std::ptr;

const KILLED: End = End::Signal(libc::SIGSEGV);

#[test]
fn the_bytes_before_and_behind_a_stack_kill() {
    for size in fetch_stack_sizes().iter().copied() {
        let low = stack_alloc(size).unwrap().addr().get();
        for address in [low - page_size(), low - 1, low + size, low + size + page_size() - 1] {
            // SAFETY: a deliberate fault.
            let touch = || unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
            assert_eq!(address_of_death(touch), (address, KILLED), "{size}: {low:#x} {address:#x}");
            // SAFETY: as above.
            let look = || _ = unsafe { ptr::with_exposed_provenance::<u8>(address).read_volatile() };
            assert_eq!(address_of_death(look), (address, KILLED), "{size}: {low:#x} {address:#x}");
        }
    }
}

/// Recurses until the stack ends.
#[inline(never)]
#[allow(unconditional_recursion, reason = "it is meant to die of it")]
fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 16]);
    recurse(depth + 1) + frame[0]
}

#[test]
fn a_thread_that_recurses_for_ever_dies_in_the_guard_below() {
    let size = 64 << 10;
    let stack = stack_alloc(size).unwrap();
    let low = stack.addr().get();
    let (address, end) = address_of_death(|| {
        on_thread(Some((stack, size)), || {
            handle_elsewhere();
            std::hint::black_box(recurse(0));
        });
    });
    assert_eq!(end, KILLED);
    assert!((low - page_size()..low).contains(&address), "{low:#x} {address:#x}");
}
