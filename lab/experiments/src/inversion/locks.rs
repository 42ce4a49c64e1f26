//! Locks of the library, through its C functions.

use super::meeting::Lock;
use millpond_machine::Absent;
use millpond_session::Library;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::ptr::NonNull;

/// The kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Without priority inheritance.
    Plain,
    /// With priority inheritance.
    Inherits,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Inherits => "inherits",
        }
    }

    /// The flag of `millpond/rt.h`: `RT_LOCK_PLAIN`.
    fn flags(self) -> c_int {
        match self {
            Kind::Plain => 1,
            Kind::Inherits => 0,
        }
    }
}

type Init = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type OfMutex = unsafe extern "C" fn(*mut c_void) -> c_int;

/// Memory for a mutex: `rt_mutex_t` has 56 bytes on all supported CPUs.
#[repr(C, align(16))]
struct Memory(UnsafeCell<[u8; 128]>);

/// A lock of the library.
pub(super) struct FoundLock {
    memory: Box<Memory>,
    lock: OfMutex,
    unlock: OfMutex,
    destroy: OfMutex,
}

// SAFETY: the memory is a mutex, which all threads may use at once through the library's functions.
unsafe impl Sync for FoundLock {}

impl FoundLock {
    pub(super) fn new(library: &Library, kind: Kind) -> Result<FoundLock, Absent> {
        let init = library.call(c"rt_mutex_init")?;
        // SAFETY: the type is that of millpond/rt.h; the interface's number is in the library's name.
        let init = unsafe { std::mem::transmute::<NonNull<c_void>, Init>(init) };
        let of_mutex = |name| {
            let found = library.call(name)?;
            // SAFETY: as above; all three have the same type.
            Ok::<OfMutex, Absent>(unsafe { std::mem::transmute::<NonNull<c_void>, OfMutex>(found) })
        };
        let (lock, unlock) = (of_mutex(c"rt_mutex_lock")?, of_mutex(c"rt_mutex_unlock")?);
        let destroy = of_mutex(c"rt_mutex_destroy")?;
        let memory = Box::new(Memory(UnsafeCell::new([0; 128])));
        // SAFETY: the memory is large enough, and does not move until the mutex is destroyed.
        if unsafe { init(memory.0.get().cast(), kind.flags()) } != 0 {
            let why = format!("there is no lock with priority inheritance: {}", said());
            return Err(Absent::because(why));
        }
        Ok(FoundLock { memory, lock, unlock, destroy })
    }

    fn mutex(&self) -> *mut c_void {
        self.memory.0.get().cast()
    }
}

impl Lock for FoundLock {
    fn hold(&self, section: &mut dyn FnMut()) -> Result<(), String> {
        // SAFETY: it is an initialized mutex.
        if unsafe { (self.lock)(self.mutex()) } != 0 {
            return Err(format!("cannot lock: {}", said()));
        }
        section();
        // SAFETY: as above.
        match unsafe { (self.unlock)(self.mutex()) } {
            0 => Ok(()),
            _ => Err(format!("cannot unlock: {}", said())),
        }
    }
}

impl Drop for FoundLock {
    fn drop(&mut self) {
        // SAFETY: no thread holds the mutex; all threads of the meeting have ended.
        unsafe { (self.destroy)(self.mutex()) };
    }
}

/// The text of the last call's errno.
fn said() -> String {
    millpond_session::reason(&io::Error::last_os_error())
}
