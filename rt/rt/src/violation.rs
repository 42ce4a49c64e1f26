//! Classifies a fault as a stack overflow or underflow, in signal handlers.

use crate::bounds::{Record, StackBounds, record};
use crate::stacks;
use libc::{c_int, c_void};

/// Maximum distance below the stack pointer at which an instruction may write, in bytes. On x86-64 a leaf function uses 128 bytes there (the red
/// zone of the System V calling convention), and a push is within them. On 64-bit ARM a store that moves the stack pointer by up to 512 bytes
/// faults before it has moved.
const BELOW: usize = if cfg!(target_arch = "aarch64") { 512 } else { 128 };

/// Whether a fault looks as if the calling thread had left its stack. For a handler of `SIGSEGV` or `SIGBUS` that runs on an alternate stack
/// (`sigaltstack`), with the arguments that the kernel passed to it.
///
/// False for other signals, null pointers and signals that a program sent. The address to check is the stack pointer of the interrupted code, or
/// the address of the fault if that is directly below it, where a push or a leaf function writes. The thread has left its stack if the address is
/// outside its bounds. These are the thread's cached bounds. (On Linux, unlike Solaris, the context describes the alternate stack only.) For a
/// thread without cached bounds they are those of the stack of this library that contains or adjoins the stack pointer or the address. If there
/// is no such stack, the result is false.
///
/// It makes no system call and allocates nothing.
///
/// # Safety
/// `info` and `context` are null, or the arguments of a handler that was set with `SA_SIGINFO`.
#[must_use]
pub unsafe fn stack_violation(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) -> bool {
    if !matches!(signal, libc::SIGSEGV | libc::SIGBUS) || context.is_null() {
        return false;
    }
    // SAFETY: null, or valid by the caller's promise.
    let Some(info) = (unsafe { info.as_ref() }) else { return false };
    // Signals of the kernel have a positive code.
    if info.si_code <= 0 {
        return false;
    }
    // SAFETY: the record is that of a fault, which has an address. The context is not null, and valid by the caller's promise.
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

/// Stack pointer of the interrupted code.
///
/// # Safety
/// `context` is the argument that the kernel passed to a handler.
#[cfg(target_arch = "x86_64")]
unsafe fn stack_pointer(context: *const c_void, _: usize) -> usize {
    // SAFETY: valid by the caller's promise.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    usize::try_from(registers[libc::REG_RSP as usize].cast_unsigned()).unwrap_or_default()
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
unsafe fn stack_pointer(context: *const c_void, _: usize) -> usize {
    // SAFETY: valid by the caller's promise.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.sp as usize }
}

/// Without knowledge of the registers, the address of the fault is used.
///
/// # Safety
/// No requirements.
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
