//! Supervises a program: this process is its parent, hands on to it what it is told, stops when a terminal stops it, and ends with its status.
//! Beside it, or alone, a pool may be followed with a command at each change of its size.
//!
//! ```text
//!   notice of the pool ──▶ ┌──────┐ ──▶ /bin/sh -c COMMAND    one at a time; while it runs the latest size waits
//!   signals ─────────────▶ │ poll │ ──▶ the program, if the terminal did not send them to it as well
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

/// A status that says by which signal a program ended begins here, as in shells.
const BY_SIGNAL: i32 = 128;

/// What stops a job of a terminal.
const STOPS_JOB: [libc::c_int; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// A program to stand by, which was not started yet.
pub struct Program<'a> {
    /// Its name, and its arguments.
    pub words: &'a [OsString],
    /// What it finds in its environment beside ours.
    pub environment: Vec<(&'static str, OsString)>,
    /// What it should see, and the pool whose notices say when that changes.
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

/// A program that runs. Its view follows as long as this lives.
struct Started {
    watched: Watched,
    _shown: Option<Shown>,
}

/// Starts the program and stands by it until it ends; without one, follows the pool until we are asked to stop or it is gone. A command at a change
/// that still runs then is waited for, unless we are asked to stop once more. Gives the status to end with: the program's, 128 + N where signal N
/// ended it; without a program 0. What happens beside is told in words.
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
    // Without a program the first one ends the following, and the next one the waiting for the command.
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

/// Waits for either.
fn wait(signals: BorrowedFd<'_>, notices: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let fds = [Some(signals), notices];
    let mut fds: Vec<PollFd<'_>> =
        fds.iter().flatten().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    match poll(&mut fds, None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A child of this process that nobody else waits for.
#[derive(Debug)]
pub(crate) struct Watched(Pid);

/// What became of a child.
enum Seen {
    Ended(u8),
    Stopped(libc::c_int),
}

impl Watched {
    pub(crate) fn of(child: &Child) -> io::Result<Watched> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map(Watched).ok_or_else(|| Errno::SRCH.into())
    }

    /// What is to be seen next of it; nothing is a sight as well.
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

    /// The status, if it has ended.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn ended(&self) -> io::Result<Option<u8>> {
        loop {
            match self.next()? {
                Some(Seen::Ended(status)) => return Ok(Some(status)),
                Some(Seen::Stopped(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// The same. If a terminal stopped it, so are we, until somebody lets us go on: a terminal stops the job, and whoever started it waits for us to stop.
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
            // It ended a moment ago.
            Err(Errno::SRCH) => Ok(()),
            result => Ok(result?),
        }
    }
}
