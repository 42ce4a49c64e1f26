//! Tests of the parser.

use super::*;
use crate::spec::ValueKind;
use proptest::prelude::*;

const FLAGS: &[Flag] = &[
    Flag::letter('b', "bind"),
    Flag::letter('c', "create"),
    Flag::letter('e', "execute").conflicts(&["c", "interval"]),
    Flag::letter('F', "force"),
    Flag::letter('Q', "show"),
    Flag::letter('z', "zone").value("zone", ValueKind::Zone),
    Flag::long("keep-others", "push nothing out"),
    Flag::both('i', "interval", "time between reports").value("seconds", ValueKind::Time),
];

const PSRSET: Spec = Spec { name: "psrset", flags: FLAGS, ..Spec::NEW };

fn words(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

fn parsed(text: &str) -> Parsed {
    parse(&PSRSET, &words(text)).unwrap()
}

fn refused(text: &str) -> (String, Option<String>) {
    let misuse = parse(&PSRSET, &words(text)).unwrap_err();
    (misuse.what, misuse.meant)
}

#[test]
fn letters_may_be_clustered() {
    let p = parsed("-cF 1 2");
    assert_eq!(p.letters().collect::<String>(), "cF");
    assert_eq!(p.words(), ["1", "2"]);
}

#[test]
fn values_are_part_of_the_word_or_the_next_word() {
    assert_eq!(parsed("-b -z web 1").value('z'), Some("web".into()));
    assert_eq!(parsed("-bzweb 1").value('z'), Some("web".into()));
    assert_eq!(parsed("-z web -z mail 1").value('z'), Some("mail".into()));
    assert_eq!(parsed("-z web -z mail 1").values('z'), ["web", "mail"]);
}

#[test]
fn a_letter_and_a_long_name_are_one_option() {
    for text in ["-i 5", "-i5", "--interval 5", "--interval=5"] {
        let p = parsed(text);
        assert!(p.has('i') && p.long("interval"), "{text}");
        assert_eq!((p.value('i'), p.long_value("interval")), (Some("5".into()), Some("5".into())), "{text}");
    }
}

#[test]
fn long_options_are_accepted_between_letters() {
    let p = parsed("--json -c --keep-others --machine=t2000 --interval 5 --root /x 1");
    assert!(p.common.json && p.long("keep-others") && !p.common.dry_run);
    assert_eq!(p.common.machine.as_deref(), Some("t2000"));
    assert_eq!(p.common.root, Some(PathBuf::from("/x")));
    assert_eq!(p.long_value("interval").as_deref(), Some("5"));
}

#[test]
fn options_end_at_the_first_operand() {
    let p = parsed("-e 1 ls -l --json");
    assert_eq!(p.words(), ["1", "ls", "-l", "--json"]);
    assert!(!p.common.json);
    assert_eq!(parsed("-e -- 1 ls").words(), ["1", "ls"]);
}

#[test]
fn options_may_follow_operands_where_a_command_permutes() {
    const REPLAY: Spec = Spec {
        permutes: true,
        flags: &[Flag::letter('v', "more"), Flag::long("policy", "which").value("name", ValueKind::Text)],
        ..Spec::NEW
    };
    let p = parse(&REPLAY, &words("log --policy solaris -v --json -- -x")).unwrap();
    assert_eq!(p.words(), ["log", "-x"]);
    assert!(p.common.json && p.has('v'));
    assert_eq!(p.long_value("policy").as_deref(), Some("solaris"));
}

#[test]
fn an_unknown_option_is_named_with_the_nearest_one() {
    assert_eq!(refused("-x"), ("there is no option -x".into(), None));
    assert_eq!(refused("-:"), ("there is no option -:".into(), None));
    assert_eq!(refused("--quick"), ("there is no option --quick".into(), None));
    let meant = Some("--keep-others".into());
    assert_eq!(refused("--keep-other"), ("there is no option --keep-other".into(), meant));
    assert_eq!(refused("--jsom").1, Some("--json".into()));
}

#[test]
fn a_value_too_many_or_too_few_is_told() {
    assert_eq!(refused("-b -z").0, "option -z needs a value");
    assert_eq!(refused("--machine").0, "option --machine needs a value");
    assert_eq!(refused("--json=1").0, "option --json takes no value, and was given `1`");
}

#[test]
fn options_that_exclude_each_other_are_both_named() {
    assert_eq!(refused("-c -e 1 ls").0, "options -e and -c are mutually exclusive");
    assert_eq!(refused("-e --interval 5 1 ls").0, "options -e and -i, --interval are mutually exclusive");
}

#[test]
fn fuzz_command_lines() {
    use std::os::unix::ffi::OsStringExt;
    let seeds: [&[u8]; 3] = [
        b"-cF\0--keep-others\x001\x002",
        b"--json\0--interval=5\0-bzweb\0--\0-e",
        b"-z\0--machine\0t2000\0-Q\0\xff",
    ];
    millpond_fuzz::check("cli-words", &seeds, |bytes| {
        let words = bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
        let words: Vec<OsString> = words.collect();
        match parse(&PSRSET, &words) {
            Ok(parsed) => {
                // Operands are the last words, unchanged.
                assert!(words.ends_with(&parsed.operands));
                assert!(
                    parsed.given().iter().all(|given| given.flag.value.is_some() == given.value.is_some())
                );
            }
            Err(misuse) => assert!(!misuse.what.is_empty()),
        }
    });
}

proptest! {
    #[test]
    fn parsing_any_words_never_panics(text in proptest::collection::vec(".{0,8}", 0..6)) {
        let words: Vec<OsString> = text.into_iter().map(OsString::from).collect();
        let _ = parse(&PSRSET, &words);
    }
}
