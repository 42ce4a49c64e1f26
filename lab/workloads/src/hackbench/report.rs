//! The texts of hackbench: two lines before, one after.

use super::{HackbenchResult, HackbenchSpec, TaskMode};
use crate::text::fixed;

impl HackbenchSpec {
    /// The two lines with the parameters.
    pub fn header(&self) -> String {
        let mode = if self.mode == TaskMode::Process { "process" } else { "threaded" };
        format!(
            "Running in {mode} mode with {} groups using {} file descriptors each (== {} tasks)\n\
             Each sender will pass {} messages of {} bytes\n",
            self.groups,
            2 * u64::from(self.pairs.get()),
            self.tasks(),
            self.loops,
            self.message_bytes,
        )
    }
}

impl HackbenchResult {
    /// The line with the run time.
    pub fn time_line(&self) -> String {
        format!("Time: {}\n", fixed(self.seconds, 0, 3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_header_is_that_of_the_reference() {
        assert_eq!(
            HackbenchSpec::default().header(),
            "Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)\n\
             Each sender will pass 100 messages of 100 bytes\n"
        );
    }

    #[test]
    fn thread_mode_is_written_threaded() {
        let spec = HackbenchSpec { mode: TaskMode::Thread, ..HackbenchSpec::default() };
        assert!(spec.header().starts_with("Running in threaded mode with 10 groups"));
    }

    #[test]
    fn the_time_has_three_decimals() {
        let result = HackbenchResult { tasks: 400, messages: 1, bytes: 1, seconds: 0.1234, stopped: false };
        assert_eq!(result.time_line(), "Time: 0.123\n");
    }
}
