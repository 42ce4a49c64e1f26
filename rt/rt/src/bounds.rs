//! Bounds of the calling thread's stack: read once, cached for each thread, and set by threads that switch stacks themselves.

use crate::StackError;
use crate::stacks::page_size;
use libc::c_void;
use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// A stack: the addresses from `base` to below `base + size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StackBounds {
    /// The lowest address.
    pub base: usize,
    /// In bytes.
    pub size: usize,
}

impl StackBounds {
    /// Whether the stack contains an address.
    #[must_use]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.size
    }
}

/// Cached bounds of a thread's stack.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Record {
    /// Not read yet.
    Unknown,
    /// From the C library.
    Asked(StackBounds),
    /// Set by the thread ([`stack_setbounds`]).
    Set(StackBounds),
}

thread_local! {
    // Const initialisation and no destructor: signal handlers read it.
    static RECORD: Cell<Record> = const { Cell::new(Record::Unknown) };
}

/// The cached bounds of the caller's stack, without a system call.
pub(crate) fn record() -> Record {
    RECORD.get()
}

/// Alignment of stacks: the calling conventions of all supported 64-bit CPUs require it.
const ALIGNMENT: usize = 16;

/// Bounds of the calling thread's stack: those that it set itself ([`stack_setbounds`]), else those of the C library.
///
/// * The bounds of a thread's stack contain all of it, without its guard. The C library uses a part at its upper end.
/// * The main stack grows down to its limit as it is used. Its bounds reach down to that limit: `RLIMIT_STACK` at the moment of the call, in
///   whole pages. If the limit is infinite, they reach to the nearest mapping below. Growth ends earlier if that range contains a mapping:
///   1 MB above it (`stack_guard_gap` of the kernel).
///
/// Not for signal handlers: the C library reads a file for the main stack.
///
/// # Errors
/// [`StackError::System`]: the C library cannot find the bounds, for example because `/proc` is not mounted.
pub fn stack_getbounds() -> Result<StackBounds, StackError> {
    if let Record::Set(bounds) = record() {
        return Ok(bounds);
    }
    let bounds = ask()?;
    RECORD.set(Record::Asked(bounds));
    Ok(bounds)
}

/// Sets the bounds of the stack that the calling thread runs on from now on. For threads that switch stacks themselves.
///
/// Signals are blocked while the record is written, so that no handler reads half of it.
///
/// # Errors
/// [`StackError::Bounds`], and the record stays: the base is null, base or size is no multiple of 16, the size is less than `MINSIGSTKSZ`, or
/// the end exceeds the address space.
pub fn stack_setbounds(bounds: StackBounds) -> Result<(), StackError> {
    let StackBounds { base, size } = bounds;
    let aligned = base.is_multiple_of(ALIGNMENT) && size.is_multiple_of(ALIGNMENT);
    if base == 0 || !aligned || size < libc::MINSIGSTKSZ || base.checked_add(size).is_none() {
        return Err(StackError::Bounds(bounds));
    }
    with_signals_blocked(|| RECORD.set(Record::Set(bounds)));
    Ok(())
}

/// Whether an address is in the calling thread's stack, by the cached bounds: one comparison. If they are not cached yet, they are read first.
///
/// False if the bounds cannot be found. Call it in a signal handler only if the thread has its bounds cached.
#[must_use]
pub fn stack_inbounds(address: *const u8) -> bool {
    match record() {
        Record::Asked(bounds) | Record::Set(bounds) => bounds.contains(address.addr()),
        Record::Unknown => stack_getbounds().is_ok_and(|bounds| bounds.contains(address.addr())),
    }
}

/// Maximum size of arguments and environment above the main stack's first frame, in bytes. The kernel accepts 6 MB at the most.
pub(crate) const ABOVE_MAX: usize = 8 << 20;

/// Whether the bounds are those of the main stack, which grows.
///
/// The kernel stores random bytes for the program (`AT_RANDOM`) directly above that stack's first frame. Only the pointers to arguments and
/// environment are between them. No mapping is near from below: the kernel leaves 128 MB for the stack to grow.
pub(crate) fn is_main(bounds: StackBounds) -> bool {
    // SAFETY: the call has no effect.
    let random = unsafe { libc::getauxval(libc::AT_RANDOM) };
    usize::try_from(random).is_ok_and(|random| random.wrapping_sub(bounds.base) < bounds.size + ABOVE_MAX)
}

fn ask() -> Result<StackBounds, StackError> {
    let failed = |errno| StackError::System {
        action: "ask for the bounds of the stack",
        source: io::Error::from_raw_os_error(errno),
    };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attributes are written to.
    let errno = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
    if errno != 0 {
        return Err(failed(errno));
    }
    let (mut base, mut size): (*mut c_void, usize) = (ptr::null_mut(), 0);
    // SAFETY: the call above initialised the attributes; two values are written, and the attributes are not used again.
    let errno = unsafe {
        let errno = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut base, &raw mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        errno
    };
    if errno != 0 { Err(failed(errno)) } else { Ok(StackBounds { base: base.addr(), size }) }
}

/// Runs `body` while no signal handler of the calling thread can run.
pub(crate) fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: an all-zero signal set is valid. The calls write to sets of this function, and cannot fail with these arguments.
    unsafe {
        let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        let done = body();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, ptr::null_mut());
        done
    }
}

pub(crate) fn page_of(address: usize) -> usize {
    address / page_size() * page_size()
}
