//! Loads as their callers see them, but for hackbench: its processes have whatever the tests beside it have open.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod cg;
mod spin;
mod stream;
