//! Folders of recordings: written frames are readable regardless of how the writer ended.

#![allow(clippy::unwrap_used)]

use millpond_model::{Nanos, WallTime};
use millpond_observe::catalogue::{Entity, cpu};
use millpond_observe::{Frame, Row};
use millpond_store::{Limits, Recording, Ring, StoreError};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const START: i64 = 1_764_223_262; // 2025-11-27 06:01:02 UTC
const LIMITS: Limits = Limits { bytes: 1 << 20, age: Nanos::from_secs(7 * 86400) };

/// The frame after this number of seconds, with different activity on each CPU.
fn frame(second: u64) -> Frame {
    let mut frame = Frame::at(Nanos::from_secs(100 + second), WallTime(START + second.cast_signed()));
    let row = |id: u32| {
        let mixed = (second * 4 + u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        Row::of(Entity::Cpu)
            .with(cpu::ID, id)
            .with(cpu::USER, Nanos::from_millis(second * 1000 + mixed))
            .with(cpu::CSW, second * 100 + mixed)
    };
    frame.set_rows(Entity::Cpu, (0..4).map(row).collect());
    frame
}

fn ring(dir: &Path, limits: Limits) -> (Ring, Vec<String>) {
    Ring::open(dir, "real", WallTime(START), limits).expect("it is a folder of its own")
}

fn seconds(recording: &Recording, from: i64) -> Vec<i64> {
    recording
        .frames_from(WallTime(from))
        .map(|moment| moment.expect("it is whole").frame.wall.0 - START)
        .collect()
}

fn only_file(dir: &Path) -> PathBuf {
    dir.join("20251127T060102Z.frames")
}

#[test]
fn frames_come_back_from_any_moment_with_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ring, notes) = ring(dir.path(), LIMITS);
    assert_eq!(notes, Vec::<String>::new());
    (0..1500).for_each(|second| ring.push(&frame(second)).unwrap());
    let open = Recording::open(dir.path()).unwrap();
    assert_eq!(seconds(&open, START).len(), 1500, "it is read while it is written");
    let written = ring.finish().unwrap();
    assert_eq!((written.frames, written.dropped), (1500, 0));
    let recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.notes, Vec::<String>::new());
    let span = recording.span().unwrap();
    assert_eq!((span.machine.as_str(), span.frames, span.files), ("real", 1500, 1));
    assert_eq!(span.length(), Nanos::from_secs(1499));
    for from in [0, 1, 599, 600, 601, 602, 1202, 1499] {
        let first = (from - 1).max(0);
        assert_eq!(seconds(&recording, START + from), (first..1500).collect::<Vec<_>>(), "from {from}");
    }
    assert_eq!(seconds(&recording, START + 9999), [1499], "after its end there is the last one");
    let read: Vec<Frame> = recording.frames().map(|moment| moment.unwrap().frame).collect();
    assert!((0..1500).zip(&read).all(|(second, read)| *read == frame(second)));
    let single = Recording::open(&only_file(dir.path())).unwrap();
    assert_eq!(single.span().unwrap().frames, 1500);
}

#[test]
fn a_writer_that_is_killed_loses_no_frame_and_the_next_one_makes_the_folder_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (mut killed, _) = ring(dir.path(), LIMITS);
    (0..700).for_each(|second| killed.push(&frame(second)).unwrap());
    // The lock ends with the killed program, and nothing is completed.
    drop(killed);
    let tail = dir.path().join("20251127T060102Z.frames.tail");
    let mut bytes = fs::read(&tail).unwrap();
    bytes.truncate(bytes.len() - 5);
    fs::write(&tail, &bytes).unwrap();
    let torn = Recording::open(dir.path()).unwrap();
    assert_eq!(seconds(&torn, START), (0..699).collect::<Vec<_>>());
    assert!(
        torn.notes[0].ends_with("bytes are no whole block or frame, and are left out"),
        "{:?}",
        torn.notes
    );
    let (ring, notes) = ring(dir.path(), LIMITS);
    assert!(notes[0].contains(": its writer was stopped: 98 frames are made a block, "), "{notes:?}");
    drop(ring);
    assert!(!tail.exists());
    let mended = Recording::open(dir.path()).unwrap();
    assert_eq!((seconds(&mended, START).len(), mended.notes.len()), (699, 0));
}

#[test]
fn a_writer_that_is_killed_between_block_and_tail_gives_each_frame_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut killed, _) = ring(dir.path(), LIMITS);
    (0..600).for_each(|second| killed.push(&frame(second)).unwrap());
    let tail = dir.path().join("20251127T060102Z.frames.tail");
    let before = fs::read(&tail).unwrap();
    killed.push(&frame(600)).unwrap();
    fs::write(&tail, &before).unwrap();
    assert_eq!(seconds(&Recording::open(dir.path()).unwrap(), START), (0..601).collect::<Vec<_>>());
    drop(killed);
    let _ = ring(dir.path(), LIMITS);
    assert_eq!(seconds(&Recording::open(dir.path()).unwrap(), START), (0..601).collect::<Vec<_>>());
}

#[test]
fn a_file_that_ends_anywhere_is_read_to_there() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ring, _) = ring(dir.path(), LIMITS);
    (0..1300).for_each(|second| ring.push(&frame(second)).unwrap());
    let _ = ring.finish().unwrap();
    let whole = fs::read(only_file(dir.path())).unwrap();
    let cut = dir.path().join("cut.frames");
    for length in (0..whole.len()).step_by(997) {
        fs::write(&cut, &whole[..length]).unwrap();
        match Recording::open(&cut) {
            Ok(recording) => {
                let read = seconds(&recording, START);
                assert!([601, 1202].contains(&read.len()), "{} frames of {length} bytes", read.len());
            }
            Err(StoreError::Strange { why, .. }) => {
                assert!(
                    ["it is no recording of frames", "no frame is in it"]
                        .iter()
                        .any(|known| why.starts_with(known)),
                    "{why}"
                );
            }
            Err(StoreError::Unbegun(_)) => assert!(length < 20_000),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_damaged_block_is_told_with_its_place_and_the_next_ones_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (mut ring, _) = ring(dir.path(), LIMITS);
    (0..1300).for_each(|second| ring.push(&frame(second)).unwrap());
    let _ = ring.finish().unwrap();
    let path = only_file(dir.path());
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&path, &bytes).unwrap();
    let recording = Recording::open(&path).unwrap();
    let (good, bad): (Vec<_>, Vec<_>) = recording.frames().partition(Result::is_ok);
    assert_eq!(good.len(), 699);
    let told = bad[0].as_ref().unwrap_err().to_string();
    assert!(told.contains(", block at byte ") && told.ends_with("its checksum is wrong"), "{told}");
}

#[test]
fn the_oldest_files_go_when_there_are_too_many_bytes_or_they_are_too_old() {
    let dir = tempfile::tempdir().unwrap();
    let small = Limits { bytes: 80_000, ..LIMITS };
    let (mut writer, _) = ring(dir.path(), small);
    (0..15_000).for_each(|second| writer.push(&frame(second)).unwrap());
    let written = writer.finish().unwrap();
    assert!(written.dropped > 0);
    let recording = Recording::open(dir.path()).unwrap();
    let span = recording.span().unwrap();
    assert!(span.bytes <= 80_000 + 20_000, "{span:?}");
    assert_eq!(span.last.0 - START, 14_999);
    let (mut writer, _) = ring(dir.path(), Limits { age: Nanos::from_secs(3600), ..LIMITS });
    (15_000..21_000).for_each(|second| writer.push(&frame(second)).unwrap());
    let _ = writer.finish().unwrap();
    let first = Recording::open(dir.path()).unwrap().span().unwrap().first.0 - START;
    assert!((10_000..=17_400).contains(&first), "{first}");
}

#[test]
fn a_link_in_the_place_of_a_file_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, target) = (dir.path().join("folder"), dir.path().join("target"));
    fs::create_dir(&folder).unwrap();
    let (mut ring, _) = ring(&folder, LIMITS);
    symlink(&target, only_file(&folder)).unwrap();
    fs::write(&target, "").unwrap();
    symlink(&target, folder.join("20251127T060102Z-2.frames.tail")).unwrap();
    ring.push(&frame(0)).unwrap();
    assert_eq!(ring.path(), Some(folder.join("20251127T060102Z-2.frames").as_path()));
    assert_eq!(fs::read(&target).unwrap(), b"");
}

#[test]
fn a_file_whose_writer_was_killed_at_once_is_passed_over_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut first, _) = ring(dir.path(), LIMITS);
    first.push(&frame(0)).unwrap();
    let _ = first.finish().unwrap();
    let whole = fs::read(only_file(dir.path())).unwrap();
    for length in [0, 1, 8, 16, 17, 100] {
        let unbegun = dir.path().join("20251127T070000Z.frames");
        fs::write(&unbegun, &whole[..length]).unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.notes, Vec::<String>::new(), "{length} bytes");
        let said = Recording::open(&unbegun).unwrap_err().to_string();
        assert!(said.ends_with(": its writer was stopped before the first frame"), "{said}");
        let (_ring, notes) = ring(dir.path(), LIMITS);
        assert_eq!(notes, Vec::<String>::new(), "{length} bytes");
        assert!(!unbegun.exists());
    }
}

#[test]
fn a_clock_that_was_set_back_leaves_every_frame_readable() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, _) = ring(dir.path(), LIMITS);
    // An hour of frames, then the same hour again: the clock was set back.
    let back = |second: u64| {
        let mut frame = frame(second);
        frame.wall = WallTime(START + (second % 3600).cast_signed());
        frame
    };
    (0..7200).for_each(|second| writer.push(&back(second)).unwrap());
    let _ = writer.finish().unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    let span = recording.span().unwrap();
    assert_eq!((span.first.0 - START, span.last.0 - START, span.frames), (0, 3599, 7200));
    assert!(recording.goes_back());
    assert_eq!(seconds(&recording, i64::MIN).len(), 7200);
    let from = seconds(&recording, START + 3000);
    assert_eq!(from.iter().filter(|second| **second >= 3000).count(), 1200, "of both hours");
}

#[test]
fn what_is_no_recording_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let told = |path: &Path| Recording::open(path).unwrap_err().to_string();
    assert!(told(dir.path()).ends_with(": no recording is in it"));
    let text = dir.path().join("notes.txt");
    fs::write(&text, "hello").unwrap();
    assert!(told(&text).ends_with(": it is no recording of frames"));
    assert!(told(&dir.path().join("nowhere")).contains("cannot read "));
}

/// A watch with a clock that starts at zero writes this number of frames from the time `wall` on.
fn watch(dir: &Path, wall: i64, frames: u64) {
    let (mut ring, _) = Ring::open(dir, "t2000", WallTime(START), LIMITS).unwrap();
    (0..frames).for_each(|n| {
        let frame = Frame::at(Nanos::from_secs(n), WallTime(wall + n.cast_signed()));
        ring.push(&frame).unwrap();
    });
    ring.finish().unwrap();
}

#[test]
fn watches_of_one_second_are_read_in_the_order_of_their_files_and_apart() {
    let dir = tempfile::tempdir().unwrap();
    // Twelve watches, because 10 sorts before 2 as text.
    (1..=12).for_each(|count| watch(dir.path(), START, count));
    let recording = Recording::open(dir.path()).unwrap();
    let counts: Vec<u64> = recording.runs().iter().map(|run| run.frames).collect();
    assert_eq!(counts, (1..=12).collect::<Vec<u64>>());
    assert_eq!(recording.runs()[1].file, dir.path().join("20251127T060102Z-2.frames"));
    let runs: Vec<usize> = recording.frames().map(|moment| moment.unwrap().run).collect();
    assert_eq!(runs.len(), 78);
    assert!(runs.is_sorted() && (0..12).all(|run| runs.iter().filter(|at| **at == run).count() == run + 1));
}

#[test]
fn a_watch_goes_on_in_its_next_file() {
    let dir = tempfile::tempdir().unwrap();
    let (mut writer, _) = ring(dir.path(), LIMITS);
    (0..90_000).step_by(60).for_each(|second| writer.push(&frame(second)).unwrap());
    writer.finish().unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    assert!(recording.span().unwrap().files > 1);
    assert_eq!(recording.runs().len(), 1);
}

#[test]
fn frames_from_a_moment_on_are_those_of_all_watches_after_a_clock_was_set_back() {
    let dir = tempfile::tempdir().unwrap();
    watch(dir.path(), START, 100);
    watch(dir.path(), START + 50, 100);
    let recording = Recording::open(dir.path()).unwrap();
    // From the 70th second: 69 to 99 of the first watch, and all of the second.
    let expected: Vec<i64> = (69..100).chain(50..150).collect();
    assert_eq!(seconds(&recording, START + 70), expected);
    let span = recording.span().unwrap();
    assert_eq!((span.first.0 - START, span.last.0 - START), (0, 149));
}
