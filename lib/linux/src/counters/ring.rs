//! A sample buffer that we share with the kernel, one per CPU.

use super::perf;
use millpond_model::CpuId;
use perf_event_open_sys::bindings as sys;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A power of two. Twice what a second of 4,997 samples of 16 bytes takes, with room for a burst of forks.
const DATA_BYTES: usize = 256 * 1024;

/// The CPU's samples. Sampling ends, and the buffer goes, with the value.
#[derive(Debug)]
pub(super) struct Ring {
    cpu: CpuId,
    event: OwnedFd,
    base: NonNull<u8>,
    map_bytes: usize,
    /// How long the event had run at the last look.
    ran_ns: u64,
}

// SAFETY: the mapping is ours alone (the kernel apart, with which the two positions are shared atomically),
// and it does not belong to the thread that made it.
unsafe impl Send for Ring {}

impl Ring {
    /// Begins to sample whatever runs on `cpu` each `period_ns`, be it the idle thread (0), and to record who forks.
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
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is replaced.
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

    /// Origin.
    pub(super) fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// Whether it still samples: a CPU that was off-line for a moment has lost its event for good.
    pub(super) fn is_alive(&mut self) -> bool {
        let mut value = 0u64;
        let read = perf::read_value(&self.event, &mut value);
        let alive = read.is_ok() && value != self.ran_ns;
        self.ran_ns = value;
        alive
    }

    /// Takes what is in the buffer, in place of what `into` held.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        into.clear();
        let page = self.base.cast::<sys::perf_event_mmap_page>().as_ptr();
        // SAFETY: the mapping begins with this record and lives as long as `self`; both fields are aligned,
        // and the kernel reads and writes them as we do, atomically.
        let (head, tail) = unsafe {
            (AtomicU64::from_ptr(&raw mut (*page).data_head), AtomicU64::from_ptr(&raw mut (*page).data_tail))
        };
        // The kernel has written everything before its head: acquire. It may overwrite what is before our
        // tail: release, when we are done reading.
        let end = head.load(Ordering::Acquire);
        let start = tail.load(Ordering::Relaxed);
        let len = usize::try_from(end.wrapping_sub(start)).unwrap_or(DATA_BYTES).min(DATA_BYTES);
        let from = usize::try_from(start % DATA_BYTES as u64).unwrap_or(0);
        let first = len.min(DATA_BYTES - from);
        // SAFETY: the data begin one page into the mapping and are `DATA_BYTES` long; both pieces are within,
        // and the kernel does not write between tail and head.
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
        // SAFETY: made by `open` with this length, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.map_bytes) };
    }
}
