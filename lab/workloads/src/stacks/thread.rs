//! A thread on a given stack, and memory for a stack.

use crate::Error;
use libc::{c_int, c_void};
use std::io;
use std::ptr::{self, NonNull};

/// Runs `body` on a thread, on the given stack or on one of the C library's; returns its result.
///
/// The standard library's threads are not suitable: their stacks have another size, and more of their pages are touched.
pub(super) fn on_thread<T: Send>(
    stack: Option<(NonNull<u8>, usize)>,
    body: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    let failed = |errno| Error::StartThread { index: 0, of: 1, source: io::Error::from_raw_os_error(errno) };
    let (mut body, mut result) = (Some(body), None);
    let mut run = || result = body.take().map(|body| body());
    let mut call: &mut (dyn FnMut() + Send) = &mut run;
    // SAFETY: the attributes are initialised before use. The caller's stack and `call` outlive the thread, which is joined; only the thread
    // uses them until then.
    let errno = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        match libc::pthread_attr_init(&raw mut attributes) {
            0 => {}
            errno => return Err(failed(errno)),
        }
        let chosen = stack.map_or(0, |(begin, bytes)| {
            libc::pthread_attr_setstack(&raw mut attributes, begin.as_ptr().cast(), bytes)
        });
        let errno = if chosen == 0 { create_and_join(&attributes, (&raw mut call).cast()) } else { chosen };
        libc::pthread_attr_destroy(&raw mut attributes);
        errno
    };
    // Set by the thread, if it was created.
    result.ok_or_else(|| failed(errno))
}

/// # Safety
/// `call` is a `&mut (dyn FnMut() + Send)` that lives, and that no other thread uses, until this returns.
unsafe fn create_and_join(attributes: &libc::pthread_attr_t, call: *mut c_void) -> c_int {
    // SAFETY: all zeros is a valid thread id, which is written before it is used; the attributes were initialised.
    unsafe {
        let mut thread: libc::pthread_t = std::mem::zeroed();
        match libc::pthread_create(&raw mut thread, attributes, begin, call) {
            0 => libc::pthread_join(thread, ptr::null_mut()),
            errno => errno,
        }
    }
}

extern "C" fn begin(call: *mut c_void) -> *mut c_void {
    // SAFETY: it is the call of the thread that waits for this one.
    unsafe { (*call.cast::<&mut (dyn FnMut() + Send)>())() };
    ptr::null_mut()
}

/// Memory whose pages have all been written, unmapped when it is dropped.
pub(super) struct Memory {
    begin: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Result<Memory, Error> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the kernel's choice affects no other memory.
        let begin = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags | libc::MAP_STACK, -1, 0) };
        let begin = match NonNull::new(begin) {
            Some(begin) if begin.as_ptr() != libc::MAP_FAILED => begin.cast::<u8>(),
            _ => return Err(Error::MapStack { bytes, source: io::Error::last_os_error() }),
        };
        for at in (0..bytes).step_by(rustix::param::page_size()) {
            // SAFETY: within the mapping, which is ours and writable.
            unsafe { begin.add(at).write_volatile(1) };
        }
        Ok(Memory { begin, bytes })
    }

    pub(super) fn begin(&self) -> NonNull<u8> {
        self.begin
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it is ours, and the thread that ran on it was joined.
        unsafe { libc::munmap(self.begin.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_on_the_stack_that_it_is_given() {
        let memory = Memory::new(1 << 18).unwrap();
        let begin = memory.begin().addr().get();
        let here = on_thread(Some((memory.begin(), 1 << 18)), || {
            let here = 0u8;
            (&raw const here).addr()
        });
        assert!((begin..begin + (1 << 18)).contains(&here.unwrap()));
    }

    #[test]
    fn a_stack_that_is_too_small_is_refused() {
        let memory = Memory::new(4096).unwrap();
        let refused = on_thread(Some((memory.begin(), 4096)), || ()).unwrap_err();
        assert_eq!(refused.to_string(), "cannot start thread 0 of 1");
        assert_eq!(
            std::error::Error::source(&refused).unwrap().to_string(),
            "Invalid argument (os error 22)"
        );
    }

    #[test]
    fn memory_that_cannot_be_had_is_told() {
        let refused = Memory::new(1 << 60).map(|_| ()).unwrap_err();
        assert_eq!(refused.to_string(), "cannot map a stack of 1152921504606846976 bytes");
    }
}
