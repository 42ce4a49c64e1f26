//! Stack traces of the allocator's callers, in records of buffers and in reports.

use super::{options, root};
use millpond_rt_layout::Bufctl;
use std::ptr;

/// Stores the caller's stack in a record.
///
/// # Safety
/// The caller owns the record, which has room for a stack.
#[inline(always)]
pub(super) unsafe fn set_stack(record: *mut Bufctl) {
    // SAFETY: by the caller's promise.
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
    // SAFETY: a record of a cache with auditing is followed by that many return addresses.
    unsafe {
        let depth = (*record).depth.min((*root::root()).frames) as usize;
        std::slice::from_raw_parts(record.add(1).cast(), depth)
    }
}

/// The stack of the allocator's caller.
pub(super) struct Here {
    frames: [usize; options::FRAMES_MAX + OWN],
    /// The range of the program's frames.
    range: (usize, usize),
}

/// Maximum number of the allocator's own frames.
const OWN: usize = 8;

impl Here {
    pub(super) fn new() -> Here {
        Here { frames: [0; options::FRAMES_MAX + OWN], range: (0, 0) }
    }

    /// Captures at least `room` frames of the program, if there are that many.
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

/// Whether a return address is in one of the allocator's entry functions. They are in a section of their own, whose bounds the linker defines. A
/// function that is inlined into its caller counts as the caller.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn is_own(frame: usize) -> bool {
    let (first, last): (usize, usize);
    // SAFETY: linker-defined symbols for the bounds of an existing section; each library has its own hidden ones.
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

/// Without that linker support, or under Miri, which reads no stack.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn is_own(_: usize) -> bool {
    false
}
