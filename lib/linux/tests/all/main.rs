//! The Linux machine through its public interface, on synthetic roots. One test limits descriptors, which apply to the process,
//! and is separate.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bindings;
mod capture;
mod common;
mod controls;
mod cooperative;
mod dispatcher;
mod faults;
mod fences;
mod laws;
mod lgroups;
mod links;
mod masks;
mod notices;
mod places;
mod pools;
mod pools_persist;
mod records;
mod sets;
mod states;
mod steering;
mod systemd;
mod topology;
mod undo;
mod zones;
