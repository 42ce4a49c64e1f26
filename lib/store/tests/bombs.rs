//! Recordings that were made to exhaust their reader: what it allocates and decodes is bounded by the length of the file.

#![allow(clippy::unwrap_used)]

use millpond_model::{Nanos, WallTime};
use millpond_observe::Frame;
use millpond_observe::catalogue::{Entity, fields};
use millpond_store::{Limits, Recording, Ring};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;

/// Counts what the thread of a test has allocated.
struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let now = NOW.get() + bytes;
    NOW.set(now);
    MOST.set(MOST.get().max(now));
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: each call is passed on as it is; counting allocates nothing, since these thread-locals need no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` asked the same allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Of any file, however short.
const BYTES_BASE: usize = 10 << 20;
/// For each byte of a file: a quarter of a value, three times, and the byte.
const BYTES_PER_BYTE: usize = 20;
/// The same of values in frames.
const VALUES_BASE: usize = 2 << 20;
const VALUES_PER_BYTE: usize = 48;

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(body);
    let length = u32::try_from(body.len()).unwrap();
    [&[kind][..], &length.to_le_bytes(), &sum.finalize().to_le_bytes(), body].concat()
}

/// The beginning of a file of this program, with these tables in the place of those of the catalogue.
fn beginning(tables: Option<&str>) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (mut ring, _) = Ring::open(dir.path(), "mine", WallTime(0), Limits::default()).unwrap();
    ring.push(&Frame::at(Nanos(0), WallTime(0))).unwrap();
    let file = fs::read(ring.path().unwrap()).unwrap();
    let (mark, head) = (&file[..8], &file[17..]);
    let mut head: serde_json::Value = serde_json::from_slice(head).unwrap();
    if let Some(tables) = tables {
        head["tables"] = serde_json::from_str(tables).unwrap();
    }
    [mark, &record(b'H', head.to_string().as_bytes())].concat()
}

/// A file with blocks of these encoded frames.
fn file(beginning: &[u8], blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut file = beginning.to_vec();
    for encoded in blocks {
        let mut body = vec![0; 32];
        body.extend(1u32.to_le_bytes());
        body.extend(u32::try_from(encoded.len()).unwrap().to_le_bytes());
        body.extend(miniz_oxide::deflate::compress_to_vec(encoded, 6));
        file.extend(record(b'B', &body));
    }
    file
}

/// Reads a file, and checks what it cost.
fn check(bytes: &[u8], path: &Path) {
    fs::write(path, bytes).unwrap();
    let before = NOW.get();
    MOST.set(before);
    let (mut values, mut before_it) = (0, Frame::default());
    if let Ok(recording) = Recording::open(path) {
        for moment in recording.frames().flatten() {
            let rows = |entity: &Entity| moment.frame.rows(*entity).len() * fields(*entity).len();
            let place = |frame: &Frame, entity: Entity| frame.rows(entity).as_ptr();
            let is_new = |entity: &&Entity| place(&moment.frame, **entity) != place(&before_it, **entity);
            let new = Entity::ALL.iter().filter(is_new).map(rows).sum::<usize>();
            let all = Entity::ALL.iter().map(rows).sum::<usize>();
            // What is shared with the frame before costs a sixteenth.
            values += new + (all - new) / 16;
            before_it = moment.frame;
        }
    }
    let most = usize::try_from(MOST.get() - before).unwrap();
    assert!(most <= BYTES_BASE + BYTES_PER_BYTE * bytes.len(), "{most} bytes for {}", bytes.len());
    assert!(values <= VALUES_BASE + VALUES_PER_BYTE * bytes.len(), "{values} values for {}", bytes.len());
}

fn number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

/// Threads of which one column is written.
const NARROW: &str = r#"[{"of":"thread","fields":[{"name":"pid"}]}]"#;

/// Frames of so many rows, of which every value is as foretold.
fn rows(rows: usize, frames: usize) -> Vec<u8> {
    let mut encoded = Vec::new();
    for frame in 0..frames {
        // At, wall, nothing missing; read now: rows that come, or are kept.
        encoded.extend([1, 0, 0, 2, 0]);
        number(&mut encoded, rows);
        let runs = if frame == 0 { [0, 0, rows] } else { [rows, 0, 0] };
        runs.into_iter().for_each(|run| number(&mut encoded, run));
        encoded.resize(encoded.len() + rows, 0);
    }
    encoded
}

#[test]
fn a_bomb_costs_no_more_than_its_length_allows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bomb.frames");
    let (narrow, wide) = (beginning(Some(NARROW)), beginning(None));
    check(&file(&narrow, &[rows(3_000_000, 1)]), &path);
    check(&file(&narrow, &[rows(1_000, 3_000)]), &path);
    check(&file(&narrow, &vec![rows(500_000, 2); 4]), &path);
    check(&file(&wide, &[vec![0; 4 << 20]]), &path);
    // Two million texts of nothing are lacking; then each frame lacks the same.
    let mut missing = vec![1, 0];
    number(&mut missing, 2_000_001);
    missing.resize(missing.len() + 2_000_001, 0);
    missing.extend([1, 0, 0, 0].repeat(100_000));
    check(&file(&narrow, &[missing]), &path);
    // A text in each row, all of them new.
    let mut texts = rows(1_000_000, 1);
    texts.truncate(texts.len() - 1_000_000);
    texts.extend([3, 0].repeat(1_000_000));
    check(&file(&narrow, &[texts]), &path);
    // One long text.
    let mut text = rows(1, 1);
    text.truncate(text.len() - 1);
    text.push(3);
    number(&mut text, 4_000_000);
    text.resize(text.len() + 4_000_000, b'a');
    check(&file(&narrow, &[text]), &path);
    // Histograms of 250 buckets each.
    let histograms = beginning(Some(r#"[{"of":"latency","fields":[{"name":"waits_s","histogram":true}]}]"#));
    let mut many = rows(20_000, 1);
    many.truncate(many.len() - 20_000);
    for _ in 0..20_000 {
        number(&mut many, 2 + 250);
        many.extend([1, 1].repeat(250));
        many.push(0);
    }
    check(&file(&histograms, &[many]), &path);
}

#[test]
fn fuzz_bombs() {
    let dir = tempfile::tempdir().unwrap();
    let beginnings = [beginning(Some(NARROW)), beginning(None)];
    // A byte of the input with a number behind it is that many of it, so that what is short becomes long, as after the compressor.
    let seed = |encoded: Vec<u8>| -> Vec<u8> {
        let mut runs = vec![0];
        for run in encoded.chunk_by(|a, b| a == b) {
            for part in run.chunks(1 << 17) {
                runs.extend([part[0], u8::try_from(part.len().ilog2()).unwrap()]);
            }
        }
        runs
    };
    let seeds = [seed(rows(1 << 18, 2)), seed(rows(1 << 10, 40)), seed([1, 0, 0, 0].repeat(10))];
    let seeds: Vec<&[u8]> = seeds.iter().map(Vec::as_slice).collect();
    millpond_fuzz::check("store-bombs", &seeds, move |input| {
        let Some((first, runs)) = input.split_first() else { return };
        let mut encoded = Vec::new();
        for run in runs.chunks_exact(2) {
            let length = 1usize << (run[1] % 18);
            if encoded.len() + length <= 1 << 18 {
                encoded.resize(encoded.len() + length, run[0]);
            }
        }
        let beginning = &beginnings[usize::from(*first) % 2];
        check(&file(beginning, &[encoded]), &dir.path().join("fuzz.frames"));
    });
}
