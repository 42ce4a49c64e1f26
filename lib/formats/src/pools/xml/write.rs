//! From a configuration to the text of its file.

use super::check::check;
use super::schema::{PROPERTY, attribute_of, attributes, tag};
use super::values::{complete, text_of};
use super::{PUBLIC_ID, SYSTEM_ID, WriteError};
use millpond_model::pools::{ElementKind, PoolsConf, Props, PsetNode};
use std::fmt::Write as _;

/// The file of a configuration: several lines, each with its end.
///
/// # Errors
/// [`WriteError`] for something that cannot be kept in a file or would not be understood again.
pub fn write(conf: &PoolsConf) -> Result<String, WriteError> {
    let conf = kept(conf);
    let elements = elements(&conf);
    check(&elements).map_err(|broken| {
        let element = elements.get(broken.element).map(|props| told(props)).unwrap_or_default();
        WriteError { element, what: broken.what }
    })?;
    Ok(printed(&conf))
}

/// What is written of a configuration: no temporary elements, and everything that the DTD wants.
fn kept(conf: &PoolsConf) -> PoolsConf {
    let mut kept = conf.clone();
    kept.pools.retain(|pool| !pool.is_temporary());
    kept.psets.retain(|set| !set.is_temporary());
    let default = conf.default_pset().map(PsetNode::ref_id);
    for pool in &mut kept.pools {
        if let (Some(default), true) = (default, conf.pset_of(pool).is_some_and(PsetNode::is_temporary)) {
            pool.props.set("pool.res", default);
        }
        complete(&mut pool.props);
    }
    for set in &mut kept.psets {
        set.props.set("pset.size", set.size());
        complete(&mut set.props);
        set.cpus_mut().for_each(|cpu| complete(&mut cpu.props));
    }
    complete(&mut kept.system);
    kept
}

fn elements(conf: &PoolsConf) -> Vec<&Props> {
    let pools = conf.pools.iter().map(|pool| &pool.props);
    let sets = conf
        .psets
        .iter()
        .flat_map(|set| std::iter::once(&set.props).chain(set.cpus().iter().map(|cpu| &cpu.props)));
    std::iter::once(&conf.system).chain(pools).chain(sets).collect()
}

/// An element in words.
fn told(props: &Props) -> String {
    let kind = props.kind();
    match (kind, props.int("cpu.sys_id")) {
        (ElementKind::Cpu, Some(id)) => format!("cpu {id}"),
        _ => format!("{kind} {}", props.string(&format!("{kind}.name")).unwrap_or_default()),
    }
}

fn printed(conf: &PoolsConf) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\"?>\n<!DOCTYPE system PUBLIC \"{PUBLIC_ID}\" \"{SYSTEM_ID}\">\n\
         <!--\n Written by millpond. Use poolcfg to change it.\n-->\n"
    );
    push_element(&conf.system, 0, &mut text, |text| {
        for pool in &conf.pools {
            push_element(&pool.props, 1, text, |_| {});
        }
        for set in &conf.psets {
            push_element(&set.props, 1, text, |text| {
                set.cpus().iter().for_each(|cpu| push_element(&cpu.props, 2, text, |_| {}));
            });
        }
    });
    text
}

/// An element with its properties and what `inner` writes into it.
fn push_element(props: &Props, depth: usize, text: &mut String, inner: impl FnOnce(&mut String)) {
    let (kind, indent) = (props.kind(), "  ".repeat(depth));
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

/// Text that comes back as it was: readers make blanks of line ends and tabs in attributes, and line ends of carriage returns.
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
