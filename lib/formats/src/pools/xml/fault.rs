//! Faults of a configuration file.

use millpond_model::pools::{ElementKind, ValueType};
use std::fmt;

/// A file that is no configuration. Displays as a sentence without the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XmlError {
    /// From 1.
    pub line: usize,
    /// Bytes from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: Fault,
}

/// A configuration that cannot be kept in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteError {
    /// Which element: `pset webset`.
    pub element: String,
    /// What is wrong with it.
    pub what: Fault,
}

/// What is wrong with a file or an element. `element` is a word of the DTD, `property` the whole name of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is no XML, and why.
    NotXml(String),
    /// It names no DTD.
    NoDoctype,
    /// It names another DTD.
    WrongDtd(String),
    /// It has declarations in its DOCTYPE, which could make it arbitrarily large.
    Declarations,
    /// The outermost element is another one.
    WrongRoot(String),
    /// An element stands where it has no place.
    Element {
        /// Its name.
        name: String,
        /// What it stands in.
        parent: &'static str,
    },
    /// A kind of resource that nothing has yet.
    Aggregate,
    /// There is no such attribute.
    Attribute {
        /// Its name.
        name: String,
        /// Of which element.
        element: &'static str,
    },
    /// An attribute must be there and is not.
    Missing {
        /// Its name.
        attribute: &'static str,
        /// Of which element.
        element: &'static str,
    },
    /// An element has more of something than is read.
    TooMany {
        /// Of what: `attributes`.
        what: &'static str,
        /// The most.
        most: usize,
    },
    /// There is text between elements.
    Text {
        /// Of which element.
        element: &'static str,
    },
    /// A property cannot have this name.
    PropertyName(String),
    /// An element has a property twice.
    Twice {
        /// Which.
        property: String,
    },
    /// A property stands by itself that is an attribute of its element.
    IsAttribute {
        /// Which.
        property: String,
        /// Of which element.
        element: &'static str,
    },
    /// There is no such type.
    UnknownType(String),
    /// A property has another type.
    Type {
        /// Which property.
        property: &'static str,
        /// Its type.
        expected: ValueType,
        /// What it was given.
        found: ValueType,
    },
    /// A property cannot have this value.
    Value {
        /// Which property.
        property: String,
        /// The value.
        text: String,
        /// What it could be.
        expected: &'static str,
    },
    /// XML has no such character.
    Character {
        /// In which property.
        property: String,
        /// Which.
        character: char,
    },
    /// Two of a kind have the same name.
    SameName {
        /// Of which kind.
        kind: ElementKind,
        /// The name.
        name: String,
    },
    /// Two elements have the same `ref_id`.
    SameRef(String),
    /// A processor is there twice.
    SameCpu(i64),
    /// Two of a kind are the default one.
    SecondDefault(ElementKind),
    /// A set has a minimum above its maximum.
    MinAboveMax {
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
    /// A pool refers to an element that is not there.
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
    /// What the user could do.
    #[must_use]
    pub fn hint(&self) -> String {
        self.what.hint()
    }
}

impl WriteError {
    /// What the user could do.
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
    /// What the user could do.
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
