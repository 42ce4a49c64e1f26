//! A program that runs beside this process, and is its child.

use crate::output::reason;
use crate::process::own_program;
use crate::stand::Watched;
use millpond_model::{Pid, PsetId};
use rustix::process::{Signal, kill_process};
use std::ffi::OsString;
use std::process::Command;

/// A child of this process. It is told to end when the value is dropped before it has.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    watched: Watched,
    ended: Option<u8>,
}

impl Child {
    /// Starts a program, with its arguments, in a set: as `psrset -e` does, in the words of the very program that runs.
    ///
    /// # Errors
    /// The system's reason, in words.
    pub fn start_in(set: PsetId, words: &[OsString]) -> Result<Child, String> {
        let mut command = Command::new(own_program()?);
        command.args(["psrset", "-e"]).arg(set.to_string()).args(words);
        let child = command.spawn().map_err(|error| reason(&error))?;
        let watched = Watched::of(&child).map_err(|error| reason(&error))?;
        Ok(Child { pid: Pid(child.id()), watched, ended: None })
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The status with which it ended, once it has; 128 + N where signal N ended it.
    pub fn ended(&mut self) -> Option<u8> {
        if self.ended.is_none() {
            // Somebody else has taken its status: then it has ended.
            self.ended = self.watched.ended().unwrap_or(Some(0));
        }
        self.ended
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let pid = i32::try_from(self.pid.0).ok().and_then(rustix::process::Pid::from_raw);
        if let (None, Some(pid)) = (self.ended(), pid) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}
