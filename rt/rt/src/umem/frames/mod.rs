//! Stack traces: the return addresses on the stack of the calling thread, in some hundred nanoseconds, without allocation, and without frame pointers.
//!
//! # Terms
//!
//! * A *place*: an address of code. The place of a return address is the byte before it, which belongs to the call.
//! * A *row*: how the caller's stack pointer, frame pointer and return address are found from one place ([`row`]).
//! * A *module*: the program or a library ([`modules`]), with call frame information of its functions.
//!
//! ```text
//!  place ──▶ cache of rows ──────────────────────────────▶ row ──▶ two words of the stack ──▶ the caller's place
//!               │ the first time                            ▲
//!               └─▶ module ─▶ entry of its function ─▶ program of the entry, executed up to the place
//! ```
//!
//! On x86-64 compilers omit frame pointers, and describe each place in `.eh_frame`. A row is worked out once and kept in a table of words ([`cache`]); from
//! then on a frame costs a multiplication and four reads. On 64-bit ARM there are frame pointers ([`chain`]).
//!
//! All input is untrusted: bytes of a module are read with bounds ([`bytes`], [`index`], [`program`]), words of the stack only where memory is readable
//! ([`stack`]), and each caller's frame lies above its callee's. The walk ends at what it does not understand and at code without call frame
//! information. From a signal handler it goes on into the interrupted function.
//!
//! # What callers must do
//!
//! * Hold no lock that an allocation needs, where glibc is older than 2.35: modules are found under the dynamic linker's lock then.
//! * Call [`after_fork`] in the child of a fork. Without it frames that are new would be worked out each time.
//!
//! A thread's first call touches a thread-local variable. In a library that was opened after the program began the C library may allocate for it.
//!
//! # Limits
//!
//! A trace ends at code without call frame information: code that a program generated, assembly without directives, and programs that gcc links
//! statically at a fixed address. So does a frame of more than 2 MB.
//!
//! Rows of an unloaded library are forgotten when a walk gets lost by one, or when a module at the same addresses is used. Until then a trace may be
//! wrong there, but is never unsafe. Modules are told apart by addresses and build id (or samples of their table).
//!
//! A wrong row can lead to a word that looks like an address of a module. If another thread unloads that module at that moment, reading its table
//! faults. Every unwinder has that.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod bytes;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod cache;
#[cfg(all(any(target_arch = "aarch64", test), not(miri)))]
mod chain;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod index;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod modules;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod program;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod row;
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod stack;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod walk;

/// Fills `frames` with return addresses, the innermost first, and gives how many there are. The first is in the function that calls this; fewer than there is room
/// for: there are no more, or the walk could not go on.
///
/// It allocates nothing, takes no lock (but see the head of the file), changes no errno, and may be called in signal handlers.
#[inline(always)]
pub(crate) fn capture(frames: &mut [usize]) -> usize {
    // SAFETY: so many addresses may be written there.
    unsafe { begin(frames.as_mut_ptr(), frames.len()) }
}

pub(crate) fn after_fork() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    cache::after_fork();
}

/// Goes on in [`walk::walk`] with the registers as they are in this very moment: what the stack pointer points to is where this call returns.
///
/// # Safety
/// `count` addresses may be written to `frames`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[unsafe(naked)]
unsafe extern "C" fn begin(frames: *mut usize, count: usize) -> usize {
    core::arch::naked_asm!("mov rdx, rsp", "mov rcx, rbp", "jmp {walk}", walk = sym walk::walk)
}

/// The same by the link register, the frame pointer and the stack pointer.
///
/// # Safety
/// As above.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[unsafe(naked)]
unsafe extern "C" fn begin(frames: *mut usize, count: usize) -> usize {
    /// # Safety
    /// As above.
    unsafe extern "C" fn walk(
        frames: *mut usize,
        count: usize,
        place: usize,
        pointer: usize,
        stack: usize,
    ) -> usize {
        // SAFETY: our caller promises it.
        let frames = unsafe { std::slice::from_raw_parts_mut(frames, count) };
        chain::follow(frames, place, pointer, stack)
    }
    core::arch::naked_asm!("mov x2, x30", "mov x3, x29", "mov x4, sp", "b {walk}", walk = sym walk)
}

/// Elsewhere stacks are not read.
///
/// # Safety
/// None is needed.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn begin(_: *mut usize, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests;
