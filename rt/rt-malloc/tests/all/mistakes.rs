//! The published memory errors in programs that use malloc only, with the library preloaded; and the exported symbols.

use crate::common::compiled::{How, Program, has};
use crate::common::library;
use crate::common::said::{assert_ended, corrupted};
use libc::{SIGABRT, SIGSEGV};
use std::process::{Command, Output};

/// The program, linked with the C library only. `None`: there is no compiler.
fn program(test: &str) -> Option<Program> {
    if !has("cc") {
        println!("skipped: {test}: there is no C compiler");
        return None;
    }
    let more = ["-g", "-rdynamic", "-fno-inline", "-fno-optimize-sibling-calls"];
    Some(Program::new("tests/mistakes.c", How { compiler: "cc", standard: "c99", library: "", more: &more }))
}

fn run(program: &Program, mistake: &str, debug: &str) -> Output {
    program.command().arg(mistake).env("LD_PRELOAD", library()).env("UMEM_DEBUG", debug).output().unwrap()
}

fn is_found(test: &str, debug: &str, mistake: &str, wanted: &[impl AsRef<str>]) {
    let wanted: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
    let Some(program) = program(test) else { return };
    assert_ended(mistake, &run(&program, mistake, debug), Some(SIGABRT), &wanted);
}

#[test]
fn a_struct_with_the_size_of_its_pointer_is_found_at_free_with_who_allocated_it() {
    is_found(
        "a_struct_with_the_size_of_its_pointer_is_found_at_free_with_who_allocated_it",
        "default,verbose",
        "size-of-pointer",
        &corrupted(
            &["umem allocator: redzone violation: write past end of buffer"],
            "umem_malloc_16",
            "get, make_record, main",
            "give_back, end_record, main",
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
            "umem_malloc_32",
            "",
            "give_back, main",
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
            &["free(*): double-free or invalid buffer"],
            "umem_malloc_80",
            "give_back, free_first, main",
            "give_back, free_again, main",
        ),
    );
}

#[test]
fn what_is_freed_twice_is_found_without_being_asked_to_check() {
    is_found(
        "what_is_freed_twice_is_found_without_being_asked_to_check",
        "verbose",
        "twice",
        &[
            "free(*): double-free or invalid buffer",
            "umem: heap corruption detected",
            "stack trace:",
            "> give_back, free_again, main",
        ],
    );
}

#[test]
fn foreign_pointers_are_found() {
    let end = ["umem: heap corruption detected", "stack trace:", "> give_back, main"];
    for mistake in ["of-stack", "of-other"] {
        let wanted = [&["free(*): invalid or corrupted buffer"][..], &end].concat();
        is_found("foreign_pointers_are_found", "default,verbose", mistake, &wanted);
        is_found("foreign_pointers_are_found", "verbose", mistake, &wanted);
    }
    let known = [
        "free(*): invalid or corrupted buffer",
        "buffer=*  bufctl=*  cache: umem_malloc_112",
        "previous transaction on buffer *:",
        "thread=*  time=T-*  slab=*  cache: umem_malloc_112",
        "> get, main",
    ];
    is_found("foreign_pointers_are_found", "default,verbose", "of-middle", &[&known[..], &end].concat());
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
                "modification occurred at offset 0x10 (0xdeadbeefdeadbeef replaced by 0x1122334455667788)",
            ],
            "umem_malloc_80",
            "give_back, free_first, main",
            "get, main",
        ),
    );
}

#[test]
fn who_reads_past_a_firewall_dies_on_the_spot() {
    let Some(program) = program("who_reads_past_a_firewall_dies_on_the_spot") else { return };
    for debug in ["firewall=1", "default,verbose,firewall=4k"] {
        assert_ended(debug, &run(&program, "read-past", debug), Some(SIGSEGV), &[]);
        assert_ended(debug, &run(&program, "nothing-wrong", debug), None, &[]);
    }
}

#[test]
fn with_noabort_the_program_goes_on() {
    let Some(program) = program("with_noabort_the_program_goes_on") else { return };
    for (mistake, sentence) in [
        ("size-of-pointer", "redzone violation: write past end of buffer"),
        ("twice", "): double-free or invalid buffer"),
        ("of-stack", "): invalid or corrupted buffer"),
        ("of-middle", "): invalid or corrupted buffer"),
        ("of-other", "): invalid or corrupted buffer"),
        ("after-free", "buffer modified after being freed"),
    ] {
        let out = run(&program, mistake, "default,noabort,verbose");
        assert!(out.status.success(), "{mistake}: {}", out.status);
        let said = String::from_utf8_lossy(&out.stderr);
        let told =
            said.lines().filter(|line| line.starts_with("umem allocator: ") || line.starts_with("free("));
        let told: Vec<_> = told.collect();
        assert!(matches!(told[..], [line] if line.ends_with(sentence)), "{mistake}: {said}");
    }
}

#[test]
fn without_verbose_nothing_is_printed_and_without_signals_the_status_is_255() {
    let test = "without_verbose_nothing_is_printed_and_without_signals_the_status_is_255";
    let Some(program) = program(test) else { return };
    assert_ended(test, &run(&program, "twice", "default"), Some(SIGABRT), &[]);
    let out = run(&program, "twice", "default,nosignal");
    assert_eq!((out.status.code(), out.stderr.as_slice()), (Some(255), &b""[..]));
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    let Some(program) = program("nothing_is_found_where_nothing_is_wrong") else { return };
    for debug in ["verbose", "default,verbose", "lite,verbose", "audit,verbose", "random,default,verbose"] {
        assert_ended(debug, &run(&program, "nothing-wrong", debug), None, &[]);
    }
}

#[test]
fn the_library_exports_what_the_list_says() {
    if !has("nm") {
        return println!("skipped: the_library_exports_what_the_list_says: there is no nm (binutils)");
    }
    let out = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let mut exported: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    exported.sort_unstable();
    let listed: Vec<&str> = include_str!("../../symbols").lines().collect();
    assert_eq!(exported, listed);
    // A program that preloads it finds the other calls of `millpond-rt` in it, too, in the same copy.
    let of_rt = include_str!("../../../rt/symbols");
    assert!(of_rt.lines().all(|name| listed.contains(&name)));
}
