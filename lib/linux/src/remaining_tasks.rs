//! Tasks that are still in a cgroup of ours when it ends: born while their parents were moved out.
//!
//! A plan lists tasks once, and a task that forks meanwhile leaves children behind, in any number. The kernel then
//! refuses to take the cgroup's CPUs or the cgroup itself away. So the two writes that end a cgroup
//! send stragglers home and try again. What a settling finds out of place afterwards it moves on.

use crate::os::knob_error;
use crate::{LinuxMachine, names};
use millpond_machine::KnobError;
use millpond_model::Nanos;

/// How often stragglers are sent home before we give up: each time only those remain that were born meanwhile.
const ROUNDS_MAX: usize = 100;
/// A task on its way out is listed no more and still keeps the cgroup from ending.
const WAIT_MS: u64 = 1;

impl LinuxMachine {
    /// Does what the kernel refuses while tasks are in the cgroup `path`, sending them home as often as it takes.
    ///
    /// # Errors
    /// What `end` says when there are no stragglers, or no end of them.
    pub(crate) fn ending(
        &self,
        path: &str,
        end: impl Fn() -> Result<(), KnobError>,
    ) -> Result<(), KnobError> {
        let mut result = end();
        if names::owner(path).is_none() || !self.os().root.is_live() {
            return result;
        }
        for _ in 0..ROUNDS_MAX {
            if !matches!(result, Err(KnobError::Refused(_))) {
                break;
            }
            if self.send_home(path)? == 0 {
                let clock = millpond_machine::Machine::clock(self);
                clock.sleep_until(clock.now() + Nanos::from_millis(WAIT_MS));
            }
            result = end();
        }
        result
    }

    /// How many tasks were sent from a cgroup of ours to where its tasks came from.
    fn send_home(&self, path: &str) -> Result<usize, KnobError> {
        let os = self.os();
        let name = path.rsplit('/').next().unwrap_or_default();
        let origin = match names::origin(name) {
            Some(origin) => Some(origin),
            None => os.label(path, "origin")?,
        };
        let origin =
            origin.filter(|o| os.group(o).is_ok_and(|d| d.is_dir())).unwrap_or_else(|| "/".to_owned());
        let file = if os.hierarchy.is_v1() { "tasks" } else { "cgroup.procs" };
        let tasks = os.root.read(&os.group(path)?.join(file)).map_err(knob_error)?.unwrap_or_default();
        let home = os.group(&origin)?.join(file);
        // One that has ended, or that the kernel keeps, is not sent.
        Ok(tasks.split_ascii_whitespace().filter(|task| os.write(&home, task).is_ok()).count())
    }
}
