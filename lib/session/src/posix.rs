//! The real-time options of POSIX that the machine's system supports.

use crate::{Kind, Session};
use millpond_machine::Absent;
use millpond_model::{PosixAnswer, PosixOption};

impl Session {
    /// The system's value of each option, in the order of [`PosixOption::ALL`]: of the real system, or of Solaris on a simulated machine.
    ///
    /// # Errors
    /// [`Absent`] for a captured or recorded machine, where the values are unknown.
    pub fn posix_answers(&self) -> Result<Vec<(PosixOption, PosixAnswer)>, Absent> {
        let ask = match self.kind() {
            Kind::Real => millpond_linux::posix_answer,
            Kind::Simulated => millpond_sim::posix_answer,
            Kind::Captured | Kind::Recorded => {
                return Err(Absent::because(
                    "its C library answers for them, and what was captured has none",
                ));
            }
        };
        Ok(PosixOption::ALL.into_iter().map(|option| (option, ask(option))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    #[test]
    fn every_option_is_answered_for_on_real_and_simulated_machines_and_not_on_captured_ones() {
        let simulated = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        for options in [OpenOptions::default(), simulated] {
            let answers = Session::open(&options).unwrap().posix_answers().unwrap();
            assert_eq!(answers.len(), PosixOption::ALL.len());
        }
        let dir = tempfile::tempdir().unwrap();
        let captured = OpenOptions { root: Some(dir.path().to_owned()), ..OpenOptions::default() };
        // An empty directory may be refused as a captured machine.
        if let Ok(session) = Session::open(&captured) {
            assert!(session.posix_answers().is_err());
        }
    }
}
