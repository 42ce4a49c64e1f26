//! The images facet: the memory of processes that live, and of cores.
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
//! Every thread is seized by `ptrace` and interrupted: no signal is sent, so that its parent is not told that it was stopped, and a
//! stop by a signal of another process outlives ours. When we end, however we end, the kernel lets it go on. A copy by fork would stand still for a shorter
//! time, but makes every page of the process fault once more afterwards, which is the worst that can happen to a program for real time, and runs
//! code of ours in it; it was not taken. System calls that the kernel never restarts (`epoll_wait`, `semop`) return early in it, as after any stop.

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

/// General registers, as `NT_PRSTATUS` has them.
pub(super) const GENERAL: libc::c_int = 1;
/// Registers of floating point.
pub(super) const FLOATING: libc::c_int = 2;
/// Those of floating point and vectors, on x86.
pub(super) const VECTORS: libc::c_int = 0x202;
/// The thread pointer, on aarch64.
pub(super) const TLS: libc::c_int = 0x401;

/// CPUs whose registers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// Ours.
    fn own() -> Arch {
        if cfg!(target_arch = "aarch64") { Arch::Aarch64 } else { Arch::X86_64 }
    }

    /// By the number in an ELF file.
    fn of_elf(machine: u16) -> Option<Arch> {
        match machine {
            62 => Some(Arch::X86_64),
            183 => Some(Arch::Aarch64),
            _ => None,
        }
    }

    /// A thread with those general registers.
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
