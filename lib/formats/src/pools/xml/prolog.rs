//! The prolog of a file: its DTD.
//!
//! The prolog is read before the rest, and more strictly than XML requires: a DOCTYPE with declarations is rejected, so that
//! its entities are never expanded.

use super::{Fault, PUBLIC_ID, SYSTEM_ID};

/// The position of the DOCTYPE. `None` if it is missing before the first element, or malformed: the XML reader, which then allows
/// no DOCTYPE, reports the error.
///
/// # Errors
/// The position and the error.
pub(super) fn doctype(text: &str) -> Result<Option<usize>, (usize, Fault)> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    loop {
        rest = rest.trim_start_matches(BLANKS);
        let ended = if rest.starts_with("<?") {
            behind(rest, "?>")
        } else if rest.starts_with("<!--") {
            behind(rest, "-->")
        } else {
            break;
        };
        let Some(behind) = ended else { return Ok(None) };
        rest = behind;
    }
    let at = text.len() - rest.len();
    let Some(declaration) = rest.strip_prefix("<!DOCTYPE") else { return Ok(None) };
    match understood(declaration) {
        None => Ok(None),
        Some(doctype) if doctype.has_declarations => Err((at, Fault::Declarations)),
        Some(doctype) if doctype.root != "system" => Err((at, Fault::WrongRoot(doctype.root.to_owned()))),
        Some(doctype) => match doctype.other_dtd() {
            Some(other) => Err((at, other)),
            None => Ok(Some(at)),
        },
    }
}

/// White space in XML.
pub(super) const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

fn behind<'a>(text: &'a str, end: &str) -> Option<&'a str> {
    text.split_once(end).map(|(_, behind)| behind)
}

struct Doctype<'a> {
    root: &'a str,
    public: Option<&'a str>,
    system: Option<&'a str>,
    has_declarations: bool,
}

/// Parses the text after `<!DOCTYPE`.
fn understood(text: &str) -> Option<Doctype<'_>> {
    let text = text.strip_prefix(BLANKS)?.trim_start_matches(BLANKS);
    let end = text.find(|c| BLANKS.contains(&c) || c == '>' || c == '[')?;
    let (root, text) = text.split_at(end);
    let mut text = text.trim_start_matches(BLANKS);
    let (mut public, mut system) = (None, None);
    if let Some(rest) = text.strip_prefix("PUBLIC") {
        let (first, rest) = quoted(rest)?;
        let (second, rest) = quoted(rest)?;
        (public, system, text) = (Some(first), Some(second), rest);
    } else if let Some(rest) = text.strip_prefix("SYSTEM") {
        let (first, rest) = quoted(rest)?;
        (system, text) = (Some(first), rest);
    }
    let has_declarations = match text.trim_start_matches(BLANKS).chars().next()? {
        '>' => false,
        '[' => true,
        _ => return None,
    };
    Some(Doctype { root, public, system, has_declarations })
}

/// Parses blanks and a quoted text; returns the contents and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix(BLANKS)?.trim_start_matches(BLANKS);
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split_once(quote)
}

impl Doctype<'_> {
    /// The error if the DTD is another one. Its directory may differ, but not its file name.
    fn other_dtd(&self) -> Option<Fault> {
        let file = |place: &str| place.rsplit('/').next().unwrap_or_default().to_owned();
        match (self.public, self.system) {
            (Some(public), _) => {
                let public = public.split_whitespace().collect::<Vec<_>>().join(" ");
                (public != PUBLIC_ID).then_some(Fault::WrongDtd(public))
            }
            (None, Some(system)) => {
                (file(system) != file(SYSTEM_ID)).then(|| Fault::WrongDtd(system.to_owned()))
            }
            (None, None) => Some(Fault::NoDoctype),
        }
    }
}
