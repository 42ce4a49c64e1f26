//! What is asked of a configuration: objectives with their importance (reference §13.2).

use serde::{Deserialize, Serialize};
use std::fmt;

/// How much an objective counts beside others.
pub type Importance = u32;

/// Whether a set should keep to processors that are near each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Locality {
    /// Yes.
    Tight,
    /// It should spread out.
    Loose,
    /// It does not matter.
    None,
}

/// On which side of a bound utilization should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// `<`: at most.
    Below,
    /// `>`: at least.
    Above,
    /// `~`: about.
    Near,
}

/// An objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Of the system: processors in proportion to what sets consume.
    WtLoad,
    /// Of a set.
    Locality(Locality),
    /// Of a set: percent of its processors' time, 0 to 100.
    Utilization(Bound, u8),
}

/// An objective and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weighted {
    /// 1 where nothing is said.
    pub importance: Importance,
    /// What.
    pub objective: Objective,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Bound::Below => "<",
            Bound::Above => ">",
            Bound::Near => "~",
        })
    }
}

impl fmt::Display for Locality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Locality::Tight => "tight",
            Locality::Loose => "loose",
            Locality::None => "none",
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objective::WtLoad => f.write_str("wt-load"),
            Objective::Locality(locality) => write!(f, "locality {locality}"),
            Objective::Utilization(bound, percent) => write!(f, "utilization {bound} {percent}"),
        }
    }
}

/// `3: utilization < 80`; an importance of 1 is not written.
impl fmt::Display for Weighted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.importance != 1 {
            write!(f, "{}: ", self.importance)?;
        }
        self.objective.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_reads_as_it_is_written() {
        let near = Objective::Utilization(Bound::Near, 50);
        assert_eq!(Weighted { importance: 3, objective: near }.to_string(), "3: utilization ~ 50");
        let tight = Objective::Locality(Locality::Tight);
        assert_eq!(Weighted { importance: 1, objective: tight }.to_string(), "locality tight");
        assert_eq!(Weighted { importance: 0, objective: Objective::WtLoad }.to_string(), "0: wt-load");
    }
}
