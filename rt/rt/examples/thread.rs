//! A thread on a stack without page faults: the same loop on a usual stack and on such a stack, with its page faults.
//!
//! ```text
//! cargo run --manifest-path rt/Cargo.toml -p millpond-rt --example thread
//! ```

#![allow(clippy::print_stdout)]

use libc::c_void;
use millpond_rt::{stack_alloc, stack_free};
use std::error::Error;
use std::io;
use std::ptr;

/// In bytes; one of `fetch_stack_sizes`.
const SIZE: usize = 256 << 10;

/// Uses half of its stack, and returns the number of page faults.
extern "C" fn work(_: *mut c_void) -> *mut c_void {
    let before = faults();
    go_deep();
    ptr::without_provenance_mut(faults() - before)
}

/// A separate function, because a frame's pages are faulted in when its function begins.
#[inline(never)]
fn go_deep() {
    std::hint::black_box([1u8; SIZE / 2]);
}

fn faults() -> usize {
    // SAFETY: an all-zero record is valid, and the call writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usize::try_from(usage.ru_minflt).unwrap_or(0)
}

fn check(errno: i32) -> io::Result<()> {
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

/// Runs [`work`] on a thread and returns its result.
fn run(stack: Option<*mut u8>) -> io::Result<usize> {
    // SAFETY: the attributes are initialised before use, and the thread is joined before anything is dropped.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        check(libc::pthread_attr_init(&raw mut attributes))?;
        if let Some(stack) = stack {
            check(libc::pthread_attr_setstack(&raw mut attributes, stack.cast(), SIZE))?;
        }
        let mut thread: libc::pthread_t = std::mem::zeroed();
        check(libc::pthread_create(&raw mut thread, &raw const attributes, work, ptr::null_mut()))?;
        let mut result = ptr::null_mut();
        check(libc::pthread_join(thread, &raw mut result))?;
        check(libc::pthread_attr_destroy(&raw mut attributes))?;
        Ok(result.addr())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("page faults on a usual stack: {}", run(None)?);
    let stack = stack_alloc(SIZE)?;
    println!("page faults on ours: {}", run(Some(stack.as_ptr()))?);
    // SAFETY: its thread was joined.
    unsafe { stack_free(stack.as_ptr(), SIZE)? };
    Ok(())
}
