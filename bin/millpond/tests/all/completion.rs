//! Completions in real shells, and manual pages in real formatters. A missing shell or formatter is reported, and the
//! test is skipped.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

fn said(words: &[&str]) -> String {
    let ended = Command::new(PROGRAM).args(words).output().unwrap();
    assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).unwrap()
}

/// Whether a program is installed. Prints a message if it is not.
fn has(program: &str, package: &str, test: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_err() {
        println!("skipped: {test}: there is no {program} (apt-get install {package})");
    }
    found.is_ok()
}

/// The output of a shell for a script. Its search path has a directory with `millpond` and its other names; the
/// completion file is loaded.
fn shell(shell: &str, words: &[&str], script: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    for name in ["millpond", "psrset"] {
        std::os::unix::fs::symlink(PROGRAM, dir.path().join(name)).unwrap();
    }
    let file = dir.path().join("completions");
    fs::write(&file, said(&["help", "--completions", shell])).unwrap();
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap());
    let ended = Command::new(shell)
        .args(words)
        .arg(script.replace("@FILE@", &file.display().to_string()))
        .env("PATH", path)
        .env("HOME", dir.path())
        .env("TERM", "dumb")
        .env("MILLPOND_STATE", dir.path().join("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{shell}: {err}");
    String::from_utf8(ended.stdout).unwrap()
}

/// The completions in bash with the cursor on the last word.
fn in_bash(words: &[&str]) -> Vec<String> {
    let list = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let script = format!(
        "source @FILE@; compopt() {{ :; }}; COMP_WORDS=({list}); COMP_CWORD={}; _millpond; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.len() - 1
    );
    shell("bash", &["--norc", "-c"], &script).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_what_the_machine_has() {
    let test = "bash_completes_commands_options_and_what_the_machine_has";
    if !has("bash", "bash", test) {
        return;
    }
    assert_eq!(in_bash(&["millpond", "psrs"]), ["psrset"]);
    assert_eq!(in_bash(&["millpond", "psrset", "--keep"]), ["--keep-others"]);
    assert_eq!(in_bash(&["psrset", "--machine", "t200"]), ["t2000"]);
    assert_eq!(in_bash(&["psrset", "--machine", "=", "t200"]), ["t2000"]);
    let cpus = in_bash(&["psrset", "--machine", "x4200", "-c", ""]);
    assert_eq!(cpus, ["0", "1", "2", "3"]);
    assert_eq!(in_bash(&["millpond", "help", "--completions", "z"]), ["zsh"]);
}

#[test]
fn zsh_completes_commands_and_options() {
    let test = "zsh_completes_commands_and_options";
    if !has("zsh", "zsh", test) {
        return;
    }
    // Completion widgets need a terminal. So the test calls the function with the words that zsh would pass, and
    // `_describe` prints its arguments.
    let complete = |words: &str, current: usize| {
        let script = format!(
            "compdef() {{ :; }}; source @FILE@; _describe() {{ print -rl -- \"${{found[@]%%:*}}\"; }}; \
             words=({words}); CURRENT={current}; _millpond"
        );
        shell("zsh", &["-f", "-c"], &script)
    };
    assert_eq!(complete("millpond psrs", 2), "psrset\n");
    assert_eq!(complete("psrset --keep", 2), "--keep-others\n");
    assert_eq!(complete("psrset --machine x4200 -c ''", 5), "0\n1\n2\n3\n");
}

#[test]
fn fish_completes_commands_and_options() {
    let test = "fish_completes_commands_and_options";
    if !has("fish", "fish", test) {
        return;
    }
    let complete = |line: &str| {
        let shown = shell("fish", &["--no-config", "-c"], &format!("source @FILE@; complete -C '{line}'"));
        shown.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(complete("millpond psrs"), ["psrset"]);
    assert_eq!(complete("psrset --keep"), ["--keep-others"]);
    assert_eq!(complete("psrset --machine x4200 -c "), ["0", "1", "2", "3"]);
}

/// The name of each page as `name.section`, and its text.
fn pages() -> Vec<(String, String)> {
    let names = said(&["help", "--names"]);
    let page = |line: &str| {
        let mut words = line.split(' ');
        let (name, page, section) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        (format!("{page}.{section}"), said(&["help", "--man", name]))
    };
    let own = ("millpond.1".to_owned(), said(&["help", "--man"]));
    names.lines().map(page).chain([own]).collect()
}

/// Checks each page with a formatter that reports problems on one of its outputs.
fn nothing_is_wrong(formatter: &str, words: &[&str], test: &str) {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in pages() {
        let file = dir.path().join(&name);
        fs::write(&file, text).unwrap();
        let complaints = complaints(formatter, words, &file);
        assert!(complaints.is_empty(), "{test}: {name}:\n{complaints}");
    }
}

fn complaints(formatter: &str, words: &[&str], file: &Path) -> String {
    let ended = Command::new(formatter).args(words).arg(file).output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    if formatter == "mandoc" { String::from_utf8_lossy(&ended.stdout).into_owned() + &err } else { err }
}

#[test]
fn groff_finds_nothing_wrong_with_the_manual_pages() {
    let test = "groff_finds_nothing_wrong_with_the_manual_pages";
    if has("groff", "groff", test) {
        nothing_is_wrong("groff", &["-man", "-ww", "-Tutf8", "-z"], test);
    }
}

#[test]
fn mandoc_finds_nothing_wrong_with_the_manual_pages() {
    let test = "mandoc_finds_nothing_wrong_with_the_manual_pages";
    if has("mandoc", "mandoc", test) {
        nothing_is_wrong("mandoc", &["-Tlint", "-Wwarning"], test);
    }
}
