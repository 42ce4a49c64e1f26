//! Tests of the journal with truncated, full and foreign files.

use super::*;
use millpond_machine::MemoryJournal;
use proptest::prelude::*;

const BOOT: &str = "boot-1";

fn step(knob: &str, before: &str, after: &str) -> Step {
    Step::new(Knob(knob.into()), Some(before.into()), Some(after.into()))
}

fn knob(name: &str) -> Knob {
    Knob(name.into())
}

fn length(journal: &FileJournal) -> u64 {
    fs::metadata(journal.path()).map(|m| m.len()).unwrap_or(0)
}

#[test]
fn reading_makes_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let journal = FileJournal::in_dir(&dir.path().join("state"));
    assert_eq!(journal.unfinished(), Ok(None));
    assert!(journal.baselines().is_empty());
    assert!(!dir.path().join("state").exists());
}

#[test]
fn an_operation_is_abandoned_when_its_writer_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let writer = FileJournal::in_dir(dir.path());
    writer.begin("make a set", BOOT, &[step("a", "1", "2")]).unwrap();
    let text = fs::read_to_string(writer.path()).unwrap();
    let own = format!("\"pid\":{}", std::process::id());
    fs::write(writer.path(), text.replace(&own, "\"pid\":4194305")).unwrap();
    let reader = FileJournal::in_dir(dir.path());
    assert_eq!(reader.abandoned().unwrap().unwrap().what, "make a set");
}

#[test]
fn another_process_sees_what_was_begun_and_not_ended() {
    let dir = tempfile::tempdir().unwrap();
    let writer = FileJournal::in_dir(dir.path());
    writer.begin("make a set", BOOT, &[step("a", "1", "2").keeping()]).unwrap();
    writer.extend(&[step("b", "3", "4").tolerant()]).unwrap();
    let reader = FileJournal::in_dir(dir.path());
    let seen = reader.unfinished().unwrap().unwrap();
    assert_eq!(seen.what, "make a set");
    assert_eq!(seen.pid, Pid(std::process::id()));
    assert_eq!(seen.steps.len(), 2);
    assert_eq!(reader.abandoned(), Ok(None), "we are at work ourselves");
    writer.refused(&knob("b")).unwrap();
    assert_eq!(reader.unfinished().unwrap().unwrap().steps.len(), 1, "readers notice what is appended");
    writer.commit().unwrap();
    assert_eq!(reader.unfinished(), Ok(None));
    assert_eq!(reader.baseline(&knob("a")), Some(Some("1".into())));
    assert_eq!(reader.baseline(&knob("b")), None);
}

#[test]
fn the_last_release_leaves_an_empty_file() {
    let dir = tempfile::tempdir().unwrap();
    let journal = FileJournal::in_dir(dir.path());
    journal.begin("take", BOOT, &[step("a", "1", "2").keeping()]).unwrap();
    journal.commit().unwrap();
    assert!(length(&journal) > 0);
    journal.begin("give back", BOOT, &[step("a", "2", "1").releasing()]).unwrap();
    journal.commit().unwrap();
    assert_eq!(length(&journal), 0);
}

#[test]
fn an_aborted_operation_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let journal = FileJournal::in_dir(dir.path());
    journal.begin("take", BOOT, &[step("a", "1", "2").keeping()]).unwrap();
    journal.commit().unwrap();
    let before = fs::read(journal.path()).unwrap();
    journal.begin("take more", BOOT, &[step("b", "1", "2").keeping()]).unwrap();
    journal.extend(&[step("c", "1", "2")]).unwrap();
    journal.abort().unwrap();
    assert_eq!(fs::read(journal.path()).unwrap(), before);
    assert_eq!(journal.baselines().len(), 1);
    journal.abort().unwrap();
}

#[test]
fn a_torn_last_line_does_not_count_and_is_cut_off_by_the_next_writer() {
    let dir = tempfile::tempdir().unwrap();
    let journal = FileJournal::in_dir(dir.path());
    journal.begin("take", BOOT, &[step("a", "1", "2").keeping()]).unwrap();
    journal.commit().unwrap();
    let mut file = OpenOptions::new().append(true).open(journal.path()).unwrap();
    file.write_all(br#"{"begin":{"what":"to"#).unwrap();
    let next = FileJournal::in_dir(dir.path());
    assert_eq!(next.unfinished(), Ok(None));
    next.forget_other_boots(BOOT).unwrap();
    next.begin("go on", BOOT, &[step("b", "1", "2").keeping()]).unwrap();
    next.commit().unwrap();
    assert_eq!(FileJournal::in_dir(dir.path()).baselines().len(), 2);
}

#[test]
fn a_line_that_is_no_record_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    fs::write(&path, "\"commit\"\n").unwrap();
    let said = FileJournal::in_dir(dir.path()).unfinished().unwrap_err().to_string();
    assert_eq!(said, format!("{}:1: a record belongs to no operation", path.display()));
    fs::write(&path, "hello\n").unwrap();
    let journal = FileJournal::in_dir(dir.path());
    assert!(journal.begin("x", BOOT, &[]).unwrap_err().to_string().ends_with(":1: not a journal record"));
    assert_eq!(fs::read(&path).unwrap(), b"hello\n", "and is left as it is");
}

#[test]
fn a_damaged_journal_is_mended_and_kept_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    let journal = FileJournal::in_dir(dir.path());
    journal.begin("take", BOOT, &[step("a", "1", "2").keeping()]).unwrap();
    journal.commit().unwrap();
    journal.begin("take more", BOOT, &[step("b", "3", "4").keeping()]).unwrap();
    journal.commit().unwrap();
    journal.begin("go on", BOOT, &[step("c", "5", "6")]).unwrap();
    assert_eq!(journal.salvage(), Ok(None), "nothing is wrong with it");
    let whole = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.split_inclusive('\n').collect();
    assert_eq!(lines[3], "\"commit\"\n");
    // The end of the second operation is damaged; the third one proves that it was committed.
    let damaged = format!("{}\0\0\0mm\n{}", lines[..3].concat(), lines[4]);
    fs::write(&path, &damaged).unwrap();
    let next = FileJournal::in_dir(dir.path());
    assert!(matches!(next.unfinished(), Err(JournalError::Damaged(_))));
    let kept = next.salvage().unwrap().unwrap();
    assert_eq!(
        (kept.as_path(), fs::read_to_string(&kept).unwrap()),
        (dir.path().join("journal.damaged").as_path(), damaged)
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), whole);
    assert_eq!(next.unfinished().unwrap().unwrap().what, "go on");
    assert_eq!(next.baselines().len(), 2);
    fs::write(&path, "no journal at all\n").unwrap();
    next.salvage().unwrap();
    assert_eq!((next.unfinished(), next.baselines().len()), (Ok(None), 0));
}

#[test]
fn another_boot_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let journal = FileJournal::in_dir(dir.path());
    journal.begin("take", BOOT, &[step("a", "1", "2").keeping()]).unwrap();
    journal.commit().unwrap();
    journal.forget_other_boots(BOOT).unwrap();
    assert_eq!(journal.baselines().len(), 1);
    journal.begin("take more", BOOT, &[step("b", "1", "2")]).unwrap();
    let next = FileJournal::in_dir(dir.path());
    next.forget_other_boots("boot-2").unwrap();
    assert_eq!(next.unfinished(), Ok(None));
    assert!(next.baselines().is_empty());
    assert_eq!(length(&next), 0);
}

#[test]
fn a_full_disk_keeps_an_operation_from_starting_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", dir.path().join(NAME)).unwrap();
    let journal = FileJournal::in_dir(dir.path());
    assert_eq!(journal.unfinished(), Ok(None));
    let said = journal.begin("x", BOOT, &[]).unwrap_err().to_string();
    assert_eq!(said, format!("{}: No space left on device", dir.path().join(NAME).display()));
    assert_eq!(journal.unfinished(), Ok(None));
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_of_the_writer_only() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let journal = FileJournal::in_dir(&dir.path().join("file/state"));
    assert_eq!(journal.unfinished(), Ok(None));
    assert!(journal.begin("x", BOOT, &[]).is_err());
}

#[test]
fn a_write_that_falls_short_tells_the_reason() {
    struct Nearly(usize);
    impl Write for Nearly {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let fits = bytes.len().min(self.0);
            self.0 -= fits;
            if fits == 0 { Err(io::Error::from_raw_os_error(28)) } else { Ok(fits) }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert!(append_whole(&mut Nearly(5), b"12345").is_ok());
    assert_eq!(append_whole(&mut Nearly(3), b"12345").unwrap_err().raw_os_error(), Some(28));
}

#[test]
fn a_long_journal_is_replaced_by_its_baselines() {
    let dir = tempfile::tempdir().unwrap();
    let journal = FileJournal::in_dir(dir.path());
    journal.begin("take", BOOT, &[step("kept", "1", "2").keeping()]).unwrap();
    journal.commit().unwrap();
    let long = "x".repeat(1000);
    let mut longest = 0;
    for _ in 0..200 {
        journal.begin("change", BOOT, &[step("kept", &long, &long).keeping()]).unwrap();
        longest = longest.max(length(&journal));
        journal.commit().unwrap();
    }
    assert!(longest < LENGTH_MAX + 4096, "{longest}");
    let reader = FileJournal::in_dir(dir.path());
    assert_eq!(reader.baselines().len(), 1);
    assert_eq!(reader.baseline(&knob("kept")), Some(Some("1".into())));
    assert!(!dir.path().join("journal.new").exists());
}

/// A writer's next action.
#[derive(Debug, Clone)]
enum Act {
    Begin(Vec<Step>),
    Extend(Vec<Step>),
    Refused(Knob),
    Commit,
    Abort,
}

fn any_steps() -> impl Strategy<Value = Vec<Step>> {
    let one = ("[abc]", "[0-9]{1,2}", 0u8..3).prop_map(|(name, value, kind)| {
        let step = step(&name, &value, "after");
        match kind {
            0 => step,
            1 => step.keeping(),
            _ => step.releasing(),
        }
    });
    proptest::collection::vec(one, 0..4)
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => any_steps().prop_map(Act::Begin),
        1 => any_steps().prop_map(Act::Extend),
        1 => "[abc]".prop_map(|k| Act::Refused(Knob(k))),
        3 => Just(Act::Commit),
        1 => Just(Act::Abort),
    ]
}

fn perform(journal: &dyn Journal, act: &Act) -> Result<(), JournalError> {
    match act {
        Act::Begin(steps) => journal.begin("act", BOOT, steps),
        Act::Extend(steps) => journal.extend(steps),
        Act::Refused(knob) => journal.refused(knob),
        Act::Commit => journal.commit(),
        Act::Abort => journal.abort(),
    }
}

/// A reader's view: the steps of the unfinished operation, and the baselines.
type View = (Option<Vec<Step>>, BTreeMap<Knob, Option<Value>>);

fn view(journal: &dyn Journal) -> View {
    (journal.unfinished().unwrap().map(|o| o.steps), journal.baselines())
}

proptest! {
    #[test]
    fn a_file_remembers_what_memory_does(acts in proptest::collection::vec(any_act(), 0..25)) {
        let dir = tempfile::tempdir().unwrap();
        let (file, memory) = (FileJournal::in_dir(dir.path()), MemoryJournal::default());
        for act in acts {
            let running = memory.unfinished().unwrap().is_some();
            let fits = match act {
                Act::Begin(_) => !running,
                _ => running,
            };
            if fits {
                perform(&file, &act).unwrap();
                perform(&memory, &act).unwrap();
            }
            prop_assert_eq!(view(&file), view(&memory));
            prop_assert_eq!(view(&FileJournal::in_dir(dir.path())), view(&memory), "read by another process");
            for name in ["a", "b", "c"] {
                prop_assert_eq!(file.baseline(&knob(name)), memory.baseline(&knob(name)));
            }
        }
    }

    #[test]
    fn a_file_cut_anywhere_shows_a_moment_of_the_past(
        acts in proptest::collection::vec(any_act(), 1..12),
        at in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let journal = FileJournal::in_dir(dir.path());
        let mut past = vec![view(&journal)];
        for act in &acts {
            let _ = perform(&journal, act);
            past.push(view(&journal));
        }
        let whole = fs::read(journal.path()).unwrap_or_default();
        let cut = at.index(whole.len() + 1);
        fs::write(dir.path().join(NAME), &whole[..cut]).unwrap();
        prop_assert!(past.contains(&view(&FileJournal::in_dir(dir.path()))));
    }

    #[test]
    fn reading_any_file_never_panics(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Contents::parse(&text);
    }
}

#[test]
fn fuzz_journal_files() {
    let text = |records: &[Record]| records.iter().map(Record::line).collect::<String>();
    let begin = Record::Begin {
        what: "make a set".into(),
        boot: BOOT.into(),
        pid: Pid(7),
        start: Some(8123),
        steps: vec![step("a", "1", "2").keeping(), step("b", "3", "4").tolerant()],
    };
    let extend = Record::Extend { steps: vec![step("a", "2", "1").releasing()] };
    let baselines = BTreeMap::from([(knob("c"), Some("0-3".to_owned())), (knob("d"), None)]);
    let summary = Record::Summary { boot: BOOT.into(), baselines };
    let refused = Record::Refused { knob: knob("b") };
    let whole = text(&[summary.clone(), begin.clone(), refused, Record::Commit, begin.clone(), extend]);
    let of_two_boots = text(&[summary, begin.clone()]).replacen(BOOT, "boot-0", 1);
    let torn = format!("{}{}", text(&[begin, Record::Commit]), "{\"begin\":{\"what\":");
    millpond_fuzz::check(
        "session-journal",
        &[whole.as_bytes(), torn.as_bytes(), of_two_boots.as_bytes()],
        |bytes| {
            let contents = match Contents::parse(bytes) {
                Ok(contents) => contents,
                Err(bad) => {
                    assert!((1..=bytes.split(|b| *b == b'\n').count()).contains(&bad.line), "{bad:?}");
                    return;
                }
            };
            // Only complete lines count; the rest of the file does not change the result.
            let end = usize::try_from(contents.end).unwrap();
            assert!(bytes[..end].is_empty() || bytes[..end].ends_with(b"\n"));
            assert!(!bytes[end..].contains(&b'\n'));
            assert_eq!(Contents::parse(&bytes[..end]).as_ref(), Ok(&contents));
            // A single baseline agrees with the map of all.
            let folded = contents.folded();
            for name in folded.keys().chain(contents.baselines.keys()) {
                assert_eq!(contents.baseline(name), folded.get(name).cloned());
            }
            // Truncating the unfinished operation leaves the effect of the lines before it.
            if let Some(then) = contents.without_running() {
                let at = usize::try_from(then.end).unwrap();
                assert_eq!(Contents::parse(&bytes[..at]), Ok(then));
            }
        },
    );
}

#[test]
fn what_is_no_file_is_no_journal_and_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(NAME);
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let said = FileJournal::in_dir(dir.path()).unfinished().unwrap_err().to_string();
    assert!(said.ends_with("/journal: it is no file"), "{said}");
}

/// A journal as the first version of the suite left it: a file for each kind of knob of a machine.
const OLD_JOURNAL: &str = concat!(
    r#"{"summary":{"boot":"boot-1","baselines":{"allowed:/system.slice":"0-3","cg:/docker/cpuset.cpus":null,"#,
    r#""cg:/docker/cpuset.mems":"0","controller:/":null,"irqbalance:banned":null,"mask:204/205@8123":"all","#,
    r#""proc:irq/24/smp_affinity_list":"0-3","proc:irq/default_smp_affinity":"0-3","#,
    r#""quota:/batch":"150000 100000","sys:devices/virtual/workqueue/cpumask":"0-3","#,
    r#""sys:class/net/eth0/queues/rx-0/rps_cpus":"0-1","weight:/batch":"100"}}}"#,
    "\n",
    r#"{"begin":{"what":"make set 1","boot":"boot-1","pid":4194305,"start":71,"steps":["#,
    r#"{"knob":"dir:/mpset1","before":null,"after":"present","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"label:/mpset1#set","before":null,"after":"{}","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"cg:/mpset1/cpuset.cpus","before":null,"after":"2-3","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"cg:/a/cpuset.cpus.exclusive","before":null,"after":"2","baseline":"keep","may_refuse":false},"#,
    r#"{"knob":"cg:/mpset1/cpuset.memory_migrate","before":null,"after":"1","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"place:204@8123","before":"/docker","after":"/mpset1/from+docker","baseline":"ours","may_refuse":true},"#,
    r#"{"knob":"unit:/mpset2.slice","before":null,"after":"present","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"memory:/mpset2.slice","before":null,"after":"1","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"policy:204/205@8123","before":"other 0","after":"rr 11","baseline":"keep","may_refuse":false},"#,
    r#"{"knob":"pages:204@8123","before":null,"after":"1","baseline":"ours","may_refuse":true}]}}"#,
    "\n",
    r#"{"extend":{"steps":["#,
    r#"{"knob":"cpu-controller:/","before":null,"after":"on","baseline":"keep","may_refuse":false},"#,
    r#"{"knob":"cpu-group:/mpcap-204","before":null,"after":"present","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"cpu-place:204@8123","before":"/","after":"/mpcap-204","baseline":"keep","may_refuse":false},"#,
    r#"{"knob":"kept:nginx.service","before":null,"after":"mpset2.slice","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"osnoise:timerlat_period_us","before":"1000","after":"500","baseline":"keep","may_refuse":false},"#,
    r#"{"knob":"tracer:millpond-204","before":null,"after":"timerlat","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"sys:devices/virtual/workqueue/nvme/cpumask","before":"0-3","after":"0-1","baseline":"keep","may_refuse":true},"#,
    r#"{"knob":"sys:class/net/eth0/queues/tx-0/xps_cpus","before":"2","after":"0-1","baseline":"keep","may_refuse":true},"#,
    r#"{"knob":"sys:devices/system/cpu/cpu3/online","before":"1","after":"0","baseline":"ours","may_refuse":false},"#,
    r#"{"knob":"cg:/mpset1/cpuset.cpus.partition","before":"root","after":null,"baseline":"ours","may_refuse":false,"falls":true},"#,
    r#"{"knob":"record:processor.3","before":null,"after":"{}","baseline":"ours","may_refuse":false}]}}"#,
    "\n",
);

#[test]
fn an_old_journal_is_read_and_each_of_its_knobs_is_written_as_before() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(NAME), OLD_JOURNAL).unwrap();
    let journal = FileJournal::in_dir(dir.path());
    let steps = journal.unfinished().unwrap().unwrap().steps;
    let baselines = journal.baselines();
    // The baselines of the summary, and of seven of the steps.
    assert_eq!((baselines.len(), steps.len()), (12 + 7, 21));
    for text in baselines.keys().chain(steps.iter().map(|step| &step.knob)) {
        let known = millpond_linux::LinuxKnob::parse(text);
        assert_eq!(known.map(|knob| knob.knob()).as_ref(), Ok(text));
    }
    // The same steps give the same lines.
    let lines: Vec<&str> = OLD_JOURNAL.split_inclusive('\n').collect();
    assert_eq!(Record::Extend { steps: steps[10..].to_vec() }.line(), lines[2]);
}

#[test]
fn no_change_begins_without_the_baselines_that_could_not_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let journal = FileJournal::in_dir(dir.path());
    fs::create_dir(journal.path()).unwrap();
    assert!(journal.baselines().is_empty());
    fs::remove_dir(journal.path()).unwrap();
    assert!(matches!(journal.begin("make a set", "boot", &[]), Err(JournalError::Unwritable(_))));
    assert_eq!(journal.begin("make a set", "boot", &[]), Ok(()), "it was reported");
}

#[test]
fn a_file_system_with_space_has_no_fault_even_where_the_directory_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(FileJournal::in_dir(&dir.path().join("not/yet")).fault(), None);
    assert!(JournalFault::ReadOnly.remedy().contains("MILLPOND_STATE"));
}
