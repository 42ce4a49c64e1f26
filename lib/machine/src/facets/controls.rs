//! Resource controls: CPU shares and CPU caps of projects, zones and processes.

use crate::{Absent, Change, Refusal};
use millpond_model::{Control, ControlHolder, ControlSetting, CpuCap, Nanos, Pid, Shares};

/// A holder with its controls and its usage. Figures are sums over all its processes, including ended ones, since the holder was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controlled {
    /// The holder.
    pub holder: ControlHolder,
    /// Its shares; `None` if never set, which means [`Shares::DEFAULT`].
    pub shares: Option<Shares>,
    /// Its cap; `None` without one.
    pub cap: Option<CpuCap>,
    /// CPU time used. `None` if the machine does not count it for this holder.
    pub used: Option<Nanos>,
    /// Throttling by the cap. `None` if the machine does not count it, for example without a cap.
    pub throttled: Option<Throttled>,
}

/// Throttling by a cap since the cap was set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Throttled {
    /// Time for which the cap kept the holder from CPUs: summed over its threads in the simulator, over CPUs on Linux. It may exceed
    /// the elapsed time.
    pub time: Nanos,
    /// Periods in which the holder was throttled.
    pub periods: u64,
    /// Periods in which it was runnable.
    pub of: u64,
    /// The length of a period. The cap holds over a period; usage may exceed it by at most one period.
    pub period: Nanos,
}

/// The fraction of throttled periods from which on throttling is reported.
const WORTH_A_WORD: f64 = 0.10;

impl Controlled {
    /// Throttling since an earlier sample. `None` if it is not counted, or if the holder was re-created in between.
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

    /// CPU time used since an earlier sample, if known.
    #[must_use]
    pub fn used_since(&self, before: &Controlled) -> Option<Nanos> {
        Some(Nanos(self.used?.0.checked_sub(before.used?.0)?))
    }

    /// `zone web used up its cap of 50 % of one CPU in 10 of 10 periods`, if it was throttled often since an earlier sample.
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

/// The mechanism that enforces a control of a holder, and its precision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enforced {
    /// The mechanism, in the user's terms: `class FSS`, `cpu.max of /system.slice`, `CPUQuota= of nginx.service`.
    pub by: String,
    /// Whether exactly this value is enforced. Otherwise it is rounded or mapped, as [`Enforced::note`] says.
    pub exact: bool,
    /// A note for the user: `1 share is a weight of 100`, `takes effect in class FSS only`.
    pub note: Option<String>,
}

/// The outcome of a change of a control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recontrolled {
    /// The holder.
    pub holder: ControlHolder,
    /// The former value.
    pub from: ControlSetting,
    /// The new value. For a deleted control the value before it was first set.
    pub to: ControlSetting,
}

/// The facet.
pub trait Controls {
    /// The mechanism of controls here, in one line: `simulated: class FSS and caps as on Solaris`.
    fn made_by(&self) -> String;

    /// Whether a control takes effect here. If it does not, it cannot be set.
    ///
    /// # Errors
    /// [`Absent`] with a remedy.
    fn live(&self, control: Control) -> Result<(), Absent>;

    /// Every project and zone, and the processes with a control of their own: projects, zones, processes, each ascending.
    ///
    /// # Errors
    /// [`Refusal`] if the machine cannot be read.
    fn list(&self) -> Result<Vec<Controlled>, Refusal>;

    /// One holder.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such project, zone or process.
    fn controlled(&self, holder: &ControlHolder) -> Result<Controlled, Refusal>;

    /// The number of a project or a zone, if the machine itself numbers them. `None` if it has names only, or the holder does not exist.
    fn number(&self, holder: &ControlHolder) -> Option<u64> {
        let _ = holder;
        None
    }

    /// The holders whose controls apply to a process: itself, its project and its zone, if any.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such process.
    fn holders_of(&self, pid: Pid) -> Result<Vec<ControlHolder>, Refusal>;

    /// The holders that limit the CPU time of a process: itself and the enclosing groups that have a cap, outermost first.
    ///
    /// # Errors
    /// [`Refusal`]: there is no such process.
    fn caps_of(&self, pid: Pid) -> Result<Vec<Controlled>, Refusal> {
        let all = self.holders_of(pid)?.into_iter().rev().map(|holder| self.controlled(&holder));
        Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().filter(|one| one.cap.is_some()).collect())
    }

    /// The mechanism that enforces, or would enforce, a control of a holder.
    ///
    /// # Errors
    /// [`Refusal`]: no such holder, one that cannot have the control here.
    fn enforced(&self, holder: &ControlHolder, control: Control) -> Result<Enforced, Refusal>;

    /// Prepares to set a control, or with `None` in `to` to delete it, which restores the value before it was first set. Deleting an unset control
    /// succeeds. Notes report why the value does not take effect exactly.
    ///
    /// # Errors
    /// [`Refusal`]: no such holder, a part of the kernel, no permission, a holder that another manager owns, a value that is not possible here.
    fn prepare_set(
        &self,
        holder: &ControlHolder,
        to: ControlSetting,
    ) -> Result<Change<Recontrolled>, Refusal>;
}
