//! Waiting under a mutex until something is true.

use super::sequence::{Sequence, Waiters};
use super::{Deadline, LockError, LockRefusal, MutexGuard, RawMutex, Scope, State};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// As `rt_cond_t` in the header.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RawCondition {
    sequence: Sequence,
    mark: AtomicU32,
    is_shared: AtomicU32,
}

// As much as the header's.
const _: () = assert!(size_of::<RawCondition>() == 16);

/// As of mutexes.
const MARK: u32 = u32::from_le_bytes(*b"mpcv");

/// What waiting came to; the mutex is held again.
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

    /// Gives the mutex back, waits for a signal or the deadline, and takes the mutex again. It may return without a signal.
    ///
    /// Refused before anything was done if the caller does not hold the mutex. Other refusals are of taking it again.
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

    /// It is none any more.
    pub(crate) fn destroy(&self) -> Result<(), LockRefusal> {
        self.scope()?;
        self.mark.store(0, Ordering::Release);
        Ok(())
    }
}

/// Something that threads wait for under a [`Mutex`](crate::Mutex).
///
/// A signal wakes the thread of the highest priority. Signal while you hold the mutex: only then no thread that began to wait later can be woken instead of
/// one that waited before.
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
    /// One that no thread waits for.
    #[must_use]
    pub const fn new() -> Condition {
        Condition(RawCondition::new(Scope::Private))
    }

    /// Gives the mutex back, waits for a signal, and takes the mutex again. It may return without a signal: ask again whether it is true.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`](crate::Mutex::lock), of taking it again.
    pub fn wait<'a, T: ?Sized>(
        &self,
        held: MutexGuard<'a, T>,
    ) -> Result<MutexGuard<'a, T>, LockError<'a, T>> {
        self.wait_to(held, None).map(|(guard, _)| guard)
    }

    /// As [`wait`](Self::wait), and not beyond a moment. With the guard it says whether there was a signal in time.
    ///
    /// # Errors
    /// As [`wait`](Self::wait): that it became late is none.
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
        // From here on the mutex is given back and taken by the wait.
        std::mem::forget(held);
        let waited = self.0.wait(mutex.raw(), deadline)?;
        mutex.taken(Ok(waited.state)).map(|guard| (guard, !waited.is_late))
    }

    /// Wakes the one of the highest priority that waits, if any.
    pub fn notify_one(&self) {
        // It is a condition for as long as it lives.
        let _ = self.0.wake(Waiters::One);
    }

    /// Wakes all that wait.
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
