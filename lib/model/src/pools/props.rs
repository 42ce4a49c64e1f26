//! The properties of an element.

use super::{ElementKind, PropValue, rules};
use serde::{Deserialize, Serialize};

/// Properties by name: known ones in the order of the table, then those that users made up, in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Props {
    kind: ElementKind,
    values: Vec<(String, PropValue)>,
}

impl Props {
    /// None yet.
    #[must_use]
    pub fn new(kind: ElementKind) -> Self {
        Props { kind, values: Vec::new() }
    }

    /// The kind of element they are of.
    #[must_use]
    pub fn kind(&self) -> ElementKind {
        self.kind
    }

    /// The same, with one more.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<PropValue>) -> Self {
        self.set(name, value);
        self
    }

    /// A value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PropValue> {
        self.values.iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// A text; `None` also where the value is of another type.
    #[must_use]
    pub fn string(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(PropValue::String(text)) => Some(text),
            _ => None,
        }
    }

    /// A number without a sign; `None` also where the value is of another type.
    #[must_use]
    pub fn uint(&self, name: &str) -> Option<u64> {
        match self.get(name) {
            Some(PropValue::Uint(value)) => Some(*value),
            _ => None,
        }
    }

    /// A number with a sign; `None` also where the value is of another type.
    #[must_use]
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name) {
            Some(PropValue::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// True or false; `None` also where the value is of another type.
    #[must_use]
    pub fn boolean(&self, name: &str) -> Option<bool> {
        match self.get(name) {
            Some(PropValue::Boolean(value)) => Some(*value),
            _ => None,
        }
    }

    /// Sets a value, or adds it at its place.
    pub fn set(&mut self, name: &str, value: impl Into<PropValue>) {
        let value = value.into();
        if let Some((_, old)) = self.values.iter_mut().find(|(n, _)| n == name) {
            *old = value;
            return;
        }
        let rank = rank(self.kind, name);
        let at = self.values.partition_point(|(n, _)| self::rank(self.kind, n) <= rank);
        self.values.insert(at, (name.to_owned(), value));
    }

    /// Removes a value and gives it.
    pub fn remove(&mut self, name: &str) -> Option<PropValue> {
        let at = self.values.iter().position(|(n, _)| n == name)?;
        Some(self.values.remove(at).1)
    }

    /// All of them, in the order of listings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PropValue)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value))
    }
}

fn rank(kind: ElementKind, name: &str) -> usize {
    rules(kind).iter().position(|r| r.name == name).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_properties_come_in_the_order_of_the_table_and_others_after_them() {
        let mut props = Props::new(ElementKind::Pset)
            .with("zebra", true)
            .with("pset.max", 4u64)
            .with("ape", -1i64)
            .with("pset.min", 1u64)
            .with("pset.sys_id", 1i64);
        let names = |p: &Props| p.iter().map(|(n, _)| n.to_owned()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&props), "pset.sys_id pset.min pset.max zebra ape");
        props.set("pset.min", 2u64);
        assert_eq!(props.uint("pset.min"), Some(2));
        assert_eq!(props.int("pset.min"), None);
        assert_eq!(props.remove("zebra"), Some(PropValue::Boolean(true)));
        assert_eq!(props.remove("zebra"), None);
        assert_eq!(names(&props), "pset.sys_id pset.min pset.max ape");
    }
}
