//! Breaches that are known and go one by one: a number for each file, which may only shrink.
//!
//! The numbers stand in `tests/layering/baseline`, one file for each part of the tree, so that changes in different parts do not
//! meet. A line is a check, a path and a number. A file with more breaches than its number fails the test, and so does a number that
//! is larger than what is there. `cargo run -p millpond-layering -- --rewrite` writes the numbers of today, unless their sum grew.

use crate::{Breach, House, circles, reexports, words};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What mends a number that is out of date.
const REWRITE: &str = "cargo run -p millpond-layering -- --rewrite";

/// A check whose breaches are counted.
type Check = &'static str;

/// Breaches of the counted checks, by check and path.
pub type Found = BTreeMap<(Check, String), Vec<Breach>>;

/// Numbers, by check and path.
pub type Numbers = BTreeMap<(Check, String), usize>;

const CHECKS: [Check; 3] = ["circle", "re-export", "words"];

/// Runs the counted checks.
#[must_use]
pub fn find(house: &House) -> Found {
    let of_files = house.files.iter().flat_map(words::check);
    let of_pages = house.pages.iter().flat_map(words::check_page);
    let [circle, re_export, words] = CHECKS;
    let all = circles::check(&house.files)
        .into_iter()
        .map(|breach| (circle, breach))
        .chain(reexports::check(&house.metadata, &house.files).into_iter().map(|breach| (re_export, breach)))
        .chain(of_files.chain(of_pages).map(|breach| (words, breach)));
    let mut found = Found::new();
    for (check, breach) in all {
        let file = breach.place.split(':').next().unwrap_or_default();
        // Circles are counted by crate: a file in one cannot leave it alone.
        let path = if check == circle { file.split("/src/").next().unwrap_or(file) } else { file };
        found.entry((check, path.to_owned())).or_default().push(breach);
    }
    found
}

/// The number of each breach.
#[must_use]
pub fn count(found: &Found) -> Numbers {
    found.iter().map(|(key, breaches)| (key.clone(), breaches.len())).collect()
}

/// Where the breaches are more than the numbers allow, and numbers that are larger than what is there.
#[must_use]
pub fn compare(found: &Found, allowed: &Numbers) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (key, here) in found {
        let number = allowed.get(key).copied().unwrap_or(0);
        if here.len() > number {
            let what = format!("{} breaches of `{}`, {number} allowed:", here.len(), key.0);
            breaches.push(Breach { place: key.1.clone(), what });
            breaches.extend(here.iter().cloned());
        }
    }
    for (key, &number) in allowed {
        let here = found.get(key).map_or(0, Vec::len);
        if here < number {
            let what = format!("{here} breaches of `{}`, {number} allowed: {REWRITE}", key.0);
            breaches.push(Breach { place: key.1.clone(), what });
        }
    }
    breaches
}

/// Where the numbers of a workspace stand.
#[must_use]
pub fn directory(root: &Path) -> PathBuf {
    root.join("tests/layering/baseline")
}

/// Reads the numbers.
///
/// # Errors
/// The system's reason, or the line that is not understood.
pub fn read(root: &Path) -> io::Result<Numbers> {
    let mut numbers = Numbers::new();
    for entry in fs::read_dir(directory(root))? {
        let path = entry?.path();
        for line in fs::read_to_string(&path)?.lines() {
            let (key, number) = parse(line).ok_or_else(|| {
                io::Error::other(format!("{}: not a check, a path and a number: {line}", path.display()))
            })?;
            numbers.insert(key, number);
        }
    }
    Ok(numbers)
}

/// `words README.md 3`.
fn parse(line: &str) -> Option<((Check, String), usize)> {
    let (rest, number) = line.rsplit_once(' ')?;
    let (name, path) = rest.split_once(' ')?;
    let check = CHECKS.into_iter().find(|check| *check == name)?;
    Some(((check, path.to_owned()), number.parse().ok()?))
}

/// Writes the numbers in place of those that were there.
///
/// # Errors
/// The system's reason, or which sum would grow.
pub fn rewrite(root: &Path, numbers: &Numbers) -> io::Result<()> {
    let dir = directory(root);
    if dir.exists() {
        if let Some(check) = grown(&read(root)?, numbers) {
            return Err(io::Error::other(format!(
                "there are more breaches of `{check}` than before; mend the new ones"
            )));
        }
        fs::remove_dir_all(&dir)?;
    }
    fs::create_dir_all(&dir)?;
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for ((check, path), number) in numbers {
        *texts.entry(part(path)).or_default() += &format!("{check} {path} {number}\n");
    }
    texts.iter().try_for_each(|(part, text)| fs::write(dir.join(part), text))
}

/// The check whose sum grows.
fn grown(before: &Numbers, after: &Numbers) -> Option<Check> {
    let sum = |numbers: &Numbers, check: Check| -> usize {
        numbers.iter().filter(|((of, _), _)| *of == check).map(|(_, number)| number).sum()
    };
    CHECKS.into_iter().find(|check| sum(after, check) > sum(before, check))
}

/// The part of the tree to which a path belongs: `lib-sim`, `cmd`, `README.md`.
fn part(path: &str) -> String {
    let mut parts = path.split('/');
    let top = parts.next().unwrap_or_default();
    match (top, parts.next()) {
        ("lib" | "rt" | "lab" | "svc" | "tests" | "cmd", Some(second)) if second != "src" => {
            format!("{top}-{second}")
        }
        _ => top.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str]) -> Found {
        let mut found = Found::new();
        for place in lines {
            let path = place.split(':').next().unwrap().to_owned();
            let breach = Breach { place: (*place).to_owned(), what: "no".into() };
            found.entry((CHECKS[2], path)).or_default().push(breach);
        }
        found
    }

    fn numbers(lines: &[&str]) -> Numbers {
        lines.iter().map(|line| parse(line).unwrap()).collect()
    }

    fn said(found: &Found, allowed: &Numbers) -> Vec<String> {
        compare(found, allowed).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_number_of_today_is_right_and_no_other() {
        let here = found(&["a.rs:1", "a.rs:2"]);
        assert_eq!(said(&here, &numbers(&["words a.rs 2"])), [""; 0]);
        assert_eq!(
            said(&here, &numbers(&["words a.rs 1"])),
            ["a.rs: 2 breaches of `words`, 1 allowed:", "a.rs:1: no", "a.rs:2: no"]
        );
        assert_eq!(
            said(&here, &numbers(&["words a.rs 2", "words b.rs 1"])),
            [format!("b.rs: 0 breaches of `words`, 1 allowed: {REWRITE}")]
        );
        assert_eq!(said(&here, &numbers(&["circle a.rs 2"])).len(), 4);
    }

    #[test]
    fn a_number_moves_with_its_file_but_no_sum_grows() {
        let before = numbers(&["words a.rs 2", "circle a.rs 1"]);
        assert_eq!(grown(&before, &numbers(&["words b/c.rs 1", "words b.rs 1", "circle a.rs 1"])), None);
        assert_eq!(grown(&before, &numbers(&["words b.rs 2", "circle a.rs 2"])), Some("circle"));
    }

    #[test]
    fn a_line_that_is_no_number_is_refused() {
        for line in ["words a.rs", "words a.rs x", "sounds a.rs 1", ""] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn parts_of_the_tree_have_their_own_files() {
        let parts = ["lib/sim/src/a.rs", "cmd/src/a.rs", "cmd/tests/a.rs", "README.md", "docs/a/b"].map(part);
        assert_eq!(parts, ["lib-sim", "cmd", "cmd-tests", "README.md", "docs"]);
    }
}
