//! Pools and poold on simulated machines: these tests use crates that must not depend on each other. Everything is in `tests`.
