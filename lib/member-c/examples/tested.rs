//! Both libraries for the tests in C: cargo builds examples together with tests, but no library that Rust cannot link with.

#[path = "../src/lib.rs"]
mod library;
