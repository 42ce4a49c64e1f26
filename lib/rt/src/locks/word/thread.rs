//! The calling thread's number.

use std::cell::Cell;

thread_local! {
    // Nothing to be made at first use and nothing to be cleaned up: an allocator uses it in threads that are about to end.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// As the kernel knows it; asked once.
pub(crate) fn number() -> u32 {
    match NUMBER.get() {
        0 => ask(),
        known => known,
    }
}

#[cold]
fn ask() -> u32 {
    // SAFETY: it only asks.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    let number = u32::try_from(number).unwrap_or_default();
    NUMBER.set(number);
    number
}

/// It has become another one.
pub(super) fn forget() {
    NUMBER.set(0);
}
