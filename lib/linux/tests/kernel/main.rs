//! Counters and the latency probe on the running kernel. Separate from the other tests, because both fork: until such a child
//! calls exec, it holds all descriptors of this process, such as the lock of another test's machine.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod hardware;
mod latency;
