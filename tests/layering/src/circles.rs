//! Cyclic imports between files of one crate.
//!
//! A file imports another file if a path in its code (`crate::…`, `super::…`, `self::…`, or a path that begins with a module that
//! it declares) leads there. A path through a re-export leads to the file that defines the item; `pub use` itself does not count
//! as an import. Tests are ignored. Paths that macros build are not detected.

use crate::{Breach, Scan, SourceFile};
use std::collections::{BTreeMap, BTreeSet};

/// The largest allowed cycle.
const FILES_MAX: usize = 4;

/// The path of a module in its crate: `["laws", "report"]`.
type Module = Vec<String>;

/// The contents of a file.
#[derive(Default)]
struct Parsed {
    /// The paths in its code.
    paths: Vec<Module>,
    /// Its re-exports, each with the original path; `*` for all items.
    exports: Vec<(String, Module)>,
    /// Items that it defines, and modules that it declares.
    defines: BTreeSet<String>,
}

/// A breach for each file in a cycle of more than four files.
#[must_use]
pub fn check(files: &[SourceFile]) -> Vec<Breach> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test && !file.path.ends_with("/tests.rs")) {
        if let Some((dir, _)) = file.path.split_once("/src/") {
            crates.entry(dir).or_default().push(file);
        }
    }
    crates.into_iter().flat_map(|(dir, files)| check_crate(dir, &files)).collect()
}

fn check_crate(dir: &str, files: &[&SourceFile]) -> Vec<Breach> {
    let places: BTreeMap<Module, usize> =
        files.iter().enumerate().map(|(at, file)| (module_of(dir, &file.path), at)).collect();
    let parsed: Vec<Parsed> = files.iter().map(|file| parse(&file.text)).collect();
    let mut imports = vec![BTreeSet::new(); files.len()];
    for (module, &from) in &places {
        for path in &parsed[from].paths {
            if let Some(path) = absolute(module, path, &parsed[from].defines)
                && let Some(to) = target(&path, &places, &parsed, 0)
                && to != from
            {
                imports[from].insert(to);
            }
        }
    }
    let circles = circles(&imports).into_iter().filter(|circle| circle.len() > FILES_MAX);
    let breaches = circles.flat_map(|circle| {
        let is_in = |to: &&usize| circle.contains(to);
        let breach = |&file: &usize| Breach {
            place: files[file].path.clone(),
            what: format!(
                "is in a circle of {} files: it imports {}",
                circle.len(),
                imports[file]
                    .iter()
                    .filter(is_in)
                    .map(|&to| &files[to].path[dir.len() + 5..])
                    .collect::<Vec<_>>()
                    .join(" ")
            ),
        };
        circle.iter().map(breach).collect::<Vec<_>>()
    });
    breaches.collect()
}

/// The module of a file: `lib/sim/src/kernel/run.rs` is `kernel::run`.
fn module_of(dir: &str, path: &str) -> Module {
    let inner = path[dir.len() + "/src/".len()..].trim_end_matches(".rs");
    let mut parts: Module = inner.split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("lib" | "main" | "mod")) {
        parts.pop();
    }
    parts
}

/// Converts a path to one from the crate root; `None` if it leaves the crate.
fn absolute(module: &Module, path: &Module, declares: &BTreeSet<String>) -> Option<Module> {
    let mut base = module.clone();
    let mut rest = path.as_slice();
    match rest.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {}
        first => return declares.contains(first).then(|| [module.as_slice(), path].concat()),
    }
    while rest.first().is_some_and(|first| first == "super") {
        base.pop();
        rest = &rest[1..];
    }
    Some([base.as_slice(), rest].concat())
}

/// The file to which a path leads, through re-exports.
fn target(
    path: &[String],
    places: &BTreeMap<Module, usize>,
    parsed: &[Parsed],
    depth: usize,
) -> Option<usize> {
    const DEPTH_MAX: usize = 8;
    let (length, at) = (0..=path.len()).rev().find_map(|n| Some((n, *places.get(&path[..n])?)))?;
    let (module, rest) = path.split_at(length);
    let Some(name) = rest.first() else { return Some(at) };
    let here = &parsed[at];
    if here.defines.contains(name) || depth == DEPTH_MAX {
        return Some(at);
    }
    let through = here.exports.iter().filter(|(exported, _)| exported == name || exported == "*");
    let found = through.filter_map(|(exported, to)| {
        let mut to = absolute(&module.to_vec(), to, &here.defines)?;
        if exported == "*" {
            to.push(name.clone());
        }
        to.extend_from_slice(&rest[1..]);
        let found = target(&to, places, parsed, depth + 1)?;
        (exported != "*" || parsed[found].defines.contains(name)).then_some(found)
    });
    Some(found.into_iter().next().unwrap_or(at))
}

/// Identifiers, `::` and single characters of the code outside tests.
fn tokens(text: &str) -> Vec<String> {
    let scan = Scan::of(text);
    let mut tokens: Vec<String> = Vec::new();
    for (_, line) in scan.code.iter().enumerate().filter(|(at, _)| !scan.is_test_line(at + 1)) {
        let mut rest = line.as_str();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            if !first.is_whitespace() {
                tokens.push(rest[..length].to_owned());
            }
            rest = &rest[length..];
        }
    }
    tokens
}

fn parse(text: &str) -> Parsed {
    let tokens = tokens(text);
    let word = |at: usize| tokens.get(at).map_or("", String::as_str);
    let is_ident = |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut parsed = Parsed::default();
    let mut at = 0;
    while at < tokens.len() {
        match word(at) {
            // Not the list of captures in a type: `impl Trait + use<'a, T>`.
            "use" if word(at + 1) != "<" => {
                let is_export = at > 0 && matches!(word(at - 1), "pub" | ")");
                let mut leaves = Vec::new();
                at = use_tree(&tokens, at + 1, &Vec::new(), &mut leaves);
                for (name, path) in leaves {
                    if is_export {
                        parsed.exports.push((name, path));
                    } else {
                        parsed.paths.push(path);
                    }
                }
            }
            "fn" | "struct" | "enum" | "const" | "static" | "type" | "trait" | "mod" | "union" => {
                if is_ident(word(at + 1)) {
                    parsed.defines.insert(word(at + 1).to_owned());
                }
                at += 1;
            }
            first if is_ident(first) && word(at + 1) == "::" && (at == 0 || word(at - 1) != "::") => {
                let mut path = vec![first.to_owned()];
                while word(at + 1) == "::" && is_ident(word(at + 2)) {
                    path.push(word(at + 2).to_owned());
                    at += 2;
                }
                parsed.paths.push(path);
                at += 1;
            }
            _ => at += 1,
        }
    }
    parsed
}

/// Parses the tree of a `use` from `at`. Adds its leaves, each with its local name, and returns the end position.
fn use_tree(tokens: &[String], mut at: usize, before: &Module, leaves: &mut Vec<(String, Module)>) -> usize {
    let mut path = before.clone();
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.as_str() {
            "::" => {}
            "{" => {
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = use_tree(tokens, at, &path, leaves);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                return at + 1;
            }
            "*" => {
                leaves.push(("*".to_owned(), path));
                return at;
            }
            "as" => {
                let name = tokens.get(at).cloned().unwrap_or_default();
                leaves.push((name, path));
                return at + 1;
            }
            "," | "}" | ";" => {
                at -= 1;
                break;
            }
            "self" if !path.is_empty() => {}
            ident => path.push(ident.to_owned()),
        }
    }
    if let Some(last) = path.last() {
        leaves.push((last.clone(), path));
    }
    at
}

/// The sets of files that import each other (strongly connected components).
fn circles(imports: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let reach: Vec<BTreeSet<usize>> = (0..imports.len())
        .map(|from| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(file) = open.pop() {
                open.extend(imports[file].iter().filter(|&&to| seen.insert(to)));
            }
            seen
        })
        .collect();
    let mut circles: Vec<Vec<usize>> = Vec::new();
    for from in 0..imports.len() {
        if !circles.iter().any(|circle| circle.contains(&from)) && reach[from].contains(&from) {
            circles.push(reach[from].iter().copied().filter(|&to| reach[to].contains(&from)).collect());
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let file = |(path, text): &(&str, &str)| SourceFile {
            path: format!("lib/a/src/{path}"),
            text: (*text).to_owned(),
            is_test: false,
        };
        let files: Vec<SourceFile> = files.iter().map(file).collect();
        check(&files).into_iter().map(|breach| breach.place).collect()
    }

    /// Five files, each of which uses the next one. `last` is the content of the last one.
    fn ring(last: &str) -> Vec<String> {
        found(&[
            ("lib.rs", "mod a; mod b; pub mod d; pub use d::{Deep, deeper::{Deepest as Bottom}};"),
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "mod c; pub fn f() { c::g(); }"),
            ("b/c.rs", "use super::super::Deep;"),
            ("d/mod.rs", "pub(crate) mod deeper; pub struct Deep; fn f() { self::deeper::x() }"),
            ("d/deeper.rs", last),
        ])
    }

    #[test]
    fn five_files_that_reach_each_other_are_found_by_each_kind_of_path() {
        let all = ["a.rs", "b/c.rs", "b/mod.rs", "d/deeper.rs", "d/mod.rs"].map(|f| format!("lib/a/src/{f}"));
        for last in [
            "use crate::a::A;",
            "fn f() { crate::a::f() }",
            "use super::super::{a::{A, C}, e};",
            "use crate::{a};",
        ] {
            let mut found = ring(last);
            found.sort();
            assert_eq!(found, all, "{last}");
        }
    }

    #[test]
    fn a_chain_is_no_circle_and_neither_are_signposts_and_tests() {
        for last in [
            "",
            "use std::a::A;",
            "fn f() -> impl Fn() + use<> { a(); b() }",
            "fn f<'a>() -> impl Iterator<Item = &'a A> + use<'a> { a(); b() }",
            "pub use crate::a::A;",
            "// crate::a::A\nconst A: &str = \"crate::a\";",
            "#[cfg(test)]\nmod tests { use crate::a::A; }",
        ] {
            assert_eq!(ring(last), [""; 0], "{last}");
        }
    }

    #[test]
    fn four_files_may_reach_each_other() {
        let four = |d: &str| {
            found(&[
                ("a.rs", "use crate::b;"),
                ("b.rs", "use crate::c;"),
                ("c.rs", "use crate::d;"),
                ("d.rs", d),
            ])
        };
        assert_eq!(four("use crate::a;"), [""; 0]);
    }
}
