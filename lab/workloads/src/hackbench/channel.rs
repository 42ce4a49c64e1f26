//! Channels of a group, and the two pipes for synchronization with the main task.

use super::{HackbenchSpec, Transport};
use crate::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The two ends of one channel. They are close-on-exec, like all descriptors in this suite.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) reading: OwnedFd,
    pub(super) writing: OwnedFd,
}

impl Channel {
    pub(super) fn open(transport: Transport) -> Result<Self, Errno> {
        let (reading, writing) = match transport {
            Transport::Pipe => rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?,
            Transport::Socket => {
                rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?
            }
        };
        Ok(Self { reading, writing })
    }
}

/// The channels of one group, one per receiver.
pub(super) fn open_group(spec: &HackbenchSpec, group: u32) -> Result<Vec<Channel>, Error> {
    let pairs = spec.pairs.get();
    let open = |index| {
        let number = u64::from(group) * u64::from(pairs) + index + 1;
        Channel::open(spec.transport).map_err(|errno| open_error(spec, number, errno))
    };
    (0..u64::from(pairs)).map(open).collect()
}

/// Distinguishes too many open files, which has a remedy.
pub(super) fn open_error(spec: &HackbenchSpec, number: u64, errno: Errno) -> Error {
    let channels = u64::from(spec.groups.get()) * u64::from(spec.pairs.get());
    if errno == Errno::MFILE {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        Error::Descriptors { needed: spec.descriptors(), limit }
    } else {
        Error::OpenChannel { number, of: channels, source: errno.into() }
    }
}

/// The pipes for ready and wake.
#[derive(Debug)]
pub(super) struct Gates {
    pub(super) ready: Channel,
    pub(super) wake: Channel,
}

impl Gates {
    pub(super) fn open(spec: &HackbenchSpec) -> Result<Self, Error> {
        let open = || Channel::open(Transport::Pipe).map_err(|errno| open_error(spec, 0, errno));
        Ok(Self { ready: open()?, wake: open()? })
    }

    /// Wakes all waiting tasks.
    pub(super) fn open_wake(&self) -> Result<(), Errno> {
        retry_on_intr(|| rustix::io::write(&self.wake.writing, b"w")).map(drop)
    }
}

/// Reads ready bytes for at most `timeout`; returns their number.
pub(super) fn take_ready(ready: &OwnedFd, timeout: Duration) -> Result<usize, Errno> {
    let mut fds = [PollFd::new(ready, PollFlags::IN)];
    match poll(&mut fds, Some(&timespec(timeout))) {
        Ok(0) | Err(Errno::INTR) => Ok(0),
        Ok(_) => retry_on_intr(|| rustix::io::read(ready, &mut [0_u8; 256])),
        Err(errno) => Err(errno),
    }
}

/// A timeout for `poll`.
pub(super) fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// Takes channels away from threads that use them. A blocked thread wakes up with an end of file or an error, and so does any later
/// use.
///
/// Every descriptor is redirected to the read end of a pipe without a writer: a read finds the end of file, and a write is
/// refused. Closing is not safe: the numbers could be reused while a thread still holds them. A thread that sleeps in the kernel
/// keeps its end open until it returns. So sockets are shut down first, which wakes sleeping threads; in a pipe they wake
/// when the other end is closed.
pub(super) fn take_away<'a>(channels: impl Iterator<Item = &'a Channel>) -> Result<(), Errno> {
    let dead = Channel::open(Transport::Pipe)?;
    drop(dead.writing);
    for fd in channels.flat_map(|channel| [&channel.reading, &channel.writing]) {
        // Fails for pipes, as expected.
        let _ = rustix::net::shutdown(fd, Shutdown::Both);
        replace(fd, &dead.reading)?;
    }
    Ok(())
}

/// Redirects `fd` to the file of `by`.
fn replace(fd: &OwnedFd, by: &OwnedFd) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let (from, to) = (by.as_fd().as_raw_fd(), fd.as_fd().as_raw_fd());
    // SAFETY: both numbers are open and owned by the caller's values, which keep owning them: only the file of `to` changes.
    let outcome = unsafe { libc::dup3(from, to, libc::O_CLOEXEC) };
    if outcome < 0 {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    } else {
        Ok(())
    }
}
