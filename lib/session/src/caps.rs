//! CPU caps and CPU shares of processes that this program started. They last as long as a value.

use crate::{Kind, Session};
use millpond_machine::{Absent, Refusal, Writer};
use millpond_model::{Control, ControlHolder, ControlSetting, Pid};

/// A control of a process, removed when the value is dropped. It is journalled like every other change. If this program is killed, the control
/// remains at most until the next change after the process has ended.
pub struct Cap<'s> {
    session: &'s Session,
    holder: ControlHolder,
    control: Control,
}

impl Session {
    /// Limits a process that this program started, and its later children, to `percent` of one CPU's time until the cap is dropped.
    ///
    /// # Errors
    /// [`Absent`] where programs do not really run, on a machine without such a limit, and without the privilege to set it.
    pub fn cap(&self, pid: Pid, percent: u32) -> Result<Cap<'_>, Absent> {
        self.control(pid, Control::CpuCap, percent)
    }

    /// Gives a process that this program started, and its later children, this many CPU shares until the value is dropped. The default is
    /// one.
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
        // The control of a process that has ended is removed by the next change.
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
