//! From the text of a file to a configuration.

use super::bounds::{self, PROPERTIES_MAX};
use super::check::check;
use super::prolog::{self, BLANKS};
use super::schema::{PROPERTY, TYPES, attribute_of, attributes, children, is_mixed, tag};
use super::values::{complete, expectation, value_of};
use super::{Fault, XmlError};
use crate::pools::properties::{blank_cpu, filled, rule, rules};
use millpond_model::CpuId;
use millpond_model::pools::{
    CpuNode, ElementKind, PoolNode, PoolsConf, PropValue, Properties, PsetNode, RefId, SystemNode, ValueType,
};
use roxmltree::{Document, Node, NodeType, ParsingOptions};
use std::collections::{HashMap, HashSet};

/// Parses the file of a configuration.
///
/// # Errors
/// [`XmlError`] for an invalid file.
pub fn read(text: &str) -> Result<PoolsConf, XmlError> {
    understood(text).map_err(|(offset, what)| {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.matches('\n').count() + 1;
        XmlError { line, column: before.len() - line_start + 1, what }
    })
}

/// The position in the text, and the error.
type Wrong = (usize, Fault);

fn understood(text: &str) -> Result<PoolsConf, Wrong> {
    let doctype = prolog::doctype(text)?;
    bounds::check(text)?;
    let options = ParsingOptions { allow_dtd: doctype.is_some(), ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| malformed(text, &e))?;
    let root = document.root_element();
    let at = root.range().start;
    let name = name_of(root);
    if name != tag(ElementKind::System) {
        return Err((at, Fault::WrongRoot(name)));
    }
    if doctype.is_none() {
        return Err((at, Fault::NoDoctype));
    }
    let mut elements = Vec::new();
    read_element(root, ElementKind::System, &mut elements)?;
    let (all, places): (Vec<_>, Vec<_>) = elements.into_iter().map(|e| ((e.kind, e.props), e.places)).unzip();
    match check(&all) {
        Ok(()) => Ok(assembled(all)),
        Err(broken) => {
            let place = places.get(broken.element).map_or(at, |p| p.of(broken.property.as_deref()));
            Err((place, broken.what))
        }
    }
}

/// The name of an element. The only prefix without declaration is `xml`; declarations of others are rejected as attributes.
fn name_of(node: Node<'_, '_>) -> String {
    let name = node.tag_name();
    format!("{}{}", if name.namespace() == Some(roxmltree::NS_XML_URI) { "xml:" } else { "" }, name.name())
}

fn malformed(text: &str, error: &roxmltree::Error) -> Wrong {
    use roxmltree::Error;
    let at_end = matches!(error, Error::NoRootNode | Error::UnclosedRootNode | Error::UnexpectedEndOfStream);
    let position = error.pos();
    let why = error.to_string().replace(&format!(" at {position}"), "");
    if at_end {
        return (text.len(), Fault::NotXml(why));
    }
    // The columns of the XML reader count characters.
    let lines_before = (position.row as usize).saturating_sub(1);
    let line_start: usize = text.split_inclusive('\n').take(lines_before).map(str::len).sum();
    let line = text.get(line_start..).unwrap_or_default();
    let column =
        line.char_indices().nth((position.col as usize).saturating_sub(1)).map_or(line.len(), |(at, _)| at);
    (line_start + column, Fault::NotXml(why))
}

/// An element other than `property`.
struct Element {
    kind: ElementKind,
    props: Properties,
    places: Places,
}

/// The positions of an element and its properties in the text.
struct Places {
    element: usize,
    properties: HashMap<String, usize>,
}

impl Places {
    fn of(&self, property: Option<&str>) -> usize {
        property.and_then(|name| self.properties.get(name)).copied().unwrap_or(self.element)
    }
}

impl Element {
    fn set(&mut self, property: &str, value: PropValue, at: usize) {
        self.places.properties.insert(property.to_owned(), at);
        self.props.set(property, value);
    }
}

/// Reads an element, and then its children, in the order of the text.
fn read_element(node: Node<'_, '_>, kind: ElementKind, elements: &mut Vec<Element>) -> Result<(), Wrong> {
    let places = Places { element: node.range().start, properties: HashMap::new() };
    let mut element = Element { kind, props: Properties::default(), places };
    for (name, value, at) in plain_attributes(node, tag(kind))? {
        let Some(attribute) = attributes(kind).iter().find(|a| a.name == name) else {
            return Err((at.name, Fault::Attribute { name: name.to_owned(), element: tag(kind) }));
        };
        let property = attribute.property;
        // Blanks around IDs are ignored.
        let is_id = matches!(name, "ref_id" | "res");
        let value = if is_id { value.trim_matches(BLANKS) } else { value };
        let value_type = rule(kind, property).map_or(ValueType::String, |rule| rule.value_type);
        let value =
            value_of(value_type, value).ok_or_else(|| (at.value, unfit(property, value, value_type)))?;
        element.set(property, value, at.value);
    }
    complete(kind, &mut element.props);
    let mut inner = Vec::new();
    for child in node.children() {
        match child.node_type() {
            NodeType::Text if !is_mixed(kind) => no_text(child, tag(kind))?,
            NodeType::Element if name_of(child) == PROPERTY => read_property(child, &mut element)?,
            NodeType::Element => inner.push((child, inner_kind(child, kind)?)),
            _ => {}
        }
    }
    // Properties are sorted so that the first error in the order of listings is reported.
    let order = rules(kind);
    element.props.sort_by_rank(|name| order.iter().position(|r| r.name == name).unwrap_or(usize::MAX));
    elements.push(element);
    inner.into_iter().try_for_each(|(child, kind)| read_element(child, kind, elements))
}

fn unfit(property: &str, text: &str, value_type: ValueType) -> Fault {
    let (property, text) = (property.to_owned(), text.trim_matches(BLANKS).to_owned());
    Fault::Value { property, text, expected: expectation(value_type) }
}

/// The positions of the name and the value of an attribute.
struct At {
    name: usize,
    value: usize,
}

/// The attributes of an element except the one for types. Namespaces are not included.
fn plain_attributes<'a>(
    node: Node<'a, '_>,
    element: &'static str,
) -> Result<Vec<(&'a str, &'a str, At)>, Wrong> {
    let unknown = |name: String, at| Err((at, Fault::Attribute { name, element }));
    if let Some(space) = node.namespaces().next() {
        let name = space.name().map_or_else(|| "xmlns".to_owned(), |prefix| format!("xmlns:{prefix}"));
        return unknown(name, node.range().start);
    }
    let mut all = Vec::new();
    for attribute in node.attributes() {
        let at = At { name: attribute.range().start, value: attribute.range_value().start };
        if attribute.namespace().is_some() {
            return unknown(format!("xml:{}", attribute.name()), at.name);
        }
        if attribute.name() != TYPES {
            all.push((attribute.name(), attribute.value(), at));
        }
    }
    Ok(all)
}

/// The kind of a child element.
fn inner_kind(child: Node<'_, '_>, parent: ElementKind) -> Result<ElementKind, Wrong> {
    let (name, at) = (name_of(child), child.range().start);
    let kinds = [ElementKind::Pool, ElementKind::Pset, ElementKind::Cpu];
    let allowed = children(tag(parent));
    match kinds.into_iter().find(|kind| tag(*kind) == name && allowed.contains(&tag(*kind))) {
        Some(kind) => Ok(kind),
        None if name == "res_agg" && parent == ElementKind::System => Err((at, Fault::Aggregate)),
        None => Err((at, Fault::Element { name, parent: tag(parent) })),
    }
}

/// Rejects text other than blanks.
fn no_text(node: Node<'_, '_>, element: &'static str) -> Result<(), Wrong> {
    let (text, range) = (node.text().unwrap_or_default(), node.range());
    if text.trim_matches(BLANKS).is_empty() {
        return Ok(());
    }
    let source = node.document().input_text().get(range.clone()).unwrap_or_default();
    let blanks = source.len() - source.trim_start_matches(BLANKS).len();
    Err((range.start + blanks, Fault::Text { element }))
}

/// Reads `<property name="pset.load" type="uint">22</property>`.
fn read_property(node: Node<'_, '_>, element: &mut Element) -> Result<(), Wrong> {
    let kind = element.kind;
    let (mut name, mut value_type) = (None, None);
    for (attribute, value, at) in plain_attributes(node, PROPERTY)? {
        let word = value.trim_matches(BLANKS);
        match attribute {
            "name" => name = Some((word, at.value)),
            "type" => {
                let known = word.parse().map_err(|_| (at.value, Fault::UnknownType(word.to_owned())))?;
                value_type = Some(known);
            }
            other => {
                return Err((at.name, Fault::Attribute { name: other.to_owned(), element: PROPERTY }));
            }
        }
    }
    let missing = |attribute| (node.range().start, Fault::Missing { attribute, element: PROPERTY });
    let (name, name_at) = name.ok_or_else(|| missing("name"))?;
    let value_type: ValueType = value_type.ok_or_else(|| missing("type"))?;
    let property = name.to_owned();
    if attribute_of(kind, name).is_some() {
        return Err((name_at, Fault::IsAttribute { property, element: tag(kind) }));
    }
    if element.places.properties.len() > PROPERTIES_MAX {
        return Err((name_at, Fault::TooMany { what: "properties", most: PROPERTIES_MAX }));
    }
    if element.places.properties.contains_key(name) {
        return Err((name_at, Fault::Twice { property }));
    }
    let mut text = String::new();
    for child in node.children() {
        match child.node_type() {
            NodeType::Text => text.push_str(child.text().unwrap_or_default()),
            NodeType::Element => {
                return Err((child.range().start, Fault::Element { name: name_of(child), parent: PROPERTY }));
            }
            _ => {}
        }
    }
    let text_at = node.first_child().map_or(node.range().start, |child| child.range().start);
    let value = value_of(value_type, &text).ok_or_else(|| (text_at, unfit(name, &text, value_type)))?;
    element.set(name, value, name_at);
    Ok(())
}

/// The configuration from checked elements. The default elements come first.
fn assembled(elements: Vec<(ElementKind, Properties)>) -> PoolsConf {
    let mut conf = PoolsConf { system: SystemNode::default(), pools: Vec::new(), psets: Vec::new() };
    let mut cpus: Vec<Vec<CpuNode>> = Vec::new();
    for (kind, props) in elements {
        match kind {
            ElementKind::System => conf.system = filled(SystemNode::default(), props),
            ElementKind::Pool => conf.pools.push(filled(PoolNode::default(), props)),
            ElementKind::Pset => {
                conf.psets.push(filled(PsetNode::default(), props));
                cpus.push(Vec::new());
            }
            ElementKind::Cpu => {
                if let Some(cpus) = cpus.last_mut() {
                    cpus.push(filled(blank_cpu(CpuId(0)), props));
                }
            }
        }
    }
    for (set, mut cpus) in conf.psets.iter_mut().zip(cpus) {
        // Adds CPUs in ascending order, so that each is appended.
        cpus.sort_by_key(|cpu| cpu.id);
        cpus.into_iter().for_each(|cpu| set.add(cpu));
    }
    let sets: HashSet<&str> = conf.psets.iter().map(|set| set.ref_id.as_str()).collect();
    for pool in &mut conf.pools {
        let first = pool.pset.as_str().split_whitespace().find(|id| sets.contains(id)).map(RefId::from);
        if let Some(first) = first {
            pool.pset = first;
        }
    }
    conf.pools.sort_by_key(|pool| !pool.is_default);
    conf.psets.sort_by_key(|set| !set.is_default);
    conf
}
