//! Interrupts by name, for experiments on OS noise.

use crate::{Kind, Session, reason, state_dir};
use millpond_linux::{Root, interrupt_counts};
use millpond_machine::Absent;
use millpond_model::InterruptCount;

impl Session {
    /// Interrupt counts since boot, by cause and CPU.
    ///
    /// # Errors
    /// [`Absent`] where causes have no names, or the machine cannot be read.
    pub fn interrupt_counts(&self) -> Result<Vec<InterruptCount>, Absent> {
        if self.kind() != Kind::Real {
            return Err(Absent::because("interrupts are told by name on the real machine only"));
        }
        interrupt_counts(&Root::live(state_dir::state_dir()))
            .map_err(|error| Absent::because(format!("interrupts cannot be read: {}", reason(&error))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    #[test]
    fn the_real_machine_has_names_for_its_interrupts() {
        let session = Session::open(&OpenOptions::default()).unwrap();
        let counts = session.interrupt_counts().unwrap();
        assert!(counts.iter().all(|count| !count.name.is_empty()));
        let options = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        assert!(Session::open(&options).unwrap().interrupt_counts().is_err());
    }
}
