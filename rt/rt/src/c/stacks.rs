//! Stacks, their bounds and what is in memory of them, for programs in C.

use super::fail;
use crate::{StackBounds, StackError, StackMapping, StackResidency};
use libc::{c_int, c_uint, c_void, size_t, stack_t};
use std::ptr;

/// 0, or -1 with errno.
fn answer(result: Result<(), StackError>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => fail(error.errno()),
    }
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn stack_alloc(size: size_t) -> *mut c_void {
    match crate::stack_alloc(size) {
        Ok(stack) => stack.as_ptr().cast(),
        Err(error) => {
            fail(error.errno());
            ptr::null_mut()
        }
    }
}

/// See the header.
///
/// # Safety
/// As [`crate::stack_free`].
#[unsafe(no_mangle)]
unsafe extern "C" fn stack_free(address: *mut c_void, size: size_t) -> c_int {
    // SAFETY: our caller promises what it needs.
    answer(unsafe { crate::stack_free(address.cast(), size) })
}

/// See the header.
///
/// # Safety
/// `sizes` is null, or `count` sizes may be written there.
#[unsafe(no_mangle)]
unsafe extern "C" fn fetch_stack_sizes(sizes: *mut size_t, count: c_int) -> c_int {
    let all = crate::fetch_stack_sizes();
    let Ok(room) = usize::try_from(count) else { return fail(libc::EINVAL) };
    if sizes.is_null() != (room == 0) {
        return fail(libc::EINVAL);
    }
    let told = if sizes.is_null() { all.len() } else { all.len().min(room) };
    for (at, size) in all.iter().enumerate().take(room) {
        // SAFETY: `at` is less than `count`, and our caller promises so much room.
        unsafe { sizes.add(at).write(*size) };
    }
    c_int::try_from(told).unwrap_or(c_int::MAX)
}

/// See the header.
///
/// # Safety
/// `bounds` is null or may be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn stack_getbounds(bounds: *mut stack_t) -> c_int {
    if bounds.is_null() {
        return fail(libc::EINVAL);
    }
    answer(crate::stack_getbounds().map(|StackBounds { base, size }| {
        let told = stack_t { ss_sp: ptr::with_exposed_provenance_mut(base), ss_flags: 0, ss_size: size };
        // SAFETY: it is not null, and our caller promises the rest.
        unsafe { bounds.write(told) };
    }))
}

/// See the header.
///
/// # Safety
/// `bounds` is null or may be read.
#[unsafe(no_mangle)]
unsafe extern "C" fn stack_setbounds(bounds: *const stack_t) -> c_int {
    // SAFETY: null, or our caller promises it.
    match unsafe { bounds.as_ref() } {
        Some(set) if set.ss_flags == 0 => {
            answer(crate::stack_setbounds(StackBounds { base: set.ss_sp.addr(), size: set.ss_size }))
        }
        _ => fail(libc::EINVAL),
    }
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn stack_inbounds(address: *const c_void) -> c_int {
    c_int::from(crate::stack_inbounds(address.cast()))
}

/// See the header.
///
/// # Safety
/// As [`crate::stack_violation`].
#[unsafe(no_mangle)]
unsafe extern "C" fn stack_violation(
    signal: c_int,
    info: *const libc::siginfo_t,
    context: *const c_void,
) -> c_int {
    // SAFETY: our caller promises what it needs.
    c_int::from(unsafe { crate::stack_violation(signal, info, context) })
}

/// See the header.
#[unsafe(no_mangle)]
extern "C" fn stack_lock() -> c_int {
    answer(crate::stack_lock())
}

/// As in the header.
#[repr(C)]
struct Residency {
    pages: size_t,
    mapped: size_t,
    resident: size_t,
}

/// See the header.
///
/// # Safety
/// `residency` is null or may be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn stack_residency(residency: *mut Residency) -> c_int {
    if residency.is_null() {
        return fail(libc::EINVAL);
    }
    answer(crate::stack_residency().map(|StackResidency { pages, mapped, resident }| {
        // SAFETY: it is not null, and our caller promises the rest.
        unsafe { residency.write(Residency { pages, mapped, resident }) };
    }))
}

/// As in the header.
#[repr(C)]
struct Mapping {
    address: *mut c_void,
    end: *mut c_void,
    size: size_t,
    flags: c_uint,
}

/// See the header.
///
/// # Safety
/// `mappings` is null, or `count` of them may be written there.
#[unsafe(no_mangle)]
unsafe extern "C" fn stack_mappings(mappings: *mut Mapping, count: c_int) -> c_int {
    let Ok(room) = usize::try_from(count) else { return fail(libc::EINVAL) };
    if mappings.is_null() != (room == 0) {
        return fail(libc::EINVAL);
    }
    let all: Vec<StackMapping> = match crate::stack_mappings() {
        Ok(all) => all,
        Err(error) => return fail(error.errno()),
    };
    let told = if mappings.is_null() { all.len() } else { all.len().min(room) };
    for (at, mapping) in all.iter().enumerate().take(room) {
        let [address, end] = [mapping.address, mapping.end].map(ptr::with_exposed_provenance_mut);
        let told = Mapping { address, end, size: mapping.size(), flags: mapping.flags };
        // SAFETY: `at` is less than `count`, and our caller promises so much room.
        unsafe { mappings.add(at).write(told) };
    }
    c_int::try_from(told).unwrap_or(c_int::MAX)
}
