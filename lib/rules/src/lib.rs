//! The rules of the scheduling classes TS, IA and FX, in one C header that BPF and the host compile.
//!
//! # Why one header
//!
//! The simulated machine schedules by Solaris' rules, which tests verify. A real machine can schedule by the same rules with BPF, where no
//! Rust runs. Two implementations of a rule diverge. Here the rule is written for BPF, and the host compiles the same text.
//!
//! ```text
//!   include/rules.h ──▶ clang -target bpf ─▶ BPF scheduler             a slice in nanoseconds
//!          │
//!          └─▶ src/host.c ─▶ cc ─▶ module host ─▶ tests of this crate   test vectors, any state and table
//!                                      │
//!                                      └────────▶ tests of millpond-sim  random events, the simulator's state after each
//! ```
//!
//! # Nouns
//!
//! A [`Thread`] is a thread's scheduling state. [`Tables`] are the dispatch tables. A *rule* is a function of the header: it applies an
//! event to a thread, by the tables. The *system priority* (`cpupri`) is the part of a TS or IA level that the tables change, the *user
//! priority* (`upri`) the part that a user sets. Levels, seconds and classes are plain numbers on both sides. Slices are in nanoseconds for
//! BPF, and in clock ticks on the host; a rule never converts one.
//!
//! # What callers must do
//!
//! * Call the rules in the order of the events. The head of the header has a table of them.
//! * Pass tables in the same unit as the charged time.
//! * Keep a queue: the rules determine the end, and `rule_key` orders a queue by key.
//!
//! # Comparison with the simulator
//!
//! `lib/sim/src/kernel/tests/rules` applies a million random events to the simulator's classes and to the rules, and compares the whole state
//! after each event. The same test changes one table column or one rule at a time, and expects a difference.
//!
//! # Deliberate limits
//!
//! This crate has no kernel, queue, clock or CPU. It converts no table, and depends on no other crate of the tree. Preemption control
//! (schedctl), the classes RT and FSS, and priority inheritance exist in the simulator only.

#[cfg(feature = "host")]
pub mod host;
mod tables;
mod thread;

pub use tables::{FOREVER, FX_LEVELS, TS_LEVELS, Tables, TsRow};
pub use thread::{BACKGROUND, Class, End, IA_BOOST, Place, Thread, UPRI_MAX};
