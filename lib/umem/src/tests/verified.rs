//! Each kind of corruption is found and reported in libumem's words.

use super::space::PAUSE;
use super::town::{GUARDED, PLAIN, ROOT, Slab, Town};
use crate::Memory;
use crate::verify::{Verified, verify};
use millpond_rt_layout::{Slabs, Span, patterns};
use std::mem::offset_of;

fn verified(town: &Town) -> Verified {
    let found = verify(&Memory::of(&town.space), ROOT).unwrap();
    assert!(!town.space.stopped.get());
    found
}

fn said(town: &Town) -> Vec<String> {
    let found = verified(town);
    assert_eq!(found.problems, [""; 0]);
    let lines = found.caches.into_iter().flat_map(|cache| {
        let corrupt = cache.corrupt.into_iter().map(|corrupt| corrupt.to_string());
        corrupt.chain(cache.disagreements)
    });
    lines.collect()
}

/// A cache with all checks and three allocated buffers: of the whole size, of 40 bytes, and of 64 bytes.
fn guarded() -> (Town, Slab) {
    let mut town = Town::new();
    let cache = town.cache("session", 64, GUARDED);
    let slab = town.slab(cache);
    town.alloc(&slab, 0, None);
    town.alloc(&slab, 1, Some(40));
    town.alloc(&slab, 2, Some(64));
    (town, slab)
}

#[test]
fn what_is_sound_is_clean() {
    let (mut town, _) = guarded();
    let plain = town.cache("umem_alloc_8", 8, PLAIN);
    let slab = town.slab(plain);
    town.alloc(&slab, 5, None);
    assert_eq!(said(&town), [""; 0]);
    let found = verified(&town);
    assert_eq!(found.pause, Some(PAUSE));
    let checks: Vec<_> =
        found.caches.iter().map(|cache| (cache.name.as_str(), cache.checks, cache.buffers)).collect();
    assert_eq!(checks, [("session", true, 46), ("umem_alloc_8", false, 512)]);
}

#[test]
fn a_buffer_that_was_written_to_after_it_was_freed_is_found() {
    let (mut town, slab) = guarded();
    let free = slab.buffer(4);
    town.space.put(free + 19, &[0]);
    assert_eq!(said(&town), [format!("buffer {free:x} (free) seems corrupted, at {:x}", free + 16)]);
}

#[test]
fn writing_past_the_end_is_found_on_both_sides_of_free() {
    let (mut town, slab) = guarded();
    town.space.put(slab.tag(5) + 3, &[0]);
    town.space.put(slab.tag(0), &[0]);
    town.space.put(slab.buffer(1) + 40, &[0]);
    town.space.put(slab.buffer(2) + 64, &[0]);
    let at = |chunk| slab.buffer(chunk);
    assert_eq!(
        said(&town),
        [
            // A buffer of the whole size has the pattern instead of a size; the damaged value decodes to no size.
            format!("buffer {:x} (allocated) has a corrupt redzone size encoding", at(0)),
            format!("buffer {:x} (allocated) has a corrupt redzone signature", at(1)),
            format!("buffer {:x} (allocated) has a corrupt redzone signature", at(2)),
            format!("buffer {:x} (free) seems to have a corrupt redzone pattern", at(5)),
        ]
    );
}

#[test]
fn a_size_that_nothing_encodes_or_that_is_too_large_is_found() {
    for word in [2010, patterns::encode(65)] {
        let (mut town, slab) = guarded();
        town.space.half(slab.tag(1) + 4, word);
        let expected = format!("buffer {:x} (allocated) has a corrupt redzone size encoding", slab.buffer(1));
        assert_eq!(said(&town), [expected]);
    }
}

#[test]
fn a_tag_that_finds_another_bufctl_or_a_state_that_is_wrong_is_found() {
    let (mut town, slab) = guarded();
    town.space.word(slab.tag(0) + 8, slab.bufctl(1));
    town.space.word(slab.tag(6) + 16, 0);
    let at = |chunk| slab.buffer(chunk);
    assert_eq!(
        said(&town),
        [
            format!("buffer {:x} (allocated) has a corrupt buftag", at(0)),
            format!("buffer {:x} (free) has a corrupt buftag", at(6)),
        ]
    );
    let (mut town, slab) = guarded();
    town.space.word(slab.bufctl(1), 0x1234);
    let expected =
        format!("buffer {:x} (allocated) has a corrupt bufctl, at {:x}", slab.buffer(1), slab.bufctl(1));
    assert_eq!(said(&town), [expected]);
}

#[test]
fn figures_that_do_not_agree_are_told() {
    let (mut town, slab) = guarded();
    town.count(slab.lot, offset_of!(Slabs, count), 2);
    town.count(slab.lot, offset_of!(Slabs, buffers), -1);
    town.space.half(slab.span + offset_of!(Span, taken) as u64, 4);
    assert_eq!(
        said(&town),
        [
            format!("slab {:x} says that 4 buffers are taken, and 3 are", slab.base),
            "it says that it has 3 slabs, and has 1".into(),
            "it says that it has 45 buffers, and has 46".into(),
        ]
    );
}

/// The count of taken buffers reads as 1 at the first stop only.
fn taken_changes(town: &mut Town, slab: &Slab) {
    town.space.busy = Some((slab.span + offset_of!(Span, taken) as u64, 2));
}

#[test]
fn what_does_not_agree_at_the_first_look_only_is_no_fault_of_a_process_that_runs() {
    let (mut town, slab) = guarded();
    taken_changes(&mut town, &slab);
    assert_eq!(said(&town), [""; 0]);
    assert_eq!((town.space.stops.get(), verified(&town).pause), (2, Some(PAUSE)));
    // A core does not change, and is examined once.
    town.space.clock = None;
    town.space.stops.set(0);
    assert_eq!(said(&town), [format!("slab {:x} says that 1 buffers are taken, and 3 are", slab.base)]);
}

#[test]
fn what_does_not_agree_at_the_second_look_only_is_no_fault_either() {
    let mut town = Town::new();
    let cache = town.cache("session", 64, GUARDED);
    let slab = town.slab(cache);
    town.alloc(&slab, 0, None);
    town.space.half(slab.span + offset_of!(Span, taken) as u64, 2);
    taken_changes(&mut town, &slab);
    let free = slab.buffer(4);
    town.space.put(free + 19, &[0]);
    assert_eq!(said(&town), [format!("buffer {free:x} (free) seems corrupted, at {:x}", free + 16)]);
}

#[test]
fn magazines_with_what_is_no_buffer_are_told() {
    let mut town = Town::new();
    let cache = town.cache("node", 64, PLAIN);
    let slab = town.slab(cache);
    let one = town.alloc(&slab, 0, None);
    town.depot(cache, &[one, one, one + 8, 0x10, slab.buffer(3)]);
    assert_eq!(
        said(&town),
        [
            "a magazine has 10, which is no buffer that it took".to_owned(),
            format!("a magazine has {:x}, which is no buffer that it took", one + 8),
            format!("a magazine has {:x}, which is no buffer that it took", slab.buffer(3)),
            format!("magazines have the buffer {one:x} twice"),
        ]
    );
}
