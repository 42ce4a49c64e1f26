//! Cases on real kernels.
fn main() {}
