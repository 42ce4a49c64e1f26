//! Digits of figures in JSON: no more than the figures are good for.

use serde::{Serialize, Serializer};

/// With three digits behind the point.
#[must_use]
pub fn to_thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// With six digits behind the point.
#[must_use]
pub fn to_millionths(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// [`to_thousandths`] of a field, for `serialize_with`.
///
/// # Errors
/// None of its own.
pub fn thousandths<S: Serializer>(
    value: &(impl Into<Option<f64>> + Copy),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*value).into().map(to_thousandths).serialize(serializer)
}

/// [`to_millionths`] of a field, for `serialize_with`.
///
/// # Errors
/// None of its own.
pub fn millionths<S: Serializer>(
    value: &(impl Into<Option<f64>> + Copy),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*value).into().map(to_millionths).serialize(serializer)
}
