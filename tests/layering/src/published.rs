//! Published crates: each has the metadata and documentation that a registry needs, and depends only on published crates of the
//! tree.

use crate::arrows::{Dependency, Package};
use crate::{Breach, House};
use std::path::Path;

/// Files that each package contains, because users get only the package.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// Whether a crate may be published.
#[must_use]
pub fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// Missing parts and forbidden dependencies of published crates.
#[must_use]
pub fn check(house: &House) -> Vec<Breach> {
    let published = house.metadata.packages.iter().filter(|package| is_published(package));
    let breach = |package: &Package, what| Breach { place: package.name.clone(), what };
    published
        .flat_map(|package| {
            let lacking = lacking(house, package).map(|what| format!("is published without {what}"));
            let dependencies = package.dependencies.iter().filter_map(|one| unpublishable(house, one));
            lacking.chain(dependencies).map(|what| breach(package, what)).collect::<Vec<_>>()
        })
        .collect()
}

fn lacking(house: &House, package: &Package) -> impl Iterator<Item = String> {
    let root = Path::new(&house.metadata.workspace_root);
    let dir = Path::new(&package.manifest_path).parent().and_then(|dir| dir.strip_prefix(root).ok());
    let dir = dir.unwrap_or(root).to_string_lossy().into_owned();
    let head = format!("{dir}/src/lib.rs");
    let has_example = house.files.iter().any(|file| file.path == head && begins_with_example(&file.text));
    let facts = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("rust-version", package.rust_version.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
        ("an example at the head of src/lib.rs", has_example),
    ];
    let licences = LICENCES.map(|name| (name, house.paths.contains(&format!("{dir}/{name}"))));
    facts.into_iter().chain(licences).filter(|(_, is_there)| !is_there).map(|(what, _)| what.to_owned())
}

/// Whether the documentation of a crate has a compiled Rust example.
fn begins_with_example(text: &str) -> bool {
    let fences = text.lines().filter_map(|line| line.strip_prefix("//! ```"));
    // Every second fence ends a block.
    fences.step_by(2).any(|language| matches!(language, "" | "no_run"))
}

/// Why a dependency of a published crate is refused. Cargo omits dev-dependencies without a version.
fn unpublishable(house: &House, dependency: &Dependency) -> Option<String> {
    let name = &dependency.name;
    let own = house.metadata.packages.iter().find(|package| package.name == *name)?;
    match (is_published(own), dependency.req.as_str(), dependency.kind.as_deref()) {
        (_, "*", Some("dev")) => None,
        (false, ..) => Some(format!("is published and depends on {name}, which is not")),
        (true, "*", _) => Some(format!("is published and depends on {name} without a version")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceFile;
    use crate::arrows::Metadata;

    const HEAD: &str = "//! A.\n//!\n//! ```text\n//! a ──▶ b\n//! ```\n//!\n//! ```\n//! a();\n//! ```\n";

    fn dependency(name: &str, req: &str, kind: Option<&str>) -> Dependency {
        let (name, req) = (name.to_owned(), req.to_owned());
        Dependency { name, req, path: None, kind: kind.map(str::to_owned) }
    }

    fn package(name: &str, dependencies: Vec<Dependency>) -> Package {
        Package {
            name: name.to_owned(),
            manifest_path: format!("/w/lib/{name}/Cargo.toml"),
            dependencies,
            publish: None,
            description: Some("a".to_owned()),
            license: Some("MIT".to_owned()),
            rust_version: Some("1.90".to_owned()),
            keywords: vec!["a".to_owned()],
            categories: vec!["a".to_owned()],
        }
    }

    /// Two published crates, `rt` and `layout`, and an unpublished one, `fuzz`.
    fn house(of_rt: Vec<Dependency>) -> House {
        let fuzz = Package { publish: Some(Vec::new()), ..Package::default() };
        let fuzz = Package { name: "fuzz".to_owned(), ..fuzz };
        let packages = vec![package("rt", of_rt), package("layout", Vec::new()), fuzz];
        let file = |name: &str| SourceFile {
            path: format!("lib/{name}/src/lib.rs"),
            text: HEAD.to_owned(),
            is_test: false,
        };
        let paths = ["rt", "layout"].map(|dir| LICENCES.map(|name| format!("lib/{dir}/{name}")));
        House {
            metadata: Metadata { packages, workspace_root: "/w".to_owned() },
            files: vec![file("rt"), file("layout")],
            pages: Vec::new(),
            paths: paths.into_iter().flatten().collect(),
        }
    }

    fn found(house: &House) -> Vec<String> {
        check(house).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_published_crate_depends_on_versions_of_published_crates() {
        let with = |name, req, kind| found(&house(vec![dependency(name, req, kind)]));
        assert_eq!(with("layout", "^0.2.0", None), [""; 0]);
        assert_eq!(with("libc", "^0.2.180", None), [""; 0]);
        assert_eq!(with("fuzz", "*", Some("dev")), [""; 0]);
        assert_eq!(with("layout", "*", None), ["rt: is published and depends on layout without a version"]);
        let refused = ["rt: is published and depends on fuzz, which is not"];
        assert_eq!(with("fuzz", "*", None), refused);
        assert_eq!(with("fuzz", "^0.2.0", Some("dev")), refused);
    }

    #[test]
    fn a_published_crate_has_metadata_licences_and_an_example() {
        let mut house = house(Vec::new());
        let package = &mut house.metadata.packages[0];
        *package = Package {
            name: package.name.clone(),
            manifest_path: package.manifest_path.clone(),
            ..Package::default()
        };
        house.files[0].text = "//! A.\n".to_owned();
        house.paths.remove("lib/rt/LICENSE-MIT");
        let lacking = [
            "description",
            "license",
            "rust-version",
            "keywords",
            "categories",
            "an example at the head of src/lib.rs",
            "LICENSE-MIT",
        ];
        assert_eq!(found(&house), lacking.map(|what| format!("rt: is published without {what}")));
    }

    #[test]
    fn a_diagram_is_no_example() {
        assert!(begins_with_example(HEAD));
        assert!(begins_with_example("//! ```no_run\n//! a();\n//! ```\n"));
        assert!(!begins_with_example("//! ```text\n//! a\n//! ```\n"));
        assert!(!begins_with_example("/// ```\n/// a();\n/// ```\n"));
    }
}
