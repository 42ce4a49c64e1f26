//! Compares a program's reports with expected ones, line by line.

#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses a part")]

use std::os::unix::process::ExitStatusExt;
use std::process::Output;

/// Whether a line matches a pattern. `*` is one or more letters, digits or dots.
fn fits(pattern: &str, line: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == line };
    let Some(line) = line.strip_prefix(before) else { return false };
    let length = line.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'.').count();
    length > 0 && fits(rest, &line[length..])
}

/// Whether a line is a stack frame: a file and a function, or an address.
fn is_frame(line: &str) -> bool {
    line.contains('\'') && !line.contains(' ')
        || line.strip_prefix("0x").is_some_and(|rest| !rest.contains(' '))
}

/// Compares reports with patterns of lines. The pattern `> f, g` matches a stack that contains these functions in that order.
///
/// # Panics
/// The reports differ.
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

/// The lines of a report about a corrupt buffer of a cache: the error, the stack of its previous transaction (empty: not audited), and the
/// stack of the call that found it.
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

/// Asserts that the program was ended by the signal, or exited with 0, with the wanted reports.
pub fn assert_ended(what: &str, out: &Output, signal: Option<i32>, wanted: &[&str]) {
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.signal(), signal, "{what}: {}: {said}", out.status);
    let went_on = String::from_utf8_lossy(&out.stdout);
    assert_eq!(went_on, if signal.is_none() && out.status.success() { "went on\n" } else { "" }, "{what}");
    assert_said(what, &said, wanted);
}
