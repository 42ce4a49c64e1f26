//! Random command lines: no command panics, the status is correct, and a change that is only shown is not made.

use millpond_cmd::{Ctx, run};
use millpond_golden::Stage;
use millpond_session::Output;
use millpond_sim::{SimMachine, SimState};
use proptest::prelude::*;
use proptest::sample::select;
use std::ffi::OsString;

/// Words that are valid for at least one of the commands, and some invalid ones.
const WORDS: [&str; 52] = [
    "-a",
    "-b",
    "-c",
    "-d",
    "-e",
    "-f",
    "-F",
    "-i",
    "-g",
    "-l",
    "-m",
    "-n",
    "-p",
    "-q",
    "-Q",
    "-r",
    "-s",
    "-S",
    "-t",
    "-u",
    "-U",
    "-v",
    "-z",
    "-cF",
    "-aS",
    "-pv",
    "-Fa",
    "--json",
    "--keep-others",
    "--help",
    "-x",
    "--nothing",
    "0",
    "1",
    "2",
    "3",
    "9",
    "1-3",
    "0,2",
    "2-9",
    "204",
    "101",
    "204/1",
    "149/2-",
    "zone1",
    "TS",
    "RT",
    "FX",
    "class",
    "pid",
    "all",
    "",
];

fn any_line() -> impl Strategy<Value = Vec<&'static str>> {
    let command = select(vec!["psrinfo", "psradm", "psrset", "pbind", "dispadmin", "priocntl"]);
    let words = proptest::collection::vec(select(WORDS.to_vec()), 0..5);
    (command, words).prop_map(|(command, mut words)| {
        words.insert(0, command);
        words
    })
}

/// A command line that starts a workload, or tries to.
fn any_start() -> impl Strategy<Value = Vec<&'static str>> {
    let form = select(vec![
        vec!["psrset", "-e", "0"],
        vec!["psrset", "-e", "1"],
        vec!["psrset", "-e", "9"],
        vec!["pbind", "-e", "0"],
        vec!["pbind", "-e", "2"],
        vec!["priocntl", "-e"],
        vec!["priocntl", "-e", "-c", "RT"],
        vec!["priocntl", "-e", "-c", "RT", "-p", "99"],
    ]);
    let load =
        select(vec!["nap", "./spin", "build -j 2", "pingpong 2", "fork", "spin -t x", "ls -l", "nap --run"]);
    (form, load).prop_map(|(form, load)| form.into_iter().chain(load.split(' ')).collect())
}

struct Told {
    out: String,
    status: u8,
}

fn tell(stage: &Stage, words: &[&str]) -> Told {
    let session = stage.session();
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut out = Vec::new();
    let mut ctx = Ctx::new(Output::to(&mut out), Output::to(std::io::sink())).with_session(&session);
    let status = run(&words, &mut ctx).0;
    drop(ctx);
    Told { out: String::from_utf8(out).unwrap(), status }
}

/// A machine with two sets and some bindings.
fn machine() -> Stage {
    let stage = Stage::new(SimMachine::named("x4200").unwrap());
    for line in ["psrset -c 2-3", "psrset -c", "psrset -b 1 204 149/1", "pbind -b 2 204/2", "pbind -b 0 101"]
    {
        assert_eq!(tell(&stage, &line.split(' ').collect::<Vec<_>>()).status, 0, "{line}");
    }
    stage
}

proptest! {
    #[test]
    fn a_status_tells_whether_anything_was_done(lines in proptest::collection::vec(any_line(), 1..6)) {
        let stage = machine();
        for line in lines {
            let before = stage.sim().save();
            let told = tell(&stage, &line);
            prop_assert!(told.status <= 2, "{:?}", line);
            if told.status == 2 {
                prop_assert_eq!(stage.sim().save(), before, "{:?} makes no sense and did something", line);
                prop_assert_eq!(told.out, "", "{:?} makes no sense and said something", line);
            }
            stage.sim().view(|s| s.check()).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn a_workload_is_started_or_leaves_nothing_behind(lines in proptest::collection::vec(any_start(), 1..6)) {
        let stage = machine();
        for line in lines {
            let before = stage.sim().view(SimState::clone);
            let told = tell(&stage, &line);
            if told.status == 0 {
                prop_assert!(told.out.starts_with("started "), "{:?}: {}", line, told.out);
            } else {
                let same = stage.sim().view(|s| *s == before);
                prop_assert!(same, "{:?} was refused and did something", line);
            }
            stage.sim().view(|s| s.check()).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn a_start_that_is_only_shown_starts_nothing(line in any_start()) {
        let stage = machine();
        let before = stage.sim().view(SimState::clone);
        let mut line = line;
        line.insert(1, "--dry-run");
        tell(&stage, &line);
        prop_assert!(stage.sim().view(|s| *s == before));
    }

    #[test]
    fn what_is_only_shown_is_not_done(line in any_line()) {
        let stage = machine();
        let before = stage.sim().save();
        let mut line = line;
        line.insert(1, "--dry-run");
        tell(&stage, &line);
        prop_assert_eq!(stage.sim().save(), before);
    }

    #[test]
    fn an_answer_in_json_is_one_document_on_a_line_of_its_own(line in any_line()) {
        let stage = machine();
        let mut line = line;
        line.insert(1, "--json");
        let told = tell(&stage, &line);
        if line.contains(&"--help") || told.status == 2 {
            return Ok(());
        }
        // A refusal before any attempt prints no document.
        if told.status == 1 && told.out.is_empty() {
            return Ok(());
        }
        let document = serde_json::from_str::<serde_json::Value>(&told.out).unwrap_or_default();
        prop_assert_eq!(&document["version"], 1, "{:?}: {}", line, told.out);
        prop_assert_eq!(told.out.lines().count(), 1);
    }

    #[test]
    fn a_refused_set_leaves_nothing_behind(words in proptest::collection::vec(select(WORDS.to_vec()), 0..4)) {
        let stage = machine();
        let before = stage.sim().save();
        let mut line = vec!["psrset", "-c"];
        line.extend(words);
        if tell(&stage, &line).status != 0 {
            prop_assert_eq!(stage.sim().save(), before, "{:?}", line);
        }
    }
}
