//! Memory of processes: the input of `umem`. A core file is an [`Image`], too.

use crate::Refusal;
use millpond_model::{Nanos, Pid};

/// The facet.
pub trait Images {
    /// The image of a live process. It keeps running until [`Image::stop`].
    ///
    /// # Errors
    /// [`Refusal`] if the process does not exist, or may not be inspected.
    fn image(&self, pid: Pid) -> Result<Box<dyn Image>, Refusal>;
}

/// The memory of one process, with its threads and the names of its functions.
pub trait Image {
    /// A description: `process 4711 (server)`.
    fn name(&self) -> String;

    /// The current mappings, ascending by address.
    ///
    /// # Errors
    /// [`Refusal`] if the process ended, or may not be inspected.
    fn mappings(&self) -> Result<Vec<Mapping>, Refusal>;

    /// Reads from an address on; returns the number of bytes before the first unreadable one.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;

    /// Parts of a range that may have been written since they were mapped, ascending. The gaps between them have the contents of a file
    /// or zeros, or are not mapped. A machine that cannot distinguish them returns all that is mapped.
    fn written(&self, begin: u64, end: u64) -> Vec<(u64, u64)>;

    /// Stops every thread until [`Image::go_on`], or until the image is dropped. A core file counts as stopped.
    ///
    /// # Errors
    /// [`Refusal`] if that is not permitted.
    fn stop(&self) -> Result<(), Refusal>;

    /// Continues a stopped process; returns for how long it was stopped. `None` if it was not stopped, or is not live.
    fn go_on(&self) -> Option<Nanos>;

    /// The registers of the threads. For a live process only while it is stopped.
    fn threads(&self) -> Vec<StoppedThread>;

    /// The function that contains an address. `None` if unknown.
    fn symbol(&self, address: u64) -> Option<Symbol>;

    /// The monotonic clock of the machine; `None` if the process is not live.
    fn now(&self) -> Option<Nanos>;
}

/// A range of addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Its first byte.
    pub begin: u64,
    /// The address after its last byte.
    pub end: u64,
    /// Whether it can be read.
    pub readable: bool,
    /// Whether it can be written.
    pub writable: bool,
    /// Whether writes are visible to other processes.
    pub shared: bool,
    /// Its offset in its file.
    pub offset: u64,
    /// Its file, or the name that the kernel gives it (`[stack]`); empty for neither.
    pub file: String,
}

impl Mapping {
    /// Whether it contains an address.
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

/// A stopped thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoppedThread {
    /// The thread ID of the kernel.
    pub tid: u32,
    /// Below this address the stack is unused, except for [`StoppedThread::RED_ZONE`] bytes.
    pub stack_pointer: u64,
    /// The address of its thread-local data, if known.
    pub thread_pointer: Option<u64>,
    /// All registers, including vector registers, as words.
    pub words: Vec<u64>,
}

impl StoppedThread {
    /// The number of bytes that a function may use below the stack pointer.
    pub const RED_ZONE: u64 = 128;
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its file, without directories.
    pub module: String,
    /// Its name; empty if only the file is known.
    pub name: String,
    /// The offset from its beginning; without a name, from that of the mapping.
    pub offset: u64,
}

impl std::fmt::Display for Symbol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.name.is_empty() { "" } else { "`" };
        write!(f, "{}{mark}{}+0x{:x}", self.module, self.name, self.offset)
    }
}
