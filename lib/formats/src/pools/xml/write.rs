//! From a configuration to the text of its file.

use super::schema::{PROPERTY, attribute_of, attributes, tag};
use super::values::text_of;
use super::{PUBLIC_ID, SYSTEM_ID, WriteError};
use crate::pools::properties::Element;
use millpond_model::pools::{CpuNode, ElementKind, PoolNode, PoolsConf, Properties, PsetNode};
use std::fmt::Write as _;

/// Checks that a configuration can be written to a file and read back unchanged.
///
/// # Errors
/// [`WriteError`] for the first error.
pub fn check(conf: &PoolsConf) -> Result<(), WriteError> {
    checked(conf).map(|_| ())
}

/// The file of a configuration: several lines with newlines.
///
/// # Errors
/// See [`check`].
pub fn write(conf: &PoolsConf) -> Result<String, WriteError> {
    let elements = checked(conf)?;
    let mut text = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE system PUBLIC \"{PUBLIC_ID}\" \"{SYSTEM_ID}\">\n\
         <!--\n Written by millpond. Use poolcfg to change it.\n-->\n"
    );
    push_elements(&elements, 0, &mut text);
    Ok(text)
}

type Elements = [(ElementKind, Properties)];

fn checked(conf: &PoolsConf) -> Result<Vec<(ElementKind, Properties)>, WriteError> {
    let elements = kept(conf);
    match super::check::check(&elements) {
        Ok(()) => Ok(elements),
        Err(broken) => {
            let element = elements.get(broken.element).map(|(kind, props)| told(*kind, props));
            Err(WriteError { element: element.unwrap_or_default(), what: broken.what })
        }
    }
}

/// The elements of a file, each before its children: all that are not temporary.
fn kept(conf: &PoolsConf) -> Vec<(ElementKind, Properties)> {
    let default = conf.default_pset().map(|set| &set.ref_id);
    let pool = |pool: &PoolNode| {
        let mut all = pool.properties();
        if let (Some(default), true) = (default, conf.pset_of(pool).is_some_and(PsetNode::is_temporary)) {
            all.set("pool.res", default.as_str());
        }
        (ElementKind::Pool, all)
    };
    let mut elements = vec![(ElementKind::System, conf.system.properties())];
    elements.extend(conf.pools.iter().filter(|pool| !pool.is_temporary()).map(pool));
    for set in conf.psets.iter().filter(|set| !set.is_temporary()) {
        elements.push((ElementKind::Pset, set.properties()));
        elements.extend(set.cpus().iter().map(CpuNode::properties).map(|all| (ElementKind::Cpu, all)));
    }
    elements
}

/// An element as text.
fn told(kind: ElementKind, props: &Properties) -> String {
    match (kind, props.int("cpu.sys_id")) {
        (ElementKind::Cpu, Some(id)) => format!("cpu {id}"),
        _ => format!("{kind} {}", props.string(&format!("{kind}.name")).unwrap_or_default()),
    }
}

/// Writes elements, each followed by its children.
fn push_elements(elements: &Elements, depth: usize, text: &mut String) {
    let mut rest = elements;
    while let Some(((kind, props), behind)) = rest.split_first() {
        let is_inner = |(inner, _): &(ElementKind, Properties)| match kind {
            ElementKind::System => true,
            ElementKind::Pset => *inner == ElementKind::Cpu,
            ElementKind::Pool | ElementKind::Cpu => false,
        };
        let inner = behind.iter().take_while(|one| is_inner(one)).count();
        push_element(*kind, props, depth, text, |text| push_elements(&behind[..inner], depth + 1, text));
        rest = &behind[inner..];
    }
}

/// Writes an element with its properties and the content by `inner`.
fn push_element(
    kind: ElementKind,
    props: &Properties,
    depth: usize,
    text: &mut String,
    inner: impl FnOnce(&mut String),
) {
    let indent = "  ".repeat(depth);
    let _ = write!(text, "{indent}<{}", tag(kind));
    for attribute in attributes(kind) {
        if let Some(value) = props.get(attribute.property) {
            let _ = write!(text, " {}=\"{}\"", attribute.name, escaped(&text_of(value), true));
        }
    }
    text.push_str(">\n");
    let start = text.len();
    for (name, value) in props.iter().filter(|(name, _)| attribute_of(kind, name).is_none()) {
        let (value_type, value) = (value.value_type(), text_of(value));
        let _ = writeln!(
            text,
            "{indent}  <{PROPERTY} name=\"{name}\" type=\"{value_type}\">{}</{PROPERTY}>",
            escaped(&value, false)
        );
    }
    inner(text);
    if text.len() == start {
        text.truncate(start - ">\n".len());
        text.push_str("/>\n");
    } else {
        let _ = writeln!(text, "{indent}</{}>", tag(kind));
    }
}

/// Escapes text so that it is read back unchanged: XML readers convert line ends and tabs in attributes to blanks, and carriage returns to
/// line ends.
fn escaped(text: &str, in_attribute: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#13;"),
            '"' if in_attribute => out.push_str("&quot;"),
            '\t' if in_attribute => out.push_str("&#9;"),
            '\n' if in_attribute => out.push_str("&#10;"),
            other => out.push(other),
        }
    }
    out
}
