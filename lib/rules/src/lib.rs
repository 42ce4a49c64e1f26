//! The rules of the scheduling classes TS, IA and FX, in one C header that BPF and the host compile.
//!
//! # Why one header
//!
//! The simulated machine schedules by Solaris' rules, and tests hold it against the reference. A real machine can schedule by the same rules
//! with BPF, where no Rust runs. Two texts of one rule drift apart. Here the rule is written for BPF, and the host compiles the same text.
//!
//! ```text
//!   include/rules.h ──▶ clang -target bpf ─▶ BPF scheduler             a slice in nanoseconds
//!          │
//!          └─▶ src/host.c ─▶ cc ─▶ module host ─▶ tests of this crate   vectors of the reference, any state and table
//!                                      │
//!                                      └────────▶ tests of millpond-sim  random events, the simulator's state after each
//! ```
//!
//! # Nouns
//!
//! A [`Thread`] is what the rules remember about one thread. [`Tables`] are the dispatch tables. A *rule* is a function of the header: it takes
//! an event to a thread by the tables. Levels, seconds and classes are plain numbers on both sides. Slices are in nanoseconds for BPF, and in
//! clock ticks on the host; a rule never converts one.
//!
//! # What callers must do
//!
//! * Call the rules in the order of the events. The head of the header has a table of them.
//! * Hand in tables in the same unit as the time that is charged.
//! * Keep a queue: the rules say which end, and `rule_key` orders a queue by key.
//!
//! # How it is held against the simulator
//!
//! `lib/sim/src/kernel/tests/rules` gives a million random events to the classes of the simulator and to the rules. The whole state is compared
//! after each event. The same test changes one table column or one rule at a time, and expects to find that.
//!
//! # What it deliberately does not do
//!
//! It knows no kernel, no queue, no clock and no CPU. It converts no table: this crate depends on no other one of the tree. Hints against
//! preemption, the classes RT and FSS, and priority inheritance are in the simulator alone.

#[cfg(feature = "host")]
pub mod host;
mod tables;
mod thread;

pub use tables::{FOREVER, FX_LEVELS, TS_LEVELS, Tables, TsRow};
pub use thread::{BACKGROUND, Class, End, IA_BOOST, Place, Thread, UPRI_MAX};
