//! Compares the pages of `docs/reference/commands`, and their list in `docs/SUMMARY.md`, with the output of the
//! program. `MILLPOND_WRITE_REFERENCE=1` writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

fn said(words: &[&str]) -> String {
    let ended = Command::new(env!("CARGO_BIN_EXE_millpond")).args(words).output().unwrap();
    assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

const COMMANDS: &str = "- [Commands](reference/commands/README.md)\n";

/// `docs/SUMMARY.md` with these pages of commands.
fn listing(summary: &str, files: &BTreeSet<String>) -> String {
    let (before, after) = summary.split_once(COMMANDS).unwrap();
    let pages = files
        .iter()
        .map(|file| format!("  - [{}](reference/commands/{file})\n", file.trim_end_matches(".md")));
    let rest = after.split_inclusive('\n').skip_while(|line| line.starts_with("  - "));
    before.to_owned() + COMMANDS + &pages.collect::<String>() + &rest.collect::<String>()
}

#[test]
fn each_command_has_its_page_in_the_book() {
    let writes = std::env::var_os("MILLPOND_WRITE_REFERENCE").is_some();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = docs.join("reference/commands");
    let mut texts = BTreeMap::new();
    for name in said(&["help", "--names"]).lines().filter_map(|line| line.split(' ').next()) {
        texts.insert(pages.join(format!("{name}.md")), said(&["help", "--markdown", name]));
    }
    let files: BTreeSet<String> =
        texts.keys().map(|page| page.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let there = fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let gone: Vec<String> = there.filter(|file| file != "README.md" && !files.contains(file)).collect();
    assert!(gone.is_empty(), "pages without a command: {gone:?}");
    let summary = docs.join("SUMMARY.md");
    texts.insert(summary.clone(), listing(&fs::read_to_string(&summary).unwrap(), &files));
    let mut stale = Vec::new();
    for (file, text) in &texts {
        if fs::read_to_string(file).ok().as_ref() != Some(text) {
            stale.push(file);
            if writes {
                fs::write(file, text).unwrap();
            }
        }
    }
    assert!(writes || stale.is_empty(), "old pages: {stale:?}\nwrite them anew: make reference");
}
