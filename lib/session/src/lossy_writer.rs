//! Standard error of a service. If no process reads it, lines are dropped, and the service continues.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a service waits for a slow reader. After one timeout it does not wait again until the reader reads.
pub(crate) const WAITING_MAX: Duration = Duration::from_millis(250);

/// Bytes that a ready pipe accepts without blocking (`PIPE_BUF`, pipe(7)).
const AT_ONCE: usize = 4096;

/// A pipe, a socket or a terminal that is never written to if that would block. Dropped lines are counted, and reported when it is read again.
#[derive(Debug)]
pub(crate) struct LossyWriter<W> {
    to: W,
    lost: u64,
}

impl<W: Write + AsFd> LossyWriter<W> {
    pub(crate) fn new(to: W) -> Self {
        LossyWriter { to, lost: 0 }
    }

    /// Whether it becomes writable within a time. An error is left for the write to report.
    fn is_ready(&self, within: Duration) -> bool {
        let end = Instant::now() + within;
        loop {
            let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
            match poll(&mut [PollFd::new(&self.to, PollFlags::OUT)], left.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                found => return found != Ok(0),
            }
        }
    }
}

impl<W: Write + AsFd> Write for LossyWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_ready(if self.lost == 0 { WAITING_MAX } else { Duration::ZERO }) {
            self.lost += bytes.iter().filter(|byte| **byte == b'\n').count().max(1) as u64;
            return Ok(bytes.len());
        }
        if self.lost > 0 {
            let lost = std::mem::take(&mut self.lost);
            writeln!(self.to, "({lost} lines were lost here: no process read them)")?;
            // The report may have filled the pipe.
            return self.write(bytes);
        }
        self.to.write(&bytes[..bytes.len().min(AT_ONCE)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_a_full_pipe_does_not_take_is_lost_and_told_when_it_is_read() {
        let (mut reads, writes) = io::pipe().unwrap();
        let mut lossy = LossyWriter::new(writes);
        // A pipe holds fewer than 20,000 lines of 100 bytes.
        let line = format!("{}\n", "x".repeat(99));
        for _ in 0..20_000 {
            lossy.write_all(line.as_bytes()).unwrap();
        }
        let lost = lossy.lost;
        assert!(lost > 0 && lost < 20_000, "{lost}");
        let mut kept = vec![0; usize::try_from(20_000 - lost).unwrap() * line.len()];
        reads.read_exact(&mut kept).unwrap();
        assert_eq!(kept, line.repeat(kept.len() / line.len()).as_bytes());
        lossy.write_all(b"after\n").unwrap();
        drop(lossy);
        let rest = io::read_to_string(reads).unwrap();
        assert_eq!(rest, format!("({lost} lines were lost here: no process read them)\nafter\n"));
    }

    #[test]
    fn a_reader_that_went_away_is_an_error_as_elsewhere() {
        let (reads, writes) = io::pipe().unwrap();
        drop(reads);
        let error = LossyWriter::new(writes).write_all(b"a\n").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
