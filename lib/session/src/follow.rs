//! Runs a command at each change of a pool's size, for programs that cannot subscribe themselves.

use crate::output::reason;
use crate::supervise::Watched;
use millpond_member::{MemberError, POOL_VARIABLE, PoolSize, STATE_VARIABLE, Subscription, usual_state_dir};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, absolute};
use std::process::{Command, Stdio};

/// What runs commands.
const SHELL: &str = "/bin/sh";

/// The variables that tell a command the size.
const SIZE_VARIABLE: &str = "MILLPOND_POOL_SIZE";
const CPUS_VARIABLE: &str = "MILLPOND_POOL_CPUS";

/// What a program in a pool finds in its environment: the pool's name, and the state directory where it is not the usual one.
#[must_use]
pub fn pool_environment(state: Option<&Path>, pool: &str) -> Vec<(&'static str, OsString)> {
    let mut environment = vec![(POOL_VARIABLE, OsString::from(pool))];
    if let Some(state) = state.filter(|state| *state != usual_state_dir()) {
        // The program may work in another directory.
        let state = absolute(state).unwrap_or_else(|_| state.to_owned());
        environment.push((STATE_VARIABLE, state.into_os_string()));
    }
    environment
}

/// Follows a pool. No change since it was made is missed.
#[derive(Debug)]
pub struct Follower {
    subscription: Subscription,
    environment: Vec<(&'static str, OsString)>,
    command: OsString,
    /// The serial of the size that needs no command: the first one, then that of the last command.
    done: u64,
    is_followed: bool,
    running: Option<(Watched, PoolSize)>,
}

impl Follower {
    /// Begins to follow a pool that a state directory tells of; `command` is for the shell.
    ///
    /// # Errors
    /// [`MemberError`] when there is no such pool, or it cannot be watched.
    pub fn begin(state: &Path, pool: &str, command: &OsStr) -> Result<Follower, MemberError> {
        let mut subscription = Subscription::in_dir(state, pool)?;
        let done = subscription.size()?.serial;
        let environment = pool_environment(Some(state), pool);
        let command = command.to_owned();
        Ok(Follower { subscription, environment, command, done, is_followed: true, running: None })
    }

    /// Whether there is a pool that can still change.
    pub(crate) fn follows(&self) -> bool {
        self.is_followed
    }

    /// Whether a command runs.
    pub(crate) fn has_command(&self) -> bool {
        self.running.is_some()
    }

    /// Sees whether the command has ended.
    pub(crate) fn see_end(&mut self, tell: &mut dyn FnMut(&str)) {
        let Some((command, size)) = &self.running else { return };
        match command.ended() {
            Ok(None) => return,
            Ok(Some(0)) => {}
            Ok(Some(status)) => tell(&format!("the command for {} ended with status {status}", said(size))),
            // One that cannot be asked after is gone.
            Err(error) => tell(&format!("the command for {} is lost: {}", said(size), reason(&error))),
        }
        self.running = None;
    }

    /// Sees whether the size is another one, and runs the command unless one runs.
    pub(crate) fn see_size(&mut self, tell: &mut dyn FnMut(&str)) {
        if !self.is_followed {
            return;
        }
        let size = match self.subscription.size() {
            Ok(size) => size,
            Err(error) => {
                self.is_followed = !matches!(error, MemberError::Ended(_));
                return tell(&error.to_string());
            }
        };
        if size.serial == self.done || self.running.is_some() {
            return;
        }
        self.done = size.serial;
        let mut shell = Command::new(SHELL);
        shell.arg("-c").arg(&self.command).stdin(Stdio::null()).envs(self.environment.iter().cloned());
        shell.env(SIZE_VARIABLE, size.size().to_string()).env(CPUS_VARIABLE, size.cpus.to_string());
        match shell.spawn().and_then(|child| Watched::of(&child)) {
            Ok(command) => self.running = Some((command, size)),
            Err(error) => tell(&format!("the command for {} cannot be run: {}", said(&size), reason(&error))),
        }
    }
}

/// Can be read from when the size may have changed.
impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.subscription.fd()
    }
}

fn said(size: &PoolSize) -> String {
    match size.size() {
        1 => "1 CPU".to_owned(),
        more => format!("{more} CPUs"),
    }
}
