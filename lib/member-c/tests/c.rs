//! Programs in C, compiled against the header and linked with both libraries. The test writes the notices that the machine's writer would write.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// One of the two libraries, which cargo builds as an example together with this test.
fn library(extension: &str) -> PathBuf {
    let me = std::env::current_exe().unwrap();
    let library = me.ancestors().nth(2).unwrap().join("examples").join(format!("libtested.{extension}"));
    assert!(library.exists(), "{}: build it with `cargo test --no-run`", library.display());
    library
}

/// A state directory that also has a place for programs.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.0.path().join("pools")).unwrap();
        place
    }

    fn tell(&self, text: &str) {
        let dir = self.0.path().join("pools");
        fs::write(dir.join(".new"), text).unwrap();
        fs::rename(dir.join(".new"), dir.join("web")).unwrap();
    }

    fn end(&self) {
        fs::remove_file(self.0.path().join("pools/web")).unwrap();
    }

    /// Compiles a program with a library. `Err`: why this machine cannot.
    fn compile(&self, source: &Path, extension: &str, openmp: bool) -> Result<Command, String> {
        let library = library(extension);
        let program = self.0.path().join("program");
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]);
        cc.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
        if openmp {
            let empty = self.0.path().join("empty.c");
            fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
            let tried = Command::new("cc").arg("-fopenmp").arg(&empty).arg("-o").arg(&program).output();
            if !tried.is_ok_and(|out| out.status.success()) {
                return Err("the C compiler has no OpenMP".to_owned());
            }
            cc.arg("-fopenmp");
        }
        cc.arg(source).arg(&library);
        if extension == "a" {
            cc.args(["-lgcc_s", "-lpthread", "-ldl", "-lm"]);
        } else {
            // The loader finds the library by its soname. An installed library has that name.
            let named = self.0.path().join("libmillpond_pool.so.0");
            fs::copy(&library, &named).unwrap();
            cc.arg(format!("-Wl,-rpath,{}", self.0.path().display()));
        }
        let out = match cc.arg("-o").arg(&program).output() {
            Err(error) => return Err(format!("there is no C compiler: {error}")),
            Ok(out) => out,
        };
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let mut command = Command::new(program);
        command.env("MILLPOND_STATE", self.0.path()).env("MILLPOND_POOL", "web");
        command.env_remove("OMP_THREAD_LIMIT").env("OMP_WAIT_POLICY", "passive");
        Ok(command)
    }
}

struct Running(Child, BufReader<ChildStdout>);

impl Running {
    fn start(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running(child, out)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TWO: &str = "pool 1\nprocessors 2-3\nsize 2\nserial 1\n";

fn an_openmp_program_follows(test: &str, extension: &str) {
    let place = Place::new();
    place.tell(TWO);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/jacobi.c");
    let command = match place.compile(&source, extension, true) {
        Ok(command) => command,
        Err(why) => return println!("skipped: {test}: {why}"),
    };
    let mut program = Running::start(command);
    assert_eq!(program.line(), "threads 2");
    place.tell("pool 1\nprocessors 3\nsize 1\nserial 2\n");
    assert_eq!(program.line(), "threads 1");
    place.tell("pool 1\nprocessors 0-2\nsize 3\nserial 3\n");
    assert_eq!(program.line(), "threads 3");
    place.end();
    assert_eq!(program.line(), "pool web is gone");
    assert!(program.0.wait().unwrap().success());
}

#[test]
fn an_openmp_program_follows_its_pool_with_the_static_library() {
    an_openmp_program_follows("an_openmp_program_follows_its_pool_with_the_static_library", "a");
}

#[test]
fn an_openmp_program_follows_its_pool_with_the_shared_library() {
    an_openmp_program_follows("an_openmp_program_follows_its_pool_with_the_shared_library", "so");
}

/// The program prints the result of each call, line by line.
#[test]
fn every_call_does_what_the_header_says() {
    let place = Place::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls.c");
    let command = match place.compile(&source, "so", false) {
        Ok(command) => command,
        Err(why) => return println!("skipped: every_call_does_what_the_header_says: {why}"),
    };
    place.tell(TWO);
    let mut program = Running::start(command);
    assert_eq!(program.line(), "none: ENOENT");
    assert_eq!(program.line(), "web: size 2, serial 1, processors 2 3, quiet");
    assert_eq!(program.line(), "time is up");
    place.tell("pool 1\nprocessors 70\nsize 1\nserial 2\n");
    assert_eq!(program.line(), "web: size 1, serial 2, too narrow: ERANGE");
    place.end();
    assert_eq!(program.line(), "web: EIDRM EIDRM");
    assert!(program.0.wait().unwrap().success());
}
