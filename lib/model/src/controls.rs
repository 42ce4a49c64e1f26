//! CPU shares and CPU caps of a project, a zone or a process.
//!
//! Solaris calls them resource controls: `project.cpu-shares`, `zone.cpu-cap`. `process.cpu-shares` and `process.cpu-cap` are extensions of
//! Millpond.

use crate::Pid;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// CPU shares: while CPUs are contended, holders get CPU time in proportion to their shares. A holder with 0 gets only CPU time that no
/// other holder uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Shares(u32);

/// A CPU cap, in percent of one CPU: 150 is one CPU and a half. At least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CpuCap(u32);

/// An invalid value or name of a control.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// Shares are a whole number in a range.
    #[error("`{0}` is no number of shares (0 to {max})", max = Shares::MAX.get())]
    Shares(String),
    /// A cap is a whole number in a range.
    #[error("`{0}` is no cap (percent of one CPU: 1 to {max})", max = CpuCap::MAX.get())]
    Cap(String),
    /// The name is not that of a control.
    #[error("`{0}` is no resource control (project|zone|process.cpu-shares, project|zone|process.cpu-cap)")]
    Name(String),
}

impl Shares {
    /// The value of a holder without a setting.
    pub const DEFAULT: Shares = Shares(1);
    /// The largest value.
    pub const MAX: Shares = Shares(65_535);

    /// A number of shares.
    ///
    /// # Errors
    /// [`ControlError`] beyond [`Shares::MAX`].
    pub fn new(shares: u32) -> Result<Self, ControlError> {
        let shares = Shares(shares);
        if shares > Shares::MAX { Err(ControlError::Shares(shares.0.to_string())) } else { Ok(shares) }
    }

    /// The number of shares.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl CpuCap {
    /// The largest value: a million CPUs.
    pub const MAX: CpuCap = CpuCap(100_000_000);

    /// A percentage of one CPU.
    ///
    /// # Errors
    /// [`ControlError`] for 0 and beyond [`CpuCap::MAX`].
    pub fn new(percent: u32) -> Result<Self, ControlError> {
        let cap = CpuCap(percent);
        if percent == 0 || cap > CpuCap::MAX { Err(ControlError::Cap(percent.to_string())) } else { Ok(cap) }
    }

    /// The percentage of one CPU.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

crate::words! {
    /// A resource control.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Control {
        /// [`Shares`].
        CpuShares = "cpu-shares",
        /// [`CpuCap`].
        CpuCap = "cpu-cap",
    }
}

/// All controls.
pub const CONTROLS: [Control; 2] = Control::ALL;

crate::words! {
    /// The kind of a holder.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum HolderKind {
        /// A project: on Linux a systemd slice, or a user.
        Project = "project",
        /// A zone: on Linux a systemd unit, a container or another persistent cgroup with a name.
        Zone = "zone",
        /// A process.
        Process = "process",
    }
}

/// An object that has shares and a cap.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlHolder {
    /// A project, by name.
    Project(String),
    /// A zone, by name.
    Zone(String),
    /// A process.
    Process(Pid),
}

/// A control of a holder with its value. `None`: it was never set, or is to be reset to its original value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlSetting {
    /// Shares.
    CpuShares(Option<Shares>),
    /// A cap.
    CpuCap(Option<CpuCap>),
}

impl ControlHolder {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> HolderKind {
        match self {
            ControlHolder::Project(_) => HolderKind::Project,
            ControlHolder::Zone(_) => HolderKind::Zone,
            ControlHolder::Process(_) => HolderKind::Process,
        }
    }
}

impl ControlSetting {
    /// Its control.
    #[must_use]
    pub fn control(self) -> Control {
        match self {
            ControlSetting::CpuShares(_) => Control::CpuShares,
            ControlSetting::CpuCap(_) => Control::CpuCap,
        }
    }

    /// The number, if set: shares, or percent of one CPU.
    #[must_use]
    pub fn value(self) -> Option<u32> {
        match self {
            ControlSetting::CpuShares(shares) => shares.map(Shares::get),
            ControlSetting::CpuCap(cap) => cap.map(CpuCap::get),
        }
    }

    /// A control with this value.
    ///
    /// # Errors
    /// [`ControlError`] if the value is invalid for the control.
    pub fn of(control: Control, value: u32) -> Result<Self, ControlError> {
        Ok(match control {
            Control::CpuShares => ControlSetting::CpuShares(Some(Shares::new(value)?)),
            Control::CpuCap => ControlSetting::CpuCap(Some(CpuCap::new(value)?)),
        })
    }

    /// A control without a value.
    #[must_use]
    pub fn unset(control: Control) -> Self {
        match control {
            Control::CpuShares => ControlSetting::CpuShares(None),
            Control::CpuCap => ControlSetting::CpuCap(None),
        }
    }
}

/// The Solaris name of a control: `project.cpu-shares`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlName {
    /// The kind of holder.
    pub kind: HolderKind,
    /// The control.
    pub control: Control,
}

/// All names, in the order of `prctl`.
pub const CONTROL_NAMES: [ControlName; 6] = {
    const fn name(kind: HolderKind, control: Control) -> ControlName {
        ControlName { kind, control }
    }
    use Control::{CpuCap, CpuShares};
    use HolderKind::{Process, Project, Zone};
    [
        name(Process, CpuCap),
        name(Process, CpuShares),
        name(Project, CpuCap),
        name(Project, CpuShares),
        name(Zone, CpuCap),
        name(Zone, CpuShares),
    ]
};

/// `project web`, `zone db1`, `process 812`.
impl fmt::Display for ControlHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ControlHolder::Project(name) | ControlHolder::Zone(name) => write!(f, "{} {name}", self.kind()),
            ControlHolder::Process(pid) => write!(f, "process {pid}"),
        }
    }
}

impl fmt::Display for ControlName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.kind, self.control)
    }
}

impl FromStr for ControlName {
    type Err = ControlError;

    fn from_str(text: &str) -> Result<Self, ControlError> {
        let found = CONTROL_NAMES.into_iter().find(|name| name.to_string() == text);
        found.ok_or_else(|| ControlError::Name(text.to_owned()))
    }
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for CpuCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

fn digits(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

impl FromStr for Shares {
    type Err = ControlError;

    /// Decimal digits only.
    fn from_str(text: &str) -> Result<Self, ControlError> {
        let shares = digits(text).and_then(|shares| Shares::new(shares).ok());
        shares.ok_or_else(|| ControlError::Shares(text.to_owned()))
    }
}

impl FromStr for CpuCap {
    type Err = ControlError;

    /// Decimal digits only.
    fn from_str(text: &str) -> Result<Self, ControlError> {
        let cap = digits(text).and_then(|percent| CpuCap::new(percent).ok());
        cap.ok_or_else(|| ControlError::Cap(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Shares {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Shares::new(u32::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for CpuCap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CpuCap::new(u32::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Shares and a cap, if set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControlValues {
    /// Shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// A cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<CpuCap>,
}

impl ControlValues {
    /// Whether nothing is set.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == ControlValues::default()
    }

    /// These values; unset ones are taken from `other`.
    #[must_use]
    pub fn over(self, other: ControlValues) -> ControlValues {
        ControlValues { shares: self.shares.or(other.shares), cap: self.cap.or(other.cap) }
    }

    /// One of them.
    #[must_use]
    pub fn setting(&self, control: Control) -> ControlSetting {
        match control {
            Control::CpuShares => ControlSetting::CpuShares(self.shares),
            Control::CpuCap => ControlSetting::CpuCap(self.cap),
        }
    }

    /// Sets one of them.
    pub fn set(&mut self, to: ControlSetting) {
        match to {
            ControlSetting::CpuShares(shares) => self.shares = shares,
            ControlSetting::CpuCap(cap) => self.cap = cap,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_value_in_its_range_survives_text_and_json(shares in 0u32..=65_535, cap in 1u32..=100_000_000) {
            let shares = Shares::new(shares).unwrap();
            prop_assert_eq!(shares.to_string().parse::<Shares>().unwrap(), shares);
            prop_assert_eq!(serde_json::from_str::<Shares>(&serde_json::to_string(&shares).unwrap()).unwrap(), shares);
            let cap = CpuCap::new(cap).unwrap();
            prop_assert_eq!(cap.to_string().parse::<CpuCap>().unwrap(), cap);
            prop_assert_eq!(serde_json::from_str::<CpuCap>(&serde_json::to_string(&cap).unwrap()).unwrap(), cap);
        }
    }

    #[test]
    fn a_value_out_of_its_range_is_refused_with_the_range() {
        let shares = |text: &str| text.parse::<Shares>().unwrap_err().to_string();
        assert_eq!(shares("65536"), "`65536` is no number of shares (0 to 65535)");
        assert_eq!(shares("-1"), "`-1` is no number of shares (0 to 65535)");
        assert_eq!(shares(""), "`` is no number of shares (0 to 65535)");
        let cap = |text: &str| text.parse::<CpuCap>().unwrap_err().to_string();
        assert_eq!(cap("0"), "`0` is no cap (percent of one CPU: 1 to 100000000)");
        assert_eq!(cap("1.5"), "`1.5` is no cap (percent of one CPU: 1 to 100000000)");
        assert!(serde_json::from_str::<Shares>("65536").is_err());
        assert!(serde_json::from_str::<CpuCap>("0").is_err());
    }

    #[test]
    fn controls_have_the_names_of_solaris() {
        for name in CONTROL_NAMES {
            assert_eq!(name.to_string().parse::<ControlName>().unwrap(), name);
        }
        let name: ControlName = "zone.cpu-cap".parse().unwrap();
        assert_eq!((name.kind, name.control), (HolderKind::Zone, Control::CpuCap));
        assert!("task.cpu-shares".parse::<ControlName>().is_err());
    }
}
