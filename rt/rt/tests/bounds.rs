//! Bounds, violations and residency of thread stacks: those of the C library and of `stack_alloc`.

#![allow(clippy::unwrap_used)]

mod common;

use common::{End, child, handle_elsewhere, here, on_thread, page_size, touch_down_to};
use libc::{c_int, c_void};
use millpond_rt::*;
use std::ptr::{self, NonNull};

const SIZE: usize = 256 << 10;

fn ours() -> (NonNull<u8>, usize) {
    (stack_alloc(SIZE).unwrap(), SIZE)
}

fn free(stack: (NonNull<u8>, usize)) {
    // SAFETY: its thread was joined.
    unsafe { stack_free(stack.0.as_ptr(), stack.1) }.unwrap();
}

#[test]
fn the_bounds_of_one_of_our_stacks_are_what_was_allocated() {
    let stack = ours();
    let base = stack.0.addr().get();
    let bounds = on_thread(Some(stack), || stack_getbounds().unwrap());
    assert_eq!(bounds, StackBounds { base, size: SIZE });
    free(stack);
}

#[test]
fn an_address_is_in_bounds_from_the_base_to_below_the_end() {
    let stack = ours();
    let base = stack.0.addr().get();
    let found = on_thread(Some(stack), || {
        [base - 1, base, here(), base + SIZE - 1, base + SIZE]
            .map(|at| stack_inbounds(ptr::without_provenance(at)))
    });
    assert_eq!(found, [false, true, true, true, false]);
    free(stack);
}

#[test]
fn a_usual_stack_holds_what_its_thread_has_on_it() {
    on_thread(None, || {
        let bounds = stack_getbounds().unwrap();
        assert!(bounds.contains(here()) && stack_inbounds(ptr::without_provenance(here())));
        assert!(!stack_inbounds(Box::into_raw(Box::new(0u8))));
    });
}

#[test]
fn bounds_that_a_thread_sets_are_its_own() {
    let set = StackBounds { base: 0x10000, size: 0x4000 };
    on_thread(None, || {
        let before = stack_getbounds().unwrap();
        stack_setbounds(set).unwrap();
        assert_eq!(stack_getbounds().unwrap(), set);
        assert!(
            stack_inbounds(ptr::without_provenance(0x13fff))
                && !stack_inbounds(ptr::without_provenance(here()))
        );
        let of_another = on_thread(None, || stack_getbounds().unwrap());
        assert!(of_another != set && of_another != before);
    });
}

#[test]
fn bounds_that_are_none_are_refused_and_the_record_stays() {
    on_thread(None, || {
        let before = stack_getbounds().unwrap();
        for (base, size) in [
            (0, 0x4000),
            (0x10008, 0x4000),
            (0x10000, 0x4008),
            (0x10000, 0),
            (0x10000, libc::MINSIGSTKSZ - 16),
            (usize::MAX - 15, 0x4000),
        ] {
            let refused = stack_setbounds(StackBounds { base, size });
            assert!(matches!(refused, Err(StackError::Bounds(_))), "{base:#x} {size:#x}");
        }
        assert_eq!(stack_getbounds().unwrap(), before);
        stack_setbounds(StackBounds { base: 0x10000, size: libc::MINSIGSTKSZ }).unwrap();
    });
}

/// As in experiment E7: a stack of this library is resident from the start; of a usual one only the touched pages are.
#[test]
fn our_stacks_are_resident_and_usual_ones_become_so() {
    let stack = ours();
    let pages = SIZE / page_size();
    let found = on_thread(Some(stack), || stack_residency().unwrap());
    assert_eq!(found, StackResidency { pages, mapped: pages, resident: pages });
    free(stack);
    on_thread(None, || {
        let before = stack_residency().unwrap();
        assert!(before.resident < before.pages && before.mapped == before.pages, "{before:?}");
        touch_down_to(stack_getbounds().unwrap().base);
        let after = stack_residency().unwrap();
        // Pages near this frame are in use and were not touched.
        assert!(after.pages - after.resident <= 16 * 1024 / page_size(), "{after:?}");
        assert_eq!(after.mapped, after.pages);
    });
}

#[test]
fn a_stack_that_is_locked_is_resident_and_counted_as_locked() {
    for stack in [None, Some(ours())] {
        on_thread(stack, || {
            let before = stack_residency().unwrap();
            stack_lock().unwrap();
            let after = stack_residency().unwrap();
            assert_eq!(after.resident, before.pages);
            let bounds = stack_getbounds().unwrap();
            assert_eq!(locked(bounds), bounds.size);
            // SAFETY: the memory stays in use, unlocked.
            assert_eq!(unsafe { libc::munlock(ptr::without_provenance(bounds.base), bounds.size) }, 0);
            assert_eq!(locked(bounds), 0);
        });
        stack.into_iter().for_each(free);
    }
}

/// Bytes within the bounds that are marked as locked. (`Locked:` would count half of the memory that a forked test shares.)
fn locked(bounds: StackBounds) -> usize {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut range, mut bytes) = (0..0, 0);
    for line in text.lines() {
        if let Some((begin, end)) = line.split(' ').next().and_then(|word| word.split_once('-')) {
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            range = number(begin)..number(end);
        } else if line.starts_with("VmFlags:") && line.contains(" lo") && bounds.contains(range.start) {
            bytes += range.len();
        }
    }
    bytes
}

#[test]
fn a_stack_is_listed_with_its_guard_and_with_what_is_locked() {
    let stack = ours();
    let base = stack.0.addr().get();
    let flags = StackMapping::READ | StackMapping::WRITE;
    let stack_of = |listed: &[StackMapping]| listed.iter().copied().find(|m| m.address == base).unwrap();
    on_thread(Some(stack), || {
        let before = stack_mappings().unwrap();
        assert!(before[0].has(StackMapping::GUARD) && before[0].end == base, "{before:?}");
        let whole = StackMapping { address: base, end: base + SIZE, flags };
        assert_eq!((stack_of(&before), whole.size()), (whole, SIZE));
        stack_lock().unwrap();
        let after = stack_of(&stack_mappings().unwrap());
        assert_eq!(after, StackMapping { flags: flags | StackMapping::LOCKED, ..whole });
        // SAFETY: the memory stays in use, unlocked.
        assert_eq!(unsafe { libc::munlock(ptr::without_provenance(base), SIZE) }, 0);
    });
    free(stack);
    // Bounds that are not mapped have no mapping.
    on_thread(None, || {
        stack_setbounds(StackBounds { base: 0x10000, size: 0x4000 }).unwrap();
        assert_eq!(stack_mappings().unwrap(), []);
    });
}

#[test]
fn bounds_that_are_not_mapped_are_not_locked() {
    on_thread(None, || {
        stack_setbounds(StackBounds { base: 0x10000, size: 0x4000 }).unwrap();
        assert_eq!(stack_lock().unwrap_err().errno(), libc::ENOMEM);
        assert_eq!(stack_residency().unwrap(), StackResidency { pages: 4, mapped: 0, resident: 0 });
    });
}

#[test]
fn a_limit_on_locked_memory_is_told() {
    let end = child(|| {
        common::limit(libc::RLIMIT_MEMLOCK, 64 << 10);
        common::drop_rights();
        on_thread(None, || i32::from(!matches!(stack_lock(), Err(StackError::LockLimit(_)))))
    });
    assert_eq!(end, End::Exit(0));
}

extern "C" fn judge(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) {
    // SAFETY: the arguments are the kernel's; no clean-up is needed.
    unsafe { libc::_exit(if stack_violation(signal, info, context) { 10 } else { 11 }) }
}

/// The verdict of a handler for a fault of a thread on a stack of this library.
fn judged(knows_bounds: bool, body: impl FnOnce(usize)) -> End {
    child(|| {
        let stack = ours();
        // SAFETY: the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = judge as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut());
        }
        on_thread(Some(stack), || {
            handle_elsewhere();
            if knows_bounds {
                stack_getbounds().unwrap();
            }
            body(stack.0.addr().get());
        });
        0
    })
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "until the stack ends")]
fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 16]);
    recurse(depth + 1) + frame[0]
}

#[test]
fn leaving_the_stack_is_a_violation_and_a_wild_pointer_is_none() {
    let write = |address: usize| {
        // SAFETY: a deliberate fault.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
    };
    for knows_bounds in [true, false] {
        let recursion = judged(knows_bounds, |_| _ = std::hint::black_box(recurse(0)));
        assert_eq!(recursion, End::Exit(10), "recursion, {knows_bounds}");
        assert_eq!(judged(knows_bounds, |_| write(8)), End::Exit(11), "null, {knows_bounds}");
        // Next to the stack, but with the stack pointer far from there: a wild pointer, too.
        assert_eq!(judged(knows_bounds, |base| write(base - 8)), End::Exit(11), "wild, {knows_bounds}");
    }
    // A thread that sets other bounds has left them.
    let elsewhere = judged(true, |_| {
        stack_setbounds(StackBounds { base: 0x10000, size: 0x4000 }).unwrap();
        write(8);
    });
    assert_eq!(elsewhere, End::Exit(10));
}

#[test]
fn a_signal_that_somebody_sent_is_no_violation() {
    // SAFETY: integer arguments only.
    let sent = judged(true, |_| unsafe { _ = libc::raise(libc::SIGSEGV) });
    assert_eq!(sent, End::Exit(11));
    // SAFETY: null is allowed; the record is zeroed.
    unsafe {
        let info: libc::siginfo_t = std::mem::zeroed();
        assert!(!stack_violation(libc::SIGSEGV, ptr::null(), (&raw const info).cast()));
        assert!(!stack_violation(libc::SIGSEGV, &raw const info, ptr::null()));
        assert!(!stack_violation(libc::SIGTERM, &raw const info, (&raw const info).cast()));
    }
}
