//! Reads the object caches of another process or a core: owners of buffers, leaks, and memory corruption.
//!
//! # Terms
//!
//! An image ([`millpond_machine::facets::Image`]) is the memory of a process: bytes by address. [`Memory`] reads numbers from it. [`Heap::find`]
//! looks for a [`Heap`]: the caches of one copy of the library, as `millpond-rt-layout` describes them, with every [`Span`] of theirs.
//!
//! ```text
//!   Image ──▶ Memory ──▶ Heap::find ──▶ Heap { Root, Cache…, Span…, magazines }
//!                                        ├──▶ statistics   figures of caches                  runs on
//!                                        ├──▶ leaks        what no pointer reaches                stopped while words are gathered
//!                                        ├──▶ verify       what was written past, or late      stopped
//!                                        ├──▶ whatis       what an address is                  runs on
//!                                        └──▶ history      logs, bufctls, messages             runs on
//! ```
//!
//! # All input is untrusted
//!
//! The process may be corrupt or running. Each pointer is read as a number and followed only where something is mapped, and no list is followed for longer
//! than a list can be. Invalid figures end the look at that thing, and are reported in [`Heap::problems`]. No code dereferences an address of another process.
//!
//! # What it does not do
//!
//! It opens nothing, prints nothing, and reads no clock. How a process is stopped and how long that took is the image's business.

mod cache;
mod heap;
pub mod history;
pub mod leaks;
mod magazines;
mod memory;
mod root;
mod span;
pub mod statistics;
pub mod verify;
pub mod whatis;

/// An address in JSON.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields so")]
fn hex<S: serde::Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:x}"))
}

#[cfg(test)]
mod tests;

pub use cache::Cache;
pub use heap::{FindError, Heap, State};
pub use memory::Memory;
pub use root::{Ring, Root};
pub use span::{Span, Use};
