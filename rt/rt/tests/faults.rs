//! Page faults of threads that use their whole stack. No test of this file may fork: pages that a child shares with its parent fault on a write, also
//! in the parent.

#![allow(clippy::unwrap_used)]

mod common;

use common::{faults, here, on_thread, touch_down_to};
use millpond_rt::{fetch_stack_sizes, stack_alloc, stack_free};
use std::ptr::NonNull;

/// Page faults of a thread that uses its whole stack, except for the part that it needs itself.
fn faults_of_use(stack: Option<(NonNull<u8>, usize)>, low: impl Fn() -> usize) -> i64 {
    on_thread(stack, || {
        let low = low();
        // Once before, so that only the stack is new.
        faults();
        let before = faults();
        touch_down_to(low);
        faults() - before
    })
}

#[test]
fn a_thread_that_uses_its_whole_stack_meets_no_fault() {
    for size in fetch_stack_sizes().iter().copied() {
        let stack = stack_alloc(size).unwrap();
        let low = stack.addr().get();
        assert_eq!(faults_of_use(Some((stack, size)), || low), 0, "{size}");
        // SAFETY: its thread was joined.
        unsafe { stack_free(stack.as_ptr(), size) }.unwrap();
    }
    // A stack of the C library faults: the difference is the stack.
    assert!(faults_of_use(None, || here() - (256 << 10)) > 4);
}
