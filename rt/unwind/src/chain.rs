//! The chain of frame pointers of 64-bit ARM: a frame begins with the caller's frame pointer and the address to which the function returns.

use super::stack::Stack;

/// Addresses have no more bits; above them is what pointer authentication has put there.
const ADDRESS: usize = (1 << 48) - 1;

/// From the registers of the caller: the address it returns to and its frame pointer. Gives how many frames there are.
pub(super) fn follow(frames: &mut [usize], returned: usize, mut pointer: usize, stack: usize) -> usize {
    let (mut memory, mut low, mut place) = (Stack::at(stack, true), stack, returned & ADDRESS);
    let mut count = 0;
    while let Some(frame) = frames.get_mut(count) {
        if place == 0 {
            break;
        }
        *frame = place;
        count += 1;
        // Callers have their frames above; a frame is 16 bytes at the least.
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
