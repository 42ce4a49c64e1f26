//! The published memory errors by the calls of `umem.h`: detection and reports. The texts are those of libumem.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use common::compiled::{How, Program, has};
use common::said::{assert_ended, corrupted};
use libc::{SIGABRT, SIGSEGV};
use std::process::Output;

/// Keeps function names in the program, and a frame for each function.
const WITH_NAMES: [&str; 5] = ["-g", "-DUMEM", "-rdynamic", "-fno-inline", "-fno-optimize-sibling-calls"];

/// The program, built with the available compilers and both libraries.
fn programs(test: &str) -> Vec<Program> {
    let pairs = [("gcc", "so"), ("clang", "a"), ("clang-19", "a")];
    let there: Vec<_> = pairs.into_iter().filter(|(compiler, _)| has(compiler)).collect();
    if there.is_empty() {
        println!("skipped: {test}: there is no C compiler");
    }
    let how = |(compiler, library)| How { compiler, standard: "c99", library, more: &WITH_NAMES };
    there.into_iter().map(|pair| Program::new("tests/mistakes.c", how(pair))).collect()
}

fn run(program: &Program, mistake: &str, debug: &str) -> Output {
    program.command().arg(mistake).env("UMEM_DEBUG", debug).output().unwrap()
}

/// An error that ends the program, with its report.
fn is_found(test: &str, debug: &str, mistake: &str, wanted: &[impl AsRef<str>]) {
    let wanted: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
    for program in programs(test) {
        assert_ended(mistake, &run(&program, mistake, debug), Some(SIGABRT), &wanted);
    }
}

#[test]
fn a_struct_with_the_size_of_its_pointer_is_found_at_free_with_who_allocated_it() {
    is_found(
        "a_struct_with_the_size_of_its_pointer_is_found_at_free_with_who_allocated_it",
        "default,verbose",
        "size-of-pointer",
        &corrupted(
            &["umem allocator: redzone violation: write past end of buffer"],
            "umem_alloc_8",
            "umem_alloc, get, make_record, main",
            "umem_free, give_back, end_record, main",
        ),
    );
}

#[test]
fn one_byte_too_many_is_found_at_free() {
    is_found(
        "one_byte_too_many_is_found_at_free",
        "guards,verbose",
        "one-byte",
        &corrupted(
            &["umem allocator: redzone violation: write past end of buffer"],
            "umem_alloc_32",
            "",
            "umem_free, give_back, main",
        ),
    );
}

#[test]
fn what_is_freed_twice_is_found_with_who_freed_it_first() {
    is_found(
        "what_is_freed_twice_is_found_with_who_freed_it_first",
        "default,verbose",
        "twice",
        &corrupted(
            &["umem allocator: duplicate free: buffer freed twice"],
            "umem_alloc_64",
            "umem_free, give_back, free_first, main",
            "umem_free, give_back, free_again, main",
        ),
    );
}

#[test]
fn foreign_pointers_are_found() {
    for (mistake, cache) in [("of-stack", 16), ("of-middle", 112), ("of-other", 32)] {
        is_found(
            "foreign_pointers_are_found",
            "default,verbose",
            mistake,
            &[
                "umem allocator: invalid free: buffer not in cache",
                &format!("buffer=*  bufctl=0  cache: umem_alloc_{cache}"),
                "umem: heap corruption detected",
                "stack trace:",
                "> umem_free, give_back, main",
            ],
        );
    }
}

#[test]
fn what_is_written_after_free_is_found_when_the_buffer_comes_round() {
    is_found(
        "what_is_written_after_free_is_found_when_the_buffer_comes_round",
        "default,verbose",
        "after-free",
        &corrupted(
            &[
                "umem allocator: buffer modified after being freed",
                "modification occurred at offset 0x8 (0xdeadbeefdeadbeef replaced by 0x1122334455667788)",
            ],
            "umem_alloc_64",
            "umem_free, give_back, free_first, main",
            "umem_alloc, get, main",
        ),
    );
}

#[test]
fn wrong_sizes_are_found() {
    let test = "wrong_sizes_are_found";
    is_found(
        test,
        "default,verbose",
        "wrong-size",
        &corrupted(
            &["umem allocator: bad free: free size (108) != alloc size (100)"],
            "umem_alloc_112",
            "umem_alloc, get, main",
            "umem_free, give_back, main",
        ),
    );
    is_found(
        test,
        "default,verbose",
        "wrong-size-of-other-cache",
        &[
            "umem allocator: buffer freed to wrong cache",
            "buffer was allocated from umem_alloc_112,",
            "caller attempting free to umem_alloc_224.",
            "buffer=*  bufctl=*  cache: umem_alloc_224",
            "previous transaction on buffer *:",
            "thread=*  time=T-*  slab=*  cache: umem_alloc_112",
            "> umem_alloc, get, main",
            "umem: heap corruption detected",
            "stack trace:",
            "> umem_free, give_back, main",
        ],
    );
    // Large buffers have their size even without checks.
    for (mistake, sentence) in [
        ("wrong-size-of-large", "umem allocator: bad free: free size (200001) != alloc size (200000)"),
        ("middle-of-large", "umem allocator: bad free: free address (*) != alloc address (*)"),
    ] {
        let wanted =
            [sentence, "umem: heap corruption detected", "stack trace:", "> umem_free, give_back, main"];
        is_found(test, "verbose", mistake, &wanted);
    }
}

#[test]
fn a_buffer_that_is_freed_to_the_wrong_cache_is_found() {
    is_found(
        "a_buffer_that_is_freed_to_the_wrong_cache_is_found",
        "default,verbose",
        "wrong-cache",
        &[
            "umem allocator: buffer freed to wrong cache",
            "buffer was allocated from apples,",
            "caller attempting free to pears.",
            "buffer=*  bufctl=*  cache: pears",
            "previous transaction on buffer *:",
            "thread=*  time=T-*  slab=*  cache: apples",
            "> umem_cache_alloc, main",
            "umem: heap corruption detected",
            "stack trace:",
            "> umem_cache_free, main",
        ],
    );
}

#[test]
fn who_reads_past_a_firewall_dies_on_the_spot() {
    for program in programs("who_reads_past_a_firewall_dies_on_the_spot") {
        for debug in ["firewall=1", "firewall=4096", "default,firewall=1", "default,verbose,firewall=2k"] {
            assert_ended(debug, &run(&program, "read-past", debug), Some(SIGSEGV), &[]);
            assert_ended(debug, &run(&program, "nothing-wrong", debug), None, &[]);
        }
    }
}

#[test]
fn lite_finds_overruns_and_double_frees_without_a_record() {
    let test = "lite_finds_overruns_and_double_frees_without_a_record";
    for (mistake, sentence, cache) in [
        ("size-of-pointer", "umem allocator: redzone violation: write past end of buffer", 8),
        ("twice", "umem allocator: duplicate free: buffer freed twice", 64),
    ] {
        is_found(
            test,
            "lite,verbose",
            mistake,
            &corrupted(&[sentence], &format!("umem_alloc_{cache}"), "", "umem_free, give_back, main"),
        );
    }
    for program in programs(test) {
        assert_ended(test, &run(&program, "after-free", "lite,verbose"), None, &[]);
    }
}

#[test]
fn audit_without_guards_finds_who_freed_and_no_late_writes() {
    let test = "audit_without_guards_finds_who_freed_and_no_late_writes";
    is_found(
        test,
        "audit=4,verbose",
        "twice",
        &corrupted(
            &["umem allocator: duplicate free: buffer freed twice"],
            "umem_alloc_64",
            "umem_free",
            "umem_free, give_back, free_again, main",
        ),
    );
    for program in programs(test) {
        assert_ended(test, &run(&program, "after-free", "audit,verbose"), None, &[]);
    }
}

#[test]
fn only_so_much_is_looked_at_as_maxverify_says() {
    for program in programs("only_so_much_is_looked_at_as_maxverify_says") {
        assert_ended("8", &run(&program, "after-free", "guards,maxverify=8"), None, &[]);
        assert_ended("16", &run(&program, "after-free", "guards,maxverify=16"), Some(SIGABRT), &[]);
    }
}

#[test]
fn a_null_pointer_with_a_size_is_a_mistake_where_that_is_asked_for() {
    let test = "a_null_pointer_with_a_size_is_a_mistake_where_that_is_asked_for";
    is_found(
        test,
        "checknull,verbose",
        "null-with-size",
        &[
            "umem allocator: bad free: free size (16) != alloc size (0)",
            "umem: heap corruption detected",
            "stack trace:",
            "> umem_free, give_back, main",
        ],
    );
    for program in programs(test) {
        assert_ended(test, &run(&program, "null-with-size", "default,verbose"), None, &[]);
        assert_ended(test, &run(&program, "nothing-wrong", "default,checknull,verbose"), None, &[]);
    }
}

#[test]
fn with_noabort_the_program_goes_on() {
    for program in programs("with_noabort_the_program_goes_on") {
        for (mistake, sentence) in [
            ("size-of-pointer", "umem allocator: redzone violation: write past end of buffer"),
            ("twice", "umem allocator: duplicate free: buffer freed twice"),
            ("of-stack", "umem allocator: invalid free: buffer not in cache"),
            ("of-middle", "umem allocator: invalid free: buffer not in cache"),
            ("of-other", "umem allocator: invalid free: buffer not in cache"),
            ("after-free", "umem allocator: buffer modified after being freed"),
            ("wrong-size", "umem allocator: bad free: free size (108) != alloc size (100)"),
            ("wrong-size-of-other-cache", "umem allocator: buffer freed to wrong cache"),
            ("wrong-size-of-large", "umem allocator: bad free: free size (200001) != alloc size (200000)"),
            ("wrong-cache", "umem allocator: buffer freed to wrong cache"),
        ] {
            let out = run(&program, mistake, "default,noabort,verbose");
            assert!(out.status.success(), "{mistake}: {}", out.status);
            assert_eq!(String::from_utf8_lossy(&out.stdout), "went on\n", "{mistake}");
            let said = String::from_utf8_lossy(&out.stderr);
            let told = said.lines().filter(|line| line.starts_with("umem allocator: "));
            assert_eq!(told.collect::<Vec<_>>(), [sentence], "{mistake} is said once");
        }
    }
}

#[test]
fn without_verbose_nothing_is_printed_and_without_signals_the_status_is_255() {
    let test = "without_verbose_nothing_is_printed_and_without_signals_the_status_is_255";
    for program in programs(test) {
        assert_ended(test, &run(&program, "twice", "default"), Some(SIGABRT), &[]);
        let out = run(&program, "twice", "default,nosignal");
        assert_eq!((out.status.code(), out.stderr.as_slice()), (Some(255), &b""[..]));
    }
}

#[test]
fn what_cannot_be_asked_is_said_and_the_program_runs() {
    let complaints = "UMEM_DEBUG: 'gaurds' not recognized\nUMEM_DEBUG: audit: not a number\n";
    for program in programs("what_cannot_be_asked_is_said_and_the_program_runs") {
        let out = run(&program, "nothing-wrong", "gaurds,audit=all");
        assert!(out.status.success());
        assert_eq!(String::from_utf8_lossy(&out.stderr), complaints);
    }
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for program in programs("nothing_is_found_where_nothing_is_wrong") {
        for debug in
            ["", "default", "lite", "guards", "audit", "default,random", "firewall=1", "guards,contents"]
        {
            assert_ended(
                debug,
                &run(&program, "nothing-wrong", &format!("{debug},verbose")),
                None,
                match debug {
                    "" => &["UMEM_DEBUG: empty option"],
                    _ => &[],
                },
            );
        }
    }
}
