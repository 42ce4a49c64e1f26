//! Loom models of files in `src`, in every interleaving of threads: `RUSTFLAGS="--cfg loom" cargo test --manifest-path rt/Cargo.toml -p millpond-rt
//! --test loom`.

#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "tests; and a part of each file is tried"
)]

#[path = "../src/locks/sequence.rs"]
mod sequence;
#[path = "../src/slots.rs"]
mod slots;
#[path = "../src/umem/orders.rs"]
mod umem_orders;
#[path = "../src/locks/word/mod.rs"]
mod word;

mod locks {
    pub(crate) use super::word;
}
