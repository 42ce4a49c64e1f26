//! Overwrites random words of a valid image: nothing panics, hangs, or leaves the process stopped, and all results stay within bounds.

use super::town::{DATA, GUARDED, HEAP, META, PLAIN, ROOT, Town};
use crate::statistics::rows;
use crate::{Heap, Memory, history, leaks, verify};
use millpond_machine::facets::Image;
use millpond_rt_layout::{Root, logs};
use std::mem::size_of;

/// An image with something of every kind.
fn town() -> Town {
    let mut town = Town::new();
    let session = town.cache("session", 200, GUARDED);
    let node = town.cache("node", 64, PLAIN);
    let (sessions, nodes) = (town.slab(session), town.slab(node));
    for chunk in 0..6 {
        town.alloc(&sessions, chunk, Some(100));
        town.audit(sessions.bufctl(chunk), chunk + 1, true, &[0x40_0100, 0x40_0200]);
    }
    let held: Vec<u64> = (0..12).map(|chunk| town.alloc(&nodes, chunk, None)).collect();
    town.index(node, 2);
    town.thread(2, &held[..3], &held[3..5], 9);
    town.depot(node, &held[5..7]);
    town.large(9000);
    town.log(logs::TRANSACTION, 8);
    town.space.word(DATA, held[8]);
    town
}

/// Derives an address from four bytes: in the root, the bookkeeping or the heap.
fn address(bytes: &[u8]) -> u64 {
    let offset = u64::from(u16::from_le_bytes([bytes[1], bytes[2]])) * 8;
    match bytes[0] % 4 {
        0 => ROOT + offset % size_of::<Root>() as u64 / 8 * 8,
        // Caches and spans are after the first table.
        1 => META + offset % 0x4_0000,
        2 => META + 0x8000 + offset % 0x4000,
        _ => HEAP + offset % 0x4000,
    }
}

#[test]
fn fuzz_images() {
    let seeds: [&[u8]; 4] =
        [b"", &[1, 0, 16, 2, 9, 9], &[0, 11, 0, 1, 4, 4, 2, 3, 0, 3, 1, 1], &[3, 0, 0, 0, 7, 7]];
    millpond_fuzz::check("umem-image", &seeds, |bytes| {
        let mut town = town();
        for change in bytes.chunks_exact(6).take(64) {
            let at = address(change) & !7;
            let value = match change[3] % 4 {
                0 => u64::from_le_bytes([change[4]; 8]),
                1 => u64::from(change[4]),
                2 => address(&change[3..]),
                _ => town.space.get(at) ^ 1 << (change[4] % 64),
            };
            town.space.word(at, value);
        }
        let memory = Memory::of(&town.space);
        let Ok(mut heaps) = Heap::find(&memory) else { return };
        let mappings = town.space.mappings().unwrap();
        for heap in &mut heaps {
            heap.survey();
            let named = rows(heap);
            assert!(named.windows(2).all(|pair| pair[0].at != pair[1].at));
            (0..4).for_each(|log| drop(history::log(heap, log, 100)));
            for span in &heap.spans {
                let _ = (heap.whatis(span.base + 8, &mappings), heap.whatis(span.bufctls, &mappings));
                let _ = history::of_bufctl(heap, span.bufctls);
            }
            let own = heap.own_places();
            assert!(own.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
        let lost = leaks::find(&memory, ROOT).unwrap();
        let buffers: usize = lost.leaks.iter().map(|leak| leak.buffers.len()).sum();
        assert!(buffers as u64 <= lost.effort.buffers);
        let _ = verify::verify(&memory, ROOT).unwrap();
        assert!(!town.space.stopped.get());
    });
}
