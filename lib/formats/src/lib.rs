//! Text formats: the listings of the Solaris commands, their operands, and times.
//!
//! # Nouns
//!
//! A *listing* is the standard output of a successful command. Each command with a listing defined by Solaris has a file here, named after
//! it, with one function per form of line. A function returns a line without newline, or several lines with newlines if the form is a
//! paragraph; its documentation says which.
//!
//! The texts of pools are in [`pools`]: the listing of a configuration ([`pools::info`]), the language of `poolcfg`
//! ([`pools::script::parse`]), the file with its DTD ([`pools::xml::read`], [`pools::xml::write`]), objectives
//! ([`pools::objectives::parse`]) and the tables of `poolstat` ([`pools::poolstat`]).
//!
//! Counter specifications have their own language ([`events::parse`]); the listings of counters are in [`cpustat`].
//! Two formats of other programs are parsed: the histogram of [`cyclictest`], and the tables of Linux with a column or a line for each
//! CPU ([`proc_tables`]).
//!
//! An *operand* is one word of a command line: it selects CPUs ([`CpuOperand`]), a process and some of its threads ([`Target`]), or lgroups
//! ([`GroupOperand`]).
//!
//! # Rules for callers
//!
//! * The listings are exact to the byte, including tabs and double blanks. Extensions of Millpond (the mode of a
//!   set, JSON) are produced elsewhere or by separate functions, so that scripts can still parse the listings.
//! * An operand is parsed without a machine. The existence of the CPUs is checked later: a single number must exist; a range needs to
//!   contain at least one existing CPU ([`CpuOperand::expand`]).
//! * A parser returns a value, or an error with the column and the offending text; it never panics.
//! * Local time needs a time zone, which is a parameter: nothing here reads the environment.
//!
//! This crate reads no file, accesses no machine, and prints no error messages.

pub mod binding;
pub mod cpustat;
pub mod cyclictest;
pub mod dispadmin;
pub mod events;
pub mod fence_profile;
mod lgroups;
pub mod lgrpinfo;
mod lwps;
pub mod mpstat;
pub mod node_files;
mod operands;
pub mod pg;
pub mod plgrp;
pub mod pools;
pub mod prctl;
pub mod priocntl;
pub mod proc_tables;
pub mod prstat;
pub mod psradm;
pub mod psrinfo;
pub mod psrset;
pub mod svcs;
pub mod system_file;
mod time;
pub mod zonecfg;

pub use lgroups::{GroupError, GroupOperand, parse_groups};
pub use lwps::{LwpSelection, Target, TargetError};
pub use operands::{CpuOperand, parse_cpus};
pub use time::{print_iso, print_time};
