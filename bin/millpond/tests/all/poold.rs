//! poold as a process whose readers (log, service manager, standard error) do not read.

use crate::captured::millpond;
use rustix::fs::OFlags;
use rustix::process::Signal;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Much longer than any step takes. A step that hangs exceeds it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `seen` returns a value.
fn wait_for<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = seen() {
            return value;
        }
        assert!(began.elapsed() < PATIENCE, "{what}: nothing after {PATIENCE:?}");
        sleep(Duration::from_millis(20));
    }
}

/// Waits for the end of the process, which must be successful.
fn ended(child: &mut Child) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!((status.code(), status.signal()), (Some(0), None));
            return;
        }
        sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    let _ = child.wait();
    panic!("it did not end in {PATIENCE:?}");
}

/// A socket with a full queue that no process reads.
fn deaf_socket(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    let sender = UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    let full = (0..100_000).find_map(|_| sender.send_to(b"x", path).err());
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::WouldBlock));
    socket
}

/// A full pipe that no process reads: its reading and its writing end.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reads, writes) = std::io::pipe().unwrap();
    let (reads, writes) = (OwnedFd::from(reads), OwnedFd::from(writes));
    // The test fills the pipe through a separate open file description, so that the one of the child stays blocking.
    let own = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writes));
    let mut own =
        File::options().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(own).unwrap();
    let full = (0..1_000_000).find_map(|_| own.write(b"x").err());
    assert_eq!(full.map(|error| error.kind()), Some(ErrorKind::WouldBlock));
    (reads, writes)
}

/// A simulated machine with pools, saved in a file.
fn kept(dir: &Path) -> String {
    let file = dir.join("machine").to_str().unwrap().to_owned();
    let enabled =
        millpond().args(["pooladm", "-e", "--machine", "x4200", "--state", &file]).output().unwrap();
    assert!(enabled.status.success(), "{enabled:?}");
    file
}

#[test]
fn it_records_where_the_configuration_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let file = kept(dir.path());
    let day = dir.path().join("day");
    let out = |words: &[&str]| {
        let ended = millpond().args(words).env("MILLPOND_RECORDINGS", &day).output().unwrap();
        assert!(ended.status.success(), "{words:?}: {ended:?}");
        String::from_utf8(ended.stdout).unwrap() + &String::from_utf8(ended.stderr).unwrap()
    };
    let poold =
        |time: &str| out(&["poold", "-l", "INFO", "--machine", "x4200", "--state", &file, "--for", time]);
    assert!(!poold("3000").contains("record"));
    assert!(!day.exists(), "nobody asked for it");
    let modify = "modify system s ( boolean system.poold.record = true )";
    let modify = modify
        .replace(" s ", &format!(" {} ", system_of(&out(&["poolcfg", "-dc", "info", "--state", &file]))));
    out(&["poolcfg", "-dc", &modify, "--state", &file]);
    let said = poold("20000");
    assert!(said.contains(&format!("poold INFO: recording into {}", day.display())), "{said}");
    let shown = out(&["record", "--show"]);
    let frames: Vec<&str> = shown.lines().nth(1).unwrap().split(' ').collect();
    let count: u32 = frames[frames.iter().position(|word| *word == "frames").unwrap() - 1].parse().unwrap();
    assert!((18..=22).contains(&count), "one a second of its time: {shown}");
    assert!(said.contains(&format!("poold INFO: recorded {count} frames")), "{said}");
}

/// The name of the system in the output of `poolcfg info`: `system x4200`.
fn system_of(info: &str) -> String {
    let line = info.lines().find(|line| line.starts_with("system ")).unwrap();
    line.split_whitespace().nth(1).unwrap().to_owned()
}

fn terminate(child: &Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), Signal::TERM).unwrap();
}

/// Whether a process has a handler for SIGTERM.
fn catches_termination(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(mask, 16).unwrap_or(0) & (1 << (Signal::TERM.as_raw() - 1)) != 0
}

#[test]
fn a_full_notify_socket_stops_no_poold() {
    let dir = tempfile::tempdir().unwrap();
    let file = kept(dir.path());
    let path = dir.path().join("notify");
    let _deaf = deaf_socket(&path);
    let start = |words: &[&str]| {
        let mut poold = millpond();
        poold
            .args(["poold", "-l", "INFO", "--machine", "x4200", "--state", &file])
            .args(words)
            .stderr(Stdio::piped());
        poold.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "10000000").spawn().unwrap()
    };
    // A minute of simulated time has hundreds of turns. Each sends a watchdog notification.
    let mut poold = start(&["--for", "60000"]);
    ended(&mut poold);
    let log = std::io::read_to_string(poold.stderr.take().unwrap()).unwrap();
    assert!(
        log.contains("configuration complete") && log.trim_end().ends_with("poold NOTICE: exiting"),
        "{log}"
    );
    let mut poold = start(&[]);
    wait_for("its handler", || catches_termination(&poold).then_some(()));
    terminate(&poold);
    ended(&mut poold);
}

#[test]
fn a_full_standard_error_stops_no_poold() {
    let dir = tempfile::tempdir().unwrap();
    let file = kept(dir.path());
    let (_reads, writes) = full_pipe();
    let start = |words: &[&str]| {
        let mut poold = millpond();
        poold.args(["poold", "-l", "DEBUG", "--machine", "x4200", "--state", &file]).args(words);
        poold.stderr(writes.try_clone().unwrap()).spawn().unwrap()
    };
    ended(&mut start(&["--for", "2000"]));
    let mut poold = start(&[]);
    wait_for("its handler", || catches_termination(&poold).then_some(()));
    terminate(&poold);
    ended(&mut poold);
}

#[test]
fn a_remedy_that_the_machine_refuses_is_not_logged() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("machine");
    let run = |words: &[&str]| {
        let at = ["--machine", "x4200", "--state", state.to_str().unwrap()];
        millpond().args([&words[..1], &at, &words[1..]].concat()).output().unwrap()
    };
    let hint = || {
        let done = run(&["poold"]);
        assert_eq!(done.status.code(), Some(1));
        let said = String::from_utf8(done.stderr).unwrap();
        said.lines().find_map(|line| line.strip_prefix("hint: ").map(str::to_owned))
    };
    assert!(run(&["psrinfo"]).status.success());
    assert_eq!(hint().as_deref(), Some("enable pools: pooladm -e"));
    assert!(run(&["psrset", "-c", "3"]).status.success());
    let instead = "there are processor sets already: 1; remove them first: psrset -d 1";
    assert_eq!(hint().as_deref(), Some(instead), "pooladm -e is refused while there is a set");
}
