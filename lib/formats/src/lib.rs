//! Text in and out: the listings of the Solaris commands, the operands that they take, and times.
//!
//! # Nouns
//!
//! A *listing* is what a command writes to its standard output when it succeeds; each command whose listing
//! is fixed by Solaris has a file here, named after it, with one function per form of line. Functions return
//! a line without its end, or several lines each with its end where the form is a paragraph; each says which.
//!
//! The texts of pools are in [`pools`]: the listing of a configuration ([`pools::info`]), the language of `poolcfg`
//! ([`pools::script::parse`]), the file with its DTD ([`pools::xml::read`], [`pools::xml::write`]), objectives
//! ([`pools::objectives::parse`]) and the tables of `poolstat` ([`pools::poolstat`]).
//!
//! What counters count is said in a language of its own ([`events::parse`]); the lines about it are in [`cpustat`].
//! Of other people's listings one is read: the histogram of [`cyclictest`]. So are the tables of Linux that have a column or a line for each
//! CPU ([`proc_tables`]).
//!
//! An *operand* is one word of a command line: a choice of processors ([`CpuOperand`]), or of a process and
//! some of its threads ([`Target`]), or of lgroups ([`GroupOperand`]).
//!
//! # What callers must know
//!
//! * The listings are exact to the byte, tabs and doubled blanks included. Additions of ours (the mode of a
//!   set, JSON) are made elsewhere or have functions of their own, so that what scripts parse stays as it is.
//! * An operand is parsed without a machine. Whether the processors that it names exist is asked later: a
//!   number must exist, a range need only meet one that does ([`CpuOperand::expand`]).
//! * Parsing gives a value or an error with the column and the text that is wrong; it never panics.
//! * Local time needs a time zone, which is passed in: nothing here looks at the environment.
//!
//! What this room does not do: it reads no file, asks no machine, and writes no error messages.

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
