//! Synthetic object caches in an address space: a root in a program's data, caches, slabs, magazines and logs, as in the layout.
//!
//! ```text
//! 0x400000 program's code    0x600000 its data, with the root    0x601000 its own variables
//! 0x7000_0000_0000 heap      0x7100_0000_0000 the library's own memory  0x7fff_0000_0000 [stack]
//! ```

use super::space::Space;
use millpond_machine::facets::StoppedThread;
use millpond_rt_layout::{
    Bufctl, Buftag, CHUNKS, Cache, Depot, Log, Magazine, PAGE, Pair, Pile, Region, Root, Share, Slabs, Span,
    TABLE, Thread, flags, kind, patterns, state,
};
use std::mem::{offset_of, size_of};

pub(crate) const ROOT: u64 = 0x60_0040;
/// Variables of the program.
pub(crate) const DATA: u64 = 0x60_4000;
pub(crate) const HEAP: u64 = 0x7000_0000_0000;
pub(crate) const META: u64 = 0x7100_0000_0000;
pub(crate) const STACK: u64 = 0x7fff_0000_0000;
/// Stack pointer of the main thread.
pub(crate) const STACK_POINTER: u64 = STACK + 0x8000;

pub(crate) const HEAP_BYTES: u64 = 1 << 18;
pub(crate) const META_BYTES: u64 = 3 << 18;

/// Capacity of a bufctl in return addresses.
pub(crate) const FRAMES: u32 = 3;

pub(crate) const PLAIN: u32 = 0;
pub(crate) const GUARDED: u32 =
    flags::AUDIT | flags::DEADBEEF | flags::REDZONE | flags::CONTENTS | flags::NOMAGAZINE | flags::HASH;

/// A synthetic image.
pub(crate) struct Town {
    pub(crate) space: Space,
    meta: u64,
    heap: u64,
    /// The last cache of the list.
    last: u64,
    top: u64,
}

/// A cache of the image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lot {
    pub(crate) at: u64,
    pub(crate) chunk: u64,
    pub(crate) tag: u64,
    pub(crate) bufctl: u64,
    pub(crate) chunks: u64,
}

/// A slab of a cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slab {
    pub(crate) lot: Lot,
    pub(crate) span: u64,
    pub(crate) base: u64,
    pub(crate) bufctls: u64,
}

impl Slab {
    pub(crate) fn buffer(&self, chunk: u64) -> u64 {
        self.base + chunk * self.lot.chunk
    }

    pub(crate) fn bufctl(&self, chunk: u64) -> u64 {
        self.bufctls + chunk * self.lot.bufctl
    }

    pub(crate) fn tag(&self, chunk: u64) -> u64 {
        self.buffer(chunk) + self.lot.tag
    }
}

impl Town {
    /// An image without caches.
    pub(crate) fn new() -> Town {
        let mut space = Space::default();
        space.clock = Some(millpond_model::Nanos(1_000_000));
        space.map(0x40_0000, 0x1000, "r", "/usr/bin/town");
        space.map(0x60_0000, 0x8000, "rw", "/usr/bin/town");
        space.map(HEAP, HEAP_BYTES, "rw", "");
        space.map(META, META_BYTES, "rw", "");
        space.map(STACK, 0x10000, "rw", "[stack]");
        space.threads = vec![StoppedThread {
            tid: 7,
            stack_pointer: STACK_POINTER,
            thread_pointer: None,
            words: vec![1, 2],
        }];
        let mut town = Town { space, meta: META, heap: HEAP, last: 0, top: 0 };
        town.top = town.meta((TABLE * 8) as u64);
        let field = |place| ROOT + place as u64;
        town.space.word(field(offset_of!(Root, magic)), Root::MAGIC[0]);
        town.space.word(field(offset_of!(Root, magic) + 8), Root::MAGIC[1]);
        town.space.word(field(offset_of!(Root, this)), ROOT);
        town.space.half(field(offset_of!(Root, version)), Root::VERSION);
        town.space.half(field(offset_of!(Root, size)), size_of::<Root>() as u32);
        town.space.half(field(offset_of!(Root, state)), state::READY);
        town.space.half(field(offset_of!(Root, frames)), FRAMES);
        town.space.half(field(offset_of!(Root, concurrency)), 4);
        town.space.word(field(offset_of!(Root, page)), 4096);
        town.space.word(field(offset_of!(Root, map)), town.top);
        let region = town.meta(size_of::<Region>() as u64);
        town.space.word(region + offset_of!(Region, base) as u64, META);
        town.space.word(region + offset_of!(Region, bytes) as u64, META_BYTES);
        town.space.word(field(offset_of!(Root, regions)), region);
        town
    }

    /// Allocates memory of the library's own.
    pub(crate) fn meta(&mut self, bytes: u64) -> u64 {
        let at = self.meta;
        self.meta += bytes.next_multiple_of(64);
        assert!(self.meta <= META + META_BYTES);
        at
    }

    /// Adds a cache with a name, a size and flags.
    pub(crate) fn cache(&mut self, name: &str, size: u64, checks: u32) -> Lot {
        let at = self.meta(size_of::<Cache>() as u64);
        let aligned = size.next_multiple_of(8);
        let tag = if checks & flags::BUFTAG == 0 { 0 } else { aligned };
        let chunk = if tag == 0 { aligned } else { aligned + size_of::<Buftag>() as u64 };
        let bufctl = if checks & (flags::HASH | flags::AUDIT) == 0 {
            0
        } else {
            size_of::<Bufctl>() as u64 + if checks & flags::AUDIT == 0 { 0 } else { u64::from(FRAMES) * 8 }
        };
        let chunks = (4096 / chunk).clamp(1, CHUNKS as u64);
        let slab = (chunks * chunk).next_multiple_of(4096);
        let mut word = |place: usize, value: u64| self.space.word(at + place as u64, value);
        word(offset_of!(Cache, size), size);
        word(offset_of!(Cache, align), 8);
        word(offset_of!(Cache, chunk), chunk);
        word(offset_of!(Cache, slab), slab);
        word(offset_of!(Cache, tag), tag);
        word(offset_of!(Cache, verify), if checks & flags::DEADBEEF == 0 { 0 } else { aligned });
        word(offset_of!(Cache, bufctl), bufctl);
        self.space.put(at + offset_of!(Cache, name) as u64, name.as_bytes());
        self.space.half(at + offset_of!(Cache, flags) as u64, checks);
        self.space.half(at + offset_of!(Cache, chunks) as u64, chunks as u32);
        self.space.half(at + offset_of!(Cache, index) as u64, u32::MAX);
        let link = if self.last == 0 {
            ROOT + offset_of!(Root, caches) as u64
        } else {
            self.last + offset_of!(Cache, next) as u64
        };
        self.space.word(link, at);
        self.last = at;
        Lot { at, chunk, tag, bufctl, chunks }
    }

    /// Adds to a counter of a cache's slabs.
    pub(crate) fn count(&mut self, lot: Lot, place: usize, change: i64) {
        let at = lot.at + (offset_of!(Cache, slabs) + place) as u64;
        let value = self.space.get(at).wrapping_add_signed(change);
        self.space.word(at, value);
    }

    /// Adds a span of a kind, and enters it in the page map.
    pub(crate) fn span(&mut self, bytes: u64, of: u32) -> (u64, u64) {
        let (base, bytes) = (self.heap, bytes.next_multiple_of(4096));
        self.heap += bytes;
        assert!(self.heap <= HEAP + HEAP_BYTES);
        let at = self.meta(size_of::<Span>() as u64);
        self.space.word(at + offset_of!(Span, base) as u64, base);
        self.space.word(at + offset_of!(Span, bytes) as u64, bytes);
        self.space.half(at + offset_of!(Span, kind) as u64, of);
        let pages = [base, base + bytes - 4096];
        let every = (base..base + bytes).step_by(PAGE);
        let pages: Vec<u64> = if of == kind::FREE { pages.to_vec() } else { every.collect() };
        pages.into_iter().for_each(|page| self.enter(page, at));
        (at, base)
    }

    /// Enters a span for a page.
    pub(crate) fn enter(&mut self, page: u64, span: u64) {
        let mut table = self.top;
        for shift in [36, 24] {
            let place = table + (page >> shift & (TABLE as u64 - 1)) * 8;
            if self.space.get(place) == 0 {
                let below = self.meta((TABLE * 8) as u64);
                self.space.word(place, below);
            }
            table = self.space.get(place);
        }
        self.space.word(table + (page >> 12 & (TABLE as u64 - 1)) * 8, span);
    }

    /// Adds a large buffer.
    pub(crate) fn large(&mut self, bytes: u64) -> u64 {
        let (at, base) = self.span(bytes, kind::LARGE);
        self.space.word(at + offset_of!(Span, size) as u64, bytes);
        base
    }

    /// Adds a slab with free chunks only.
    pub(crate) fn slab(&mut self, lot: Lot) -> Slab {
        let (span, base) = self.span(lot.chunks * lot.chunk, kind::SLAB);
        let bufctls = if lot.bufctl == 0 { 0 } else { self.meta(lot.bufctl * lot.chunks) };
        self.space.word(span + offset_of!(Span, cache) as u64, lot.at);
        self.space.word(span + offset_of!(Span, bufctls) as u64, bufctls);
        let slab = Slab { lot, span, base, bufctls };
        for chunk in 0..lot.chunks {
            self.bit(&slab, chunk, true);
            if bufctls != 0 {
                let at = slab.bufctl(chunk);
                self.space.word(at + offset_of!(Bufctl, buffer) as u64, slab.buffer(chunk));
                self.space.word(at + offset_of!(Bufctl, span) as u64, span);
                self.space.word(at + offset_of!(Bufctl, cache) as u64, lot.at);
            }
            self.pattern(&slab, chunk);
        }
        self.count(lot, offset_of!(Slabs, count), 1);
        self.count(lot, offset_of!(Slabs, buffers), lot.chunks as i64);
        slab
    }

    fn bit(&mut self, slab: &Slab, chunk: u64, free: bool) {
        let at = slab.span + offset_of!(Span, free) as u64 + chunk / 64 * 8;
        let bit = 1 << (chunk % 64);
        let bits = self.space.get(at);
        self.space.word(at, if free { bits | bit } else { bits & !bit });
    }

    /// Fills a free buffer with the pattern.
    fn pattern(&mut self, slab: &Slab, chunk: u64) {
        if slab.lot.tag == 0 {
            return;
        }
        (0..slab.lot.tag).step_by(8).for_each(|at| self.space.word(slab.buffer(chunk) + at, patterns::FREE));
        self.space.word(slab.tag(chunk), patterns::REDZONE);
        self.stat(slab, chunk, patterns::FREED as u64);
    }

    fn stat(&mut self, slab: &Slab, chunk: u64, state: u64) {
        let bufctl = if slab.bufctls == 0 { 0 } else { slab.bufctl(chunk) };
        self.space.word(slab.tag(chunk) + offset_of!(Buftag, bufctl) as u64, bufctl);
        self.space.word(slab.tag(chunk) + offset_of!(Buftag, bxstat) as u64, bufctl ^ state);
    }

    /// Allocates a buffer of a cache, of its whole size or of `size` bytes.
    pub(crate) fn alloc(&mut self, slab: &Slab, chunk: u64, size: Option<u64>) -> u64 {
        let buffer = slab.buffer(chunk);
        self.bit(slab, chunk, false);
        let taken = slab.span + offset_of!(Span, taken) as u64;
        let was = self.space.get(taken) as u32;
        self.space.half(taken, was + 1);
        self.count(slab.lot, offset_of!(Slabs, taken), 1);
        if slab.lot.tag > 0 {
            let words = (0..slab.lot.tag).step_by(8);
            words.for_each(|at| self.space.word(buffer + at, patterns::UNINITIALISED));
            if let Some(size) = size {
                self.space.half(slab.tag(chunk) + 4, patterns::encode(size as u32));
                self.space.put(buffer + size, &[patterns::REDZONE_BYTE]);
            }
            self.stat(slab, chunk, patterns::ALLOCATED as u64);
        }
        buffer
    }

    /// Fills a bufctl as auditing does.
    pub(crate) fn audit(&mut self, bufctl: u64, time: u64, allocated: bool, stack: &[u64]) {
        self.space.word(bufctl + offset_of!(Bufctl, time) as u64, time);
        self.space.half(bufctl + offset_of!(Bufctl, thread) as u64, 7);
        self.space.half(bufctl + offset_of!(Bufctl, depth) as u64, stack.len() as u32);
        self.space.half(bufctl + offset_of!(Bufctl, allocated) as u64, u32::from(allocated));
        for (at, address) in (bufctl + size_of::<Bufctl>() as u64..).step_by(8).zip(stack) {
            self.space.word(at, *address);
        }
    }

    /// Adds a log with this capacity.
    pub(crate) fn log(&mut self, which: usize, entries: u64) -> u64 {
        let stride = size_of::<Bufctl>() as u64 + u64::from(FRAMES) * 8;
        let base = self.meta(stride * entries);
        let at = ROOT + (offset_of!(Root, logs) + which * size_of::<Log>()) as u64;
        self.space.word(at + offset_of!(Log, base) as u64, base);
        self.space.word(at + offset_of!(Log, stride) as u64, stride);
        self.space.word(at + offset_of!(Log, entries) as u64, entries);
        base
    }

    /// Adds a magazine with these buffers.
    pub(crate) fn magazine(&mut self, rounds: &[u64]) -> u64 {
        let at = self.meta(8 + 16 * 8);
        for (place, round) in (at + size_of::<Magazine>() as u64..).step_by(8).zip(rounds) {
            self.space.word(place, *round);
        }
        at
    }

    /// Gives a cache magazines, at this index of the pairs.
    pub(crate) fn index(&mut self, lot: Lot, index: u32) {
        self.space.half(lot.at + offset_of!(Cache, index) as u64, index);
    }

    /// Adds a full magazine to the depot.
    pub(crate) fn depot(&mut self, lot: Lot, rounds: &[u64]) -> u64 {
        let at = self.magazine(rounds);
        let top = lot.at
            + (offset_of!(Cache, depot)
                + offset_of!(Depot, shares)
                + offset_of!(Share, full)
                + offset_of!(Pile, top)) as u64;
        let below = self.space.get(top);
        self.space.word(at, below | (rounds.len() as u64 | 15 << 8) << 48);
        self.space.word(top, at);
        at
    }

    /// Adds a thread block with a loaded and a previous magazine of one cache.
    pub(crate) fn thread(&mut self, index: u32, loaded: &[u64], previous: &[u64], allocs: u64) -> u64 {
        let at = self.meta(size_of::<Thread>() as u64);
        let first = ROOT + offset_of!(Root, threads) as u64;
        let next = self.space.get(first);
        self.space.word(at + offset_of!(Thread, next) as u64, next);
        self.space.word(first, at);
        let pair = at + offset_of!(Thread, pairs) as u64 + u64::from(index) * size_of::<Pair>() as u64;
        let (one, other) = (self.magazine(loaded), self.magazine(previous));
        let base = one + size_of::<Magazine>() as u64;
        self.space.word(pair + offset_of!(Pair, base) as u64, base);
        self.space.word(pair + offset_of!(Pair, top) as u64, base + loaded.len() as u64 * 8);
        self.space.word(pair + offset_of!(Pair, limit) as u64, base + 15 * 8);
        self.space.word(pair + offset_of!(Pair, previous) as u64, other);
        self.space.half(pair + offset_of!(Pair, previous_rounds) as u64, previous.len() as u32);
        self.space.half(pair + offset_of!(Pair, previous_room) as u64, 15);
        self.space.word(pair + offset_of!(Pair, allocs) as u64, allocs);
        pair
    }
}
