//! Children that may be killed, and threads on given stacks.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

pub mod compiled;
pub mod said;

use libc::{c_int, c_void};
use std::ptr::{self, NonNull};

/// The end of a child.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// It exited with this status.
    Exit(c_int),
    /// This signal killed it.
    Signal(c_int),
}

/// Runs `body` in a forked child. Its result is the status; a panic is 101.
///
/// Only the calling thread exists in the child: `body` allocates little and waits for no other thread of the tests.
pub fn child(body: impl FnOnce() -> c_int) -> End {
    // SAFETY: the child is a copy of this thread, and exits below.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|panic| {
            // The harness buffers output, which is lost with the child. The panic hook has a lock, which another thread may hold.
            let said = panic.downcast_ref::<String>().map_or("in a child: it panicked", String::as_str);
            // SAFETY: the text lives longer than the call.
            unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
            101
        });
        // SAFETY: without clean-up, so that nothing of the parent is cleaned up twice.
        unsafe { libc::_exit(status) }
    }
    let mut status = 0;
    // SAFETY: the child is this process's.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Exit(libc::WEXITSTATUS(status))
    }
}

/// The address of a fault that kills a child.
///
/// The handler writes the address of the first SIGSEGV to a pipe. Then the signal has its default effect.
pub fn address_of_death(body: impl FnOnce()) -> (usize, End) {
    let mut pipe = [0; 2];
    // SAFETY: the call writes to the array.
    assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    let end = child(|| {
        PIPE.store(pipe[1], std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = tell_address as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
        }
        body();
        0
    });
    let mut address = [0u8; size_of::<usize>()];
    // SAFETY: the pipe is this function's. Its write end is closed first, so that the read ends if the child wrote nothing.
    let read = unsafe {
        libc::close(pipe[1]);
        let read = libc::read(pipe[0], address.as_mut_ptr().cast(), address.len());
        libc::close(pipe[0]);
        read
    };
    assert_eq!(read, 8, "the child met no fault: {end:?}");
    (usize::from_ne_bytes(address), end)
}

static PIPE: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(-1);

extern "C" fn tell_address(_: c_int, info: *const libc::siginfo_t, _: *const c_void) {
    // SAFETY: the kernel passes a record of the fault; `write` is async-signal-safe.
    unsafe {
        let address = (*info).si_addr().addr();
        libc::write(PIPE.load(std::sync::atomic::Ordering::Relaxed), (&raw const address).cast(), 8);
    }
}

/// Sets an alternate signal stack for the calling thread: after a stack overflow its own has no room for a handler.
pub fn handle_elsewhere() {
    let memory: &'static mut [u8] = vec![0; 64 << 10].leak();
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: the memory is never freed.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) }, 0);
}

/// Runs `body` in a thread, on the given stack or on one of the C library, and returns its result.
pub fn on_thread<T>(stack: Option<(NonNull<u8>, usize)>, body: impl FnOnce() -> T) -> T {
    extern "C" fn start(call: *mut c_void) -> *mut c_void {
        // SAFETY: it is the closure of the thread that waits for this one.
        unsafe { (*call.cast::<&mut dyn FnMut()>())() };
        ptr::null_mut()
    }
    let (mut body, mut result) = (Some(body), None);
    let mut run = || result = body.take().map(|body| body());
    let mut call: &mut dyn FnMut() = &mut run;
    // SAFETY: the attributes are initialised before use; the thread is joined before `call` and the stack are dropped.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&raw mut attributes), 0);
        if let Some((address, size)) = stack {
            assert_eq!(libc::pthread_attr_setstack(&raw mut attributes, address.as_ptr().cast(), size), 0);
        }
        let mut thread: libc::pthread_t = std::mem::zeroed();
        let call: *mut c_void = (&raw mut call).cast();
        assert_eq!(libc::pthread_create(&raw mut thread, &raw const attributes, start, call), 0);
        assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    result.unwrap()
}

/// An address near the end of the caller's stack.
#[inline(never)]
pub fn here() -> usize {
    let here = 0u8;
    std::hint::black_box(&raw const here).addr()
}

pub fn page_size() -> usize {
    // SAFETY: the call has no effect.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
}

/// Writes to each page from `low` up to the caller's own frame, the highest first.
pub fn touch_down_to(low: usize) {
    let page = page_size();
    // Nearer pages may be in use by this function and its callees.
    let mut at = (here() - 16 * 1024) / page * page;
    while at >= low {
        // SAFETY: it is on the caller's stack, below the part that is in use.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1) };
        at -= page;
    }
}

/// Minor page faults of the calling thread.
pub fn faults() -> i64 {
    // SAFETY: `usage` is writable.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt
    }
}

/// Sets the soft and hard limit of the calling process.
pub fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: `limit` is readable.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// Drops root rights of the calling process, a child, so that limits apply to it.
pub fn drop_rights() {
    // SAFETY: integer arguments only.
    assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
}

/// Reproducible pseudo-random numbers (Marsaglia's xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}
