//! `millpond-member` for programs in C. `include/millpond_pool.h` documents each call, and belongs to this file.
//!
//! This layer makes no decisions: it checks pointers, converts errors to errno, and catches panics.

use libc::{c_char, c_int, c_ulong, size_t};
use millpond_member::{MemberError, PoolSize, Subscription};
use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::time::Duration;

/// A subscription to a pool.
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct mp_pool {
    subscription: Subscription,
    name: CString,
    /// The size that was returned last.
    told: Option<PoolSize>,
}

/// The size of a pool at one time.
#[repr(C)]
#[allow(non_camel_case_types, reason = "the name in C")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct mp_pool_info {
    size: u32,
    reserved: u32,
    serial: u64,
}

/// An errno, positive.
struct Errno(c_int);

impl From<MemberError> for Errno {
    fn from(error: MemberError) -> Self {
        Errno(match error {
            MemberError::NoPools(_) => libc::ENODEV,
            MemberError::NoSuchPool(_) => libc::ENOENT,
            MemberError::Ended(_) => libc::EIDRM,
            MemberError::NoNotice { .. } => libc::EBADMSG,
            MemberError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        })
    }
}

/// The result of a call: a number, or a negated errno. A panic becomes an error.
fn answer(call: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(number)) => number,
        Ok(Err(Errno(errno))) => -errno,
        Err(_) => -libc::ENOTRECOVERABLE,
    }
}

const INVALID: Errno = Errno(libc::EINVAL);

/// Stores a size for the caller and for [`mp_pool_cpus`]. Returns the number of CPUs.
///
/// # Safety
/// `info` is null or writable.
unsafe fn tell(pool: &mut mp_pool, size: PoolSize, info: *mut mp_pool_info) -> c_int {
    let count = size.size();
    if !info.is_null() {
        let value =
            mp_pool_info { size: u32::try_from(count).unwrap_or(u32::MAX), reserved: 0, serial: size.serial };
        // SAFETY: it is not null, so by the caller's promise it is writable; it is not read.
        unsafe { info.write(value) };
    }
    pool.told = Some(size);
    c_int::try_from(count).unwrap_or(c_int::MAX)
}

/// See the header.
///
/// # Safety
/// `name` is null or a zero-terminated string; `pool` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_open(name: *const c_char, pool: *mut *mut mp_pool) -> c_int {
    if pool.is_null() {
        return -libc::EINVAL;
    }
    // SAFETY: it is not null, so by the caller's promise it is writable.
    unsafe { pool.write(ptr::null_mut()) };
    answer(|| {
        let subscription = if name.is_null() {
            Subscription::of_own()?
        } else {
            // SAFETY: it is not null; by the caller's promise it is zero-terminated and does not change during the call.
            let name = unsafe { CStr::from_ptr(name) };
            Subscription::to(name.to_str().map_err(|_| INVALID)?)?
        };
        let name = CString::new(subscription.pool()).map_err(|_| INVALID)?;
        let opened = Box::new(mp_pool { subscription, name, told: None });
        // SAFETY: as above.
        unsafe { pool.write(Box::into_raw(opened)) };
        Ok(0)
    })
}

/// See the header.
///
/// # Safety
/// `pool` is null, or from [`mp_pool_open`] and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_fd(pool: *const mp_pool) -> c_int {
    // SAFETY: null, or by the caller's promise an open pool that no other thread changes meanwhile.
    let pool = unsafe { pool.as_ref() };
    answer(|| Ok(pool.ok_or(INVALID)?.subscription.fd().as_raw_fd()))
}

/// See the header.
///
/// # Safety
/// As for [`mp_pool_fd`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_name(pool: *const mp_pool) -> *const c_char {
    // SAFETY: null, or by the caller's promise an open pool.
    let pool = unsafe { pool.as_ref() };
    pool.map_or(ptr::null(), |pool| pool.name.as_ptr())
}

/// See the header.
///
/// # Safety
/// `pool` is null, or from [`mp_pool_open`], not closed, and not in use by another thread; `info` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_size(pool: *mut mp_pool, info: *mut mp_pool_info) -> c_int {
    // SAFETY: null, or by the caller's promise an open pool that is not used elsewhere.
    let pool = unsafe { pool.as_mut() };
    answer(|| {
        let pool = pool.ok_or(INVALID)?;
        let size = pool.subscription.size()?;
        // SAFETY: by the caller's promise.
        Ok(unsafe { tell(pool, size, info) })
    })
}

/// See the header.
///
/// # Safety
/// `pool` as for [`mp_pool_fd`]; `mask` is null, or `bytes` bytes of it are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_cpus(pool: *const mp_pool, mask: *mut c_ulong, bytes: size_t) -> c_int {
    // SAFETY: null, or by the caller's promise an open pool.
    let pool = unsafe { pool.as_ref() };
    answer(|| {
        let told = pool.ok_or(INVALID)?.told.as_ref();
        if mask.is_null() || !bytes.is_multiple_of(size_of::<c_ulong>()) {
            return Err(INVALID);
        }
        // SAFETY: it is not null, aligned for its type, and by the caller's promise has that many writable bytes. Any bits are a valid number.
        let words = unsafe {
            ptr::write_bytes(mask, 0, bytes / size_of::<c_ulong>());
            std::slice::from_raw_parts_mut(mask, bytes / size_of::<c_ulong>())
        };
        let mut count = 0;
        for cpu in told.iter().flat_map(|size| size.cpus.iter()) {
            let cpu = usize::try_from(cpu.0).map_err(|_| INVALID)?;
            let bits = c_ulong::BITS as usize;
            *words.get_mut(cpu / bits).ok_or(Errno(libc::ERANGE))? |= 1 << (cpu % bits);
            count += 1;
        }
        Ok(count)
    })
}

/// See the header.
///
/// # Safety
/// As for [`mp_pool_size`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_wait(
    pool: *mut mp_pool,
    timeout_ms: c_int,
    info: *mut mp_pool_info,
) -> c_int {
    // SAFETY: null, or by the caller's promise an open pool that is not used elsewhere.
    let pool = unsafe { pool.as_mut() };
    answer(|| {
        let pool = pool.ok_or(INVALID)?;
        let timeout = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
        let Some(size) = pool.subscription.wait(timeout)? else { return Ok(0) };
        // SAFETY: by the caller's promise.
        unsafe { tell(pool, size, info) };
        Ok(1)
    })
}

/// See the header.
///
/// # Safety
/// `pool` is null, or from [`mp_pool_open`], not closed, and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mp_pool_close(pool: *mut mp_pool) {
    if !pool.is_null() {
        // SAFETY: it came from a box, and by the caller's promise this is its last use.
        let pool = unsafe { Box::from_raw(pool) };
        answer(|| {
            drop(pool);
            Ok(0)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_stays_on_this_side() {
        assert_eq!(answer(|| panic!("a defect")), -libc::ENOTRECOVERABLE);
    }

    #[test]
    fn null_is_refused_and_never_followed() {
        let (none, info) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: each of them allows null.
        unsafe {
            assert_eq!(mp_pool_open(ptr::null(), ptr::null_mut()), -libc::EINVAL);
            assert_eq!(mp_pool_fd(none), -libc::EINVAL);
            assert_eq!(mp_pool_size(none, info), -libc::EINVAL);
            assert_eq!(mp_pool_cpus(none, ptr::null_mut(), 0), -libc::EINVAL);
            assert_eq!(mp_pool_wait(none, 0, info), -libc::EINVAL);
            assert!(mp_pool_name(none).is_null());
            mp_pool_close(none);
        }
    }
}
