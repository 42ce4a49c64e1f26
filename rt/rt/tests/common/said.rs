//! What a program says of its mistakes, beside what it shall say, line by line.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// Whether a line is as a pattern has it: `*` is one or more letters and digits, or a point.
fn fits(pattern: &str, line: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == line };
    let Some(line) = line.strip_prefix(before) else { return false };
    let length = line.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'.').count();
    length > 0 && fits(rest, &line[length..])
}

/// A line of a stack: a file and a function, or an address.
fn is_frame(line: &str) -> bool {
    line.contains('\'') && !line.contains(' ')
        || line.strip_prefix("0x").is_some_and(|rest| !rest.contains(' '))
}

/// Compares what was said. `wanted` are patterns of lines; `> f, g` stands for a stack, which has these functions in that order and may have others.
///
/// # Panics
/// That is not what was said.
pub fn assert_said(what: &str, said: &str, wanted: &[&str]) {
    let mut lines = said.lines().peekable();
    for pattern in wanted {
        if let Some(functions) = pattern.strip_prefix("> ") {
            let mut frames = Vec::new();
            while let Some(frame) = lines.next_if(|line| is_frame(line)) {
                frames.push(frame);
            }
            let mut rest = frames.iter();
            for function in functions.split(", ") {
                let is_it = |frame: &&&str| frame.contains(&format!("'{function}+0x"));
                assert!(rest.any(|frame| is_it(&frame)), "{what}: no {function} in {frames:#?} of\n{said}");
            }
        } else {
            let line = lines.next().unwrap_or_default();
            assert!(fits(pattern, line), "{what}: {line:?} and not {pattern:?} in\n{said}");
        }
    }
    assert_eq!(lines.next(), None, "{what}: too much is said:\n{said}");
}

/// The lines about a corrupt buffer of a cache: what is wrong, and the stacks of its previous transaction (empty: it was not audited) and of the call
/// that found it.
pub fn corrupted(wrong: &[&str], cache: &str, before: &str, here: &str) -> Vec<String> {
    let mut lines: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    lines.push(format!("buffer=*  bufctl=*  cache: {cache}"));
    if !before.is_empty() {
        lines.push("previous transaction on buffer *:".into());
        lines.push(format!("thread=*  time=T-*  slab=*  cache: {cache}"));
        lines.push(format!("> {before}"));
    }
    lines.extend(["umem: heap corruption detected".into(), "stack trace:".into(), format!("> {here}")]);
    lines
}

/// The program was ended by that signal, or by itself with 0, and said what was wanted.
pub fn assert_ended(what: &str, out: &Output, signal: Option<i32>, wanted: &[&str]) {
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.signal(), signal, "{what}: {}: {said}", out.status);
    let went_on = String::from_utf8_lossy(&out.stdout);
    assert_eq!(went_on, if signal.is_none() && out.status.success() { "went on\n" } else { "" }, "{what}");
    assert_said(what, &said, wanted);
}
