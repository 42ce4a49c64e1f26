//! Settings of the object caches by the user: `UMEM_DEBUG`, `UMEM_LOGGING` and `UMEM_OPTIONS`.
//!
//! Each variable is a list of items, separated by commas. An item is a *word*, or `word=value`. Blanks around an item are dropped. An invalid item is
//! reported in one line, a *complaint*, and ignored; the others count. No error is fatal.
//!
//! ```text
//!  environment, or the program's hook ──▶ items ──▶ words ──▶ Settings
//!                                           └─────────┴─────▶ complaints
//! ```
//!
//! All of it runs inside the first allocation of a program: it allocates nothing, takes no lock and cannot panic. [`Settings`] is plain data of a
//! fixed size. Complaints are lines in a buffer on the stack.

mod environment;
mod items;
mod line;
mod number;
mod sizes;
mod words;

pub(crate) use sizes::Sizes;

/// Default number of return addresses for `audit`.
pub(crate) const FRAMES: usize = 15;

/// Maximum number of return addresses.
pub(crate) const FRAMES_MAX: usize = 64;

/// Default number of bytes of a buffer for `contents`.
pub(crate) const CONTENTS: usize = 256;

/// Default size of a log, in bytes.
pub(crate) const LOG: usize = 64 << 10;

/// Receives complaints: a line without its end.
pub(crate) type Complain<'a> = &'a mut dyn FnMut(&[u8]);

/// One of the variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    Debug,
    /// Event logs and their sizes.
    Logging,
    Options,
}

/// All settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) debug: Debug,
    pub(crate) logs: Logs,
    pub(crate) options: Options,
}

/// `UMEM_DEBUG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Debug {
    /// Record the stack trace of the latest allocation or free of each buffer, with this many return addresses.
    pub(crate) audit: Option<usize>,
    /// Save this many bytes of a buffer when it is freed.
    pub(crate) contents: Option<usize>,
    /// Patterns in free memory and after each buffer.
    pub(crate) guards: bool,
    /// A cheaper kind of guards.
    pub(crate) lite: bool,
    /// Buffers of at least this size end at an inaccessible page.
    pub(crate) firewall: Option<usize>,
    /// Bytes of a free buffer that are checked.
    pub(crate) max_verify: Option<usize>,
    /// One in this many allocations fails (fault injection).
    pub(crate) mtbf: Option<usize>,
    /// Each cache has a random selection of the checks.
    pub(crate) random: bool,
    /// Corruption does not end the program.
    pub(crate) no_abort: bool,
    /// The program ends by `_exit`, not by a signal.
    pub(crate) no_signal: bool,
    /// Errors are printed.
    pub(crate) verbose: bool,
    /// All messages are printed.
    pub(crate) all_verbose: bool,
    /// Frees of null pointers are reported, too.
    pub(crate) check_null: bool,
}

/// `UMEM_LOGGING`: sizes of logs in bytes; `None`: no such log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logs {
    /// Allocations and frees.
    pub(crate) transaction: Option<usize>,
    /// Contents of freed buffers.
    pub(crate) contents: Option<usize>,
    /// Failed allocations.
    pub(crate) fail: Option<usize>,
    /// New slabs.
    pub(crate) slab: Option<usize>,
}

/// `UMEM_OPTIONS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// Expected number of CPUs; `None`: the number of on-line CPUs.
    pub(crate) concurrency: Option<usize>,
    /// Contentions of a depot's lock between two updates that make its magazines grow.
    pub(crate) max_contention: usize,
    /// No magazines: each call uses the slabs.
    pub(crate) no_magazines: bool,
    /// Seconds between two updates; 0: no updates.
    pub(crate) reap_interval: usize,
    /// Size classes with caches.
    pub(crate) sizes: Sizes,
}

impl Settings {
    /// The defaults.
    pub(crate) const STANDARD: Settings = Settings {
        debug: Debug {
            audit: None,
            contents: None,
            guards: false,
            lite: false,
            firewall: None,
            max_verify: None,
            mtbf: None,
            random: false,
            no_abort: false,
            no_signal: false,
            verbose: false,
            all_verbose: false,
            check_null: false,
        },
        logs: Logs { transaction: None, contents: None, fail: None, slab: None },
        options: Options {
            concurrency: None,
            max_contention: 2,
            no_magazines: false,
            reap_interval: 10,
            sizes: Sizes::STANDARD,
        },
    };

    pub(crate) fn add(&mut self, variable: Variable, text: &[u8], complain: Complain<'_>) {
        items::each(variable, text, self, complain);
    }
}

impl Variable {
    /// All, in the order in which they are read.
    pub(crate) const ALL: [Variable; 3] = [Variable::Debug, Variable::Logging, Variable::Options];

    pub(crate) fn name(self) -> &'static core::ffi::CStr {
        match self {
            Variable::Debug => c"UMEM_DEBUG",
            Variable::Logging => c"UMEM_LOGGING",
            Variable::Options => c"UMEM_OPTIONS",
        }
    }
}

#[cfg(test)]
mod tests;
