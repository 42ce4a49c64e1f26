//! The calling thread's kernel ID, cached for each thread.

use crate::own::word_of_thread;
use std::ptr;

word_of_thread!("millpond_rt_thread_number");

/// The kernel's thread ID, read once.
pub(crate) fn number() -> u32 {
    match known() {
        0 => ask(),
        known => known,
    }
}

/// The cached ID; 0: none.
fn known() -> u32 {
    u32::try_from(get().addr()).unwrap_or_default()
}

#[cold]
fn ask() -> u32 {
    loop {
        let number = kernels();
        set(ptr::without_provenance_mut(number as usize));
        // A signal handler may have forked in between, and this is the child.
        if kernels() == number {
            return number;
        }
    }
}

fn kernels() -> u32 {
    // SAFETY: the call has no effect.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    u32::try_from(number).unwrap_or_default()
}

/// For the child of a fork, whose thread has a new ID: clears the cached ID and returns it; 0 if there was none.
pub(crate) fn renew() -> u32 {
    let before = known();
    set(ptr::null_mut());
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_number_and_asks_again_when_it_forgot() {
        let mine = number();
        assert_eq!(mine, kernels());
        std::thread::spawn(move || {
            assert_eq!((known(), number()), (0, kernels()));
            assert_ne!(number(), mine);
            assert_eq!(renew(), kernels());
            assert_eq!((known(), number()), (0, kernels()));
        })
        .join()
        .unwrap();
        assert_eq!(known(), mine);
    }
}
