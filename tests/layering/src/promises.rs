//! The numbered promises of a page: checks that the named tests exist.

use crate::{Breach, SourceFile};

/// A promise: its number, its line, and the names of its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Its number on the page.
    pub number: usize,
    /// Its line, from 1.
    pub line: usize,
    /// The names without their modules.
    pub tests: Vec<String>,
}

/// Parses the numbered list of a page. Tests are in backquotes after `Test:` or `Tests:`, to the end of the item.
#[must_use]
pub fn read(page: &str) -> Vec<Promise> {
    let mut promises: Vec<Promise> = Vec::new();
    let mut is_item = false;
    for (line, text) in page.lines().enumerate() {
        let numbered = text.split_once(". ").and_then(|(number, _)| number.parse::<usize>().ok());
        if let Some(number) = numbered {
            promises.push(Promise { number, line: line + 1, tests: Vec::new() });
            is_item = true;
        } else if !text.starts_with("   ") {
            is_item = false;
        }
        let named = text.split_once("Tests: ").or_else(|| text.split_once("Test: "));
        if let (true, Some((_, names)), Some(promise)) = (is_item, named, promises.last_mut()) {
            promise.tests.extend(names.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    promises
}

/// Promises that are not numbered consecutively, name no test, or name a missing test.
#[must_use]
pub fn check(promises: &[Promise], files: &[SourceFile]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (index, promise) in promises.iter().enumerate() {
        let mut breach = |what: String| {
            breaches.push(Breach { place: format!("docs/reference/security.md:{}", promise.line), what })
        };
        if promise.number != index + 1 {
            breach(format!("promise {} is the one with number {}", promise.number, index + 1));
        }
        if promise.tests.is_empty() {
            breach(format!("promise {} names no test", promise.number));
        }
        for test in &promise.tests {
            let head = format!("fn {test}(");
            if !files.iter().any(|file| has_test(&file.text, &head)) {
                breach(format!("promise {} names the test {test}, which does not exist", promise.number));
            }
        }
    }
    breaches
}

/// Whether a text has a function with this head after `#[test]`.
fn has_test(text: &str, head: &str) -> bool {
    text.match_indices(head).any(|(at, _)| {
        let before = text[..at].trim_end_matches("pub ").trim_end();
        before.ends_with("#[test]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> SourceFile {
        SourceFile { path: "lib/x/src/lib.rs".into(), text: text.into(), is_test: false }
    }

    #[test]
    fn a_promise_without_a_test_is_a_breach() {
        let page = "# Page\n\n1. **One.** Text. Test: `holds`.\n2. **Two.**\n   Tests: `holds`, `missing`.\n4. Four\n\nTests: `holds`\n";
        let promises = read(page);
        let names = |n: usize| promises[n].tests.join(" ");
        assert_eq!((names(0), names(1), names(2)), ("holds".into(), "holds missing".into(), String::new()));
        let files = [file("    #[test]\n    fn holds() {}\n    fn missing() {}\n")];
        let said: Vec<String> = check(&promises, &files).iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "docs/reference/security.md:4: promise 2 names the test missing, which does not exist",
                "docs/reference/security.md:6: promise 4 is the one with number 3",
                "docs/reference/security.md:6: promise 4 names no test",
            ]
        );
    }
}
