//! A mutex in memory, for C and Rust: a mutex of the C library with fixed attributes, and a mark that identifies it.

use super::{Deadline, LockRefusal, Scope};
use libc::{c_int, clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" {
    /// POSIX.1-2024; in the GNU C library since 2.30.
    fn pthread_mutex_clocklock(
        mutex: *mut pthread_mutex_t,
        clock: clockid_t,
        deadline: *const timespec,
    ) -> c_int;
}

/// Whether the holder inherits the priority of waiting threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The holder runs at the highest priority of the waiting threads.
    Inherit,
    Plain,
}

/// State of the data that a locked mutex protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Whole,
    /// The previous owner died while it held the mutex.
    OwnerDied,
}

/// Layout of `rt_mutex_t` in the header.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawMutex {
    mutex: UnsafeCell<pthread_mutex_t>,
    mark: AtomicU32,
    reserved: u32,
}

// Same size as in the header.
const _: () = assert!(size_of::<RawMutex>() == size_of::<pthread_mutex_t>() + 8);

// SAFETY: a mutex is meant for use by many threads: all its calls in the C library are thread-safe.
unsafe impl Send for RawMutex {}
// SAFETY: as above.
unsafe impl Sync for RawMutex {}

/// Marks a valid mutex: letters that are unlikely in other memory.
const MARK: u32 = u32::from_le_bytes(*b"mpmx");

impl RawMutex {
    /// Memory for a mutex, not initialised.
    pub(crate) const fn none() -> RawMutex {
        RawMutex {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            mark: AtomicU32::new(0),
            reserved: 0,
        }
    }

    /// Initialises it. It must not move afterwards: the queue of waiting threads and the robust list contain its address.
    pub(crate) fn init(&self, protocol: Protocol, scope: Scope) -> Result<(), LockRefusal> {
        let check = |errno| done(errno, "make a lock with priority inheritance (does the kernel have it?)");
        let mut attributes = MaybeUninit::<pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: attributes are initialised first and destroyed last. The mutex is not in use: the caller is about to initialise it.
        unsafe {
            check(libc::pthread_mutexattr_init(attributes))?;
            let make = || {
                check(libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK))?;
                if protocol == Protocol::Inherit {
                    check(libc::pthread_mutexattr_setprotocol(attributes, libc::PTHREAD_PRIO_INHERIT))?;
                    check(libc::pthread_mutexattr_setrobust(attributes, libc::PTHREAD_MUTEX_ROBUST))?;
                }
                if scope == Scope::Shared {
                    check(libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED))?;
                }
                check(libc::pthread_mutex_init(self.mutex.get(), attributes))
            };
            let made = make();
            libc::pthread_mutexattr_destroy(attributes);
            made?;
        }
        self.mark.store(MARK, Ordering::Release);
        Ok(())
    }

    /// The mutex, if it has the mark.
    fn known(&self) -> Result<*mut pthread_mutex_t, LockRefusal> {
        if self.mark.load(Ordering::Acquire) == MARK {
            Ok(self.mutex.get())
        } else {
            Err(LockRefusal::Invalid)
        }
    }

    pub(crate) fn lock(&self) -> Result<State, LockRefusal> {
        let mutex = self.known()?;
        // SAFETY: it was initialised.
        taken(unsafe { libc::pthread_mutex_lock(mutex) })
    }

    pub(crate) fn try_lock(&self) -> Result<State, LockRefusal> {
        let mutex = self.known()?;
        // SAFETY: it was initialised.
        match unsafe { libc::pthread_mutex_trylock(mutex) } {
            // A PI mutex returns this if the caller holds it; a plain one returns EBUSY.
            libc::EDEADLK => Err(LockRefusal::Busy),
            errno => taken(errno),
        }
    }

    /// As [`lock`](Self::lock), until `deadline`.
    pub(crate) fn lock_until(&self, deadline: Deadline) -> Result<State, LockRefusal> {
        let mutex = self.known()?;
        // SAFETY: it was initialised; the deadline lives as long as the call.
        match unsafe { pthread_mutex_clocklock(mutex, libc::CLOCK_MONOTONIC, deadline.timespec()) } {
            // Before Linux 5.14 FUTEX_LOCK_PI supports CLOCK_REALTIME only; the C library refuses.
            libc::EINVAL => lock_by_the_other_clock(mutex, deadline),
            errno => taken(errno),
        }
    }

    pub(crate) fn unlock(&self) -> Result<(), LockRefusal> {
        let mutex = self.known()?;
        // SAFETY: it was initialised; a thread that does not hold it is refused.
        done(unsafe { libc::pthread_mutex_unlock(mutex) }, "unlock")
    }

    /// Declares the data repaired. The caller holds the mutex and got `EOWNERDEAD`.
    pub(crate) fn make_consistent(&self) -> Result<(), LockRefusal> {
        let mutex = self.known()?;
        // SAFETY: it was initialised; one that is not in that state is refused.
        done(unsafe { libc::pthread_mutex_consistent(mutex) }, "make a lock consistent")
    }

    /// Makes it invalid. Refused while a thread holds it.
    pub(crate) fn destroy(&self) -> Result<(), LockRefusal> {
        let mutex = self.known()?;
        match self.try_lock() {
            Ok(_) => self.unlock()?,
            Err(LockRefusal::NotRecoverable) => {}
            Err(refusal) => return Err(refusal),
        }
        self.mark.store(0, Ordering::Release);
        // SAFETY: it was initialised, and no thread holds it.
        done(unsafe { libc::pthread_mutex_destroy(mutex) }, "destroy a lock")
    }
}

#[inline]
fn done(errno: c_int, action: &'static str) -> Result<(), LockRefusal> {
    if errno == 0 { Ok(()) } else { Err(LockRefusal::of(errno, action)) }
}

fn taken(errno: c_int) -> Result<State, LockRefusal> {
    match errno {
        0 => Ok(State::Whole),
        libc::EOWNERDEAD => Ok(State::OwnerDied),
        errno => Err(LockRefusal::of(errno, "lock")),
    }
}

/// Waits on `CLOCK_REALTIME`, and again if that clock was set meanwhile. It never ends before the deadline, and later at most by the time by
/// which the clock was set back.
#[cold]
fn lock_by_the_other_clock(mutex: *mut pthread_mutex_t, deadline: Deadline) -> Result<State, LockRefusal> {
    let nanos = |moment: &timespec| i128::from(moment.tv_sec) * 1_000_000_000 + i128::from(moment.tv_nsec);
    let now = |clock| {
        let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is writable.
        unsafe { libc::clock_gettime(clock, &raw mut now) };
        nanos(&now)
    };
    loop {
        let left = (nanos(deadline.timespec()) - now(libc::CLOCK_MONOTONIC)).max(0);
        let until = now(libc::CLOCK_REALTIME) + left;
        let moment = timespec {
            tv_sec: i64::try_from(until / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::try_from(until % 1_000_000_000).unwrap_or(0),
        };
        // SAFETY: the caller has checked that it was initialised; the time lives as long as the call.
        match unsafe { libc::pthread_mutex_timedlock(mutex, &raw const moment) } {
            libc::ETIMEDOUT if left > 0 => {}
            errno => return taken(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn where_the_kernel_waits_by_the_other_clock_only_it_is_waited_as_long() {
        let mutex = RawMutex::none();
        mutex.init(Protocol::Inherit, Scope::Private).unwrap();
        let known = || mutex.known().unwrap();
        let take = |deadline: Instant| lock_by_the_other_clock(known(), Deadline::from(deadline));
        assert!(matches!(take(Instant::now() + Duration::from_secs(60)), Ok(State::Whole)));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let soon = Instant::now() + Duration::from_millis(3);
                assert!(matches!(take(soon), Err(LockRefusal::TimedOut)));
                assert!(Instant::now() >= soon);
                assert!(matches!(take(Instant::now()), Err(LockRefusal::TimedOut)));
            });
        });
        mutex.unlock().unwrap();
        mutex.destroy().unwrap();
        assert!(matches!(mutex.lock(), Err(LockRefusal::Invalid)));
    }
}
