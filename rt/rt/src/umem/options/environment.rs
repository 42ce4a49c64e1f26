//! Sources of the settings: the environment, and hooks of the program.
//!
//! A hook is a function of the program that is called for a variable that is not set: `const char *_umem_debug_init(void)`, and likewise
//! `_umem_logging_init` and `_umem_options_init`. A program that is linked with the shared library exports its hooks automatically; under
//! `LD_PRELOAD` it must export them itself (`-rdynamic`).

use super::{Complain, Settings, Variable};
#[cfg(any(miri, not(test)))]
use crate::umem::weak::address_of_weak;
use core::ffi::{CStr, c_char};

impl Settings {
    /// Reads the settings of this process. It is called once, at the first allocation, before any cache exists.
    ///
    /// A variable that is set takes precedence over its hook, even if it is empty. A program with `AT_SECURE` (set-user-ID) ignores the environment.
    /// Hooks run before any other code of the program, and must not wait for it. A hook may allocate, so the caller must be able to serve allocations
    /// before this call returns.
    pub(crate) fn read(complain: Complain<'_>) -> Settings {
        let is_secure = is_secure();
        put_together(|variable| if is_secure { None } else { environment(variable) }, said_by_hook, complain)
    }
}

/// Settings from two sources, of which the first takes precedence.
fn put_together(
    first: impl Fn(Variable) -> Option<&'static [u8]>,
    second: impl Fn(Variable) -> Option<&'static [u8]>,
    complain: Complain<'_>,
) -> Settings {
    let mut settings = Settings::STANDARD;
    for variable in Variable::ALL {
        if let Some(text) = first(variable).or_else(|| second(variable)) {
            settings.add(variable, text, complain);
        }
    }
    let logs = settings.logs;
    let is_logged = logs.transaction.or(logs.contents).or(logs.fail).or(logs.slab).is_some();
    if is_logged && settings.debug.audit.is_none() {
        complain(b"UMEM_LOGGING: has no effect without audit in UMEM_DEBUG");
    }
    settings
}

fn is_secure() -> bool {
    // Miri does not support getauxval.
    // SAFETY: the call has no effect.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn environment(variable: Variable) -> Option<&'static [u8]> {
    // SAFETY: the name is zero-terminated. The text is read before this thread returns to the program. Another thread that changes the
    // environment at that moment would be an error in any program.
    unsafe { text(libc::getenv(variable.name().as_ptr())) }
}

fn said_by_hook(variable: Variable) -> Option<&'static [u8]> {
    let hook = hook(variable)?;
    // SAFETY: a hook returns null, or a zero-terminated string that is never freed.
    unsafe { text(hook()) }
}

/// # Safety
/// Null, or a zero-terminated string that is never freed.
unsafe fn text(text: *const c_char) -> Option<&'static [u8]> {
    // SAFETY: by the caller's promise.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

type Hook = unsafe extern "C" fn() -> *const c_char;

/// The hook of a variable, if the program has one. Unit tests define it themselves: within a crate a name cannot be both defined and weak.
#[cfg(any(miri, not(test)))]
fn hook(variable: Variable) -> Option<Hook> {
    let address = match variable {
        Variable::Debug => address_of_weak!("_umem_debug_init"),
        Variable::Logging => address_of_weak!("_umem_logging_init"),
        Variable::Options => address_of_weak!("_umem_options_init"),
    };
    // SAFETY: zero, or the address of the function with that name, whose type the manual defines.
    unsafe { core::mem::transmute::<*const (), Option<Hook>>(core::ptr::with_exposed_provenance(address)) }
}

#[cfg(all(test, not(miri)))]
use tests::hook;

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
