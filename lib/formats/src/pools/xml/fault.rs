//! Errors in a configuration file.

use millpond_model::pools::{ElementKind, ValueType};
use std::fmt;

/// An invalid file. Displays as a sentence without the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XmlError {
    /// The line, from 1.
    pub line: usize,
    /// The column in bytes, from 1.
    pub column: usize,
    /// The error.
    pub what: Fault,
}

/// A configuration that cannot be written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteError {
    /// The element: `pset webset`.
    pub element: String,
    /// The error.
    pub what: Fault,
}

/// An error in a file or an element. `element` is a tag of the DTD, `property` the full name of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is not XML; the reason.
    NotXml(String),
    /// It has no DOCTYPE.
    NoDoctype,
    /// It refers to another DTD.
    WrongDtd(String),
    /// Its DOCTYPE contains declarations, which could expand to an arbitrary size.
    Declarations,
    /// The root element is wrong.
    WrongRoot(String),
    /// An element is not allowed at this position.
    Element {
        /// Its name.
        name: String,
        /// The enclosing element.
        parent: &'static str,
    },
    /// A kind of resource that does not exist yet.
    Aggregate,
    /// Unknown attribute.
    Attribute {
        /// Its name.
        name: String,
        /// Its element.
        element: &'static str,
    },
    /// A required attribute is missing.
    Missing {
        /// Its name.
        attribute: &'static str,
        /// Its element.
        element: &'static str,
    },
    /// An element exceeds a limit.
    TooMany {
        /// The counted items: `attributes`.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// There is text between elements.
    Text {
        /// The element.
        element: &'static str,
    },
    /// The name of a property is invalid.
    PropertyName(String),
    /// An element has a property twice.
    Twice {
        /// The property.
        property: String,
    },
    /// A property is given as an element, but must be an attribute.
    IsAttribute {
        /// The property.
        property: String,
        /// Its element.
        element: &'static str,
    },
    /// Unknown type.
    UnknownType(String),
    /// A property has the wrong type.
    Type {
        /// The property.
        property: &'static str,
        /// The expected type.
        expected: ValueType,
        /// The type found.
        found: ValueType,
    },
    /// The value of a property is invalid.
    Value {
        /// The property.
        property: String,
        /// The value.
        text: String,
        /// The expected value.
        expected: &'static str,
    },
    /// A character that XML does not allow.
    Character {
        /// The property.
        property: String,
        /// The character.
        character: char,
    },
    /// Two elements of a kind have the same name.
    SameName {
        /// The kind.
        kind: ElementKind,
        /// The name.
        name: String,
    },
    /// Two elements have the same `ref_id`.
    SameRef(String),
    /// A CPU occurs twice.
    SameCpu(i64),
    /// Two elements of a kind are marked as the default.
    SecondDefault(ElementKind),
    /// A set has a minimum above its maximum.
    MinAboveMax {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// A pool refers to an element that does not exist.
    Dangling(String),
    /// A pool refers to no set.
    NoSet,
}

impl fmt::Display for XmlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what.fmt(f)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot keep {} in a file: {}", self.element, self.what)
    }
}

impl std::error::Error for XmlError {}
impl std::error::Error for WriteError {}

impl XmlError {
    /// A remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        self.what.hint()
    }
}

impl WriteError {
    /// A remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        self.what.hint()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotXml(why) => write!(f, "the file is no well-formed XML: {why}"),
            Fault::NoDoctype => f.write_str("the file does not say which DTD it follows"),
            Fault::WrongDtd(id) => write!(f, "the file follows another DTD, `{id}`"),
            Fault::Declarations => f.write_str("the DOCTYPE has declarations of its own"),
            Fault::WrongRoot(name) => write!(f, "the outermost element is `{name}`, not `system`"),
            Fault::Element { name, parent } => write!(f, "`{name}` has no place in `{parent}`"),
            Fault::Aggregate => f.write_str("`res_agg` is a kind of resource that does not exist yet"),
            Fault::Attribute { name, element } => write!(f, "`{element}` has no attribute `{name}`"),
            Fault::Missing { attribute, element } => {
                write!(f, "`{element}` lacks its attribute `{attribute}`")
            }
            Fault::TooMany { what, most } => write!(f, "there are more than {most} {what}"),
            Fault::Text { element } => write!(f, "there is text in `{element}`, which holds elements only"),
            Fault::PropertyName(name) => write!(f, "`{name}` cannot be the name of a property in a file"),
            Fault::Twice { property } => write!(f, "{property} is there twice"),
            Fault::IsAttribute { property, element } => {
                write!(f, "{property} stands by itself, and is an attribute of `{element}`")
            }
            Fault::UnknownType(text) => write!(f, "there is no type `{text}`"),
            Fault::Type { property, expected, found } => {
                write!(f, "{property} is of type {expected}, not {found}")
            }
            Fault::Value { property, text, .. } => write!(f, "{property} cannot be `{text}`"),
            Fault::Character { property, character } => {
                write!(f, "{property} has the character U+{:04X}, which XML lacks", u32::from(*character))
            }
            Fault::SameName { kind, name } => write!(f, "there are two {kind}s named `{name}`"),
            Fault::SameRef(id) => write!(f, "two elements have the ref_id `{id}`"),
            Fault::SameCpu(id) => write!(f, "processor {id} is there twice"),
            Fault::SecondDefault(kind) => write!(f, "there are two default {kind}s"),
            Fault::MinAboveMax { min, max } => write!(f, "pset.min is {min}, and pset.max is {max}"),
            Fault::Dangling(id) => write!(f, "the pool refers to `{id}`, and no element has that ref_id"),
            Fault::NoSet => f.write_str("the pool refers to no processor set"),
        }
    }
}

impl Fault {
    /// A remedy.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Fault::NotXml(_) => {
                "mend it there; or let `poolcfg -c discover FILE` write a new one of what the machine has"
                    .into()
            }
            Fault::NoDoctype | Fault::WrongDtd(_) => format!(
                "a configuration has this line before its `system`: <!DOCTYPE system PUBLIC \"{}\" \"{}\">",
                super::PUBLIC_ID,
                super::SYSTEM_ID
            ),
            Fault::Declarations => {
                "take out what stands between [ and ], and write the text itself instead of entities".into()
            }
            Fault::WrongRoot(_) => "is it the file of a configuration? the usual one is pooladm.conf".into(),
            Fault::Element { name, .. } if name.contains(':') => "configurations have no namespaces".into(),
            Fault::Element { parent, .. } => match super::schema::children(parent) {
                [] => format!("only text can stand in `{parent}`"),
                all => format!("in `{parent}` there can be: {}", all.join(", ")),
            },
            Fault::Aggregate => "processor sets are the only resources; they are written res_comp".into(),
            Fault::Attribute { element, .. } => format!(
                "its attributes are: {}; other properties are elements: <property name=\"…\" type=\"…\">…</property>",
                super::schema::attribute_names(element).join(", ")
            ),
            Fault::Missing { attribute, .. } => format!("write {attribute}=\"…\""),
            Fault::TooMany { what, .. } => format!("take out the {what} that no pool, set or CPU has"),
            Fault::Text { .. } => "put it into a comment, <!-- … -->, or take it out".into(),
            Fault::PropertyName(_) => "a name is a letter or _, then letters, digits, dots, - and _".into(),
            Fault::Twice { .. } => "take out one of them".into(),
            Fault::IsAttribute { property, .. } => {
                let short = property.rsplit('.').next().unwrap_or(property);
                format!("take it out, and write its value as {short}=\"…\" in the element")
            }
            Fault::UnknownType(_) => {
                format!("the types are {}", ValueType::ALL.map(ValueType::word).join(", "))
            }
            Fault::Type { expected, .. } => format!("write a value of type {expected}"),
            Fault::Value { expected, .. } => format!("it is {expected}"),
            Fault::Character { .. } => "take the character out".into(),
            Fault::SameName { .. } | Fault::SameRef(_) => "give one of them another".into(),
            Fault::SameCpu(_) => "take it out of one of its sets".into(),
            Fault::SecondDefault(_) => "leave default=\"true\" with one of them".into(),
            Fault::MinAboveMax { .. } => "raise the maximum or lower the minimum".into(),
            Fault::Dangling(_) | Fault::NoSet => "the attribute res is the ref_id of a res_comp".into(),
        }
    }
}
