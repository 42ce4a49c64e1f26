//! The walk from frame to frame on x86-64.

use super::cache::{self, ADDRESS_BITS};
use super::row::{self, Address, Pointer, Row, Usual};
use super::stack::Stack;

/// A frame: the address at which its code continues, and two registers at that moment.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// The address at which its code continues.
    next: usize,
    stack: usize,
    pointer: usize,
}

/// Fills `frames` from the registers at the entry of a function.
///
/// # Safety
/// `frames` has room for `count` addresses, and the stack pointer is that of the calling thread.
pub(super) unsafe extern "C" fn walk(
    frames: *mut usize,
    count: usize,
    stack: usize,
    pointer: usize,
) -> usize {
    // SAFETY: by the caller's promise.
    let frames = unsafe { std::slice::from_raw_parts_mut(frames, count) };
    let mut memory = Stack::at(stack, true);
    let Some(next) = memory.word(stack) else { return 0 };
    let first = Frame { next, stack: stack.wrapping_add(8), pointer };
    let before = cache::forgotten();
    let found = follow(frames, first, memory);
    if cache::forgotten() == before {
        return found;
    }
    // Some rows may have been of an unloaded library.
    follow(frames, first, Stack::at(stack, true))
}

fn follow(frames: &mut [usize], mut frame: Frame, mut memory: Stack) -> usize {
    let mut count = 0;
    // The place in the current frame, and the one of its callee.
    let (mut place, mut led) = (frame.next.wrapping_sub(1), None);
    let room = frames.len();
    for free in frames {
        if place >= 1 << ADDRESS_BITS {
            break;
        }
        *free = frame.next;
        count += 1;
        if count == room {
            return count;
        }
        let bits = cache::row(place);
        let caller = match Usual::of(bits) {
            Some(row) => usual(row, frame, &mut memory),
            None if bits == 0 => break,
            None => match Row::unpack(bits) {
                Row::End => return count,
                row => unusual(row, frame, memory).map(|(caller, now)| {
                    memory = now;
                    caller
                }),
            },
        };
        led = Some(place);
        match caller {
            Some(caller) => frame = caller,
            None => break,
        }
        // An interrupted function continues at its place; a caller continues after its place.
        place = if bits & row::KIND_MASK == row::SIGNAL { frame.next } else { frame.next.wrapping_sub(1) };
    }
    if let Some(place) = led {
        cache::doubt(place);
    }
    count
}

/// The frame of the caller, by a usual row.
#[inline(always)]
fn usual(row: Usual, frame: Frame, memory: &mut Stack) -> Option<Frame> {
    let address = row.address(frame.stack, frame.pointer);
    // Frames of callers are above.
    if address <= frame.stack {
        return None;
    }
    let next = memory.word(address.wrapping_sub(8))?;
    let pointer = memory.word(address.wrapping_sub(row.below()))?;
    Some(Frame { next, stack: address, pointer: if row.is_kept() { frame.pointer } else { pointer } })
}

/// The same for rare rows. Also returns the stack of the frame.
#[cold]
#[inline(never)]
fn unusual(row: Row, frame: Frame, mut memory: Stack) -> Option<(Frame, Stack)> {
    let (address, pointer) = match row {
        Row::Frame { address, pointer } => (address, pointer),
        Row::Signal => return interrupted(frame, memory),
        Row::End => return None,
    };
    let address = match address {
        Address::AboveStack(words) => frame.stack.wrapping_add(row::to_bytes(words)),
        Address::AboveFrame(words) => frame.pointer.wrapping_add(row::to_bytes(words)),
        Address::StoredBelowFrame(words) => memory.word(frame.pointer.wrapping_sub(row::to_bytes(words)))?,
    };
    if address <= frame.stack {
        return None;
    }
    let next = memory.word(address.wrapping_sub(8))?;
    let pointer = match pointer {
        Pointer::Kept => frame.pointer,
        Pointer::Below(words) => memory.word(address.wrapping_sub(row::to_bytes(words)))?,
        Pointer::AtFrame => memory.word(frame.pointer)?,
        Pointer::Lost => 0,
    };
    Some((Frame { next, stack: address, pointer }, memory))
}

/// The function that a handler interrupted. The kernel stored its registers at the stack pointer after the handler's return.
fn interrupted(frame: Frame, mut memory: Stack) -> Option<(Frame, Stack)> {
    const REGISTERS: usize =
        std::mem::offset_of!(libc::ucontext_t, uc_mcontext) + std::mem::offset_of!(libc::mcontext_t, gregs);
    let mut register = |number: libc::c_int| {
        let at = usize::try_from(number).ok()? * size_of::<libc::greg_t>();
        memory.word(frame.stack.wrapping_add(REGISTERS + at))
    };
    let (next, stack, pointer) =
        (register(libc::REG_RIP)?, register(libc::REG_RSP)?, register(libc::REG_RBP)?);
    // The handler may run on an alternate stack.
    Some((Frame { next, stack, pointer }, Stack::at(stack, false)))
}
