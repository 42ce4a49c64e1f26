//! The chain of frame pointers of 64-bit ARM: a frame begins with the caller's frame pointer and the address to which the function returns.

use super::stack::Stack;

/// Address bits. Higher bits can contain a pointer authentication code.
const ADDRESS: usize = (1 << 48) - 1;

/// Follows the chain from the caller's return address and frame pointer. Returns the number of frames.
pub(super) fn follow(frames: &mut [usize], returned: usize, mut pointer: usize, stack: usize) -> usize {
    let (mut memory, mut low, mut place) = (Stack::at(stack, true), stack, returned & ADDRESS);
    let mut count = 0;
    while let Some(frame) = frames.get_mut(count) {
        if place == 0 {
            break;
        }
        *frame = place;
        count += 1;
        // The frames of callers are above; a frame is at least 16 bytes.
        if pointer < low || count == frames.len() {
            break;
        }
        let (Some(next), Some(returned)) = (memory.word(pointer), memory.word(pointer.wrapping_add(8)))
        else {
            break;
        };
        low = pointer.saturating_add(16);
        (pointer, place) = (next, returned & ADDRESS);
    }
    count
}
