//! Files of the kernel that are read, and the one that is held open. No other file of this crate contains paths.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// The value of a key in the calling thread's `status`.
pub(super) fn status(key: &str) -> Option<String> {
    value(&fs::read_to_string("/proc/thread-self/status").ok()?, key)
}

/// The process's `smaps`. Empty without `/proc`.
pub(crate) fn mappings() -> String {
    fs::read_to_string("/proc/self/smaps").unwrap_or_default()
}

/// The list of on-line CPUs.
pub(super) fn online() -> Option<String> {
    fs::read_to_string("/sys/devices/system/cpu/online").ok()
}

/// The maximum number of mappings of a process. It does not allocate: the allocator calls it.
pub(crate) fn mappings_max() -> Option<usize> {
    let mut text = [0; 32];
    let length = File::open("/proc/sys/vm/max_map_count").ok()?.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(text.get(..length)?).ok()?.trim().parse().ok()
}

/// Available memory of the system, in bytes.
pub(super) fn available() -> Option<usize> {
    let text = value(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let kilobytes: usize = text.split(' ').next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

fn value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_owned())
}

/// While this file is open, the wake-up latency of all CPUs is limited (PM QoS). The limit ends when it is closed, also by the end of the process.
///
/// The alternative, files for single CPUs (`pm_qos_resume_latency_us`), would keep their values after a program is killed.
const IDLE_LATENCY: &str = "/dev/cpu_dma_latency";

/// A request, valid until it is dropped.
#[derive(Debug)]
pub(super) struct IdleLatency(File);

impl IdleLatency {
    /// Makes a request, in microseconds.
    pub(super) fn ask(microseconds: i32) -> io::Result<IdleLatency> {
        let mut file = OpenOptions::new().read(true).write(true).open(IDLE_LATENCY)?;
        file.write_all(&microseconds.to_ne_bytes())?;
        Ok(IdleLatency(file))
    }

    pub(super) fn look() -> io::Result<IdleLatency> {
        File::open(IDLE_LATENCY).map(IdleLatency)
    }

    /// The effective limit of all requests, in microseconds.
    pub(super) fn limit(&self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.0.read_exact_at(&mut bytes, 0)?;
        Ok(i32::from_ne_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_stands_behind_its_word() {
        let text = "CapPrm:\t00ff\nCapEff:\t0000000000804000\nVmLck:\t      12 kB\n";
        assert_eq!(value(text, "CapEff:").as_deref(), Some("0000000000804000"));
        assert_eq!(value(text, "VmLck:").as_deref(), Some("12 kB"));
        assert_eq!(value(text, "VmPin:"), None);
    }
}
