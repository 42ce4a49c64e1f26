//! Resource controls: CPU shares and CPU caps of projects, zones and processes.

use crate::{Absent, Change, Refusal};
use millpond_model::{Control, ControlHolder, ControlSetting, CpuCap, Nanos, Pid, Shares};

/// A holder with its controls, and what it used. Figures are sums since the holder began, over its processes, those included that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controlled {
    /// Which.
    pub holder: ControlHolder,
    /// Its shares; `None`: never set, which counts as [`Shares::DEFAULT`].
    pub shares: Option<Shares>,
    /// Its cap; `None`: there is none.
    pub cap: Option<CpuCap>,
    /// CPU time that it used. `None` where the machine does not count it for this holder.
    pub used: Option<Nanos>,
    /// What its cap took away. `None` where the machine does not count it, as where no cap was ever set.
    pub throttled: Option<Throttled>,
}

/// What a cap took away since the holder has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    /// For how long the cap kept the holder from CPUs that it wanted: summed over its threads in the simulator, over CPUs on Linux. It may exceed
    /// the time that passed.
    pub time: Nanos,
    /// Periods in which the holder was kept from a CPU.
    pub periods: u64,
    /// Periods in which it wanted one at all.
    pub of: u64,
    /// How long a period is: the cap holds over that time, and is exceeded by what fits into one at most.
    pub period: Nanos,
}

/// From this part of the periods on, a cap that is used up is worth a word.
const WORTH_A_WORD: f64 = 0.10;

impl Controlled {
    /// What its cap took away since an earlier look. `None`: that is not counted, or the holder was made anew meanwhile.
    #[must_use]
    pub fn lost_since(&self, before: &Controlled) -> Option<Throttled> {
        let (now, then) = (self.throttled?, before.throttled?);
        Some(Throttled {
            time: Nanos(now.time.0.checked_sub(then.time.0)?),
            periods: now.periods.checked_sub(then.periods)?,
            of: now.of.checked_sub(then.of)?,
            period: now.period,
        })
    }

    /// CPU time that it used since an earlier look, where that is known.
    #[must_use]
    pub fn used_since(&self, before: &Controlled) -> Option<Nanos> {
        Some(Nanos(self.used?.0.checked_sub(before.used?.0)?))
    }

    /// `zone web used up its cap of 50 % of one CPU in 10 of 10 periods`, where a cap kept it from CPUs often since an earlier look.
    #[must_use]
    pub fn throttling_since(&self, before: &Controlled) -> Option<String> {
        let (lost, cap) = (self.lost_since(before)?, self.cap?);
        #[expect(clippy::cast_precision_loss, reason = "periods are few")]
        let part = lost.periods as f64 / lost.of.max(1) as f64;
        (part >= WORTH_A_WORD).then(|| {
            format!(
                "{} used up its cap of {cap} % of one CPU in {} of {} periods",
                self.holder, lost.periods, lost.of
            )
        })
    }
}

/// The holders that were throttled between two lists of holders, each with a sentence.
#[must_use]
pub fn throttled_between(before: &[Controlled], now: &[Controlled]) -> Vec<(ControlHolder, String)> {
    let of = |one: &Controlled| {
        let old = before.iter().find(|old| old.holder == one.holder)?;
        Some((one.holder.clone(), one.throttling_since(old)?))
    };
    now.iter().filter_map(of).collect()
}

/// What makes a control of a holder take effect, and how exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforced {
    /// The mechanism, as its users call it: `class FSS`, `cpu.max of /system.slice`, `CPUQuota= of nginx.service`.
    pub by: String,
    /// Whether the value is enforced as it is. Otherwise it is rounded or mapped, as [`Enforced::note`] says.
    pub exact: bool,
    /// What the user should know about it: `1 share is a weight of 100`, `takes effect in class FSS only`.
    pub note: Option<String>,
}

/// The outcome of a change of a control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recontrolled {
    /// The holder.
    pub holder: ControlHolder,
    /// What it was.
    pub from: ControlSetting,
    /// What it is. For a control that was deleted what was there before it was set first.
    pub to: ControlSetting,
}

/// The facet.
pub trait Controls {
    /// What makes controls take effect here, in one line: `simulated: class FSS and caps as on Solaris`.
    fn made_by(&self) -> String;

    /// Whether a control takes effect here at all. Where it does not, it cannot be set either.
    ///
    /// # Errors
    /// [`Absent`] with what would help.
    fn live(&self, control: Control) -> Result<(), Absent>;

    /// Every project and every zone, and the processes that have a control of their own: projects, zones, processes, each ascending.
    ///
    /// # Errors
    /// [`Refusal`] when the machine cannot be read.
    fn list(&self) -> Result<Vec<Controlled>, Refusal>;

    /// One holder.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such project, zone or process.
    fn controlled(&self, holder: &ControlHolder) -> Result<Controlled, Refusal>;

    /// The number of a project or a zone, where the machine numbers them itself. `None`: it has names only, or there is no such holder.
    fn number(&self, holder: &ControlHolder) -> Option<u64> {
        let _ = holder;
        None
    }

    /// The holders whose controls apply to a process: itself, its project, its zone, as far as it has them.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such process.
    fn holders_of(&self, pid: Pid) -> Result<Vec<ControlHolder>, Refusal>;

    /// What limits the CPU time of a process: itself and the groups above it that have a cap, the outermost first.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such process.
    fn caps_of(&self, pid: Pid) -> Result<Vec<Controlled>, Refusal> {
        let all = self.holders_of(pid)?.into_iter().rev().map(|holder| self.controlled(&holder));
        Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|one| one.cap.is_some()).collect())
    }

    /// What would enforce, or enforces, a control of a holder.
    ///
    /// # Errors
    /// [`Refusal`]: no such holder, one that cannot have the control here.
    fn enforced(&self, holder: &ControlHolder, control: Control) -> Result<Enforced, Refusal>;

    /// Prepares setting a control, or with `None` in `to` deleting it: what was there before it was set first is there again. Deleting one that is not
    /// set succeeds. Notes say what keeps the value from taking effect as it stands.
    ///
    /// # Errors
    /// [`Refusal`]: no such holder, a part of the kernel, no rights, a holder that another manager owns, a value that cannot be had here.
    fn prepare_set(
        &self,
        holder: &ControlHolder,
        to: ControlSetting,
    ) -> Result<Change<Recontrolled>, Refusal>;
}
