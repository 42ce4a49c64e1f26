//! Golden transcripts: terminal sessions, written by hand before the program, from the manuals, and replayed on simulated
//! machines. The program never writes them.
//!
//! # The form
//!
//! ```text
//! # A comment.
//! @ machine x4200                   a new machine for the commands below
//! @ wait 90                         advance its clock, in seconds
//! $ psrset -c 1-9                   a command
//! created processor set 1           its standard output
//! ! hint: anything                  its standard error
//! ! ...                             and any further lines there
//! | ...                             and at least one more line of output: JSON, which is validated against its schema
//! |                                 an empty line of output
//! | # a comment                     a line of output that would otherwise be a directive
//! = 1                               its exit status, if not 0
//! ```
//!
//! Quotation marks enclose words with blanks. Empty lines are ignored. Lines of output are compared byte for byte, each stream
//! separately. All times are UTC.
//!
//! Further lines with `@` change the machine without the knowledge of the commands:
//!
//! ```text
//! @ machine-file NAME               a machine described by a file of this crate
//! @ fork PID/LWP                    a thread forks its process
//! @ exit PID                        a process ends
//! @ at MOMENT exit PID              … at a moment of the next change, named as in the journal
//! @ off-line N                      another program takes a CPU off-line
//! @ meanwhile off-line N           … after the first sample of the next command that counts hardware events
//! @ counters PERCENT                hardware counters are available for this part of the time only
//! @ lock   @ unlock                 another writer holds the lock
//! @ journal full   @ journal free   the disk has no space for the journal
//! @ writes REASON                   every write is refused: not-permitted, read-only, gone; or allowed again
//! @ unfinished WHAT: KNOB A B       a writer was killed after setting KNOB from A to B (`-` is no value)
//! @ file TMP/NAME LINE…             create a file with these lines
//! ```
//!
//! `TMP/` at the beginning of a word is the transcript's own temporary directory.

mod counters;
pub mod document;
mod machine;
mod play;
mod schemas;
mod script;

pub use machine::Stage;
pub use play::{Played, play};
pub use schemas::breach;
pub use script::{Line, ScriptError, parse};
