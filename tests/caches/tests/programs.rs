//! `millpond umem` on real programs, while they run and on their cores.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use millpond_cmd::{Ctx, Exit, run};
use millpond_golden::breach;
use millpond_session::Output;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The result of a command.
struct Said {
    exit: Exit,
    out: String,
    err: String,
}

fn umem(words: &str) -> Said {
    let words: Vec<&str> = ["millpond", "umem"].into_iter().chain(words.split_whitespace()).collect();
    let given: Vec<OsString> = words.iter().map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let exit = run(&given, &mut Ctx::new(Output::to(&mut out), Output::to(&mut err)));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let out = text(out);
    let lines: Vec<String> = out.lines().map(str::to_owned).collect();
    assert_eq!(breach(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), &lines), None);
    Said { exit, out, err: text(err) }
}

/// The JSON document of the only copy of the library.
fn document(words: &str) -> Value {
    let said = umem(words);
    assert!(said.err.is_empty(), "{words}: {}", said.err);
    let all: Value = serde_json::from_str(&said.out).unwrap();
    let heaps = all["heaps"].as_array().unwrap();
    assert_eq!(heaps.len(), 1, "{words}: {all}");
    heaps[0].clone()
}

/// A program that runs until it is dropped, and its output before it was ready.
struct Program {
    child: Child,
    said: Vec<String>,
    dir: tempfile::TempDir,
}

impl Program {
    fn start(path: &Path, words: &[&str], environment: &[(&str, &str)]) -> Program {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(path);
        command.args(words).envs(environment.iter().copied()).current_dir(dir.path()).stdout(Stdio::piped());
        let unlimited = || {
            let limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the record is readable.
            unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const limit) };
            Ok(())
        };
        // SAFETY: the closure makes one system call.
        let mut child = unsafe { command.pre_exec(unlimited) }.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let said = lines.take_while(|line| line != "ready").collect();
        Program { child, said, dir }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The addresses after a word in the program's output.
    fn addresses(&self, word: &str) -> BTreeSet<u64> {
        let lines = self.said.iter().filter(|line| line.split(' ').next() == Some(word));
        lines.map(|line| hex(line.rsplit("0x").next().unwrap())).collect()
    }

    /// A core that gdb writes of the running process. `Err`: why it could not.
    fn core_of_gdb(&self, dir: &Path) -> Result<PathBuf, &'static str> {
        let mut gcore = Command::new("gcore");
        let out = gcore.arg("-o").arg(dir.join("core")).arg(self.pid().to_string()).output();
        let out = out.map_err(|_| "there is no gcore (gdb)")?;
        let core = dir.join(format!("core.{}", self.pid()));
        if out.status.success() && core.is_file() { Ok(core) } else { Err("gcore writes no core here") }
    }

    /// Aborts the process, and returns its core. `None`: cores are stored elsewhere.
    fn core(&mut self) -> Option<PathBuf> {
        // SAFETY: the process is a live child of this one.
        unsafe { libc::kill(libc::pid_t::try_from(self.pid()).unwrap(), libc::SIGABRT) };
        self.child.wait().unwrap();
        Some(std::fs::read_dir(self.dir.path()).unwrap().next()?.unwrap().path())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// The preloadable library, built for this test. `None`: it cannot be built.
fn preloaded() -> Option<PathBuf> {
    let deps = std::env::current_exe().unwrap();
    let target = deps.parent()?.parent()?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "-q", "-p", "millpond-rt-malloc"]);
    cargo.arg("--manifest-path").arg(Path::new(ROOT).join("../../rt/Cargo.toml"));
    cargo.arg("--target-dir").arg(target.parent()?);
    if target.ends_with("release") {
        cargo.arg("--release");
    }
    let built = cargo.current_dir(ROOT).status().is_ok_and(|status| status.success());
    Some(target.join("libmillpond_malloc.so")).filter(|library| built && library.is_file())
}

/// The program in C and the library. `Err`: why there are none.
fn compiled(dir: &Path) -> Result<(PathBuf, PathBuf), &'static str> {
    let library = preloaded().ok_or("libmillpond_malloc.so cannot be built here")?;
    let program = dir.join("leak");
    let mut cc = Command::new("cc");
    cc.args(["-g", "-O1", "-fno-omit-frame-pointer", "-fno-builtin", "-Wall", "-Wextra", "-Werror"]);
    cc.arg(Path::new(ROOT).join("programs/leak.c")).arg("-o").arg(&program).arg("-lpthread");
    match cc.status() {
        Ok(status) => {
            assert!(status.success(), "it is not compiled");
            Ok((program, library))
        }
        Err(_) => Err("there is no C compiler"),
    }
}

/// Whether this process may read others; prints the reason if not.
fn may_look(test: &str, pid: u32) -> bool {
    let said = umem(&format!("stat {pid}"));
    if said.err.contains("permission denied") {
        println!("skipped: {test}: {}", said.err.trim());
        return false;
    }
    true
}

/// Number and total bytes of leaks.
fn lost(document: &Value) -> (u64, u64) {
    let leaks = document["leaks"].as_array().unwrap();
    let sum = |key: &str| leaks.iter().map(|leak| leak[key].as_u64().unwrap()).sum();
    (sum("buffers"), sum("bytes"))
}

/// Asserts that every leak is a lost address of the program, and that none is missing.
fn assert_lost(program: &Program, target: &str, audited: bool) {
    let found = document(&format!("findleaks --json {target}"));
    let expected = program.addresses("lost");
    assert_eq!(lost(&found).0, expected.len() as u64, "{target}: {found:#}");
    for leak in found["leaks"].as_array().unwrap() {
        let stack: Vec<&str> =
            leak["stack"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let is_known = stack.iter().any(|line| line.contains("`lose") || line.contains("::lose"));
        assert_eq!(is_known, audited && leak["cache"] != "oversize", "{target}: {leak:#}");
        let first = hex(leak["first"].as_str().unwrap());
        assert!(expected.iter().any(|address| (first..first + 64).contains(address)), "{target}: {leak:#}");
    }
    let said = umem(&format!("findleaks -dv {target}"));
    assert_eq!(said.exit, Exit::REFUSED);
    assert!(said.out.contains(&format!("{} buffers", expected.len())), "{}", said.out);
}

#[test]
fn what_a_program_under_the_preloaded_malloc_lost_is_found() {
    let test = "what_a_program_under_the_preloaded_malloc_lost_is_found";
    let dir = tempfile::tempdir().unwrap();
    let (path, library) = match compiled(dir.path()) {
        Ok(found) => found,
        Err(why) => return println!("skipped: {test}: {why}"),
    };
    let library = library.to_str().unwrap();
    for (debug, audited) in [("", false), ("default", true)] {
        let environment = [("LD_PRELOAD", library), ("UMEM_DEBUG", debug), ("UMEM_LOGGING", "transaction")];
        let mut program = Program::start(&path, &[], &environment);
        let target = program.pid().to_string();
        if !may_look(test, program.pid()) {
            return;
        }
        assert_eq!(program.addresses("lost").len(), 13);
        assert_lost(&program, &target, audited);
        let found = document(&format!("findleaks --json {target}"));
        assert!(found["pause_ns"].as_u64().unwrap() > 0 && found["threads"] == 2, "{found:#}");
        let verified = umem(&format!("verify {target}"));
        assert_eq!(verified.exit, Exit::DONE, "{}", verified.out);
        let status = umem(&format!("status {target}")).out;
        assert!(status.starts_with("Status:\t\tready and active\n"), "{status}");
        let one = *program.addresses("lost").first().unwrap();
        let what = umem(&format!("whatis {target} {one:x}")).out;
        assert!(what.contains("allocated from umem_malloc_") || what.contains("a large buffer"), "{what}");
        let log = umem(&format!("log --most 3 {target}"));
        assert_eq!(log.out.matches("\nT-").count(), if audited { 3 } else { 0 }, "{}{}", log.out, log.err);
        assert_eq!(log.exit, if audited { Exit::DONE } else { Exit::REFUSED });
        match program.core_of_gdb(dir.path()) {
            Ok(core) => assert_lost(&program, core.to_str().unwrap(), audited),
            Err(why) => println!("skipped: {test}: {why}"),
        }
        let Some(core) = program.core() else {
            println!("skipped: {test}: cores are not left in the working directory here");
            continue;
        };
        assert_lost(&program, core.to_str().unwrap(), audited);
        let stat = document(&format!("stat --json {}", core.display()));
        assert!(
            stat["caches"].as_array().unwrap().iter().any(|cache| cache["in_use"].as_u64() > Some(50)),
            "{stat:#}"
        );
    }
}

#[test]
fn what_was_overwritten_is_found_with_who_had_it() {
    let test = "what_was_overwritten_is_found_with_who_had_it";
    let dir = tempfile::tempdir().unwrap();
    let (path, library) = match compiled(dir.path()) {
        Ok(found) => found,
        Err(why) => return println!("skipped: {test}: {why}"),
    };
    let environment = [
        ("LD_PRELOAD", library.to_str().unwrap()),
        ("UMEM_DEBUG", "default"),
        ("UMEM_LOGGING", "transaction"),
    ];
    let cases = [
        ("past", "(allocated) has a corrupt redzone signature"),
        ("late", "(free) seems corrupted, at "),
        ("none", ""),
    ];
    for (how, expected) in cases {
        let program = Program::start(&path, &[how], &environment);
        if !may_look(test, program.pid()) {
            return;
        }
        let pid = program.pid();
        let said = umem(&format!("verify {pid}"));
        let lines: Vec<&str> = said.out.lines().filter(|line| line.starts_with("  buffer ")).collect();
        if expected.is_empty() {
            assert_eq!((lines.len(), said.exit), (0, Exit::DONE), "{}", said.out);
            continue;
        }
        assert_eq!((lines.len(), said.exit), (1, Exit::REFUSED), "{how}: {}", said.out);
        assert!(lines[0].contains(expected), "{how}: {}", lines[0]);
        let buffer = lines[0].split(' ').nth(3).unwrap();
        let harmed = *program.addresses("harm").first().unwrap();
        assert!((hex(buffer)..hex(buffer) + 32).contains(&harmed), "{how}: {} {harmed:x}", lines[0]);
        let history = umem(&format!("bufctl {pid} {harmed:x}")).out;
        assert!(history.contains("leak`harm+0x") && history.contains("allocated"), "{how}: {history}");
        assert_eq!(history.contains("freed"), how == "late", "{history}");
    }
}

#[test]
fn objects_of_caches_are_told_from_those_in_magazines() {
    let test = "objects_of_caches_are_told_from_those_in_magazines";
    let examples = std::env::current_exe().unwrap();
    let path = examples.parent().and_then(Path::parent).unwrap().join("examples/harbour");
    if !path.is_file() {
        return println!(
            "skipped: {test}: the example is not built (cargo test builds it unless only this test is)"
        );
    }
    for (debug, audited) in [("", false), ("audit", true)] {
        let mut program = Program::start(&path, &[], &[("UMEM_DEBUG", debug)]);
        let target = program.pid().to_string();
        if !may_look(test, program.pid()) {
            return;
        }
        assert_boats(&program, &target, audited);
        match program.core() {
            Some(core) => assert_boats(&program, core.to_str().unwrap(), audited),
            None => println!("skipped: {test}: cores are not left in the working directory here"),
        }
    }
}

/// Asserts that four boats and their sails are leaks; those in magazines are not.
fn assert_boats(program: &Program, target: &str, audited: bool) {
    let found = document(&format!("findleaks --json {target}"));
    let leaks = found["leaks"].as_array().unwrap();
    let of = |name: &str| -> u64 {
        let those = leaks.iter().filter(|leak| leak["cache"].as_str().unwrap().contains(name));
        those.map(|leak| leak["buffers"].as_u64().unwrap()).sum()
    };
    assert_eq!((of("boat"), of("umem_alloc_"), lost(&found).0), (4, 4, 8), "{found:#}");
    let stat = document(&format!("stat --json {target}"));
    let boats = stat["caches"].as_array().unwrap().iter().find(|cache| cache["name"] == "boat").unwrap();
    assert_eq!(boats["in_use"], 12, "{boats:#}");
    assert_eq!(boats["in_magazines"].as_u64() > Some(0), !audited, "{boats:#}");
    // Boats that were moored and not allocated again are free.
    let away: BTreeSet<u64> = program.addresses("lost").union(&program.addresses("kept")).copied().collect();
    for boat in program.addresses("moored").difference(&away) {
        let what = umem(&format!("whatis {target} {boat:x}")).out;
        let expected = if audited { "freed from boat" } else { "free in a magazine of boat" };
        assert!(what.contains(expected), "{what}");
    }
    assert_eq!(umem(&format!("verify {target}")).exit, Exit::DONE);
}

#[test]
fn a_process_without_caches_is_told_what_helps() {
    let program = Command::new("sleep").arg("1000").spawn();
    let Ok(mut child) = program else {
        return println!("skipped: a_process_without_caches_is_told_what_helps: there is no sleep");
    };
    let said = umem(&format!("findleaks {}", child.id()));
    let pid = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    if said.err.contains("permission denied") {
        return println!("skipped: a_process_without_caches_is_told_what_helps: {}", said.err.trim());
    }
    let expected = format!(
        "millpond umem: cannot look into process {pid}: it has no object caches of ours\n\
         hint: start it with LD_PRELOAD=libmillpond_malloc.so (programs that are linked statically take none), or link it with libmillpond_rt\n"
    );
    assert_eq!((said.exit, said.err), (Exit::REFUSED, expected));
    let gone = umem(&format!("stat {}", u32::MAX - 1));
    assert_eq!(
        gone.err,
        format!("millpond umem: cannot look into process {}: there is no such process\n", u32::MAX - 1)
    );
}
