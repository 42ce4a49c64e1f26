//! Random command lines about pools: no command panics, the status is correct, and a refused or only shown change is not made.

use millpond_cmd::{Ctx, run};
use millpond_golden::Stage;
use millpond_session::Output;
use millpond_sim::SimMachine;
use proptest::prelude::*;
use proptest::sample::select;
use std::ffi::OsString;

// No word may be interpreted as the name of a file of the host.
const POOLADM: [&str; 10] =
    ["-c", "-s", "-x", "-n", "-e", "-cs", "--keep-others", "--json", "/etc/pooladm.conf", "no/where"];
const POOLCFG: [&str; 6] = ["-d", "-h", "--json", "/etc/pooladm.conf", "no/where", "-q"];
const SCRIPTS: [&str; 14] = [
    "info",
    "info pool web info pset webset info cpu 1",
    "discover",
    "create system here ( string system.comment = \"x\" )",
    "destroy system default",
    "create pool web associate pool web ( pset webset )",
    "create pset webset ( uint pset.max = 2 ; uint pset.min = 1 )",
    "transfer 2 from pset pset_default to webset",
    "transfer 1 to pset pset_default from webset",
    "transfer to pset webset ( cpu 0 ; cpu 1 ; cpu 2 ; cpu 3 )",
    "destroy pset webset rename pool web to shop",
    "modify pool shop ( string pool.scheduler = \"FX\" ; ~ string x )",
    "modify cpu 2 ( string cpu.status = \"off-line\" ; boolean cpu.pinned = true )",
    "create pool (",
];
const POOLBIND: [&str; 14] = [
    "-p",
    "web",
    "shop",
    "pool_default",
    "-q",
    "-Q",
    "-i",
    "zoneid",
    "pid",
    "global",
    "204",
    "101",
    "--unit",
    "--json",
];
const POOLSTAT: [&str; 11] = ["-r", "-o", "-p", "-T", "u", "all", "id,used", "web", "1", "2", "--json"];

fn any_line() -> impl Strategy<Value = Vec<&'static str>> {
    let some = |words: &'static [&'static str]| proptest::collection::vec(select(words), 0..4);
    let line = |name: &'static str, words: Vec<&'static str>| [vec![name], words].concat();
    prop_oneof![
        some(&POOLADM).prop_map(move |words| line("pooladm", words)),
        (select(&SCRIPTS[..]), some(&POOLCFG))
            .prop_map(move |(script, words)| line("poolcfg", [vec!["-c", script], words].concat())),
        (select(&SCRIPTS[..])).prop_map(move |script| line("poolcfg", vec!["-d", "-c", script])),
        some(&POOLBIND).prop_map(move |words| line("poolbind", words)),
        // Append a count, so that the command ends.
        some(&POOLSTAT).prop_map(move |words| line("poolstat", [words, vec!["1", "2"]].concat())),
        Just(vec!["pooladm", "-e"]),
        Just(vec!["pooladm", "-d"]),
        Just(vec!["psrset", "-c", "3"]),
        Just(vec!["millpond", "zones"]),
    ]
}

fn tell(stage: &Stage, words: &[&str]) -> (u8, String) {
    let session = stage.session();
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let mut out = Vec::new();
    let mut ctx = Ctx::new(Output::to(&mut out), Output::to(std::io::sink())).with_session(&session);
    let status = run(&words, &mut ctx).0;
    drop(ctx);
    (status, String::from_utf8(out).unwrap())
}

/// The state of the machine without its time and log.
fn what_is(stage: &Stage) -> String {
    stage.sim().view(|s| format!("{:?}{:?}{:?}", s.tables, s.files, s.services))
}

/// Whether a script acts on a file immediately. Such an effect stays if a later command fails.
fn acts_at_once(line: &[&str]) -> bool {
    line.iter()
        .any(|word| ["discover", "create system", "destroy system"].iter().any(|at| word.starts_with(at)))
}

proptest! {
    #[test]
    fn a_refused_command_leaves_nothing_behind(lines in proptest::collection::vec(any_line(), 1..12)) {
        let stage = Stage::new(SimMachine::named("x4200").unwrap());
        for line in lines {
            let before = what_is(&stage);
            let (status, out) = tell(&stage, &line);
            prop_assert!(status <= 2, "{:?}", line);
            // poolbind binds as many as possible.
            if status == 2 || (status == 1 && line[0] != "poolbind" && !acts_at_once(&line)) {
                prop_assert_eq!(what_is(&stage), before, "{:?} was refused and did something", line);
            }
            if status == 2 {
                prop_assert_eq!(out, "", "{:?} makes no sense and said something", line);
            }
            stage.sim().view(|s| s.check()).map_err(TestCaseError::fail)?;
        }
    }

    #[test]
    fn what_is_only_shown_is_not_done(lines in proptest::collection::vec(any_line(), 1..8)) {
        let stage = Stage::new(SimMachine::named("x4200").unwrap());
        for line in lines {
            tell(&stage, &line);
            let before = what_is(&stage);
            let mut line = line;
            line.insert(if line[0] == "millpond" { 2 } else { 1 }, "--dry-run");
            tell(&stage, &line);
            prop_assert_eq!(what_is(&stage), before, "{:?}", line);
        }
    }

    #[test]
    fn answers_in_json_are_documents_on_lines_of_their_own(lines in proptest::collection::vec(any_line(), 1..8)) {
        let stage = Stage::new(SimMachine::named("x4200").unwrap());
        for line in lines {
            let mut line = line;
            line.insert(if line[0] == "millpond" { 2 } else { 1 }, "--json");
            let (_, out) = tell(&stage, &line);
            for document in out.lines() {
                let value = serde_json::from_str::<serde_json::Value>(document).unwrap_or_default();
                prop_assert_eq!(&value["version"], 1, "{:?}: {}", line, document);
            }
        }
    }
}
