//! The main stack. Tests run on threads, so each case is a process of its own: this program again, which runs the case before its `main`.

#![allow(clippy::unwrap_used)]

mod common;

use common::{drop_rights, faults, handle_elsewhere, here, limit, page_size, touch_down_to};
use libc::{c_int, c_void};
use millpond_rt::realtime::{Setup, Want};
use millpond_rt::*;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::ptr;

/// Environment variable with the name of the case.
const CASE: &str = "MILLPOND_RT_CASE";

/// The C library calls it before `main`, on the main stack.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    let Ok(case) = std::env::var(CASE) else { return };
    let status = match std::panic::catch_unwind(|| run(&case)) {
        Ok(()) => 0,
        Err(_) => 101,
    };
    // SAFETY: no clean-up is needed.
    unsafe { libc::_exit(status) }
}

fn run(case: &str) {
    match case {
        "bounds" => bounds(),
        "limit" => limit_is_asked_again(),
        "grows" => grows_to_its_bounds(),
        "violation" => violation(),
        "lock" => lock(),
        "no right" => no_right(),
        "unlimited" => unlimited(),
        "blocked" => blocked(),
        "real time" => real_time(),
        "real time, unlimited" => real_time_unlimited(),
        _ => panic!("there is no case {case}"),
    }
}

fn output(case: &str, limit_kb: Option<&str>) -> Output {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    let limit = limit_kb.map_or(String::new(), |kb| format!("ulimit -s {kb} && "));
    command.arg("-c").arg(format!("{limit}exec \"$0\"")).arg(program).env(CASE, case);
    command.output().unwrap()
}

fn passes(case: &str, limit_kb: Option<&str>) {
    let out = output(case, limit_kb);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// Current beginning and end of the main stack's mapping.
fn mapped() -> (usize, usize) {
    let text = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = text.lines().find(|line| line.ends_with("[stack]")).unwrap();
    let (begin, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    (usize::from_str_radix(begin, 16).unwrap(), usize::from_str_radix(end, 16).unwrap())
}

fn bounds() {
    let bounds = stack_getbounds().unwrap();
    assert!(bounds.contains(here()));
    assert_eq!(bounds.base, mapped().1 - (4 << 20), "the limit is 4 MB");
    let listed = stack_mappings().unwrap();
    let [mapping] = listed[..] else { panic!("{listed:?}") };
    assert_eq!((mapping.address, mapping.end), mapped());
    assert!(mapping.has(StackMapping::READ | StackMapping::WRITE | StackMapping::GROWS_DOWN), "{mapping}");
}

#[test]
fn the_bounds_of_the_main_stack_reach_down_to_its_limit() {
    passes("bounds", Some("4096"));
}

fn limit_is_asked_again() {
    let before = stack_getbounds().unwrap();
    // Half a page more is rounded down.
    limit(libc::RLIMIT_STACK, (3 << 20) + 2048);
    let after = stack_getbounds().unwrap();
    assert_eq!(after.base - before.base, 1 << 20);
    assert_eq!(after.base + after.size, before.base + before.size);
}

#[test]
fn a_limit_that_was_changed_changes_the_bounds() {
    passes("limit", Some("4096"));
}

#[inline(never)]
#[allow(unconditional_recursion, reason = "until the stack ends")]
fn recurse(depth: usize) -> usize {
    let frame = std::hint::black_box([depth; 16]);
    recurse(depth + 1) + frame[0]
}

fn on_fault(handler: extern "C" fn(c_int, *const libc::siginfo_t, *const c_void)) {
    handle_elsewhere();
    // SAFETY: the handlers are async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()), 0);
    }
}

extern "C" fn tell_address(_: c_int, info: *const libc::siginfo_t, _: *const c_void) {
    // SAFETY: the kernel passes the record; `write` is async-signal-safe.
    unsafe {
        let address = (*info).si_addr().addr();
        libc::write(1, (&raw const address).cast(), 8);
    }
}

fn grows_to_its_bounds() {
    let base = stack_getbounds().unwrap().base;
    // SAFETY: the number is readable.
    unsafe { libc::write(1, (&raw const base).cast(), 8) };
    on_fault(tell_address);
    std::hint::black_box(recurse(0));
}

#[test]
fn the_main_stack_dies_just_below_its_bounds() {
    let out = output("grows", Some("2048"));
    assert_eq!(out.status.signal(), Some(libc::SIGSEGV), "{}", String::from_utf8_lossy(&out.stderr));
    let number = |at: usize| usize::from_ne_bytes(out.stdout[at..at + 8].try_into().unwrap());
    let (base, fault) = (number(0), number(8));
    assert!((base - page_size()..base).contains(&fault), "{base:#x} {fault:#x}");
}

extern "C" fn judge(signal: c_int, info: *const libc::siginfo_t, context: *const c_void) {
    // SAFETY: the arguments are the kernel's; no clean-up is needed.
    unsafe { libc::_exit(if stack_violation(signal, info, context) { 0 } else { 11 }) }
}

fn violation() {
    stack_getbounds().unwrap();
    on_fault(judge);
    std::hint::black_box(recurse(0));
}

#[test]
fn leaving_the_main_stack_is_a_violation() {
    passes("violation", Some("1024"));
}

fn lock() {
    let before = stack_residency().unwrap();
    assert!(
        before.mapped < before.pages && 0 < before.resident && before.resident <= before.mapped,
        "{before:?}"
    );
    assert_eq!(before.mapped, (stack_end() - mapped().0) / page_size());
    stack_lock().unwrap();
    let after = stack_residency().unwrap();
    assert_eq!(after, StackResidency { pages: before.pages, mapped: before.pages, resident: before.pages });
    let base = stack_getbounds().unwrap().base;
    assert_eq!(mapped().0, base, "one mapping still, and the same bounds");
    let count = faults();
    touch_down_to(base);
    assert_eq!(faults(), count);
}

fn stack_end() -> usize {
    let bounds = stack_getbounds().unwrap();
    bounds.base + bounds.size
}

/// On Solaris touching the lowest byte fills the gap (E7: 2,120 of 2,120 pages). On Linux it takes `stack_lock`.
#[test]
fn a_main_stack_that_is_locked_is_there_down_to_its_limit() {
    passes("lock", Some("8192"));
}

fn no_right() {
    limit(libc::RLIMIT_MEMLOCK, 64 << 10);
    drop_rights();
    assert!(matches!(stack_lock(), Err(StackError::LockLimit(_))));
}

#[test]
fn a_limit_on_locked_memory_is_told() {
    passes("no right", Some("1024"));
}

fn unlimited() {
    assert!(stack_getbounds().unwrap().contains(here()));
    assert!(matches!(stack_lock(), Err(StackError::Unlimited)));
}

#[test]
fn a_main_stack_without_a_limit_cannot_be_locked() {
    let allowed = Command::new("sh").args(["-c", "ulimit -s unlimited"]).status().unwrap();
    if !allowed.success() {
        println!(
            "skipped: a_main_stack_without_a_limit_cannot_be_locked: the hard limit on stacks is lower (ulimit -Hs)"
        );
        return;
    }
    passes("unlimited", Some("unlimited"));
}

fn blocked() {
    let before = stack_residency().unwrap();
    let inside = stack_getbounds().unwrap().base + (1 << 20);
    // The kernel avoids this by itself: a mapping in the range into which the stack grows.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: the range is unmapped.
    let page = unsafe {
        libc::mmap(ptr::without_provenance_mut(inside), page_size(), libc::PROT_READ, flags, -1, 0)
    };
    assert_eq!(page.addr(), inside);
    // The C library sees the mapping, and reports smaller bounds.
    assert!(stack_getbounds().unwrap().base > inside);
    assert!(matches!(stack_lock(), Err(StackError::Growth(_))));
    assert_eq!(stack_residency().unwrap().mapped, before.mapped, "it is as it was");
}

#[test]
fn a_main_stack_that_cannot_grow_is_refused_and_not_killed() {
    passes("blocked", Some("8192"));
}

fn locked() -> String {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    text.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap().trim().to_owned()
}

fn real_time() {
    let bounds = stack_getbounds().unwrap();
    let realtime = Setup::new().require(Want::Stack).begin().unwrap();
    let pages = bounds.size / page_size();
    assert_eq!(realtime.outcomes()[0].to_string(), format!("stack: {pages} of {pages} pages resident"));
    realtime.undo().unwrap();
    assert_eq!((locked().as_str(), stack_getbounds().unwrap()), ("0 kB", bounds));
    // It stays at its full size, and is one mapping, as before.
    assert_eq!(mapped().0, bounds.base);
    // Earlier locks are preserved.
    stack_lock().unwrap();
    let before = locked();
    Setup::new().require(Want::Stack).begin().unwrap().undo().unwrap();
    assert_eq!(locked(), before);
    if Setup::new().require(Want::Memory).begin().is_ok() {
        assert_eq!(locked(), before);
    }
}

#[test]
fn a_main_stack_is_locked_as_long_as_it_is_wanted() {
    passes("real time", Some("4096"));
}

fn real_time_unlimited() {
    let error = Setup::new().require(Want::Stack).begin().unwrap_err();
    assert_eq!(error.errno(), libc::ENOTSUP);
    let said = error.to_string();
    assert!(said.ends_with("cannot lock the main stack: it has no limit; set one (ulimit -s)"), "{said}");
}

#[test]
fn a_main_stack_without_a_limit_is_refused_with_the_remedy() {
    let allowed = Command::new("sh").args(["-c", "ulimit -s unlimited"]).status().unwrap();
    if !allowed.success() {
        return println!(
            "skipped: a_main_stack_without_a_limit_is_refused_with_the_remedy: the hard limit on stacks is lower (ulimit -Hs)"
        );
    }
    passes("real time, unlimited", Some("unlimited"));
}
