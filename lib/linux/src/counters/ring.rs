//! A perf sample buffer, shared with the kernel; one per CPU.

use super::perf;
use millpond_model::CpuId;
use perf_event_open_sys::bindings as sys;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A power of two. Twice the size of one second of 4,997 samples of 16 bytes, with room for a burst of forks.
const DATA_BYTES: usize = 256 * 1024;

/// The sample buffer of a CPU. Dropping the value ends sampling and frees the buffer.
#[derive(Debug)]
pub(super) struct Ring {
    cpu: CpuId,
    event: OwnedFd,
    base: NonNull<u8>,
    map_bytes: usize,
    /// The running time of the event at the last check.
    ran_ns: u64,
}

// SAFETY: only this value and the kernel use the mapping. The two positions are shared with the kernel atomically. The mapping
// does not depend on the thread that created it.
unsafe impl Send for Ring {}

impl Ring {
    /// Starts to sample the running thread of `cpu` every `period_ns`, the idle thread (0) included, and to record forks.
    pub(super) fn open(cpu: CpuId, period_ns: u64) -> io::Result<Ring> {
        let mut attr = sys::perf_event_attr {
            type_: sys::PERF_TYPE_SOFTWARE,
            config: u64::from(sys::PERF_COUNT_SW_CPU_CLOCK),
            sample_type: u64::from(sys::PERF_SAMPLE_TID),
            clockid: libc::CLOCK_MONOTONIC,
            ..Default::default()
        };
        attr.size = u32::try_from(size_of_val(&attr)).unwrap_or(0);
        attr.__bindgen_anon_1.sample_period = period_ns;
        attr.set_task(1);
        attr.set_use_clockid(1);
        let event = perf::open(&mut attr, cpu, None)?;
        let map_bytes = DATA_BYTES + rustix::param::page_size();
        // SAFETY: a new mapping at an address that the kernel chooses; it replaces no memory.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                map_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &event,
                0,
            )
        }?;
        let base =
            NonNull::new(base.cast::<u8>()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Ring { cpu, event, base, map_bytes, ran_ns: 0 })
    }

    /// The sampled CPU.
    pub(super) fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Whether the event still samples. A CPU that was off-line for a moment has lost its event permanently.
    pub(super) fn is_alive(&mut self) -> bool {
        let mut value = 0u64;
        let read = perf::read_value(&self.event, &mut value);
        let alive = read.is_ok() && value != self.ran_ns;
        self.ran_ns = value;
        alive
    }

    /// Moves the contents of the buffer into `into`, replacing the old contents.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        let page = self.base.cast::<sys::perf_event_mmap_page>().as_ptr();
        // SAFETY: the mapping begins with this structure and lives as long as `self`. Both fields are aligned, and both sides
        // access them atomically.
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*page).data_head), AtomicU64::from_ptr(&raw mut (*page).data_tail))
        };
        // Acquire: the kernel wrote all data before it stored the head. The tail is stored with release after the copy, because
        // the kernel may overwrite data before the tail.
        let end = head.load(Ordering::Acquire);
        let start = tail.load(Ordering::Relaxed);
        let len = usize::try_from(end.wrapping_sub(start)).unwrap_or(DATA_BYTES).min(DATA_BYTES);
        let from = usize::try_from(start % DATA_BYTES as u64).unwrap_or(0);
        let first = len.min(DATA_BYTES - from);
        // SAFETY: the data begin one page into the mapping and are `DATA_BYTES` long. Both pieces are within it, and the kernel
        // does not write between tail and head.
        unsafe {
            let data = self.base.as_ptr().add(rustix::param::page_size());
            into.extend_from_slice(std::slice::from_raw_parts(data.add(from), first));
            into.extend_from_slice(std::slice::from_raw_parts(data, len - first));
        }
        tail.store(end, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `open` made this mapping with this length, and no borrow of it is left.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.map_bytes) };
    }
}
