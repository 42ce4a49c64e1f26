//! Programs that run in the kernel, and what loads them.
//!
//! # Why
//!
//! What threads, interrupts and CPUs do can be seen from outside by asking for it again and again, which disturbs what is looked
//! at and misses what lies between two looks. A program at a tracepoint sees each event when and where it happens; what it finds lies in
//! memory that is shared with us, and to read that disturbs no CPU.
//!
//! # How
//!
//! ```text
//!   programs/NAME/NAME.bpf.c ──clang (build.rs)──▶ object, part of the library
//!                                                     │ Object::open: where members of structures stand in this kernel (libbpf)
//!                                                     ▼
//!                          kernel: verified, attached one by one ──▶ maps ──▶ MappedWords, entries, rings, iterators ──▶ lib/linux
//! ```
//!
//! A folder under `programs` for each program in C, a file beside this one for each that says in Rust what it counts; [`Object`] is the mechanism
//! they share. Records are made of words of 64 bits, so that no layout has to be agreed on beyond their order.
//!
//! # What follows
//!
//! * A tracepoint that this kernel lacks costs only what is counted there: programs are attached one by one, and each answer is kept.
//! * All of it ends with the value that holds it, also when the process is killed: nothing is pinned.
//! * Without the feature `programs` the room builds without clang and libbpf, and [`Object::open`] says that there are none. Callers need not
//!   know the difference.
//!
//! What this room does not do: it knows no other room, decides nothing, and turns no figure into another.

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
