//! Shell patterns for file names: `cpu*`, `run?.out`, `[a-c]*`.

use glob::MatchOptions;
use std::path::Path;

/// A `*` does not match a slash. The library's rule for hidden files would also exclude matches of `.c*`: see [`is_shown`].
const AS_A_SHELL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The files that match a pattern, sorted; none for an invalid pattern. A backslash quotes the next character. Names that are not
/// UTF-8 are left out.
#[must_use]
pub fn names_matching(pattern: &str) -> Vec<String> {
    let Ok(paths) = glob::glob_with(&for_glob(pattern), AS_A_SHELL) else { return Vec::new() };
    let name = |path: &Path| {
        let name = path.to_str()?;
        // The library drops a leading `./`.
        Some(if pattern.starts_with("./") { format!("./{name}") } else { name.to_owned() })
    };
    let mut names: Vec<String> = paths.flatten().filter_map(|path| name(&path)).collect();
    names.retain(|name| is_shown(pattern, name));
    names.sort();
    names
}

/// Whether each hidden component of a path is matched by a component of the pattern that begins with a dot.
fn is_shown(pattern: &str, name: &str) -> bool {
    pattern
        .split('/')
        .zip(name.split('/'))
        .all(|(pattern, part)| !part.starts_with('.') || pattern.starts_with('.'))
}

/// Converts a pattern for the library, which has no backslash, and where `**` means nested directories.
fn for_glob(pattern: &str) -> String {
    let mut of = String::new();
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => of += &chars.next().map(|c| glob::Pattern::escape(&c.to_string())).unwrap_or_default(),
            '*' if of.ends_with('*') => {}
            c => of.push(c),
        }
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, name: &str) -> bool {
        glob::Pattern::new(&for_glob(pattern)).unwrap().matches_with(name, AS_A_SHELL)
    }

    #[test]
    fn signs_stand_for_characters_as_in_sh() {
        for (pattern, name) in [
            ("cpu*", "cpu1.out"),
            ("*", "x"),
            ("**", "x"),
            ("*.o*t", "cpu.1.out"),
            ("run?", "run7"),
            ("[a-c]x[!0-9]", "bxz"),
            ("[]x]", "]"),
            (r"\*a", "*a"),
            (r"\ba", "ba"),
            (r"a\[", "a["),
            ("*ab", "aab"),
            ("", ""),
        ] {
            assert!(is(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("cpu*", "xcpu"),
            ("run?", "run"),
            ("[a-c]", "d"),
            ("[!a]", "a"),
            (r"\*", "x"),
            ("*.out", "out"),
            ("a", ""),
        ] {
            assert!(!is(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn files_are_named_in_order_and_hidden_ones_by_their_dot() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["cpu2.out", "cpu1.out", ".cpu", "other"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let at = |name: &str| format!("{}/{name}", dir.path().display());
        assert_eq!(names_matching(&at("cpu*")), [at("cpu1.out"), at("cpu2.out")]);
        assert_eq!(names_matching(&at(".c*")), [at(".cpu")]);
        assert!(names_matching(&at("none*")).is_empty());
        assert!(names_matching(&at("none/*")).is_empty());
        // A bracket without an end is not a valid pattern.
        assert!(names_matching(&at("cpu[")).is_empty());
    }

    #[test]
    fn fuzz_patterns() {
        millpond_fuzz::check_text("session-patterns", &["cpu*", "[!a-c]?*", r"\[x"], |text| {
            let signs: String = text.chars().take(24).collect();
            let _ =
                glob::Pattern::new(&for_glob(&signs)).map(|pattern| pattern.matches_with("abab", AS_A_SHELL));
        });
    }
}
