//! Allocation, release and reuse of stacks; invalid frees.

#![allow(clippy::unwrap_used)]

mod common;

use common::{End, Random, child, here, on_thread, page_size};
use millpond_rt::{StackError, fetch_stack_sizes, stack_alloc, stack_free};
use std::ptr::{self, NonNull};

fn free(stack: NonNull<u8>, size: usize) -> Result<(), StackError> {
    // SAFETY: the tests use no stack after they have freed it.
    unsafe { stack_free(stack.as_ptr(), size) }
}

#[test]
fn each_size_is_given_whole_and_page_aligned() {
    for size in fetch_stack_sizes().iter().copied() {
        let stack = stack_alloc(size).unwrap();
        assert!(stack.addr().get().is_multiple_of(page_size()));
        for at in [0, size / 2, size - 1] {
            // SAFETY: within the stack.
            unsafe { stack.add(at).write_volatile(1) };
        }
        free(stack, size).unwrap();
    }
}

#[test]
fn other_sizes_are_refused() {
    for size in [0, 1, 4096, 16 << 10, 33 << 10, (32 << 10) - 1, 4 << 20, usize::MAX] {
        assert!(matches!(stack_alloc(size), Err(StackError::Size(refused)) if refused == size), "{size}");
    }
}

#[test]
fn threads_of_every_size_run_on_them() {
    for size in fetch_stack_sizes().iter().copied() {
        let stack = stack_alloc(size).unwrap();
        let low = stack.addr().get();
        let address = on_thread(Some((stack, size)), here);
        assert!((low..low + size).contains(&address), "{size}");
        free(stack, size).unwrap();
    }
}

#[test]
fn a_stack_that_was_freed_is_given_again() {
    // In a process of its own, without other threads that allocate or free.
    let end = child(|| {
        let first = stack_alloc(64 << 10).unwrap();
        free(first, 64 << 10).unwrap();
        let again = stack_alloc(64 << 10).unwrap();
        let another = stack_alloc(64 << 10).unwrap();
        i32::from(again == first) + 2 * i32::from(another != first)
    });
    assert_eq!(end, End::Exit(3));
}

#[test]
fn reuse_makes_no_system_call() {
    let end = child(|| {
        let warm: Vec<_> =
            fetch_stack_sizes().iter().map(|size| (stack_alloc(*size).unwrap(), *size)).collect();
        for (stack, size) in &warm {
            free(*stack, *size).unwrap();
        }
        // From here on any system call except read, write and exit kills the process.
        // SAFETY: integer arguments only.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT, 0, 0, 0) };
        for _ in 0..1000 {
            for size in fetch_stack_sizes().iter().copied() {
                let Ok(stack) = stack_alloc(size) else { return 1 };
                // SAFETY: no thread uses it.
                let freed = unsafe { stack_free(stack.as_ptr(), size) };
                if freed.is_err() || unsafe_free_is_refused(stack, size) {
                    // SAFETY: an integer argument only; the usual exit makes a forbidden call.
                    unsafe { libc::syscall(libc::SYS_exit, 1) };
                }
            }
        }
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        1
    });
    assert_eq!(end, End::Exit(0));
}

/// Whether a second free does anything but refuse.
fn unsafe_free_is_refused(stack: NonNull<u8>, size: usize) -> bool {
    !matches!(free(stack, size), Err(StackError::Twice(_)))
}

#[test]
fn a_new_stack_does_make_system_calls() {
    // The counterpart of the test above: here system calls are made.
    let end = child(|| {
        // SAFETY: integer arguments only.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT, 0, 0, 0) };
        let mut kept = 0;
        while stack_alloc(32 << 10).is_ok() && kept < 10_000 {
            kept += 1;
        }
        0
    });
    assert_eq!(end, End::Signal(libc::SIGKILL));
}

#[test]
fn a_second_free_is_refused_and_the_stack_is_given_once() {
    let end = child(|| {
        let stack = stack_alloc(32 << 10).unwrap();
        free(stack, 32 << 10).unwrap();
        assert!(
            matches!(free(stack, 32 << 10), Err(StackError::Twice(address)) if address == stack.addr().get())
        );
        let (one, two) = (stack_alloc(32 << 10).unwrap(), stack_alloc(32 << 10).unwrap());
        i32::from(one == two)
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn addresses_of_others_are_refused_and_never_followed() {
    let size = 128 << 10;
    let stack = stack_alloc(size).unwrap();
    let local = 0u8;
    let heap = Box::new(0u8);
    let inside = stack.addr().get() + page_size();
    for address in
        [0, 1, 8, inside, (&raw const local).addr(), (&raw const *heap).addr(), usize::MAX, 1 << 63]
    {
        // SAFETY: addresses that are not stacks have no requirement.
        let refused = unsafe { stack_free(ptr::without_provenance(address), size) };
        assert!(matches!(refused, Err(StackError::Foreign(told)) if told == address), "{address:#x}");
    }
    free(stack, size).unwrap();
}

#[test]
fn a_wrong_size_is_refused_and_the_stack_stays_its_users() {
    let size = 128 << 10;
    let stack = stack_alloc(size).unwrap();
    for wrong in [0, size - 1, size / 2, size * 2] {
        assert!(matches!(free(stack, wrong), Err(StackError::Size(told)) if told == wrong));
    }
    free(stack, size).unwrap();
}

#[test]
fn who_runs_on_a_stack_cannot_free_it() {
    let size = 256 << 10;
    let stack = stack_alloc(size).unwrap();
    let address = stack.addr().get();
    let refused = on_thread(Some((stack, size)), || free(stack, size));
    assert!(matches!(refused, Err(StackError::InUse(told)) if told == address));
    free(stack, size).unwrap();
}

/// Random calls, valid and invalid, compared with a model of owned and freed stacks.
#[test]
fn random_calls_do_what_a_list_of_owners_says() {
    for seed in 1..=20 {
        let mut random = Random(seed * 0x9e37_79b9);
        let sizes = fetch_stack_sizes();
        // Stacks in use, and stacks that this test has freed. In a process of its own, because other threads could take those.
        let end = child(move || {
            let mut owned: Vec<(NonNull<u8>, usize)> = Vec::new();
            let mut freed: Vec<(NonNull<u8>, usize)> = Vec::new();
            for _ in 0..3000 {
                let size = sizes[random.below(sizes.len().min(4))];
                match random.below(8) {
                    0..3 if owned.len() < 200 => {
                        let stack = stack_alloc(size).unwrap();
                        let low = stack.addr().get();
                        let apart = |(other, length): &(NonNull<u8>, usize)| {
                            let other = other.addr().get();
                            low + size + page_size() <= other || other + length + page_size() <= low
                        };
                        assert!(owned.iter().all(apart), "two have one stack");
                        freed.retain(|(other, _)| *other != stack);
                        owned.push((stack, size));
                    }
                    3..6 if !owned.is_empty() => {
                        let (stack, size) = owned.swap_remove(random.below(owned.len()));
                        free(stack, size).unwrap();
                        freed.push((stack, size));
                    }
                    6 if !freed.is_empty() => {
                        let (stack, size) = freed[random.below(freed.len())];
                        assert!(matches!(free(stack, size), Err(StackError::Twice(_))));
                    }
                    _ if !owned.is_empty() => {
                        let (stack, own) = owned[random.below(owned.len())];
                        let inside = unsafe_add(stack, 16 + random.below(own - 16));
                        assert!(matches!(free(inside, own), Err(StackError::Foreign(_))));
                        let refused = own == size || matches!(free(stack, size), Err(StackError::Size(_)));
                        assert!(refused);
                    }
                    _ => {}
                }
            }
            0
        });
        assert_eq!(end, End::Exit(0), "seed {seed}");
    }
}

fn unsafe_add(stack: NonNull<u8>, bytes: usize) -> NonNull<u8> {
    // SAFETY: the callers stay within the stack.
    unsafe { stack.add(bytes) }
}

#[test]
fn more_than_one_group_is_filled_and_emptied() {
    let end = child(|| {
        let all: Vec<_> = (0..200).map(|_| stack_alloc(32 << 10).unwrap()).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        for stack in &all {
            free(*stack, 32 << 10).unwrap();
        }
        let again: std::collections::BTreeSet<_> = (0..200).map(|_| stack_alloc(32 << 10).unwrap()).collect();
        i32::from(!all.iter().all(|stack| again.contains(stack)))
    });
    assert_eq!(end, End::Exit(0));
}

#[test]
fn threads_that_take_and_free_at_once_never_share_a_stack() {
    std::thread::scope(|scope| {
        for me in 1..=4u8 {
            scope.spawn(move || {
                let mut random = Random(u64::from(me) * 77);
                let mut mine: Vec<NonNull<u8>> = Vec::new();
                for _ in 0..5000 {
                    if random.below(2) == 0 && mine.len() < 30 {
                        let stack = stack_alloc(32 << 10).unwrap();
                        // SAFETY: the stack is this thread's.
                        unsafe { stack.write_volatile(me) };
                        mine.push(stack);
                    } else if !mine.is_empty() {
                        let stack = mine.swap_remove(random.below(mine.len()));
                        // SAFETY: the stack is this thread's.
                        assert_eq!(unsafe { stack.read_volatile() }, me);
                        free(stack, 32 << 10).unwrap();
                    }
                }
                mine.iter().for_each(|stack| free(*stack, 32 << 10).unwrap());
            });
        }
    });
}
