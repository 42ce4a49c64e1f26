//! `cargo xtask notes`: the section of CHANGELOG.md for a version, as Markdown, for the page of a release.

use crate::cargo::BuildError;
use std::fs;
use std::io::{self, Write};

/// The changelog, in this tree.
const CHANGELOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../CHANGELOG.md");

/// The version of this tree.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The prefix of a version's heading.
const HEADING: &str = "## ";

/// Prints the notes of a version; `None` is the current version.
///
/// # Errors
/// [`BuildError::Notes`] for an unknown version, with a list of the known ones.
pub fn run(version: Option<&str>) -> Result<bool, BuildError> {
    let text = fs::read_to_string(CHANGELOG).map_err(BuildError::Notes)?;
    let notes = section(&text, version.unwrap_or(VERSION)).map_err(BuildError::Notes)?;
    match writeln!(io::stdout(), "{notes}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(BuildError::Notes(error)),
        _ => Ok(true),
    }
}

/// The section of a version, with its heading.
fn section<'t>(text: &'t str, version: &str) -> io::Result<&'t str> {
    let headings: Vec<(usize, &str)> = headings(text).collect();
    let Some(at) = headings.iter().position(|(_, name)| *name == version) else {
        let names: Vec<&str> = headings.iter().map(|(_, name)| *name).collect();
        return Err(io::Error::other(format!(
            "there is no version {version} in CHANGELOG.md\nhint: there are {}",
            names.join(", ")
        )));
    };
    let end = headings.get(at + 1).map_or(text.len(), |(next, _)| *next);
    Ok(text[headings[at].0..end].trim_end())
}

/// The offset of each heading, and its version: `0.2.0` for `## [0.2.0] - 2026-11-26`.
fn headings(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut begin = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let here = begin;
        begin += line.len();
        let name = line.strip_prefix(HEADING)?.split_whitespace().next()?;
        Some((here, name.trim_start_matches('[').trim_end_matches(']')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Changelog\n\nVersions.\n\n## Unreleased\n\n## [0.2.0] - 2026-11-26\n\n### Added\n\n- Pools.\n\n### Fixed\n\n- Sets.\n\n\
        ## [0.1.0] - 2026-01-02\n\n- All of it.\n";

    fn found(version: &str) -> String {
        section(TEXT, version).map_or_else(|error| error.to_string(), str::to_owned)
    }

    #[test]
    fn a_section_ends_where_the_next_version_begins() {
        assert_eq!(
            found("0.2.0"),
            "## [0.2.0] - 2026-11-26\n\n### Added\n\n- Pools.\n\n### Fixed\n\n- Sets."
        );
        assert_eq!(found("0.1.0"), "## [0.1.0] - 2026-01-02\n\n- All of it.");
        assert_eq!(found("Unreleased"), "## Unreleased");
    }

    #[test]
    fn an_unknown_version_is_refused_with_the_known_ones() {
        for version in ["0.3.0", "0.2", "[0.2.0]", ""] {
            let expected = format!(
                "there is no version {version} in CHANGELOG.md\nhint: there are Unreleased, 0.2.0, 0.1.0"
            );
            assert_eq!(found(version), expected);
        }
    }

    #[test]
    fn the_version_of_this_tree_has_notes() {
        let text = fs::read_to_string(CHANGELOG).unwrap();
        let notes = section(&text, VERSION).unwrap();
        assert!(notes.contains("\n- "), "{notes}");
    }
}
