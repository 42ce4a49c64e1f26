//! Objectives of the system and of sets, with their importance (poold(8)).

use super::ElementKind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The importance of an objective relative to others.
pub type Importance = u32;

crate::words! {
    /// Whether a set should have CPUs that are close to each other.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Locality {
        /// Close to each other.
        Tight = "tight",
        /// Spread out.
        Loose = "loose",
        /// Irrelevant.
        None = "none",
    }
}

crate::words! {
    /// The kind of a bound for utilization.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Bound {
        /// `<`: at most.
        Below = "<",
        /// `>`: at least.
        Above = ">",
        /// `~`: about.
        Near = "~",
    }
}

/// An objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// Of the system: CPUs in proportion to the consumption of sets.
    WtLoad,
    /// Of a set.
    Locality(Locality),
    /// Of a set: utilization of its CPUs in percent, 0 to 100.
    Utilization(Bound, u8),
}

/// An objective with its importance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weighted {
    /// The importance; 1 by default.
    pub importance: Importance,
    /// The objective.
    pub objective: Objective,
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

/// The objectives of an element: the text, and the result of parsing it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Objectives {
    /// The original text.
    pub text: String,
    /// The valid objectives, in order.
    pub hold: Vec<Weighted>,
    /// Warnings about ignored expressions, in order.
    pub warnings: Vec<Warning>,
}

impl Objectives {
    /// The default objective of the system.
    #[must_use]
    pub fn wt_load() -> Self {
        let weighted = Weighted { importance: 1, objective: Objective::WtLoad };
        Objectives { text: weighted.to_string(), hold: vec![weighted], warnings: Vec::new() }
    }
}

/// A warning about an ignored expression. Displays as the warning of Solaris.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The column at which it begins, in bytes from 1.
    pub column: usize,
    /// The expression, without surrounding blanks.
    pub text: String,
    /// The reason.
    pub what: Complaint,
}

/// The reason why an expression is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Complaint {
    /// It contradicts this earlier objective.
    Contradictory(Objective),
    /// It is a duplicate of an earlier one.
    Duplicate,
    /// The part after its name, or the importance before it, is invalid.
    Expression,
    /// Elements of this kind have no objective with that name.
    Name(ElementKind),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.what {
            Complaint::Contradictory(_) => f.write_str("contradictory objectives: ")?,
            Complaint::Duplicate => f.write_str("duplicate objective: ")?,
            Complaint::Expression => f.write_str("unrecognized expression: ")?,
            Complaint::Name(kind) => write!(f, "unrecognized objective name for {kind}: ")?,
        }
        f.write_str(&self.text)
    }
}

impl Warning {
    /// A remedy for the user.
    #[must_use]
    pub fn hint(&self) -> String {
        match self.what {
            Complaint::Contradictory(other) => {
                format!("`{other}` stands before it and is kept; both cannot hold")
            }
            Complaint::Duplicate => "it was said before; its importance is the first one".to_owned(),
            Complaint::Expression => format!(
                "an objective is written {}, a number and a colon before it say how much it counts (3: …)",
                forms(self.name_kind())
            ),
            Complaint::Name(kind @ (ElementKind::System | ElementKind::Pset)) => {
                format!("the objectives of a {kind} are {}", forms(kind))
            }
            Complaint::Name(kind) => format!("a {kind} has no objectives; the system and sets have"),
        }
    }

    /// The kind of elements that have an objective with the name in the text.
    fn name_kind(&self) -> ElementKind {
        if self.text.contains("wt-load") { ElementKind::System } else { ElementKind::Pset }
    }
}

fn forms(kind: ElementKind) -> &'static str {
    match kind {
        ElementKind::System => "wt-load",
        _ => "locality tight|loose|none or utilization <|>|~ 0 to 100",
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
