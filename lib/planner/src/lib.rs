//! The planner: from measurements and objectives to a plan of moves with reasons.
//!
//! # The problem
//!
//! The CPUs of a machine are divided among sets. Each set has bounds (`pset.min`, `pset.max`), pinned CPUs, an importance
//! (the highest of its pools) and objectives. The system has one objective, `wt-load`. The demand of sets changes over time.
//! Which CPUs should move now?
//!
//! # The nouns
//!
//! A [`Frame`] holds the measurements of one interval:
//!
//! * for each set its members, bounds and objectives, the CPU time used, and the run-queue delay of its threads (which shows demand beyond
//!   its size);
//! * the positions of CPUs in the topology;
//! * the costs of a move.
//!
//! A [`Policy`] receives frames in order and keeps its own state. It returns a [`Decision`]: a copy of the frame, a [`Plan`] (ordered moves
//! of single CPUs, and the reason), the alternatives with their scores, and the expected result. The measured result is added later as an
//! [`Outcome`]. Decisions are stored as lines of JSON, so that [`replay()`] can compare any policy with the recorded one.
//!
//! ```text
//!   Frame ──▶ Policy::decide ──▶ Decision { plan, alternatives, expected } ──▶ check ──▶ the caller applies it
//!     ▲          ▲    │                           │
//!     │          └────┘ state                     └──▶ log ──▶ replay with another policy
//!     └── the next interval: the result
//! ```
//!
//! [`check()`] is independent of policies: it lists the hard rules that a plan breaks. Every plan passes it before `decide` returns, and
//! the caller checks the plan again before it applies it.
//!
//! # The policies
//!
//! [`policy()`] returns a policy by name. `millpond` ([`Millpond`]) reacts to a single frame, moves many CPUs at once, includes the cost of
//! moves, and backs off after moves that came too early. `solaris` ([`Solaris`]) does what the Solaris daemon did: one CPU at a time, in
//! the same steps and with the same log messages.
//!
//! # Cores
//!
//! [`choose_cores()`] is independent of these. It chooses cores for a fence or a set once, by caches, locality groups and core types.
//!
//! # What it never does
//!
//! It does not access a machine, read a clock, or use randomness: the same frames give the same decisions. Time is the time of the frames.
//! The next frame shows whether a plan was applied.

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
