//! Condition variables.

use super::sequence::{Sequence, Waiters};
use super::{Deadline, LockError, LockRefusal, MutexGuard, RawMutex, Scope, State};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Layout of `rt_cond_t` in the header.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawCondition {
    sequence: Sequence,
    mark: AtomicU32,
    is_shared: AtomicU32,
}

// Same size as in the header.
const _: () = assert!(size_of::<RawCondition>() == 16);

/// Marks a valid condition, as in mutexes.
const MARK: u32 = u32::from_le_bytes(*b"mpcv");

/// Result of a wait. The mutex is held again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waited {
    pub(crate) state: State,
    pub(crate) is_late: bool,
}

impl RawCondition {
    pub(crate) const fn new(scope: Scope) -> RawCondition {
        RawCondition {
            sequence: Sequence::new(),
            mark: AtomicU32::new(MARK),
            is_shared: AtomicU32::new(matches!(scope, Scope::Shared) as u32),
        }
    }

    fn scope(&self) -> Result<Scope, LockRefusal> {
        match (self.mark.load(Ordering::Acquire), self.is_shared.load(Ordering::Relaxed)) {
            (MARK, 0) => Ok(Scope::Private),
            (MARK, _) => Ok(Scope::Shared),
            _ => Err(LockRefusal::Invalid),
        }
    }

    /// Releases the mutex, waits for a signal or the deadline, and takes the mutex again. It may return without a signal.
    ///
    /// If the caller does not hold the mutex, it is refused without effect. Other refusals come from taking the mutex again.
    pub(crate) fn wait(&self, mutex: &RawMutex, deadline: Option<Deadline>) -> Result<Waited, LockRefusal> {
        let scope = self.scope()?;
        let ticket = self.sequence.enter();
        if let Err(refusal) = mutex.unlock() {
            self.sequence.leave();
            return Err(refusal);
        }
        let is_late = !self.sequence.sleep(ticket, scope, deadline.as_ref().map(Deadline::timespec));
        self.sequence.leave();
        mutex.lock().map(|state| Waited { state, is_late })
    }

    pub(crate) fn wake(&self, waiters: Waiters) -> Result<(), LockRefusal> {
        let scope = self.scope()?;
        self.sequence.wake(waiters, scope);
        Ok(())
    }

    /// Makes the condition invalid.
    pub(crate) fn destroy(&self) -> Result<(), LockRefusal> {
        self.scope()?;
        self.mark.store(0, Ordering::Release);
        Ok(())
    }
}

/// A condition variable, used with a [`Mutex`](crate::Mutex).
///
/// A signal wakes the waiting thread of the highest priority. Signal while you hold the mutex. Otherwise a thread that began to wait later can be
/// woken instead of one that waited before.
///
/// ```
/// # use millpond_rt::{Condition, Mutex};
/// # fn wait(queue: &Mutex<Vec<u8>>, filled: &Condition) -> Result<u8, String> {
/// let mut held = queue.lock().map_err(|error| error.to_string())?;
/// loop {
///     match held.pop() {
///         Some(item) => return Ok(item),
///         None => held = filled.wait(held).map_err(|error| error.to_string())?,
///     }
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Condition(RawCondition);

impl Condition {
    /// A condition without waiting threads.
    #[must_use]
    pub const fn new() -> Condition {
        Condition(RawCondition::new(Scope::Private))
    }

    /// Releases the mutex, waits for a signal, and takes the mutex again. It may return without a signal: check the predicate again.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`](crate::Mutex::lock), from taking the mutex again.
    pub fn wait<'a, T: ?Sized>(
        &self,
        held: MutexGuard<'a, T>,
    ) -> Result<MutexGuard<'a, T>, LockError<'a, T>> {
        self.wait_to(held, None).map(|(guard, _)| guard)
    }

    /// As [`wait`](Self::wait), until a deadline. The `bool` is false if the deadline passed without a signal.
    ///
    /// # Errors
    /// As [`wait`](Self::wait). A passed deadline is no error.
    pub fn wait_until<'a, T: ?Sized>(
        &self,
        held: MutexGuard<'a, T>,
        deadline: Instant,
    ) -> Result<(MutexGuard<'a, T>, bool), LockError<'a, T>> {
        self.wait_to(held, Some(Deadline::from(deadline)))
    }

    fn wait_to<'a, T: ?Sized>(
        &self,
        held: MutexGuard<'a, T>,
        deadline: Option<Deadline>,
    ) -> Result<(MutexGuard<'a, T>, bool), LockError<'a, T>> {
        let mutex = held.mutex();
        // From here on the wait releases and takes the mutex.
        std::mem::forget(held);
        let waited = self.0.wait(mutex.raw(), deadline)?;
        mutex.taken(Ok(waited.state)).map(|guard| (guard, !waited.is_late))
    }

    /// Wakes the waiting thread of the highest priority, if any.
    pub fn notify_one(&self) {
        // It is valid as long as `self` exists.
        let _ = self.0.wake(Waiters::One);
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        // As above.
        let _ = self.0.wake(Waiters::All);
    }
}

impl Default for Condition {
    fn default() -> Condition {
        Condition::new()
    }
}
