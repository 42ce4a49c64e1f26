//! The map of rooms: the allowed dependencies between crates.
//!
//! ```text
//! model ◀ cli formats machine planner report ◀ linux sim pools observe umem ◀ session ◀ experiments collect screen ◀ cmd svc ◀ bin
//!         workloads ◀ sim experiments cmd        bpf ◀ linux        rt-layout unwind ◀ rt ◀ rt-malloc: libc alone
//!         rules ◀ bpf linux, tests of sim                          rt-layout ◀ umem
//! ```
//!
//! A room may depend on every room in a column to its left, and on none of its own column. Further rules: only `session` depends
//! on `linux` and `sim`, because it knows which machines exist. Only `linux` depends on `bpf`, and only `bpf` uses libbpf.
//! `workloads`, `rules` and `rt` depend on no other room, and `bpf` only on `rules`. Crates under `tests/` and `benches/`, and
//! `xtask`, may depend on everything, and no room may depend on them. `fuzz` depends on no room, and all tests may use it.

use crate::Breach;
use serde::Deserialize;
use std::path::Path;

/// The used parts of `cargo metadata --no-deps`.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Metadata {
    /// The crates of the workspaces.
    pub packages: Vec<Package>,
    /// The root of the outer workspace.
    pub workspace_root: String,
}

/// One crate.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The path of its manifest.
    pub manifest_path: String,
    /// Its dependencies, of all kinds and for all targets.
    pub dependencies: Vec<Dependency>,
    /// Where it may be published: nowhere if the list is empty, anywhere if there is no list.
    pub publish: Option<Vec<String>>,
    /// Its description, in one sentence.
    pub description: Option<String>,
    /// Its licences, as an SPDX expression.
    pub license: Option<String>,
    /// The oldest supported compiler.
    pub rust_version: Option<String>,
    /// Keywords for searches.
    pub keywords: Vec<String>,
    /// Categories of the registry.
    pub categories: Vec<String>,
}

/// A dependency.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Dependency {
    /// The crate's own name, even if it is renamed.
    pub name: String,
    /// The accepted versions: `*` if the manifest has none.
    pub req: String,
    /// Its path, for a crate of the workspace.
    pub path: Option<String>,
    /// `dev`, `build`, or nothing for a normal dependency.
    pub kind: Option<String>,
}

/// The columns of the map, from left to right.
const COLUMNS: [&[&str]; 8] = [
    &["model"],
    &["cli", "formats", "machine", "planner", "report", "member"],
    &["linux", "sim", "pools", "observe", "umem", "member-c"],
    &["store"],
    &["session"],
    &["experiments", "collect", "screen"],
    &["cmd", "svc"],
    &["bin"],
];

/// Rooms on which only the listed rooms may depend.
const KNOWN_ONLY_BY: [(&str, &[&str]); 11] = [
    ("rt-layout", &["rt", "rt-malloc", "umem"]),
    ("unwind", &["rt"]),
    ("rt", &["rt-malloc"]),
    ("linux", &["session"]),
    ("sim", &["session"]),
    ("bpf", &["linux"]),
    ("rules", &["bpf", "linux"]),
    ("workloads", &["sim", "experiments", "cmd"]),
    ("member", &["member-c", "session", "cmd", "svc"]),
    ("member-c", &[]),
    ("nri", &["svc"]),
];

/// Rooms that depend on no other room of the tree, except as [`KNOWN_ONLY_BY`] allows.
const ISLANDS: [&str; 9] =
    ["workloads", "bpf", "rules", "nri", "rt-layout", "unwind", "rt", "rt-malloc", INSTRUMENT];

/// Rooms whose tests compare it with another room, and that room.
const COMPARED_BY: [(&str, &str); 1] = [("sim", "rules")];

/// The fuzzing harness. All tests may use it, and no product.
const INSTRUMENT: &str = "fuzz";

/// Top directories of crates that test or build the others.
const OUTSIDE: [&str; 3] = ["tests", "benches", "xtask"];

/// All dependencies that the map does not allow.
#[must_use]
pub fn check(metadata: &Metadata) -> Vec<Breach> {
    let root = Path::new(&metadata.workspace_root);
    let mut breaches = Vec::new();
    for package in &metadata.packages {
        let dir = Path::new(&package.manifest_path).parent().unwrap_or(root);
        let Some(from) = room(root, dir) else { continue };
        if !is_on_the_map(from) && !OUTSIDE.contains(&from) {
            breaches
                .push(Breach { place: package.name.clone(), what: format!("the map has no room `{from}`") });
        }
        for dependency in &package.dependencies {
            let forbidden = match dependency.path.as_deref().and_then(|path| room(root, Path::new(path))) {
                Some(to) if dependency.kind.as_deref() == Some("dev") && is_for_tests(from, to) => false,
                Some(to) => !may_know(from, to),
                None => !may_use(from, &dependency.name),
            };
            if forbidden {
                let kind = dependency.kind.as_deref().map(|kind| format!(" ({kind})")).unwrap_or_default();
                let what = format!("must not depend on {}{kind}", dependency.name);
                breaches.push(Breach { place: package.name.clone(), what });
            }
        }
    }
    breaches.sort();
    breaches
}

/// A crate of the workspace and its place on the map.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    /// Its room.
    pub room: &'a str,
    /// The name of the crate.
    pub package: &'a str,
    /// Its directory under the root.
    pub dir: &'a str,
    /// The dependencies of its product.
    pub knows: Vec<&'a str>,
}

/// All crates with their rooms.
pub(crate) fn rooms<'a>(metadata: &'a Metadata) -> Vec<Room<'a>> {
    let root = Path::new(&metadata.workspace_root);
    let place = |package: &'a Package| {
        let dir = Path::new(&package.manifest_path).parent()?;
        let products = package.dependencies.iter().filter(|dependency| dependency.kind.is_none());
        Some(Room {
            room: room(root, dir)?,
            package: &package.name,
            dir: dir.strip_prefix(root).ok()?.to_str()?,
            knows: products.map(|dependency| dependency.name.as_str()).collect(),
        })
    };
    metadata.packages.iter().filter_map(place).collect()
}

/// The room in `dir`: `lib/model` is `model`, `rt/unwind` is `unwind`, everything below `bin` is `bin`.
fn room<'a>(root: &Path, dir: &'a Path) -> Option<&'a str> {
    let mut parts = dir.strip_prefix(root).ok()?.iter().map(|part| part.to_str().unwrap_or_default());
    match parts.next()? {
        "lib" | "rt" | "lab" => parts.next(),
        first => Some(first),
    }
}

fn column(room: &str) -> Option<usize> {
    COLUMNS.iter().position(|rooms| rooms.contains(&room))
}

fn is_on_the_map(room: &str) -> bool {
    column(room).is_some() || ISLANDS.contains(&room)
}

/// Whether the room `from` may depend on the room `to`.
pub(crate) fn may_know(from: &str, to: &str) -> bool {
    if OUTSIDE.contains(&from) {
        return true;
    }
    if OUTSIDE.contains(&to) {
        return false;
    }
    if let Some((_, knowers)) = KNOWN_ONLY_BY.iter().find(|(room, _)| *room == to) {
        return knowers.contains(&from);
    }
    if ISLANDS.contains(&from) {
        return false;
    }
    matches!((column(from), column(to)), (Some(from), Some(to)) if from > to)
}

/// Whether the tests of the room `from` may depend on the room `to`, even if its product may not.
fn is_for_tests(from: &str, to: &str) -> bool {
    to == INSTRUMENT || COMPARED_BY.contains(&(from, to))
}

/// Whether the room `from` may depend on the external crate `name`.
fn may_use(from: &str, name: &str) -> bool {
    match (from, name) {
        ("bpf", _) => true,
        (_, "libbpf-rs" | "libbpf-sys" | "libbpf-cargo") => false,
        (_, "kube" | "k8s-openapi") => from == "svc",
        // Loom replaces the atomics in builds that test every order of threads, and nothing else.
        ("unwind", name) => name == "libc",
        ("rt" | "rt-layout" | "rt-malloc", name) => matches!(name, "libc" | "loom"),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_name(path: &str) -> String {
        format!("millpond-{}", path.rsplit('/').next().unwrap())
    }

    /// `lib/model`, `dev:lib/model`, `@serde` or `dev:@serde`.
    fn dependency(arrow: &str) -> Dependency {
        let (kind, to) = match arrow.split_once(':') {
            Some((kind, to)) => (Some(kind.to_owned()), to),
            None => (None, arrow),
        };
        match to.strip_prefix('@') {
            Some(foreign) => Dependency { name: foreign.to_owned(), kind, ..Dependency::default() },
            None => Dependency {
                name: crate_name(to),
                path: Some(format!("/w/{to}")),
                kind,
                ..Dependency::default()
            },
        }
    }

    /// A workspace in `/w` with rooms at the given paths, each with its dependencies.
    fn house(rooms: &[(&str, &[&str])]) -> Metadata {
        let package = |(path, arrows): &(&str, &[&str])| Package {
            name: crate_name(path),
            manifest_path: format!("/w/{path}/Cargo.toml"),
            dependencies: arrows.iter().map(|arrow| dependency(arrow)).collect(),
            ..Package::default()
        };
        Metadata { packages: rooms.iter().map(package).collect(), workspace_root: "/w".into() }
    }

    fn breaches(rooms: &[(&str, &[&str])]) -> Vec<String> {
        check(&house(rooms)).iter().map(ToString::to_string).collect()
    }

    /// A workspace in which the map allows every dependency.
    const SOUND: &[(&str, &[&str])] = &[
        ("fuzz", &["@libfuzzer-sys"]),
        ("lib/model", &["@serde", "dev:fuzz"]),
        ("lib/formats", &["lib/model"]),
        ("lib/machine", &["lib/model"]),
        ("lib/report", &["lib/model"]),
        ("lib/rules", &["build:@cc", "dev:@proptest"]),
        ("lib/bpf", &["@libbpf-rs", "lib/rules"]),
        ("lab/workloads", &["@libc"]),
        ("rt/rt-layout", &[]),
        ("rt/unwind", &["@libc", "dev:fuzz"]),
        ("rt/rt", &["@libc", "rt/rt-layout", "rt/unwind"]),
        ("rt/rt-malloc", &["@libc", "rt/rt"]),
        ("lib/umem", &["rt/rt-layout", "lib/machine"]),
        ("lib/linux", &["lib/machine", "lib/formats", "lib/bpf", "lib/rules", "dev:@tempfile"]),
        ("lib/sim", &["lib/machine", "lab/workloads", "dev:lib/rules"]),
        ("lib/observe", &["lib/model", "lib/report"]),
        ("lib/member", &["lib/model"]),
        ("lib/member-c", &["lib/member"]),
        ("lib/session", &["lib/linux", "lib/sim", "lib/model", "lib/member"]),
        ("lab/experiments", &["lib/session", "lab/workloads", "lib/observe"]),
        ("cmd", &["lab/experiments", "lib/session", "lab/workloads", "lib/formats"]),
        ("bin/millpond", &["cmd"]),
        ("tests/vm", &["lib/linux"]),
        ("xtask", &["cmd"]),
    ];

    #[test]
    fn a_house_as_on_the_map_has_no_breach() {
        assert_eq!(breaches(SOUND), Vec::<String>::new());
    }

    /// The breaches in this workspace with one more dependency.
    fn with_arrow(from: &str, to: &str) -> Vec<String> {
        let mut house = house(SOUND);
        let package = house.packages.iter_mut().find(|p| p.name == crate_name(from)).unwrap();
        package.dependencies.push(dependency(to));
        check(&house).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_forbidden_arrow_is_found() {
        for (from, to) in [
            ("lib/model", "lib/formats"),
            ("lib/formats", "lib/machine"),
            ("lib/machine", "lib/linux"),
            ("lib/linux", "lib/sim"),
            ("lib/sim", "lib/linux"),
            ("lib/linux", "lib/session"),
            ("lib/linux", "lab/workloads"),
            ("lib/session", "lab/workloads"),
            ("lib/session", "cmd"),
            ("lab/experiments", "cmd"),
            ("lab/experiments", "lib/linux"),
            ("cmd", "lib/linux"),
            ("cmd", "lib/sim"),
            ("cmd", "lib/bpf"),
            ("lib/linux", "lib/member"),
            ("lib/member", "lib/machine"),
            ("cmd", "lib/member-c"),
            ("bin/millpond", "lib/linux"),
            ("lab/workloads", "lib/model"),
            ("lib/bpf", "lib/model"),
            ("lib/rules", "lib/model"),
            ("lib/sim", "lib/rules"),
            ("lib/session", "lib/rules"),
            ("rt/rt", "lib/model"),
            ("cmd", "rt/rt"),
            ("cmd", "rt/rt-layout"),
            ("lib/umem", "rt/rt"),
            ("lib/umem", "rt/unwind"),
            ("cmd", "rt/unwind"),
            ("rt/rt-malloc", "rt/unwind"),
            ("rt/unwind", "rt/rt"),
            ("rt/unwind", "lib/model"),
            ("rt/rt-layout", "rt/rt"),
            ("lib/model", "tests/vm"),
            ("lib/model", "fuzz"),
            ("fuzz", "lib/model"),
            ("cmd", "xtask"),
        ] {
            let expected = format!("{}: must not depend on {}", crate_name(from), crate_name(to));
            assert_eq!(with_arrow(from, to), [expected]);
        }
    }

    #[test]
    fn an_arrow_of_a_test_is_an_arrow() {
        assert_eq!(with_arrow("cmd", "dev:lib/sim"), ["millpond-cmd: must not depend on millpond-sim (dev)"]);
    }

    #[test]
    fn commands_and_services_do_not_know_each_other() {
        assert_eq!(
            breaches(&[("cmd", &["svc"]), ("svc", &[])]),
            ["millpond-cmd: must not depend on millpond-svc"]
        );
        assert_eq!(
            breaches(&[("cmd", &[]), ("svc", &["cmd"])]),
            ["millpond-svc: must not depend on millpond-cmd"]
        );
    }

    #[test]
    fn only_one_room_speaks_libbpf_and_the_island_has_one_bridge() {
        assert_eq!(with_arrow("lib/linux", "@libbpf-rs"), ["millpond-linux: must not depend on libbpf-rs"]);
        assert_eq!(with_arrow("rt/rt", "@rustix"), ["millpond-rt: must not depend on rustix"]);
        assert_eq!(with_arrow("rt/unwind", "@loom"), ["millpond-unwind: must not depend on loom"]);
    }

    #[test]
    fn a_room_that_is_not_on_the_map_is_found() {
        assert_eq!(breaches(&[("lib/attic", &[])]), ["millpond-attic: the map has no room `attic`"]);
        assert_eq!(breaches(&[("shed", &[])]), ["millpond-shed: the map has no room `shed`"]);
    }

    #[test]
    fn the_words_of_cargo_are_understood() {
        let text = r#"{"packages": [{"name": "millpond-cmd", "version": "0.1.0", "manifest_path": "/w/cmd/Cargo.toml",
            "dependencies": [{"name": "millpond-linux", "source": null, "kind": null, "rename": "kernel", "path": "/w/lib/linux"}]}],
            "workspace_root": "/w", "target_directory": "/w/target"}"#;
        let metadata: Metadata = serde_json::from_str(text).unwrap();
        assert_eq!(check(&metadata)[0].to_string(), "millpond-cmd: must not depend on millpond-linux");
    }
}
