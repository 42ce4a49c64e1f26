//! `millpond record`, and commands that show recordings, run as processes.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn millpond(words: &[&str]) -> (i32, String, String) {
    let ended = Command::new(env!("CARGO_BIN_EXE_millpond")).args(words).env("TZ", "UTC").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ended.status.code().unwrap(), text(ended.stdout), text(ended.stderr))
}

fn out(words: &[&str]) -> String {
    let (status, out, err) = millpond(words);
    assert_eq!(status, 0, "{words:?}: {err}");
    out
}

/// Records 30 seconds of a simulated machine.
fn recorded(dir: &Path) -> String {
    let place = dir.join("day").display().to_string();
    let said = out(&[
        "record",
        "--machine",
        "t2000",
        "--load",
        "spin -t 40",
        "--to",
        &place,
        "--threads",
        "1",
        "--for",
        "30",
    ]);
    assert!(
        said.starts_with(&format!("recording into {place}: at most 1.0G and 7 days\n31 frames, ")),
        "{said}"
    );
    place
}

/// A machine of 32 CPUs with a pool of two CPUs and six threads, to which poold gives more CPUs.
const SCRIPT: &str = "svcadm enable system/pools
poolcfg -dc 'create pset web ( uint pset.min = 1 ; uint pset.max = 8 ; string pset.poold.objectives = \"utilization > 30\" ) \
    create pool web ( int pool.importance = 5 ) associate pool web ( pset web ) transfer 2 from pset pset_default to web'
poolbind -p web -e spin -t 6
svcadm enable pools/dynamic
run 1s
";

#[test]
fn observers_of_a_recording_print_what_they_print_live() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (script, kept, day) = (file("script"), file("kept"), file("day"));
    std::fs::write(&script, SCRIPT).unwrap();
    out(&["sim", "--state", &kept, "t2000", &script]);
    let fresh = || std::fs::copy(&kept, file("copy")).map(|_| file("copy")).unwrap();
    out(&["record", "--state", &fresh(), "--events", "--threads", "1", "--for", "60", "--to", &day, "1"]);
    // The first report covers the time since boot, for which a recording has no events.
    let later = |text: &str, title: &str| text.splitn(3, title).nth(2).unwrap().to_owned();
    for (command, title) in [
        ("mpstat", "CPU"),
        ("mpstat -a", "SET"),
        ("mpstat --steal -p", "CPU"),
        ("prstat -r -c -n 40", "   PID"),
        ("prstat -r -c -L -n 40 -S time", "   PID"),
        ("poolstat", " id pool"),
        ("poolstat -r all", " id pool"),
        ("pgstat -v -r Integer", "PG"),
    ] {
        let words = |rest: [&str; 2]| {
            let words = command.split(' ').chain(rest).chain(["10", "5"]).map(str::to_owned);
            words.collect::<Vec<String>>()
        };
        let run = |rest: [&str; 2]| out(&words(rest).iter().map(String::as_str).collect::<Vec<_>>());
        let (live, recorded) = (run(["--state", &fresh()]), run(["--from", &day]));
        // Missing groups in a recording shift the numbers of the other groups.
        let cut = |text: &str| match title {
            "PG" => text.lines().map(|line| line.get(2..).unwrap_or_default().to_owned() + "\n").collect(),
            _ => text.to_owned(),
        };
        assert_eq!(cut(&later(&recorded, title)), cut(&later(&live, title)), "{command}");
    }
    // Without a count, reports continue to the end of the recording.
    assert_eq!(out(&["poolstat", "--from", &day, "--at", "-20s", "5"]).matches(" id pool").count(), 5);
    let (status, said, err) = millpond(&["mpstat", "--from", &day, "2m"]);
    assert_eq!((status, said.matches("CPU").count()), (0, 1));
    assert_eq!(err, "mpstat: the recording ends before the interval does\n");
}

#[test]
fn noise_of_a_recording_is_judged_as_far_as_it_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let (script, kept, day) = (place("script"), place("kept"), place("day"));
    std::fs::write(&script, "psrset -c 3 4\npsrset -e 1 spin -t 2\n").unwrap();
    out(&["sim", "--state", &kept, "t2000", &script]);
    out(&["record", "--state", &kept, "--noise", "--for", "60", "--to", &day, "1"]);
    let quiet = |rest: &[&str]| millpond(&[&["quiet", "--from", &day], rest].concat());
    // The periodic check of the kernel runs once a second on each of the two CPUs.
    let (status, said, err) = quiet(&["--for", "20", "--max", "500/s", "1"]);
    assert_eq!(
        (status, said.as_str()),
        (
            0,
            "KIND   NAME     BY  COUNT  RATE/S  LONGEST  TOTAL  SHARE%  REMEDY\n\
             tick   deadman  -      40     2.0        0      0   0.000  none: each CPU has it once a second\n\
             total                  40     2.0               0   0.000\n\
             watched CPUs 3-4 for 20.000 s by a recording of machine t2000; watching took 0 of it (0 times)\n\
             quiet: no CPU was disturbed more often than 500/s\n"
        )
    );
    assert_eq!(err, "millpond quiet: not told: stretches one by one: they are not recorded\n");
    let (status, _, err) = quiet(&["--for", "20", "--max", "50us", "1"]);
    assert_eq!(status, 1);
    assert!(
        err.contains("cannot judge by 50us: how long each disturbance took is not known here\n"),
        "{err}"
    );
    // `quiet` ends at the end of the recording.
    let (status, said, _) = quiet(&["--for", "10m", "1"]);
    assert_eq!(status, 0);
    assert!(said.contains("\nwatched CPUs 3-4 for 60.000 s by "), "{said}");
    assert_eq!(quiet(&["1", "--", "true"]).0, 2);
}

#[test]
fn a_policy_is_asked_about_a_recording() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name).display().to_string();
    let (script, kept, day) = (place("script"), place("kept"), place("day"));
    std::fs::write(&script, SCRIPT.replace("svcadm enable pools/dynamic\n", "")).unwrap();
    out(&["sim", "--state", &kept, "t2000", &script]);
    out(&["record", "--state", &kept, "--for", "60", "--to", &day, "1"]);
    // Six threads on two CPUs of a set with a maximum of eight.
    let told: serde_json::Value =
        serde_json::from_str(&out(&["replay", &day, "--every", "5", "--followed", "-v", "--json"])).unwrap();
    assert_eq!(
        (&told["decisions"], &told["recorded"]["policies"]),
        (&12.into(), &serde_json::json!(["machine"]))
    );
    assert_eq!((&told["recorded"]["moves"], &told["recorded"]["found"]), (&0.into(), &4.0.into()));
    let first = &told["pairs"][0]["asked"];
    assert!(first["reason"].as_str().unwrap().starts_with("web 2 -> "), "{first}");
    assert_eq!(first["expected"], 0.0);
    // Here poold runs together with the recorder and moves CPUs. The recording contains its decisions.
    let moved = place("moved");
    let recorder = format!("record --for 30 --to {moved} 1\n");
    std::fs::write(&script, SCRIPT.replace("run 1s\n", &recorder)).unwrap();
    out(&["sim", "t2000", &script]);
    let told: serde_json::Value =
        serde_json::from_str(&out(&["replay", &moved, "--every", "1", "--json"])).unwrap();
    // poold gave the pool four CPUs earlier, and now gives it the remaining two.
    assert_eq!((&told["recorded"]["moves"], &told["recorded"]["batches"]), (&2.into(), &1.into()), "{told}");
    let (status, _, err) = millpond(&["replay", &day, "--every", "1h"]);
    assert_eq!(status, 1);
    assert!(err.contains("it is shorter than two intervals"), "{err}");
}

#[test]
fn what_was_recorded_is_shown_as_it_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    let place = recorded(dir.path());
    for view in ["overview", "threads", "processes"] {
        let live =
            out(&["top", "--machine", "t2000", "--load", "spin -t 40", "--batch", "--view", view, "1", "30"]);
        let replayed = out(&["top", "--replay", &place, "--batch", "--view", view, "1", "30"]);
        assert_eq!(replayed, live, "{view}");
    }
    let shown = out(&["record", "--show", &place]);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("{place}: machine t2000"));
    assert!(lines[1].ends_with(", 31 frames in 1 file"), "{shown}");
    let json: serde_json::Value =
        serde_json::from_str(&out(&["record", "--show", "--json", &place])).unwrap();
    assert_eq!((&json["frames"], &json["machine"]), (&31.into(), &"t2000".into()));
    assert_eq!(json["last"].as_i64().unwrap() - json["first"].as_i64().unwrap(), 30);
}

#[test]
fn a_moment_is_shown_with_the_interval_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let place = recorded(dir.path());
    let json = out(&["top", "--replay", &place, "--at", "-10s", "--once", "--json"]);
    let frame: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(frame["interval_s"], 1.0);
    assert_eq!((&frame["sets"][0]["busy_s"], &frame["sets"][0]["runnable"]), (&32.into(), &40.into()));
    let (status, _, err) = millpond(&["top", "--replay", &place, "--at", "2031-01-01 00:00", "--once"]);
    assert_eq!(status, 2);
    assert!(err.starts_with("millpond top: cannot go to 2031-01-01 00:00: the recording is from "), "{err}");
}

#[test]
fn a_recorder_that_is_killed_loses_nothing_that_it_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("day").display().to_string();
    let mut recorder = Command::new(env!("CARGO_BIN_EXE_millpond"))
        .args(["record", "--to", &place, "0.05"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let frames = || {
        let (status, said, _) = millpond(&["record", "--show", "--json", &place]);
        let json: Option<serde_json::Value> = serde_json::from_str(&said).ok().filter(|_| status == 0);
        json.and_then(|json| json["frames"].as_u64()).unwrap_or(0)
    };
    while frames() < 5 {
        assert!(begun.elapsed() < Duration::from_secs(60), "it records nothing");
        std::thread::sleep(Duration::from_millis(50));
    }
    let (status, _, err) = millpond(&["record", "--to", &place, "--for", "1"]);
    assert_eq!(status, 1);
    let holder = recorder.id();
    let said =
        format!("another program records there (process {holder})\nhint: choose another directory with --to");
    assert!(err.contains(&said), "{err}");
    // No other user can open the lock file, and so none can hold the lock.
    let mode = |path: &str| std::fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("day"), mode("day/record.lock")), (0o700, 0o600));
    recorder.kill().unwrap();
    let _ = recorder.wait().unwrap();
    let before = frames();
    assert!(before >= 5);
    let (status, _, err) = millpond(&["record", "--to", &place, "--machine", "t2000", "--for", "2"]);
    assert_eq!(status, 0, "{err}");
    assert!(
        err.contains(&format!(
            "its writer was stopped: {before} frames are made a block, 0 bytes are no whole frame"
        )),
        "{err}"
    );
    assert_eq!(frames(), before + 3);
}

#[test]
fn a_recording_is_not_made_through_a_link_of_another_user() {
    let test = "a_recording_is_not_made_through_a_link_of_another_user";
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    std::fs::create_dir(&ours).unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::os::unix::fs::symlink(&ours, &theirs).unwrap();
    if std::os::unix::fs::lchown(&theirs, Some(4001), None).is_err() {
        println!("skipped: {test}: only the superuser can give files away");
        return;
    }
    for place in [theirs.clone(), theirs.join("new")] {
        let place = place.display().to_string();
        let (status, _, err) = millpond(&["record", "--machine", "t2000", "--to", &place, "--for", "1"]);
        assert_eq!(status, 1, "{err}");
        assert!(err.contains("theirs is a link of user 4001, so its contents are not trusted"), "{err}");
    }
    assert_eq!(std::fs::read_dir(&ours).unwrap().count(), 0);
}

#[test]
fn a_recording_is_exported_as_csv() {
    let dir = tempfile::tempdir().unwrap();
    let place = recorded(dir.path());
    let csv = out(&["export", "--csv", "--from", "-1s", &place]);
    let first = 1_732_090_442; // 2024-11-20 08:14:02 UTC
    let expected = format!(
        "time,up_s,interval_s,set,name,mode,cpus,size,min,max,objectives,busy_s,runnable,waited_s,pressed_s\n\
         {},29,1,0,,,0-31,32,,,,32,40,8,\n\
         {},30,1,0,,,0-31,32,,,,32,40,8,\n",
        first + 29,
        first + 30
    );
    assert_eq!(csv, expected);
    let file = dir.path().join("sets.csv").display().to_string();
    assert_eq!(out(&["export", "--csv", "--from", "-1s", "--output", &file, &place]), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    let seen = out(&["export", "--csv", "--table", "threads", "--until", "-28s", &place]);
    let threads = seen.lines().filter(|line| line.contains(",spin,")).count();
    assert_eq!(threads, 2 * 40, "two intervals end until two seconds after the beginning");
}

#[test]
fn a_recording_is_exported_as_a_parquet_file() {
    let dir = tempfile::tempdir().unwrap();
    let place = recorded(dir.path());
    let path = dir.path().join("cpus.parquet");
    let file = path.display().to_string();
    assert_eq!(out(&["export", "--parquet", "--table", "cpus", "--output", &file, &place]), "");
    let reader = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 30 * 32);
    let sum = |name: &str| {
        let values = rows.iter().flat_map(|row| row.get_column_iter().filter(|(column, _)| *column == name));
        values.map(|(_, value)| if let Field::Double(value) = value { *value } else { f64::NAN }).sum::<f64>()
    };
    assert!((sum("user_s") + sum("system_s") - 30.0 * 32.0).abs() < 1.0);
    let last = rows.last().unwrap();
    let field = |name: &str| last.get_column_iter().find(|(column, _)| *column == name).unwrap().1.clone();
    assert_eq!((field("cpu"), field("state")), (Field::Double(31.0), Field::Str("on-line".into())));
    assert_eq!((field("interval_s"), field("smtx")), (Field::Double(1.0), Field::Double(0.0)));
}

#[test]
fn a_recording_is_exported_as_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let place = recorded(dir.path());
    let trace: serde_json::Value =
        serde_json::from_str(&out(&["export", "--perfetto", "--from", "-1s", &place])).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    // Three groups, and each CPU.
    assert_eq!(of("M").len(), 3 + 32);
    // In each of two intervals: two events of the set, two of its waits, and one of each CPU.
    assert_eq!(of("C").len(), 2 * (2 + 2 + 32));
    let used = of("C").into_iter().find(|event| event["name"] == "set 0: CPUs used").unwrap();
    assert_eq!((&used["args"]["value"], &used["ts"]), (&32.0.into(), &28e6.into()));
    let stays = of("X");
    assert_eq!((stays.len(), &stays[0]["name"], &stays[0]["dur"]), (32, &"set 0".into(), &2e6.into()));
}

#[test]
fn mistakes_are_told_with_the_remedy() {
    let told = |words: &[&str]| millpond(words).2;
    assert_eq!(
        told(&["record", "--to", "x", "--max-size", "5x"]),
        "millpond record: cannot use --max-size 5x: it is no number of bytes from 1M on (512M, 2G)\n"
    );
    assert!(told(&["top", "--replay", "/nowhere", "--once"]).ends_with("hint: millpond record makes one\n"));
    assert!(
        told(&["top", "--at", "1:00", "--machine", "t2000"])
            .starts_with("millpond top: a recording names a machine: it goes without")
    );
    assert!(
        told(&["record", "1", "2"])
            .starts_with("millpond record: one interval is taken; --for says how long\n")
    );
}
