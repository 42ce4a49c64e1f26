//! Mutexes and conditions for programs in C.

use super::fail;
use crate::locks::{Deadline, LockRefusal, Protocol, RawCondition, RawMutex, Scope, State, Waiters};
use libc::{c_int, timespec};

/// Flags of mutexes and conditions, as in the header.
const PLAIN: c_int = 1;
const SHARED: c_int = 2;

fn scope(flags: c_int) -> Scope {
    if flags & SHARED != 0 { Scope::Shared } else { Scope::Private }
}

/// 0, or -1 with errno.
fn answer(result: Result<(), LockRefusal>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(refusal) => fail(refusal.errno()),
    }
}

/// As above. A mutex whose owner died is held, and -1 is returned with `EOWNERDEAD`.
fn held(result: Result<State, LockRefusal>) -> c_int {
    match result {
        Ok(State::Whole) => 0,
        Ok(State::OwnerDied) => fail(libc::EOWNERDEAD),
        Err(refusal) => fail(refusal.errno()),
    }
}

/// The deadline, if the pointer is not null and the time is valid.
///
/// # Safety
/// `moment` is null or readable.
unsafe fn deadline(moment: *const timespec) -> Result<Deadline, LockRefusal> {
    // SAFETY: null, or our caller promises it.
    unsafe { moment.as_ref() }.and_then(|moment| Deadline::new(*moment)).ok_or(LockRefusal::Invalid)
}

/// The object, or a refusal of a null pointer.
///
/// # Safety
/// `pointer` is null, or points to an object that lives as long as the call and is changed by calls of this library only.
unsafe fn there<'a, T>(pointer: *const T) -> Result<&'a T, LockRefusal> {
    // SAFETY: null, or our caller promises it.
    unsafe { pointer.as_ref() }.ok_or(LockRefusal::Invalid)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_mutex_init(mutex: *mut RawMutex, flags: c_int) -> c_int {
    if flags & !(PLAIN | SHARED) != 0 {
        return fail(libc::EINVAL);
    }
    let protocol = if flags & PLAIN != 0 { Protocol::Plain } else { Protocol::Inherit };
    if !mutex.is_null() {
        // SAFETY: our caller provides the memory.
        unsafe { mutex.write(RawMutex::none()) };
    }
    // SAFETY: our caller promises it.
    answer(unsafe { there(mutex) }.and_then(|mutex| mutex.init(protocol, scope(flags))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_mutex_timedlock(mutex: *mut RawMutex, moment: *const timespec) -> c_int {
    // SAFETY: our caller promises both.
    let both = unsafe { there(mutex).and_then(|mutex| Ok((mutex, deadline(moment)?))) };
    held(both.and_then(|(mutex, deadline)| mutex.lock_until(deadline)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_cond_init(condition: *mut RawCondition, flags: c_int) -> c_int {
    if condition.is_null() || flags & !SHARED != 0 {
        return fail(libc::EINVAL);
    }
    // SAFETY: our caller provides the memory.
    unsafe { condition.write(RawCondition::new(scope(flags))) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_cond_wait(condition: *mut RawCondition, mutex: *mut RawMutex) -> c_int {
    // SAFETY: our caller promises both.
    let both = unsafe { there(condition).and_then(|condition| Ok((condition, there(mutex)?))) };
    held(both.and_then(|(condition, mutex)| condition.wait(mutex, None)).map(|waited| waited.state))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rt_cond_timedwait(
    condition: *mut RawCondition,
    mutex: *mut RawMutex,
    moment: *const timespec,
) -> c_int {
    // SAFETY: our caller promises all three.
    let all =
        unsafe { there(condition).and_then(|condition| Ok((condition, there(mutex)?, deadline(moment)?))) };
    let waited = all.and_then(|(condition, mutex, deadline)| condition.wait(mutex, Some(deadline)));
    held(waited.and_then(|waited| match (waited.state, waited.is_late) {
        (State::Whole, true) => Err(LockRefusal::TimedOut),
        (state, _) => Ok(state),
    }))
}

/// Defines calls whose only argument is a mutex or a condition.
macro_rules! calls {
    ($($name:ident($of:ty) = $answer:ident($call:expr);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(this: *mut $of) -> c_int {
                // SAFETY: our caller promises it.
                $answer(unsafe { there(this) }.and_then($call))
            }
        )*
    };
}

calls! {
    rt_mutex_lock(RawMutex) = held(RawMutex::lock);
    rt_mutex_trylock(RawMutex) = held(RawMutex::try_lock);
    rt_mutex_unlock(RawMutex) = answer(RawMutex::unlock);
    rt_mutex_consistent(RawMutex) = answer(RawMutex::make_consistent);
    rt_mutex_destroy(RawMutex) = answer(RawMutex::destroy);
    rt_cond_signal(RawCondition) = answer(|condition| condition.wake(Waiters::One));
    rt_cond_broadcast(RawCondition) = answer(|condition| condition.wake(Waiters::All));
    rt_cond_destroy(RawCondition) = answer(RawCondition::destroy);
}
