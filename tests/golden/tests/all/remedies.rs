//! Every command that a message recommends exists and has the named options. Transcripts also try each on the machine that
//! printed it (`play`).

use millpond_cmd::COMMANDS;
use millpond_cmd::remedy::commands;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources of the program, without its tests.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the directory can be read") {
        let path = entry.expect("the directory can be read").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !name.contains("tests") {
            sources(&path, found);
        } else if name.ends_with(".rs") && !name.contains("tests") {
            found.push(path);
        }
    }
}

/// The string literals of a source before its tests, with `1` for each inserted value.
fn literals(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut found = Vec::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once('"') {
            let Some((literal, behind)) = after.split_once('"') else { break };
            let mut text = String::new();
            let mut depth = 0;
            for c in literal.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => {
                        depth -= 1;
                        text.push_str(" 1");
                    }
                    c if depth == 0 => text.push(c),
                    _ => {}
                }
            }
            found.push(text);
            rest = behind;
        }
    }
    found
}

#[test]
fn each_command_in_a_message_has_the_options_that_the_message_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for dir in ["cmd/src", "lib", "svc"] {
        sources(&root.join(dir), &mut files);
    }
    let (mut seen, mut count) = (BTreeSet::new(), 0);
    for path in files {
        let text = fs::read_to_string(&path).expect("it is text");
        for command in literals(&text).iter().flat_map(|literal| commands(literal, COMMANDS)) {
            let found = COMMANDS.iter().find(|one| one.spec.name == command[0]).expect("it is a command");
            let words: Vec<OsString> = command[1..].iter().map(Into::into).collect();
            let parsed = millpond_cli::parse(&found.spec, &words);
            assert!(parsed.is_ok(), "{}: `{}`: {:?}", path.display(), command.join(" "), parsed.err());
            count += 1;
            seen.insert(command[0].clone());
        }
    }
    assert!(count >= 40, "{count}");
    let expected =
        ["fence", "pbind", "poolbind", "poolcfg", "pooladm", "prctl", "priocntl", "psradm", "psrset"];
    assert_eq!(seen, expected.map(str::to_owned).into());
}
