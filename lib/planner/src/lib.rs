//! The planner: measurements and objectives in, a plan of moves with its reasons out.
//!
//! # The problem
//!
//! A machine's CPUs are divided among sets. Each set has bounds (`pset.min`, `pset.max`), CPUs that are pinned to it,
//! an importance (the highest of its pools'), and objectives; the system has one, `wt-load`. What the sets need changes from one
//! moment to the next. Which CPUs should move now?
//!
//! # The nouns
//!
//! A [`Frame`] is all that is known after one interval: each set's members, bounds and objectives, the CPU time it used, and
//! how long its threads waited for a CPU, so that a need beyond its size shows; where CPUs stand; what a move
//! costs. A [`Policy`] looks at one frame after the other and remembers what it must. Its answer is a [`Decision`]: a copy of the
//! frame, a [`Plan`] (moves of single CPUs, in order, and why), the alternatives and their scores, and what should
//! come of it. Later an [`Outcome`] is written beside it. Decisions are lines of JSON; from them any policy can be asked again what it
//! would have done ([`replay()`]).
//!
//! ```text
//!   Frame ──▶ Policy::decide ──▶ Decision { plan, alternatives, expected } ──▶ check ──▶ the caller applies it
//!     ▲          ▲    │                           │
//!     │          └────┘ state                     └──▶ log ──▶ replay with another policy
//!     └── the next interval: what came of it
//! ```
//!
//! [`check()`] knows nothing of policies: it says which hard rules a plan breaks. Every plan passes it before it is given out, and
//! the caller checks it again before it applies it.
//!
//! # The policies
//!
//! [`policy()`] gives one by its name: `millpond` ([`Millpond`]), which reacts to one frame, moves many CPUs at once, charges moves what they cost
//! and learns when it was too quick; and `solaris` ([`Solaris`]), which does what the Solaris daemon did, one CPU at a time,
//! in the same steps and with the same words.
//!
//! # Cores
//!
//! [`choose_cores()`] is apart from these: it chooses cores for a fence or a set once, by caches, locality groups and the kinds of cores.
//!
//! # What it never does
//!
//! It touches no machine, reads no clock, and throws no dice: the same frames give the same decisions. Time is that of the frames.
//! Whether a plan was carried out it sees from the next frame.

mod check;
mod convert;
mod cores;
mod decision;
mod demand;
mod frame;
mod log;
mod millpond;
mod plan;
mod policies;
mod policy;
mod replay;
mod solaris;
#[cfg(test)]
mod testing;

pub use check::{Rule, Violation, check};
pub use cores::{ChosenCores, CorePlace, CoreWish, choose_cores};
pub use decision::{Alternative, Decision, Outcome, Outlook};
pub use demand::{Demand, demand};
pub use frame::{Costs, Frame, Places, SetFrame, Waiting};
pub use log::{Log, LogError, read_log};
pub use millpond::Millpond;
pub use plan::Plan;
pub use policies::{POLICIES, policy};
pub use policy::{Policy, StateError};
pub use replay::{Answer, Comparison, Pair, Replay, Sum, replay};
pub use solaris::{Category, Event, Found, Severity, Solaris, Transfer};
