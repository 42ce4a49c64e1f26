//! The program as a shell runs it: names, statuses, streams, the environment, and signals.

use crate::captured::{Captured, PROGRAM, err, millpond, out, run};
use millpond_session::{MachineName, OpenOptions as OpenSession, Session};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

#[test]
fn the_service_has_a_manual_like_the_commands() {
    let overview = out(&run(["help"]));
    assert!(
        overview.contains("\n  poold     resize pools by load: move CPUs between processor sets\n"),
        "{overview}"
    );
    assert!(overview.contains(", poold, schedd\n"), "{overview}");
    let manual = out(&run(["help", "schedd"]));
    assert!(
        manual.starts_with("schedd: run TS, IA and FX by dispatch tables, as a scheduler under sched_ext\n"),
        "{manual}"
    );
    let wrong = run(["schedd", "--hole"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(err(&wrong), "schedd: there is no option --hole\nhint: did you mean --whole?\n");
    let manual = out(&run(["help", "poold"]));
    assert!(
        manual.starts_with("poold: resize pools by load: move CPUs between processor sets\n\nusage: poold [-l level] [--policy "),
        "{manual}"
    );
    assert!(manual.contains("\nOPTIONS\n") && manual.contains("\nEXIT STATUS\n"), "{manual}");
    let long =
        ["-l level", "--policy", "--interval", "--record", "--for", "--dry-run", "--machine", "--root"];
    for option in long {
        assert!(manual.contains(&format!("\n    {option} ")), "{option} is not in the manual");
    }
    let short = out(&run(["poold", "--help"]));
    assert!(short.contains("\noptions:\n    -l level") && short.ends_with("or man poold.\n"), "{short}");
    assert!(out(&run(["poold", "--version"])).starts_with("poold "));
    let wrong = run(["poold", "--policy", "chance"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).starts_with("poold: there is no policy `chance`"), "{}", err(&wrong));
}

#[test]
fn the_name_or_the_first_word_picks_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let psrinfo = dir.path().join("psrinfo");
    symlink(PROGRAM, &psrinfo).unwrap();
    let by_name = Command::new(&psrinfo).args(["--machine", "x4200", "-t"]).output().unwrap();
    assert_eq!(out(&by_name), "4\n");
    assert_eq!(out(&run(["psrinfo", "--machine", "x4200", "-t"])), "4\n");
    let unknown = dir.path().join("anything");
    symlink(PROGRAM, &unknown).unwrap();
    assert_eq!(
        out(&Command::new(&unknown).args(["psrinfo", "--machine", "x4200", "-t"]).output().unwrap()),
        "4\n"
    );
}

#[test]
fn words_that_pick_nothing_are_refused() {
    let none = run([] as [&str; 0]);
    assert_eq!(
        (none.status.code(), err(&none).as_str()),
        (Some(2), "millpond: which command?\nhint: millpond help lists them\n")
    );
    let wrong = run(["psrsett"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_eq!(
        err(&wrong),
        "millpond: there is no command `psrsett`\nhint: did you mean psrset? millpond help lists all commands\n"
    );
    let far = run(["frobnicate"]);
    assert_eq!(err(&far), "millpond: there is no command `frobnicate`\nhint: millpond help lists them\n");
    let option = run(["psrset", "--keep-other"]);
    assert_eq!(option.status.code(), Some(2));
    assert_eq!(err(&option), "psrset: there is no option --keep-other\nhint: did you mean --keep-others?\n");
}

#[test]
fn options_in_front_of_the_command_are_moved_behind_it_or_answered_with_the_order() {
    assert_eq!(out(&run(["--machine", "x4200", "psrinfo", "-t"])), "4\n");
    assert_eq!(out(&run(["--machine=x4200", "psrinfo", "-t"])), "4\n");
    let wrong = run(["-c", "2", "psrset"]);
    assert_eq!(
        (wrong.status.code(), err(&wrong).as_str()),
        (
            Some(2),
            "millpond: there is no command before the option -c\nhint: the command comes first: millpond psrset -c\n"
        )
    );
    let none = run(["--json"]);
    assert_eq!(err(&none), "millpond: which command?\nhint: millpond help lists them\n");
}

#[test]
fn words_of_the_field_name_the_command_and_terms_are_explained() {
    let isolate = run(["isolate"]);
    assert_eq!(
        (isolate.status.code(), err(&isolate).as_str()),
        (
            Some(2),
            "millpond: there is no command `isolate`\nhint: millpond fence --cores 2 COMMAND gives a program cores of its own; psrset -c 2-3 makes a set of CPUs\n"
        )
    );
    assert_eq!(
        out(&run(["help", "Default", "set"])),
        "default set\n  The CPUs that are in no processor set. Processes run there unless they are\n  bound to a set. At least one CPU stays in it.\nsee: psrset\n"
    );
    let unknown = run(["help", "taskset"]);
    assert_eq!(
        err(&unknown),
        "millpond help: cannot explain taskset: it is no command and no known term\nhint: pbind -b 3 PID binds a process to a CPU; psrset -b SET PID to a set\n"
    );
    let help = out(&run(["help"]));
    let first = help.split("\n\n").nth(1).unwrap();
    for name in ["fence", "top", "gauge", "record"] {
        assert!(first.contains(&format!("\n  {name} ")), "{first}");
    }
    assert!(
        help.contains("\nIsolate CPUs for a program\n") && help.contains("\nWhat happened at 09:41?\n"),
        "{help}"
    );
}

#[test]
fn help_and_version_are_there_for_all() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(out(&run(["--version"])), format!("millpond {version}\n"));
    assert_eq!(out(&run(["psrset", "--version"])), format!("psrset {version}\n"));
    let overview = out(&run(["help"]));
    assert!(overview.contains("\n  psrset ") && overview.contains("\n  doctor "), "{overview}");
    assert_eq!(out(&run(["--help"])), overview);
    let short = out(&run(["psrset", "--help"]));
    assert!(short.starts_with("psrset: ") && short.contains("\nusage: psrset -c"), "{short}");
    assert!(short.ends_with("\nThe manual: millpond help psrset, or man psrset.\n"), "{short}");
    let manual = out(&run(["help", "psrset"]));
    assert!(manual.starts_with("psrset: ") && manual.contains("\nEXIT STATUS\n"), "{manual}");
    assert_eq!(run(["help", "nothing"]).status.code(), Some(1));
}

#[test]
fn each_end_has_its_status() {
    let status = |words: &[&str]| run(words).status.code();
    assert_eq!(status(&["psrset", "--machine", "x4200", "-c", "1"]), Some(0));
    assert_eq!(status(&["psrset", "--machine", "x4200", "-c", "9"]), Some(1));
    assert_eq!(status(&["psrset", "--machine", "x4200", "-cd"]), Some(2));
}

#[test]
fn a_reader_that_went_away_is_success() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended = millpond().args(["psrinfo", "--machine", "t2000"]).stdout(writer).output().unwrap();
    assert_eq!((ended.status.code(), err(&ended).as_str()), (Some(0), ""));
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ended = millpond().args(["psrinfo", "--machine", "x4200"]).stdout(full).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert_eq!(err(&ended), "psrinfo: cannot write output: No space left on device\n");
}

#[test]
fn times_are_in_the_zone_of_the_environment() {
    let line = |tz: &str| {
        let ended = millpond().args(["psrinfo", "--machine", "x4200", "0"]).env("TZ", tz).output().unwrap();
        out(&ended)
    };
    assert_eq!(line("UTC0"), "0\ton-line   since 11/20/2024 08:14:02\n");
    assert_eq!(line("XYZ-3"), "0\ton-line   since 11/20/2024 11:14:02\n");
}

#[test]
fn a_captured_machine_is_shown_and_changed_under_its_root() {
    let captured = Captured::new();
    assert_eq!(out(&captured.run(&["psrinfo", "1"])), "1\ton-line   since 11/20/2024 08:14:02\n");
    let made = captured.run(&["psrset", "-c", "2-3"]);
    assert_eq!(err(&made), "");
    assert!(out(&made).starts_with("created processor set 1\n"), "{}", out(&made));
    assert_eq!(out(&captured.run(&["psrset", "-b", "1", "77"])), "process id 77: was not bound, now 1\n");
    assert_eq!(out(&captured.run(&["psrset"])), "user processor set 1: processors 2 3\n");
    assert_eq!(out(&captured.run(&["psrset", "-q"])), "process id 77: 1\n");
    assert_eq!(out(&captured.run(&["psrset", "-d", "1"])), "removed processor set 1\n");

    let length = || fs::metadata(captured.journal()).unwrap().len();
    assert_eq!(captured.run(&["psradm", "-i", "3"]).status.code(), Some(0));
    assert!(length() > 0, "the place where interrupts went is remembered");
    assert_eq!(out(&captured.run(&["psradm", "-v", "-n", "3"])), "processor 3 brought on-line.\n");
    assert_eq!(length(), 0, "nothing is left to remember");
}

#[test]
fn a_captured_machine_has_pools_and_a_file_of_its_own_for_them() {
    let captured = Captured::new();
    fs::create_dir(captured.dir().join("etc")).unwrap();
    let file = captured.dir().join("etc/pooladm.conf");
    let state = captured.dir().join("state");
    let empty = || {
        fs::read_dir(&state).unwrap().filter(|e| e.as_ref().unwrap().metadata().unwrap().len() > 0).count()
    };
    let done = |words: &[&str]| {
        let ended = captured.run(words);
        assert_eq!((ended.status.code(), err(&ended).as_str()), (Some(0), ""), "{words:?}");
        out(&ended)
    };
    assert_eq!(
        err(&captured.run(&["pooladm"])),
        "pooladm: couldn't open pools state file: Facility is not active\nhint: enable pools: pooladm -e\n"
    );
    done(&["pooladm", "-e"]);
    done(&["poolcfg", "-c", "discover"]);
    let script = "create pset web ( uint pset.min = 1 ; uint pset.max = 2 ) create pool web ( int pool.importance = 2 ; \
                  string pool.scheduler = \"FX\" ) associate pool web ( pset web ) transfer to pset web ( cpu 2 ; cpu 3 )";
    done(&["poolcfg", "-c", script]);
    assert!(fs::read_to_string(&file).unwrap().contains("name=\"web\""));
    assert!(done(&["pooladm", "--dry-run", "-c"]).contains("cpuset"), "steps are shown");
    done(&["pooladm", "-c"]);
    assert_eq!(done(&["psrset"]), "user processor set 1: processors 2 3\n");

    // The kernel has no class FX. The command reports that, and binds the process.
    let bound = captured.run(&["poolbind", "-p", "web", "77"]);
    assert_eq!(bound.status.code(), Some(0));
    assert!(
        err(&bound).starts_with("poolbind: process 77 keeps its class, and does not get FX: "),
        "{}",
        err(&bound)
    );
    assert_eq!(done(&["poolbind", "-q", "77", "1"]), "77\tweb\n1\tpool_default\n");
    assert_eq!(done(&["poolbind", "-Q", "77"]), "77\tpset\tweb\n");
    let refused = captured.run(&["psrset", "-c", "1"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).starts_with(
            "psrset: cannot create processor set: pools are enabled, and sets are theirs\nhint: "
        )
    );

    done(&["pooladm", "-d"]);
    assert_eq!(done(&["psrset"]), "");
    assert_eq!(out(&captured.run(&["psrset", "-q", "77"])), "process id 77: not bound\n");
    assert!(file.is_file(), "the file is the user's to remove");
    assert_eq!(empty(), 0, "nothing is left to remember");
}

#[test]
fn a_standing_group_of_a_captured_machine_is_bound_to_a_pool_as_it_stands() {
    let captured = Captured::new();
    for slice in ["user.slice", "user.slice/user-1000.slice", "user.slice/user-1000.slice/session-3.scope"] {
        let dir = format!("cgroup/cpuset/{slice}");
        for (name, text) in
            [("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0\n"), ("cgroup.procs", ""), ("tasks", "")]
        {
            captured.file(&format!("{dir}/{name}"), text);
        }
    }
    let status = |words: &[&str]| captured.run(words).status.code();
    assert_eq!(status(&["pooladm", "-e"]), Some(0));
    let script = "create pset web ( uint pset.max = 2 ) create pool web associate pool web ( pset web ) transfer to pset web ( cpu 3 )";
    assert_eq!(status(&["poolcfg", "-d", "-c", script]), Some(0));
    let cpus = |group: &str| {
        let path = captured.dir().join(format!("cgroup/cpuset/user.slice/{group}/cpuset.cpus"));
        fs::read_to_string(path).unwrap().trim().to_owned()
    };
    let listed = |name: &str| {
        let zones = out(&captured.run(&["zones"]));
        zones
            .lines()
            .find(|line| line.starts_with(name))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    for (words, group, line) in [
        (&["-i", "taskid", "3"][..], "user-1000.slice/session-3.scope", "session-3.scope unit web 1"),
        (&["--unit", "session-3.scope"], "user-1000.slice/session-3.scope", "session-3.scope unit web 1"),
        (&["-i", "projid", "1000"], "user-1000.slice", "user-1000.slice slice web 1"),
        (&["--cgroup", "/user.slice/user-1000.slice"], "user-1000.slice", "user-1000.slice slice web 1"),
    ] {
        assert_eq!(status(&[&["poolbind", "-p", "web"], words].concat()), Some(0), "{words:?}");
        assert_eq!(cpus(group), "3", "{words:?}");
        assert_eq!(listed(line.split(' ').next().unwrap()).as_deref(), Some(line), "{words:?}");
        assert_eq!(status(&[&["poolbind", "-p", "pool_default"], words].concat()), Some(0), "{words:?}");
    }
    let refused =
        captured.run(&["poolbind", "-p", "web", "--unit", "nobody.service", "--cgroup", "/nowhere"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(
        err(&refused),
        "poolbind: invalid unit 'nobody.service'\nhint: millpond zones lists what can be named\n\
         poolbind: invalid cgroup '/nowhere'\nhint: millpond zones lists what can be named\n"
    );
}

#[test]
fn who_waits_for_a_file_is_told_for_whom() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mine.conf");
    let kept = dir.path().join("kept");
    let on = |words: &[&str]| {
        let ended = millpond()
            .arg(words[0])
            .args(["--machine", "x4200", "--state"])
            .arg(&kept)
            .args(&words[1..])
            .output();
        ended.unwrap()
    };
    assert_eq!(on(&["pooladm", "-e"]).status.code(), Some(0));
    let name = path.display().to_string();
    assert_eq!(on(&["poolcfg", "-c", "discover", &name]).status.code(), Some(0));
    let machine = MachineName::Simulated("x4200".into());
    let session = Session::open(&OpenSession { machine, ..OpenSession::default() }).unwrap();
    let file = session.pools_file(Some(&name));
    let held = file.lock(&mut |who| panic!("{who:?} holds the file")).unwrap();
    let mut waiting = millpond();
    waiting.args(["poolcfg", "--machine", "x4200", "-c", "create pool web", &name]);
    let mut waiting = waiting.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    let mut lines = std::io::BufReader::new(waiting.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut told).unwrap();
    assert!(
        told.starts_with(&format!("poolcfg: waiting for {name}, which ")) && told.ends_with(" holds\n"),
        "{told}"
    );
    assert!(!fs::read_to_string(&path).unwrap().contains("web"));
    drop(held);
    assert_eq!(waiting.wait().unwrap().code(), Some(0));
    assert!(fs::read_to_string(&path).unwrap().contains("web"));
}

#[test]
fn a_command_that_is_killed_anywhere_is_repaired_by_the_next_one() {
    for moment in ["begin", "intended", "step-1", "step-3", "applied", "committed"] {
        let captured = Captured::new();
        let killed =
            captured.command(&["psrset", "-c", "3"]).env("MILLPOND_KILL_AT", moment).output().unwrap();
        assert_eq!(killed.status.signal(), Some(9), "{moment}: {}", err(&killed));

        let done = moment == "committed";
        let begun = !done && moment != "begin";
        let read = captured.run(&["psrinfo", "-t"]);
        assert_eq!((read.status.code(), out(&read).as_str()), (Some(0), "4\n"), "{moment}");
        let warned = "psrinfo: a change was begun and not finished: create processor set 1\n\
                      hint: millpond doctor --repair\n";
        assert_eq!(err(&read), if begun { warned } else { "" }, "{moment}");
        let said = out(&captured.run(&["doctor"]));
        assert_eq!(
            said.contains("\nbegun and not finished: create processor set 1\n"),
            begun,
            "{moment}: {said}"
        );

        let repaired = captured.run(&["doctor", "--repair"]);
        assert_eq!(repaired.status.code(), Some(0), "{moment}: {}{}", out(&repaired), err(&repaired));
        let sets = if done { "user processor set 1: processor 3\n" } else { "" };
        let read = captured.run(&["psrset"]);
        assert_eq!((out(&read).as_str(), err(&read).as_str()), (sets, ""), "{moment}");
        if !done {
            assert_eq!(fs::read_to_string(captured.journal()).unwrap_or_default(), "", "{moment}");
        }
    }
}

#[test]
fn a_bound_process_that_has_ended_is_no_disorder() {
    let captured = Captured::new();
    let bound = captured.run(&["pbind", "-b", "1", "77"]);
    assert_eq!(bound.status.code(), Some(0), "{}", err(&bound));
    fs::remove_dir_all(captured.dir().join("proc/77")).unwrap();
    let said = captured.run(&["doctor"]);
    assert_eq!(said.status.code(), Some(0), "{}", out(&said));
    assert!(out(&said).ends_with("\nno processor sets\nall is in order\n"), "{}", out(&said));
    let repaired = out(&captured.run(&["doctor", "--repair"]));
    let forgot =
        "nothing was unfinished\nforgotten, because it has ended: the affinity mask of thread 77/77\n";
    assert!(repaired.starts_with(forgot), "{repaired}");
    let again = out(&captured.run(&["doctor", "--repair"]));
    assert!(!again.contains("forgotten"), "{again}");
}

#[test]
fn a_change_is_not_unfinished_while_a_writer_is_at_work() {
    let captured = Captured::new();
    let killed = captured.command(&["psrset", "-c", "3"]).env("MILLPOND_KILL_AT", "step-1").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{}", err(&killed));
    // Writers hold this lock. Another writer first undoes the change, or is in the middle of its own.
    let writer = File::open(captured.dir().join("state")).unwrap();
    writer.lock().unwrap();
    let read = captured.run(&["psrinfo", "-t"]);
    assert_eq!((out(&read).as_str(), err(&read).as_str()), ("4\n", ""));
    let said = out(&captured.run(&["doctor"]));
    assert!(!said.contains("begun and not finished"), "{said}");
    drop(writer);
    let read = captured.run(&["psrinfo", "-t"]);
    assert!(
        err(&read).contains("a change was begun and not finished: create processor set 1\n"),
        "{}",
        err(&read)
    );
}

#[test]
fn tables_that_the_kernel_does_not_run_by_are_shown_as_such_and_not_replaced() {
    let captured = Captured::new();
    let shown = captured.run(&["dispadmin", "-c", "RT", "-g"]);
    let head = "# Real Time Dispatcher Configuration\nRES=1000\n\n# TIME QUANTUM                    PRIORITY\n\
                # (rt_quantum)                      LEVEL\n      1000                    #        0\n";
    assert!(out(&shown).starts_with(head) && out(&shown).lines().count() == 65, "{}", out(&shown));
    assert_eq!(shown.status.code(), Some(0));
    let why =
        "this kernel schedules by rules of its own, not by dispatch tables\nhint: a kernel with sched_ext";
    assert!(err(&shown).starts_with(&format!("# not live: {why}")), "{}", err(&shown));

    let table = captured.dir().join("rt.txt");
    fs::write(&table, &shown.stdout).unwrap();
    let refused = captured.run(&["dispadmin", "-c", "RT", "-s", table.to_str().unwrap()]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(1), ""));
    let told = format!("dispadmin: cannot replace the dispatch table of RT: {why}");
    assert!(err(&refused).starts_with(&told), "{}", err(&refused));
}

#[test]
fn a_change_of_class_that_is_killed_is_put_back_by_the_next_command() {
    let rows = |row: &str| format!("TIME SHARING PROCESSES:\n    PID    TSUPRILIM    TSUPRI\n{row}\n");
    let captured = Captured::new();
    let shown = |captured: &Captured| out(&captured.run(&["priocntl", "-d", "77"]));
    assert_eq!(shown(&captured), rows("     77        0           0"));
    assert_eq!(captured.run(&["priocntl", "-s", "-p", "-30", "77"]).status.code(), Some(0));
    assert_eq!(shown(&captured), rows("     77      -30         -30"));
    let mut command = captured.command(&["priocntl", "-s", "-c", "RT", "77"]);
    let killed = command.env("MILLPOND_KILL_AT", "step-1").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{}", err(&killed));
    assert!(shown(&captured).starts_with("REAL TIME PROCESSES:\n"));
    let repaired = captured.run(&["doctor", "--repair"]);
    assert!(out(&repaired).contains("into class RT\n  policy:77/77@1077: put back\n"), "{}", out(&repaired));
    assert_eq!(shown(&captured), rows("     77      -30         -30"));
}

#[test]
fn a_journal_without_space_refuses_the_change() {
    let captured = Captured::new();
    symlink("/dev/full", captured.journal()).unwrap();
    let refused = captured.run(&["psrset", "-c", "3"]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(1), ""));
    let journal = captured.journal();
    assert_eq!(
        err(&refused),
        format!(
            "psrset: cannot create processor set: the journal cannot be written: {}: No space left on device\n\
             hint: nothing was changed; free some space and try again\n",
            journal.display()
        )
    );
    assert_eq!(out(&captured.run(&["psrset"])), "");
}

#[test]
fn a_journal_that_is_not_understood_is_a_warning_to_readers_and_stops_writers() {
    let captured = Captured::new();
    fs::write(captured.journal(), "hello\n").unwrap();
    let read = captured.run(&["psrinfo", "-t"]);
    assert_eq!((read.status.code(), out(&read).as_str()), (Some(0), "4\n"));
    let place = format!("{}:1: not a journal record", captured.journal().display());
    assert_eq!(err(&read), format!("psrinfo: the journal cannot be read: {place}\n"));
    let write = captured.run(&["psrset", "-c", "3"]);
    assert_eq!(write.status.code(), Some(1));
    assert!(err(&write).contains(&place), "{}", err(&write));
}

#[test]
fn the_machine_at_hand_is_shown_and_captured() {
    let processors = out(&run(["psrinfo", "-t"]));
    let state = tempfile::tempdir().unwrap();
    let into = tempfile::tempdir().unwrap();
    let copy = into.path().join("copy");
    let captured = millpond().env("MILLPOND_STATE", state.path()).arg("capture").arg(&copy).output().unwrap();
    assert_eq!(captured.status.code(), Some(0), "{}", err(&captured));
    assert!(out(&captured).starts_with("captured "));
    let shown = run([OsStr::new("psrinfo"), OsStr::new("--root"), copy.as_os_str(), OsStr::new("-t")]);
    assert_eq!(out(&shown), processors);
    let again = millpond().env("MILLPOND_STATE", state.path()).arg("capture").arg(&copy).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("the directory is not empty"), "{}", err(&again));
}

/// The CPUs of `allowed` in a set, or, for set 0, in no set. `sets` is the listing of `psrset`: `user processor set
/// 1: processors 2 3`.
fn processors_of(set: u32, sets: &str, allowed: &BTreeSet<u32>) -> BTreeSet<u32> {
    let mut taken = BTreeSet::new();
    for line in sets.lines() {
        let (head, members) = line.split_once(": ").unwrap();
        let members: BTreeSet<u32> = members.split(' ').filter_map(|word| word.parse().ok()).collect();
        if head.strip_prefix("user processor set ").unwrap().parse() == Ok(set) {
            return &members & allowed;
        }
        taken.extend(members);
    }
    allowed - &taken
}

#[test]
fn a_processor_for_a_test_is_of_the_tests_own_set() {
    let sets = "user processor set 1: processor 0\nuser processor set 4: empty\nuser processor set 2: processors 2 3\n";
    let allowed = BTreeSet::from([0, 1, 3]);
    assert_eq!(processors_of(0, sets, &allowed), BTreeSet::from([1]));
    assert_eq!(processors_of(2, sets, &allowed), BTreeSet::from([3]));
    assert_eq!(processors_of(4, sets, &allowed), BTreeSet::new());
    assert_eq!(processors_of(0, "", &allowed), allowed);
}

/// A CPU that this test may use and bind to, regardless of the sets of this machine.
fn some_processor(state: &Path) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let allowed = list.split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        first.parse().unwrap()..=last.parse::<u32>().unwrap()
    });
    let psrset = |words: &[&str]| {
        let answer = millpond().env("MILLPOND_STATE", state).arg("psrset").args(words).output().unwrap();
        assert_eq!(answer.status.code(), Some(0), "{}", err(&answer));
        out(&answer)
    };
    let own = psrset(&["-q", &std::process::id().to_string()]);
    let set = own.trim_end().rsplit(' ').next().unwrap().parse().unwrap_or(0);
    processors_of(set, &psrset(&[]), &allowed.collect()).first().map(u32::to_string)
}

#[test]
fn a_program_in_fx_0_of_0_runs_under_sched_idle_and_the_listings_say_so() {
    let state = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| millpond().env("MILLPOND_STATE", state.path()).args(words).output().unwrap();
    // The fields after the name, which is in parentheses: the policy is field 41.
    let started = run(&["priocntl", "-e", "-c", "FX", "-m", "0", "-p", "0", "cat", "/proc/self/stat"]);
    let (stat, said) = (out(&started), err(&started));
    let policy = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(41 - 3));
    assert_eq!((policy, started.status.code()), (Some("5"), Some(0)), "{stat}{said}");
    let label = "FX at limit 0 and priority 0 is SCHED_IDLE";
    for listing in [&["priocntl", "-l"][..], &["dispadmin", "-l"]] {
        let shown = run(listing);
        assert!(out(&shown).contains("(Fixed "), "{}", out(&shown));
        assert!(err(&shown).contains(label), "{}", err(&shown));
    }
    let script = format!("{} priocntl -d $$", env!("CARGO_BIN_EXE_millpond"));
    let own = run(&["priocntl", "-e", "-c", "FX", "-m", "0", "-p", "0", "sh", "-c", &script]);
    assert!(out(&own).starts_with("FIXED PRIORITY PROCESSES:\n"), "{}", out(&own));
    assert!(err(&own).contains(label), "{}", err(&own));
    // FX 0/0, which is SCHED_IDLE, must be requested explicitly.
    let refused = run(&["priocntl", "-e", "-c", "FX", "true"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("hint: if that is meant, name limit and priority: -m 0 -p 0"),
        "{}",
        err(&refused)
    );
}

#[test]
fn a_program_is_started_where_it_is_bound_and_its_status_is_the_commands() {
    let state = tempfile::tempdir().unwrap();
    let Some(cpu) = some_processor(state.path()) else {
        let why = "every processor that it may use is in a set that it is not in";
        println!("skipped: a_program_is_started_where_it_is_bound_and_its_status_is_the_commands: {why}");
        return;
    };
    let script = "sed -n s/^Cpus_allowed_list:.//p /proc/self/status; exit 7";
    let mut command = millpond();
    command.env("MILLPOND_STATE", state.path()).args(["pbind", "-e", &cpu, "sh", "-c", script]);
    let started = command.output().unwrap();
    assert_eq!(
        (started.status.code(), out(&started), err(&started)),
        (Some(7), format!("{cpu}\n"), String::new())
    );

    let mut command = millpond();
    command.env("MILLPOND_STATE", state.path()).args(["pbind", "-e", &cpu, "no-such-program"]);
    let refused = command.output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(err(&refused), "pbind: cannot execute no-such-program: No such file or directory\n");

    // A reserved exit status, which no program returns by accident.
    let refused = millpond()
        .env("MILLPOND_STATE", state.path())
        .args(["psrset", "-e", "999", "true"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        err(&refused).starts_with("psrset: cannot execute true in set 999: there is no such processor set\n")
    );
}

#[test]
fn standard_error_may_be_closed() {
    let nowhere = File::open("/dev/null").unwrap();
    let ended =
        millpond().args(["psrset", "--machine", "x4200", "-c", "1"]).stderr(nowhere).output().unwrap();
    assert_eq!(ended.status.code(), Some(0));
}
