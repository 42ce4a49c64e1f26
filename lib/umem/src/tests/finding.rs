//! Finding the root without symbols, and reading figures of caches.

use super::town::{DATA, GUARDED, HEAP, PLAIN, ROOT, Town};
use crate::history;
use crate::statistics::rows;
use crate::whatis::Thing;
use crate::{FindError, Heap, Memory, State, Use};
use millpond_machine::facets::Image;
use millpond_rt_layout::{MESSAGES, Root, Slabs, kind, logs};
use std::mem::offset_of;

fn found(town: &Town) -> Result<usize, FindError> {
    let memory = Memory::of(&town.space);
    Heap::find(&memory).map(|heaps| heaps.len())
}

#[test]
fn the_root_is_where_its_own_address_stands() {
    let mut town = Town::new();
    assert_eq!(found(&town), Ok(1));
    // A copy of its bytes on a stack, or elsewhere in the program's data, is not a root.
    let head: Vec<u8> = (0..6).flat_map(|at| town.space.get(ROOT + at * 8).to_le_bytes()).collect();
    town.space.put(DATA, &head);
    town.space.put(super::town::STACK, &head);
    assert_eq!(found(&town), Ok(1));
    // A second copy of the library has a root in .bss, after the file's own part of its data.
    let other = 0x60_8000;
    town.space.map(other, 0x4000, "rw", "");
    town.space.put(other, &head);
    town.space.word(other + offset_of!(Root, this) as u64, other);
    assert_eq!(found(&town), Ok(2));
    // Shared memory is ignored, because other processes can write it.
    town.space.map(0x80_0000, 0x4000, "rws", "/dev/shm/x");
    town.space.put(0x80_0000, &head);
    town.space.word(0x80_0000 + offset_of!(Root, this) as u64, 0x80_0000);
    assert_eq!(found(&town), Ok(2));
}

#[test]
fn what_is_not_understood_is_told() {
    let mut town = Town::new();
    town.space.half(ROOT + offset_of!(Root, version) as u64, 9);
    let expected = FindError::OtherLayout { theirs: 9, ours: Root::VERSION };
    assert_eq!(found(&town), Err(expected.clone()));
    assert_eq!(
        expected.to_string(),
        format!(
            "its object caches are laid out as version 9 has it, and this program knows version {}",
            Root::VERSION
        )
    );
    let mut town = Town::new();
    town.space.half(ROOT + offset_of!(Root, size) as u64, 8);
    assert!(matches!(found(&town), Err(FindError::OtherLayout { .. })));
    let mut town = Town::new();
    town.space.word(ROOT, 0);
    assert_eq!(found(&town), Err(FindError::NoCaches));
}

#[test]
fn figures_are_of_slabs_without_what_is_in_magazines() {
    let mut town = Town::new();
    let small = town.cache("umem_alloc_64", 64, PLAIN);
    let slab = town.slab(small);
    let held: Vec<u64> = (0..10).map(|chunk| town.alloc(&slab, chunk, None)).collect();
    town.index(small, 3);
    town.thread(3, &held[..2], &held[2..3], 40);
    town.thread(3, &[], &[], 2);
    town.depot(small, &held[3..5]);
    town.depot(small, &held[5..6]);
    town.cache("umem_alloc_8", 8, PLAIN);
    let memory = Memory::of(&town.space);
    let heap = &Heap::find(&memory).unwrap()[0];
    let rows = rows(heap);
    assert_eq!(
        rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(),
        ["umem_alloc_8", "umem_alloc_64"]
    );
    let row = &rows[1];
    assert_eq!((row.in_use, row.in_magazines, row.total, row.memory), (4, 6, 64, 4096));
    assert_eq!((row.allocs, row.failures, row.size, heap.thread_blocks()), (42, 0, 64, 2));
    assert_eq!(heap.problems, [""; 0]);
    // Reading figures does not stop the process.
    assert_eq!(town.space.stops.get(), 0);
}

#[test]
fn spans_are_found_by_the_map() {
    let mut town = Town::new();
    let cache = town.cache("session", 200, PLAIN);
    let slab = town.slab(cache);
    town.span(0x3000, kind::FREE);
    let large = town.large(0x5123);
    let memory = Memory::of(&town.space);
    let mut heaps = Heap::find(&memory).unwrap();
    let heap = &mut heaps[0];
    heap.survey();
    let used: Vec<_> = heap.spans.iter().map(|span| (span.base, span.bytes, span.used)).collect();
    assert_eq!(
        used,
        [
            (HEAP, 0x1000, Use::Slab(0)),
            (HEAP + 0x1000, 0x3000, Use::Free),
            (HEAP + 0x4000, 0x6000, Use::Large(0x5123))
        ]
    );
    assert_eq!(heap.span(large + 0x5fff).unwrap().base, large);
    assert_eq!(heap.span(large + 0x6000), None);
    assert_eq!(heap.problems, [""; 0]);
    assert_eq!(heap.span(slab.base).and_then(|span| heap.cache_of(span)).unwrap().name, "session");
}

#[test]
fn an_address_is_what_lies_there() {
    let mut town = Town::new();
    let cache = town.cache("session", 200, GUARDED);
    let slab = town.slab(cache);
    let first = town.alloc(&slab, 0, None);
    let large = town.large(100_000);
    town.log(logs::TRANSACTION, 4);
    town.space.functions.insert(0x40_0100, ("town", "work"));
    let memory = Memory::of(&town.space);
    let mut heaps = Heap::find(&memory).unwrap();
    let heap = &mut heaps[0];
    heap.survey();
    let mappings = town.space.mappings().unwrap();
    let is = |address| heap.whatis(address, &mappings);
    let bufctl = Some(slab.bufctl(0));
    assert_eq!(is(first + 17), Thing::Buffer { buffer: first, cache: 0, state: State::Allocated, bufctl });
    let next =
        Thing::Buffer { buffer: slab.buffer(1), cache: 0, state: State::Free, bufctl: Some(slab.bufctl(1)) };
    assert_eq!(is(slab.buffer(1)), next);
    assert_eq!(is(slab.base + 4095), Thing::SlabEdge(slab.base, 0));
    assert_eq!(is(large + 9), Thing::Large(large, 100_000));
    let bufctl = Thing::Bufctl { bufctl: slab.bufctl(2), buffer: slab.buffer(2), cache: 0 };
    assert_eq!(is(slab.bufctl(2) + 8), bufctl);
    assert_eq!(is(cache.at), Thing::Cache(0));
    assert_eq!(is(slab.span), Thing::Span(slab.base));
    assert_eq!(
        (is(ROOT + 9), is(town.space.get(ROOT + offset_of!(Root, logs) as u64))),
        (Thing::Root, Thing::Log(0))
    );
    let code = is(0x40_0123);
    assert!(
        matches!(&code, Thing::Mapped(m, Some(s)) if m.module() == "town" && s.to_string() == "town`work+0x23")
    );
    assert_eq!(is(0x10), Thing::Nothing);
}

#[test]
fn a_log_is_read_newest_first_and_a_buffer_has_its_history() {
    let mut town = Town::new();
    let cache = town.cache("session", 200, GUARDED);
    let slab = town.slab(cache);
    town.alloc(&slab, 0, None);
    let log = town.log(logs::TRANSACTION, 4);
    let stride = slab.lot.bufctl;
    // Seven were begun, so the first three are overwritten; the last is incomplete.
    let place = ROOT + (offset_of!(Root, logs) + offset_of!(millpond_rt_layout::Log, next)) as u64;
    town.space.word(place, 7);
    let bufctl = |at: usize| at as u64;
    use millpond_rt_layout::Bufctl;
    for (index, time, before) in [(3_u64, 40_u64, 0_u64), (4, 50, 3), (5, 60, 4), (6, 0, 0)] {
        let at = log + index % 4 * stride;
        town.space.word(at + bufctl(offset_of!(Bufctl, buffer)), slab.buffer(0));
        town.space.word(at + bufctl(offset_of!(Bufctl, cache)), cache.at);
        let before = if before == 0 { 0 } else { log + before % 4 * stride };
        town.space.word(at + bufctl(offset_of!(Bufctl, before)), before);
        town.audit(at, time, time != 50, &[0x40_0100 + time, 0x40_0200]);
    }
    town.audit(slab.bufctl(0), 60, true, &[0x40_013c, 0x40_0200, 0x40_0300]);
    town.space.word(slab.bufctl(0) + bufctl(offset_of!(Bufctl, log)), log + stride);
    let memory = Memory::of(&town.space);
    let heap = &Heap::find(&memory).unwrap()[0];
    let records = history::log(heap, logs::TRANSACTION, 10).unwrap();
    assert_eq!(
        records.iter().map(|r| (r.time, r.allocated)).collect::<Vec<_>>(),
        [(60, true), (50, false), (40, true)]
    );
    assert_eq!(records[0].stack, [0x40_013c, 0x40_0200]);
    assert_eq!((records[0].cache, records[0].thread), (Some(0), 7));
    assert_eq!(history::log(heap, logs::TRANSACTION, 1).unwrap().len(), 1);
    assert_eq!(history::log(heap, logs::FAIL, 1), None);
    assert_eq!(history::log(heap, logs::CONTENTS, 1), None);
    let times: Vec<u64> = history::of_bufctl(heap, slab.bufctl(0)).iter().map(|r| r.time).collect();
    assert_eq!(times, [60, 50, 40]);
}

#[test]
fn messages_come_out_in_the_order_in_which_they_were_said() {
    let mut town = Town::new();
    let said = |town: &Town| {
        let memory = Memory::of(&town.space);
        String::from_utf8(Heap::find(&memory).unwrap()[0].root.messages.clone()).unwrap()
    };
    assert_eq!(said(&town), "");
    let (ring, end) = (ROOT + offset_of!(Root, messages) as u64, ROOT + offset_of!(Root, message_end) as u64);
    town.space.put(ring, b"umem: one\n");
    town.space.word(end, 10);
    assert_eq!(said(&town), "umem: one\n");
    // Once around the ring, and three more bytes.
    town.space.put(ring, &[b'x'; MESSAGES]);
    town.space.put(ring, b"end");
    town.space.word(end, MESSAGES as u64 + 3);
    let text = said(&town);
    assert!(text.len() == MESSAGES && text.starts_with("xxx") && text.ends_with("xend"), "{}", text.len());
}

#[test]
fn figures_that_grew_past_sense_do_not_wrap() {
    let mut town = Town::new();
    let cache = town.cache("odd", 64, PLAIN);
    town.count(cache, offset_of!(Slabs, count), i64::MAX);
    let memory = Memory::of(&town.space);
    let row = &rows(&Heap::find(&memory).unwrap()[0])[0];
    assert_eq!((row.memory, row.in_use), (u64::MAX, 0));
}
