//! Limits of an element, checked in one pass before the tree is built. Building the tree compares each attribute of an element with
//! every other one, and each namespace with those of the enclosing elements.

use super::Fault;

/// The maximum number of attributes of an element. The DTD has at most nine.
pub(super) const ATTRIBUTES_MAX: usize = 64;

/// The maximum number of properties of an element. Each is compared with the earlier ones.
pub(super) const PROPERTIES_MAX: usize = 1000;

/// Checks the number of attributes of each element, and of namespaces in the whole text. Text that is not XML is accepted from its first
/// error on, because the parser stops there.
///
/// # Errors
/// The position of the element, and [`Fault::TooMany`].
pub(super) fn check(text: &str) -> Result<(), (usize, Fault)> {
    let mut namespaces = 0;
    let mut at = 0;
    while let Some(next) = text[at..].find('<') {
        let start = at + next;
        let rest = &text[start..];
        let length = if rest.starts_with("<!--") {
            rest.find("-->")
        } else if rest.starts_with("<![CDATA[") {
            rest.find("]]>")
        } else if rest.starts_with("<?") {
            rest.find("?>")
        } else {
            let too_many = |what, most| (start, Fault::TooMany { what, most });
            let tag = tag(rest);
            namespaces += tag.namespaces;
            if tag.attributes > ATTRIBUTES_MAX {
                return Err(too_many("attributes", ATTRIBUTES_MAX));
            }
            if namespaces > ATTRIBUTES_MAX {
                return Err(too_many("namespaces", ATTRIBUTES_MAX));
            }
            tag.length
        };
        let Some(length) = length else { break };
        at = start + length + 1;
    }
    Ok(())
}

struct Tag {
    attributes: usize,
    namespaces: usize,
    /// The length up to its `>`; `None` if the text ends before.
    length: Option<usize>,
}

/// Reads a tag, which begins with `<`.
fn tag(text: &str) -> Tag {
    let mut tag = Tag { attributes: 0, namespaces: 0, length: None };
    let mut quote = None;
    let mut word = 0;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte != open => {}
            (Some(_), _) => quote = None,
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'>') => {
                tag.length = Some(at);
                break;
            }
            (None, b'=') => {
                tag.attributes += 1;
                tag.namespaces += usize::from(text.as_bytes()[word..at].starts_with(b"xmlns"));
            }
            (None, b' ' | b'\t' | b'\r' | b'\n') => {
                // Blanks are allowed between a name and its `=`.
                let behind = text.as_bytes().get(at + 1);
                if behind.is_some_and(|byte| !b" \t\r\n=".contains(byte)) {
                    word = at + 1;
                }
            }
            _ => {}
        }
    }
    tag
}
