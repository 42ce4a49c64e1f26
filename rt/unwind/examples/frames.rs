//! The cost of a stack trace: sixteen frames by `capture`, and by libgcc's unwinder.
//!
//! ```text
//! cargo run --release --manifest-path rt/Cargo.toml -p millpond-unwind --example frames
//! ```

#![allow(clippy::print_stdout)]

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::time::Instant;

const FRAMES: usize = 16;
const RUNS: usize = 31;

#[link(name = "gcc_s")]
unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, to: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

struct Found {
    frames: [usize; FRAMES],
    count: usize,
}

extern "C" fn each(context: *mut c_void, to: *mut c_void) -> c_int {
    const STOP: c_int = 5;
    // SAFETY: the context is the unwinder's; `to` is that of the call below.
    unsafe {
        let found = &mut *to.cast::<Found>();
        if let Some(frame) = found.frames.get_mut(found.count) {
            *frame = _Unwind_GetIP(context);
            found.count += 1;
        }
        if found.count < FRAMES { 0 } else { STOP }
    }
}

#[inline(never)]
fn by_libgcc() -> usize {
    let mut found = Found { frames: [0; FRAMES], count: 0 };
    // SAFETY: the callback fills the record that it gets.
    unsafe { _Unwind_Backtrace(each, (&raw mut found).cast()) };
    black_box(&found.frames);
    found.count
}

#[inline(never)]
fn by_ours() -> usize {
    let mut frames = [0; FRAMES];
    let count = millpond_unwind::capture(&mut frames);
    black_box(&frames);
    count
}

/// The median of several runs, in nanoseconds per walk.
fn measured(walk: fn() -> usize, times: u32) -> f64 {
    assert_eq!(walk(), FRAMES, "there are more frames");
    let mut all: Vec<f64> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            (0..times).for_each(|_| {
                black_box(walk());
            });
            start.elapsed().as_secs_f64() * 1e9 / f64::from(times)
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[RUNS / 2]
}

/// A chain of different functions, each with a frame of its own.
#[inline(never)]
fn deep<const LEFT: usize>(body: &mut dyn FnMut()) {
    let room = black_box([LEFT; 3]);
    match LEFT {
        20 => deep::<19>(body),
        19 => deep::<18>(body),
        18 => deep::<17>(body),
        17 => deep::<16>(body),
        16 => deep::<15>(body),
        15 => deep::<14>(body),
        14 => deep::<13>(body),
        13 => deep::<12>(body),
        12 => deep::<11>(body),
        11 => deep::<10>(body),
        10 => deep::<9>(body),
        9 => deep::<8>(body),
        8 => deep::<7>(body),
        7 => deep::<6>(body),
        6 => deep::<5>(body),
        5 => deep::<4>(body),
        4 => deep::<3>(body),
        3 => deep::<2>(body),
        2 => deep::<1>(body),
        _ => body(),
    }
    black_box(room);
}

fn compare(place: &str) {
    deep::<20>(&mut || {
        let (ours, theirs) = (measured(by_ours, 20_000), measured(by_libgcc, 500));
        let frames = 16.0;
        println!(
            "{place}: ours {ours:.0} ns, {:.1} a frame; libgcc {theirs:.0} ns, {:.0} a frame; {:.0} times",
            ours / frames,
            theirs / frames,
            theirs / ours
        );
    });
}

fn main() {
    let start = Instant::now();
    deep::<20>(&mut || {
        black_box(by_ours());
    });
    println!("the first time, rows worked out: {} ns", start.elapsed().as_nanos());
    compare("main thread");
    std::thread::spawn(|| compare("other thread")).join().expect("it measures");
}
