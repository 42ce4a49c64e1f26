//! Checks of properties and relations between elements, after reading a file and before writing one.

use super::Fault;
use super::schema::{attribute_of, attributes, tag};
use super::values::expectation;
use crate::pools::properties::rules;
use millpond_model::CPU_MAX;
use millpond_model::pools::{
    ElementKind, PropValue, Properties, ValueType, is_element_name, is_property_name,
};
use std::collections::{HashMap, HashSet};

/// A violation.
#[derive(Debug)]
pub(super) struct Broken {
    /// The index of the element.
    pub(super) element: usize,
    /// The property; `None` for the element as a whole.
    pub(super) property: Option<String>,
    /// The error.
    pub(super) what: Fault,
}

/// Checks elements, given by their properties. A reference may name several elements.
///
/// # Errors
/// The first violation.
pub(super) fn check(elements: &[(ElementKind, Properties)]) -> Result<(), Broken> {
    let mut seen = Seen::default();
    for (element, (kind, props)) in elements.iter().enumerate() {
        let broken = |(property, what): Wrong| Broken { element, property, what };
        values(*kind, props).map_err(broken)?;
        known(*kind, props).map_err(broken)?;
        seen.add(*kind, props).map_err(broken)?;
    }
    for (element, (kind, props)) in elements.iter().enumerate() {
        if *kind != ElementKind::Pool {
            continue;
        }
        let what = seen.reference(props.string("pool.res").unwrap_or_default());
        what.map_err(|what| Broken { element, property: Some("pool.res".to_owned()), what })?;
    }
    Ok(())
}

type Wrong = (Option<String>, Fault);

/// Checks each property by itself: a file can represent its name and its value.
fn values(kind: ElementKind, props: &Properties) -> Result<(), Wrong> {
    for (name, value) in props.iter() {
        let wrong = |what| Err((Some(name.to_owned()), what));
        let is_token = is_property_name(name) && !name.contains(',');
        if !is_token && attribute_of(kind, name).is_none() {
            return wrong(Fault::PropertyName(name.to_owned()));
        }
        match value {
            PropValue::String(text) => {
                if let Some(character) = text.chars().find(|c| !is_xml(*c)) {
                    return wrong(Fault::Character { property: name.to_owned(), character });
                }
            }
            PropValue::Float(value) if !value.is_finite() => {
                let expected = expectation(ValueType::Float);
                return wrong(Fault::Value { property: name.to_owned(), text: value.to_string(), expected });
            }
            _ => {}
        }
    }
    Ok(())
}

/// Checks known properties: required ones exist, with the right types and valid values.
fn known(kind: ElementKind, props: &Properties) -> Result<(), Wrong> {
    if let Some(missing) = attributes(kind).iter().find(|a| props.get(a.property).is_none()) {
        return Err((None, Fault::Missing { attribute: missing.name, element: tag(kind) }));
    }
    for rule in rules(kind) {
        let Some(value) = props.get(rule.name) else { continue };
        let wrong = |what| Err((Some(rule.name.to_owned()), what));
        if value.value_type() != rule.value_type {
            let (expected, found) = (rule.value_type, value.value_type());
            return wrong(Fault::Type { property: rule.name, expected, found });
        }
        if let Some(expected) = unfit(kind, rule.name, value) {
            let text = match value {
                PropValue::Int(value) => value.to_string(),
                PropValue::String(text) => text.clone(),
                _ => String::new(),
            };
            return wrong(Fault::Value { property: rule.name.to_owned(), text, expected });
        }
    }
    if let (Some(min), Some(max)) = (props.uint("pset.min"), props.uint("pset.max"))
        && min > max
    {
        return Err((Some("pset.min".to_owned()), Fault::MinAboveMax { min, max }));
    }
    Ok(())
}

/// The expected value of a known property, if the given one is invalid.
fn unfit(kind: ElementKind, name: &str, value: &PropValue) -> Option<&'static str> {
    let (fits, expected) = match (name, value) {
        ("system.name" | "pool.name" | "pset.name", PropValue::String(text)) => {
            (is_element_name(text), "a letter, then letters, digits and ,._-")
        }
        ("type", PropValue::String(text)) => match kind {
            ElementKind::Cpu => (text == "cpu", "cpu; there are no other components"),
            _ => (text == "pset", "pset; there are no other resources"),
        },
        ("system.version", PropValue::Int(version)) => (*version == 1, "1; there is no other version"),
        ("cpu.sys_id", PropValue::Int(id)) => {
            ((0..=i64::from(CPU_MAX)).contains(id), "the number of a processor, 0 to 1048576")
        }
        (name, PropValue::String(text)) if name.ends_with(".ref_id") => {
            (is_xml_name(text), "a letter or _, then letters, digits, dots, - and _")
        }
        _ => (true, ""),
    };
    (!fits).then_some(expected)
}

/// Whether XML allows a character.
fn is_xml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// Whether a text can be an ID. XML allows some more letters, which no file uses.
fn is_xml_name(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    first && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// Names and keys of earlier elements, which later elements must not repeat.
#[derive(Default)]
struct Seen {
    names: HashSet<(ElementKind, String)>,
    refs: HashMap<String, ElementKind>,
    cpus: HashSet<i64>,
    defaults: HashSet<ElementKind>,
}

impl Seen {
    fn add(&mut self, kind: ElementKind, props: &Properties) -> Result<(), Wrong> {
        let text = |what: &str| {
            let name = format!("{kind}.{what}");
            let value = props.string(&name).unwrap_or_default().to_owned();
            (Some(name), value)
        };
        let (at, name) = text("name");
        if kind != ElementKind::Cpu && !self.names.insert((kind, name.clone())) {
            return Err((at, Fault::SameName { kind, name }));
        }
        if let Some(id) = props.int("cpu.sys_id").filter(|_| kind == ElementKind::Cpu)
            && !self.cpus.insert(id)
        {
            return Err((Some("cpu.sys_id".to_owned()), Fault::SameCpu(id)));
        }
        let (at, ref_id) = text("ref_id");
        if self.refs.insert(ref_id.clone(), kind).is_some() {
            return Err((at, Fault::SameRef(ref_id)));
        }
        let default = format!("{kind}.default");
        let is_default =
            matches!(kind, ElementKind::Pool | ElementKind::Pset) && props.boolean(&default) == Some(true);
        if is_default && !self.defaults.insert(kind) {
            return Err((Some(default), Fault::SecondDefault(kind)));
        }
        Ok(())
    }

    /// Whether all elements that a pool refers to exist, at least one of them a set.
    fn reference(&self, ids: &str) -> Result<(), Fault> {
        let mut has_set = false;
        for id in ids.split_whitespace() {
            match self.refs.get(id) {
                None => return Err(Fault::Dangling(id.to_owned())),
                Some(kind) => has_set |= *kind == ElementKind::Pset,
            }
        }
        if has_set { Ok(()) } else { Err(Fault::NoSet) }
    }
}
