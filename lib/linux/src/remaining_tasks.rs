//! Tasks that remain in one of our cgroups when it ends: they were forked while their parents were moved out.
//!
//! A plan lists tasks once, and a task that forks meanwhile leaves children behind. The kernel then refuses to remove the
//! cgroup's CPUs or the cgroup itself. So the two writes that end a cgroup move remaining tasks back and are retried. Settling
//! moves the rest afterwards.

use crate::os::knob_error;
use crate::{LinuxMachine, names};
use millpond_machine::KnobError;
use millpond_model::Nanos;

/// Maximal number of attempts. After each one, only tasks forked meanwhile remain.
const ROUNDS_MAX: usize = 100;
/// Delay between attempts: an exiting task is no longer listed, but still blocks the end of the cgroup.
const WAIT_MS: u64 = 1;

impl LinuxMachine {
    /// Runs `end`, which the kernel refuses while the cgroup `path` has tasks. Moves tasks back and retries as often as
    /// necessary.
    ///
    /// # Errors
    /// The error of `end`, if no tasks remain or their number does not decrease.
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

    /// Moves the tasks of one of our cgroups to their original cgroup. Returns how many were moved.
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
        // Tasks that have ended, or that the kernel does not move, are not counted.
        Ok(tasks.split_ascii_whitespace().filter(|task| os.write(&home, task).is_ok()).count())
    }
}
