//! Stack traces: the return addresses on the stack of the calling thread, in some hundred nanoseconds, without allocation, and without frame pointers.
//!
//! ```
//! let mut frames = [0; 32];
//! let count = millpond_unwind::capture(&mut frames);
//! for address in &frames[..count] {
//!     println!("{address:#x}"); // the innermost first
//! }
//! ```
//!
//! It is made for allocators, tracers and signal handlers: code that must not allocate, wait or fault. Names of functions are not looked up here.
//!
//! # Promises
//!
//! * [`capture`] allocates nothing, changes no errno, and waits for no other thread. Signal handlers may call it, also one that interrupted a [`capture`].
//! * It never touches memory that cannot be read, whatever is on the stack and in the call frame information. The last two limits below are the exceptions.
//! * It ends: each caller's frame lies above its callee's, or on the stack that a signal interrupted, and there are no more frames than room for them.
//! * It needs the C library and nothing else.
//!
//! # Errors
//!
//! There are none. A walk that cannot go on ends, and the trace is shorter.
//!
//! # Cost
//!
//! A frame costs a few nanoseconds once its row is known, and some microseconds the first time. The tables take 137 KB, and each thread has
//! 24 bytes. `examples/frames.rs` measures it and libgcc's unwinder.
//!
//! # What callers must do
//!
//! * Hold no lock that an allocation needs, where glibc is older than 2.35: modules are found under the dynamic linker's lock then.
//! * Call [`after_fork`] in the child of a fork. Without it frames that are new could be worked out each time.
//!
//! A thread's first call touches a thread-local variable. In a library that was opened after the program began the C library may allocate for it.
//!
//! # Limits
//!
//! Stacks are read on x86-64 and 64-bit ARM. Elsewhere, and under miri, traces are empty.
//!
//! A trace ends at code without call frame information: code that a program generated, assembly without directives, and programs that gcc links
//! statically at a fixed address. So does a frame of more than 2 MB.
//!
//! Rows of an unloaded library are forgotten when a walk gets lost by one, or when a module at the same addresses is used. Until then a trace may be
//! wrong there, but is never unsafe. Modules are told apart by addresses and build id (or samples of their table).
//!
//! A stack right below a thread's own, with no unreadable page between, is taken for a part of it. Reading there faults if it was unmapped in part. The C
//! library puts a guard below each of its stacks, the kernel a gap below the main stack.
//!
//! A wrong row can lead to a word that looks like an address of a module. If another thread unloads that module at that moment, reading its table
//! faults. Every unwinder has that.
//!
//! # How it works
//!
//! * A *place*: an address of code. The place of a return address is the byte before it, which belongs to the call.
//! * A *row*: how the caller's stack pointer, frame pointer and return address are found from one place (`row.rs`).
//! * A *module*: the program or a library (`modules.rs`), with call frame information of its functions.
//!
//! ```text
//!  place ──▶ cache of rows ──────────────────────────────▶ row ──▶ two words of the stack ──▶ the caller's place
//!               │ the first time                            ▲
//!               └─▶ module ─▶ entry of its function ─▶ program of the entry, executed up to the place
//! ```
//!
//! On x86-64 compilers omit frame pointers, and describe each place in `.eh_frame`. A row is worked out once and kept in a table of words (`cache.rs`); from
//! then on a frame costs a multiplication and four reads. On 64-bit ARM there are frame pointers (`chain.rs`).
//!
//! All input is untrusted: bytes of a module are read with bounds (`bytes.rs`, `index.rs`, `program.rs`), words of the stack only where memory is readable
//! (`stack.rs`), and each caller's frame lies above its callee's. The walk ends at what it does not understand and at code without call frame
//! information. From a signal handler it goes on into the interrupted function.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "addresses wrap, and parts of words are taken by masks"
)]

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
/// It allocates nothing, takes no lock (but see the head of the crate), changes no errno, and may be called in signal handlers.
#[inline(always)]
pub fn capture(frames: &mut [usize]) -> usize {
    // SAFETY: so many addresses may be written there.
    unsafe { begin(frames.as_mut_ptr(), frames.len()) }
}

/// To be called in the child of a fork: a thread of the parent may have been working out a row, and there is none here to finish it.
///
/// It stores one word, and may be called in handlers of `pthread_atfork` and in signal handlers.
pub fn after_fork() {
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
