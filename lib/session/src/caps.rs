//! CPU caps and CPU shares for programs that we started ourselves, for as long as a value lives: a limit on time, not on place.

use crate::{Kind, Session};
use millpond_machine::{Absent, Refusal, Writer};
use millpond_model::{Control, ControlHolder, ControlSetting, Pid};

/// A control of a process that is deleted when the value is dropped. It is journalled like every other change: of an owner that was killed nothing
/// stays longer than until the next change after the process has ended.
pub struct Cap<'s> {
    session: &'s Session,
    holder: ControlHolder,
    control: Control,
}

impl Session {
    /// Limits a process that we started, and what it will start, to `percent` of one CPU's time until the cap is dropped.
    ///
    /// # Errors
    /// [`Absent`] where programs do not really run, where the machine has no such limit, and without the rights to set it.
    pub fn cap(&self, pid: Pid, percent: u32) -> Result<Cap<'_>, Absent> {
        self.control(pid, Control::CpuCap, percent)
    }

    /// Gives a process that we started, and what it will start, so many CPU shares until the value is dropped; a process of which nothing was said
    /// has one.
    ///
    /// # Errors
    /// As [`Session::cap`].
    pub fn share(&self, pid: Pid, shares: u32) -> Result<Cap<'_>, Absent> {
        self.control(pid, Control::CpuShares, shares)
    }

    fn control(&self, pid: Pid, control: Control, value: u32) -> Result<Cap<'_>, Absent> {
        if self.kind() != Kind::Real {
            return Err(Absent::because("programs run on the real machine only"));
        }
        let setting = ControlSetting::of(control, value).map_err(|e| Absent::because(e.to_string()))?;
        self.machine().controls()?.live(control)?;
        let cap = Cap { session: self, holder: ControlHolder::Process(pid), control };
        cap.set(setting)
            .map_err(|refusal| Absent { why: refusal.to_string(), what_would_help: refusal.hint })?;
        Ok(cap)
    }
}

impl Cap<'_> {
    fn set(&self, to: ControlSetting) -> Result<(), Refusal> {
        let machine = self.session.machine();
        let writer = Writer::open(machine)?;
        writer.commit(machine.controls()?.prepare_set(&self.holder, to)?).map(drop)
    }
}

impl Drop for Cap<'_> {
    fn drop(&mut self) {
        // A process that has ended is forgotten by the next change.
        let _ = self.set(ControlSetting::unset(self.control));
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
        let why = |cap: Result<Cap<'_>, Absent>| cap.err().map(|absent| absent.why);
        let expected = Some("programs run on the real machine only".to_owned());
        assert_eq!(why(session.cap(Pid(std::process::id()), 100)), expected);
        assert_eq!(why(session.share(Pid(std::process::id()), 100)), expected);
    }
}
