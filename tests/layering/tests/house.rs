//! Runs the checks on this tree.

#![allow(clippy::print_stdout, reason = "warnings of a test")]

use millpond_layering::{
    Breach, House, OTHER_WORKSPACES, arrows, dependencies, figures, habits, links, of_words_and_imports,
    promises, published, words,
};
use std::collections::BTreeSet;
use std::path::Path;

fn house() -> House {
    House::read(env!("CARGO"), Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the tree can be read")
}

fn assert_none(breaches: &[Breach]) {
    let list: Vec<String> = breaches.iter().map(ToString::to_string).collect();
    assert!(breaches.is_empty(), "the house is not as its map says:\n{}", list.join("\n"));
}

#[test]
fn every_arrow_between_rooms_is_on_the_map() {
    let house = house();
    assert!(
        house.metadata.packages.iter().any(|package| package.name == "millpond-model"),
        "no rooms were read"
    );
    assert!(
        house.metadata.packages.iter().any(|package| package.name == "millpond-unwind"),
        "no rooms of another workspace were read"
    );
    assert_none(&arrows::check(&house.metadata));
}

/// The lines of a manifest, without comments, in sections that all workspaces share.
fn common_sections(manifest: &str) -> Vec<&str> {
    let is_common = |name: &str| name == "[workspace.package]" || name.starts_with("[workspace.lints.");
    let mut is_wanted = false;
    let lines = manifest.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter(|line| {
            if line.starts_with('[') {
                is_wanted = is_common(line);
            }
            is_wanted
        })
        .collect()
}

/// Name and version of each external crate in a lock file.
fn locked(text: &str) -> BTreeSet<(&str, &str)> {
    fn value<'a>(package: &'a str, name: &str) -> Option<&'a str> {
        package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
    }
    let foreign = text.split("[[package]]").filter(|package| value(package, "source").is_some());
    foreign.filter_map(|package| Some((value(package, "name")?, value(package, "version")?))).collect()
}

#[test]
fn all_workspaces_have_the_same_lints_versions_and_locked_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &Path| std::fs::read_to_string(path).expect("the file is there");
    let (manifest, lock) = (read(&root.join("Cargo.toml")), read(&root.join("Cargo.lock")));
    let (common, crates) = (common_sections(&manifest), locked(&lock));
    assert!(common.len() > 15 && crates.len() > 100, "nothing was read");
    for other in OTHER_WORKSPACES.map(|other| root.join(other)) {
        let (manifest, lock) = (read(&other.join("Cargo.toml")), read(&other.join("Cargo.lock")));
        assert_eq!(common_sections(&manifest), common, "{}", other.display());
        let own = locked(&lock);
        let differing: Vec<_> = own.difference(&crates).collect();
        assert!(!own.is_empty() && differing.is_empty(), "{}: {differing:?}", other.display());
    }
}

#[test]
fn every_dependency_has_a_reason() {
    let house = house();
    let page = house.pages.iter().find(|page| page.path == dependencies::PAGE).expect("the page is there");
    assert_none(&dependencies::check(&house.metadata, &page.text));
}

#[test]
fn every_published_crate_can_be_published() {
    let house = house();
    assert!(
        house
            .metadata
            .packages
            .iter()
            .any(|package| package.name == "millpond-rt" && published::is_published(package)),
        "no published crates were read"
    );
    assert_none(&published::check(&house));
}

#[test]
fn every_promise_of_security_has_its_tests() {
    let house = house();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/security.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let promises = promises::read(&page);
    assert!(promises.len() >= 10, "no promises were read");
    assert_none(&promises::check(&promises, &house.files));
}

#[test]
fn every_file_keeps_the_habits() {
    let house = house();
    assert!(
        house.files.iter().any(|file| file.path == "tests/layering/tests/house.rs"),
        "no files were read"
    );
    assert_none(&house.files.iter().flat_map(habits::check).collect::<Vec<_>>());
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let house = house();
    assert!(house.pages.iter().any(|page| page.path == "docs/README.md"), "no pages were read");
    assert_none(&links::check(&house.pages, &house.paths));
    let made_up = "tests/layering/src/links.rs";
    let sources = house.files.iter().filter(|file| file.path != made_up);
    assert_none(&sources.flat_map(|file| links::check_source(file, &house.paths)).collect::<Vec<_>>());
}

#[test]
fn figures_of_pages_are_the_newest_that_were_measured() {
    assert_none(&figures::check(&house().pages));
}

#[test]
fn words_circles_of_imports_and_re_exports_are_as_the_pages_say() {
    assert_none(&of_words_and_imports(&house()));
}

#[test]
fn long_sentences_of_pages_and_manuals_are_printed() {
    let house = house();
    assert!(house.pages.iter().any(|page| page.path == "README.md"), "no pages were read");
    let long = words::long_sentences(&house);
    for breach in &long {
        println!("warning: {breach}");
    }
    println!("warning: {} sentences have more than {} words", long.len(), words::SENTENCE_WORDS_MAX);
}
