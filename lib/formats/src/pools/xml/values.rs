//! Values in the form of files.

use super::schema::attributes;
use crate::pools::properties::rule;
use millpond_model::pools::{ElementKind, PropValue, Properties, ValueType};

/// Parses a value of a type. Blanks around numbers are ignored.
pub(super) fn value_of(value_type: ValueType, text: &str) -> Option<PropValue> {
    let word = text.trim_matches(super::prolog::BLANKS);
    Some(match value_type {
        ValueType::Uint => PropValue::Uint(word.parse().ok()?),
        ValueType::Int => PropValue::Int(word.parse().ok()?),
        ValueType::Float => PropValue::Float(word.parse().ok().filter(|value: &f64| value.is_finite())?),
        ValueType::Boolean => PropValue::Boolean(word.parse().ok()?),
        ValueType::String => PropValue::String(text.to_owned()),
    })
}

/// The text of a value. Floats have six decimals as in files of Solaris, and more if six would change the value.
pub(super) fn text_of(value: &PropValue) -> String {
    match value {
        PropValue::Uint(value) => value.to_string(),
        PropValue::Int(value) => value.to_string(),
        PropValue::Float(value) => {
            let short = format!("{value:.6}");
            if short.parse() == Ok(*value) { short } else { value.to_string() }
        }
        PropValue::Boolean(value) => value.to_string(),
        PropValue::String(text) => text.clone(),
    }
}

/// A description of the values of a type.
pub(super) fn expectation(value_type: ValueType) -> &'static str {
    match value_type {
        ValueType::Uint => "a whole number from 0 to 18446744073709551615",
        ValueType::Int => "a whole number from -9223372036854775808 to 9223372036854775807",
        ValueType::Float => "a number",
        ValueType::Boolean => "true or false",
        ValueType::String => "text",
    }
}

/// Adds the default values of missing attributes.
pub(super) fn complete(kind: ElementKind, props: &mut Properties) {
    for attribute in attributes(kind) {
        if props.get(attribute.property).is_some() {
            continue;
        }
        let rule = rule(kind, attribute.property);
        if let Some(value) =
            attribute.default.zip(rule).and_then(|(text, rule)| value_of(rule.value_type, text))
        {
            props.set(attribute.property, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_six_decimals_where_these_are_enough() {
        for (value, text) in [(0.5, "0.500000"), (-3.0, "-3.000000"), (1e-7, "0.0000001"), (0.1, "0.100000")]
        {
            assert_eq!(text_of(&PropValue::Float(value)), text);
            assert_eq!(value_of(ValueType::Float, text), Some(PropValue::Float(value)));
        }
    }

    #[test]
    fn blanks_around_numbers_say_nothing_and_around_text_they_do() {
        assert_eq!(value_of(ValueType::Uint, "\n 2 "), Some(PropValue::Uint(2)));
        assert_eq!(value_of(ValueType::String, " a "), Some(PropValue::from(" a ")));
        assert_eq!(value_of(ValueType::Boolean, "1"), None);
        assert_eq!(value_of(ValueType::Float, "inf"), None);
    }
}
