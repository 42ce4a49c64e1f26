//! The rules of the DTD for elements. Attributes are in the order in which they are written.

use millpond_model::pools::ElementKind;

/// An attribute for a property.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attribute {
    pub(super) name: &'static str,
    /// The property.
    pub(super) property: &'static str,
    /// The default value; `None` for a required attribute.
    pub(super) default: Option<&'static str>,
}

const fn required(name: &'static str, property: &'static str) -> Attribute {
    Attribute { name, property, default: None }
}

const fn optional(name: &'static str, property: &'static str, default: &'static str) -> Attribute {
    Attribute { name, property, default: Some(default) }
}

const SYSTEM: [Attribute; 5] = [
    required("ref_id", "system.ref_id"),
    required("name", "system.name"),
    optional("comment", "system.comment", ""),
    optional("version", "system.version", "1"),
    optional("bind-default", "system.bind-default", "false"),
];

const POOL: [Attribute; 7] = [
    required("name", "pool.name"),
    optional("active", "pool.active", "true"),
    optional("default", "pool.default", "false"),
    required("importance", "pool.importance"),
    optional("comment", "pool.comment", ""),
    required("res", "pool.res"),
    required("ref_id", "pool.ref_id"),
];

const PSET: [Attribute; 9] = [
    required("type", "type"),
    required("sys_id", "pset.sys_id"),
    required("name", "pset.name"),
    optional("default", "pset.default", "false"),
    required("min", "pset.min"),
    required("max", "pset.max"),
    required("units", "pset.units"),
    optional("comment", "pset.comment", ""),
    required("ref_id", "pset.ref_id"),
];

const CPU: [Attribute; 4] = [
    required("type", "type"),
    required("sys_id", "cpu.sys_id"),
    optional("comment", "cpu.comment", ""),
    required("ref_id", "cpu.ref_id"),
];

/// The attribute of every element that declares the types of other attributes.
pub(super) const TYPES: &str = "a-dtype";

/// The element for a property without an attribute.
pub(super) const PROPERTY: &str = "property";

/// The attributes of elements of a kind.
pub(super) fn attributes(kind: ElementKind) -> &'static [Attribute] {
    match kind {
        ElementKind::System => &SYSTEM,
        ElementKind::Pool => &POOL,
        ElementKind::Pset => &PSET,
        ElementKind::Cpu => &CPU,
    }
}

/// The attribute for a property.
pub(super) fn attribute_of(kind: ElementKind, property: &str) -> Option<&'static Attribute> {
    attributes(kind).iter().find(|a| a.property == property)
}

/// The tag of a kind in the DTD.
pub(super) fn tag(kind: ElementKind) -> &'static str {
    match kind {
        ElementKind::System => "system",
        ElementKind::Pool => "pool",
        ElementKind::Pset => "res_comp",
        ElementKind::Cpu => "comp",
    }
}

fn kind_of(tag: &str) -> Option<ElementKind> {
    let all = [ElementKind::System, ElementKind::Pool, ElementKind::Pset, ElementKind::Cpu];
    all.into_iter().find(|kind| self::tag(*kind) == tag)
}

/// The child elements that an element may have.
pub(super) fn children(tag: &str) -> &'static [&'static str] {
    match kind_of(tag) {
        Some(ElementKind::System) => &["pool", "res_comp", PROPERTY],
        Some(ElementKind::Pool | ElementKind::Cpu) => &[PROPERTY],
        Some(ElementKind::Pset) => &["comp", PROPERTY],
        None => &[],
    }
}

/// The attributes of an element, by its tag.
pub(super) fn attribute_names(tag: &str) -> Vec<&'static str> {
    match kind_of(tag) {
        Some(kind) => attributes(kind).iter().map(|a| a.name).collect(),
        None => vec!["name", "type"],
    }
}

/// Whether elements of a kind may contain text.
pub(super) fn is_mixed(kind: ElementKind) -> bool {
    matches!(kind, ElementKind::Pool | ElementKind::Cpu)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pools::properties::rules;
    use crate::pools::xml::DTD;

    const KINDS: [ElementKind; 4] =
        [ElementKind::System, ElementKind::Pool, ElementKind::Pset, ElementKind::Cpu];

    #[test]
    fn attributes_are_those_of_the_table_of_properties() {
        for kind in KINDS {
            let mut ours: Vec<_> = attributes(kind).iter().map(|a| a.property).collect();
            let mut theirs: Vec<_> = rules(kind).iter().filter(|r| r.attribute).map(|r| r.name).collect();
            ours.sort_unstable();
            theirs.sort_unstable();
            assert_eq!(ours, theirs);
        }
    }

    /// The declared attributes of an element: the name, and the default.
    fn declared(tag: &str) -> Vec<(String, String)> {
        let (_, rest) = DTD.split_once(&format!("<!ATTLIST {tag}\n")).unwrap();
        let lines = rest.split("\n>").next().unwrap().lines();
        let all = lines.map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap().to_owned();
            (name, words.skip(1).collect::<Vec<_>>().join(" "))
        });
        all.filter(|(name, _)| name != TYPES).collect()
    }

    #[test]
    fn the_dtd_says_the_same() {
        for kind in KINDS {
            let ours = attributes(kind).iter().map(|a| {
                let default = match (a.name, a.default) {
                    ("version", Some(value)) => format!("#FIXED \"{value}\""),
                    (_, Some(value)) => format!("\"{value}\""),
                    (_, None) => "#REQUIRED".to_owned(),
                };
                (a.name.to_owned(), default)
            });
            let (mut ours, mut theirs) = (ours.collect::<Vec<_>>(), declared(tag(kind)));
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs);
        }
    }
}
