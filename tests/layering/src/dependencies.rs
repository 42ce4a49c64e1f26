//! Every external dependency has a line with its reason in `docs/reference/dependencies.md`.

use crate::Breach;
use crate::arrows::Metadata;
use std::collections::{BTreeMap, BTreeSet};

/// The page, relative to the workspace.
pub const PAGE: &str = "docs/reference/dependencies.md";

/// Dependencies without a reason, and lines of crates without dependents.
#[must_use]
pub fn check(metadata: &Metadata, page: &str) -> Vec<Breach> {
    let reasons = read(page);
    let others = metadata.packages.iter().flat_map(|package| &package.dependencies);
    let used: BTreeSet<&str> =
        others.filter(|other| other.path.is_none()).map(|other| other.name.as_str()).collect();
    let breach = |what: String| Breach { place: PAGE.to_owned(), what };
    let lacking = used.iter().filter(|name| reasons.get(*name).is_none_or(|reason| reason.is_empty()));
    let mut breaches: Vec<Breach> =
        lacking.map(|name| breach(format!("`{name}` has no line with a reason"))).collect();
    let unused = reasons.keys().filter(|name| !used.contains(*name));
    breaches.extend(unused.map(|name| breach(format!("no crate depends on `{name}`"))));
    breaches
}

/// The rows of the page: the crate in backquotes, and the reason.
fn read(page: &str) -> BTreeMap<&str, &str> {
    page.lines()
        .filter_map(|line| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
            Some((name, rest.trim_end_matches('|').trim()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrows::{Dependency, Package};

    fn said(page: &str) -> Vec<String> {
        let dependency = |name: &str, path: Option<&str>| Dependency {
            name: name.into(),
            path: path.map(str::to_owned),
            ..Dependency::default()
        };
        let package = Package {
            name: "millpond-cmd".into(),
            manifest_path: "/w/cmd/Cargo.toml".into(),
            dependencies: vec![dependency("serde", None), dependency("millpond-model", Some("/w/lib/model"))],
            ..Package::default()
        };
        let metadata = Metadata { packages: vec![package], workspace_root: "/w".into() };
        check(&metadata, page).iter().map(|breach| breach.what.clone()).collect()
    }

    #[test]
    fn a_dependency_with_a_reason_is_no_breach() {
        assert_eq!(said("| crate | reason |\n|---|---|\n| `serde` | types as text |\n"), [""; 0]);
    }

    #[test]
    fn a_dependency_without_a_reason_and_a_line_without_a_dependency_are_breaches() {
        let lacking = "`serde` has no line with a reason";
        assert_eq!(said(""), [lacking]);
        assert_eq!(said("| `serde` | |\n"), [lacking]);
        assert_eq!(said("| `serde` | types as text |\n| `rand` | dice |\n"), ["no crate depends on `rand`"]);
    }
}
