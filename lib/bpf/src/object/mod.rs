//! A loaded BPF object: its programs, attached one by one, and its maps.

#[cfg(not(feature = "programs"))]
mod none;
#[cfg(feature = "programs")]
mod real;

#[cfg(not(feature = "programs"))]
pub use none::{Callable, Entries, Object, Opened, Ring};
#[cfg(feature = "programs")]
pub use real::{Callable, Entries, Object, Opened, Ring};
