//! Rules for single files.

use crate::{Breach, Scan, SourceFile};

/// Maximal number of lines of a file.
const LINES_MAX: usize = 800;

/// Top-level directories of a Linux system.
const TOPS: [&str; 14] =
    ["bin", "boot", "dev", "etc", "home", "lib", "mnt", "opt", "proc", "root", "run", "sys", "usr", "var"];

/// The only file of the real-time library with kernel file paths. This crate has no injected machine.
const OF_REAL_TIME: &str = "rt/rt/src/realtime/files.rs";

/// Crates and files that may contain paths of the machine.
const HOLD_PATHS: [&str; 4] = ["lib/linux/", "lib/session/", "lib/member/", OF_REAL_TIME];

/// Crates and files that may read time and access files.
const TOUCH_THE_WORLD: [&str; 9] = [
    "lib/linux/",
    "lib/session/",
    "lib/store/",
    "lib/member/",
    "lab/workloads/",
    "lib/bpf/",
    "rt/rt/",
    // The controller of a cluster has no machine, and so no session.
    "svc/controller/src/service.rs",
    "svc/controller/src/lease.rs",
];

/// The directories of libraries.
const LIBRARIES: [&str; 3] = ["lib/", "rt/", "lab/workloads/"];

/// All breaches in one file of the product or its tests.
#[must_use]
pub fn check(file: &SourceFile) -> Vec<Breach> {
    let scan = Scan::of(&file.text);
    let mut breaches = Vec::new();
    let mut breach = |line: usize, what: String| {
        breaches.push(Breach { place: format!("{}:{line}", file.path), what });
    };
    if !file.text.starts_with("//!") {
        breach(1, "the first line must say what the file is for, after //!".into());
    }
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        breach(lines, format!("a file has at most {LINES_MAX} lines"));
    }
    for (line, what) in ignored_tests(&scan) {
        breach(line, what);
    }
    if is_product(&file.path) && !file.is_test {
        for (line, what) in [paths(file, &scan), prints(file, &scan), world(file, &scan), threads(&scan)]
            .into_iter()
            .flatten()
        {
            breach(line, what);
        }
    }
    breaches
}

/// Whether a path ships: libraries, commands, the binary, services and experiments, without tests, examples and benches.
pub(crate) fn is_product(path: &str) -> bool {
    let ships = ["lib/", "rt/", "lab/", "cmd/", "bin/", "svc/"].iter().any(|top| path.starts_with(top));
    let proves = ["/tests/", "/examples/", "/benches/"].iter().any(|dir| path.contains(dir))
        || path.ends_with("/tests.rs");
    // A build script prints to communicate with cargo.
    let proves = proves || path.ends_with("/build.rs");
    ships && !proves
}

/// Lines of code outside the file's tests that contain one of `words`.
fn uses<'a>(scan: &'a Scan, words: &'a [&'a str]) -> impl Iterator<Item = (usize, &'a str)> {
    let code = scan.code.iter().enumerate().map(|(at, code)| (at + 1, code));
    code.filter(|(line, _)| !scan.is_test_line(*line)).flat_map(move |(line, code)| {
        words.iter().filter(move |word| contains_word(code, word)).map(move |&word| (line, word))
    })
}

/// Whether `word` occurs in `code` and is not the end of a longer word.
fn contains_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn ignored_tests(scan: &Scan) -> Vec<(usize, String)> {
    let code = scan.code.iter().enumerate();
    code.filter(|(_, code)| code.contains("#[ignore"))
        .map(|(at, _)| (at + 1, "a test is run, or it is not there".to_owned()))
        .collect()
}

fn paths(file: &SourceFile, scan: &Scan) -> Vec<(usize, String)> {
    if HOLD_PATHS.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    let begins_at_root = |text: &str| {
        let top = text.strip_prefix('/').and_then(|rest| rest.split('/').next());
        top.is_some_and(|top| TOPS.contains(&top))
    };
    scan.literals
        .iter()
        .filter(|(line, text)| begins_at_root(text) && !scan.is_test_line(*line))
        .map(|(line, text)| {
            (*line, format!("only lib/linux, lib/session and lib/member hold paths such as \"{text}\""))
        })
        .collect()
}

fn prints(file: &SourceFile, scan: &Scan) -> Vec<(usize, String)> {
    if !LIBRARIES.iter().any(|top| file.path.starts_with(top)) {
        return Vec::new();
    }
    uses(scan, &["println!", "eprintln!", "print!", "eprint!", "dbg!"])
        .map(|(line, word)| (line, format!("no library prints: {word}")))
        .collect()
}

fn world(file: &SourceFile, scan: &Scan) -> Vec<(usize, String)> {
    if TOUCH_THE_WORLD.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    uses(scan, &["Instant::now", "SystemTime::now", "thread::sleep", "std::fs", "File::open", "File::create"])
        .map(|(line, word)| {
            (
                line,
                format!(
                    "only machines, session, store, member, workloads and rt read time or touch files: {word}"
                ),
            )
        })
        .collect()
}

fn threads(scan: &Scan) -> Vec<(usize, String)> {
    if scan.code.iter().any(|line| line.contains("loom::model")) {
        // A file of loom tests. Loom's threads are not threads of the system.
        return Vec::new();
    }
    let found = uses(scan, &["thread::spawn(", "scope.spawn("]);
    found
        .map(|(line, word)| {
            (line, format!("{word}…) panics where no thread can be started: thread::Builder"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(path: &str, text: &str) -> Vec<String> {
        check(&SourceFile { path: path.into(), text: text.into(), is_test: false })
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_file_that_keeps_the_habits_has_no_breach() {
        let text = "//! Sums. Not \"/proc\".\n\n/// Prints nothing (`println!`).\nfn sum() { s(\"a/proc/b\", \"/\", \"/s\") }\n";
        assert_eq!(breaches("lib/model/src/sum.rs", text), [""; 0]);
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        let found = breaches("lib/model/src/sum.rs", "fn sum() {}\n");
        assert_eq!(
            found,
            ["lib/model/src/sum.rs:1: the first line must say what the file is for, after //!"]
        );
        assert_eq!(breaches("tests/vm/tests/vm.rs", "\n//! Late.\n").len(), 1);
    }

    #[test]
    fn a_thread_that_panics_where_it_cannot_be_started_is_found() {
        let text =
            "//! A.\nfn a() {\n  thread::spawn(f);\n  scope.spawn(f);\n  Builder::new().spawn(f);\n}\n";
        assert_eq!(breaches("svc/poold/src/a.rs", text).len(), 2);
        assert_eq!(breaches("svc/poold/tests/a.rs", text), [""; 0]);
    }

    #[test]
    fn of_the_library_for_real_time_one_file_holds_paths() {
        let text = "//! A.\nuse std::fs;\nconst A: &str = \"/dev/a\";\n";
        assert_eq!(breaches(OF_REAL_TIME, text), [""; 0]);
        assert_eq!(breaches("rt/rt/src/realtime/heap.rs", text).len(), 1);
    }

    #[test]
    fn a_path_of_the_machine_is_found_outside_the_two_rooms_that_hold_them() {
        let text = "//! A.\nfn a() {\n  read(\"/proc/stat\");\n  read(\"/sys\");\n}\n";
        let found = breaches("lib/observe/src/a.rs", text);
        assert_eq!(
            found,
            [
                "lib/observe/src/a.rs:3: only lib/linux, lib/session and lib/member hold paths such as \"/proc/stat\"",
                "lib/observe/src/a.rs:4: only lib/linux, lib/session and lib/member hold paths such as \"/sys\"",
            ]
        );
        assert_eq!(breaches("cmd/src/a.rs", text).len(), 2);
        assert_eq!(breaches("lib/linux/src/a.rs", text), [""; 0]);
        assert_eq!(breaches("lib/session/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn tests_hold_what_paths_they_like() {
        let text =
            "//! A.\n#[cfg(test)]\nmod tests {\n  fn a() { std::fs::read(\"/proc/stat\"); println!() }\n}\n";
        assert_eq!(breaches("lib/observe/src/a.rs", text), [""; 0]);
        let text = "//! A.\nfn a() { std::fs::read(\"/run/x\"); println!() }\n";
        assert_eq!(breaches("lib/observe/tests/a.rs", text), [""; 0]);
        assert_eq!(breaches("lib/observe/src/tests.rs", text), [""; 0]);
        assert_eq!(breaches("tests/vm/src/a.rs", text), [""; 0]);
        let file = SourceFile { path: "lib/observe/src/live.rs".into(), text: text.into(), is_test: true };
        assert_eq!(check(&file), []);
    }

    #[test]
    fn a_library_that_prints_is_found() {
        let text = "//! A.\nfn a() {\n  println!(\"a\");\n  eprintln!(\"b\"); // println!\n}\n";
        assert_eq!(
            breaches("lib/linux/src/a.rs", text),
            [
                "lib/linux/src/a.rs:3: no library prints: println!",
                "lib/linux/src/a.rs:4: no library prints: eprintln!"
            ]
        );
        assert_eq!(breaches("xtask/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn time_and_files_are_found_where_they_do_not_belong() {
        let text = "//! A.\nuse std::fs;\nfn a() { Instant::now(); }\n";
        assert_eq!(
            breaches("cmd/src/a.rs", text),
            [
                "cmd/src/a.rs:2: only machines, session, store, member, workloads and rt read time or touch files: std::fs",
                "cmd/src/a.rs:3: only machines, session, store, member, workloads and rt read time or touch files: Instant::now",
            ]
        );
        assert_eq!(breaches("lab/workloads/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn a_test_that_is_switched_off_is_found() {
        let text = "//! A.\n#[test]\n#[ignore = \"slow\"]\nfn a() {}\n";
        assert_eq!(
            breaches("lib/linux/tests/a.rs", text),
            ["lib/linux/tests/a.rs:3: a test is run, or it is not there"]
        );
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        let long = format!("//! A.\n{}", "fn a() {}\n".repeat(LINES_MAX));
        assert_eq!(
            breaches("lib/model/src/a.rs", &long),
            ["lib/model/src/a.rs:801: a file has at most 800 lines"]
        );
        let fits = format!("//! A.\n{}", "fn a() {}\n".repeat(LINES_MAX - 1));
        assert_eq!(breaches("lib/model/src/a.rs", &fits), [""; 0]);
    }
}
