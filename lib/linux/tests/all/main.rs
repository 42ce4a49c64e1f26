//! The Linux machine from outside: on roots made by hand, and on the kernel at hand where it lets us.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod bindings;
mod capture;
mod common;
mod controls;
mod cooperative;
mod dispatcher;
mod faults;
mod fences;
mod hardware;
mod latency;
mod laws;
mod lgroups;
mod links;
mod notices;
mod places;
mod pools;
mod pools_persist;
mod records;
mod sets;
mod states;
mod steering;
mod systemd;
mod zones;
