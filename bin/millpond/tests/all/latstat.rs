//! `latstat` with a full disk: it shows the measurement anyway. And `latstat --timerlat` on a kernel without that
//! tracer.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const NAME: &str = "a_full_disk_for_the_report_is_told_and_the_histograms_are_shown";

const SAVED: &str = r#"{"latstat":1,"runs":1,"elapsed_ns":2500000000,"lost":0,"rows":{
    "irq":[[1000,3]],"wake-up":[[2000,3]],"on-cpu":[[3,3]],"user":[[4000,3]],"total":[[1500,1],[1600,2]]},"worst":[]}"#;

/// A shell in its own mount namespace, with a directory `tiny` of one page that is full.
fn on_a_full_disk(dir: &Path, script: &str) -> Output {
    let full = "mount -t tmpfs -o size=4k tmpfs tiny && { dd if=/dev/zero of=tiny/full bs=4096 count=2 2>/dev/null; :; } || exit 77";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{full}\n{script}"), env!("CARGO_BIN_EXE_millpond")]);
    command.current_dir(dir).output().expect("unshare can be run")
}

#[test]
fn a_full_disk_for_the_report_is_told_and_the_histograms_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("tiny")).unwrap();
    fs::write(dir.path().join("run"), SAVED).unwrap();
    let script = "\"$0\" latstat --merge run --plot tiny --save tiny/kept";
    let output = on_a_full_disk(dir.path(), script);
    let err = String::from_utf8(output.stderr).unwrap();
    if output.status.code() == Some(77) || err.starts_with("unshare: ") {
        println!("skipped: {NAME}: no file system can be mounted here: {err}");
        return;
    }
    let out = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{err}");
    let rows: Vec<&str> = out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(rows, ["us", "irq", "wake-up", "on-cpu", "user", "total"]);
    let files = ["kept", "latstat.dat", "latstat.gp", "latstat.svg", "latstat.html"];
    for file in files {
        let says = format!("cannot write tiny/{file}: No space left on device\n");
        assert!(err.contains(&says), "{says}{err}");
    }
    assert_eq!(
        err.matches("\nhint: what was there before is still there; make room, or name another place\n")
            .count(),
        files.len()
    );
}

#[test]
fn where_the_kernel_has_no_timerlat_one_sentence_says_so() {
    const NAME: &str = "where_the_kernel_has_no_timerlat_one_sentence_says_so";
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    // With a timerlat tracer, the dry run only shows the steps.
    command.args(["latstat", "--timerlat", "--keep-others", "--dry-run"]).env("MILLPOND_STATE", dir.path());
    let output = command.output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    if output.status.success() || err.contains(" is on already") {
        println!("skipped: {NAME}: this kernel has timerlat");
        return;
    }
    if err.contains("rights of root") || err.contains("no tracing") {
        println!("skipped: {NAME}: what tracers there are cannot be read: {err}");
        return;
    }
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{err}");
    let lines: Vec<&str> = err.lines().collect();
    let why = lines[0].strip_prefix("latstat: cannot make a place to measure: the kernel that runs here (");
    assert!(why.unwrap().ends_with(") was built without the tracer timerlat"), "{err}");
    assert!(lines[1].starts_with("hint: Debian's kernels linux-image-rt-amd64 have it"), "{err}");
}
