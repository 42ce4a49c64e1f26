//! Thin wrappers for the kernel's performance events: counters in groups, and filters.

use millpond_model::CpuId;
use perf_event_open_sys as sys;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The event of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// One of the kernel's own software events (`PERF_COUNT_SW_…`).
    Software(u64),
    /// A tracepoint, by number.
    Tracepoint(u64),
}

fn attributes(event: Event) -> sys::bindings::perf_event_attr {
    let (type_, config) = match event {
        Event::Software(config) => (sys::bindings::PERF_TYPE_SOFTWARE, config),
        Event::Tracepoint(id) => (sys::bindings::PERF_TYPE_TRACEPOINT, id),
    };
    let mut attr = sys::bindings::perf_event_attr { type_, config, ..Default::default() };
    attr.size = u32::try_from(size_of_val(&attr)).unwrap_or(0);
    attr
}

/// Opens a counter for all activity on one CPU. A group leader is opened stopped.
pub(super) fn open_counter(event: Event, cpu: CpuId, leader: Option<&OwnedFd>) -> io::Result<OwnedFd> {
    let mut attr = attributes(event);
    attr.read_format = u64::from(sys::bindings::PERF_FORMAT_GROUP);
    attr.set_disabled(u64::from(leader.is_none()));
    open(&mut attr, cpu, leader)
}

/// Opens an event for all activity on one CPU.
pub(super) fn open(
    attr: &mut sys::bindings::perf_event_attr,
    cpu: CpuId,
    leader: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    let cpu = i32::try_from(cpu.0).map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    let group = leader.map_or(-1, AsRawFd::as_raw_fd);
    let flags = libc::c_ulong::from(sys::bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a complete attribute record with its size in it, and outlives the call.
    let fd = unsafe { sys::perf_event_open(attr, -1, cpu, group, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Opens a software event that runs a BPF program on every `period`th occurrence.
pub(super) fn open_with_program(
    config: u32,
    period: u64,
    cpu: CpuId,
    program: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    let mut attr = attributes(Event::Software(u64::from(config)));
    attr.__bindgen_anon_1.sample_period = period;
    attr.set_disabled(1);
    let fd = open(&mut attr, cpu, None)?;
    let program = u32::try_from(program.as_raw_fd()).unwrap_or(u32::MAX);
    // SAFETY: takes a number and touches no memory of this process.
    let done = unsafe { sys::ioctls::SET_BPF(fd.as_raw_fd(), program) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    enable_group(&fd)?;
    Ok(fd)
}

/// Restricts a tracepoint counter to events that pass the filter.
pub(super) fn set_filter(fd: &OwnedFd, filter: &CStr) -> io::Result<()> {
    // SAFETY: the text is terminated, and the kernel copies it without writing to it.
    let done = unsafe { sys::ioctls::SET_FILTER(fd.as_raw_fd(), filter.as_ptr().cast_mut()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Starts all counters of a group.
pub(super) fn enable_group(leader: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes a number and touches no memory of this process.
    let done = unsafe { sys::ioctls::ENABLE(leader.as_raw_fd(), sys::bindings::PERF_IOC_FLAG_GROUP) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads all values of a group, leader first, with one interrupt of its CPU. Returns the number of values. It is smaller than the
/// number of opened events if the CPU went off-line meanwhile.
pub(super) fn read_group(leader: &OwnedFd, values: &mut [u64]) -> io::Result<usize> {
    // The word before the values is their number.
    let mut words = [0u64; 32];
    let wanted = (values.len() + 1).min(words.len());
    let bytes = rustix::io::read(leader, as_bytes(&mut words[..wanted]))?;
    let count = (bytes / size_of::<u64>()).saturating_sub(1).min(values.len());
    values[..count].copy_from_slice(&words[1..=count]);
    Ok(count)
}

/// Reads the value of an event that is in no group.
pub(super) fn read_value(event: &OwnedFd, value: &mut u64) -> io::Result<()> {
    let mut words = [0u64; 1];
    if rustix::io::read(event, as_bytes(&mut words))? < size_of::<u64>() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    *value = words[0];
    Ok(())
}

fn as_bytes(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: every byte of a `u64` may be read and written, and the length is that of the slice.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of_val(words)) }
}

/// Raises the soft limit so that this process can open `count` more descriptors, as far as permitted.
pub(crate) fn allow_descriptors(count: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Room for descriptors that are already open or opened elsewhere in the program.
    const OTHERS: u64 = 256;
    let now = getrlimit(Resource::Nofile);
    let wanted = count.saturating_add(OTHERS);
    if now.current.is_none_or(|limit| limit >= wanted) {
        return;
    }
    let raised = Rlimit { current: Some(wanted), maximum: now.maximum.map(|m| m.max(wanted)) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        // Without the right to raise the hard limit, use all of it. Events that then cannot be opened are reported as missing.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
    }
}
