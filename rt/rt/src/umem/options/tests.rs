//! The meaning of each text, from the manual umem_debug(3); no expectation was copied from a run.

use super::*;

/// The settings of a text, and its complaints.
fn parse(variable: Variable, text: &str) -> (Settings, Vec<String>) {
    let (mut settings, mut said) = (Settings::STANDARD, Vec::new());
    settings.add(variable, text.as_bytes(), &mut |line| said.push(String::from_utf8(line.to_vec()).unwrap()));
    (settings, said)
}

/// The settings of a valid text.
fn right(variable: Variable, text: &str) -> Settings {
    let (settings, said) = parse(variable, text);
    assert_eq!(said, [""; 0], "{text}");
    settings
}

/// The complaints about a text that must change nothing.
fn wrong(variable: Variable, text: &str) -> Vec<String> {
    let (settings, said) = parse(variable, text);
    assert_eq!(settings, Settings::STANDARD, "{text}");
    said
}

fn debug(change: impl FnOnce(&mut Debug)) -> Settings {
    let mut settings = Settings::STANDARD;
    change(&mut settings.debug);
    settings
}

fn options(change: impl FnOnce(&mut Options)) -> Settings {
    let mut settings = Settings::STANDARD;
    change(&mut settings.options);
    settings
}

#[test]
fn each_word_of_umem_debug_does_its_part() {
    let expected = [
        ("audit", debug(|d| d.audit = Some(15))),
        ("audit=0", debug(|d| d.audit = Some(0))),
        ("audit=40", debug(|d| d.audit = Some(40))),
        ("contents", debug(|d| d.contents = Some(256))),
        ("contents=1k", debug(|d| d.contents = Some(1024))),
        ("guards", debug(|d| d.guards = true)),
        ("guard", debug(|d| d.guards = true)),
        ("lite", debug(|d| d.lite = true)),
        ("firewall=512", debug(|d| d.firewall = Some(512))),
        ("maxverify=2k", debug(|d| d.max_verify = Some(2048))),
        ("mtbf=1009", debug(|d| d.mtbf = Some(1009))),
        ("random", debug(|d| d.random = true)),
        ("noabort", debug(|d| d.no_abort = true)),
        ("nosignal", debug(|d| d.no_signal = true)),
        ("verbose", debug(|d| d.verbose = true)),
        ("allverbose", debug(|d| d.all_verbose = true)),
        ("checknull", debug(|d| d.check_null = true)),
    ];
    for (text, settings) in expected {
        assert_eq!(right(Variable::Debug, text), settings, "{text}");
    }
}

#[test]
fn default_is_three_words_and_later_items_win() {
    let usual = |d: &mut Debug| {
        d.audit = Some(15);
        d.contents = Some(256);
        d.guards = true;
    };
    assert_eq!(right(Variable::Debug, "default"), debug(usual));
    let longer = debug(|d| {
        usual(d);
        d.audit = Some(30);
        d.verbose = true;
    });
    assert_eq!(right(Variable::Debug, "default,audit=30,verbose"), longer);
    assert_eq!(right(Variable::Debug, "audit=30,default"), debug(usual));
}

#[test]
fn blanks_around_items_are_dropped_and_an_empty_variable_asks_nothing() {
    assert_eq!(right(Variable::Debug, " \tguards \n"), debug(|d| d.guards = true));
    let both = debug(|d| {
        d.audit = Some(3);
        d.guards = true;
    });
    assert_eq!(right(Variable::Debug, "guards  ,\t audit=3"), both);
    for text in ["", " ", "\t  "] {
        assert_eq!(right(Variable::Debug, text), Settings::STANDARD);
    }
}

#[test]
fn what_is_wrong_is_said_and_the_rest_counts() {
    let (settings, said) = parse(Variable::Debug, "guards,xyz,,verbose=1,lite,");
    let expected = debug(|d| {
        d.guards = true;
        d.lite = true;
    });
    assert_eq!(settings, expected);
    assert_eq!(
        said,
        [
            "UMEM_DEBUG: 'xyz' not recognized",
            "UMEM_DEBUG: empty option",
            "UMEM_DEBUG: verbose: does not take a value. ignored",
            "UMEM_DEBUG: empty option",
        ]
    );
}

#[test]
fn each_complaint_has_the_text_of_the_reference() {
    for (text, expected) in [
        ("xyz", "UMEM_DEBUG: 'xyz' not recognized"),
        ("xyz=3", "UMEM_DEBUG: 'xyz=3' not recognized"),
        ("Guards", "UMEM_DEBUG: 'Guards' not recognized"),
        ("guard s", "UMEM_DEBUG: 'guard s' not recognized"),
        ("=3", "UMEM_DEBUG: '=3' not recognized"),
        ("default=1", "UMEM_DEBUG: default: does not take a value. ignored"),
        ("guards=", "UMEM_DEBUG: guards: does not take a value. ignored"),
        ("firewall", "UMEM_DEBUG: firewall: Required value missing"),
        ("firewall=", "UMEM_DEBUG: firewall: Required value missing"),
        ("audit=", "UMEM_DEBUG: audit: Required value missing"),
        ("mtbf", "UMEM_DEBUG: mtbf: Required value missing"),
        ("audit=many", "UMEM_DEBUG: audit: not a number"),
        ("audit=2k", "UMEM_DEBUG: audit: not a number"),
        ("contents=1kk", "UMEM_DEBUG: contents: not a number"),
        ("contents=3=4", "UMEM_DEBUG: contents: not a number"),
        ("maxverify=99999999t", "UMEM_DEBUG: maxverify: overflowed"),
        ("mtbf=18446744073709551616", "UMEM_DEBUG: mtbf: overflowed"),
        ("mtbf=0", "UMEM_DEBUG: mtbf: must be at least 1. ignored"),
        ("a\u{1b}[31m", "UMEM_DEBUG: 'a?[31m' not recognized"),
    ] {
        assert_eq!(wrong(Variable::Debug, text), [expected]);
    }
    assert_eq!(wrong(Variable::Logging, "xyz"), ["UMEM_LOGGING: 'xyz' not recognized"]);
    assert_eq!(wrong(Variable::Options, "xyz"), ["UMEM_OPTIONS: 'xyz' not recognized"]);
}

#[test]
fn an_item_that_is_too_long_is_quoted_by_its_beginning() {
    let longest = "x".repeat(64);
    let expected = format!("UMEM_DEBUG: '{longest}' not recognized");
    assert_eq!(wrong(Variable::Debug, &longest), [expected]);
    for count in [65, 100_000] {
        let text = "x".repeat(count);
        assert_eq!(wrong(Variable::Debug, &text), ["UMEM_DEBUG: argument \"xxxxxxxxxx...\" too long"]);
    }
}

#[test]
fn more_frames_than_are_kept_are_cut_and_told() {
    let (settings, said) = parse(Variable::Debug, "audit=1000");
    assert_eq!(settings, debug(|d| d.audit = Some(64)));
    assert_eq!(said, ["UMEM_DEBUG: audit: 64 frames are kept, which is the most"]);
    assert_eq!(right(Variable::Debug, "audit=64"), settings);
}

#[test]
fn logs_have_sizes_which_are_64k_when_not_told() {
    let settings = right(Variable::Logging, "transaction,contents=1m,fail=0,slab=4k");
    let logs = Logs { transaction: Some(65536), contents: Some(1_048_576), fail: Some(0), slab: Some(4096) };
    assert_eq!(settings, Settings { logs, ..Settings::STANDARD });
    let settings = right(Variable::Logging, "slab,fail,contents");
    let logs = Logs { transaction: None, contents: Some(65536), fail: Some(65536), slab: Some(65536) };
    assert_eq!(settings, Settings { logs, ..Settings::STANDARD });
    assert_eq!(wrong(Variable::Logging, "fail=x"), ["UMEM_LOGGING: fail: not a number"]);
    assert_eq!(wrong(Variable::Logging, "audit"), ["UMEM_LOGGING: 'audit' not recognized"]);
}

#[test]
fn each_option_does_its_part() {
    assert_eq!(Settings::STANDARD.options.max_contention, 2);
    assert_eq!(Settings::STANDARD.options.reap_interval, 10);
    let expected = [
        ("concurrency=64", options(|o| o.concurrency = Some(64))),
        ("max_contention=0", options(|o| o.max_contention = 0)),
        ("nomagazines", options(|o| o.no_magazines = true)),
        ("reap_interval=60", options(|o| o.reap_interval = 60)),
        ("reap_interval=0", options(|o| o.reap_interval = 0)),
        ("backend=mmap", Settings::STANDARD),
    ];
    for (text, settings) in expected {
        assert_eq!(right(Variable::Options, text), settings, "{text}");
    }
    assert_eq!(
        wrong(Variable::Options, "concurrency"),
        ["UMEM_OPTIONS: concurrency: Required value missing"]
    );
    assert_eq!(
        wrong(Variable::Options, "concurrency=0"),
        ["UMEM_OPTIONS: concurrency: must be at least 1. ignored",]
    );
}

#[test]
fn sizes_are_changed_in_the_order_in_which_they_are_written() {
    let settings = right(Variable::Options, "size_clear,size_add=1k,size_add=24,size_add=8,size_remove=24");
    assert_eq!(settings.options.sizes.as_slice(), [8, 1024]);
    assert_eq!(right(Variable::Options, "size_add=24,size_clear").options.sizes.as_slice(), [0; 0]);
    let settings = right(Variable::Options, "size_remove=16,size_add=24");
    assert_eq!(settings.options.sizes.as_slice()[..4], [8, 24, 32, 48]);
    for (text, expected) in [
        ("size_add=12", "UMEM_OPTIONS: size_add: a size is a multiple of 8. ignored"),
        ("size_add=1m", "UMEM_OPTIONS: size_add: a size is at most 131072. ignored"),
        ("size_remove=24", "UMEM_OPTIONS: size_remove: there is no such size. ignored"),
        ("size_clear=1", "UMEM_OPTIONS: size_clear: does not take a value. ignored"),
        ("size_add", "UMEM_OPTIONS: size_add: Required value missing"),
    ] {
        assert_eq!(wrong(Variable::Options, text), [expected]);
    }
}

#[test]
fn words_that_mean_nothing_here_are_checked_and_told() {
    let way = "UMEM_OPTIONS: allocator: has no effect here: there is one way to look for free memory";
    for (text, expected) in [
        ("backend=sbrk", "UMEM_OPTIONS: backend: has no effect here: memory comes from mmap"),
        ("backend=brk", "UMEM_OPTIONS: 'backend=brk' not recognized"),
        ("backend", "UMEM_OPTIONS: backend: Required value missing"),
        ("allocator=best", way),
        ("allocator=first", way),
        ("allocator=next", way),
        ("allocator=instant", way),
        ("allocator=worst", "UMEM_OPTIONS: 'allocator=worst' not recognized"),
        ("allocator=", "UMEM_OPTIONS: allocator: Required value missing"),
        ("sbrk_minalloc=64k", "UMEM_OPTIONS: sbrk_minalloc: has no effect here: memory comes from mmap"),
        ("sbrk_pagesize=4m", "UMEM_OPTIONS: sbrk_pagesize: has no effect here: memory comes from mmap"),
        ("sbrk_pagesize=big", "UMEM_OPTIONS: sbrk_pagesize: not a number"),
        (
            "perthread_cache=1m",
            "UMEM_OPTIONS: perthread_cache: has no effect here: the magazines serve threads without one more cache",
        ),
        ("perthread_cache", "UMEM_OPTIONS: perthread_cache: Required value missing"),
    ] {
        assert_eq!(wrong(Variable::Options, text), [expected]);
    }
}

#[test]
fn fuzz_any_text_leaves_sane_settings_and_whole_complaints() {
    let seeds: [&[u8]; 5] = [
        b"default,audit=15,contents=256,guards,verbose",
        b" firewall=4k ,maxverify=1t,mtbf=1009,lite,random,noabort,nosignal,allverbose,checknull",
        b"transaction=64k,contents,fail=1m,slab",
        b"backend=sbrk,allocator=best,perthread_cache=1m,concurrency=4,max_contention=2,nomagazines",
        b"size_clear,size_add=24,size_add=1k,size_remove=24,reap_interval=10,sbrk_minalloc=1,sbrk_pagesize=2",
    ];
    millpond_fuzz::check("rt-umem-options", &seeds, |text| {
        for variable in Variable::ALL {
            let mut settings = Settings::STANDARD;
            let (mut lines, start) = (0, [variable.name().to_bytes(), b": "].concat());
            settings.add(variable, text, &mut |line| {
                lines += 1;
                assert!(
                    line.starts_with(&start) && line.len() < 192 && !line.iter().any(u8::is_ascii_control)
                );
            });
            assert!(lines <= text.iter().filter(|byte| **byte == b',').count() + 1);
            let sizes = settings.options.sizes;
            assert!(sizes.as_slice().is_sorted_by(|low, high| low < high));
            assert!(sizes.as_slice().iter().all(|size| size.is_multiple_of(8) && *size <= 131_072));
            assert!(settings.debug.audit.is_none_or(|frames| frames <= FRAMES_MAX));
            // The same text once more for the same variable changes nothing.
            if lines == 0 && variable != Variable::Options {
                let once = settings;
                settings.add(variable, text, &mut |_| panic!("the text was right"));
                assert_eq!(settings, once);
            }
        }
    });
}

#[test]
fn every_word_is_in_the_manual() {
    let manual = include_str!("../../../man/umem_debug.3");
    for variable in Variable::ALL {
        assert!(manual.contains(variable.name().to_str().unwrap()));
        for word in super::words::of(variable) {
            let is_there = |line: &str| line.split([' ', ',', '=', '[']).any(|part| part == word.name);
            assert!(manual.lines().any(|line| line.starts_with('.') && is_there(line)), "{}", word.name);
        }
    }
}
