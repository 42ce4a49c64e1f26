//! Pools and poold on simulated machines: rooms that must not know each other meet here. Everything is in `tests`.
