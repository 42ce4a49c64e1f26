//! The code of one task: report ready, wait for the wake, then read or write. It is common to processes and threads.
//!
//! It only makes system calls on existing descriptors and memory, so a forked child may run it.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use std::os::fd::{AsFd, BorrowedFd};

/// The reason why a task failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TaskError {
    /// A system call failed.
    #[error("{0}")]
    Call(Errno),
    /// The senders ended before all messages had arrived.
    #[error("the senders ended before all messages had come")]
    EndOfFile,
    /// The main task gave up before the wake.
    #[error("it was never woken")]
    NotWoken,
}

/// Makes a broken pipe an error of the call for the calling thread, even in programs that do not ignore SIGPIPE.
pub(super) fn block_broken_pipe_signal() {
    // SAFETY: the set is initialised by the first call, and blocking a signal in one thread changes no memory of ours. Both
    // calls are allowed in a forked child. They only fail for unknown signals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Reports ready and waits until a byte is in the wake pipe. The byte stays there, for all tasks to see.
pub(super) fn wait_for_wake(ready: BorrowedFd<'_>, wake: BorrowedFd<'_>) -> Result<(), TaskError> {
    retry_on_intr(|| write(ready, b"r")).map_err(TaskError::Call)?;
    let mut fds = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
    retry_on_intr(|| poll(&mut fds, None)).map_err(TaskError::Call)?;
    // A hang-up without data: the writing end was closed.
    if fds[0].revents().contains(PollFlags::IN) { Ok(()) } else { Err(TaskError::NotWoken) }
}

/// Writes `loops` messages to each of `channels`, in turn.
pub(super) fn send<F: AsFd>(
    channels: impl Iterator<Item = F> + Clone,
    loops: u32,
    message: &[u8],
) -> Result<(), TaskError> {
    for _ in 0..loops {
        for channel in channels.clone() {
            let mut rest = message;
            while !rest.is_empty() {
                let written = retry_on_intr(|| write(channel.as_fd(), rest)).map_err(TaskError::Call)?;
                rest = rest.get(written..).unwrap_or(&[]);
            }
        }
    }
    Ok(())
}

/// Reads `messages` messages, each as long as `buffer`.
pub(super) fn receive(channel: BorrowedFd<'_>, messages: u64, buffer: &mut [u8]) -> Result<(), TaskError> {
    for _ in 0..messages {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match retry_on_intr(|| read(channel, &mut *rest)).map_err(TaskError::Call)? {
                0 => return Err(TaskError::EndOfFile),
                bytes => filled += bytes,
            }
        }
    }
    Ok(())
}

/// Exit statuses of tasks that are processes. Error numbers are below 134, so these two are free.
const EXIT_END_OF_FILE: i32 = 200;
const EXIT_NOT_WOKEN: i32 = 201;

impl TaskError {
    /// The exit status for this error.
    pub(super) fn exit_status(self) -> i32 {
        match self {
            Self::Call(errno) => errno.raw_os_error(),
            Self::EndOfFile => EXIT_END_OF_FILE,
            Self::NotWoken => EXIT_NOT_WOKEN,
        }
    }

    /// The error for an exit status other than 0.
    pub(super) fn of_exit_status(status: i32) -> Self {
        match status {
            EXIT_END_OF_FILE => Self::EndOfFile,
            EXIT_NOT_WOKEN => Self::NotWoken,
            errno => Self::Call(Errno::from_raw_os_error(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Transport;
    use super::super::channel::Channel;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_receiver_whose_senders_are_gone_reports_an_end_of_file() {
        let channel = Channel::open(Transport::Pipe).unwrap();
        send([&channel.writing].into_iter(), 1, b"whole").unwrap();
        drop(channel.writing);
        let mut buffer = [0; 5];
        assert_eq!(receive(channel.reading.as_fd(), 2, &mut buffer), Err(TaskError::EndOfFile));
        assert_eq!(&buffer, b"whole");
    }

    #[test]
    fn a_sender_whose_receiver_is_gone_reports_a_broken_pipe() {
        // Test programs ignore SIGPIPE, as every Rust program does by default.
        let channel = Channel::open(Transport::Socket).unwrap();
        drop(channel.reading);
        let outcome = send([&channel.writing].into_iter(), 1, b"lost");
        assert_eq!(outcome, Err(TaskError::Call(Errno::PIPE)));
    }

    #[test]
    fn a_task_is_woken_by_a_byte_and_sent_home_by_a_hang_up() {
        let (ready, wake) =
            (Channel::open(Transport::Pipe).unwrap(), Channel::open(Transport::Pipe).unwrap());
        write(&wake.writing, b"w").unwrap();
        for _ in 0..2 {
            assert_eq!(wait_for_wake(ready.writing.as_fd(), wake.reading.as_fd()), Ok(()));
        }
        read(&wake.reading, &mut [0_u8; 1]).unwrap();
        drop(wake.writing);
        assert_eq!(wait_for_wake(ready.writing.as_fd(), wake.reading.as_fd()), Err(TaskError::NotWoken));
        assert_eq!(read(&ready.reading, &mut [0_u8; 8]), Ok(3));
    }

    proptest! {
        #[test]
        fn an_exit_status_reads_back_as_its_error(errno in 1_i32..134) {
            for error in [TaskError::Call(Errno::from_raw_os_error(errno)), TaskError::EndOfFile, TaskError::NotWoken] {
                prop_assert!((1..256).contains(&error.exit_status()));
                prop_assert_eq!(TaskError::of_exit_status(error.exit_status()), error);
            }
        }
    }
}
