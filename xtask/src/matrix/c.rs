//! The C test programs of the real-time library, under the sanitizers of the C compiler and under valgrind.
//!
//! The library itself is not instrumented here (the sanitizer groups do that). This checks how the programs use its memory, and
//! what is passed to the C library and the kernel. The thread sanitizer is not used, because it does not see the locks with which
//! a buffer is passed between threads.

use super::outcome::Outcome;
use super::tools::{self, target_dir};
use crate::cargo::{Built, TestBinary};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of `rt/rt/tests`, values of `UMEM_DEBUG`, and the groups of tests; an empty group means all.
const PROGRAMS: [(&str, &[&str], &[&str]); 3] = [
    ("umem", &["", "default"], &["calls", "threads", "many-caches", "caches-come-and-go"]),
    ("umem", &[""], &["objects"]),
    ("locks", &[""], &[""]),
];

/// The checkers: name, compiler flags, and the command that runs the program.
const WAYS: [(&str, &[&str], &[&str]); 2] = [
    ("address,undefined", &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], &[]),
    ("valgrind", &[], &["valgrind", "--quiet", "--error-exitcode=99"]),
];

pub(super) fn lacks() -> Option<String> {
    let lacking = ["gcc", "valgrind"].into_iter().find(|program| !tools::has_program(program));
    lacking.map(|program| format!("there is no {program} (apt-get install {program})"))
}

pub(super) fn run(built: &Built) -> Outcome {
    let mut outcome = Outcome::default();
    let is_wanted = |test: &TestBinary| test.package == "rt" && test.target == "c";
    let [tests, ..] = outcome.executables(built, is_wanted, "c")[..] else { return outcome };
    for (name, debugs, groups) in PROGRAMS {
        for (way, flags, under) in WAYS {
            let program = match compile(tests, name, way, flags) {
                Ok(program) => program,
                Err(words) => {
                    outcome.fail(&format!("{name} {way}"), words);
                    continue;
                }
            };
            for (debug, group) in
                debugs.iter().flat_map(|debug| groups.iter().map(move |group| (*debug, *group)))
            {
                let mut command = as_told(under, &program);
                command.args(Some(group).filter(|group| !group.is_empty())).env("UMEM_DEBUG", debug);
                outcome.check(&format!("{name} {group} {debug} {way}"), &command);
            }
        }
    }
    outcome.print("rt");
    outcome
}

fn as_told(under: &[&str], program: &Path) -> Command {
    match under {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// A program with the static library that cargo built for the crate's tests, or the compiler's output.
fn compile(tests: &TestBinary, name: &str, way: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let dir = target_dir("c");
    std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}\n", dir.display()))?;
    let program = dir.join(format!("{name}-{way}"));
    let mut command = Command::new("gcc");
    command.args(["-g", "-O1", "-std=gnu11", "-I"]).arg(tests.dir.join("include")).args(flags);
    command.arg(tests.dir.join(format!("tests/{name}.c")));
    command.arg(tests.path.with_file_name("libmillpond_rt.a"));
    command.args(["-lgcc_s", "-lpthread", "-ldl", "-lm", "-o"]).arg(&program);
    match command.output() {
        Ok(out) if out.status.success() => Ok(program),
        Ok(out) => Err(tools::output(&out)),
        Err(error) => Err(format!("gcc: {error}\n")),
    }
}
