//! Children that may die, and threads on stacks of their choice.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

pub mod compiled;
pub mod said;

use libc::{c_int, c_void};
use std::ptr::{self, NonNull};

/// How a child ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with that status.
    Exit(c_int),
    /// By that signal.
    Signal(c_int),
}

/// Runs `body` in a forked child. Its status is what `body` gives; a panic is 101.
///
/// Only the calling thread exists in the child: `body` allocates little and waits for no other thread of the tests.
pub fn child(body: impl FnOnce() -> c_int) -> End {
    // SAFETY: the child runs on as a copy of this thread, and ends below.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork: {}", std::io::Error::last_os_error());
    if pid == 0 {
        let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|panic| {
            // What the harness would keep for later is lost with the child. The hook of panics has a lock, which another thread may have had.
            let said = panic.downcast_ref::<String>().map_or("in a child: it panicked", String::as_str);
            // SAFETY: the text lives that long.
            unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
            101
        });
        // SAFETY: nothing of the parent's is cleaned up twice.
        unsafe { libc::_exit(status) }
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFSIGNALED(status) {
        End::Signal(libc::WTERMSIG(status))
    } else {
        End::Exit(libc::WEXITSTATUS(status))
    }
}

/// Where a child died by a fault.
///
/// The address of the first SIGSEGV is told through a pipe; then the signal does what it does without a handler.
pub fn address_of_death(body: impl FnOnce()) -> (usize, End) {
    let mut pipe = [0; 2];
    // SAFETY: two numbers are written.
    assert_eq!(unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    let end = child(|| {
        PIPE.store(pipe[1], std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the handler only uses what a handler may.
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
    // SAFETY: the pipe is ours; its end for writing is closed first, so that a child that told nothing is no reason to wait.
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
    // SAFETY: the kernel gives a record of the fault; write may be called in a handler.
    unsafe {
        let address = (*info).si_addr().addr();
        libc::write(PIPE.load(std::sync::atomic::Ordering::Relaxed), (&raw const address).cast(), 8);
    }
}

/// A stack for signal handlers, for the calling thread; one that has overrun its own has no place for them.
pub fn handle_elsewhere() {
    let memory: &'static mut [u8] = vec![0; 64 << 10].leak();
    let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
    // SAFETY: the memory is never given back.
    assert_eq!(unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) }, 0);
}

/// Runs `body` on a thread, on a stack that is given or on one of the C library's, and gives what it gives.
pub fn on_thread<T>(stack: Option<(NonNull<u8>, usize)>, body: impl FnOnce() -> T) -> T {
    extern "C" fn start(call: *mut c_void) -> *mut c_void {
        // SAFETY: it is the call of the thread that waits for this one.
        unsafe { (*call.cast::<&mut dyn FnMut()>())() };
        ptr::null_mut()
    }
    let (mut body, mut result) = (Some(body), None);
    let mut run = || result = body.take().map(|body| body());
    let mut call: &mut dyn FnMut() = &mut run;
    // SAFETY: the attributes are initialised before they are used; the thread is joined before `call` and the stack are gone.
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

/// The address of something on the caller's stack, near its end.
#[inline(never)]
pub fn here() -> usize {
    let here = 0u8;
    std::hint::black_box(&raw const here).addr()
}

pub fn page_size() -> usize {
    // SAFETY: it only asks.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap()
}

/// Writes to a byte at each page from `low` up to the caller's own frame, the highest first.
pub fn touch_down_to(low: usize) {
    let page = page_size();
    // What lies nearer may be in use by this very function and what it calls.
    let mut at = (here() - 16 * 1024) / page * page;
    while at >= low {
        // SAFETY: it is on the caller's stack, below everything that is in use.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(at).write_volatile(1) };
        at -= page;
    }
}

/// Page faults of the calling thread that needed no disk.
pub fn faults() -> i64 {
    // SAFETY: the record is written to.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage.ru_minflt
    }
}

/// Limits the calling process; soft and hard.
pub fn limit(resource: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the record is read.
    assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
}

/// Rights that lift limits go: for the calling process, which is a child.
pub fn drop_rights() {
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::setresuid(65534, 65534, 65534) }, 0);
}

/// Numbers that look random and are the same every time (Marsaglia's xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}
