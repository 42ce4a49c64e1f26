//! Reads the object caches of another process or a core: owners of buffers, leaks, and memory corruption.
//!
//! # Terms
//!
//! An image ([`millpond_machine::facets::Image`]) is the memory of a process: bytes by address. [`Memory`] reads numbers from it. [`Heap::find`]
//! finds a [`Heap`]: the caches of one copy of the library, as `millpond-rt-layout` describes them, with their [`Span`]s.
//!
//! ```text
//!   Image ──▶ Memory ──▶ Heap::find ──▶ Heap { Root, Cache…, Span…, magazines }
//!                                        ├──▶ statistics   figures of caches                  running
//!                                        ├──▶ leaks        unreachable buffers                stopped while words are gathered
//!                                        ├──▶ verify       overflows and use after free       stopped
//!                                        ├──▶ whatis       the use of an address              running
//!                                        └──▶ history      logs, bufctls, messages            running
//! ```
//!
//! # All input is untrusted
//!
//! The process may be corrupt or running. Each pointer is read as a number and followed only if its target is mapped, and no list is followed without
//! a limit. An invalid record is skipped and reported in [`Heap::problems`]. No code dereferences an address of another process.
//!
//! # What it does not do
//!
//! It opens nothing, prints nothing, and reads no clock. Stopping a process and measuring the pause is up to the image.

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

/// Serialises an address as hexadecimal text.
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
