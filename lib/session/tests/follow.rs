//! Tests of following a pool with commands, with and without a program. The test itself writes the notices that a writer of the machine would.
//!
//! A follower uses the signals of its process, so each test starts another instance of the test program (`puppet`). All processes write to
//! a named pipe, from which the test reads lines.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use millpond_session::{Follower, OpenOptions, Program, Session, pool_environment, supervise};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Set in a child of the test; its value is the test's directory.
const PLACE: &str = "MILLPOND_TEST_FOLLOW";

/// Follows the pool `web` of the test's directory; the command and the program are files there.
#[test]
fn puppet() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let mut out = File::options().write(true).open(place.join("out")).unwrap();
    let command = fs::read_to_string(place.join("command")).unwrap();
    let follower = Follower::begin(&place, "web", command.as_ref()).unwrap();
    let script = fs::read_to_string(place.join("program")).ok();
    let words = script.map(|script| script.split('\n').map(Into::into).collect::<Vec<std::ffi::OsString>>());
    writeln!(out, "follows").unwrap();
    let environment = pool_environment(Some(&place), "web");
    let view = if place.join("view").exists() {
        let state = Some(place.clone());
        let session = Session::open(&OpenOptions { state, ..OpenOptions::default() }).unwrap();
        match session.view() {
            Ok(view) => Some((view, "web")),
            Err(absent) => {
                writeln!(out, "no view: {absent}").unwrap();
                return;
            }
        }
    } else {
        None
    };
    let program = words.as_deref().map(|words| Program { words, environment, view });
    let status = supervise(program, Some(follower), &mut |text| writeln!(out, "told: {text}").unwrap());
    let status = status.unwrap_or_else(|why| {
        writeln!(out, "refused: {why}").unwrap();
        99
    });
    #[allow(clippy::exit)]
    std::process::exit(status.into());
}

struct Place {
    dir: tempfile::TempDir,
    out: BufReader<File>,
    gate: File,
    puppet: Option<Child>,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("pools")).unwrap();
        for pipe in ["out", "gate"] {
            let made = Command::new("mkfifo").arg(dir.path().join(pipe)).status().unwrap();
            assert!(made.success());
        }
        // Open for reading and writing, for as long as the test runs: then no process waits for the other end to be opened,
        // or reads the end of file when a writer closes.
        let both = |pipe| File::options().read(true).write(true).open(dir.path().join(pipe)).unwrap();
        let (out, gate) = (BufReader::new(both("out")), both("gate"));
        let place = Place { dir, out, gate, puppet: None };
        place.tell(&[2, 3], 1);
        place
    }

    fn tell(&self, cpus: &[u32], serial: u32) {
        let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        let text = format!("pool 1\nprocessors {}\nsize {}\nserial {serial}\n", list.join(","), cpus.len());
        let dir = self.dir.path().join("pools");
        fs::write(dir.join(".new"), text).unwrap();
        fs::rename(dir.join(".new"), dir.join("web")).unwrap();
    }

    fn end_pool(&self) {
        fs::remove_file(self.dir.path().join("pools/web")).unwrap();
    }

    /// Starts a follower. In both texts, OUT and GATE are the pipes.
    fn follow(&mut self, command: &str, program: Option<&[&str]>) {
        let at = |name: &str| self.dir.path().join(name).display().to_string();
        let text = |text: &str| text.replace("OUT", &at("out")).replace("GATE", &at("gate"));
        fs::write(at("command"), text(command)).unwrap();
        if let Some(words) = program {
            fs::write(at("program"), text(&words.join("\n"))).unwrap();
        }
        let mut puppet = Command::new(std::env::current_exe().unwrap());
        // A process group of its own, as a shell creates for a job.
        puppet
            .args(["puppet", "--exact", "--quiet", "--nocapture"])
            .env(PLACE, self.dir.path())
            .process_group(0);
        self.puppet = Some(puppet.stdout(Stdio::null()).spawn().unwrap());
        assert_eq!(self.line(), "follows");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Lets one command continue.
    fn open_gate(&mut self) {
        writeln!(self.gate, "go").unwrap();
    }

    fn send(&self, signal: &str) {
        let pid = self.puppet.as_ref().unwrap().id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    fn status(&mut self) -> i32 {
        let status = self.puppet.take().unwrap().wait().unwrap();
        status.code().unwrap_or_else(|| panic!("it was ended by signal {:?}", status.signal()))
    }
}

fn stops(puppet: &Child) -> bool {
    let pid = rustix::process::Pid::from_child(puppet);
    let seen = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::UNTRACED).unwrap();
    seen.is_some_and(|(_, status)| status.stopped())
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(mut puppet) = self.puppet.take() {
            let _ = puppet.kill();
            let _ = puppet.wait();
        }
    }
}

const SAY: &str = "echo $MILLPOND_POOL $MILLPOND_POOL_SIZE $MILLPOND_POOL_CPUS >OUT";

/// Waits for signals and reports them; exits with 7 on SIGTERM.
const WAITS: &str = "sleep 1000 & nap=$!; trap 'echo usr1 >OUT' USR1; trap 'kill $nap; exit 7' TERM; \
                     echo ready $MILLPOND_POOL $MILLPOND_POOL_SIZE >OUT; while :; do wait $nap; done";

#[test]
fn a_command_is_run_at_each_change_and_the_program_gets_the_signals_and_gives_the_status() {
    let mut place = Place::new();
    place.follow(SAY, Some(&["sh", "-c", WAITS]));
    assert_eq!(place.line(), "ready web");
    place.tell(&[2, 3, 4], 2);
    assert_eq!(place.line(), "web 3 2-4");
    place.send("USR1");
    assert_eq!(place.line(), "usr1");
    place.tell(&[2], 3);
    assert_eq!(place.line(), "web 1 2");
    place.send("TERM");
    assert_eq!(place.status(), 7);
}

#[test]
fn one_command_runs_at_a_time_and_the_latest_size_wins() {
    let mut place = Place::new();
    place.follow("echo $MILLPOND_POOL_SIZE >OUT; read word <GATE", None);
    place.tell(&[2], 2);
    assert_eq!(place.line(), "1");
    place.tell(&[2, 3, 4], 3);
    place.tell(&[2, 3, 4, 5], 4);
    place.open_gate();
    assert_eq!(place.line(), "4");
    place.send("TERM");
    // It waits for the running command.
    place.open_gate();
    assert_eq!(place.status(), 0);
}

#[test]
fn without_a_program_it_ends_with_the_pool() {
    let mut place = Place::new();
    place.follow(SAY, None);
    place.end_pool();
    assert_eq!(place.line(), "told: pool web is gone");
    assert_eq!(place.status(), 0);
}

#[test]
fn a_program_outlives_its_pool() {
    let mut place = Place::new();
    place.follow(SAY, Some(&["sh", "-c", WAITS]));
    assert_eq!(place.line(), "ready web");
    place.end_pool();
    assert_eq!(place.line(), "told: pool web is gone");
    place.send("USR1");
    assert_eq!(place.line(), "usr1");
    place.send("TERM");
    assert_eq!(place.status(), 7);
}

#[test]
fn a_command_that_fails_is_told_and_the_next_one_is_run() {
    let mut place = Place::new();
    place.follow("echo $MILLPOND_POOL_SIZE >OUT; exit 3", None);
    place.tell(&[2], 2);
    assert_eq!(place.line(), "1");
    assert_eq!(place.line(), "told: the command for 1 CPU ended with status 3");
    place.tell(&[2, 3], 3);
    assert_eq!(place.line(), "2");
    assert_eq!(place.line(), "told: the command for 2 CPUs ended with status 3");
    place.send("TERM");
    assert_eq!(place.status(), 0);
}

#[test]
fn a_program_that_a_signal_ended_gives_128_and_its_number() {
    let mut place = Place::new();
    place.follow(SAY, Some(&["sh", "-c", "kill -KILL $$"]));
    assert_eq!(place.status(), 137);
}

#[test]
fn a_job_that_is_stopped_stops_as_a_whole_and_goes_on_as_a_whole() {
    let mut place = Place::new();
    place.follow(SAY, Some(&["sh", "-c", WAITS]));
    assert_eq!(place.line(), "ready web");
    place.send("TSTP");
    assert!(stops(place.puppet.as_ref().unwrap()));
    place.tell(&[2, 3, 4], 2);
    place.send("CONT");
    assert_eq!(place.line(), "web 3 2-4");
    place.send("USR1");
    assert_eq!(place.line(), "usr1");
    place.send("TERM");
    assert_eq!(place.status(), 7);
}

#[test]
fn a_program_has_its_view_and_a_command_is_run_at_each_change() {
    let test = "a_program_has_its_view_and_a_command_is_run_at_each_change";
    let mut place = Place::new();
    fs::write(place.dir.path().join("view"), "").unwrap();
    let looks = format!("grep -c '^millpond /proc/stat tmpfs' /proc/mounts >OUT; {WAITS}");
    place.follow(SAY, Some(&["sh", "-c", &looks]));
    let first = place.line();
    if first.starts_with("no view: ") {
        return println!("skipped: {test}: {first}");
    }
    assert_eq!((first.as_str(), place.line().as_str()), ("1", "ready web"));
    place.tell(&[2, 3, 4], 2);
    assert_eq!(place.line(), "web 3 2-4");
    place.send("USR1");
    assert_eq!(place.line(), "usr1");
    place.tell(&[2], 3);
    assert_eq!(place.line(), "web 1 2");
    place.end_pool();
    assert_eq!(place.line(), "told: pool web is gone");
    place.send("TERM");
    assert_eq!(place.status(), 7);
}

#[test]
fn a_program_that_does_not_exist_is_told_in_words() {
    let mut place = Place::new();
    place.follow(SAY, Some(&["/nonexistent/program"]));
    assert_eq!(place.line(), "refused: No such file or directory");
    assert_eq!(place.status(), 99);
}

#[test]
fn a_program_finds_its_pool_and_an_unusual_state_directory() {
    let environment = |state: Option<&Path>| millpond_session::pool_environment(state, "web");
    let pool = ("MILLPOND_POOL", "web".into());
    assert_eq!(environment(None), std::slice::from_ref(&pool));
    assert_eq!(environment(Some(Path::new("/run/millpond"))), std::slice::from_ref(&pool));
    assert_eq!(environment(Some(Path::new("/a"))), [pool, ("MILLPOND_STATE", "/a".into())]);
}
