//! CPU caps for programs that we started ourselves: a limit on time, not on place.

use crate::{Kind, Session};
use millpond_linux::{Cap, Root};
use millpond_machine::Absent;
use millpond_model::Pid;

impl Session {
    /// Limits a process that we started, and what it will start, to `percent` of one processor's time until the cap is
    /// dropped. For comparison with sets; nothing of it is kept in the journal.
    ///
    /// # Errors
    /// [`Absent`] where programs do not really run, where the machine has no such limit, and without the rights to set it.
    pub fn cap(&self, pid: Pid, percent: u32) -> Result<Cap, Absent> {
        Cap::place(&self.live()?, pid, percent)
    }

    /// Lets a process that we started, and what it will start, count for so much beside others until the value is dropped: `weight` is from 1 to 10000,
    /// and who says nothing has 100.
    ///
    /// # Errors
    /// As [`Session::cap`].
    pub fn weigh(&self, pid: Pid, weight: u32) -> Result<Cap, Absent> {
        Cap::weigh(&self.live()?, pid, weight)
    }

    fn live(&self) -> Result<Root, Absent> {
        match (self.kind(), self.journal_path().and_then(|path| path.parent())) {
            (Kind::Real, Some(state)) => Ok(Root::live(state.to_path_buf())),
            _ => Err(Absent::because("programs run on the real machine only")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    #[test]
    fn a_simulated_machine_caps_no_program_of_ours() {
        let options = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        let session = Session::open(&options).unwrap();
        let absent = session.cap(Pid(std::process::id()), 100).unwrap_err();
        assert_eq!(absent.why, "programs run on the real machine only");
        assert!(session.weigh(Pid(std::process::id()), 100).is_err());
    }
}
