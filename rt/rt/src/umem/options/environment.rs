//! Where the texts come from: the environment, and what the program itself says by a hook.
//!
//! A hook is a function of the program that is called for a variable that is not set: `const char *_umem_debug_init(void)`, and likewise
//! `_umem_logging_init` and `_umem_options_init`. A program that is linked with the shared library exports its hooks by that; one under `LD_PRELOAD`
//! must export them itself (`-rdynamic`).

use super::{Complain, Settings, Variable};
#[cfg(any(miri, not(test)))]
use crate::umem::weak::address_of_weak;
use core::ffi::{CStr, c_char};

impl Settings {
    /// What was asked of this process. For the first allocation: runs once, before there is a cache.
    ///
    /// A variable that is set wins over its hook, even with nothing in it. A program that runs with rights that its user has not (`AT_SECURE`)
    /// does not listen to the environment. Hooks run before anything else of the program does, and must not wait for it; when they allocate, that
    /// is to be served while this call has not returned: the caller must be ready for that.
    pub(crate) fn read(complain: Complain<'_>) -> Settings {
        let is_secure = is_secure();
        put_together(|variable| if is_secure { None } else { environment(variable) }, said_by_hook, complain)
    }
}

/// The settings of texts from two places, of which the first wins.
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
    // Miri knows of no such rights.
    // SAFETY: it only asks.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

fn environment(variable: Variable) -> Option<&'static [u8]> {
    // SAFETY: the name ends with a zero. The text is read before this thread returns to the program; another thread that changes the
    // environment at that very moment breaks any program that reads it.
    unsafe { text(libc::getenv(variable.name().as_ptr())) }
}

fn said_by_hook(variable: Variable) -> Option<&'static [u8]> {
    let hook = hook(variable)?;
    // SAFETY: a hook gives null, or a text that ends with a zero and stays.
    unsafe { text(hook()) }
}

/// # Safety
/// Null, or a text that ends with a zero and stays.
unsafe fn text(text: *const c_char) -> Option<&'static [u8]> {
    // SAFETY: our caller promises it.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_bytes())
}

type Hook = unsafe extern "C" fn() -> *const c_char;

/// The function of a variable, if the program has one. Unit tests are part of this crate, in which a name cannot be both defined and weak.
#[cfg(any(miri, not(test)))]
fn hook(variable: Variable) -> Option<Hook> {
    let address = match variable {
        Variable::Debug => address_of_weak!("_umem_debug_init"),
        Variable::Logging => address_of_weak!("_umem_logging_init"),
        Variable::Options => address_of_weak!("_umem_options_init"),
    };
    // SAFETY: zero, which is none, or the address of a function with that name, whose type the manual says.
    unsafe { core::mem::transmute::<*const (), Option<Hook>>(core::ptr::with_exposed_provenance(address)) }
}

#[cfg(all(test, not(miri)))]
use tests::hook;

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
