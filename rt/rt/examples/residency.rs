//! Resident pages of each kind of stack: untouched, touched, and locked. This is experiment E7 on Linux.
//!
//! ```text
//! cargo run --manifest-path rt/Cargo.toml -p millpond-rt --example residency
//! ```

#![allow(clippy::print_stdout)]

use libc::c_void;
use millpond_rt::{stack_alloc, stack_free, stack_getbounds, stack_lock, stack_mappings, stack_residency};
use std::ptr;

/// In bytes; one of `fetch_stack_sizes`.
const SIZE: usize = 64 << 10;

fn show(when: &str) {
    match stack_residency() {
        Ok(found) => {
            println!(
                "  {when:<24}{:>6} of {:>6} pages that exist, of {:>6}",
                found.resident, found.mapped, found.pages
            );
        }
        Err(error) => println!("  {when:<24}{error}"),
    }
}

/// Address, end, size in bytes and flags of each mapping.
fn list() {
    match stack_mappings() {
        Ok(mappings) => mappings.iter().for_each(|mapping| println!("  {mapping}")),
        Err(error) => println!("  {error}"),
    }
}

/// Touches the lowest byte of the caller's stack, then locks it.
fn look(kind: &str) {
    println!("{kind}");
    show("before");
    if let Ok(bounds) = stack_getbounds() {
        // SAFETY: the lowest byte of this thread's own stack, which nothing uses.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(bounds.base).write_volatile(1) };
        show("lowest byte touched");
    }
    match stack_lock() {
        Ok(()) => show("locked"),
        Err(error) => println!("  locked: {error}"),
    }
    list();
}

extern "C" fn usual(_: *mut c_void) -> *mut c_void {
    look("a usual thread's stack");
    ptr::null_mut()
}

extern "C" fn ours(_: *mut c_void) -> *mut c_void {
    look("a stack of stack_alloc");
    ptr::null_mut()
}

fn main() -> Result<(), millpond_rt::StackError> {
    look("the main stack");
    let stack = stack_alloc(SIZE)?;
    // SAFETY: attributes are initialised before they are used, and both threads are joined.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        let mut thread: libc::pthread_t = std::mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        if libc::pthread_create(&raw mut thread, &raw const attributes, usual, ptr::null_mut()) == 0 {
            libc::pthread_join(thread, ptr::null_mut());
        }
        libc::pthread_attr_setstack(&raw mut attributes, stack.as_ptr().cast(), SIZE);
        if libc::pthread_create(&raw mut thread, &raw const attributes, ours, ptr::null_mut()) == 0 {
            libc::pthread_join(thread, ptr::null_mut());
        }
        libc::pthread_attr_destroy(&raw mut attributes);
        stack_free(stack.as_ptr(), SIZE)
    }
}
