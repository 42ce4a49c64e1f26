//! Leaks are found, without false positives.

use super::space::PAUSE;
use super::town::{DATA, GUARDED, PLAIN, STACK, STACK_POINTER, Slab, Town};
use crate::leaks::{Effort, Leak, Lost, find};
use crate::{FindError, Memory};
use millpond_machine::facets::StoppedThread;
use millpond_model::Nanos;
use millpond_rt_layout::{Cache, Depot, Share, Thread};
use std::mem::offset_of;

fn lost(town: &Town) -> Lost {
    let lost = find(&Memory::of(&town.space), super::town::ROOT).unwrap();
    assert!(!town.space.stopped.get(), "it stands still for ever");
    lost
}

fn buffers(town: &Town) -> Vec<u64> {
    let mut all: Vec<u64> = lost(town).leaks.into_iter().flat_map(|leak| leak.buffers).collect();
    all.sort_unstable();
    all
}

/// A plain cache with one slab.
fn plain() -> (Town, Slab) {
    let mut town = Town::new();
    let cache = town.cache("node", 64, PLAIN);
    let slab = town.slab(cache);
    (town, slab)
}

#[test]
fn a_buffer_is_reachable_from_data_stack_registers_and_other_buffers() {
    let (mut town, slab) = plain();
    let at: Vec<u64> = (0..8).map(|chunk| town.alloc(&slab, chunk, None)).collect();
    assert_eq!(buffers(&town), at);
    town.space.word(DATA, at[0]);
    // An address inside a buffer counts, up to its last byte.
    town.space.word(STACK_POINTER + 16, at[1] + 63);
    town.space.threads[0].words.push(at[2] + 8);
    // From buffer to buffer, with a cycle.
    town.space.word(at[2] + 56, at[3]);
    town.space.word(at[3], at[4]);
    town.space.word(at[4] + 8, at[3]);
    // Two that point to each other only.
    town.space.word(at[5], at[6]);
    town.space.word(at[6], at[5]);
    assert_eq!(buffers(&town), at[5..]);
    // Words in read-only memory, or not aligned to eight bytes, do not count.
    town.space.put(DATA + 0x104, &at[5].to_le_bytes());
    town.space.put(0x40_0100, &at[6].to_le_bytes());
    assert_eq!(buffers(&town), at[5..]);
    let found = lost(&town);
    assert_eq!((found.effort.buffers, found.effort.threads, found.effort.pause), (8, 1, Some(PAUSE)));
    assert_eq!(found.problems, [""; 0]);
}

#[test]
fn free_buffers_and_what_they_hold_count_for_nothing() {
    let (mut town, slab) = plain();
    let one = town.alloc(&slab, 0, None);
    // A free buffer whose contents remain.
    town.space.word(slab.buffer(9), one);
    town.space.word(DATA, slab.buffer(9));
    assert_eq!(buffers(&town), [one]);
    // The same for free pages.
    let (_, pages) = town.span(0x1000, millpond_rt_layout::kind::FREE);
    town.space.word(pages, one);
    assert_eq!(buffers(&town), [one]);
}

#[test]
fn what_the_library_notes_makes_nothing_reachable() {
    let mut town = Town::new();
    let cache = town.cache("session", 64, GUARDED);
    let slab = town.slab(cache);
    let one = town.alloc(&slab, 0, None);
    town.audit(slab.bufctl(0), 1, true, &[]);
    let log = town.log(1, 4);
    town.space.word(log + 8, one);
    assert_eq!(town.space.get(slab.bufctl(0)), one);
    assert_eq!(buffers(&town), [one]);
}

#[test]
fn buffers_in_magazines_are_free() {
    let (mut town, slab) = plain();
    let at: Vec<u64> = (0..8).map(|chunk| town.alloc(&slab, chunk, None)).collect();
    town.index(slab.lot, 0);
    town.thread(0, &at[..2], &at[2..3], 0);
    town.depot(slab.lot, &at[3..5]);
    town.depot(slab.lot, &at[5..6]);
    assert_eq!(buffers(&town), at[6..]);
    // Contents of a buffer in a magazine count only if its objects stay constructed.
    town.space.word(at[0], at[6]);
    assert_eq!(buffers(&town), at[6..]);
    town.space.word(slab.lot.at + offset_of!(Cache, constructor) as u64, 0x40_0100);
    assert_eq!(buffers(&town), at[7..]);
}

#[test]
fn leaks_of_one_way_are_one_and_the_largest_is_first() {
    let mut town = Town::new();
    let session = town.cache("session", 200, GUARDED);
    let node = town.cache("umem_alloc_48", 48, GUARDED);
    let (sessions, nodes) = (town.slab(session), town.slab(node));
    let ways: [&[u64]; 2] = [&[0x40_0110, 0x40_0200], &[0x40_0120, 0x40_0200]];
    for chunk in 0..3 {
        town.alloc(&sessions, chunk, None);
        town.audit(sessions.bufctl(chunk), 10 + chunk, true, ways[usize::from(chunk == 1)]);
    }
    town.alloc(&nodes, 2, Some(40));
    town.audit(nodes.bufctl(2), 5, true, ways[0]);
    let large = town.large(5000);
    let leak = |cache: Option<&str>, stack: &[u64], buffers: &[u64], bytes, bufctl| Leak {
        cache: cache.map(Into::into),
        stack: stack.to_vec(),
        buffers: buffers.to_vec(),
        bytes,
        bufctl,
    };
    let found = lost(&town);
    assert_eq!(
        found.leaks,
        [
            leak(None, &[], &[large], 5000, None),
            leak(
                Some("session"),
                ways[0],
                &[sessions.buffer(0), sessions.buffer(2)],
                400,
                Some(sessions.bufctl(0))
            ),
            leak(Some("session"), ways[1], &[sessions.buffer(1)], 200, Some(sessions.bufctl(1))),
            leak(Some("umem_alloc_48"), ways[0], &[nodes.buffer(2)], 48, Some(nodes.bufctl(2))),
        ]
    );
    town.space.word(DATA, large + 4999);
    assert_eq!(lost(&town).leaks.len(), 3);
}

#[test]
fn what_was_allocated_after_the_pause_was_not_lost() {
    let mut town = Town::new();
    let cache = town.cache("session", 64, GUARDED);
    let slab = town.slab(cache);
    for chunk in 0..3 {
        town.alloc(&slab, chunk, None);
    }
    let now = town.space.clock.unwrap().0;
    town.audit(slab.bufctl(0), now, true, &[1]);
    town.audit(slab.bufctl(1), now + 1, true, &[1]);
    town.audit(slab.bufctl(2), now - 1, false, &[1]);
    let found = lost(&town);
    assert_eq!(found.leaks.iter().flat_map(|leak| &leak.buffers).collect::<Vec<_>>(), [&slab.buffer(0)]);
    assert_eq!(found.effort.taken_since, 2);
    // A core does not change afterwards, and has no pause.
    town.space.clock = None;
    town.audit(slab.bufctl(1), now + 1, true, &[1]);
    assert_eq!((buffers(&town).len(), lost(&town).effort.pause), (2, None));
}

#[test]
fn below_the_stack_pointer_nothing_is_in_use() {
    let (mut town, slab) = plain();
    let at: Vec<u64> = (0..3).map(|chunk| town.alloc(&slab, chunk, None)).collect();
    town.space.word(STACK_POINTER - 128, at[0]);
    town.space.word(STACK_POINTER - 136, at[1]);
    assert_eq!(buffers(&town), at[1..]);
    // A mapping with a thread's own data above its stack pointer, and a guard below.
    let stack = 0x7200_0000_0000;
    town.space.map(stack, 0x4000, "rw", "");
    town.space.map(stack - 0x1000, 0x1000, "", "");
    let thread = StoppedThread {
        tid: 8,
        stack_pointer: stack + 0x2000,
        thread_pointer: Some(stack + 0x3800),
        words: vec![],
    };
    town.space.threads.push(thread);
    town.space.word(stack + 0x100, at[1]);
    town.space.word(stack + 0x2100, at[2]);
    assert_eq!(buffers(&town), [at[1]]);
    // Another thread in the same mapping, no guard, or the thread's data elsewhere: it may not be a stack.
    for change in 0..3 {
        let before = town.space.threads.clone();
        match change {
            0 => {
                town.space.threads.push(StoppedThread { stack_pointer: stack + 0x3000, ..before[1].clone() })
            }
            1 => town.space.threads[1].thread_pointer = Some(stack + 0x1000),
            _ => town.space.map(stack - 0x1000, 0x1000, "rw", ""),
        }
        assert_eq!(buffers(&town), [0; 0], "{change}");
        town.space.threads = before;
    }
}

#[test]
fn pages_that_cannot_be_read_are_passed_over() {
    let (mut town, slab) = plain();
    let at: Vec<u64> = (0..2).map(|chunk| town.alloc(&slab, chunk, None)).collect();
    town.space.map(0x7300_0000_0000, 0x1000, "w", "");
    town.space.word(STACK + 0xfff8, at[1]);
    assert_eq!(buffers(&town), [at[0]]);
}

#[test]
fn the_pause_is_told_for_each_gib_where_that_says_something() {
    let (town, _) = plain();
    let effort = lost(&town).effort;
    assert!(effort.root_bytes + effort.heap_bytes >= 0x1000 && effort.heap_bytes == 0x1000, "{effort:?}");
    assert_eq!(effort.pause_per_gib(), None);
    let of = |heap_bytes| Effort { pause: Some(Nanos(3_000_000)), heap_bytes, ..Effort::default() };
    assert_eq!(of(32 << 20).pause_per_gib(), Some(Nanos(96_000_000)));
    assert_eq!(of((16 << 20) - 1).pause_per_gib(), None);
    assert_eq!(of(0).pause_per_gib(), None);
}

#[test]
fn a_process_in_the_middle_of_an_exchange_is_stopped_again() {
    let (mut town, slab) = plain();
    town.index(slab.lot, 0);
    let one = town.alloc(&slab, 0, None);
    let pair = town.thread(0, &[], &[], 0);
    let busy = pair - (offset_of!(Thread, pairs) - offset_of!(Thread, busy)) as u64;
    town.space.busy = Some((busy, 4));
    assert_eq!((buffers(&town), town.space.stops.get()), (vec![one], 4));
    // A locked depot has the same effect.
    let lock =
        slab.lot.at + (offset_of!(Cache, depot) + offset_of!(Depot, shares) + offset_of!(Share, lock)) as u64;
    town.space.busy = Some((lock, 7));
    assert_eq!((buffers(&town), town.space.stops.get()), (vec![one], 7));
    // A thread that stays there is reported.
    town.space.busy = Some((busy, u32::MAX));
    let said =
        ["a thread stands in the middle of the caches: buffers that it moves may look lost or corrupt"];
    assert_eq!((lost(&town).problems, town.space.stops.get()), (said.map(String::from).to_vec(), 57));
}

#[test]
fn a_root_that_is_gone_leaves_nobody_stopped() {
    let (mut town, _) = plain();
    town.space.unmap(0x60_0000);
    assert_eq!(find(&Memory::of(&town.space), super::town::ROOT), Err(FindError::Unreadable));
    assert!(!town.space.stopped.get());
}
