//! Stacks with arbitrary contents: the walk ends, and accesses no unmapped memory.

use super::super::{chain, walk};
use super::library::Library;
use super::{both, by_libgcc};
use std::ffi::c_void;
use std::ptr;

/// Reproducible pseudo-random numbers (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0).unwrap()
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() % limit
    }
}

const PAGE: usize = 4096;
const PAGES: usize = 4;

/// Two ranges of pages with inaccessible pages around and between them.
struct Island(usize);

impl Island {
    fn new() -> Island {
        let size = (2 * PAGES + 3) * PAGE;
        // SAFETY: a new mapping, of which parts are made accessible.
        unsafe {
            let (private, none) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_NONE);
            let begin = libc::mmap(ptr::null_mut(), size, none, private, -1, 0);
            assert_ne!(begin, libc::MAP_FAILED);
            let begin = begin.expose_provenance();
            for part in [begin + PAGE, begin + (PAGES + 2) * PAGE] {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let part = ptr::with_exposed_provenance_mut(part);
                assert_eq!(libc::mprotect(part, PAGES * PAGE, access), 0);
            }
            Island(begin)
        }
    }

    /// The words of its lower range.
    fn words(&mut self) -> &mut [usize] {
        let first = ptr::with_exposed_provenance_mut(self.0 + PAGE);
        // SAFETY: they are mapped as long as the island exists, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(first, PAGES * PAGE / 8) }
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        // SAFETY: the mapping is this test's.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.0), (2 * PAGES + 3) * PAGE) };
    }
}

#[test]
fn a_stack_of_anything_is_survived() {
    let mut random = Random(2026);
    let mut island = Island::new();
    let (known, _) = both();
    let begin = island.0;
    let mut longest = 0;
    for round in 0..20_000 {
        let words = island.words();
        if round % 16 == 0 {
            for word in words.iter_mut() {
                *word = match random.below(32) {
                    0..=27 => known[random.below(known.len())],
                    28 => (begin + random.below((2 * PAGES + 3) * PAGE)) & !7,
                    29 => random.next(),
                    30 => begin + random.below((2 * PAGES + 3) * PAGE),
                    _ => random.below(100),
                };
            }
        }
        let stack = begin + PAGE + 8 * random.below(words.len());
        let pointer = begin + 8 * random.below((2 * PAGES + 3) * PAGE / 8);
        let mut frames = [0; 64];
        // SAFETY: `frames` has that much room; the page of the stack pointer is readable, as the walk requires.
        let count = unsafe { walk::walk(frames.as_mut_ptr(), frames.len(), stack, pointer) };
        longest = longest.max(count);
        let count = chain::follow(&mut frames, known[0], pointer, stack);
        assert!(count >= 1);
    }
    assert!(longest >= 8, "a test of nothing: {longest} frames at the most");
}

#[test]
fn a_frame_that_does_not_lie_above_the_one_before_ends_the_walk() {
    let name = "a_frame_that_does_not_lie_above_the_one_before_ends_the_walk";
    let options = ["-O1", "-fno-omit-frame-pointer"];
    let Some(library) = Library::built(name, "gcc", &options) else { return };
    // A return address in a function whose frame address is 16 above the frame pointer.
    extern "C" fn look(found: *mut c_void) {
        // SAFETY: the argument is the list below.
        unsafe { *found.cast::<Vec<usize>>() = both().0 };
    }
    let mut found: Vec<usize> = Vec::new();
    library.call("plain", 1, look, (&raw mut found).cast());
    let [plain, last] = [found[1], found[found.len() - 1]];
    let mut island = Island::new();
    let begin = island.0 + PAGE;
    let words = island.words();
    (words[100], words[203]) = (plain, last);
    for (pointer, count) in [(202, 2), (203, 1), (102, 1), (101, 1), (100, 1), (99, 1), (10, 1)] {
        let mut frames = [0; 8];
        let stack = begin + 8 * 100;
        // The frame address is that of the word after the return address. The walk ends if it is not above the stack pointer.
        // SAFETY: as above.
        let found = unsafe { walk::walk(frames.as_mut_ptr(), 8, stack, begin + 8 * pointer) };
        assert_eq!(frames[0], plain);
        assert_eq!(found, count, "{pointer}: {frames:x?}");
    }
}

#[test]
fn a_chain_of_frame_pointers_is_followed_upwards() {
    let mut island = Island::new();
    let begin = island.0 + PAGE;
    let words = island.words();
    // Three frames, the second and third with a pointer authentication code above the address; then the end.
    (words[10], words[11]) = (begin + 8 * 20, 0x0012_0000_0000_2000);
    (words[20], words[21]) = (begin + 8 * 600, 0xffff_0000_0000_3000);
    (words[600], words[601]) = (0, 0x4000);
    let mut frames = [0; 8];
    let first = begin + 8 * 10;
    assert_eq!(chain::follow(&mut frames, 0x1000, first, begin), 4);
    assert_eq!(frames[..5], [0x1000, 0x2000, 0x3000, 0x4000, 0]);
    // A next frame that overlaps this one, is below it, unmapped or misaligned; and a zero return address.
    for (next, returned, count) in [
        (first + 8, 0x2000, 2),
        (first, 0x2000, 2),
        (begin, 0x2000, 2),
        (begin - 8, 0x2000, 2),
        (begin + PAGES * PAGE, 0x2000, 2),
        (begin + PAGES * PAGE - 8, 0x2000, 2),
        (begin + 8 * 20 + 4, 0x2000, 2),
        (usize::MAX - 7, 0x2000, 2),
        (begin + 8 * 20, 0, 1),
    ] {
        (words[10], words[11]) = (next, returned);
        assert_eq!(chain::follow(&mut frames, 0x1000, first, begin), count, "{next:#x}");
    }
    assert_eq!(chain::follow(&mut [], 0x1000, first, begin), 0);
    assert_eq!(chain::follow(&mut frames, 0, first, begin), 0);
}

#[test]
fn pages_between_two_stacks_are_never_touched() {
    // A stack below the thread's own, with an unreadable page between them: the cached range of the thread must not cross it.
    for _ in 0..3 {
        std::thread::spawn(|| {
            let mut island = Island::new();
            let (known, _) = both();
            island.words().fill(known[0]);
            for at in [0, PAGES * PAGE - 8, 8, PAGE] {
                let mut frames = [0; 64];
                // SAFETY: as above.
                unsafe { walk::walk(frames.as_mut_ptr(), 64, island.0 + PAGE + at, island.0 + PAGE + at) };
                let (ours, theirs) = both();
                assert_eq!(ours, theirs);
            }
            drop(island);
            assert!(!by_libgcc().is_empty());
        })
        .join()
        .unwrap();
    }
}
