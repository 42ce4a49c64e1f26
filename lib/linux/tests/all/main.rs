//! The Linux machine from outside, on roots made by hand: all but one test, which holds down a loop of its own.

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
