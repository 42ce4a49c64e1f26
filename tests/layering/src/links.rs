//! Links in Markdown pages: targets, anchors, paths in backquotes, and the table of contents of the book.

use crate::{Breach, SourceFile};
use std::collections::{BTreeMap, BTreeSet};

/// The table of contents. Every other page of `docs/` must be in it.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A Markdown page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its path relative to the workspace, with `/` as separator.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// All breaches in these pages. `paths` has the files and directories of the tree.
#[must_use]
pub fn check(pages: &[Page], paths: &BTreeSet<String>) -> Vec<Breach> {
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut breaches = Vec::new();
    let mut contents = BTreeSet::from([SUMMARY.to_owned()]);
    for page in pages {
        for span in spans(&page.text) {
            let place = format!("{}:{}", page.path, span.line);
            let what = match span.kind {
                Kind::Code => missing_path(span.text, paths),
                Kind::Link => {
                    let (target, anchor) = resolved(&page.path, span.text);
                    let what = broken_link(&target, anchor, paths, &anchors);
                    if page.path == SUMMARY {
                        contents.insert(target);
                    }
                    what
                }
            };
            breaches.extend(what.map(|what| Breach { place, what }));
        }
    }
    let is_forgotten = |page: &&Page| page.path.starts_with("docs/") && !contents.contains(&page.path);
    breaches.extend(
        pages
            .iter()
            .filter(is_forgotten)
            .map(|page| Breach { place: page.path.clone(), what: format!("the page is not in {SUMMARY}") }),
    );
    breaches
}

/// Missing pages of `docs/` that a source file names.
#[must_use]
pub fn check_source(file: &SourceFile, paths: &BTreeSet<String>) -> Vec<Breach> {
    let lines = file.text.lines().enumerate();
    lines
        .flat_map(|(at, line)| line.match_indices("docs/").map(move |(from, _)| (at + 1, &line[from..])))
        .filter_map(|(line, rest)| {
            let end = rest.find(|c: char| !is_path_character(c)).unwrap_or(rest.len());
            let path = rest[..end].trim_end_matches('.');
            let is_page = path.ends_with(".md") || path.ends_with(".svg");
            (is_page && !paths.contains(path)).then(|| Breach {
                place: format!("{}:{line}", file.path),
                what: format!("there is no {path}"),
            })
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The target of a link or picture.
    Link,
    /// Text in backquotes.
    Code,
}

struct Span<'t> {
    line: usize,
    kind: Kind,
    text: &'t str,
}

/// Links and code spans outside fenced blocks.
fn spans(text: &str) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    for (line, text) in outside_fences(text) {
        for (at, text) in text.split('`').enumerate() {
            if at % 2 == 1 {
                spans.push(Span { line, kind: Kind::Code, text });
                continue;
            }
            let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
            spans.extend(targets.map(|text| Span { line, kind: Kind::Link, text }));
        }
    }
    spans
}

/// Lines with their numbers, without fenced blocks.
fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fence && !is_fenced).then_some((at + 1, line))
    })
}

/// The anchors of a page's headings: lower case, blanks replaced by hyphens, no other signs. A second heading with the same name
/// gets `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in outside_fences(text) {
        let Some(heading) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let Some(heading) = heading.strip_prefix(' ') else { continue };
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String =
            kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut anchor = name.clone();
        for count in 1.. {
            if anchors.insert(anchor) {
                break;
            }
            anchor = format!("{name}-{count}");
        }
    }
    anchors
}

/// The path, relative to the workspace, and the anchor of a link.
fn resolved<'l>(page: &str, link: &'l str) -> (String, Option<&'l str>) {
    let (target, anchor) = match link.split_once('#') {
        Some((target, anchor)) => (target, Some(anchor)),
        None => (link, None),
    };
    if target.is_empty() || target.contains("://") {
        return (if target.is_empty() { page.to_owned() } else { target.to_owned() }, anchor);
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (parts.join("/"), anchor)
}

fn broken_link(
    target: &str,
    anchor: Option<&str>,
    paths: &BTreeSet<String>,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    if !paths.contains(target) {
        return Some(format!("the link leads to {target}, which does not exist"));
    }
    let anchor = anchor?;
    let is_there = anchors.get(target).is_some_and(|anchors| anchors.contains(anchor));
    (!is_there).then(|| format!("the link leads to #{anchor}, which is no heading of {target}"))
}

/// Reports a code span that is a path below a directory of the tree and does not exist. Words in capitals are placeholders.
fn missing_path(code: &str, paths: &BTreeSet<String>) -> Option<String> {
    let path = code.trim_end_matches('/');
    let (top, rest) = path.split_once('/')?;
    let is_pattern = rest.split(['/', '.']).any(|part| part == "NAME");
    let is_path = paths.contains(top) && path.chars().all(is_path_character) && !is_pattern;
    (is_path && !paths.contains(path)).then(|| format!("there is no {path}"))
}

fn is_path_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "./_-".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(pages: &[(&str, &str)], others: &[&str]) -> Vec<String> {
        let pages: Vec<Page> =
            pages.iter().map(|(path, text)| Page { path: (*path).into(), text: (*text).into() }).collect();
        let mut paths: BTreeSet<String> = others.iter().map(ToString::to_string).collect();
        paths.extend(pages.iter().map(|page| page.path.clone()));
        check(&pages, &paths).iter().map(ToString::to_string).collect()
    }

    const CONTENTS: (&str, &str) = ("docs/SUMMARY.md", "- [A](a.md)\n- [B](deep/b.md)\n");

    #[test]
    fn links_that_lead_somewhere_are_no_breaches() {
        let a = "# One page\n[b](deep/b.md#the-second-part) [b](#one-page) [web](https://x.org/y#z) ![p](p.svg)\n\
                 ```\n[no link](in-a-block.md)\n```\n`[none](here.md)` `lib/x/` `lib/x/NAME.rs` `/proc/stat` `run x/y`\n";
        let b = "# B\n## The `second` part!\n### Twice\n### Twice\n[a](../a.md) [t](#twice-1) [r](../../README.md)\n";
        let pages = [CONTENTS, ("docs/a.md", a), ("docs/deep/b.md", b), ("README.md", "`docs/a.md`\n")];
        assert_eq!(said(&pages, &["docs", "docs/p.svg", "lib", "lib/x"]), [""; 0]);
    }

    #[test]
    fn a_broken_link_a_broken_anchor_and_a_forgotten_page_are_breaches() {
        let a = "# A\n[b](b.md)\n[b](deep/b.md#Second)\n[a](#b)\n\nSee `docs/old.md` and `lib/x`.\n";
        let pages =
            [CONTENTS, ("docs/a.md", a), ("docs/deep/b.md", "# B\n## Second\n"), ("docs/c.md", "# C\n")];
        assert_eq!(
            said(&pages, &["docs", "lib"]),
            [
                "docs/a.md:2: the link leads to docs/b.md, which does not exist",
                "docs/a.md:3: the link leads to #Second, which is no heading of docs/deep/b.md",
                "docs/a.md:4: the link leads to #b, which is no heading of docs/a.md",
                "docs/a.md:6: there is no docs/old.md",
                "docs/a.md:6: there is no lib/x",
                "docs/c.md: the page is not in docs/SUMMARY.md",
            ]
        );
    }

    #[test]
    fn a_page_that_a_source_file_names_must_exist() {
        let text = "//! See docs/a.md.\n// docs/a.md, docs/old.md; docs/\n".into();
        let file = SourceFile { path: "lib/x/src/lib.rs".into(), text, is_test: false };
        let paths = BTreeSet::from(["docs/a.md".to_owned()]);
        let said: Vec<String> = check_source(&file, &paths).iter().map(ToString::to_string).collect();
        assert_eq!(said, ["lib/x/src/lib.rs:2: there is no docs/old.md"]);
    }
}
