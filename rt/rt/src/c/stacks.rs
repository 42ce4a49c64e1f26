//! Stacks, their bounds and their residency, for programs in C.

use super::{fail, fill};
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

#[unsafe(no_mangle)]
unsafe extern "C" fn stack_free(address: *mut c_void, size: size_t) -> c_int {
    // SAFETY: our caller promises what it needs.
    answer(unsafe { crate::stack_free(address.cast(), size) })
}

/// The array is allocated by the program's `malloc`, because the program frees it.
#[unsafe(no_mangle)]
extern "C" fn fetch_stack_sizes() -> *mut c_uint {
    let all = crate::fetch_stack_sizes();
    // SAFETY: the call allocates memory only.
    let sizes: *mut c_uint = unsafe { libc::calloc(all.len() + 1, size_of::<c_uint>()) }.cast();
    if sizes.is_null() {
        fail(libc::ENOMEM);
        return sizes;
    }
    for (at, size) in all.iter().enumerate() {
        // SAFETY: the array has room for all sizes and a final zero. The largest size is 2 MB.
        unsafe { sizes.add(at).write(c_uint::try_from(*size).unwrap_or(0)) };
    }
    sizes
}

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

#[unsafe(no_mangle)]
extern "C" fn stack_inbounds(address: *const c_void) -> c_int {
    c_int::from(crate::stack_inbounds(address.cast()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn stack_violation(
    signal: c_int,
    info: *const libc::siginfo_t,
    context: *const c_void,
) -> c_int {
    // SAFETY: our caller promises what it needs.
    c_int::from(unsafe { crate::stack_violation(signal, info, context) })
}

#[unsafe(no_mangle)]
extern "C" fn stack_lock() -> c_int {
    answer(crate::stack_lock())
}

/// Layout of the header.
#[repr(C)]
struct Residency {
    pages: size_t,
    mapped: size_t,
    resident: size_t,
}

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

/// Layout of the header.
#[repr(C)]
struct Mapping {
    address: *mut c_void,
    end: *mut c_void,
    size: size_t,
    flags: c_uint,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn stack_mappings(mappings: *mut Mapping, count: c_int) -> c_int {
    let told = |mapping: StackMapping| {
        let [address, end] = [mapping.address, mapping.end].map(ptr::with_exposed_provenance_mut);
        Mapping { address, end, size: mapping.size(), flags: mapping.flags }
    };
    let all = || crate::stack_mappings().map_err(|error| error.errno());
    // SAFETY: our caller promises room for `count`.
    unsafe { fill(mappings, count, || Ok(all()?.into_iter().map(told))) }
}
