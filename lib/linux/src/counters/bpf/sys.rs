//! The `bpf` system call: maps that are shared with the kernel, programs, and what they are attached to.

use super::asm::Instruction;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Commands of the call.
const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
const RAW_TRACEPOINT_OPEN: libc::c_long = 17;

const MAP_TYPE_ARRAY: u32 = 2;
/// The map can be mapped into our memory (since 5.5).
const MAP_FLAG_MMAPABLE: u32 = 1 << 10;

/// The kernel wants to know the licence of what it runs.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// What a program is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Runs at a tracepoint; its arguments are those of the tracepoint.
    Tracepoint(&'static CStr),
    /// Runs when a performance event has come so often as it was opened for.
    Event,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
    inner_map: u32,
    node: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    prog_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach_type: u32,
    type_information: u32,
    function_record_bytes: u32,
    function_records: u64,
    function_record_count: u32,
    line_record_bytes: u32,
    line_records: u64,
    line_record_count: u32,
    attach_to_type: u32,
    attach_to_program: u32,
    unused: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepointOpen {
    name: u64,
    program: u32,
    unused: u32,
    cookie: u64,
}

fn bpf<A>(command: libc::c_long, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the record has the layout that this command wants, is as long as we say, and the memory that it
    // points to outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size_of::<A>()) };
    match i32::try_from(fd) {
        // SAFETY: the call has just returned this descriptor, which nobody else has.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Words that programs add to and that we read, without asking the kernel.
#[derive(Debug)]
pub(super) struct SharedWords {
    map: OwnedFd,
    base: NonNull<u64>,
    count: usize,
}

// SAFETY: the words are only ever read here, atomically, and belong to no thread.
unsafe impl Send for SharedWords {}

impl SharedWords {
    /// As many words, all 0.
    pub(super) fn new(count: usize) -> io::Result<SharedWords> {
        let bytes = count.saturating_mul(size_of::<u64>());
        let mut attributes = MapCreate {
            map_type: MAP_TYPE_ARRAY,
            key_bytes: 4,
            value_bytes: u32::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?,
            // One long entry: programs then know its address without a look-up.
            entries_max: 1,
            flags: MAP_FLAG_MMAPABLE,
            name: *b"millpond_counts\0",
            ..MapCreate::default()
        };
        let map = bpf(MAP_CREATE, &mut attributes)?;
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is replaced.
        let base =
            unsafe { mmap(std::ptr::null_mut(), bytes.max(1), ProtFlags::READ, MapFlags::SHARED, &map, 0) }?;
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(SharedWords { map, base, count })
    }

    /// The map's descriptor, for programs.
    pub(super) fn descriptor(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// A word; 0 for one that is not there.
    pub(super) fn get(&self, index: usize) -> u64 {
        if index >= self.count {
            return 0;
        }
        // SAFETY: within the mapping, which is aligned to a page and lives as long as `self`; programs change
        // the words atomically.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(index)) }.load(Ordering::Relaxed)
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this length, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), (self.count * size_of::<u64>()).max(1)) };
    }
}

/// A program that the kernel has accepted.
#[derive(Debug)]
pub(super) struct Loaded {
    program: OwnedFd,
    purpose: Purpose,
}

/// A program at work. It stops with the value.
#[derive(Debug)]
pub(super) struct Attached {
    _link: OwnedFd,
}

impl Loaded {
    /// Has the kernel check a program.
    pub(super) fn load(purpose: Purpose, code: &[Instruction]) -> io::Result<Loaded> {
        const TYPE_PERF_EVENT: u32 = 7;
        const TYPE_RAW_TRACEPOINT: u32 = 17;
        let mut load = ProgLoad {
            prog_type: if purpose == Purpose::Event { TYPE_PERF_EVENT } else { TYPE_RAW_TRACEPOINT },
            instruction_count: u32::try_from(code.len()).unwrap_or(u32::MAX),
            instructions: address(code.as_ptr()),
            license: address(LICENSE.as_ptr()),
            name: *b"millpond_count\0\0",
            ..ProgLoad::default()
        };
        Ok(Loaded { program: bpf(PROG_LOAD, &mut load)?, purpose })
    }

    /// Attaches it to its tracepoint, for all processors at once.
    pub(super) fn attach(&self) -> io::Result<Attached> {
        let Purpose::Tracepoint(name) = self.purpose else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        let program = u32::try_from(self.program.as_raw_fd()).unwrap_or(u32::MAX);
        let mut open = RawTracepointOpen { name: address(name.as_ptr()), program, ..Default::default() };
        Ok(Attached { _link: bpf(RAW_TRACEPOINT_OPEN, &mut open)? })
    }

    /// The program's descriptor, for events.
    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.program
    }
}

fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}
