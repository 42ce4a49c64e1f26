//! Prints commands in the syntax of scripts. A string with a `"` or a line end cannot be printed: the language has no escapes.

use super::{Command, Entity, Located, PropEdit};
use millpond_model::pools::PropValue;
use std::fmt;

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name.value)
    }
}

impl fmt::Display for PropEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The type has no meaning, but is required.
            PropEdit::Remove(name) => write!(f, "~ string {name}"),
            PropEdit::Set(name, value) => {
                write!(f, "{} {name} = ", value.value_type())?;
                match value {
                    PropValue::Uint(value) => write!(f, "{value}"),
                    PropValue::Int(value) => write!(f, "{value}"),
                    PropValue::Float(value) => write!(f, "{value}"),
                    PropValue::Boolean(value) => write!(f, "{value}"),
                    PropValue::String(text) => write!(f, "\"{text}\""),
                }
            }
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::Info(None) => f.write_str("info"),
            Command::Info(Some(entity)) => write!(f, "info {entity}"),
            Command::Create { entity, props } => {
                write!(f, "create {entity}")?;
                list("", props, f)
            }
            Command::Destroy(entity) => write!(f, "destroy {entity}"),
            Command::Modify { entity, props } => {
                write!(f, "modify {entity}")?;
                list("", props, f)
            }
            Command::Associate { pool, psets } => {
                write!(f, "associate pool {}", pool.value)?;
                list("pset ", psets, f)
            }
            Command::TransferCpus { to, cpus } => {
                write!(f, "transfer to pset {}", to.value)?;
                list("cpu ", cpus, f)
            }
            Command::TransferCount { count, from, to } => {
                write!(f, "transfer {count} from pset {} to {}", from.value, to.value)
            }
            Command::Discover => f.write_str("discover"),
            Command::Rename { entity, to } => write!(f, "rename {entity} to {}", to.value),
        }
    }
}

/// A list in parentheses; nothing for an empty list.
fn list<T: fmt::Display>(before: &str, items: &[Located<T>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        write!(f, "{} {before}{}", if at == 0 { " (" } else { " ;" }, item.value)?;
    }
    if items.is_empty() { Ok(()) } else { f.write_str(" )") }
}
