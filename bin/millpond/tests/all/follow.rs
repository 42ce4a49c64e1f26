//! Members that follow a pool: from the command that changes the pool to the notified member, on a captured machine,
//! each in its own process.

use crate::captured::{Captured, err, millpond, out};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

const WEB: &str = "create pset web ( uint pset.max = 4 ) create pool web associate pool web ( pset web ) \
                   transfer to pset web ( cpu 2 ; cpu 3 )";

/// A running program, which is killed at the end of the test.
struct Running(Child, BufReader<ChildStdout>);

impl Running {
    fn start(command: &mut std::process::Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running(child, out)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Whether the program ends within a minute, with status 0 or by the signal. The signal is sent repeatedly.
    fn ends_when_asked(&mut self) -> bool {
        let pid = Pid::from_child(&self.0);
        let end = Instant::now() + Duration::from_secs(60);
        while Instant::now() < end {
            let _ = kill_process(pid, Signal::TERM);
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.success() || status.signal() == Some(Signal::TERM.as_raw());
            }
            std::thread::yield_now();
        }
        false
    }

    /// The exit status, and the text on standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap().code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn with_pools() -> Captured {
    let captured = Captured::new();
    for words in [&["pooladm", "-e"][..], &["poolcfg", "-d", "-c", WEB]] {
        let done = captured.run(words);
        assert_eq!((done.status.code(), err(&done).as_str()), (Some(0), ""), "{words:?}");
    }
    captured
}

#[test]
fn a_command_is_run_when_another_command_changes_the_pool() {
    let captured = with_pools();
    let changes = |words: &[&str]| {
        let done = captured.run(words);
        assert_eq!((done.status.code(), err(&done).as_str()), (Some(0), ""), "{words:?}");
    };
    let say = "echo $MILLPOND_POOL $MILLPOND_POOL_SIZE $MILLPOND_POOL_CPUS";
    let mut follower =
        Running::start(&mut captured.command(&["poolbind", "--json", "-p", "web", "--on-resize", say, "77"]));
    assert_eq!(
        follower.line(),
        r#"{"changes":[{"pid":77,"pool":"web"}],"notes":[],"refused":[],"version":1}"#
    );

    changes(&["poolcfg", "-d", "-c", "transfer to pset web ( cpu 1 )"]);
    assert_eq!(follower.line(), "web 3 1-3");
    changes(&["psradm", "-f", "2"]);
    assert_eq!(follower.line(), "web 2 1,3");

    // Killed after the change is done and before members are notified: the next command notifies them.
    let words = ["poolcfg", "-d", "-c", "transfer to pset pset_default ( cpu 1 )"];
    let killed = captured.command(&words).env("MILLPOND_KILL_AT", "committed").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    let told = || fs::read_to_string(captured.dir().join("state/pools/web")).unwrap();
    assert_eq!(told(), "pool 1\nprocessors 1,3\nsize 2\nserial 3\n");
    changes(&["poolbind", "-p", "pool_default", "77"]);
    assert_eq!(follower.line(), "web 1 3");
    assert_eq!(told(), "pool 1\nprocessors 3\nsize 1\nserial 4\n");

    // Killed before the change is complete: it is undone, and members are not notified.
    let words = ["poolcfg", "-d", "-c", "transfer to pset web ( cpu 0 )"];
    let killed = captured.command(&words).env("MILLPOND_KILL_AT", "applied").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9));
    assert_eq!(captured.run(&["doctor", "--repair"]).status.code(), Some(0));
    assert_eq!(told(), "pool 1\nprocessors 3\nsize 1\nserial 4\n");

    changes(&["pooladm", "-d"]);
    assert_eq!(follower.end(), (Some(0), "poolbind: pool web is gone\n".to_owned()));
    assert!(!captured.dir().join("state/pools").exists());
}

/// The pipe is full because no process reads it. The command that filled it has failed, which the follower would
/// report there.
#[test]
fn a_command_that_fills_an_error_stream_that_no_process_reads_keeps_no_follower_from_ending() {
    let captured = with_pools();
    // The capacity of a pipe (pipe(7)).
    let fill = "head -c 65536 /dev/zero >&2; echo filled; exit 3";
    let mut follower = Running::start(&mut captured.command(&[
        "poolbind",
        "--json",
        "-p",
        "web",
        "--on-resize",
        fill,
        "77",
    ]));
    assert_eq!(
        follower.line(),
        r#"{"changes":[{"pid":77,"pool":"web"}],"notes":[],"refused":[],"version":1}"#
    );
    let grown = captured.run(&["poolcfg", "-d", "-c", "transfer to pset web ( cpu 1 )"]);
    assert!(grown.status.success(), "{grown:?}");
    assert_eq!(follower.line(), "filled");
    assert!(follower.ends_when_asked(), "it waits for a reader");
}

/// The command ignores signals, and its children keep its streams open.
#[test]
fn a_command_that_ignores_signals_is_waited_for_until_the_second_request() {
    let captured = with_pools();
    let stays = "trap '' HUP INT TERM; sleep 600 & echo $$ $!; wait; wait";
    let mut follower = Running::start(&mut captured.command(&[
        "poolbind",
        "--json",
        "-p",
        "web",
        "--on-resize",
        stays,
        "77",
    ]));
    follower.line();
    let grown = captured.run(&["poolcfg", "-d", "-c", "transfer to pset web ( cpu 1 )"]);
    assert!(grown.status.success(), "{grown:?}");
    let left = follower.line();
    // A change does not wait for members meanwhile.
    let shrunk = captured.run(&["poolcfg", "-d", "-c", "transfer to pset pset_default ( cpu 1 )"]);
    assert!(shrunk.status.success(), "{shrunk:?}");
    let has_ended = follower.ends_when_asked();
    for pid in left.split(' ').map(|pid| pid.parse().unwrap()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
    assert!(has_ended, "it waits for a command that never ends");
}

#[test]
fn what_cannot_be_followed_is_refused_before_anything_is_bound() {
    let captured = with_pools();
    let refused = captured.run(&["poolbind", "-p", "nobody", "--on-resize", "true", "77"]);
    let said = "poolbind: couldn't follow pool 'nobody': there is no pool nobody\n";
    assert_eq!((refused.status.code(), err(&refused).as_str()), (Some(1), said));
    // A refusal ends the command.
    let refused = captured.run(&["poolbind", "-p", "web", "--on-resize", "true", "9999"]);
    assert_eq!(refused.status.code(), Some(1));
    let shown = captured.run(&["poolbind", "--dry-run", "-p", "web", "--on-resize", "true", "77"]);
    assert_eq!(shown.status.code(), Some(0));
    assert_eq!(out(&captured.run(&["poolbind", "-q", "77"])), "77\tpool_default\n");
}

#[test]
fn a_malleable_load_has_as_many_threads_as_its_pool_has_processors() {
    let test = "a_malleable_load_has_as_many_threads_as_its_pool_has_processors";
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return println!("skipped: {test}: this process may use one processor only");
    }
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("pools")).unwrap();
    let tell = |text: &str| {
        fs::write(dir.path().join("pools/.new"), text).unwrap();
        fs::rename(dir.path().join("pools/.new"), dir.path().join("pools/web")).unwrap();
    };
    tell("pool 1\nprocessors 3\nsize 1\nserial 1\n");
    let mut command = millpond();
    command.args([
        "load",
        "cg",
        "--malleable",
        "--barrier",
        "block",
        "--seconds",
        "600",
        "--json",
        "--events",
    ]);
    command.env("MILLPOND_STATE", dir.path()).env("MILLPOND_POOL", "web");
    let mut load = Running::start(&mut command);
    let mut next = |event: &str| {
        loop {
            let line: serde_json::Value = serde_json::from_str(&load.line()).unwrap();
            if line["event"] == event {
                return line;
            }
        }
    };
    assert_eq!(next("ready")["threads"], 1);
    next("started");
    tell("pool 1\nprocessors 2-3\nsize 2\nserial 2\n");
    let resized = next("resized");
    assert_eq!((&resized["from"], &resized["to"]), (&1.into(), &2.into()));
    tell("pool 1\nprocessors 2\nsize 1\nserial 3\n");
    assert_eq!(next("resized")["to"], 1);
    // Without its pool, the member uses the CPUs of its affinity mask.
    fs::remove_file(dir.path().join("pools/web")).unwrap();
    assert!(next("resized")["to"].as_u64().unwrap() >= 2);
}
