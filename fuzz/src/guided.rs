//! Coverage-guided search with libFuzzer, in instrumented builds (`--cfg fuzzing`).
//!
//! libFuzzer ends the process when it is done, or when the target panics. So such a build runs one search per process.

use libfuzzer_sys as _;
use std::cell::Cell;
use std::env;
use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::io;
use std::panic;
use std::path::{Path, PathBuf};
use std::process;

/// The environment variable with the directory in which a search keeps its inputs between runs; a temporary directory if it is
/// not set.
const DIR: &str = "MILLPOND_FUZZ_DIR";

/// A single input that takes longer counts as an error.
const INPUT_SECONDS: u64 = 10;

/// A target that needs more memory counts as an error: it used a number from its input as a size.
const MEMORY_MIB: u64 = 1024;

type Target = &'static dyn Fn(&[u8]);

thread_local! {
    // libFuzzer calls back in the calling thread, and has no argument for the target.
    static TARGET: Cell<Option<Target>> = const { Cell::new(None) };
}

unsafe extern "C" {
    fn LLVMFuzzerRunDriver(
        argc: *mut c_int,
        argv: *mut *mut *mut c_char,
        callback: extern "C" fn(*const u8, usize) -> c_int,
    ) -> c_int;
}

extern "C" fn give(data: *const u8, length: usize) -> c_int {
    let input = if length == 0 {
        &[][..]
    } else {
        // SAFETY: libFuzzer passes a buffer of this length, which does not change before we return.
        unsafe { std::slice::from_raw_parts(data, length) }
    };
    if let Some(target) = TARGET.get() {
        target(input);
    }
    0
}

/// Searches for `seconds`, and ends the process: with status 0 if nothing was found.
pub(crate) fn run(name: &str, seeds: &[&[u8]], target: impl Fn(&[u8]) + 'static, seconds: u64) -> ! {
    let place = place(name);
    let corpus = place.join("corpus");
    if let Err(error) = keep(&corpus, seeds) {
        panic!("{}: {error}", corpus.display());
    }
    TARGET.set(Some(Box::leak(Box::new(target))));
    // libFuzzer stores the input when the process is aborted. An unwinding panic would be lost in its frames.
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        usual(info);
        process::abort();
    }));
    let arguments = [
        name.to_owned(),
        corpus.display().to_string(),
        format!("-max_total_time={seconds}"),
        format!("-timeout={INPUT_SECONDS}"),
        format!("-rss_limit_mb={MEMORY_MIB}"),
        format!("-max_len={}", crate::mutate::BYTES_MAX),
        format!("-artifact_prefix={}/", place.display()),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
    ];
    drive(&arguments);
    process::exit(0)
}

fn drive(arguments: &[String]) {
    // None of them has a zero byte; one with a zero byte would be skipped.
    let arguments: Vec<CString> =
        arguments.iter().filter_map(|text| CString::new(text.as_str()).ok()).collect();
    let mut pointers: Vec<*mut c_char> = arguments.iter().map(|text| text.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let mut count = c_int::try_from(arguments.len()).unwrap_or(0);
    let mut list = pointers.as_mut_ptr();
    // SAFETY: count and list describe zero-terminated strings and live until the call returns. The call only reads them. The
    // callback has the expected signature.
    unsafe { LLVMFuzzerRunDriver(&raw mut count, &raw mut list, give) };
}

fn place(name: &str) -> PathBuf {
    env::var_os(DIR).map_or_else(|| env::temp_dir().join("millpond-fuzz").join(name), PathBuf::from)
}

/// Writes the seeds to the directory where libFuzzer starts.
fn keep(corpus: &Path, seeds: &[&[u8]]) -> io::Result<()> {
    fs::create_dir_all(corpus)?;
    for (number, seed) in seeds.iter().enumerate() {
        fs::write(corpus.join(format!("seed-{number}")), seed)?;
    }
    Ok(())
}
