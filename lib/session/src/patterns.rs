//! Patterns for names of files, as a shell expands them: `cpu*`, `run?.out`, `[a-c]*`.

use std::path::Path;

/// The files that a pattern names, in order; none where there is none. Directories in front are taken as they are. A backslash takes
/// its meaning from a sign.
#[must_use]
pub fn names_matching(pattern: &str) -> Vec<String> {
    let at = pattern.rfind('/').map_or(0, |slash| slash + 1);
    let (dir, last) = pattern.split_at(at);
    let dir = dir.replace('\\', "");
    let Ok(entries) = std::fs::read_dir(if dir.is_empty() { Path::new(".") } else { Path::new(&dir) }) else {
        return Vec::new();
    };
    let wanted: Vec<char> = last.chars().collect();
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let hidden = name.starts_with('.') && !last.starts_with('.');
        (!hidden && matches(&wanted, &name.chars().collect::<Vec<_>>())).then(|| format!("{dir}{name}"))
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Whether a name is one of those that a pattern stands for.
fn matches(pattern: &[char], name: &[char]) -> bool {
    // Where the last star stands, and how much of the name it has.
    let (mut p, mut n, mut star) = (0, 0, None);
    loop {
        if pattern.get(p) == Some(&'*') {
            star = Some((p + 1, n));
            p += 1;
            continue;
        }
        if n == name.len() && p == pattern.len() {
            return true;
        }
        match name.get(n).and_then(|c| one(&pattern[p..], *c)) {
            Some(taken) => (p, n) = (p + taken, n + 1),
            // The star takes one character more.
            None => match star {
                Some((behind, had)) if had < name.len() => {
                    star = Some((behind, had + 1));
                    (p, n) = (behind, had + 1);
                }
                _ => return false,
            },
        }
    }
}

/// How many signs of the pattern stand for a character, if they do.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', sign, ..] => (*sign == c).then_some(2),
        ['[', rest @ ..] => match class(rest) {
            Some((members, length)) => {
                let (not, members) = match members {
                    ['!', members @ ..] => (true, members),
                    members => (false, members),
                };
                (has(members, c) != not).then_some(length + 1)
            }
            None => (c == '[').then_some(1),
        },
        [sign, ..] => (*sign == c).then_some(1),
        [] => None,
    }
}

/// The members of a class behind its `[`, and how many signs it has. A `]` at its beginning is a member.
fn class(rest: &[char]) -> Option<(&[char], usize)> {
    let first = usize::from(rest.first() == Some(&'!')) + 1;
    let end = rest.iter().skip(first).position(|c| *c == ']')? + first;
    Some((&rest[..end], end + 1))
}

fn has(members: &[char], c: char) -> bool {
    match members {
        [from, '-', to, rest @ ..] => (*from..=*to).contains(&c) || has(rest, c),
        [one, rest @ ..] => *one == c || has(rest, c),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(pattern: &str, name: &str) -> bool {
        matches(&pattern.chars().collect::<Vec<_>>(), &name.chars().collect::<Vec<_>>())
    }

    #[test]
    fn signs_stand_for_characters_as_in_sh() {
        for (pattern, name) in [
            ("cpu*", "cpu1.out"),
            ("*", "x"),
            ("*.o*t", "cpu.1.out"),
            ("run?", "run7"),
            ("[a-c]x[!0-9]", "bxz"),
            ("[]x]", "]"),
            (r"\*a", "*a"),
            ("a[", "a["),
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
    }

    #[test]
    fn fuzz_patterns() {
        millpond_fuzz::check_text("session-patterns", &["cpu*", "[!a-c]?*", r"\[x"], |text| {
            let signs: Vec<char> = text.chars().take(24).collect();
            let _ = matches(&signs, &['a', 'b', 'a', 'b']);
        });
    }
}
