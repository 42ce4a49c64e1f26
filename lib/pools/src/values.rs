//! Checks the values of properties, by the types and rules of libpool(3LIB).

use crate::edit::property_name;
use crate::error::{Code, PoolError};
use millpond_formats::pools::properties::{Rule, Takes, rule, takes};
use millpond_model::State;
use millpond_model::pools::{AllocateMethod, ElementKind, PropValue};
use millpond_planner::POLICIES;

/// The property of the system that names a policy. Solaris does not have it.
pub const POLICY_PROPERTY: &str = "system.poold.policy";

/// The names of scheduling classes that a pool may have. FSS is accepted because files may contain it; no machine here has it.
pub const SCHEDULERS: [&str; 5] = ["TS", "IA", "FX", "RT", "FSS"];

/// The log levels of poold, most severe first.
pub const LOG_LEVELS: [&str; 7] = ["ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO", "DEBUG"];

/// Whether a property accepts a value; `old` is its present value.
///
/// # Errors
/// [`Code::BadParam`] for a read-only property, a wrong type, or (for properties that poold reads) an invalid value;
/// [`Code::PutProp`] for names, bounds, schedulers and methods.
pub fn check(
    kind: ElementKind,
    name: &str,
    value: &PropValue,
    old: Option<&PropValue>,
) -> Result<(), PoolError> {
    property_name(name)?;
    if let Some(rule) = rule(kind, name) {
        return check_known(rule, value);
    }
    if kind == ElementKind::System && name == POLICY_PROPERTY {
        return policy(value);
    }
    match old {
        Some(old) if old.value_type() != value.value_type() => {
            let types = (old.value_type(), value.value_type());
            let why = format!("{name} is of type {}, not {}; remove it first (~)", types.0, types.1);
            Err(PoolError::hinted(Code::BadParam, why))
        }
        _ => Ok(()),
    }
}

/// Whether poold has this policy.
///
/// # Errors
/// [`Code::BadParam`] with the existing policies.
pub(crate) fn policy(value: &PropValue) -> Result<(), PoolError> {
    match value {
        PropValue::String(name) if POLICIES.contains(&name.as_str()) => Ok(()),
        PropValue::String(_) => {
            let why = format!("{POLICY_PROPERTY} is one of {}", POLICIES.join(", "));
            Err(PoolError::hinted(Code::BadParam, why))
        }
        _ => Err(PoolError::hinted(Code::BadParam, format!("{POLICY_PROPERTY} is of type string"))),
    }
}

fn check_known(rule: &Rule, value: &PropValue) -> Result<(), PoolError> {
    let name = rule.name;
    if !rule.writable {
        return Err(PoolError::hinted(Code::BadParam, format!("{name} is read-only")));
    }
    let takes = takes(name);
    let strict =
        matches!(takes, Takes::Minimum | Takes::Maximum | Takes::Class | Takes::AllocateMethod | Takes::Name);
    let code = || if strict { Code::PutProp } else { Code::BadParam };
    if value.value_type() != rule.value_type {
        let why = format!("{name} is of type {}", rule.value_type);
        return Err(PoolError::hinted(code(), why));
    }
    let one_of = |words: &[&str], text: &str| match words.contains(&text) {
        true => Ok(()),
        false => Err(PoolError::hinted(code(), format!("{name} is one of {}", words.join(", ")))),
    };
    match (takes, value) {
        (Takes::True, PropValue::Boolean(false)) => {
            Err(PoolError::hinted(Code::BadParam, "a pool cannot be made inactive; destroy it instead"))
        }
        (Takes::Class, PropValue::String(text)) => one_of(&SCHEDULERS, text),
        (Takes::AllocateMethod, PropValue::String(text)) => {
            one_of(&AllocateMethod::ALL.map(AllocateMethod::word), text)
        }
        (Takes::LogLevel, PropValue::String(text)) => one_of(&LOG_LEVELS, text),
        (Takes::LogLocation, PropValue::String(text)) => {
            if text.starts_with('/') || text.eq_ignore_ascii_case("syslog") {
                Ok(())
            } else {
                Err(PoolError::hinted(Code::BadParam, "it is an absolute path, or syslog"))
            }
        }
        (Takes::Interval, PropValue::Uint(0)) => {
            Err(PoolError::hinted(Code::BadParam, "an interval has at least a millisecond"))
        }
        (Takes::Status, PropValue::String(text)) => {
            let known = [State::OnLine, State::OffLine, State::NoIntr, State::Spare, State::Faulted];
            let words = known.map(State::word);
            one_of(&words, text)
        }
        _ => Ok(()),
    }
}
