//! Malicious recordings: allocations and decoded values of a reader are limited by the length of the file.

#![allow(clippy::unwrap_used)]

use millpond_model::{Nanos, WallTime};
use millpond_observe::Frame;
use millpond_observe::catalogue::{Entity, fields};
use millpond_store::{Limits, Recording, Ring};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;

/// Counts allocations of the thread of a test.
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

// SAFETY: each call is forwarded unchanged; counting does not allocate, because these thread-locals need no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count(-signed(layout.size()));
        // SAFETY: the caller keeps the contract of `dealloc`, and `alloc` used the same allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes for a file of any length.
const BYTES_BASE: usize = 10 << 20;
/// Further bytes per byte of a file: a quarter of a value, three times, and the byte.
const BYTES_PER_BYTE: usize = 20;
/// The same for values in frames.
const VALUES_BASE: usize = 2 << 20;
const VALUES_PER_BYTE: usize = 48;

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(body);
    let length = u32::try_from(body.len()).unwrap();
    [&[kind][..], &length.to_le_bytes(), &sum.finalize().to_le_bytes(), body].concat()
}

/// The beginning of a file by this program, with these tables instead of those of the catalogue.
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

/// Reads a file, and checks the cost.
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
            // Values shared with the previous frame cost a sixteenth.
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

/// A thread table with one column.
const NARROW: &str = r#"[{"of":"thread","fields":[{"name":"pid"}]}]"#;

/// Frames of rows in which every value is as predicted.
fn rows(rows: usize, frames: usize) -> Vec<u8> {
    let mut encoded = Vec::new();
    for frame in 0..frames {
        // At, wall, nothing missing; table read: new or kept rows.
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
    // Two million empty texts are missing; then each frame misses the same.
    let mut missing = vec![1, 0];
    number(&mut missing, 2_000_001);
    missing.resize(missing.len() + 2_000_001, 0);
    missing.extend([1, 0, 0, 0].repeat(100_000));
    check(&file(&narrow, &[missing]), &path);
    // A new text in each row.
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
    // In the fuzz input a byte with a number stands for that many repetitions, so that short input becomes long, as after decompression.
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
