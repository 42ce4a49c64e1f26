//! The names of properties, by libpool(3LIB), and their fields in elements.
//!
//! Solaris shows and sets an element by property names (`pset.min`) with values of five types. [`rules`] lists the known properties of
//! each kind of element in the order of listings. [`Element`] reads and sets the fields by these names; every other name is a
//! user-defined property.

use super::objectives;
use millpond_model::pools::{
    CpuNode, ElementKind, Objectives, PoolNode, PropValue, Properties, PsetNode, SystemNode, ValueType,
    is_hidden_name,
};
use millpond_model::{CpuId, PoolId, PsetId, State};

/// The counter for keys of elements in a file, a property of the system.
pub const NEXT_ID: &str = "system._next_id";

/// The property of a set for memory from the nodes of its CPUs; if it is false, from all nodes.
pub const LOCAL_MEMORY: &str = "pset.lgrp-mem-aware";

/// The property of a CPU that is taken last in a transfer.
const REQUESTED: &str = "cpu.requested";

/// Whether memory of a set comes only from the nodes of its CPUs, if the property is set.
#[must_use]
pub fn local_memory(set: &PsetNode) -> Option<bool> {
    set.user.boolean(LOCAL_MEMORY)
}

/// Whether a transfer takes a CPU last.
#[must_use]
pub fn is_requested(cpu: &CpuNode) -> bool {
    cpu.user.boolean(REQUESTED) == Some(true)
}

/// The rules of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Its full name (`pset.min`).
    pub name: &'static str,
    /// Its type.
    pub value_type: ValueType,
    /// Whether users may set it.
    pub writable: bool,
    /// Whether it may be removed.
    pub optional: bool,
    /// Whether listings omit it.
    pub hidden: bool,
    /// Whether a file has it as an attribute of its element instead of a `property` element.
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

/// Access to an element by the names of its properties.
pub trait Element {
    /// The kind of element.
    fn kind(&self) -> ElementKind;

    /// The value of a property; `None` if the element does not have it.
    fn property(&self, name: &str) -> Option<PropValue>;

    /// Sets a property; `None` removes an optional one. A value of a wrong type for a known property, and a value of a
    /// derived property, have no effect.
    fn set_property(&mut self, name: &str, value: Option<PropValue>);

    /// All properties: known ones in the order of [`rules`], then user-defined ones.
    fn properties(&self) -> Properties;
}

/// A known property and its field.
struct Known<E> {
    rule: Rule,
    get: fn(&E) -> Option<PropValue>,
    set: fn(&mut E, Option<PropValue>),
}

/// A type of element with its known properties.
trait Table: Sized + 'static {
    const KIND: ElementKind;
    const KNOWN: &'static [Known<Self>];
    fn user(&self) -> &Properties;
    fn user_mut(&mut self) -> &mut Properties;
}

impl<E: Table> Element for E {
    fn kind(&self) -> ElementKind {
        E::KIND
    }

    fn property(&self, name: &str) -> Option<PropValue> {
        match E::KNOWN.iter().find(|known| known.rule.name == name) {
            Some(known) => (known.get)(self),
            None => self.user().get(name).cloned(),
        }
    }

    fn set_property(&mut self, name: &str, value: Option<PropValue>) {
        match (E::KNOWN.iter().find(|known| known.rule.name == name), value) {
            (Some(known), value) => (known.set)(self, value),
            (None, Some(value)) => self.user_mut().set(name, value),
            (None, None) => {
                self.user_mut().remove(name);
            }
        }
    }

    fn properties(&self) -> Properties {
        let mut all = Properties::default();
        for known in E::KNOWN {
            if let Some(value) = (known.get)(self) {
                all.set(known.rule.name, value);
            }
        }
        self.user().iter().for_each(|(name, value)| all.set(name, value.clone()));
        all
    }
}

macro_rules! known {
    // The field has the type of the property.
    ($name:literal, $type:ident, $flags:literal, $field:ident) => {
        known!(
            $name,
            $type,
            $flags,
            |e| Some(e.$field.clone()),
            |e, value| {
                e.$field = value;
            },
            |_| {}
        )
    };
    // The field is an option of that type.
    ($name:literal, $type:ident, $flags:literal, option $field:ident) => {
        known!($name, $type, $flags, |e| e.$field.clone(), |e, value| e.$field = Some(value), |e| {
            e.$field = None;
        })
    };
    // The field is written as text.
    ($name:literal, $flags:literal, text $field:ident) => {
        known!(
            $name,
            String,
            $flags,
            |e| Some(e.$field.to_string()),
            |e, value| {
                e.$field = value.as_str().into();
            },
            |_| {}
        )
    };
    // The field is an option of a type that is written as text.
    ($name:literal, $flags:literal, option text $field:ident) => {
        known!(
            $name,
            String,
            $flags,
            |e| e.$field.as_ref().map(ToString::to_string),
            |e, value| {
                e.$field = Some(value.as_str().into());
            },
            |e| e.$field = None
        )
    };
    // The value is derived.
    ($name:literal, $type:ident, $flags:literal, is $get:expr) => {
        known!($name, $type, $flags, |e| Some($get(e)), |_, _| {}, |_| {})
    };
    ($name:literal, $type:ident, $flags:literal, |$e:ident| $get:expr, |$s:pat_param, $value:pat_param| $set:expr, |$c:pat_param| $clear:expr) => {
        Known {
            rule: rule_of($name, ValueType::$type, $flags),
            get: |$e| $get.map(PropValue::$type),
            set: |element, value| match value {
                Some(PropValue::$type(value)) => {
                    let ($s, $value) = (element, value);
                    $set;
                }
                Some(_) => {}
                None => {
                    let $c = element;
                    $clear;
                }
            },
        }
    };
}

macro_rules! user_properties {
    () => {
        fn user(&self) -> &Properties {
            &self.user
        }

        fn user_mut(&mut self) -> &mut Properties {
            &mut self.user
        }
    };
}

// Flags: W writable, O optional, H hidden, A an attribute in files.
impl Table for SystemNode {
    const KIND: ElementKind = ElementKind::System;
    const KNOWN: &'static [Known<Self>] = &[
        known!("system.name", String, "WHA", name),
        known!("system.ref_id", "HA", text ref_id),
        known!("system.comment", String, "WA", comment),
        known!("system.version", Int, "A", is |_: &Self| 1),
        known!("system.bind-default", Boolean, "WA", bind_default),
        known!("system.allocate-method", "WO", option text allocate_method),
        known!("system.poold.log-level", String, "WO", option log_level),
        known!("system.poold.log-location", String, "WO", option log_location),
        known!("system.poold.monitor-interval", Uint, "WO", option monitor_interval),
        known!("system.poold.history-file", String, "WO", option history_file),
        known!(
            "system.poold.objectives",
            String,
            "WO",
            |e| text_of(&e.objectives),
            |e, text| {
                e.objectives = Some(objectives::parse(&text, ElementKind::System));
            },
            |e| e.objectives = None
        ),
    ];

    user_properties!();
}

impl Table for PoolNode {
    const KIND: ElementKind = ElementKind::Pool;
    const KNOWN: &'static [Known<Self>] = &[
        known!(
            "pool.sys_id",
            Int,
            "",
            |e| e.id.map(|id| i64::from(id.0)),
            |e, id| {
                e.id = u32::try_from(id).ok().map(PoolId);
            },
            |e| e.id = None
        ),
        known!("pool.name", String, "WHA", name),
        known!("pool.res", "HA", text pset),
        known!("pool.ref_id", "HA", text ref_id),
        known!("pool.active", Boolean, "WA", active),
        known!("pool.default", Boolean, "A", is_default),
        known!("pool.scheduler", "WO", option text scheduler),
        known!("pool.importance", Int, "WA", importance),
        known!("pool.comment", String, "WA", comment),
        known!("pool.temporary", Boolean, "", option temporary),
    ];

    user_properties!();
}

impl Table for PsetNode {
    const KIND: ElementKind = ElementKind::Pset;
    const KNOWN: &'static [Known<Self>] = &[
        known!("type", String, "HA", is |_: &Self| "pset".to_owned()),
        known!(
            "pset.sys_id",
            Int,
            "A",
            |e| Some(pset_number(e.id)),
            |e, number| {
                e.id = match number {
                    -1 => Some(PsetId::DEFAULT),
                    number => u32::try_from(number).ok().map(PsetId),
                };
            },
            |_| {}
        ),
        known!("pset.name", String, "WHA", name),
        known!("pset.ref_id", "HA", text ref_id),
        known!("pset.default", Boolean, "A", is_default),
        known!("pset.min", Uint, "WA", min),
        known!("pset.max", Uint, "WA", max),
        known!("pset.units", String, "WA", units),
        known!("pset.load", Uint, "", option load),
        known!("pset.size", Uint, "", is PsetNode::size),
        known!("pset.comment", String, "WA", comment),
        known!(
            "pset.poold.objectives",
            String,
            "WO",
            |e| text_of(&e.objectives),
            |e, text| {
                e.objectives = Some(objectives::parse(&text, ElementKind::Pset));
            },
            |e| e.objectives = None
        ),
        known!("pset.temporary", Boolean, "", option temporary),
    ];

    user_properties!();
}

impl Table for CpuNode {
    const KIND: ElementKind = ElementKind::Cpu;
    const KNOWN: &'static [Known<Self>] = &[
        known!("type", String, "HA", is |_: &Self| "cpu".to_owned()),
        known!(
            "cpu.sys_id",
            Int,
            "A",
            |e| Some(i64::from(e.id.0)),
            |e, number| {
                e.id = CpuId(u32::try_from(number).unwrap_or(e.id.0));
            },
            |_| {}
        ),
        known!("cpu.ref_id", "HA", text ref_id),
        known!("cpu.comment", String, "WA", comment),
        known!("cpu.status", "W", option text status),
        known!("cpu.pinned", Boolean, "WO", option pinned),
    ];

    user_properties!();
}

fn text_of(objectives: &Option<Objectives>) -> Option<String> {
    objectives.as_ref().map(|objectives| objectives.text.clone())
}

/// The number of a set on Solaris: -1 for the default set, -2 for a set that is not on the machine.
#[must_use]
pub fn pset_number(id: Option<PsetId>) -> i64 {
    match id {
        None => -2,
        Some(id) if id.is_default() => -1,
        Some(id) => i64::from(id.0),
    }
}

/// Every known property of elements of a kind, in the order of listings.
#[must_use]
pub fn rules(kind: ElementKind) -> Vec<&'static Rule> {
    fn all<E: Table>() -> Vec<&'static Rule> {
        E::KNOWN.iter().map(|known| &known.rule).collect()
    }
    match kind {
        ElementKind::System => all::<SystemNode>(),
        ElementKind::Pool => all::<PoolNode>(),
        ElementKind::Pset => all::<PsetNode>(),
        ElementKind::Cpu => all::<CpuNode>(),
    }
}

/// The rules of a property; `None` for a user-defined one.
#[must_use]
pub fn rule(kind: ElementKind, name: &str) -> Option<&'static Rule> {
    rules(kind).into_iter().find(|r| r.name == name)
}

/// The property with the name of an element. Elements of the kind `cpu` have none.
#[must_use]
pub fn name_property(kind: ElementKind) -> &'static str {
    match kind {
        ElementKind::System => "system.name",
        ElementKind::Pool => "pool.name",
        ElementKind::Pset => "pset.name",
        ElementKind::Cpu => "cpu.name",
    }
}

/// The restriction of the values of a known property beyond its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// No restriction.
    Anything,
    /// The name of an element.
    Name,
    /// The minimum number of CPUs of a set.
    Minimum,
    /// The maximum number of CPUs of a set.
    Maximum,
    /// Only `true`.
    True,
    /// The name of a scheduling class.
    Class,
    /// The words of an [`AllocateMethod`](millpond_model::pools::AllocateMethod).
    AllocateMethod,
    /// A log level of poold.
    LogLevel,
    /// The log destination of poold.
    LogLocation,
    /// A measuring interval.
    Interval,
    /// The state of a CPU.
    Status,
    /// Objectives of poold.
    Objectives,
}

/// The restriction of the values of a known property.
#[must_use]
pub fn takes(name: &str) -> Takes {
    match name {
        "system.name" | "pool.name" | "pset.name" => Takes::Name,
        "pset.min" => Takes::Minimum,
        "pset.max" => Takes::Maximum,
        "pool.active" => Takes::True,
        "pool.scheduler" => Takes::Class,
        "system.allocate-method" => Takes::AllocateMethod,
        "system.poold.log-level" => Takes::LogLevel,
        "system.poold.log-location" => Takes::LogLocation,
        "system.poold.monitor-interval" => Takes::Interval,
        "cpu.status" => Takes::Status,
        "system.poold.objectives" | "pset.poold.objectives" => Takes::Objectives,
        _ => Takes::Anything,
    }
}

/// Whether listings show a property.
#[must_use]
pub fn is_listed(kind: ElementKind, name: &str) -> bool {
    rule(kind, name).map_or(!is_hidden_name(name), |rule| !rule.hidden)
}

/// A CPU without settings, for [`filled`].
pub(crate) fn blank_cpu(id: CpuId) -> CpuNode {
    CpuNode { status: None, ..CpuNode::new(id, State::Unknown) }
}

/// Sets the properties of an element.
pub(crate) fn filled<E: Element>(mut element: E, properties: Properties) -> E {
    for (name, value) in properties.iter() {
        element.set_property(name, Some(value.clone()));
    }
    element
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

    #[test]
    fn known_properties_come_in_the_order_of_the_table_and_others_after_them() {
        let mut cpu = CpuNode::new(CpuId(3), State::OnLine);
        for (name, value) in
            [("zebra", true.into()), ("cpu.pinned", true.into()), ("ape", PropValue::Int(-1))]
        {
            cpu.set_property(name, Some(value));
        }
        let names =
            |c: &CpuNode| c.properties().iter().map(|(n, _)| n.to_owned()).collect::<Vec<_>>().join(" ");
        let known = "type cpu.sys_id cpu.ref_id cpu.comment cpu.status cpu.pinned";
        assert_eq!(names(&cpu), format!("{known} zebra ape"));
        cpu.set_property("cpu.pinned", Some(PropValue::Uint(2)));
        assert_eq!(cpu.property("cpu.pinned"), Some(PropValue::Boolean(true)), "of another type");
        cpu.set_property("cpu.pinned", None);
        cpu.set_property("zebra", None);
        assert_eq!((names(&cpu), cpu.pinned), (format!("{} ape", &known[..known.len() - 11]), None));
    }

    /// Each known property is read back from its own field.
    #[test]
    fn every_property_that_can_be_set_has_its_own_field() {
        fn check<E: Element + Clone>(blank: &E) {
            for rule in rules(blank.kind()).into_iter().filter(|r| r.writable) {
                let value = match rule.value_type {
                    ValueType::Uint => PropValue::Uint(7),
                    ValueType::Int => PropValue::Int(7),
                    ValueType::Boolean => PropValue::Boolean(blank.property(rule.name) != Some(true.into())),
                    _ => PropValue::from("any"),
                };
                let mut one = blank.clone();
                one.set_property(rule.name, Some(value.clone()));
                for other in rules(blank.kind()) {
                    let expected = if other.name == rule.name {
                        Some(value.clone())
                    } else {
                        blank.property(other.name)
                    };
                    assert_eq!(one.property(other.name), expected, "{} after {}", other.name, rule.name);
                }
            }
        }
        check(&SystemNode::default());
        check(&PoolNode::default());
        check(&PsetNode::default());
        check(&CpuNode::new(CpuId(0), State::OnLine));
    }
}
