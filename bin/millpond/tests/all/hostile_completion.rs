//! Completion of hostile names, typed into real shells on a terminal: the command gets the name, and no part of it is
//! executed.

use crate::captured::{Captured, PROGRAM, out, run};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command in place of psrset that writes down its words. Its second word is the number of the case.
const WRITES_WORDS: &str = "#!/bin/sh\nprintf '%s\\0' \"$@\" > got/new && mv got/new got/$2\n";

/// Names of cgroups. Each contains syntax of some shell.
const NAMES: [&str; 21] = [
    "hx$(touch PWNED)",
    "hx`touch PWNED`",
    "hx;touch PWNED;",
    "hx|touch PWNED",
    "hx&touch PWNED",
    "hx>PWNED",
    "hx<(touch PWNED)",
    "hx(touch PWNED)",
    "hx';touch PWNED;'",
    "hx\";touch PWNED;\"",
    "hx two  blanks",
    "hx\\",
    "hx\\$(touch PWNED)",
    "hx!!",
    "hx{a,b}",
    "hx*?[a]",
    "hx$HOME",
    "hx#~^%s",
    "hx:a:b",
    "hx=(touch PWNED)",
    "hxé漢",
];
/// Names that a terminal cannot show, and their form in listings.
const UNPRINTABLE: [(&str, &str); 3] = [
    ("hx\ntouch PWNED", "hx\\ntouch PWNED"),
    ("hx\x1b[2J", "hx\\u001b[2J"),
    ("hx\u{202e}gpj", "hx\\u202egpj"),
];

/// Pseudo-random names of characters with a meaning in shells; always the same ones.
fn made() -> Vec<String> {
    const KNOWN: &[u8] = b"$()`\"'\\;&|<>*?[]{}!#~^%=:, abPWNED";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        usize::try_from(state >> 33).unwrap()
    };
    let mut name = || {
        let length = 2 + next() % 14;
        (0..length).map(|_| char::from(KNOWN[next() % KNOWN.len()])).collect::<String>()
    };
    (0..20).map(|_| format!("hx{}", name())).collect()
}

/// The working directory of a shell, with a captured machine for each name: `R0`, `R1`, …
struct Bench {
    dir: tempfile::TempDir,
    _machines: Vec<Captured>,
}

impl Bench {
    fn new(names: &[String], shell: &str) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["bin", "got", "home"] {
            fs::create_dir(at(name)).unwrap();
        }
        symlink(PROGRAM, at("bin/millpond")).unwrap();
        fs::write(at("bin/psrset"), WRITES_WORDS).unwrap();
        fs::set_permissions(at("bin/psrset"), fs::Permissions::from_mode(0o755)).unwrap();
        let script = run(["help", "--completions", shell, "millpond", "psrset"]);
        fs::write(at("completions"), out(&script)).unwrap();
        let machine = |(number, name): (usize, &String)| {
            let machine = Captured::new();
            for (file, text) in
                [("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0\n"), ("cgroup.procs", ""), ("tasks", "")]
            {
                machine.file(&format!("cgroup/cpuset/{name}/{file}"), text);
            }
            symlink(machine.dir(), at(&format!("R{number}"))).unwrap();
            machine
        };
        let machines = names.iter().enumerate().map(machine).collect();
        Bench { dir, _machines: machines }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Types a line, and waits for the words that the command gets. The line is case `number`.
    fn type_line(&self, shell: &mut Child, line: &str, number: usize) -> Vec<String> {
        shell.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        let file = self.path().join(format!("got/R{number}"));
        let begun = Instant::now();
        while !file.exists() {
            let log = || fs::read_to_string(self.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < Duration::from_secs(60), "{line:?} ran no command:\n{}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    }
}

/// Types `typed` and a tab for the cgroup of each captured machine, and compares the words that the command gets.
fn names_are_completed(shell: &str, start: &str, set_up: &str) {
    let test = format!("hostile_completion::{shell}");
    for (program, package) in [(shell, shell), ("script", "bsdutils")] {
        let found =
            Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if found.is_err() {
            println!("skipped: {test}: there is no {program} (apt-get install {package})");
            return;
        }
    }
    let printable = NAMES.into_iter().map(str::to_owned).chain(made());
    let pairs = printable.map(|name| (name.clone(), name));
    let pairs = pairs.chain(UNPRINTABLE.map(|(name, shown)| (name.to_owned(), shown.to_owned())));
    let (names, shown): (Vec<String>, Vec<String>) = pairs.unzip();
    let bench = Bench::new(&names, shell);
    let path = format!("{}:{}", bench.path().join("bin").display(), std::env::var("PATH").unwrap());
    let mut child = Command::new("script")
        .args(["-q", "-f", "-c", start, "log"])
        .current_dir(bench.path())
        .env_clear()
        .envs([("PATH", path.as_str()), ("TERM", "dumb"), ("LC_ALL", "C.UTF-8"), ("SHELL", "/bin/sh")])
        .env("HOME", bench.path().join("home"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // When a command runs, the set-up is complete.
    let ready = bench.type_line(&mut child, &format!("{set_up}\npsrset --root R0\n"), 0);
    assert_eq!(ready, ["--root", "R0"]);
    for (number, shown) in shown.iter().enumerate() {
        let root = format!("R{number}");
        let got = bench.type_line(&mut child, &format!("psrset --root {root} -b -z /hx\t\n"), number);
        assert_eq!(got, ["--root", &root, "-b", "-z", &format!("/{shown}")], "{shell}");
    }
    // A path keeps its directories, also after an equals sign.
    let deep = bench.path().join("got/deep down");
    fs::create_dir(&deep).unwrap();
    for typed in ["--state R0 --root got/de\t", "--state R0 --root=got/de\t"] {
        let got = bench.type_line(&mut child, &format!("psrset {typed}\n"), 0);
        let last = got.last().unwrap().trim_start_matches("--root=");
        assert_eq!(last.trim_end_matches('/'), "got/deep down", "{shell}: {typed:?}: {got:?}");
    }
    let _ = child.stdin.as_mut().unwrap().write_all(b"\nexit\n");
    let _ = child.kill();
    let _ = child.wait();
    assert!(!bench.path().join("PWNED").exists(), "{shell} executed a part of a name");
}

#[test]
fn bash_neither_executes_nor_splits_a_name_that_it_completes() {
    names_are_completed("bash", "bash --norc --noprofile -i", "source ./completions");
}

#[test]
fn zsh_neither_executes_nor_splits_a_name_that_it_completes() {
    names_are_completed("zsh", "zsh -f -i", "autoload -Uz compinit; compinit -D -u; source ./completions");
}

#[test]
fn fish_neither_executes_nor_splits_a_name_that_it_completes() {
    names_are_completed("fish", "fish --no-config -i", "source ./completions");
}
