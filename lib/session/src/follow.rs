//! Runs a command at each change of a pool's size, for programs that cannot subscribe to changes.

use crate::output::reason;
use crate::supervise::Watched;
use millpond_member::{MemberError, POOL_VARIABLE, PoolSize, STATE_VARIABLE, Subscription, usual_state_dir};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, absolute};
use std::process::{Command, Stdio};

/// The shell for commands.
const SHELL: &str = "/bin/sh";

/// The environment variables with the size.
const SIZE_VARIABLE: &str = "MILLPOND_POOL_SIZE";
const CPUS_VARIABLE: &str = "MILLPOND_POOL_CPUS";

/// Environment variables of a program in a pool: the pool's name, and the state directory if it is not the default.
#[must_use]
pub fn pool_environment(state: Option<&Path>, pool: &str) -> Vec<(&'static str, OsString)> {
    let mut environment = vec![(POOL_VARIABLE, OsString::from(pool))];
    if let Some(state) = state.filter(|state| *state != usual_state_dir()) {
        // Absolute, because the program may run in another directory.
        let state = absolute(state).unwrap_or_else(|_| state.to_owned());
        environment.push((STATE_VARIABLE, state.into_os_string()));
    }
    environment
}

/// Follows a pool. No change after its creation is missed.
#[derive(Debug)]
pub struct Follower {
    subscription: Subscription,
    environment: Vec<(&'static str, OsString)>,
    command: OsString,
    /// The serial number of the last handled size: the initial one, or that of the last command.
    done: u64,
    is_followed: bool,
    running: Option<(Watched, PoolSize)>,
}

impl Follower {
    /// Starts following a pool of a state directory; `command` is for the shell.
    ///
    /// # Errors
    /// [`MemberError`] when the pool does not exist or cannot be watched.
    pub fn begin(state: &Path, pool: &str, command: &OsStr) -> Result<Follower, MemberError> {
        let mut subscription = Subscription::in_dir(state, pool)?;
        let done = subscription.size()?.serial;
        let environment = pool_environment(Some(state), pool);
        let command = command.to_owned();
        Ok(Follower { subscription, environment, command, done, is_followed: true, running: None })
    }

    /// Whether the pool still exists and can change.
    pub(crate) fn follows(&self) -> bool {
        self.is_followed
    }

    /// Whether a command is running.
    pub(crate) fn has_command(&self) -> bool {
        self.running.is_some()
    }

    /// Checks whether the command has ended.
    pub(crate) fn see_end(&mut self, tell: &mut dyn FnMut(&str)) {
        let Some((command, size)) = &self.running else { return };
        match command.ended() {
            Ok(None) => return,
            Ok(Some(0)) => {}
            Ok(Some(status)) => tell(&format!("the command for {} ended with status {status}", said(size))),
            // Treat a child whose status cannot be read as ended.
            Err(error) => tell(&format!("the command for {} is lost: {}", said(size), reason(&error))),
        }
        self.running = None;
    }

    /// Checks for a new size, and runs the command unless one is running.
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

/// Readable when the size may have changed.
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
