//! Tests of the loads through their interfaces, except hackbench: its processes inherit the descriptors that concurrent tests have open.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails, in its helpers too")]

mod cg;
mod spin;
mod stream;
