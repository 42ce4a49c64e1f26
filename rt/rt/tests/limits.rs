//! Stacks under limits on memory or locked memory. Each test runs in a child process, without the stacks of other tests.

#![allow(clippy::unwrap_used)]

mod common;

use common::{End, child, drop_rights, limit};
use millpond_rt::{StackError, stack_alloc, stack_free};
use std::ptr::NonNull;

fn free(stack: NonNull<u8>, size: usize) {
    // SAFETY: the tests use no stack after they have freed it.
    unsafe { stack_free(stack.as_ptr(), size) }.unwrap();
}

#[test]
fn without_address_space_there_is_an_error_and_nothing_is_lost() {
    let end = child(|| {
        let kept = stack_alloc(1 << 20).unwrap();
        limit(libc::RLIMIT_AS, 1 << 20);
        let refused = stack_alloc(2 << 20);
        assert!(matches!(refused, Err(StackError::NoMemory(size)) if size == 2 << 20));
        // An existing stack is reused.
        free(kept, 1 << 20);
        i32::from(stack_alloc(1 << 20).unwrap() != kept)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn a_stack_that_cannot_be_made_leaves_no_mapping_behind() {
    let end = child(|| {
        // The limit covers writable private memory: the address range can be mapped, but not made writable.
        limit(libc::RLIMIT_DATA, status_kb("VmData:") * 1024 + (256 << 10));
        let before = mappings();
        assert!(matches!(stack_alloc(2 << 20), Err(StackError::NoMemory(_))));
        assert_eq!(mappings(), before);
        i32::from(stack_alloc(32 << 10).is_err())
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn locked_memory_is_locked_within_its_limit_and_refused_beyond() {
    let end = child(|| {
        limit(libc::RLIMIT_MEMLOCK, 512 << 10);
        drop_rights();
        // SAFETY: integer arguments only.
        assert_eq!(unsafe { libc::mlockall(libc::MCL_FUTURE) }, 0);
        let refused = stack_alloc(1 << 20);
        assert!(matches!(refused, Err(StackError::LockLimit(size)) if size == 1 << 20), "{refused:?}");
        let first = stack_alloc(64 << 10).unwrap();
        assert_eq!(locked_kb(first.addr().get()), 64);
        // The second stack counts without its guards.
        let before = status_kb("VmLck:");
        stack_alloc(64 << 10).unwrap();
        assert_eq!(status_kb("VmLck:") - before, 64);
        0
    });
    assert_eq!(end, End::Exit(0));
}

/// Locked memory of the mapping at an address, in KB.
fn locked_kb(address: usize) -> u64 {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("{address:x}-")));
    kb(lines.find_map(|line| line.strip_prefix("Locked:")).unwrap())
}

fn status_kb(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    kb(text.lines().find_map(|line| line.strip_prefix(key)).unwrap())
}

fn kb(text: &str) -> u64 {
    text.trim().split(' ').next().unwrap().parse().unwrap()
}

/// Number of inaccessible mappings.
fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().lines().filter(|line| line.contains("---p")).count()
}
