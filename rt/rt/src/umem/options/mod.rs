//! What a user asks of the object caches: `UMEM_DEBUG`, `UMEM_LOGGING` and `UMEM_OPTIONS`.
//!
//! Each variable is a list of items with commas between them; an item is a *word*, or `word=value`. Blanks around an item are dropped. What is wrong
//! with an item is said in one line, a *complaint*, and the item does nothing; the others count. Nothing here is fatal.
//!
//! ```text
//!  environment, or what the program's hook gives ──▶ items ──▶ words ──▶ Settings
//!                                                      └─────────┴─────▶ complaints
//! ```
//!
//! All of it runs inside the first allocation of a program: it allocates nothing, takes no lock and cannot panic. [`Settings`] is plain data of a fixed
//! size, complaints are lines in a buffer on the stack.

mod environment;
mod items;
mod line;
mod number;
mod sizes;
mod words;

pub(crate) use sizes::Sizes;

/// How many return addresses `audit` keeps when it is not told.
pub(crate) const FRAMES: usize = 15;

/// How many it keeps at the most.
pub(crate) const FRAMES_MAX: usize = 64;

/// How many bytes of a buffer `contents` keeps when it is not told.
pub(crate) const CONTENTS: usize = 256;

/// How large a log is when its size is not told.
pub(crate) const LOG: usize = 64 << 10;

/// Where complaints go: a line without its end.
pub(crate) type Complain<'a> = &'a mut dyn FnMut(&[u8]);

/// One of the variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variable {
    Debug,
    /// What is remembered, and how much.
    Logging,
    Options,
}

/// All that can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) debug: Debug,
    pub(crate) logs: Logs,
    pub(crate) options: Options,
}

/// `UMEM_DEBUG`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Debug {
    /// The stack trace of the latest allocation or free is kept for each buffer, with so many return addresses.
    pub(crate) audit: Option<usize>,
    /// So many bytes of a buffer are kept when it is freed.
    pub(crate) contents: Option<usize>,
    /// Patterns in free memory and behind each buffer.
    pub(crate) guards: bool,
    /// The cheap kind of guards.
    pub(crate) lite: bool,
    /// Buffers from this size on end at a page without access.
    pub(crate) firewall: Option<usize>,
    /// How many bytes of a free buffer are looked at.
    pub(crate) max_verify: Option<usize>,
    /// One allocation of so many fails.
    pub(crate) mtbf: Option<usize>,
    /// What is checked differs from cache to cache.
    pub(crate) random: bool,
    /// Corruption does not end the program.
    pub(crate) no_abort: bool,
    /// No signal is used to end it.
    pub(crate) no_signal: bool,
    /// What is found is printed.
    pub(crate) verbose: bool,
    /// So is what is not wrong.
    pub(crate) all_verbose: bool,
    /// Frees of null pointers are told, too.
    pub(crate) check_null: bool,
}

/// `UMEM_LOGGING`: the sizes of logs in bytes; none: there is no such log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logs {
    /// Allocations and frees.
    pub(crate) transaction: Option<usize>,
    /// What was in buffers.
    pub(crate) contents: Option<usize>,
    /// Allocations that failed.
    pub(crate) fail: Option<usize>,
    /// Slabs that were made.
    pub(crate) slab: Option<usize>,
}

/// `UMEM_OPTIONS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// How many CPUs to expect; none: as many as there are.
    pub(crate) concurrency: Option<usize>,
    /// How often a depot may be found busy before its magazines grow.
    pub(crate) max_contention: usize,
    /// No magazines: each call goes to the slabs.
    pub(crate) no_magazines: bool,
    /// Seconds between two looks at what could be given back; 0: there are none.
    pub(crate) reap_interval: usize,
    /// For which sizes there are caches.
    pub(crate) sizes: Sizes,
}

impl Settings {
    /// What holds when nothing is asked.
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
