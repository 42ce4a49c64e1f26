//! Persistent simulated machines: kept in a file from one command to the next, and saved and opened in a shell. Also
//! scripts from standard input.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_millpond");

fn run(words: &[&str]) -> Output {
    Command::new(PROGRAM).env_clear().env("TZ", "UTC0").args(words).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a shell with these lines on standard input.
fn shell(words: &[&str], input: &str) -> Output {
    let mut command = Command::new(PROGRAM);
    command.env_clear().env("TZ", "UTC0").arg("sim").args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A shell that ended early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_file_keeps_a_machine_from_one_command_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("machine");
    let state = text(&path);
    let kept = |words: &[&str]| run(&[words, &["--machine", "t2000", "--state", state]].concat());
    let on = |command: &[&str], rest: &[&str]| {
        run(&[command, &["--machine", "t2000", "--state", state], rest].concat())
    };
    assert_eq!(out(&kept(&["psrset"])), "");
    assert!(!path.exists(), "whoever only reads makes no file");
    let made = on(&["psrset"], &["-c", "1"]);
    let split = "hint: CPU 1 shares its core with 0,2-3, outside the set; --whole-cores takes whole cores\n";
    assert_eq!((made.status.code(), err(&made).as_str()), (Some(0), split));
    assert_eq!(out(&kept(&["psrset"])), "user processor set 1: processor 1\n");
    assert_eq!(out(&on(&["psrset"], &["-e", "1", "./spin"])), "started spin: process id 300\n");
    // Time that passes is saved, too. A dry run is not.
    on(&["mpstat"], &["1", "3"]);
    on(&["psrset", "--dry-run"], &["-c", "2"]);
    let seen = shell(&["--state", state], "time\nps\npsrset\n");
    assert_eq!(
        out(&seen),
        "2.000000000 s since boot\n\
         \x20  PID  THR CLS    SET        TIME NAME\n\
         \x20  300    1  TS      1       2.000 spin\n\
         user processor set 1: processor 1\n"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn a_file_that_is_no_machine_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("letter");
    fs::write(&path, "Dear\n").unwrap();
    let refused = run(&["psrset", "--machine", "t2000", "--state", text(&path), "-c", "1"]);
    assert_eq!(refused.status.code(), Some(1));
    let shown = path.display();
    assert_eq!(
        err(&refused),
        format!(
            "psrset: cannot open saved machine {shown}: line 1, column 1: expected value\n\
             hint: the file is left as it is; name another one\n"
        )
    );
    let refused = shell(&["t2000"], &format!("save {shown}\n"));
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        err(&refused),
        format!(
            "stdin:1:6: cannot save the machine into {shown}: the file is there, and has something else than a machine\n\
             hint: the machine goes on; name another file\n"
        )
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "Dear\n");
    let real = run(&["psrset", "--root", text(dir.path()), "--state", text(&path), "-c", "1"]);
    assert_eq!(real.status.code(), Some(1));
    assert!(err(&real).contains("only a simulated machine is kept in one"), "{}", err(&real));
}

#[test]
fn a_directory_where_nothing_can_be_written_leaves_the_change_undone_and_says_so() {
    let refused = run(&["psrset", "--machine", "t2000", "--state", "/proc/machine", "-c", "0-3"]);
    assert_eq!(refused.status.code(), Some(1));
    let told = err(&refused);
    assert!(told.starts_with("psrset: cannot keep machine t2000 in /proc/machine: "), "{told}");
    assert!(told.ends_with("hint: the file is as it was before this command\n"), "{told}");
}

#[test]
fn a_shell_saves_and_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a machine");
    let script = format!(
        "load nap\nrun 1s\nsave '{0}'\nrun 9s\ntime\nopen '{0}'\ntime\nps\nkill 300\nps\n",
        path.display()
    );
    let ended = shell(&["t2000"], &script);
    assert_eq!((ended.status.code(), err(&ended).as_str()), (Some(0), ""));
    let head = "   PID  THR CLS    SET        TIME NAME\n";
    assert_eq!(
        out(&ended),
        format!(
            "started nap: process id 300\n10.000000000 s since boot\n1.000000000 s since boot\n\
             {head}   300    1  TS      -       0.500 nap\n{head}"
        )
    );
    assert_eq!(out(&shell(&["t2000"], &script)), out(&ended), "the same lines give the same text");
}

#[test]
fn services_that_are_enabled_stay_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("machine");
    shell(&["t2000", "--state", text(&path)], "svcadm enable pools\n");
    let seen = shell(&["--state", text(&path)], "svcs\n");
    assert!(out(&seen).contains("\nonline         svc:/system/pools:default\n"), "{}", out(&seen));
}

#[test]
fn a_script_may_come_without_a_file_and_ends_at_its_first_failure() {
    let ended = shell(&["x4200"], "psrinfo -t\npsrset -c 9\npsrinfo -t\n");
    assert_eq!((ended.status.code(), out(&ended).as_str()), (Some(1), "4\n"));
    assert!(err(&ended).ends_with("stdin:2:1: psrset failed\nhint: with --keep-going a script goes on\n"));
    let on = shell(&["--keep-going", "x4200"], "psrset -c 9\npsrinfo -t\n");
    assert_eq!((on.status.code(), out(&on).as_str()), (Some(1), "4\n"));
    let ended = shell(&["x4200"], "psrinfo -t\nquit\npsrinfo -t\n");
    assert_eq!((ended.status.code(), out(&ended).as_str()), (Some(0), "4\n"));
}

#[test]
fn output_goes_to_files_of_the_machine_at_hand_and_programs_read_them() {
    let dir = tempfile::tempdir().unwrap();
    let script = "psrinfo -s 1 > one.out\n\
                  psrset -c 1 >> one.out\n\
                  psrinfo | head -1 > two.out\n\
                  cat one.out\n\
                  grep -c processor *.out\n\
                  cat o*.out | awk '{ print NR \": \" $1 }'\n\
                  grep x none*\n\
                  psrinfo > .\n\
                  psrinfo > no/file\n\
                  echo 'set hz=100' > /etc/system\n\
                  grep x /etc/system\n\
                  psrinfo > /etc/passwd\n\
                  cat three.out\n";
    let mut command = Command::new(PROGRAM);
    command.current_dir(dir.path()).args(["sim", "--keep-going", "x4200"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let made = "1\ncreated processor set 1\nprocessor 1: was not assigned, now 1\n";
    assert_eq!(fs::read_to_string(dir.path().join("one.out")).unwrap(), made);
    assert!(fs::read_to_string(dir.path().join("two.out")).unwrap().starts_with("0\ton-line "));
    assert_eq!(out(&ended), format!("{made}one.out:2\ntwo.out:0\n1: 1\n2: created\n3: processor\n"));
    let told = err(&ended);
    for expected in [
        "grep: none*: No such file or directory\n",
        "stdin:8:11: cannot write .: it is there, and no plain file\nhint: name another file\n",
        "stdin:9:11: cannot write no/file: No such file or directory\n",
        "stdin:11:8: /etc/system is a file of the simulated machine, which programs cannot read\n\
         hint: cat /etc/system | PROGRAM\n",
        "stdin:12:11: cannot write /etc/passwd: of the simulated machine's files only /etc/system can be written\n",
        "stdin:13:5: cannot show three.out: No such file or directory\n",
    ] {
        assert!(told.contains(expected), "{expected}in\n{told}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
