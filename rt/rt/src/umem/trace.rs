//! Stack traces: those of callers of the allocator, in records of buffers and in reports.

use super::{options, root};
use millpond_rt_layout::Bufctl;
use std::ptr;

/// The caller's stack in a record.
///
/// # Safety
/// The record is the caller's, and has room for a stack.
#[inline(always)]
pub(super) unsafe fn set_stack(record: *mut Bufctl) {
    // SAFETY: our caller's promise.
    unsafe {
        let room = (*root::root()).frames as usize;
        let mut here = Here::new();
        here.capture(room);
        let depth = here.len().min(room);
        ptr::copy_nonoverlapping(here.as_ptr(), record.add(1).cast(), depth);
        (*record).depth = depth as u32;
    }
}

pub(super) fn frames_of(record: *const Bufctl) -> &'static [usize] {
    // SAFETY: so many return addresses were written behind it, if it is of a cache that audits.
    unsafe {
        let depth = (*record).depth.min((*root::root()).frames) as usize;
        std::slice::from_raw_parts(record.add(1).cast(), depth)
    }
}

/// The stack of the allocator's caller.
pub(super) struct Here {
    frames: [usize; options::FRAMES_MAX + OWN],
    /// Of those that are not ours.
    range: (usize, usize),
}

/// So many frames of a stack may be our own.
const OWN: usize = 8;

impl Here {
    pub(super) fn new() -> Here {
        Here { frames: [0; options::FRAMES_MAX + OWN], range: (0, 0) }
    }

    /// Captures at least so many frames of the program's, if there are.
    #[inline(always)]
    pub(super) fn capture(&mut self, room: usize) {
        let most = (room + OWN).min(self.frames.len());
        let depth = millpond_unwind::capture(self.frames.get_mut(..most).unwrap_or_default());
        let inner = self.frames.get(..depth.min(OWN)).unwrap_or_default();
        let own = inner.iter().rposition(|frame| is_own(*frame)).map_or(0, |last| last + 1);
        self.range = (own, depth);
    }
}

impl std::ops::Deref for Here {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        self.frames.get(self.range.0..self.range.1).unwrap_or_default()
    }
}

/// Whether a return address is in one of the functions that a program enters the allocator by. They have a section, whose ends the linker knows; what is
/// inlined into a caller of ours is that caller.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn is_own(frame: usize) -> bool {
    let (first, last): (usize, usize);
    // SAFETY: the linker's names for both ends of a section that is there; each library has its own, and hides it.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            ".hidden __start_millpond_umem",
            ".hidden __stop_millpond_umem",
            "lea {first}, [rip + __start_millpond_umem]",
            "lea {last}, [rip + __stop_millpond_umem]",
            first = out(reg) first,
            last = out(reg) last,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            ".hidden __start_millpond_umem",
            ".hidden __stop_millpond_umem",
            "adrp {first}, __start_millpond_umem",
            "add {first}, {first}, :lo12:__start_millpond_umem",
            "adrp {last}, __stop_millpond_umem",
            "add {last}, {last}, :lo12:__stop_millpond_umem",
            first = out(reg) first,
            last = out(reg) last,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    (first..last).contains(&frame)
}

/// There is no linker, or no stack is read.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn is_own(_: usize) -> bool {
    false
}
