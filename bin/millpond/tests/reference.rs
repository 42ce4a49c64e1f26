//! Pages of `docs/reference/commands` are what the program says of its commands. `MILLPOND_WRITE_REFERENCE=1` writes them anew.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn said(words: &[&str]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_millpond")).args(words).output().unwrap();
    assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn each_command_has_its_page_in_the_book() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = docs.join("reference/commands");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let names = said(&["help", "--names"]);
    let mut expected = BTreeSet::new();
    let mut stale = Vec::new();
    for name in names.lines().filter_map(|line| line.split(' ').next()) {
        let (file, page) = (format!("{name}.md"), said(&["help", "--markdown", name]));
        if std::env::var_os("MILLPOND_WRITE_REFERENCE").is_some() {
            fs::write(pages.join(&file), &page).unwrap();
        }
        let line = format!("  - [{name}](reference/commands/{file})\n");
        let is_listed = summary.contains(&line);
        if !is_listed || fs::read_to_string(pages.join(&file)).ok().as_ref() != Some(&page) {
            stale.push(file.clone());
        }
        expected.insert(file);
    }
    let there = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<String> = there.filter(|file| file != "README.md").collect();
    assert_eq!(there, expected, "pages without a command, or commands without a page");
    assert!(
        stale.is_empty(),
        "old pages, or pages that docs/SUMMARY.md does not list: {stale:?}\nwrite them anew: make reference"
    );
}
