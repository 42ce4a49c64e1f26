//! Memory that the allocator keeps. One test, alone in its process: pages shared with a child would fault, and other tests would use the memory.

#![allow(clippy::unwrap_used)]

mod common;

use common::faults;
use millpond_rt::realtime::{Setup, Want};

/// Allocates `bytes` in pieces, writes to them, and frees them. Returns the page faults.
fn use_heap(bytes: usize) -> i64 {
    let before = faults();
    let pieces: Vec<Vec<u8>> =
        (0..bytes / 50_000).map(|at| vec![u8::try_from(at % 7).unwrap() + 1; 50_000]).collect();
    std::hint::black_box(&pieces);
    drop(pieces);
    faults() - before
}

fn is_kept(bytes: usize) {
    let usual = use_heap(bytes);
    assert!(usual > 16, "{usual} faults of {bytes} bytes without it");
    let realtime = Setup::new().require(Want::Heap(bytes + (1 << 20))).begin().unwrap();
    for _ in 0..3 {
        let kept = use_heap(bytes);
        assert_eq!(kept, 0, "of {bytes} bytes");
    }
    // A large block has no mapping of its own.
    let before = faults();
    drop(std::hint::black_box(vec![1u8; 1 << 20]));
    assert_eq!(faults() - before, 0, "of {bytes} bytes");
    let said = realtime.outcomes()[0].to_string();
    assert_eq!(said, format!("heap: {} bytes kept", bytes + (1 << 20)));
    realtime.undo().unwrap();
    // Now freed memory is returned to the kernel. Of two more uses one must fault: the first if the undo returned the memory, else the second.
    let again = use_heap(bytes).max(use_heap(bytes));
    assert!(again > 16, "{again} faults of {bytes} bytes");
}

#[test]
fn a_heap_is_kept_and_meets_no_fault() {
    // Beyond 64 MB glibc's arena of a thread has several heaps, of which it frees the last one whatever its settings.
    for megabytes in [8, 70, 100] {
        std::thread::spawn(move || is_kept(megabytes << 20)).join().unwrap();
    }
}
