//! Which properties elements have, of which type, and what may be done to them (reference §7.3).

use super::ValueType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What sort of element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElementKind {
    /// The whole.
    System,
    /// A pool.
    Pool,
    /// A processor set.
    Pset,
    /// A processor.
    Cpu,
}

impl ElementKind {
    /// The word for it, which also begins the names of its properties.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ElementKind::System => "system",
            ElementKind::Pool => "pool",
            ElementKind::Pset => "pset",
            ElementKind::Cpu => "cpu",
        }
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// What is known of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its whole name (`pset.min`).
    pub name: &'static str,
    /// Its type.
    pub value_type: ValueType,
    /// Users may set it.
    pub writable: bool,
    /// It may be removed.
    pub optional: bool,
    /// Listings leave it out.
    pub hidden: bool,
    /// A file keeps it as an attribute of its element, and not as an element of its own (reference §9.3).
    pub attribute: bool,
}

const fn rule_of(name: &'static str, value_type: ValueType, flags: &str) -> Rule {
    let flags = flags.as_bytes();
    let (mut writable, mut optional, mut hidden, mut attribute) = (false, false, false, false);
    let mut at = 0;
    while at < flags.len() {
        match flags[at] {
            b'W' => writable = true,
            b'O' => optional = true,
            b'H' => hidden = true,
            b'A' => attribute = true,
            _ => {}
        }
        at += 1;
    }
    Rule { name, value_type, writable, optional, hidden, attribute }
}

// Flags: W writable, O optional, H hidden, A an attribute in files.
const SYSTEM: [Rule; 11] = [
    rule_of("system.name", ValueType::String, "WHA"),
    rule_of("system.ref_id", ValueType::String, "HA"),
    rule_of("system.comment", ValueType::String, "WA"),
    rule_of("system.version", ValueType::Int, "A"),
    rule_of("system.bind-default", ValueType::Boolean, "WA"),
    rule_of("system.allocate-method", ValueType::String, "WO"),
    rule_of("system.poold.log-level", ValueType::String, "WO"),
    rule_of("system.poold.log-location", ValueType::String, "WO"),
    rule_of("system.poold.monitor-interval", ValueType::Uint, "WO"),
    rule_of("system.poold.history-file", ValueType::String, "WO"),
    rule_of("system.poold.objectives", ValueType::String, "WO"),
];

const POOL: [Rule; 10] = [
    rule_of("pool.sys_id", ValueType::Int, ""),
    rule_of("pool.name", ValueType::String, "WHA"),
    rule_of("pool.res", ValueType::String, "HA"),
    rule_of("pool.ref_id", ValueType::String, "HA"),
    rule_of("pool.active", ValueType::Boolean, "WA"),
    rule_of("pool.default", ValueType::Boolean, "A"),
    rule_of("pool.scheduler", ValueType::String, "WO"),
    rule_of("pool.importance", ValueType::Int, "WA"),
    rule_of("pool.comment", ValueType::String, "WA"),
    rule_of("pool.temporary", ValueType::Boolean, ""),
];

const PSET: [Rule; 13] = [
    rule_of("type", ValueType::String, "HA"),
    rule_of("pset.sys_id", ValueType::Int, "A"),
    rule_of("pset.name", ValueType::String, "WHA"),
    rule_of("pset.ref_id", ValueType::String, "HA"),
    rule_of("pset.default", ValueType::Boolean, "A"),
    rule_of("pset.min", ValueType::Uint, "WA"),
    rule_of("pset.max", ValueType::Uint, "WA"),
    rule_of("pset.units", ValueType::String, "WA"),
    rule_of("pset.load", ValueType::Uint, ""),
    rule_of("pset.size", ValueType::Uint, ""),
    rule_of("pset.comment", ValueType::String, "WA"),
    rule_of("pset.poold.objectives", ValueType::String, "WO"),
    rule_of("pset.temporary", ValueType::Boolean, ""),
];

const CPU: [Rule; 6] = [
    rule_of("type", ValueType::String, "HA"),
    rule_of("cpu.sys_id", ValueType::Int, "A"),
    rule_of("cpu.ref_id", ValueType::String, "HA"),
    rule_of("cpu.comment", ValueType::String, "WA"),
    rule_of("cpu.status", ValueType::String, "W"),
    rule_of("cpu.pinned", ValueType::Boolean, "WO"),
];

/// Every known property of elements of a kind, in the order of listings.
#[must_use]
pub fn rules(kind: ElementKind) -> &'static [Rule] {
    match kind {
        ElementKind::System => &SYSTEM,
        ElementKind::Pool => &POOL,
        ElementKind::Pset => &PSET,
        ElementKind::Cpu => &CPU,
    }
}

/// What is known of one property; `None` for one that users made up.
#[must_use]
pub fn rule(kind: ElementKind, name: &str) -> Option<&'static Rule> {
    rules(kind).iter().find(|r| r.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_the_kind_of_their_element() {
        for kind in [ElementKind::System, ElementKind::Pool, ElementKind::Pset, ElementKind::Cpu] {
            for rule in rules(kind) {
                let fits = rule.name == "type" || rule.name.starts_with(&format!("{kind}."));
                assert!(fits, "{}", rule.name);
                assert!(rule.writable || !rule.optional, "{} could be removed and not come back", rule.name);
            }
        }
    }
}
