//! A mutex and what it protects.

use super::{Deadline, LockError, LockRefusal, Protocol, RawMutex, Scope, State};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

const WHOLE: u8 = 0;
/// A thread panicked with it: the next one is told.
const ABANDONED: u8 = 1;
/// No thread repaired it.
const LOST: u8 = 2;

/// A value that one thread at a time can use; the thread that holds it has the priority of the first waiting thread for it.
///
/// A thread that ends while it holds it, or is cancelled, or panics, leaves an [`Orphan`] to the next one.
///
/// ```
/// let balance = millpond_rt::Mutex::new(5)?;
/// *balance.lock().map_err(|error| error.to_string())? += 1;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Mutex<T: ?Sized> {
    /// Where it stays: the C library and the kernel have its address.
    raw: ManuallyDrop<Box<RawMutex>>,
    /// Read and written by the thread that holds the mutex.
    left: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: only one thread at a time comes to the value, which may be used by each of them.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// One with priority inheritance.
    ///
    /// # Errors
    /// [`LockRefusal::System`]: the kernel has none (`ENOTSUP`).
    pub fn new(value: T) -> Result<Mutex<T>, LockRefusal> {
        Mutex::with(value, Protocol::Inherit)
    }

    /// One without: for comparison, and for threads that have one priority. That a thread ended with it is not found out.
    ///
    /// # Errors
    /// [`LockRefusal::System`]: there is no memory.
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
    /// Waits until the value is the caller's.
    ///
    /// # Errors
    /// * [`LockError::OwnerDied`]: it is the caller's, and may be half changed.
    /// * [`LockRefusal::Relock`], [`LockRefusal::NotRecoverable`], [`LockRefusal::System`].
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        self.taken(self.raw.lock())
    }

    /// Takes the value if no thread has it.
    ///
    /// # Errors
    /// Those of [`lock`](Self::lock), and [`LockRefusal::Busy`]: a thread has it, perhaps the caller.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        self.taken(self.raw.try_lock())
    }

    /// Waits until the value is the caller's, and not beyond a moment.
    ///
    /// # Errors
    /// Those of [`lock`](Self::lock), and [`LockRefusal::TimedOut`].
    pub fn lock_until(&self, deadline: Instant) -> Result<MutexGuard<'_, T>, LockError<'_, T>> {
        self.taken(self.raw.lock_until(Deadline::from(deadline)))
    }

    /// What taking it, or taking it again, came to.
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
        // A guard that was forgotten: its thread may have the address on its list until it ends. The memory stays.
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

/// The value of a [`Mutex`], until this is dropped.
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    was_panicking: bool,
    /// Only the thread that took it can give it back.
    here: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives the value only, to be read.
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
        // It is this thread's; in a child of a fork no thread has it, and that stays so.
        let _ = self.mutex.raw.unlock();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

/// The value of a [`Mutex`] whose owner died: the caller's, and perhaps half changed.
///
/// Repair it, then [`make_consistent`](Self::make_consistent). If this is dropped no thread gets the value any more ([`LockRefusal::NotRecoverable`]).
pub struct Orphan<'a, T: ?Sized> {
    guard: ManuallyDrop<MutexGuard<'a, T>>,
    state: State,
}

impl<'a, T: ?Sized> Orphan<'a, T> {
    /// The value is whole again.
    ///
    /// # Errors
    /// Those of the C library, which has no reason for any.
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
        // That it is lost is more than that a thread panics with it.
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
