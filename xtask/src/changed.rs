//! `--changed`: crates with files that differ from the main branch, and their dependents, nearest first.
//!
//! Cargo selects the features of libraries by all crates of one build. So the build is that of a Makefile target, and not one of
//! only the changed crates: after `make test` only changed crates and their dependents are compiled. Tests of other crates do not
//! run.

use crate::cargo::{BuildError, rt_manifest};
use crate::matrix::{metadata, rt_metadata};
use crate::suite::Suite;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate whose tests must run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Its name.
    pub package: String,
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it belongs to the workspace in `rt/`.
    pub is_rt: bool,
    /// Whether it is a default member of the other workspace.
    pub is_default: bool,
    /// Number of dependencies between it and a crate with a changed file; 0 for that crate itself.
    pub distance: usize,
}

/// A crate of either workspace, with the names of its dependencies.
struct Crate {
    package: String,
    dir: PathBuf,
    is_rt: bool,
    is_default: bool,
    needs: Vec<String>,
}

/// A run of cargo: the manifest, if it is not that of the root, and the selection.
pub type Build = (Option<&'static Path>, Vec<&'static str>);

/// The crate that checks files outside crates: pages, the Makefile, units.
const HOUSE: &str = "millpond-layering";

/// Crates with tests that compare pages in `docs/` with the output of programs.
const READERS: [&str; 2] = ["millpond", "millpond-golden"];

/// Files in a workspace's directory that affect all of its crates.
const BUILD: [&str; 3] = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"];

/// The distance of a crate; the largest number if it is not in the list.
#[must_use]
pub fn distance(changed: &[Changed], dir: &Path) -> usize {
    changed.iter().find(|one| one.dir == dir).map_or(usize::MAX, |one| one.distance)
}

/// Whether a suite builds a crate of the root workspace.
fn is_built(suite: Suite, one: &Changed) -> bool {
    suite.build_arguments().is_some_and(|arguments| match arguments[..] {
        [] => one.is_default,
        ["--workspace"] => true,
        _ => arguments.contains(&one.package.as_str()),
    })
}

/// The builds for changed crates: that of the suite and, for `make test`, those of other suites with a changed crate that it does
/// not build. Also returns the crates of other suites that only depend on a changed one; their tests are not built.
#[must_use]
pub fn builds(changed: &[Changed], suite: Suite) -> (Vec<Build>, Vec<(&Changed, Suite)>) {
    let of_root = || changed.iter().filter(|one| !one.is_rt);
    let mut suites = Vec::new();
    if of_root().any(|one| is_built(suite, one)) {
        suites.push(suite);
    }
    if suite == Suite::Commit {
        for one in of_root().filter(|one| one.distance == 0) {
            if !suites.iter().any(|suite| is_built(*suite, one)) {
                suites.extend(Suite::NAMED.into_iter().find(|suite| is_built(*suite, one)));
            }
        }
    }
    let mut left = Vec::new();
    for one in of_root().filter(|one| !suites.iter().any(|suite| is_built(*suite, one))) {
        let other = Suite::NAMED.into_iter().find(|suite| is_built(*suite, one));
        left.extend(other.map(|suite| (one, suite)));
    }
    let mut builds: Vec<Build> =
        suites.iter().filter_map(|suite| Some((None, suite.build_arguments()?))).collect();
    if changed.iter().any(|one| one.is_rt) {
        builds.push((Some(rt_manifest()), vec!["--workspace"]));
    }
    (builds, left)
}

/// The crates to test, nearest first.
///
/// # Errors
/// [`BuildError::Start`] when git cannot compare the tree with the main branch.
pub fn packages() -> Result<Vec<Changed>, BuildError> {
    let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?.trim());
    let mut crates = Vec::new();
    for (is_rt, metadata) in [(false, metadata()), (true, rt_metadata())] {
        crates.extend(metadata.packages.iter().map(|package| Crate {
            package: package.name.clone(),
            dir: package.manifest_path.parent().unwrap_or(Path::new("")).to_path_buf(),
            is_rt,
            is_default: metadata.is_default(package),
            needs: package.dependencies.iter().map(|needed| needed.name.clone()).collect(),
        }));
    }
    let files: Vec<PathBuf> = changed_files()?.iter().map(|file| root.join(file)).collect();
    let found = affected(&crates, &files, &root);
    let names: Vec<_> = found.iter().map(|one| format!("{} ({})", one.package, one.distance)).collect();
    println!("changed, with the distance from a changed crate: {}", names.join(", "));
    Ok(found)
}

/// Files that differ from the branch `origin/main`, or `main` without such a branch, and untracked files.
fn changed_files() -> Result<Vec<String>, BuildError> {
    let base = ["origin/main", "main"].into_iter().find_map(|name| git(&["merge-base", name, "HEAD"]).ok());
    let base = base.ok_or_else(|| io::Error::other("there is no branch `main` to compare with"))?;
    let differing = git(&["diff", "--name-only", "-z", base.trim()])?;
    let new = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let names = differing.split('\0').chain(new.split('\0'));
    Ok(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn git(words: &[&str]) -> Result<String, BuildError> {
    let output = Command::new("git").args(words).output()?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(io::Error::other(format!("git {}: {why}", words.join(" "))).into())
    }
}

fn affected(crates: &[Crate], files: &[PathBuf], root: &Path) -> Vec<Changed> {
    let mut distances: BTreeMap<&str, usize> = BTreeMap::new();
    for file in files {
        for (is_rt, dir) in [(false, root.to_path_buf()), (true, root.join("rt"))] {
            if BUILD.iter().any(|build| *file == dir.join(build)) {
                let members = crates.iter().filter(|one| one.is_rt == is_rt);
                distances.extend(members.map(|one| (one.package.as_str(), 0)));
            }
        }
        if file.starts_with(root.join("docs")) {
            distances.extend(READERS.map(|reader| (reader, 0)));
        }
        let holding = crates.iter().filter(|one| file.starts_with(&one.dir));
        let innermost = holding.max_by_key(|one| one.dir.components().count());
        distances.insert(innermost.map_or(HOUSE, |one| one.package.as_str()), 0);
    }
    let mut distance = 0;
    loop {
        let is_reached = |one: &&Crate| {
            !distances.contains_key(one.package.as_str())
                && one.needs.iter().any(|needed| distances.get(needed.as_str()) == Some(&distance))
        };
        let next: Vec<&str> = crates.iter().filter(is_reached).map(|one| one.package.as_str()).collect();
        if next.is_empty() {
            break;
        }
        distance += 1;
        distances.extend(next.into_iter().map(|name| (name, distance)));
    }
    let mut found: Vec<Changed> = crates
        .iter()
        .filter_map(|one| {
            let distance = *distances.get(one.package.as_str())?;
            Some(Changed {
                package: one.package.clone(),
                dir: one.dir.clone(),
                is_rt: one.is_rt,
                is_default: one.is_default,
                distance,
            })
        })
        .collect();
    found.sort_by_key(|one| one.distance);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Vec<Crate> {
        let one = |package: &str, dir: &str, needs: &[&str]| Crate {
            package: package.into(),
            dir: dir.into(),
            is_rt: dir.starts_with("/w/rt"),
            is_default: !dir.starts_with("/w/rt") && package != "millpond-controller",
            needs: needs.iter().map(|&name| name.to_owned()).collect(),
        };
        vec![
            one("model", "/w/lib/model", &["serde"]),
            one("formats", "/w/lib/formats", &["model"]),
            one("cmd", "/w/cmd", &["formats", "model"]),
            one("millpond", "/w/bin", &["cmd"]),
            one("rt", "/w/rt/rt", &[]),
            one("millpond-controller", "/w/svc/controller", &["model"]),
            one(HOUSE, "/w/tests/layering", &[]),
        ]
    }

    fn names(files: &[&str]) -> Vec<(String, usize)> {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        affected(&tree(), &files, Path::new("/w"))
            .into_iter()
            .map(|one| (one.package, one.distance))
            .collect()
    }

    #[test]
    fn dependents_follow_the_changed_crate() {
        let expected = [("formats", 0), ("cmd", 1), ("millpond", 2)].map(|(name, n)| (name.to_owned(), n));
        assert_eq!(names(&["/w/lib/formats/src/lib.rs"]), expected);
        let expected =
            [("model", 0), ("formats", 1), ("cmd", 1), ("millpond-controller", 1), ("millpond", 2)]
                .map(|(name, n)| (name.to_owned(), n));
        assert_eq!(names(&["/w/lib/model/Cargo.toml"]), expected);
    }

    #[test]
    fn a_file_outside_of_crates_is_checked_by_the_house() {
        assert_eq!(names(&["/w/Makefile"]), [(HOUSE.to_owned(), 0)]);
        assert_eq!(names(&[]), []);
    }

    #[test]
    fn pages_are_compared_with_programs_and_a_new_build_tests_everything() {
        let found = names(&["/w/docs/reference/commands/psrset.md"]);
        assert_eq!(found, [("millpond".to_owned(), 0), (HOUSE.to_owned(), 0)]);
        let all_but_rt = ["model", "formats", "cmd", "millpond", "millpond-controller", HOUSE]
            .map(|name| (name.to_owned(), 0));
        assert_eq!(names(&["/w/Cargo.lock"]), all_but_rt);
        assert_eq!(names(&["/w/rt/Cargo.lock"]), [("rt".to_owned(), 0), (HOUSE.to_owned(), 0)]);
    }

    /// The arguments of each build in the root workspace, whether `rt` is built, and the omitted crates.
    fn selected(files: &[&str], suite: Suite) -> (Vec<String>, bool, Vec<(String, Suite)>) {
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        let changed = affected(&tree(), &files, Path::new("/w"));
        let (builds, left) = builds(&changed, suite);
        let of_root = builds.iter().filter(|(manifest, _)| manifest.is_none());
        let has_rt = builds.contains(&(Some(rt_manifest()), vec!["--workspace"]));
        assert_eq!(of_root.clone().count() + usize::from(has_rt), builds.len());
        (
            of_root.map(|(_, arguments)| arguments.join(" ")).collect(),
            has_rt,
            left.into_iter().map(|(one, suite)| (one.package.clone(), suite)).collect(),
        )
    }

    #[test]
    fn the_build_is_that_of_the_suite() {
        let cluster = "--package millpond-controller --package millpond-node-tests --package millpond-benches --package millpond";
        let controller = [("millpond-controller".to_owned(), Suite::Cluster)];
        let commit = |files: &[&str]| selected(files, Suite::Commit);
        assert_eq!(commit(&["/w/lib/formats/src/lib.rs"]), (vec![String::new()], false, vec![]));
        assert_eq!(commit(&["/w/lib/model/src/lib.rs"]), (vec![String::new()], false, controller.to_vec()));
        assert_eq!(commit(&[]), (vec![], false, vec![]));
        // A changed crate is tested in the build of its own suite.
        assert_eq!(commit(&["/w/svc/controller/src/main.rs"]), (vec![cluster.into()], false, vec![]));
        let files = ["/w/lib/formats/src/lib.rs", "/w/svc/controller/src/main.rs"];
        assert_eq!(commit(&files), (vec![String::new(), cluster.into()], false, vec![]));
        let found = selected(&["/w/lib/model/src/lib.rs"], Suite::Cluster);
        assert_eq!(found.0, [cluster]);
        assert_eq!(selected(&["/w/lib/model/src/lib.rs"], Suite::All).0, ["--workspace"]);
    }

    #[test]
    fn the_libraries_for_real_time_programs_are_built_as_a_whole() {
        assert_eq!(selected(&["/w/rt/rt/src/lib.rs"], Suite::Commit), (vec![], true, vec![]));
        let both = ["/w/rt/rt/src/lib.rs", "/w/lib/formats/src/lib.rs"];
        assert_eq!(selected(&both, Suite::Commit), (vec![String::new()], true, vec![]));
    }
}
