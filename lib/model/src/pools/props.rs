//! Properties by name: user-defined ones, and elements as the formats write them.

use super::PropValue;
use serde::{Deserialize, Serialize};

/// Values by name, in insertion order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Properties(Vec<(String, PropValue)>);

impl Properties {
    /// A value.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&PropValue> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value)
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

    /// Sets a value, or appends it.
    pub fn set(&mut self, name: &str, value: impl Into<PropValue>) {
        let value = value.into();
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes a value and returns it.
    pub fn remove(&mut self, name: &str) -> Option<PropValue> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    /// All of them, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PropValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Sorts them by the rank of their names; equal ranks keep their order.
    pub fn sort_by_rank(&mut self, rank: impl Fn(&str) -> usize) {
        self.0.sort_by_key(|(name, _)| rank(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_place_when_they_change() {
        let mut all = Properties::default();
        all.set("zebra", true);
        all.set("ape", -1i64);
        all.set("zebra", 2u64);
        let names = |p: &Properties| p.iter().map(|(n, _)| n.to_owned()).collect::<Vec<_>>().join(" ");
        assert_eq!(names(&all), "zebra ape");
        assert_eq!((all.uint("zebra"), all.int("zebra")), (Some(2), None));
        all.sort_by_rank(|name| usize::from(name != "ape"));
        assert_eq!(names(&all), "ape zebra");
        assert_eq!(all.remove("zebra"), Some(PropValue::Uint(2)));
        assert_eq!(all.remove("zebra"), None);
    }
}
