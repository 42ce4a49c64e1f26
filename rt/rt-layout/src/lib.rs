//! How object caches lie in memory: plain data that `rt/rt` writes, and that readers in other processes, or of a core, read.
//!
//! # Finding it
//!
//! A process has one [`Root`] for each copy of the library that it has loaded. It stands in writable data of a file that is mapped privately, at
//! an address that is a multiple of 64, and begins with [`Root::MAGIC`]; [`Root::this`] is its own address, which a copy of the bytes elsewhere
//! does not have. No symbol is needed.
//!
//! ```
//! use millpond_rt_layout::Root;
//! use std::mem::{offset_of, size_of};
//!
//! /// Whether bytes that were at this address of a process, or of a core, are a root that this version of the crate describes.
//! fn is_root(bytes: &[u8; size_of::<Root>()], address: u64) -> bool {
//!     let long = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
//!     let int = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap());
//!     let magic = offset_of!(Root, magic);
//!     [long(magic), long(magic + 8)] == Root::MAGIC
//!         && long(offset_of!(Root, this)) == address
//!         && int(offset_of!(Root, version)) == Root::VERSION
//!         && int(offset_of!(Root, size)) as usize == size_of::<Root>()
//! }
//!
//! let mut bytes = [0; size_of::<Root>()];
//! bytes[..8].copy_from_slice(&Root::MAGIC[0].to_ne_bytes());
//! bytes[8..16].copy_from_slice(&Root::MAGIC[1].to_ne_bytes());
//! assert!(!is_root(&bytes, 0x7f00_0000_0040)); // a copy: its own address is missing
//! ```
//!
//! # Nouns
//!
//! * A [`Cache`] keeps buffers of one size. All caches are a list from [`Root::caches`].
//! * A [`Span`] is a run of pages: free, a *slab* of a cache, or one large buffer. Every page that is not free has its span in the [page
//!   map](Root::map), from [`PAGE`] to [`PAGE`]; free spans are there by their first and last page only.
//! * A slab is cut into *chunks*. A chunk is a buffer and, where a cache checks, a [`Buftag`] behind it, and has a [`Bufctl`] then, which is not
//!   in the slab.
//! * A *magazine* is a pointer to the next one and rounds behind it: buffers that are free above the slab. Threads have up to two for each cache in
//!   [`Thread::pairs`], the others are in the cache's [`Depot`].
//!
//! # How the owner of a buffer is found
//!
//! A chunk whose bit in [`Span::free`] is set is free. One whose bit is not set is allocated, unless it is a round of a magazine. Caches with
//! [`flags::NOMAGAZINE`] have none, and all that check are of that kind.
//!
//! # What is promised
//!
//! Integers and pointers as the process itself sees them, of the size of its own; only 64-bit processes have a root. A reader compares
//! [`Root::version`] and [`Root::size`] and goes no further when they are not its own. Everything can change while it is read: a reader that wants
//! pointers that fit together stops the process first, and even then a thread may have been stopped half way, so that every pointer is checked
//! before it is followed and no list is followed for ever.

#![no_std]

use core::ffi::{c_int, c_void};

/// The unit of the page map, in bytes. A system may have larger pages; spans are multiples of those.
pub const PAGE: usize = 4096;
/// Entries of a table of the page map, of which there are three levels: addresses below 2^48.
pub const TABLE: usize = 4096;
/// The place in [`Thread::pairs`] that stays empty: all caches without magazines have it.
pub const NO_PAIR: u32 = 510;
/// Places in [`Thread::pairs`].
pub const PAIRS: usize = NO_PAIR as usize + 1;
/// Places in [`Thread::kept`].
pub const KEPT: usize = 4;
/// Of a [`Depot`].
pub const SHARES: usize = 4;
/// Chunks of a slab at the most.
pub const CHUNKS: usize = 512;
/// Bytes of a cache's name, with the zero at its end.
pub const NAME: usize = 32;
/// Bytes of messages that are kept.
pub const MESSAGES: usize = 8192;

/// The largest size that has a cache of its own; larger buffers are spans.
pub const LARGEST: usize = 131_072;

/// Patterns and signatures.
pub mod patterns {
    /// A free buffer, in each word.
    pub const FREE: u64 = 0xdead_beef_dead_beef;
    /// A buffer that was just allocated, in each word.
    pub const UNINITIALISED: u64 = 0xbadd_cafe_badd_cafe;
    /// Behind the buffer. [`Buftag::redzone`](super::Buftag::redzone) has it in both halves, or in its lower half with a size in the upper.
    pub const REDZONE: u64 = 0xfeed_face_feed_face;
    /// The byte behind the requested size.
    pub const REDZONE_BYTE: u8 = 0xbb;
    /// `bufctl ^ bxstat` of an allocated buffer.
    pub const ALLOCATED: usize = 0xa110_c8ed;
    /// `bufctl ^ bxstat` of a free buffer.
    pub const FREED: usize = 0xf4ee_f4ee;
    /// The tag of malloc that is eight bytes long.
    pub const MALLOC: u32 = 0x16ba_7000;
    /// The tag of malloc that is sixteen bytes long: the size needs more than 32 bits, and stands in the eight before.
    pub const MALLOC_OVERSIZE: u32 = 0x06e4_7000;
    /// The tag before a buffer of an alignment that was asked for: instead of a size it has the distance to the buffer's beginning, in bytes.
    pub const MEMALIGN: u32 = 0x3e3a_1000;

    /// The tag before a buffer that was placed at its wall, with its size.
    pub const PLACED: u32 = 0x57a1_1000;

    /// A size as the redzone keeps it.
    #[must_use]
    pub const fn encode(size: u32) -> u32 {
        size.wrapping_mul(251).wrapping_add(1)
    }

    /// The size that [`encode`] was given, or none if nothing gives that.
    #[must_use]
    pub const fn decode(word: u32) -> Option<u32> {
        let less = word.wrapping_sub(1);
        if less.is_multiple_of(251) { Some(less / 251) } else { None }
    }
}

/// Bits of [`Cache::flags`] and [`Root::flags`]: what is checked.
pub mod flags {
    /// The stack trace of the latest allocation or free is kept.
    pub const AUDIT: u32 = 0x1;
    /// Free buffers have a pattern.
    pub const DEADBEEF: u32 = 0x2;
    /// What lies behind a buffer is checked.
    pub const REDZONE: u32 = 0x4;
    /// What freed buffers had in them is kept.
    pub const CONTENTS: u32 = 0x8;
    /// No magazines.
    pub const NOMAGAZINE: u32 = 0x20;
    /// Each buffer ends at a page that cannot be touched.
    pub const FIREWALL: u32 = 0x40;
    /// Tags, and nothing else.
    pub const LITE: u32 = 0x100;
    /// Each buffer has a bufctl.
    pub const HASH: u32 = 0x200;
    /// Each cache checks something else.
    pub const RANDOMIZE: u32 = 0x400;
    /// Any of those for which a buffer has a tag.
    pub const BUFTAG: u32 = DEADBEEF | REDZONE | LITE;
}

/// [`Root::state`].
pub mod state {
    /// No memory was asked for yet.
    pub const UNINITIALISED: u32 = 0;
    /// The first request initialises it.
    pub const IN_PROCESS: u32 = 1;
    /// Ready.
    pub const READY: u32 = 2;
    /// There was no memory to begin with.
    pub const FAILED: u32 = 3;
}

/// [`Span::kind`].
pub mod kind {
    /// Free.
    pub const FREE: u32 = 0;
    /// Chunks of a cache.
    pub const SLAB: u32 = 1;
    /// One buffer, of [`Span::size`](super::Span::size) bytes.
    pub const LARGE: u32 = 2;
    /// A buffer that was freed, which a thread keeps for its next request: [`Thread::kept`](super::Thread::kept). [`Heap`](super::Heap) counts it as
    /// a large one.
    pub const KEPT: u32 = 3;
}

/// Everything that can be reached. One static of each copy of the library.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Root {
    /// [`Root::MAGIC`], once it is initialised.
    pub magic: [u64; 2],
    /// Its own address.
    pub this: *const Root,
    /// [`Root::VERSION`].
    pub version: u32,
    /// Bytes of a root.
    pub size: u32,
    /// Of [`state`].
    pub state: u32,
    /// Of [`flags`]: what was asked for.
    pub flags: u32,
    /// Return addresses that a [`Bufctl`] has room for.
    pub frames: u32,
    /// CPUs, as asked for or found.
    pub concurrency: u32,
    /// Bytes of the system's page.
    pub page: usize,
    /// The first cache; the next by [`Cache::next`].
    pub caches: *mut Cache,
    /// The first thread's block; the next by [`Thread::next`].
    pub threads: *mut Thread,
    /// [`TABLE`] pointers to as many pointers to as many pointers to spans: bits 36 to 47, 24 to 35 and 12 to 23 of an address. Each may be null.
    pub map: *const *mut *mut *mut Span,
    /// What the library mapped for itself; the next by [`Region::next`]. Pointers in it make no buffer reachable.
    pub regions: *mut Region,
    /// In the order of [`logs`].
    pub logs: [Log; 4],
    /// How spans are used.
    pub heap: Heap,
    /// What was said last, oldest first, from [`Root::message_end`] around.
    pub messages: [u8; MESSAGES],
    /// Bytes that were ever said; the next one goes to this modulo [`MESSAGES`].
    pub message_end: usize,
    /// Nanoseconds of the monotonic clock when the latest message was said.
    pub message_time: u64,
}

impl Root {
    /// "millpond umem" and a number that no text has.
    pub const MAGIC: [u64; 2] = [u64::from_le_bytes(*b"millpond"), u64::from_le_bytes(*b" umem\0\xf1\x0d")];
    /// Changes with everything in this file.
    pub const VERSION: u32 = 3;
}

/// Places in [`Root::logs`].
pub mod logs {
    /// Allocations and frees.
    pub const TRANSACTION: usize = 0;
    /// What was in freed buffers.
    pub const CONTENTS: usize = 1;
    /// Allocations that failed.
    pub const FAIL: usize = 2;
    /// Slabs that were made.
    pub const SLAB: usize = 3;
}

/// A ring of records. A transaction is a copy of a [`Bufctl`] with its stack.
#[repr(C)]
#[derive(Debug)]
pub struct Log {
    /// Where the records stand; null: no such log.
    pub base: *mut u8,
    /// Bytes of a record.
    pub stride: usize,
    /// Records of the ring.
    pub entries: usize,
    /// Records ever begun; the next one goes to this modulo `entries`.
    pub next: usize,
}

/// Memory of the library's own: caches, spans, bufctls, magazines, tables of the map, threads' blocks, logs, in use or free.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    /// The one that was mapped before.
    pub next: *mut Region,
    /// Its first byte.
    pub base: *mut u8,
    /// In bytes.
    pub bytes: usize,
}

/// How spans are used, in bytes unless said otherwise.
#[repr(C)]
#[derive(Debug)]
pub struct Heap {
    /// Mapped for spans.
    pub mapped: usize,
    /// In slabs and large buffers.
    pub used: usize,
    /// In large buffers.
    pub large: usize,
    /// How many large buffers there are.
    pub large_buffers: u64,
    /// Large buffers that were ever given, without those of [`Thread::reused`].
    pub large_allocs: u64,
    /// Times that there was no memory.
    pub failures: u64,
    /// For caches, spans, bufctls, magazines and threads' blocks.
    pub meta: usize,
}

/// Buffers of one size.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Cache {
    /// Ends with a zero.
    pub name: [u8; NAME],
    /// Its place in [`Thread::pairs`]; [`NO_PAIR`]: it has no magazines.
    pub index: u32,
    /// Of [`flags`].
    pub flags: u32,
    /// As the creator gave them.
    pub cflags: u32,
    /// Chunks of a slab.
    pub chunks: u32,
    /// Bytes that a user has, as they were asked for.
    pub size: usize,
    /// Where in a chunk the buffer begins, modulo `align`, in bytes.
    pub shift: usize,
    /// Of buffers, in bytes.
    pub align: usize,
    /// From one buffer to the next, in bytes.
    pub chunk: usize,
    /// Of a slab, in bytes.
    pub slab: usize,
    /// From a buffer to its tag, in bytes; 0: it has none.
    pub tag: usize,
    /// Bytes of a buffer that are compared with the patterns.
    pub verify: usize,
    /// From one bufctl of a slab to the next, in bytes; 0: there are none.
    pub bufctl: usize,
    /// Makes an object of a buffer.
    pub constructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int>,
    /// Ends an object.
    pub destructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// Is told that memory is short.
    pub reclaim: Option<unsafe extern "C" fn(*mut c_void)>,
    /// What those three are given.
    pub private: *mut c_void,
    /// The next cache of all.
    pub next: *mut Cache,
    /// The one before.
    pub previous: *mut Cache,
    /// Allocations of threads that are gone, and those without a pair.
    pub allocs: u64,
    /// Allocations that failed.
    pub failures: u64,
    /// Slabs.
    pub slabs: Slabs,
    /// Magazines that no thread has.
    pub depot: Depot,
}

/// The slabs of a cache.
#[repr(C)]
#[derive(Debug)]
pub struct Slabs {
    /// Held to read or write what follows.
    pub lock: u32,
    /// How far the next slab's first chunk is from its beginning, in steps of the alignment.
    pub colour: u32,
    /// Slabs with free chunks; the next by [`Span::next`].
    pub partial: *mut Span,
    /// Slabs without.
    pub full: *mut Span,
    /// Slabs.
    pub count: u64,
    /// Slabs that were ever made.
    pub created: u64,
    /// Slabs that were given back.
    pub destroyed: u64,
    /// Chunks of all slabs.
    pub buffers: u64,
    /// The most chunks that there ever were.
    pub most: u64,
    /// Chunks that are not free here: with a user, or in a magazine.
    pub taken: u64,
}

/// Magazines that no thread has.
#[repr(C)]
#[derive(Debug)]
pub struct Depot {
    /// Threads bring them to the share of their number modulo [`SHARES`], and look there first.
    pub shares: [Share; SHARES],
}

/// Magazines that some of the threads brought.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Share {
    /// Held to read or write what follows.
    pub lock: u32,
    /// Rounds of a new magazine.
    pub rounds: u32,
    /// How often the lock was not to be had at once.
    pub contention: u64,
    /// What that was at the latest update.
    pub contention_before: u64,
    /// Magazines that were taken and brought since they have this size.
    pub exchanges: u64,
    /// With rounds in them.
    pub full: Pile,
    /// Without.
    pub empty: Pile,
}

/// Magazines, one upon the other.
#[repr(C)]
#[derive(Debug)]
pub struct Pile {
    /// The uppermost; the next by [`Magazine::link`].
    pub top: *mut Magazine,
    /// Magazines.
    pub count: u64,
    /// The fewest since the latest update: what was not needed.
    pub fewest: u64,
    /// The fewest in the time between the two updates before now: what may go.
    pub spare: u64,
    /// How many were taken lately.
    pub taken: u64,
}

impl Pile {
    /// None.
    pub const EMPTY: Pile = Pile { top: core::ptr::null_mut(), count: 0, fewest: 0, spare: 0, taken: 0 };
}

/// The head of a magazine; its rounds follow, eight bytes each.
#[repr(C)]
#[derive(Debug)]
pub struct Magazine {
    /// The next one of a pile in the lower 48 bits, how many rounds it has in the eight above, and for how many it has places in the uppermost eight. With
    /// what [`Share::rounds`] can be it is whole lines of a CPU cache.
    pub link: u64,
}

/// What a thread has.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Thread {
    /// The next block of all.
    pub next: *mut Thread,
    /// The thread's number; 0: none has it.
    pub tid: u32,
    /// 1: it is just exchanging a magazine or a large buffer, and one of its pairs may not fit together.
    pub busy: u32,
    /// Spans of large buffers that it freed: the pointer in the lower 48 bits, [`PAGE`]s in the 16 above; 0: none. Other threads may take them.
    pub kept: [u64; KEPT],
    /// How many pages those may have together, since the update of the number that follows.
    pub quota: u32,
    /// The number of an update.
    pub update: u32,
    /// Large buffers that came from there, which [`Heap::large_allocs`] lacks.
    pub reused: u64,
    /// One for each cache, by [`Cache::index`].
    pub pairs: [Pair; PAIRS],
}

/// The magazines that a thread has of a cache. All null: none yet.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Pair {
    /// Behind the last round of the loaded magazine.
    pub top: *mut *mut u8,
    /// Its first round. The magazine's head is before it.
    pub base: *mut *mut u8,
    /// Behind its last place.
    pub limit: *mut *mut u8,
    /// The other one, full or empty.
    pub previous: *mut Magazine,
    /// Rounds in that.
    pub previous_rounds: u32,
    /// Places in that.
    pub previous_room: u32,
    /// Allocations since the thread began.
    pub allocs: u64,
}

/// A run of pages.
#[repr(C)]
#[derive(Debug)]
pub struct Span {
    /// Its first byte.
    pub base: *mut u8,
    /// In bytes.
    pub bytes: usize,
    /// Of [`kind`].
    pub kind: u32,
    /// So many bytes from its beginning may not be zeros; the others are.
    pub dirty: usize,
    /// Of its list.
    pub next: *mut Span,
    /// Of its list.
    pub previous: *mut Span,
    /// Of a slab.
    pub cache: *mut Cache,
    /// Of a large buffer: what was asked for, in bytes. Of a slab that ends with a wall: how much of it can be touched; 0: it has none.
    pub size: usize,
    /// Of a slab: chunks that are not free.
    pub taken: u32,
    /// Of a slab: from its beginning to its first buffer, in bytes. Of a large buffer: the length of the wall at its end; 0: it has none.
    pub first: u32,
    /// Of a slab: where the next search begins, as a number of a chunk.
    pub hint: u32,
    /// 1: it was mapped for itself alone, and is unmapped when it is freed.
    pub alone: u32,
    /// Of a slab whose cache has them: one for each chunk.
    pub bufctls: *mut u8,
    /// Of a slab: which chunks are free.
    pub free: [u64; CHUNKS / 64],
}

/// Behind a buffer of a cache that checks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Buftag {
    /// [`patterns::REDZONE`], whose upper half may be an [encoded](patterns::encode) size.
    pub redzone: u64,
    /// Of this buffer.
    pub bufctl: *mut Bufctl,
    /// `bufctl` ^ [`patterns::ALLOCATED`] or [`patterns::FREED`].
    pub bxstat: usize,
}

/// What is known of a buffer. Where it is audited [`Root::frames`] return addresses follow.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Bufctl {
    /// The buffer.
    pub buffer: *mut u8,
    /// Its slab.
    pub span: *mut Span,
    /// Its cache.
    pub cache: *mut Cache,
    /// When it was allocated or freed: nanoseconds of the monotonic clock.
    pub time: u64,
    /// The kernel's number of the thread.
    pub thread: u32,
    /// How many return addresses there are.
    pub depth: u32,
    /// The record of this transaction in the log, or null.
    pub log: *mut Bufctl,
    /// In a record of the log: what the log had of this buffer before.
    pub before: *mut Bufctl,
    /// What was in it when it was freed, in the log of contents, or null.
    pub contents: *mut u8,
    /// How many bytes of that.
    pub contents_bytes: u32,
    /// 1: it is allocated.
    pub allocated: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::{offset_of, size_of};

    #[test]
    fn sizes_are_what_both_sides_were_built_with() {
        assert_eq!(size_of::<Pair>(), 64);
        assert_eq!(size_of::<Buftag>(), 24);
        assert_eq!(size_of::<Magazine>(), 8);
        assert_eq!(size_of::<Bufctl>() % 8, 0);
        assert_eq!(offset_of!(Root, this), 16);
        assert_eq!(offset_of!(Thread, pairs), 64);
    }

    #[test]
    fn a_size_comes_out_of_the_redzone_as_it_went_in() {
        assert_eq!(patterns::encode(0), 1);
        assert_eq!(patterns::encode(8), 2009);
        assert_eq!(patterns::decode(2009), Some(8));
        assert_eq!(patterns::decode(0xfeed_face), None);
    }
}
