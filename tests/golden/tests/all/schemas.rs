//! The files of `docs/reference/json` equal the program's schemas, and `fields.md` equals its catalogue.
//! `MILLPOND_WRITE_REFERENCE=1` writes them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn each_schema_is_in_the_book_as_it_is_in_the_program() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/json");
    let mut stale = Vec::new();
    let mut expected = BTreeSet::new();
    for (name, schema) in millpond_cmd::schemas() {
        let (file, text) = (format!("{name}.json"), format!("{schema:#}\n"));
        if std::env::var_os("MILLPOND_WRITE_REFERENCE").is_some() {
            fs::write(dir.join(&file), &text).unwrap();
        }
        if fs::read_to_string(dir.join(&file)).ok().as_ref() != Some(&text) {
            stale.push(file.clone());
        }
        expected.insert(file);
    }
    let there = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(
        there.collect::<BTreeSet<_>>(),
        expected,
        "schemas without a command, or commands without a file"
    );
    assert!(stale.is_empty(), "old schemas: {stale:?}\nwrite them anew: make reference");
}

#[test]
fn the_page_of_fields_is_the_catalogue() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/fields.md");
    let page = millpond_observe::catalogue::page();
    if std::env::var_os("MILLPOND_WRITE_REFERENCE").is_some() {
        fs::write(&file, &page).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).ok(), Some(page), "write it anew: make reference");
}
