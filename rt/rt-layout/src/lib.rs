//! Memory layout of the object caches: plain data that `rt/rt` writes, and that readers in other processes or of a core read.
//!
//! # Finding the root
//!
//! A process has one [`Root`] for each copy of the library that it has loaded. The root is in writable data of a privately mapped file, at an address
//! that is a multiple of 64. It begins with [`Root::MAGIC`]. [`Root::this`] is its own address, which a copy of the bytes elsewhere does not match.
//! No symbol is needed.
//!
//! ```
//! use millpond_rt_layout::Root;
//! use std::mem::{offset_of, size_of};
//!
//! /// Whether bytes at this address of a process, or of a core, are a root of this version of the crate.
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
//! assert!(!is_root(&bytes, 0x7f00_0000_0040)); // a copy: the address does not match
//! ```
//!
//! # Terms
//!
//! * A [`Cache`] has buffers of one size. All caches are a list from [`Root::caches`].
//! * A [`Span`] is a run of pages: free, a *slab* of a cache, or one large buffer. The [page map](Root::map) has the span of every used page, in
//!   units of [`PAGE`]. Free spans are entered for their first and last page only.
//! * A slab is divided into *chunks*. A chunk is a buffer. In a cache with checks a [`Buftag`] follows it, and it has a [`Bufctl`], which is outside
//!   of the slab.
//! * A *magazine* is a pointer to the next one, followed by rounds: free buffers that were not returned to the slab. Threads have up to two for each
//!   cache in [`Thread::pairs`]. The others are in the cache's [`Depot`].
//!
//! # Free and allocated buffers
//!
//! A chunk whose bit in [`Span::free`] is set is free. Any other chunk is allocated, unless it is a round of a magazine. Caches with
//! [`flags::NOMAGAZINE`] have no magazines; all caches with checks have this flag.
//!
//! # Guarantees
//!
//! Integers and pointers have the size and byte order of the process. Only 64-bit processes have a root. A reader compares [`Root::version`] and
//! [`Root::size`] and stops if they differ from its own. Everything can change while it is read: a reader that needs consistent pointers stops the
//! process first. Even then a thread may be stopped half way through a change. So every pointer must be checked before it is followed, and no list
//! may be followed without a limit.

#![no_std]

use core::ffi::{c_int, c_void};

/// The unit of the page map, in bytes. A system may have larger pages; spans are multiples of those.
pub const PAGE: usize = 4096;
/// Entries of a table of the page map. There are three levels of tables: addresses below 2^48.
pub const TABLE: usize = 4096;
/// The index in [`Thread::pairs`] that stays empty: that of all caches without magazines.
pub const NO_PAIR: u32 = 510;
/// Length of [`Thread::pairs`].
pub const PAIRS: usize = NO_PAIR as usize + 1;
/// Length of [`Thread::kept`].
pub const KEPT: usize = 4;
/// Shares of a [`Depot`].
pub const SHARES: usize = 4;
/// Maximum chunks of a slab.
pub const CHUNKS: usize = 512;
/// Size of a cache's name in bytes, with the final zero.
pub const NAME: usize = 32;
/// Size of the message ring in bytes.
pub const MESSAGES: usize = 8192;

/// The largest size class; larger buffers are spans.
pub const LARGEST: usize = 131_072;

/// Patterns and signatures.
pub mod patterns {
    /// Each word of a free buffer.
    pub const FREE: u64 = 0xdead_beef_dead_beef;
    /// Each word of a newly allocated buffer.
    pub const UNINITIALISED: u64 = 0xbadd_cafe_badd_cafe;
    /// The word after the buffer. [`Buftag::redzone`](super::Buftag::redzone) has it in both halves, or in its lower half with a size in the upper.
    pub const REDZONE: u64 = 0xfeed_face_feed_face;
    /// The byte after the requested size.
    pub const REDZONE_BYTE: u8 = 0xbb;
    /// `bufctl ^ bxstat` of an allocated buffer.
    pub const ALLOCATED: usize = 0xa110_c8ed;
    /// `bufctl ^ bxstat` of a free buffer.
    pub const FREED: usize = 0xf4ee_f4ee;
    /// Signature of malloc's eight-byte tag.
    pub const MALLOC: u32 = 0x16ba_7000;
    /// Signature of malloc's sixteen-byte tag: the size needs more than 32 bits, and is in the first eight bytes.
    pub const MALLOC_OVERSIZE: u32 = 0x06e4_7000;
    /// Signature of the tag before an aligned buffer. Instead of a size it has the distance to the beginning of the underlying buffer, in bytes.
    pub const MEMALIGN: u32 = 0x3e3a_1000;

    /// Signature of the tag before a buffer that was placed at a wall, with its size.
    pub const PLACED: u32 = 0x57a1_1000;

    /// Encodes a size for the redzone.
    #[must_use]
    pub const fn encode(size: u32) -> u32 {
        size.wrapping_mul(251).wrapping_add(1)
    }

    /// Decodes a size; `None` if no size encodes to the word.
    #[must_use]
    pub const fn decode(word: u32) -> Option<u32> {
        let less = word.wrapping_sub(1);
        if less.is_multiple_of(251) { Some(less / 251) } else { None }
    }
}

/// Bits of [`Cache::flags`] and [`Root::flags`]: the enabled checks.
pub mod flags {
    /// The stack trace of the latest allocation or free is recorded.
    pub const AUDIT: u32 = 0x1;
    /// Free buffers are filled with a pattern.
    pub const DEADBEEF: u32 = 0x2;
    /// The bytes after a buffer are checked.
    pub const REDZONE: u32 = 0x4;
    /// Contents of freed buffers are saved.
    pub const CONTENTS: u32 = 0x8;
    /// No magazines.
    pub const NOMAGAZINE: u32 = 0x20;
    /// Each buffer ends at an inaccessible page.
    pub const FIREWALL: u32 = 0x40;
    /// Tags only.
    pub const LITE: u32 = 0x100;
    /// Each buffer has a bufctl.
    pub const HASH: u32 = 0x200;
    /// Each cache has a random selection of the checks.
    pub const RANDOMIZE: u32 = 0x400;
    /// Any flag with which buffers have tags.
    pub const BUFTAG: u32 = DEADBEEF | REDZONE | LITE;
}

/// Values of [`Root::state`].
pub mod state {
    /// No request was made yet.
    pub const UNINITIALISED: u32 = 0;
    /// The first request is initialising it.
    pub const IN_PROCESS: u32 = 1;
    /// Ready.
    pub const READY: u32 = 2;
    /// Initialisation failed: out of memory.
    pub const FAILED: u32 = 3;
}

/// Values of [`Span::kind`].
pub mod kind {
    /// Free.
    pub const FREE: u32 = 0;
    /// Chunks of a cache.
    pub const SLAB: u32 = 1;
    /// One buffer, of [`Span::size`](super::Span::size) bytes.
    pub const LARGE: u32 = 2;
    /// A freed buffer that a thread keeps for its next request: [`Thread::kept`](super::Thread::kept). [`Heap`](super::Heap) counts it as a large
    /// buffer.
    pub const KEPT: u32 = 3;
}

/// The root, from which all data is reachable. A static in each copy of the library.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Root {
    /// [`Root::MAGIC`], after initialisation.
    pub magic: [u64; 2],
    /// Its own address.
    pub this: *const Root,
    /// [`Root::VERSION`].
    pub version: u32,
    /// Size of the root in bytes.
    pub size: u32,
    /// A value of [`state`].
    pub state: u32,
    /// Requested checks, a combination of [`flags`].
    pub flags: u32,
    /// Capacity of a [`Bufctl`] in return addresses.
    pub frames: u32,
    /// Number of CPUs, configured or detected.
    pub concurrency: u32,
    /// Page size of the system in bytes.
    pub page: usize,
    /// The first cache; the next by [`Cache::next`].
    pub caches: *mut Cache,
    /// The first thread block; the next by [`Thread::next`].
    pub threads: *mut Thread,
    /// The page map: three levels of [`TABLE`] pointers each, indexed by bits 36 to 47, 24 to 35 and 12 to 23 of an address. Each may be null.
    pub map: *const *mut *mut *mut Span,
    /// The library's own memory; the next by [`Region::next`]. Pointers in it do not make a buffer reachable.
    pub regions: *mut Region,
    /// Logs, in the order of [`logs`].
    pub logs: [Log; 4],
    /// Statistics of spans.
    pub heap: Heap,
    /// The latest messages, a ring that begins at [`Root::message_end`].
    pub messages: [u8; MESSAGES],
    /// Total bytes of all messages. The next byte goes to this index modulo [`MESSAGES`].
    pub message_end: usize,
    /// Time of the latest message, in nanoseconds of the monotonic clock.
    pub message_time: u64,
}

impl Root {
    /// "millpond umem" and a number that does not occur in text.
    pub const MAGIC: [u64; 2] = [u64::from_le_bytes(*b"millpond"), u64::from_le_bytes(*b" umem\0\xf1\x0d")];
    /// Incremented with each change of this file's layout.
    pub const VERSION: u32 = 3;
}

/// Indices of [`Root::logs`].
pub mod logs {
    /// Allocations and frees.
    pub const TRANSACTION: usize = 0;
    /// Contents of freed buffers.
    pub const CONTENTS: usize = 1;
    /// Failed allocations.
    pub const FAIL: usize = 2;
    /// New slabs.
    pub const SLAB: usize = 3;
}

/// A ring log of records. A transaction is a copy of a [`Bufctl`] with its stack.
#[repr(C)]
#[derive(Debug)]
pub struct Log {
    /// The records; null: no such log.
    pub base: *mut u8,
    /// Size of a record in bytes.
    pub stride: usize,
    /// Capacity in records.
    pub entries: usize,
    /// Total number of records. The next one goes to this index modulo `entries`.
    pub next: usize,
}

/// A region of the library's own memory: caches, spans, bufctls, magazines, page-map tables, thread blocks, logs. Parts may be free.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    /// The region that was mapped before.
    pub next: *mut Region,
    /// Its first byte.
    pub base: *mut u8,
    /// Size in bytes.
    pub bytes: usize,
}

/// Statistics of spans, in bytes unless stated otherwise.
#[repr(C)]
#[derive(Debug)]
pub struct Heap {
    /// Mapped for spans.
    pub mapped: usize,
    /// In slabs and large buffers.
    pub used: usize,
    /// In large buffers.
    pub large: usize,
    /// Number of large buffers.
    pub large_buffers: u64,
    /// Total allocations of large buffers, without those of [`Thread::reused`].
    pub large_allocs: u64,
    /// Number of failed allocations.
    pub failures: u64,
    /// Used for caches, spans, bufctls, magazines and thread blocks.
    pub meta: usize,
}

/// A cache of buffers of one size.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Cache {
    /// Zero-terminated name.
    pub name: [u8; NAME],
    /// Index in [`Thread::pairs`]; [`NO_PAIR`]: no magazines.
    pub index: u32,
    /// A combination of [`flags`].
    pub flags: u32,
    /// Flags of the creator.
    pub cflags: u32,
    /// Chunks per slab.
    pub chunks: u32,
    /// Requested size of a buffer in bytes.
    pub size: usize,
    /// Offset of the buffer in a chunk, modulo `align`, in bytes.
    pub shift: usize,
    /// Alignment of buffers in bytes.
    pub align: usize,
    /// Distance from one buffer to the next, in bytes.
    pub chunk: usize,
    /// Size of a slab in bytes.
    pub slab: usize,
    /// Distance from a buffer to its tag in bytes; 0: no tags.
    pub tag: usize,
    /// Bytes of a buffer that are compared with the patterns.
    pub verify: usize,
    /// Distance from one bufctl of a slab to the next in bytes; 0: no bufctls.
    pub bufctl: usize,
    /// Constructs an object in a buffer.
    pub constructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int>,
    /// Destroys an object.
    pub destructor: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    /// Called when memory is short.
    pub reclaim: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Argument of these three functions.
    pub private: *mut c_void,
    /// The next cache in the list of all.
    pub next: *mut Cache,
    /// The previous one.
    pub previous: *mut Cache,
    /// Allocations of ended threads, and those without a pair.
    pub allocs: u64,
    /// Failed allocations.
    pub failures: u64,
    /// Its slabs.
    pub slabs: Slabs,
    /// Magazines that no thread has loaded.
    pub depot: Depot,
}

/// The slabs of a cache.
#[repr(C)]
#[derive(Debug)]
pub struct Slabs {
    /// Lock of the following fields.
    pub lock: u32,
    /// Offset of the next slab's first chunk (slab colouring), in bytes.
    pub colour: u32,
    /// Slabs with free chunks; the next by [`Span::next`].
    pub partial: *mut Span,
    /// Slabs without free chunks.
    pub full: *mut Span,
    /// Number of slabs.
    pub count: u64,
    /// Total slabs created.
    pub created: u64,
    /// Total slabs freed.
    pub destroyed: u64,
    /// Chunks of all slabs.
    pub buffers: u64,
    /// Maximum of `buffers`.
    pub most: u64,
    /// Chunks that are not free here: allocated, or in a magazine.
    pub taken: u64,
}

/// Magazines that no thread has loaded.
#[repr(C)]
#[derive(Debug)]
pub struct Depot {
    /// A thread uses the share with its thread ID modulo [`SHARES`] first.
    pub shares: [Share; SHARES],
}

/// Magazines of a part of the threads.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Share {
    /// Lock of the following fields.
    pub lock: u32,
    /// Rounds of a new magazine.
    pub rounds: u32,
    /// How often the lock was contended.
    pub contention: u64,
    /// `contention` at the latest update.
    pub contention_before: u64,
    /// Exchanges of magazines since the size of new ones changed.
    pub exchanges: u64,
    /// Magazines with rounds.
    pub full: Pile,
    /// Magazines without rounds.
    pub empty: Pile,
}

/// A stack of magazines.
#[repr(C)]
#[derive(Debug)]
pub struct Pile {
    /// The top one; the next by [`Magazine::link`].
    pub top: *mut Magazine,
    /// Number of magazines.
    pub count: u64,
    /// Minimum of `count` since the latest update: those that were not needed.
    pub fewest: u64,
    /// Minimum of `count` between the last two updates: those that may be freed.
    pub spare: u64,
    /// Number of magazines taken recently.
    pub taken: u64,
}

impl Pile {
    /// An empty pile.
    pub const EMPTY: Pile = Pile { top: core::ptr::null_mut(), count: 0, fewest: 0, spare: 0, taken: 0 };
}

/// The head of a magazine; its rounds follow, eight bytes each.
#[repr(C)]
#[derive(Debug)]
pub struct Magazine {
    /// The next one of a pile in the lower 48 bits, the number of its rounds in the eight bits above, and its capacity in the highest eight. With
    /// every value of [`Share::rounds`], a magazine is a whole number of cache lines.
    pub link: u64,
}

/// The block of a thread.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Thread {
    /// The next block in the list of all.
    pub next: *mut Thread,
    /// The thread's ID; 0: the block is free.
    pub tid: u32,
    /// 1: the thread is exchanging a magazine or a large buffer, and one of its pairs may be inconsistent.
    pub busy: u32,
    /// Spans of large buffers that it freed: the pointer in the lower 48 bits, their number of [`PAGE`]s in the 16 above; 0: none. Other threads may
    /// take them.
    pub kept: [u64; KEPT],
    /// Maximum total pages of `kept`, since the update with number `update`.
    pub quota: u32,
    /// Number of an update.
    pub update: u32,
    /// Large allocations served from `kept`, which [`Heap::large_allocs`] does not count.
    pub reused: u64,
    /// A pair for each cache, by [`Cache::index`].
    pub pairs: [Pair; PAIRS],
}

/// Magazines of a thread for a cache. All null: none yet.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Pair {
    /// After the last round of the loaded magazine.
    pub top: *mut *mut u8,
    /// Its first round. The head of the magazine is before it.
    pub base: *mut *mut u8,
    /// After its last place.
    pub limit: *mut *mut u8,
    /// The previously loaded magazine, full or empty.
    pub previous: *mut Magazine,
    /// Rounds in the previous one.
    pub previous_rounds: u32,
    /// Capacity of the previous one.
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
    /// Size in bytes.
    pub bytes: usize,
    /// A value of [`kind`].
    pub kind: u32,
    /// Bytes from the beginning that may be non-zero. The rest is zeros.
    pub dirty: usize,
    /// Next in its list.
    pub next: *mut Span,
    /// Previous in its list.
    pub previous: *mut Span,
    /// Cache of a slab.
    pub cache: *mut Cache,
    /// Large buffer: the requested size in bytes. Slab with a wall: its accessible bytes; 0: no wall.
    pub size: usize,
    /// Slab: chunks that are not free.
    pub taken: u32,
    /// Slab: offset of its first buffer in bytes. Large buffer: size of the wall at its end; 0: no wall.
    pub first: u32,
    /// Slab: index of the chunk at which the next search begins.
    pub hint: u32,
    /// 1: it has a mapping of its own, which is unmapped when it is freed.
    pub alone: u32,
    /// Slab of a cache with bufctls: one for each chunk.
    pub bufctls: *mut u8,
    /// Slab: a bit for each chunk, set if it is free.
    pub free: [u64; CHUNKS / 64],
}

/// The tag after a buffer of a cache with checks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Buftag {
    /// [`patterns::REDZONE`], whose upper half may be an [encoded](patterns::encode) size.
    pub redzone: u64,
    /// Record of this buffer.
    pub bufctl: *mut Bufctl,
    /// `bufctl` ^ [`patterns::ALLOCATED`] or [`patterns::FREED`].
    pub bxstat: usize,
}

/// The record of a buffer. If it is audited, [`Root::frames`] return addresses follow.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Bufctl {
    /// The buffer.
    pub buffer: *mut u8,
    /// Its slab.
    pub span: *mut Span,
    /// Its cache.
    pub cache: *mut Cache,
    /// Time of the latest allocation or free, in nanoseconds of the monotonic clock.
    pub time: u64,
    /// Kernel thread ID of the caller.
    pub thread: u32,
    /// Number of return addresses.
    pub depth: u32,
    /// The record of this transaction in the log, or null.
    pub log: *mut Bufctl,
    /// In a record of the log: the previous record of this buffer in the log.
    pub before: *mut Bufctl,
    /// Its contents when it was freed, in the log of contents, or null.
    pub contents: *mut u8,
    /// Size of the saved contents in bytes.
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
