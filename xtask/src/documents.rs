//! Installs the program's own documentation: manual pages and completion scripts. The program prints them, so there is no second
//! list. Also installs the pages of this tree.

use crate::install::{PROGRAM, Wish, make_link, put, put_all, staged, write};
use std::io;
use std::path::Path;
use std::process::Command;

/// A command or a service, from `millpond help --names`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name after `millpond`.
    pub name: String,
    /// Its manual section.
    section: String,
    /// Whether it can be called by its name alone.
    pub is_applet: bool,
}

/// Runs the program's help.
///
/// # Errors
/// The system's error, or the program's error output.
pub fn ask(program: &Path, words: &[&str]) -> io::Result<String> {
    let ended = Command::new(program).arg("help").args(words).output()?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        return Err(io::Error::other(format!("{} help {}: {said}", program.display(), words.join(" "))));
    }
    String::from_utf8(ended.stdout).map_err(io::Error::other)
}

/// All commands and services.
///
/// # Errors
/// Those of [`ask`].
pub fn described(program: &Path) -> io::Result<Vec<Described>> {
    Ok(parse(&ask(program, &["--names"])?))
}

/// Lines of `name page section applet|command`.
pub fn parse(text: &str) -> Vec<Described> {
    let line = |line: &str| {
        let mut words = line.split(' ').map(str::to_owned);
        let (name, _page, section) = (words.next()?, words.next()?, words.next()?);
        Some(Described { name, section, is_applet: words.next()? == "applet" })
    };
    text.lines().filter_map(line).collect()
}

/// Installs a manual page for each command, and completions for the linked names. The page of a command whose name belongs to
/// another package (`mpstat`) is named `millpond-mpstat`.
///
/// # Errors
/// Those of [`ask`], and the system's error when a file cannot be written.
pub fn install(program: &Path, all: &[Described], linked: &[&str], wish: &Wish) -> io::Result<String> {
    let place = |dir: &str| staged(&wish.destdir, &wish.prefix.join(dir));
    let mut pages = vec![(PROGRAM.to_owned(), "1".to_owned(), ask(program, &["--man"])?)];
    for Described { name, section, .. } in all {
        let page = if linked.contains(&name.as_str()) { name.clone() } else { format!("{PROGRAM}-{name}") };
        pages.push((page, section.clone(), ask(program, &["--man", name])?));
    }
    for (page, section, text) in &pages {
        write(&place(&format!("share/man/man{section}")), &format!("{page}.{section}"), text)?;
    }
    let names: Vec<&str> = std::iter::once(PROGRAM).chain(linked.iter().copied()).collect();
    let script = |shell: &str| {
        let words: Vec<&str> = ["--completions", shell].into_iter().chain(names.iter().copied()).collect();
        ask(program, &words)
    };
    let bash = place("share/bash-completion/completions");
    write(&bash, PROGRAM, &script("bash")?)?;
    let fish = place("share/fish/vendor_completions.d");
    write(&fish, &format!("{PROGRAM}.fish"), &script("fish")?)?;
    let zsh = place("share/zsh/site-functions");
    write(&zsh, &format!("_{PROGRAM}"), &script("zsh")?)?;
    for name in linked {
        make_link(PROGRAM, &bash.join(name))?;
        make_link(&format!("{PROGRAM}.fish"), &fish.join(format!("{name}.fish")))?;
    }
    let manual = place("share/man");
    Ok(format!(
        "installed {} manual pages below {}\ninstalled completions for bash, zsh and fish below {}\n",
        pages.len(),
        manual.display(),
        place("share").display()
    ))
}

/// This tree, and its installed pages and files. They keep their relative positions, so that links between pages work.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const DIRECTORIES: [&str; 3] = ["docs", "rt/rt/examples", "lib/member-c/examples"];
const FILES: [&str; 3] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Installs pages, examples, and licences.
///
/// # Errors
/// The system's error when a file cannot be written.
pub fn install_pages(wish: &Wish) -> io::Result<String> {
    let (root, doc) = (Path::new(ROOT), staged(&wish.destdir, &wish.prefix.join("share/doc/millpond")));
    for dir in DIRECTORIES {
        put_all(&root.join(dir), &doc.join(dir))?;
    }
    for file in FILES {
        put(&root.join(file), &doc, file, 0o644)?;
    }
    Ok(format!("installed pages and examples below {}\n", doc.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// A stand-in for the program with fixed answers.
    const PROGRAM_OF_TESTS: &str = "#!/bin/sh\ncase $2 in\n--names) printf 'psrset psrset 8 applet\\nmpstat mpstat 1 applet\\n\
        quiet millpond-quiet 1 command\\n' ;;\n--broken) echo 'no such option' >&2; exit 2 ;;\n*) echo \"$*\" ;;\nesac\n";

    /// Writes it to a directory, through a shell. If this process wrote the file, a concurrent fork in another test would inherit
    /// the descriptor, and the kernel does not start a program that is open for writing.
    fn program_in(dir: &Path) -> PathBuf {
        let program = dir.join("program");
        let write = "printf %s \"$1\" >\"$0\" && chmod +x \"$0\"";
        let written = Command::new("sh").args(["-c", write]).arg(&program).arg(PROGRAM_OF_TESTS).status();
        assert!(written.unwrap().success());
        program
    }

    #[test]
    fn pages_and_completions_are_those_of_names_that_were_linked() {
        let dir = tempfile::tempdir().unwrap();
        let program = program_in(dir.path());
        let wish = Wish { prefix: dir.path().join("usr"), ..Wish::default() };
        let all = described(&program).unwrap();
        let told = install(&program, &all, &["psrset"], &wish).unwrap();
        assert!(told.starts_with("installed 4 manual pages below "), "{told}");
        assert_eq!(install(&program, &all, &["psrset"], &wish).unwrap(), told);
        let read = |path: &str| fs::read_to_string(wish.prefix.join("share").join(path)).unwrap();
        assert_eq!(read("man/man1/millpond.1"), "help --man\n");
        assert_eq!(read("man/man8/psrset.8"), "help --man psrset\n");
        assert_eq!(read("man/man1/millpond-mpstat.1"), "help --man mpstat\n");
        assert_eq!(read("man/man1/millpond-quiet.1"), "help --man quiet\n");
        for (file, shell) in [
            ("bash-completion/completions/psrset", "bash"),
            ("zsh/site-functions/_millpond", "zsh"),
            ("fish/vendor_completions.d/psrset.fish", "fish"),
        ] {
            assert_eq!(read(file), format!("help --completions {shell} millpond psrset\n"));
        }
    }

    #[test]
    fn what_the_program_refuses_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let program = program_in(dir.path());
        let said = ask(&program, &["--broken"]).unwrap_err().to_string();
        assert_eq!(said, format!("{} help --broken: no such option", program.display()));
    }
}
