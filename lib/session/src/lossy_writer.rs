//! Standard error of a service: where no process reads it, lines are lost, and the service goes on.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a service waits for a reader that does not read. It waits once, and no more until it is heard again.
pub(crate) const WAITING_MAX: Duration = Duration::from_millis(250);

/// What a pipe that is ready takes without waiting (`PIPE_BUF`, pipe(7)).
const AT_ONCE: usize = 4096;

/// A pipe, a socket or a terminal to which nothing is written that would wait. What is lost is counted, and told when it is read again.
#[derive(Debug)]
pub(crate) struct LossyWriter<W> {
    to: W,
    lost: u64,
}

impl<W: Write + AsFd> LossyWriter<W> {
    pub(crate) fn new(to: W) -> Self {
        LossyWriter { to, lost: 0 }
    }

    /// Whether it takes text within a time. An error is left for the writing to find.
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
            // That may have filled it.
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
        // A pipe holds less than 20,000 lines of 100 bytes.
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
