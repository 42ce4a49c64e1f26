//! From frame to frame on x86-64.

use super::cache::{self, ADDRESS_BITS};
use super::row::{Address, Pointer, Row};
use super::stack::Stack;

/// What is known of a frame: where its code goes on, and two registers as they are then.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Where its code goes on.
    next: usize,
    /// The stack pointer.
    stack: usize,
    /// The frame pointer.
    pointer: usize,
    /// Its code was interrupted before `next`; otherwise it called someone right there.
    is_interrupted: bool,
}

/// Fills `frames` from the registers of a function that was just entered.
///
/// # Safety
/// `count` addresses may be written to `frames`, and the stack pointer is that of the calling thread.
pub(super) unsafe extern "C" fn walk(
    frames: *mut usize,
    count: usize,
    stack: usize,
    pointer: usize,
) -> usize {
    // SAFETY: our caller promises it.
    let frames = unsafe { std::slice::from_raw_parts_mut(frames, count) };
    let mut memory = Stack::at(stack, true);
    let Some(next) = memory.word(stack) else { return 0 };
    let first = Frame { next, stack: stack.wrapping_add(8), pointer, is_interrupted: false };
    let before = cache::forgotten();
    let found = follow(frames, first, memory);
    if cache::forgotten() == before {
        return found;
    }
    // Some rows may have been of a library that is gone.
    follow(frames, first, Stack::at(stack, true))
}

fn follow(frames: &mut [usize], mut frame: Frame, mut memory: Stack) -> usize {
    let mut count = 0;
    // Where the row was for that led here.
    let mut led = None;
    while let Some(free) = frames.get_mut(count) {
        let Some(place) = frame.place() else { break };
        *free = frame.next;
        count += 1;
        if count == frames.len() {
            return count;
        }
        let Some(row) = cache::row(place) else { break };
        if row == Row::End {
            return count;
        }
        led = Some(place);
        match frame.caller(row, &mut memory) {
            Some(caller) => frame = caller,
            None => break,
        }
    }
    if let Some(place) = led {
        cache::doubt(place);
    }
    count
}

impl Frame {
    /// The place that the frame is at; none: that is no address.
    #[inline]
    fn place(&self) -> Option<usize> {
        let place = if self.is_interrupted { self.next } else { self.next.wrapping_sub(1) };
        if place < 1 << ADDRESS_BITS { Some(place) } else { None }
    }

    /// The frame of the caller.
    #[inline]
    fn caller(&self, row: Row, memory: &mut Stack) -> Option<Frame> {
        let (address, pointer) = match row {
            Row::Frame { address, pointer } => (address, pointer),
            Row::Signal => return self.interrupted(memory),
            Row::End => return None,
        };
        let address = match address {
            Address::AboveStack(words) => self.stack.wrapping_add(bytes(words)),
            Address::AboveFrame(words) => self.pointer.wrapping_add(bytes(words)),
            Address::StoredBelowFrame(words) => memory.word(self.pointer.wrapping_sub(bytes(words)))?,
        };
        // Callers have their frames above.
        if address <= self.stack {
            return None;
        }
        let next = memory.word(address.wrapping_sub(8))?;
        let pointer = match pointer {
            Pointer::Kept => self.pointer,
            Pointer::Below(words) => memory.word(address.wrapping_sub(bytes(u32::from(words))))?,
            Pointer::AtFrame => memory.word(self.pointer)?,
            Pointer::Lost => 0,
        };
        Some(Frame { next, stack: address, pointer, is_interrupted: false })
    }

    /// What a handler interrupted. The kernel has put its registers where the stack pointer is when the handler has returned.
    #[cold]
    fn interrupted(&self, memory: &mut Stack) -> Option<Frame> {
        const REGISTERS: usize = std::mem::offset_of!(libc::ucontext_t, uc_mcontext)
            + std::mem::offset_of!(libc::mcontext_t, gregs);
        let mut register = |number: libc::c_int| {
            let at = usize::try_from(number).ok()? * size_of::<libc::greg_t>();
            memory.word(self.stack.wrapping_add(REGISTERS + at))
        };
        let (next, stack, pointer) =
            (register(libc::REG_RIP)?, register(libc::REG_RSP)?, register(libc::REG_RBP)?);
        // A handler may have a stack of its own.
        *memory = Stack::at(stack, false);
        Some(Frame { next, stack, pointer, is_interrupted: true })
    }
}

fn bytes(words: u32) -> usize {
    usize::try_from(words).unwrap_or_default() * 8
}
