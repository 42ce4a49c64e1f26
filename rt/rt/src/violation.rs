//! Whether a fault was the end of a stack: for signal handlers.

use crate::bounds::{Record, StackBounds, record};
use crate::stacks;
use libc::{c_int, c_void};

/// How far below the stack pointer an instruction may write, in bytes. On x86-64 a function that calls no other uses 128 bytes there (the red
/// zone of the System V calling convention), and a push is within them; on 64-bit ARM a store that moves the stack pointer by up to 512
/// bytes faults before it has moved.
const BELOW: usize = if cfg!(target_arch = "aarch64") { 512 } else { 128 };

/// Whether a fault looks as if the calling thread had left its stack. For a handler of `SIGSEGV` or `SIGBUS` that runs on a stack of its own
/// (`sigaltstack`), with what the kernel gave it.
///
/// False for other signals, for null pointers and for a signal that a program sent. What is looked at is the stack pointer of the interrupted
/// code, or the address of the fault when that lies right below it, where a push or a leaf function writes; the stack is left when that is outside
/// its bounds. These are the thread's record (other than on Solaris: on Linux the context names the alternate stack only); for a thread that
/// never asked for it, the stack of ours that stack pointer or address are in or beside. Neither: false.
///
/// It makes no system call and allocates nothing.
///
/// # Safety
/// `info` and `context` are null, or what the kernel gave a handler that was set with `SA_SIGINFO`.
#[must_use]
pub unsafe fn stack_violation(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) -> bool {
    if !matches!(signal, libc::SIGSEGV | libc::SIGBUS) || context.is_null() {
        return false;
    }
    // SAFETY: null, or our caller promises it.
    let Some(info) = (unsafe { info.as_ref() }) else { return false };
    // What the kernel itself found has a positive code.
    if info.si_code <= 0 {
        return false;
    }
    // SAFETY: the record is that of a fault, which has an address; the context is not null, and our caller promises the rest.
    let (fault, pointer) = unsafe { (info.si_addr().addr(), stack_pointer(context, info.si_addr().addr())) };
    let bounds = match record() {
        Record::Asked(bounds) | Record::Set(bounds) => Some(bounds),
        Record::Unknown => stacks::beside(pointer).or_else(|| stacks::beside(fault)),
    };
    bounds.is_some_and(|bounds| leaves(bounds, pointer, fault))
}

fn leaves(bounds: StackBounds, pointer: usize, fault: usize) -> bool {
    let is_push = (1..=BELOW).contains(&pointer.wrapping_sub(fault));
    !bounds.contains(if is_push { fault } else { pointer })
}

/// The stack pointer of the interrupted code.
///
/// # Safety
/// `context` is what the kernel gave a handler.
#[cfg(target_arch = "x86_64")]
unsafe fn stack_pointer(context: *const c_void, _: usize) -> usize {
    // SAFETY: our caller promises it.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    usize::try_from(registers[libc::REG_RSP as usize].cast_unsigned()).unwrap_or_default()
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn stack_pointer(context: *const c_void, _: usize) -> usize {
    // SAFETY: our caller promises it.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.sp as usize }
}

/// Where nothing is known of the registers, the address of the fault is all there is.
///
/// # Safety
/// None is needed.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn stack_pointer(_: *const c_void, fault: usize) -> usize {
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: StackBounds = StackBounds { base: 0x10000, size: 0x8000 };

    #[test]
    fn the_stack_pointer_tells_unless_the_fault_is_right_below_it() {
        assert!(!leaves(STACK, 0x12000, 0), "a null pointer, followed by healthy code");
        assert!(leaves(STACK, 0x0fff0, 0x0fff0), "a frame that begins below");
        assert!(leaves(STACK, 0x10000, 0x0fff8), "a push at the end");
        assert!(leaves(STACK, 0x10040, 0x10040 - BELOW), "a leaf at the end");
        assert!(!leaves(STACK, 0x12000, 0x12000 - 8), "a push far from the end");
        assert!(!leaves(STACK, 0x10000 + BELOW, 0x0fff8 - BELOW), "a wild pointer, not a push");
        assert!(leaves(STACK, 0x18000, 0x18000), "beyond the upper end");
    }
}
