//! Hooks of a program: the linker finds them, and the environment takes precedence.

#![allow(clippy::unwrap_used)]

use libc::c_char;
use millpond_rt::umem_alloc;
use std::process::Command;

/// The pattern of a new buffer of a cache with checks (libumem's).
const UNINITIALISED: u64 = 0xbadd_cafe_badd_cafe;

#[unsafe(no_mangle)]
extern "C" fn _umem_debug_init() -> *const c_char {
    c"guards".as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn _umem_logging_init() -> *const c_char {
    std::ptr::null()
}

fn first_word() -> u64 {
    // SAFETY: the buffer has sixteen bytes. If the allocator checks, it has written a pattern; otherwise the value is arbitrary.
    unsafe { umem_alloc(16, 0).cast::<u64>().read() }
}

#[test]
fn a_program_says_what_is_checked() {
    let is_ruled = std::env::var_os("UMEM_DEBUG").is_some();
    assert_eq!(first_word() == UNINITIALISED, !is_ruled);
}

#[test]
fn a_variable_that_is_set_wins_even_with_nothing_in_it() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let out =
        child.args(["--exact", "a_program_says_what_is_checked"]).env("UMEM_DEBUG", "").output().unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("1 passed"), "{said}");
}
