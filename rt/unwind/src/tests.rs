//! Compares the walk with that of libgcc, through every kind of frame; and walks corrupt stacks.

#![cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]

mod library;
mod oracle;
mod parsing;
mod wild;

use super::capture;
use library::{COMPILERS, Library};
use std::ffi::{c_int, c_void};

/// The same by `_Unwind_Backtrace`.
#[inline(never)]
fn by_libgcc() -> Vec<usize> {
    #[link(name = "gcc_s")]
    unsafe extern "C" {
        fn _Unwind_Backtrace(
            each: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
            to: *mut c_void,
        ) -> c_int;
        fn _Unwind_GetIP(context: *mut c_void) -> usize;
    }
    extern "C" fn each(context: *mut c_void, to: *mut c_void) -> c_int {
        // SAFETY: the context is the unwinder's, and `to` is the list of the function below.
        unsafe { (*to.cast::<Vec<usize>>()).push(_Unwind_GetIP(context)) };
        0
    }
    let mut found: Vec<usize> = Vec::new();
    // SAFETY: the callback gets the list, which outlives the call.
    unsafe { _Unwind_Backtrace(each, (&raw mut found).cast()) };
    found
}

/// Both walks from one place. The first frame of each is in this function, at two different calls, and is dropped. libgcc's has a frame before that,
/// and a zero at the end of some stacks.
#[inline(never)]
fn both() -> (Vec<usize>, Vec<usize>) {
    let mut ours = [0; 1000];
    let count = capture(&mut ours);
    let mut theirs = by_libgcc();
    if theirs.last() == Some(&0) {
        theirs.pop();
    }
    (ours[1..count].to_vec(), theirs[2..].to_vec())
}

/// Results of a callback: number of calls and of frames, and the first difference.
#[derive(Debug, Default)]
struct Found {
    calls: usize,
    frames: usize,
    differing: Option<(Vec<usize>, Vec<usize>)>,
}

extern "C" fn look(found: *mut c_void) {
    // Twice: the first time rows are computed, the second time they are cached.
    for _ in 0..2 {
        let (ours, theirs) = both();
        // SAFETY: the argument is the test's `Found`.
        let found = unsafe { &mut *found.cast::<Found>() };
        found.calls += 1;
        found.frames = ours.len();
        if ours != theirs {
            found.differing = Some((ours, theirs));
        }
    }
}

/// Calls a function of the library. Asserts that both walks agree, with at least `least` frames.
#[track_caller]
fn same_through(library: &Library, name: &str, number: i64, least: usize) {
    let mut found = Found::default();
    library.call(name, number, look, (&raw mut found).cast());
    assert!(found.calls >= 2, "{name}");
    if let Some((ours, theirs)) = found.differing {
        panic!("{name}({number}): ours {ours:x?}\n theirs {theirs:x?}\n maps {}", library::maps());
    }
    assert!(found.frames >= least, "{name}({number}): {} frames", found.frames);
}

#[inline(never)]
fn recurse(depth: usize, body: &mut dyn FnMut()) {
    if depth == 0 {
        body();
    } else {
        recurse(depth - 1, body);
    }
    std::hint::black_box(depth);
}

#[test]
fn deep_stacks_are_walked_as_libgcc_does() {
    for depth in [0, 1, 10, 300] {
        recurse(depth, &mut || {
            let (ours, theirs) = both();
            assert_eq!(ours, theirs);
            assert!(ours.len() > depth);
        });
    }
}

#[test]
fn no_more_frames_are_given_than_there_is_room_for() {
    let (all, _) = both();
    let mut frames = [7; 4];
    assert_eq!(capture(&mut frames[..3]), 3);
    assert_eq!(frames[1..], [all[1], all[2], 7], "the first is in this function, at another call");
    assert_eq!((capture(&mut []), capture(&mut frames[..1])), (0, 1));
}

#[test]
fn the_first_address_is_in_the_function_that_asks() {
    #[inline(never)]
    fn ask() -> usize {
        let mut frames = [0];
        assert_eq!(std::hint::black_box(capture(&mut frames)), 1);
        frames[0]
    }
    let within = ask().wrapping_sub(ask as *const () as usize);
    assert!(within < 400, "{within}");
}

#[test]
fn every_kind_of_frame_of_c_is_walked() {
    let name = "every_kind_of_frame_of_c_is_walked";
    for compiler in COMPILERS {
        let Some(library) = Library::built(name, compiler, &["-O2", "-fomit-frame-pointer"]) else {
            continue;
        };
        for (function, number, least) in [
            ("plain", 0, 5),
            ("plain", 200, 205),
            ("with_alloca", 100, 5),
            ("with_alloca", 100_000, 5),
            ("with_array", 1, 5),
            ("with_array", 50_001, 5),
            ("with_buffer", 5, 5),
            ("huge", 5, 5),
            ("aligned", 64, 5),
            ("aligned", 5000, 5),
            ("busy", 1, 5),
            ("late", 1, 5),
            ("sorted", 10, 7),
            ("sorted", 100_000, 7),
            ("searched", 3, 7),
            ("ends", 0, 6),
            ("signalled", 1, 7),
            ("elsewhere", 64 << 10, 7),
            ("faulted", 0, 7),
            ("switched", 64 << 10, 7),
        ] {
            same_through(&library, function, number, least);
        }
    }
}

#[test]
fn other_ways_of_compiling_make_no_difference() {
    let name = "other_ways_of_compiling_make_no_difference";
    for options in [&["-O0"][..], &["-O3", "-march=x86-64-v3"], &["-O1", "-fno-omit-frame-pointer"], &["-Os"]]
    {
        let Some(library) = Library::built(name, "gcc", options) else { return };
        for function in ["plain", "with_alloca", "aligned", "busy", "late", "sorted", "ends", "faulted"] {
            same_through(&library, function, 32, 5);
        }
    }
}

#[test]
fn a_library_without_a_table_ends_the_walk() {
    let name = "a_library_without_a_table_ends_the_walk";
    for options in [&["-O2", "-Wl,--no-eh-frame-hdr"][..], &["-O2", "-fno-asynchronous-unwind-tables"]] {
        let Some(library) = Library::built(name, "gcc", options) else { return };
        let mut found = Found::default();
        library.call("plain", 3, look, (&raw mut found).cast());
        assert_eq!((found.calls, found.frames), (2, 2), "{options:?}");
    }
}

#[test]
fn what_cannot_be_followed_ends_the_walk() {
    let Some(library) = Library::built("what_cannot_be_followed_ends_the_walk", "gcc", &["-O2"]) else {
        return;
    };
    let body = || {
        for _ in 0..3 {
            // Generated code: its own frame is the last one. A frame that is too large for the bits: so is that of its function.
            for (function, number) in [("generated", 0), ("enormous", 5)] {
                let mut found = Found::default();
                library.call(function, number, look, (&raw mut found).cast());
                assert_eq!((found.calls, found.frames), (2, 2), "{function}");
            }
            same_through(&library, "plain", 10, 15);
        }
    };
    // A stack with room for such a frame.
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(16 << 20).spawn_scoped(scope, body).unwrap().join().unwrap();
    });
}

#[test]
fn threads_walk_at_the_same_time() {
    let Some(library) = Library::built("threads_walk_at_the_same_time", "gcc", &["-O2"]) else { return };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let library = &library;
            scope.spawn(move || {
                for round in 0..50 {
                    same_through(library, "plain", thread + round, 7);
                    same_through(library, "sorted", 50, 9);
                    same_through(library, "switched", 64 << 10, 7);
                }
            });
        }
    });
}

/// Set in the process that the test below starts.
const ALONE: &str = "MILLPOND_ALONE";

#[test]
fn a_library_in_the_place_of_another_is_seen() {
    // In a process of its own, because other tests would use the same addresses.
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::a_child_replaces_libraries", "--nocapture"]);
    let out = command.env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{said} {}", String::from_utf8_lossy(&out.stderr));
    if let Some(skipped) = said.lines().find_map(|line| line.find("skipped: ").map(|at| &line[at..])) {
        println!("{skipped}");
    }
}

/// Has an effect only when the test above starts it.
#[test]
fn a_child_replaces_libraries() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    let name = "a_library_in_the_place_of_another_is_seen";
    for more in [&[][..], &["-Wl,--build-id=none"]] {
        let before = super::cache::forgotten();
        let mut places = Vec::new();
        for buffer in ["-DBUFFER=4096", "-DBUFFER=8192", "-DBUFFER=16384", "-DBUFFER=4096"] {
            let Some(library) = Library::built(name, "gcc", &[&["-O2", buffer], more].concat()) else {
                return;
            };
            places.push(library.address("with_buffer"));
            for _ in 0..3 {
                same_through(&library, "with_buffer", 5, 5);
            }
        }
        if places.iter().any(|place| *place != places[0]) {
            return println!("skipped: {name}: the libraries did not come to the same place: {places:x?}");
        }
        assert!(super::cache::forgotten() >= before + 3);
    }
}

#[test]
fn errno_stays_as_it_was() {
    let Some(library) = Library::built("errno_stays_as_it_was", "gcc", &["-O2"]) else { return };
    extern "C" fn look(found: *mut c_void) {
        let mut frames = [0; 100];
        // SAFETY: errno is thread-local; the count is the test's.
        unsafe {
            *libc::__errno_location() = 77;
            *found.cast::<usize>() = capture(&mut frames);
            assert_eq!(*libc::__errno_location(), 77);
        }
    }
    for (function, number) in [("plain", 3), ("switched", 64 << 10), ("generated", 0)] {
        let mut count = 0_usize;
        library.call(function, number, look, (&raw mut count).cast());
        assert!(count > 1);
    }
}

#[test]
fn a_child_of_fork_walks_too() {
    super::after_fork();
    let (ours, theirs) = both();
    assert_eq!(ours, theirs);
    // SAFETY: the child only walks, and exits.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        super::after_fork();
        let mut frames = [0; 100];
        let count = capture(&mut frames);
        let is_same = frames[1..count] == ours[..];
        // SAFETY: without clean-up, so that nothing of the parent is cleaned up twice.
        unsafe { libc::_exit(c_int::from(!is_same)) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    // The exit status may differ: this function calls `capture` at another place.
    assert!(libc::WIFEXITED(status), "{status:#x}");
}
