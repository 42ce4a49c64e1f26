//! The images facet: the memory of live processes and of core files.
//!
//! ```text
//!   /proc/PID/maps ────────────▶ maps ──┐
//!   process_vm_readv, pagemap ──▶ live ─┼──▶ Image
//!   ptrace: stop, registers ────▶ stop ─┤
//!   files that are mapped: elf ─▶ symbols
//!   an ELF core: elf ──────────▶ core ──┘   what was not dumped is read from the file that was mapped there
//! ```
//!
//! # How a process is stopped
//!
//! `ptrace` seizes and interrupts every thread. No signal is sent, so the parent of the process gets no notification, and a stop
//! by a signal of another process stays in force after ours. When this program ends in any way, the kernel resumes the process. A
//! copy by fork would stop the process for a shorter time, but was rejected: every page of the process would fault once more
//! afterwards, which is the worst case for a real-time program, and our code would run in it. System calls that the kernel never
//! restarts (`epoll_wait`, `semop`) return early in the process, as after any stop.

mod core;
mod elf;
mod live;
mod maps;
mod stop;
mod symbols;
#[cfg(test)]
mod tests;
mod touched_pages;

pub use self::core::open_core;
pub(crate) use maps::parse_maps;

use crate::LinuxMachine;
use live::ProcessImage;
use millpond_machine::facets::{Image, StoppedThread};
use millpond_machine::{Images, Refusal};
use millpond_model::Pid;

impl Images for LinuxMachine {
    fn image(&self, pid: Pid) -> Result<Box<dyn Image>, Refusal> {
        Ok(Box::new(ProcessImage::open(&self.os.root, pid)?))
    }
}

/// Register set: general registers, as in `NT_PRSTATUS`.
pub(super) const GENERAL: libc::c_int = 1;
/// Register set: floating point registers.
pub(super) const FLOATING: libc::c_int = 2;
/// Register set: floating point and vector registers, on x86.
pub(super) const VECTORS: libc::c_int = 0x202;
/// Register set: the thread pointer, on aarch64.
pub(super) const TLS: libc::c_int = 0x401;

/// Architectures with known registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// The architecture of this program.
    fn own() -> Arch {
        if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 }
    }

    /// The architecture by its number in an ELF file.
    fn of_elf(machine: u16) -> Option<Arch> {
        match machine {
            62 => Some(Arch::X86_64),
            183 => Some(Arch::Aarch64),
            _ => None,
        }
    }

    /// A stopped thread with these general registers.
    fn thread(self, tid: u32, words: Vec<u64>) -> StoppedThread {
        let (stack, own) = match self {
            Arch::X86_64 => (19, Some(21)),
            Arch::Aarch64 => (31, None),
        };
        let word = |at: usize| words.get(at).copied();
        StoppedThread {
            tid,
            stack_pointer: word(stack).unwrap_or(0),
            thread_pointer: own.and_then(word).filter(|own| *own != 0),
            words,
        }
    }
}
