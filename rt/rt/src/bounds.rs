//! Where the stack of the calling thread is: asked once, kept for each thread, and changed by those that switch stacks themselves.

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
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.base) < self.size
    }
}

/// What is known of a thread's stack.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Record {
    /// Not asked yet.
    Unknown,
    /// What the C library said.
    Asked(StackBounds),
    /// What the thread said itself.
    Set(StackBounds),
}

thread_local! {
    // Nothing to be made at first use and nothing to be cleaned up: signal handlers read it.
    static RECORD: Cell<Record> = const { Cell::new(Record::Unknown) };
}

/// What is known of the caller's stack, without a system call.
pub(crate) fn record() -> Record {
    RECORD.get()
}

/// How a stack must be aligned: as the calling conventions of all 64-bit CPUs want it.
const ALIGNMENT: usize = 16;

/// The bounds of the calling thread's stack: those that it set itself ([`stack_setbounds`]), else those that the C library tells.
///
/// * The stack of a thread is all of it, without its guard. The C library keeps a part at its upper end for itself.
/// * The main stack grows down to its limit as it is used. Its bounds reach down to that limit, which is `RLIMIT_STACK` as it is at the moment of
///   the call, in whole pages; when that is unlimited they reach to the nearest mapping below. Growth ends earlier where something was mapped into
///   that place: 1 MB above it (`stack_guard_gap` of the kernel).
///
/// Not for signal handlers: the C library reads a file for the main stack.
///
/// # Errors
/// [`StackError::System`]: the C library does not know, for example because `/proc` is not mounted.
pub fn stack_getbounds() -> Result<StackBounds, StackError> {
    if let Record::Set(bounds) = record() {
        return Ok(bounds);
    }
    let bounds = ask()?;
    RECORD.set(Record::Asked(bounds));
    Ok(bounds)
}

/// Tells the bounds of the stack that the calling thread runs on from now on, for those that switch stacks themselves.
///
/// Signals are blocked while the record is written: no handler sees half of it.
///
/// # Errors
/// [`StackError::Bounds`], and the record stays: the base is null, base or size is no multiple of 16, the size is less than `MINSIGSTKSZ`, or
/// the end lies behind the end of memory.
pub fn stack_setbounds(bounds: StackBounds) -> Result<(), StackError> {
    let StackBounds { base, size } = bounds;
    let aligned = base.is_multiple_of(ALIGNMENT) && size.is_multiple_of(ALIGNMENT);
    if base == 0 || !aligned || size < libc::MINSIGSTKSZ || base.checked_add(size).is_none() {
        return Err(StackError::Bounds(bounds));
    }
    with_signals_blocked(|| RECORD.set(Record::Set(bounds)));
    Ok(())
}

/// Whether an address is in the calling thread's stack, by its record: one comparison. A thread that never asked for its bounds asks now.
///
/// False when the bounds cannot be known. In a signal handler only for a thread that has asked before.
#[must_use]
pub fn stack_inbounds(address: *const u8) -> bool {
    match record() {
        Record::Asked(bounds) | Record::Set(bounds) => bounds.contains(address.addr()),
        Record::Unknown => stack_getbounds().is_ok_and(|bounds| bounds.contains(address.addr())),
    }
}

/// How much can lie above the main stack's first frame, in bytes: arguments and environment, of which the kernel takes 6 MB at the most.
pub(crate) const ABOVE_MAX: usize = 8 << 20;

/// Whether that is the stack that the kernel made for the program, which grows.
///
/// The kernel puts random bytes for the program (`AT_RANDOM`) right above that stack's first frame; between them are the pointers to arguments and
/// environment. No mapping comes near from below: the kernel leaves 128 MB for the stack to grow.
pub(crate) fn is_main(bounds: StackBounds) -> bool {
    // SAFETY: it only asks.
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

/// Does something while no signal handler of the calling thread can run.
pub(crate) fn with_signals_blocked<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: a set of zeros is a set; the calls write to sets of this function, and cannot fail with these arguments.
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
