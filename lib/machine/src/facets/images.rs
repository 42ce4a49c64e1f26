//! Memory of processes: the input of `umem`. A core file is an [`Image`], too.

use crate::Refusal;
use millpond_model::{Nanos, Pid};

/// The facet.
pub trait Images {
    /// A process that lives. It goes on running until [`Image::stop`].
    ///
    /// # Errors
    /// [`Refusal`] when there is no such process, or it may not be looked into.
    fn image(&self, pid: Pid) -> Result<Box<dyn Image>, Refusal>;
}

/// The memory of one process, with its threads and the names of its functions.
pub trait Image {
    /// What it is called: `process 4711 (server)`.
    fn name(&self) -> String;

    /// What is mapped now, ascending by address.
    ///
    /// # Errors
    /// [`Refusal`] when the process ended, or may not be looked into.
    fn mappings(&self) -> Result<Vec<Mapping>, Refusal>;

    /// Reads from an address on: how many bytes there were before the first one that cannot be read.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;

    /// Parts of a range in which anything can have been written since it was mapped, ascending: what lies between them has what a file
    /// has there, or zeros, or is not mapped. A machine that cannot tell gives all that is mapped.
    fn written(&self, begin: u64, end: u64) -> Vec<(u64, u64)>;

    /// Stops every thread until [`Image::go_on`], or until the image is dropped. What does not run is stopped already.
    ///
    /// # Errors
    /// [`Refusal`] when that may not be done.
    fn stop(&self) -> Result<(), Refusal>;

    /// Lets a process that was stopped go on; for how long it was stopped. `None`: it was not, or it does not run.
    fn go_on(&self) -> Option<Nanos>;

    /// What the threads had in their registers. Of a process that runs, only while it is stopped.
    fn threads(&self) -> Vec<StoppedThread>;

    /// The function in which an address lies. `None` where that cannot be told.
    fn symbol(&self, address: u64) -> Option<Symbol>;

    /// The monotonic clock of the process's machine; `None` for one that does not run.
    fn now(&self) -> Option<Nanos>;
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its first byte.
    pub begin: u64,
    /// Behind its last.
    pub end: u64,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether others see what is written there.
    pub shared: bool,
    /// Where in its file it begins.
    pub offset: u64,
    /// Its file, or what the kernel calls it (`[stack]`); empty: neither.
    pub file: String,
}

impl Mapping {
    /// Whether an address lies there.
    #[must_use]
    pub fn contains(&self, address: u64) -> bool {
        (self.begin..self.end).contains(&address)
    }

    /// Its file without directories.
    #[must_use]
    pub fn module(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

/// A thread that stands still.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoppedThread {
    /// The kernel's number.
    pub tid: u32,
    /// Below this nothing on its stack is in use, but for [`StoppedThread::RED_ZONE`] bytes.
    pub stack_pointer: u64,
    /// Where its own data lie, as far as that is known.
    pub thread_pointer: Option<u64>,
    /// All registers, those of vectors too, as words.
    pub words: Vec<u64>,
}

impl StoppedThread {
    /// What a function may use below the stack pointer, in bytes.
    pub const RED_ZONE: u64 = 128;
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The file that it is in, without directories.
    pub module: String,
    /// Its name; empty where only the file is known.
    pub name: String,
    /// From its beginning, or from that of the file's mapping where it has no name.
    pub offset: u64,
}

impl std::fmt::Display for Symbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.name.is_empty() { "" } else { "`" };
        write!(f, "{}{mark}{}+0x{:x}", self.module, self.name, self.offset)
    }
}
