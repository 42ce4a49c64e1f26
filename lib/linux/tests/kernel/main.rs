//! Counters and the latency probe on the kernel at hand. Apart from the other tests, since both fork: as long as such a child has not become a
//! program, it has whatever this process has open, such as the lock of another test's machine.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod hardware;
mod latency;
