//! Golden transcripts: sessions at a terminal, written by hand from the reference before the program said
//! anything, and played on simulated machines. They are never written by the program.
//!
//! # The form
//!
//! ```text
//! # Anything about what follows.
//! @ machine x4200                   a fresh machine; the commands below share it
//! @ wait 90                         its clock goes on, in seconds
//! $ psrset -c 1-9                   a command
//! created processor set 1           what it writes to standard output
//! ! hint: anything                  what it writes to standard error
//! ! ...                             and whatever else it writes there
//! | ...                             and at least one more line of output: JSON, of which the schema says what it may be
//! |                                 an empty line of output
//! | # a comment                     a line of output that would mean something else here
//! = 1                               its status, where that is not 0
//! ```
//!
//! Words with blanks stand in quotation marks. Empty lines mean nothing. Lines of output are compared to the byte, each stream by itself. All times are
//! universal time.
//!
//! Beside `machine` and `wait` a line with `@` can do what is done to a machine behind the back of a command:
//!
//! ```text
//! @ machine-file NAME               a machine described by a file of this crate
//! @ fork PID/LWP                    a thread divides its process
//! @ exit PID                        a process ends
//! @ at MOMENT exit PID              … at a moment of the next change, as the journal names it
//! @ off-line N                      somebody else takes a processor off-line
//! @ meanwhile off-line N           … behind the first sample of the next command that counts events of the hardware
//! @ counters PERCENT                others have these counters in the rest of the time
//! @ lock   @ unlock                 another writer is at work
//! @ journal full   @ journal free   the disk has no space for the journal
//! @ writes REASON                   every write is refused: not-permitted, read-only, gone; or allowed again
//! @ unfinished WHAT: KNOB A B       a writer died after setting KNOB from A to B (`-` is none)
//! @ file TMP/NAME LINE…             a file with these lines
//! ```
//!
//! `TMP/` at the beginning of a word is a directory that the transcript has to itself, which is gone afterwards.

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
