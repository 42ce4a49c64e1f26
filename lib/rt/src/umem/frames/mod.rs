//! The caller's stack.

/// none yet
pub(super) fn capture(_frames: &mut [usize]) -> usize {
    0
}
