//! A mutex and the data that it protects.

use super::{Deadline, LockError, LockRefusal, Protocol, RawMutex, Scope, State};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

const WHOLE: u8 = 0;
/// A thread panicked while it held the mutex. The next owner gets an error.
const ABANDONED: u8 = 1;
/// The data was not repaired.
const LOST: u8 = 2;

/// A value that one thread at a time can use. The holder inherits the priority of the first waiting thread.
///
/// A thread that ends, is cancelled or panics while it holds the mutex leaves an [`Orphan`] to the next owner.
///
/// ```
/// let balance = millpond_rt::Mutex::new(5)?;
/// *balance.lock().map_err(|error| error.to_string())? += 1;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mutex<T: ?Sized> {
    /// Boxed, so that its address is fixed: the C library and the kernel have it.
    raw: ManuallyDrop<Box<RawMutex>>,
    /// Accessed by the holder of the mutex only.
    left: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: only one thread at a time accesses the value, and `T: Send` allows each of them to.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// A mutex with priority inheritance.
    ///
    /// # Errors
    /// [`LockRefusal::System`]: the kernel does not support it (`ENOTSUP`).
    pub fn new(value: T) -> Result<Mutex<T>, LockRefusal> {
        Mutex::with(value, Protocol::Inherit)
    }

    /// A mutex without: for comparison, and for threads of one priority. The death of its owner is not detected.
    ///
    /// # Errors
    /// [`LockRefusal::System`]: out of memory.
    pub fn plain(value: T) -> Result<Mutex<T>, LockRefusal> {
        Mutex::with(value, Protocol::Plain)
    }

    fn with(value: T, protocol: Protocol) -> Result<Mutex<T>, LockRefusal> {
        let raw = Box::new(RawMutex::none());
        raw.init(protocol, Scope::Private)?;
        let raw = ManuallyDrop::new(raw);
        Ok(Mutex { raw, left: AtomicU8::new(WHOLE), value: UnsafeCell::new(value) })
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the caller holds the mutex.
    ///
    /// # Errors
    /// * [`LockError::OwnerDied`]: the caller holds it, and the value may be half changed.
    /// * [`LockRefusal::Relock`], [`LockRefusal::NotRecoverable`], [`LockRefusal::System`].
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        self.taken(self.raw.lock())
    }

    /// Takes the mutex if it is free.
    ///
    /// # Errors
    /// Those of [`lock`](Self::lock), and [`LockRefusal::Busy`]: a thread holds it, perhaps the caller.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        self.taken(self.raw.try_lock())
    }

    /// Waits until the caller holds the mutex, or until a deadline.
    ///
    /// # Errors
    /// Those of [`lock`](Self::lock), and [`LockRefusal::TimedOut`].
    pub fn lock_until(&self, deadline: Instant) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        self.taken(self.raw.lock_until(Deadline::from(deadline)))
    }

    /// Converts the result of taking the raw mutex.
    pub(super) fn taken(
        &self,
        state: Result<State, LockRefusal>,
    ) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        let state = state?;
        let guard = MutexGuard { mutex: self, was_panicking: std::thread::panicking(), here: PhantomData };
        match (state, self.left.load(Ordering::Relaxed)) {
            (_, LOST) => {
                drop(guard);
                Err(LockError::Refused(LockRefusal::NotRecoverable))
            }
            (State::Whole, WHOLE) => Ok(guard),
            _ => Err(LockError::OwnerDied(Orphan { guard: ManuallyDrop::new(guard), state })),
        }
    }

    pub(super) fn raw(&self) -> &RawMutex {
        &self.raw
    }
}

impl<T: ?Sized> Drop for Mutex<T> {
    fn drop(&mut self) {
        // A guard was forgotten: the robust list of its thread may contain the address until the thread ends. The memory is leaked.
        if self.raw.destroy().is_ok() {
            // SAFETY: it is not used again.
            unsafe { ManuallyDrop::drop(&mut self.raw) };
        }
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// Access to the value of a [`Mutex`]. Dropping it releases the mutex.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    was_panicking: bool,
    /// Makes it `!Send`: only the thread that took the mutex can release it.
    here: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value only.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mutex is held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is held, and the guard is borrowed alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            self.mutex.left.store(ABANDONED, Ordering::Relaxed);
        }
        // This thread holds it. In the child of a fork no thread does, and the error is ignored.
        let _ = self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

/// Access to the value of a [`Mutex`] whose owner died. The caller holds the mutex; the value may be half changed.
///
/// Repair the value, then call [`make_consistent`](Self::make_consistent). If this is dropped, the mutex is lost
/// ([`LockRefusal::NotRecoverable`]).
pub struct Orphan<'a, T: ?Sized> {
    guard: ManuallyDrop<MutexGuard<'a, T>>,
    state: State,
}

impl<'a, T: ?Sized> Orphan<'a, T> {
    /// Declares the value repaired.
    ///
    /// # Errors
    /// Those of the C library. None is expected.
    pub fn make_consistent(self) -> Result<MutexGuard<'a, T>, LockRefusal> {
        let mutex = self.guard.mutex;
        if self.state == State::OwnerDied {
            mutex.raw.make_consistent()?;
        }
        mutex.left.store(WHOLE, Ordering::Relaxed);
        let mut orphan = ManuallyDrop::new(self);
        // SAFETY: the orphan is not used or dropped any more.
        Ok(unsafe { ManuallyDrop::take(&mut orphan.guard) })
    }
}

impl<T: ?Sized> Deref for Orphan<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T: ?Sized> DerefMut for Orphan<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T: ?Sized> Drop for Orphan<'_, T> {
    fn drop(&mut self) {
        self.guard.mutex.left.store(LOST, Ordering::Relaxed);
        // LOST must not be overwritten with ABANDONED by the guard.
        self.guard.was_panicking = true;
        // SAFETY: it is not used again.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Orphan<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
