//! Caches of objects, for programs in Rust.

use super::RawCachePlan;
use super::raw::{self, RawCache};
use libc::{c_int, c_void};
use std::error::Error;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// A cache of objects that stay constructed while they are free.
///
/// ```
/// use millpond_rt::ObjectCache;
///
/// let buffers = ObjectCache::new(c"buffers", || Vec::<u8>::with_capacity(4096))?;
/// let mut one = buffers.get().expect("there is memory");
/// one.extend_from_slice(b"some bytes");
/// one.clear(); // returned in the state that the next user expects
/// # Ok::<(), millpond_rt::ObjectCacheError>(())
/// ```
///
/// Dropping an object returns it to its cache, unchanged. The next user gets it in that state.
pub struct ObjectCache<T> {
    cache: *mut RawCache,
    /// The constructor of objects; the cache's callback has a pointer to it.
    make: Box<Make<T>>,
}

type Make<T> = Box<dyn Fn() -> T + Send + Sync>;

// SAFETY: the calls are thread-safe, and an object belongs to one thread at a time.
unsafe impl<T: Send> Send for ObjectCache<T> {}
// SAFETY: as above; `make` is `Sync`.
unsafe impl<T: Send> Sync for ObjectCache<T> {}

impl<T: Send> ObjectCache<T> {
    /// A cache whose objects `make` constructs. The first 31 bytes of the name are kept.
    ///
    /// # Errors
    /// [`ObjectCacheError`]: the objects have size zero, or an alignment of more than a page, or the system is out of memory.
    pub fn new(
        name: &CStr,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<ObjectCache<T>, ObjectCacheError> {
        let make: Box<Make<T>> = Box::new(Box::new(make));
        let cache = raw::umem_cache_create(&RawCachePlan {
            name,
            size: size_of::<T>(),
            align: align_of::<T>().max(8),
            constructor: Some(construct::<T>),
            destructor: Some(destruct::<T>),
            reclaim: None,
            private: ptr::from_ref(&*make).cast_mut().cast(),
            cflags: 0,
        })
        .map_err(ObjectCacheError)?;
        Ok(ObjectCache { cache, make })
    }

    /// A returned or new object. `None`: out of memory, or `make` panicked.
    #[must_use]
    pub fn get(&self) -> Option<Object<'_, T>> {
        // SAFETY: the cache lives as long as `self`.
        let object: *mut T = unsafe { raw::umem_cache_alloc(self.cache, 0) }.cast();
        ptr::NonNull::new(object).map(|object| Object { of: self, object })
    }
}

impl<T> Drop for ObjectCache<T> {
    fn drop(&mut self) {
        // SAFETY: objects borrow the cache, so none is in use. If one was forgotten, the cache is leaked, and this is reported.
        unsafe { raw::umem_cache_destroy(self.cache) };
    }
}

impl<T> fmt::Debug for ObjectCache<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let make: *const Make<T> = &raw const *self.make;
        out.debug_struct("ObjectCache").field("cache", &self.cache).field("make", &make).finish()
    }
}

/// An object of a cache. Dropping it returns the object.
pub struct Object<'a, T> {
    of: &'a ObjectCache<T>,
    object: ptr::NonNull<T>,
}

// SAFETY: it is the only owner of the object; any thread may return it.
unsafe impl<T: Send> Send for Object<'_, T> {}
// SAFETY: a reference to it gives references to the object only.
unsafe impl<T: Sync> Sync for Object<'_, T> {}

impl<T> Deref for Object<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: it was constructed, and this is its only owner.
        unsafe { self.object.as_ref() }
    }
}

impl<T> DerefMut for Object<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { self.object.as_mut() }
    }
}

impl<T> Drop for Object<'_, T> {
    fn drop(&mut self) {
        // SAFETY: it is of that cache, and is not used after this.
        unsafe { raw::umem_cache_free(self.of.cache, self.object.as_ptr().cast()) };
    }
}

impl<T: fmt::Debug> fmt::Debug for Object<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}

unsafe extern "C" fn construct<T>(buffer: *mut c_void, make: *mut c_void, _how: c_int) -> c_int {
    // SAFETY: the private pointer of the cache points to `make`.
    let make = unsafe { &*make.cast::<Make<T>>() };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(make)) {
        Ok(object) => {
            // SAFETY: the buffer has the size and alignment of an object, and is unused.
            unsafe { buffer.cast::<T>().write(object) };
            0
        }
        Err(_) => 1,
    }
}

unsafe extern "C" fn destruct<T>(buffer: *mut c_void, _make: *mut c_void) {
    // SAFETY: it was constructed, and no thread uses it.
    unsafe { buffer.cast::<T>().drop_in_place() };
}

/// A cache cannot be created; its errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectCacheError(pub c_int);

impl fmt::Display for ObjectCacheError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            libc::EINVAL => {
                write!(
                    out,
                    "cannot make an object cache: objects must have a size, and an alignment of at most a page"
                )
            }
            libc::ENOMEM => write!(out, "cannot make an object cache: objects are too large"),
            libc::EAGAIN => write!(out, "cannot make an object cache: there is no memory"),
            errno => write!(out, "cannot make an object cache: {}", io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Error for ObjectCacheError {}
