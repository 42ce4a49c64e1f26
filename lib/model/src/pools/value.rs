//! The values of properties, and their types.

use serde::{Deserialize, Serialize};

crate::words! {
    /// The type of a property.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ValueType {
        /// 64 bits, without a sign.
        Uint = "uint",
        /// 64 bits, with a sign.
        Int = "int",
        /// Double precision.
        Float = "float",
        /// True or false.
        Boolean = "boolean",
        /// Text.
        String = "string",
    }
    else crate::ParseIdError, |text| crate::ParseIdError { text, noun: "type of property" }
}

/// A property's value. Floats are equal when their bits are.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PropValue {
    /// See [`ValueType::Uint`].
    Uint(u64),
    /// See [`ValueType::Int`].
    Int(i64),
    /// See [`ValueType::Float`].
    Float(f64),
    /// See [`ValueType::Boolean`].
    Boolean(bool),
    /// See [`ValueType::String`].
    String(String),
}

impl PropValue {
    /// Its type.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        match self {
            PropValue::Uint(_) => ValueType::Uint,
            PropValue::Int(_) => ValueType::Int,
            PropValue::Float(_) => ValueType::Float,
            PropValue::Boolean(_) => ValueType::Boolean,
            PropValue::String(_) => ValueType::String,
        }
    }
}

impl PartialEq for PropValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (PropValue::Uint(a), PropValue::Uint(b)) => a == b,
            (PropValue::Int(a), PropValue::Int(b)) => a == b,
            (PropValue::Float(a), PropValue::Float(b)) => a.to_bits() == b.to_bits(),
            (PropValue::Boolean(a), PropValue::Boolean(b)) => a == b,
            (PropValue::String(a), PropValue::String(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for PropValue {}

impl From<&str> for PropValue {
    fn from(text: &str) -> Self {
        PropValue::String(text.to_owned())
    }
}

impl From<u64> for PropValue {
    fn from(value: u64) -> Self {
        PropValue::Uint(value)
    }
}

impl From<i64> for PropValue {
    fn from(value: i64) -> Self {
        PropValue::Int(value)
    }
}

impl From<bool> for PropValue {
    fn from(value: bool) -> Self {
        PropValue::Boolean(value)
    }
}
