//! Supervises a program: this process is its parent, forwards signals to it, stops when a terminal stops it, and exits with its status. It can
//! also follow a pool, with or without a program, and run a command at each change of the pool's size.
//!
//! ```text
//!   notice of the pool ──▶ ┌──────┐ ──▶ /bin/sh -c COMMAND    one at a time; the latest size waits for the end of it
//!   signals ─────────────▶ │ poll │ ──▶ the program, unless the terminal sent them to it as well
//!   an end of a child ───▶ └──────┘
//! ```

use crate::follow::Follower;
use crate::output::reason;
use crate::signals::{Signals, Taken, is_stop};
use crate::view::{Shown, View};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, Command};

/// Exit statuses for signals begin here, as in shells.
const BY_SIGNAL: i32 = 128;

/// Signals that stop a terminal's job.
const STOPS_JOB: [libc::c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// A program to supervise, not started yet.
pub struct Program<'a> {
    /// Its name, and its arguments.
    pub words: &'a [OsString],
    /// Additional environment variables.
    pub environment: Vec<(&'static str, OsString)>,
    /// Its view of CPUs, and the pool whose notices update the view.
    pub view: Option<(View, &'a str)>,
}

impl Program<'_> {
    fn start(self) -> Result<Started, String> {
        let (name, arguments) = self.words.split_first().ok_or("there is no program")?;
        let mut command = Command::new(name);
        command.args(arguments).envs(self.environment);
        let (child, shown) = match self.view {
            Some((view, pool)) => view.start(command, pool).map(|(child, shown)| (child, Some(shown))),
            None => command.spawn().map(|child| (child, None)).map_err(|error| reason(&error)),
        }?;
        Ok(Started { watched: Watched::of(&child).map_err(|error| reason(&error))?, _shown: shown })
    }
}

/// A running program. Its view is updated as long as the value lives.
struct Started {
    watched: Watched,
    _shown: Option<Shown>,
}

/// Starts the program and supervises it until it ends. Without a program, follows the pool until a stop is requested or the pool is gone. A command
/// that still runs then is waited for, unless a stop is requested again. Returns the exit status: the program's, 128 + N if signal N
/// ended it, 0 without a program. Other events are reported in words.
///
/// # Errors
/// The system's reason why the program cannot be executed, in words.
pub fn supervise(
    program: Option<Program<'_>>,
    mut follower: Option<Follower>,
    tell: &mut dyn FnMut(&str),
) -> Result<u8, String> {
    let said = |error: io::Error| reason(&error);
    let has_program = program.is_some();
    let mut signals = Signals::take(has_program).map_err(said)?;
    let mut program = program.map(Program::start).transpose()?;
    let (mut ended, mut stops) = (None, 0u32);
    // Without a program, the first stop request ends the following, and the second one the wait for the command.
    let stops_enough = if has_program { 1 } else { 2 };
    loop {
        if let Some(started) = &program
            && let Some(status) = started.watched.ended_or_stopped_with_us().map_err(said)?
        {
            ended = Some(status);
            program = None;
        }
        let goes_on = ended.is_none() && stops == 0;
        let (mut follows, mut commands) = (false, false);
        if let Some(follower) = &mut follower {
            follower.see_end(tell);
            if goes_on {
                follower.see_size(tell);
            }
            (follows, commands) = (follower.follows(), follower.has_command());
        }
        let is_over = if has_program { ended.is_some() } else { stops > 0 || !follows };
        if is_over && (!commands || stops >= stops_enough) {
            return Ok(ended.unwrap_or(0));
        }
        let notices = follower.as_ref().filter(|_| follows).map(AsFd::as_fd);
        wait(signals.as_fd(), notices).map_err(said)?;
        for signal in signals.taken() {
            match (signal, &program) {
                (Taken::Child, _) | (Taken::FromTerminal(_), Some(_)) => {}
                (Taken::Sent(signal), Some(started)) => started.watched.pass(signal).map_err(said)?,
                (Taken::Sent(signal) | Taken::FromTerminal(signal), None) if is_stop(signal) => stops += 1,
                (Taken::Sent(_) | Taken::FromTerminal(_), None) => {}
            }
        }
    }
}

/// Waits for a signal or a notice.
fn wait(signals: BorrowedFd<'_>, notices: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let fds = [Some(signals), notices];
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A child of this process that no other code waits for.
#[derive(Debug)]
pub(crate) struct Watched(Pid);

/// A state change of a child.
enum Seen {
    Ended(u8),
    Stopped(libc::c_int),
}

impl Watched {
    pub(crate) fn of(child: &Child) -> io::Result<Watched> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map(Watched).ok_or_else(|| Errno::SRCH.into())
    }

    /// The next state change, if any yet.
    fn next(&self) -> io::Result<Option<Seen>> {
        let Some((_, status)) = waitpid(Some(self.0), WaitOptions::NOHANG | WaitOptions::UNTRACED)? else {
            return Ok(None);
        };
        let ended = status.exit_status().or_else(|| Some(BY_SIGNAL + status.terminating_signal()?));
        Ok(match ended {
            Some(code) => Some(Seen::Ended(u8::try_from(code).unwrap_or(u8::MAX))),
            None => status.stopping_signal().map(Seen::Stopped),
        })
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The system's error.
    pub(crate) fn ended(&self) -> io::Result<Option<u8>> {
        loop {
            match self.next()? {
                Some(Seen::Ended(status)) => return Ok(Some(status)),
                Some(Seen::Stopped(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// The same. If a terminal stopped the child, this process stops too until it is continued: the terminal stops the whole job, and the shell
    /// waits for that.
    fn ended_or_stopped_with_us(&self) -> io::Result<Option<u8>> {
        loop {
            match self.next()? {
                Some(Seen::Ended(status)) => return Ok(Some(status)),
                Some(Seen::Stopped(signal)) if STOPS_JOB.contains(&signal) => {
                    kill_process(getpid(), Signal::STOP)?;
                }
                Some(Seen::Stopped(_)) => {}
                None => return Ok(None),
            }
        }
    }

    fn pass(&self, signal: libc::c_int) -> io::Result<()> {
        let Some(signal) = Signal::from_named_raw(signal) else { return Ok(()) };
        match kill_process(self.0, signal) {
            // It just ended.
            Err(Errno::SRCH) => Ok(()),
            result => Ok(result?),
        }
    }
}
