//! Stack traces: return addresses of the calling thread's stack, in a few hundred nanoseconds, without allocation and without frame pointers.
//!
//! ```
//! let mut frames = [0; 32];
//! let count = millpond_unwind::capture(&mut frames);
//! for address in &frames[..count] {
//!     println!("{address:#x}"); // the innermost first
//! }
//! ```
//!
//! It is made for allocators, tracers and signal handlers: code that must not allocate, wait or fault. It does not look up the names of functions.
//!
//! # Guarantees
//!
//! * [`capture`] allocates nothing, preserves errno, and waits for no other thread. Signal handlers may call it, also one that interrupted a
//!   [`capture`].
//! * It never accesses unreadable memory, whatever the stack and the call frame information contain. The last two limits below are the exceptions.
//! * It terminates: the frame of each caller is above that of its callee, or on the stack that a signal interrupted, and the number of frames is
//!   limited.
//! * It needs the C library only.
//!
//! # Errors
//!
//! There are no errors. If a walk cannot continue, the trace is shorter.
//!
//! # Cost
//!
//! A frame costs a few nanoseconds if its row is cached, and some microseconds the first time. The tables take 137 KB, and each thread has
//! 24 bytes. `examples/frames.rs` compares it with libgcc's unwinder.
//!
//! # What callers must do
//!
//! * With glibc before 2.35, hold no lock that an allocation needs: modules are then found under the dynamic linker's lock.
//! * Call [`after_fork`] in the child of a fork. Otherwise new rows might never be cached there.
//!
//! A thread's first call accesses a thread-local variable. In a library that was loaded by `dlopen` the C library may allocate memory for it.
//!
//! # Limits
//!
//! Stacks are read on x86-64 and 64-bit ARM. Traces are empty on other architectures and under miri.
//!
//! A trace ends at code without call frame information: generated code, assembly without directives, and programs that gcc links statically at a
//! fixed address. It also ends at a frame of more than 2 MB.
//!
//! Rows of an unloaded library are cleared when a walk fails with one, or when a module at the same addresses is used. Until then a trace may be
//! wrong there, but never unsafe. Modules are distinguished by addresses and build ID (or samples of their table).
//!
//! A stack directly below a thread's own, without an unreadable page between them, counts as a part of it. Reading there faults if a part of it was
//! unmapped. The C library puts a guard below each of its stacks, the kernel a gap below the main stack.
//!
//! A wrong row can lead to a word that looks like an address of a module. If another thread unloads that module at that moment, reading its table
//! faults. Every unwinder has this limit.
//!
//! # How it works
//!
//! * A *place*: an address of code. The place of a return address is the byte before it, which belongs to the call.
//! * A *row*: the rules that give the caller's stack pointer, frame pointer and return address at one place (`row.rs`).
//! * A *module*: the program or a library (`modules.rs`), with call frame information of its functions.
//!
//! ```text
//!  place ──▶ cache of rows ──────────────────────────────▶ row ──▶ two words of the stack ──▶ the caller's place
//!               │ the first time                            ▲
//!               └─▶ module ─▶ entry of its function ─▶ program of the entry, executed up to the place
//! ```
//!
//! On x86-64 compilers omit frame pointers, and describe each place in `.eh_frame`. A row is computed once and cached in a table of words
//! (`cache.rs`). Then a frame costs a multiplication and four reads. On 64-bit ARM there are frame pointers (`chain.rs`).
//!
//! All input is untrusted. Bytes of a module are read with bounds checks (`bytes.rs`, `index.rs`, `program.rs`), words of the stack only from
//! readable memory (`stack.rs`), and the frame of each caller must be above that of its callee. The walk ends at unsupported rules and at code
//! without call frame information. From a signal handler it continues in the interrupted function.

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

/// Fills `frames` with return addresses, the innermost first, and returns their number. The first is in the function that calls this. If there are
/// fewer than `frames.len()`, there are no more, or the walk could not continue.
///
/// It allocates nothing, takes no lock (see the head of the crate for old glibc), preserves errno, and may be called in signal handlers.
#[inline(always)]
pub fn capture(frames: &mut [usize]) -> usize {
    // SAFETY: `frames` is writable.
    unsafe { begin(frames.as_mut_ptr(), frames.len()) }
}

/// To be called in the child of a fork: a thread of the parent may have been storing a row, which cannot be completed here.
///
/// It stores one word, and may be called in handlers of `pthread_atfork` and in signal handlers.
pub fn after_fork() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    cache::after_fork();
}

/// Jumps to [`walk::walk`] with the current registers. The stack pointer points to the return address of this call.
///
/// # Safety
/// `frames` has room for `count` addresses.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[unsafe(naked)]
unsafe extern "C" fn begin(frames: *mut usize, count: usize) -> usize {
    core::arch::naked_asm!("mov rdx, rsp", "mov rcx, rbp", "jmp {walk}", walk = sym walk::walk)
}

/// The same with the link register, the frame pointer and the stack pointer.
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
        // SAFETY: by the caller's promise.
        let frames = unsafe { std::slice::from_raw_parts_mut(frames, count) };
        chain::follow(frames, place, pointer, stack)
    }
    core::arch::naked_asm!("mov x2, x30", "mov x3, x29", "mov x4, sp", "b {walk}", walk = sym walk)
}

/// Other architectures are not supported.
///
/// # Safety
/// No requirements.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
unsafe fn begin(_: *mut usize, _: usize) -> usize {
    0
}

#[cfg(test)]
mod tests;
