//! Endless lists, wild pointers and invalid figures are reported, and affect only the data that depends on them.

use super::town::{GUARDED, META, PLAIN, ROOT, Town};
use crate::{Heap, Memory};
use millpond_rt_layout::{Cache, Depot, Pair, Pile, Region, Root, Share, Span, Thread};
use std::mem::offset_of;

fn problems(town: &Town) -> (usize, usize, Vec<String>) {
    let memory = Memory::of(&town.space);
    let mut heaps = Heap::find(&memory).unwrap();
    heaps[0].survey();
    let heap = &heaps[0];
    (heap.caches.len(), heap.spans.len(), heap.problems.clone())
}

#[test]
fn a_list_of_caches_ends_where_it_comes_again_or_leads_nowhere() {
    let mut town = Town::new();
    let one = town.cache("one", 64, PLAIN);
    let two = town.cache("two", 64, PLAIN);
    let next = two.at + offset_of!(Cache, next) as u64;
    town.space.word(next, one.at);
    assert_eq!(
        problems(&town),
        (2, 0, vec![format!("the list of caches has no end: {:x} comes again", one.at)])
    );
    town.space.word(next, 0xdead_beef_dead_beef);
    let expected = "the list of caches leads to deadbeefdeadbeef, which cannot be read";
    assert_eq!(problems(&town), (2, 0, vec![expected.into()]));
    town.space.word(next, u64::MAX - 10);
    assert_eq!(problems(&town).0, 2);
}

#[test]
fn a_cache_without_sense_is_left_out_and_the_next_is_read() {
    for (place, value, why) in [
        (offset_of!(Cache, size), 0, "the size of its buffers is invalid"),
        (offset_of!(Cache, chunk), 8, "the size of its buffers is invalid"),
        (offset_of!(Cache, chunk), 1 << 60, "its buffers do not fit into its slabs"),
        (offset_of!(Cache, tag), 3, "the place of its tags is invalid"),
        (offset_of!(Cache, verify), 1 << 40, "the place of its tags is invalid"),
    ] {
        let mut town = Town::new();
        let one = town.cache("one", 64, PLAIN);
        town.cache("two", 64, PLAIN);
        town.space.word(one.at + place as u64, value);
        assert_eq!(problems(&town), (1, 0, vec![format!("cache one at {:x}: {why}", one.at)]));
    }
}

#[test]
fn threads_and_magazines_without_an_end_are_told() {
    let mut town = Town::new();
    let cache = town.cache("one", 64, PLAIN);
    town.index(cache, 1);
    let pair = town.thread(1, &[], &[], 0);
    let block = pair - (offset_of!(Thread, pairs) + size_of::<Pair>()) as u64;
    town.space.word(block, block);
    let magazine = town.depot(cache, &[]);
    town.space.word(magazine, magazine);
    town.space.word(pair + offset_of!(Pair, top) as u64, 1);
    let (_, _, said) = problems(&town);
    assert_eq!(
        said,
        [
            format!("cache one: the magazine of the pair {pair:x} is invalid"),
            format!("the list of threads has no end: {block:x} comes again"),
            format!("cache one: its magazines have no end: {magazine:x} comes again"),
        ]
    );
    let top = cache.at
        + (offset_of!(Cache, depot)
            + offset_of!(Depot, shares)
            + offset_of!(Share, full)
            + offset_of!(Pile, top)) as u64;
    town.space.word(top, 0x10);
    assert!(problems(&town).2.contains(&"cache one: magazine 10 cannot be read".into()));
    town.space.word(ROOT + offset_of!(Root, threads) as u64, 0x18);
    assert!(problems(&town).2.contains(&"the list of threads leads to 18, which cannot be read".into()));
}

#[test]
fn spans_without_sense_are_left_out() {
    let nowhere = "it cannot be read".to_owned();
    let build = || {
        let mut town = Town::new();
        let cache = town.cache("one", 64, PLAIN);
        let slab = town.slab(cache);
        town.large(0x1000);
        (town, slab)
    };
    let (mut town, slab) = build();
    town.enter(slab.base, 0x33);
    assert_eq!(problems(&town), (1, 1, vec![format!("span 33 of {:x}: {nowhere}", slab.base)]));
    for (place, value, why) in [
        (offset_of!(Span, base), slab.base + 0x1000_0000, None),
        (
            offset_of!(Span, base),
            slab.base + 8,
            Some(format!("1000 bytes at {:x} are no pages", slab.base + 8)),
        ),
        (offset_of!(Span, bytes), 0, Some(format!("0 bytes at {:x} are no pages", slab.base))),
        (
            offset_of!(Span, bytes),
            1 << 60,
            Some(format!("1000000000000000 bytes at {:x} are no pages", slab.base)),
        ),
        (offset_of!(Span, kind), 77, Some("there is no kind 77 of span".into())),
        (offset_of!(Span, cache), ROOT, Some(format!("its cache {ROOT:x} is no cache"))),
    ] {
        let (mut town, slab) = build();
        town.space.word(slab.span + place as u64, value);
        let said = match why {
            Some(why) => format!("span {:x} of {:x}: {why}", slab.span, slab.base),
            None => {
                format!("the page map has span {:x} at {:x}; it begins at {value:x}", slab.span, slab.base)
            }
        };
        assert_eq!(problems(&town), (1, 1, vec![said]));
    }
    let (mut town, slab) = build();
    town.space.word(slab.span + offset_of!(Span, bytes) as u64, 0x2000);
    let (_, spans, said) = problems(&town);
    assert_eq!((spans, said.len()), (1, 0), "{said:?}");
}

#[test]
fn a_list_of_regions_ends_where_it_comes_again_or_leads_nowhere() {
    let mut town = Town::new();
    let first = town.space.get(ROOT + offset_of!(Root, regions) as u64);
    town.space.word(first + offset_of!(Region, next) as u64, first);
    assert_eq!(problems(&town).2, [format!("the list of regions has no end: {first:x} comes again")]);
    town.space.word(first + offset_of!(Region, next) as u64, 0x99);
    assert_eq!(problems(&town).2, ["the list of regions leads to 99, which cannot be read"]);
}

#[test]
fn a_map_that_is_its_own_table_is_told() {
    let mut town = Town::new();
    town.cache("one", 64, GUARDED);
    let map = town.space.get(ROOT + offset_of!(Root, map) as u64);
    assert_eq!(map, META);
    town.space.word(map + 8 * 5, map);
    assert_eq!(problems(&town).2, [format!("the page map has the table {map:x} twice")]);
    town.space.word(ROOT + offset_of!(Root, map) as u64, 0x77);
    assert_eq!(problems(&town).2, ["the page map leads to 77, which cannot be read"]);
}
