//! Stacks of `rt/rt`: one from the cache compared with a new mapping, and threads on these stacks compared with threads that fault in their own
//! stacks.

use super::sim::processor_time;
use crate::line::{Goal, Line, Pairs};
use crate::stats::median_of;
use crate::trial::{Bench, Trouble, told};
use libc::{c_int, c_void};
use millpond_rt::{fetch_stack_sizes, stack_alloc, stack_free};
use std::hint::black_box;
use std::io;
use std::ptr;
use std::time::Instant;

/// At least 50 times as fast.
const FASTER: Goal = Goal::RatioAtMost(0.02);
/// In nanoseconds, for both calls together.
const SOON: Goal = Goal::OursAtMost(20.0);
/// Bytes mapped per size in a trial.
const MAPPED: usize = 64 << 20;
/// Pairs of calls in a trial.
const CALLS: usize = 100_000;
/// Threads in a trial, one after the other.
const THREADS: usize = 200;
/// Size of the compared stacks of threads, in bytes.
const SIZE: usize = 256 << 10;
/// Bytes at the upper end of a stack that a thread uses anyway.
const IN_USE: usize = 16 << 10;

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let sizes = fetch_stack_sizes();
    let ends = [sizes.first(), sizes.last()].into_iter().flatten();
    let mut lines: Vec<Line> = ends.flat_map(|size| cached(bench, *size)).collect();
    lines.extend(threads(bench));
    lines
}

/// Stacks of one size from the cache.
fn cached(bench: &Bench, size: usize) -> Vec<Line> {
    let name = format!("stack_alloc, stack_free of {} KB, cached", size >> 10);
    let peer = "mmap, mprotect of both guards, a write to each page, munmap";
    let mut found = Pairs::default();
    // Discard the first trial: the cache is empty.
    for trial in 0..=bench.pairs {
        let measured = each(CALLS, || by_calls(size))
            .and_then(|ours| Ok((ours, each(MAPPED / size, || by_mapping(size))?)));
        match measured {
            Ok((ours, peer)) if trial > 0 => found.push(ours, peer),
            Ok(_) => {}
            Err(why) => {
                return [FASTER, SOON].map(|goal| Line::unresolvable(&name, peer, goal, &why)).into();
            }
        }
    }
    let times = median_of(&found.peer) / median_of(&found.ours);
    let line = |goal| Line::of(&name, peer, "ns", &found, goal).noting(format!("{times:.0} times as fast"));
    [FASTER, SOON].map(line).into()
}

/// Nanoseconds of this thread's CPU time per operation.
fn each(count: usize, mut once: impl FnMut() -> Result<(), Trouble>) -> Result<f64, Trouble> {
    let begin = processor_time();
    for _ in 0..count {
        once()?;
    }
    Ok((processor_time() - begin).as_secs_f64() * 1e9 / count as f64)
}

fn by_calls(size: usize) -> Result<(), Trouble> {
    let stack = stack_alloc(size).map_err(|error| error.to_string())?;
    // SAFETY: no thread uses it.
    unsafe { stack_free(black_box(stack).as_ptr(), size) }.map_err(|error| error.to_string())
}

/// Creates and removes the same stack without the library.
fn by_mapping(size: usize) -> Result<(), Trouble> {
    let page = rustix::param::page_size();
    let whole = size + 2 * page;
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice; only memory within its guards is written; no thread has a pointer into it when it
    // is unmapped.
    unsafe {
        let begin = libc::mmap(ptr::null_mut(), whole, access, flags | libc::MAP_STACK, -1, 0);
        if begin == libc::MAP_FAILED {
            return Err(format!("cannot map a stack: {}", io::Error::last_os_error()));
        }
        let upper = begin.byte_add(page + size);
        let guarded = [begin, upper].map(|guard| libc::mprotect(guard, page, libc::PROT_NONE));
        if guarded == [0, 0] {
            for at in (page..page + size).step_by(page) {
                begin.cast::<u8>().byte_add(at).write_volatile(1);
            }
        }
        libc::munmap(begin, whole);
        if guarded == [0, 0] { Ok(()) } else { Err("cannot guard a stack".into()) }
    }
}

/// A thread that is created and joined.
fn threads(bench: &Bench) -> Vec<Line> {
    let kb = SIZE >> 10;
    let name = format!("stack_alloc, pthread_create, pthread_join, stack_free ({kb} KB)");
    let usual = usual_size();
    [
        (
            format!("on a default stack of {kb} KB, of which the thread touches every page first"),
            Some(SIZE),
            true,
        ),
        (format!("on the default stack of {} KB, the same", usual >> 10), None, true),
        (format!("on a default stack of {kb} KB as it is, which faults when it is used"), Some(SIZE), false),
    ]
    .into_iter()
    .map(|(peer, size, is_touched)| {
        let touched = if is_touched { size.unwrap_or(usual).saturating_sub(IN_USE) } else { 0 };
        match beside(bench.pairs, size, touched) {
            Ok((pairs, [ours, theirs])) => Line::of(&name, &peer, "us", &pairs, Goal::None)
                .noting(format!("page faults for each thread: {ours} beside {theirs}")),
            Err(why) => Line::unresolvable(&name, &peer, Goal::None, why),
        }
    })
    .collect()
}

/// Pairs of microseconds for a thread on our stack and on a default stack, of this size if given; and the page faults of one of each.
fn beside(pairs: usize, size: Option<usize>, touched: usize) -> Result<(Pairs, [usize; 2]), Trouble> {
    let mut found = Pairs::default();
    // Discard the first trial: both caches are empty.
    for trial in 0..=pairs {
        let ours = many(|| on_ours(work).map(drop))?;
        let peer = many(|| thread(None, size, work, touched).map(drop))?;
        if trial > 0 {
            found.push(ours, peer);
        }
    }
    let faults = [faults_of(|| on_ours(count))?, faults_of(|| thread(None, size, count, touched))?];
    Ok((found, faults))
}

/// Microseconds per operation of many.
fn many(mut once: impl FnMut() -> Result<(), Trouble>) -> Result<f64, Trouble> {
    let begin = Instant::now();
    for _ in 0..THREADS {
        once()?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / THREADS as f64)
}

/// Page faults of a thread that returns its own, plus those of its creator.
fn faults_of(once: impl FnOnce() -> Result<usize, Trouble>) -> Result<usize, Trouble> {
    let before = faults();
    let of_thread = once()?;
    Ok(of_thread + faults() - before)
}

/// A thread's start routine.
type Begin = extern "C" fn(*mut c_void) -> *mut c_void;

/// Runs a thread on our stack; returns its result.
fn on_ours(begin: Begin) -> Result<usize, Trouble> {
    let stack = stack_alloc(SIZE).map_err(|error| error.to_string())?;
    let done = thread(Some(stack.as_ptr()), Some(SIZE), begin, 0);
    // SAFETY: its thread was joined, or was never started.
    unsafe { stack_free(stack.as_ptr(), SIZE) }.map_err(|error| error.to_string())?;
    done
}

/// Creates and joins a thread, on the given stack or on one of the C library's. It gets a number and returns one.
fn thread(stack: Option<*mut u8>, size: Option<usize>, begin: Begin, told: usize) -> Result<usize, Trouble> {
    // SAFETY: the attributes are initialised before use; a given stack has the given length, and the thread is joined.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        succeeded("initialise attributes", libc::pthread_attr_init(&raw mut attributes))?;
        let chosen = match (stack, size) {
            (Some(stack), Some(size)) => libc::pthread_attr_setstack(&raw mut attributes, stack.cast(), size),
            (None, Some(size)) => libc::pthread_attr_setstacksize(&raw mut attributes, size),
            _ => 0,
        };
        succeeded("choose a stack", chosen)?;
        let (mut thread, mut given): (libc::pthread_t, _) = (std::mem::zeroed(), ptr::null_mut());
        let told = ptr::without_provenance_mut(told);
        let created = libc::pthread_create(&raw mut thread, &raw const attributes, begin, told);
        succeeded("create a thread", created)?;
        succeeded("join a thread", libc::pthread_join(thread, &raw mut given))?;
        succeeded("destroy attributes", libc::pthread_attr_destroy(&raw mut attributes))?;
        Ok(given.addr())
    }
}

fn succeeded(what: &str, errno: c_int) -> Result<(), Trouble> {
    told(what, if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) })
}

/// Touches each page of this many bytes below its frame.
extern "C" fn work(touched: *mut c_void) -> *mut c_void {
    let here = 0u8;
    let (here, page) = ((&raw const here).expose_provenance(), rustix::param::page_size());
    for below in (page..touched.addr()).step_by(page) {
        // SAFETY: it is on this thread's stack, below all memory in use.
        unsafe { ptr::with_exposed_provenance_mut::<u8>(here - below).write_volatile(1) };
    }
    ptr::null_mut()
}

/// The same; returns the thread's page faults.
extern "C" fn count(touched: *mut c_void) -> *mut c_void {
    work(touched);
    ptr::without_provenance_mut(faults())
}

/// Minor page faults of this thread.
fn faults() -> usize {
    // SAFETY: all zeros is a valid value, and the call writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    usize::try_from(usage.ru_minflt).unwrap_or(0)
}

/// The default stack size in bytes.
fn usual_size() -> usize {
    let mut size = 0;
    // SAFETY: the attributes are initialised before use, and a number is written.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_attr_init(&raw mut attributes) == 0 {
            libc::pthread_attr_getstacksize(&raw const attributes, &raw mut size);
            libc::pthread_attr_destroy(&raw mut attributes);
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_can_be_mapped_by_hand() {
        for size in fetch_stack_sizes().iter().copied() {
            by_mapping(size).unwrap();
        }
    }

    #[test]
    fn a_thread_touches_the_pages_it_is_told_and_none_on_a_stack_of_ours() {
        let pages = (SIZE - IN_USE) / rustix::param::page_size();
        // Discard the first runs: code of both, and one of our stacks.
        let told = |touched| faults_of(|| thread(None, Some(SIZE), count, touched)).unwrap();
        faults_of(|| on_ours(count)).unwrap();
        told(0);
        // The C library keeps some stack pages resident from one thread to the next.
        assert!(told(SIZE - IN_USE) > told(0) + pages / 2);
        assert_eq!(faults_of(|| on_ours(count)).unwrap(), 0);
        assert!(usual_size() >= SIZE);
    }
}
