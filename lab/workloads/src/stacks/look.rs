//! The bounds of a stack, and its number of pages in memory.

use crate::Error;
use libc::{c_int, c_uchar, c_void};
use rustix::param::page_size;
use serde::{Deserialize, Serialize};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

/// Numbers of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Count {
    /// Resident pages.
    pub resident: usize,
    /// Existing pages.
    pub pages: usize,
}

/// A stack: whole pages from `base` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) base: usize,
    pub(super) bytes: usize,
}

fn failed(errno: c_int) -> Error {
    Error::LookAtStack { source: io::Error::from_raw_os_error(errno) }
}

impl Bounds {
    /// The bounds from the C library, without the guard; for the main stack down to its limit.
    pub(super) fn of_this_thread() -> Result<Bounds, Error> {
        let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
        // SAFETY: the attributes are written to.
        let errno = unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) };
        if errno != 0 {
            return Err(failed(errno));
        }
        let (mut base, mut bytes): (*mut c_void, usize) = (ptr::null_mut(), 0);
        // SAFETY: the call above initialised the attributes; two values are written, and the attributes are not used again.
        let errno = unsafe {
            let errno = libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut base, &raw mut bytes);
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            errno
        };
        if errno != 0 {
            return Err(failed(errno));
        }
        let (begin, end) = (base.expose_provenance(), base.addr() + bytes);
        let begin = begin.next_multiple_of(page_size());
        Ok(Bounds { base: begin, bytes: end.next_multiple_of(page_size()) - begin })
    }

    /// The start of each page.
    pub(super) fn pages(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.bytes / page_size()).map(move |page| self.base + page * page_size())
    }

    /// The existing part at the upper end: a main stack that has not grown to its limit is smaller than its bounds.
    pub(super) fn existing(self) -> Bounds {
        let exists = |page: &usize| ask(*page, page_size(), &mut [0]).is_ok();
        let base = self.pages().rev().take_while(exists).last().unwrap_or(self.base + self.bytes);
        Bounds { base, bytes: self.base + self.bytes - base }
    }

    /// A buffer with a byte for each page, allocated before pages are counted, so that counting uses no more of the stack itself.
    pub(super) fn room(self) -> Vec<c_uchar> {
        vec![0; self.bytes / page_size()]
    }

    /// Number of its pages in memory; all must exist, and fit the buffer.
    pub(super) fn count(self, room: &mut [c_uchar]) -> Result<Count, Error> {
        let seen = &mut room[..self.bytes / page_size()];
        ask(self.base, self.bytes, seen).map_err(|source| Error::LookAtStack { source })?;
        Ok(Count { resident: seen.iter().filter(|page| **page & 1 != 0).count(), pages: seen.len() })
    }
}

/// Finds the pages in memory. An error means that not all exist.
fn ask(base: usize, bytes: usize, seen: &mut [c_uchar]) -> io::Result<()> {
    debug_assert_eq!(seen.len() * page_size(), bytes);
    // SAFETY: one byte is written per page, and the buffer has as many; the memory itself is not touched.
    let answer = unsafe { libc::mincore(ptr::without_provenance_mut(base), bytes, seen.as_mut_ptr()) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether the kernel can read the byte at an address. The read grows a stack as a touch does.
pub(super) fn kernel_can_read(address: usize) -> Result<bool, Error> {
    let look = |source| Error::LookAtStack { source };
    let (_out, into) = io::pipe().map_err(look)?;
    let byte: *const c_void = ptr::without_provenance(address);
    // SAFETY: the kernel copies a byte, or returns an error if it is not mapped.
    if unsafe { libc::write(into.as_raw_fd(), byte, 1) } == 1 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EFAULT) { Ok(false) } else { Err(look(error)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_reads_what_is_there_and_nothing_else() {
        let here = 0u8;
        assert!(kernel_can_read((&raw const here).addr()).unwrap());
        assert!(!kernel_can_read(8).unwrap());
    }

    #[test]
    fn pages_that_do_not_exist_are_not_counted() {
        let (page, none) = (page_size(), Bounds { base: 0, bytes: 2 * page_size() });
        assert_eq!(none.existing(), Bounds { base: 2 * page, bytes: 0 });
        assert_eq!(none.count(&mut none.room()).unwrap_err().to_string(), "cannot look at a stack");
        let here = 0u8;
        let own = Bounds { base: (&raw const here).addr() / page * page, bytes: page };
        assert_eq!(own.existing(), own);
        assert_eq!(own.count(&mut own.room()).unwrap(), Count { resident: 1, pages: 1 });
    }
}
