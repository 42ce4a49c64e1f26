//! BPF programs and their loader.
//!
//! # Why
//!
//! Polling threads, interrupts and CPUs from outside disturbs them, and misses what happens between two readings. A BPF program at a
//! tracepoint sees each event when and where it happens. Its results are in memory shared with the reader; reading them disturbs no CPU.
//!
//! # How
//!
//! ```text
//!   programs/NAME/NAME.bpf.c ──clang (build.rs)──▶ object, part of the library
//!                                                     │ Object::open: relocates structure offsets for this kernel (libbpf)
//!                                                     ▼
//!                          kernel: verified, attached one by one ──▶ maps ──▶ MappedWords, entries, rings, iterators ──▶ lib/linux
//! ```
//!
//! Each program in C has a folder under `programs`, and a Rust file in `src` that describes its results; they share the loader, [`Object`].
//! Records consist of 64-bit words, so that only their order must be agreed on.
//!
//! # What follows
//!
//! * A tracepoint that this kernel lacks costs only what is counted there: programs are attached one by one, and each result is kept.
//! * All programs end with the value that holds them, also when the process is killed. Nothing is pinned, except the maps of
//!   [`classes`], which its successor needs.
//! * Without the feature `programs` the crate builds without clang and libbpf, and [`Object::open`] returns [`Refused::NotBuilt`].
//!   Callers need no other case.
//!
//! This crate does not decide anything, does not convert figures, and depends on no other crate of the tree but `rules`.

pub mod classes;
pub mod count;
pub mod disturbances;
mod image;
pub mod latency;
mod mapped;
pub mod microstates;
mod object;
mod refused;
pub mod residence;

pub use image::Image;
pub use mapped::MappedWords;
pub use object::{Callable, Entries, Object, Opened, Ring};
pub use refused::Refused;
