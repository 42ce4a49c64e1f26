//! The memory of a live process.

use super::stop::Stopped;
use super::symbols::Symbols;
use super::{parse_maps, touched_pages};
use crate::{Root, clock, is_gone};
use millpond_machine::facets::{Image, Mapping, StoppedThread, Symbol};
use millpond_machine::{Reason, Refusal, Subject};
use millpond_model::{Nanos, Pid};
use rustix::time::ClockId;
use std::cell::RefCell;
use std::fs::{self, File};
use std::io;
use std::io::Read;
use std::path::PathBuf;

/// The kernel setting that restricts ptrace between processes of one user.
const PTRACE_SCOPE: &str = "sys/kernel/yama/ptrace_scope";

/// The process.
pub(super) struct ProcessImage {
    root: Root,
    pid: Pid,
    name: String,
    /// Its directory below `/proc`.
    dir: PathBuf,
    page: u64,
    pagemap: Option<File>,
    /// The mappings at the last reading.
    mappings: RefCell<Vec<Mapping>>,
    stopped: RefCell<Option<Stopped>>,
    symbols: Symbols,
    /// Whether the process has the same monotonic clock as we do (no time namespace of its own).
    same_clock: bool,
}

impl ProcessImage {
    /// Opens a process, if its memory may be read.
    pub(super) fn open(root: &Root, pid: Pid) -> Result<ProcessImage, Refusal> {
        let refused = |reason| Refusal::new(Subject::Process(pid), reason);
        let dir = root.proc.join(pid.to_string());
        let stat = root.read_value(&dir.join("stat")).ok().flatten();
        let stat =
            stat.and_then(|text| crate::procfs::parse_stat(&text)).ok_or(refused(Reason::NoSuchProcess))?;
        if stat.kernel {
            return Err(refused(Reason::KernelThread));
        }
        if stat.dead {
            return Err(refused(Reason::Machine("it has ended, and its memory is gone".into())));
        }
        let mut ident = [0; 5];
        let exe = File::open(dir.join("exe")).and_then(|mut exe| exe.read_exact(&mut ident));
        if exe.is_ok() && ident.starts_with(b"\x7fELF") && ident[4] == 1 {
            return Err(refused(Reason::Machine(
                "it is a 32-bit process, and only 64-bit ones have object caches".into(),
            )));
        }
        let time = |dir: PathBuf| fs::read_link(dir.join("ns/time")).ok();
        let image = ProcessImage {
            root: root.clone(),
            pid,
            name: format!("process {pid} ({})", stat.comm),
            page: rustix::param::page_size() as u64,
            pagemap: File::open(dir.join("pagemap")).ok(),
            mappings: RefCell::default(),
            stopped: RefCell::default(),
            symbols: Symbols::of_process(&dir),
            same_clock: time(dir.clone()) == time(root.proc.join("self")),
            dir,
        };
        let mappings = image.mappings()?;
        let readable = mappings.iter().find(|mapping| mapping.readable && !mapping.file.starts_with('['));
        if let Some(mapping) = readable
            && let Err(error) = image.copy(mapping.begin, &mut [0])
            && error.raw_os_error() == Some(libc::EPERM)
        {
            return Err(not_permitted(root, pid));
        }
        Ok(image)
    }

    /// Copies memory with a single system call.
    fn copy(&self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        let pid = libc::pid_t::try_from(self.pid.0).unwrap_or(0);
        let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let place = usize::try_from(address).unwrap_or(0);
        let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(place), iov_len: into.len() };
        // SAFETY: the kernel writes at most `iov_len` bytes to `into`. The source is in another process, and the kernel checks
        // its addresses.
        let read = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }
}

/// The refusal for a process that may not be read, with a remedy.
pub(super) fn not_permitted(root: &Root, pid: Pid) -> Refusal {
    let scope = root.read_value(&root.proc.join(PTRACE_SCOPE)).ok().flatten().unwrap_or_default();
    let refusal = Refusal::new(Subject::Process(pid), Reason::NotPermitted);
    match scope.trim() {
        "1" | "2" => refusal.hint(format!(
            "as the superuser, or allow it for processes of one user: echo 0 > {}",
            root.proc.join(PTRACE_SCOPE).display()
        )),
        "3" => refusal.hint(
            "this kernel lets no process look into another one until it is booted again (ptrace_scope is 3)",
        ),
        _ => refusal.hint("as the superuser, or as the user of the process"),
    }
}

impl Image for ProcessImage {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn mappings(&self) -> Result<Vec<Mapping>, Refusal> {
        let text = match self.root.read(&self.dir.join("maps")) {
            Ok(Some(text)) if !text.is_empty() => text,
            Err(error) if !is_gone(&error) => return Err(not_permitted(&self.root, self.pid)),
            _ => return Err(Refusal::new(Subject::Process(self.pid), Reason::ExitedMeanwhile)),
        };
        let mappings = parse_maps(&text);
        self.mappings.replace(mappings.clone());
        Ok(mappings)
    }

    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let whole = self.copy(address, into).unwrap_or(0);
        if whole == into.len() {
            return whole;
        }
        // The kernel may skip more than the missing page.
        let mut read = whole;
        while read < into.len() {
            let at = address.wrapping_add(read as u64);
            let count = usize::try_from(self.page - at % self.page).unwrap_or(1).min(into.len() - read);
            match self.copy(at, &mut into[read..read + count]) {
                Ok(copied) if copied == count => read += count,
                _ => break,
            }
        }
        read
    }

    fn written(&self, begin: u64, end: u64) -> Vec<(u64, u64)> {
        let (first, last) = (begin - begin % self.page, end.next_multiple_of(self.page));
        let mut all = Vec::new();
        for mapping in self.mappings.borrow().iter().filter(|m| m.begin < last && first < m.end) {
            let part = (mapping.begin.max(first), mapping.end.min(last));
            // Another process may have written shared pages. This page table does not show it.
            let pagemap = self.pagemap.as_ref().filter(|_| !mapping.shared);
            let parts =
                pagemap.and_then(|pagemap| touched_pages::written(pagemap, part.0, part.1, self.page));
            all.extend(parts.unwrap_or_else(|| vec![part]));
        }
        all.into_iter()
            .map(|(from, to)| (from.max(begin), to.min(end)))
            .filter(|(from, to)| from < to)
            .collect()
    }

    fn stop(&self) -> Result<(), Refusal> {
        let mut stopped = self.stopped.borrow_mut();
        if stopped.is_none() {
            if self.pid.0 == std::process::id() {
                let reason = Reason::Machine("a program cannot stop itself and look".into());
                return Err(Refusal::new(Subject::Process(self.pid), reason));
            }
            *stopped = Some(Stopped::all(&self.root, self.pid)?);
        }
        Ok(())
    }

    fn go_on(&self) -> Option<Nanos> {
        self.stopped.borrow_mut().take().map(Stopped::go_on)
    }

    fn threads(&self) -> Vec<StoppedThread> {
        self.stopped.borrow().as_ref().map(Stopped::threads).unwrap_or_default()
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        self.symbols.name(&self.mappings.borrow(), address)
    }

    fn now(&self) -> Option<Nanos> {
        self.same_clock.then(|| clock::read(ClockId::Monotonic))
    }
}
