//! Memory corruption: patterns of free buffers, tags after buffers, and inconsistent counters.
//!
//! The process is stopped meanwhile. Otherwise a buffer that is just being freed would look corrupt.

use crate::cache::Cache;
use crate::heap::{FindError, Heap, State};
use crate::memory::{Memory, word_at};
use crate::span::Span;
use millpond_model::Nanos;
use millpond_rt_layout::{Bufctl, Buftag, flags, patterns};
use std::mem::{offset_of, size_of};

/// The kind of corruption of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Use after free: written at this address.
    FreeModified(u64),
    /// The redzone after a free buffer.
    FreeRedzone,
    /// The size encoded after an allocated buffer.
    Size,
    /// The byte after the requested size, or the redzone.
    Redzone,
    /// The link from the tag to its bufctl.
    Buftag,
    /// Its bufctl is of another buffer.
    Bufctl(u64),
    /// It cannot be read.
    Unreadable,
}

/// A corrupt buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrupt {
    /// Its address.
    pub buffer: u64,
    /// Whether it is allocated.
    pub allocated: bool,
    /// The kind of corruption.
    pub fault: Fault,
}

impl serde::Serialize for Corrupt {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl std::fmt::Display for Corrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.allocated { "allocated" } else { "free" };
        write!(f, "buffer {:x} ({state}) ", self.buffer)?;
        match &self.fault {
            Fault::FreeModified(at) => write!(f, "seems corrupted, at {at:x}"),
            Fault::FreeRedzone => f.write_str("seems to have a corrupt redzone pattern"),
            Fault::Size => f.write_str("has a corrupt redzone size encoding"),
            Fault::Redzone => f.write_str("has a corrupt redzone signature"),
            Fault::Buftag => f.write_str("has a corrupt buftag"),
            Fault::Bufctl(at) => write!(f, "has a corrupt bufctl, at {at:x}"),
            Fault::Unreadable => f.write_str("cannot be read"),
        }
    }
}

/// The result for a cache.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// Its address; hexadecimal.
    #[serde(rename = "address", serialize_with = "crate::hex")]
    #[schemars(with = "String")]
    pub at: u64,
    /// Whether it has checks that can detect corruption.
    pub checks: bool,
    /// Checked buffers.
    pub buffers: u64,
    /// Corrupt ones, ascending.
    #[schemars(with = "Vec<String>")]
    pub corrupt: Vec<Corrupt>,
    /// Sentences about inconsistent figures.
    pub disagreements: Vec<String>,
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Results of caches, in the order of their list.
    pub caches: Vec<Verdict>,
    /// Reports of invalid data other than buffers.
    pub problems: Vec<String>,
    /// The longest pause; `None`: it is not running.
    pub pause: Option<Nanos>,
}

impl Verified {
    /// Whether no cache has an error.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.caches.iter().all(|cache| cache.corrupt.is_empty() && cache.disagreements.is_empty())
    }
}

/// Verifies every cache of the heap with the root at an address.
///
/// # Errors
/// [`FindError`] if the process cannot be stopped, or its caches cannot be read.
pub fn verify(memory: &Memory<'_>, root: u64) -> Result<Verified, FindError> {
    let first = look(memory, root)?;
    let Some(pause) = first.pause.filter(|_| !first.is_clean()) else { return Ok(first) };
    // A thread may have been stopped in the middle of an allocation. Real corruption is found the next time, too.
    let mut second = look(memory, root)?;
    for verdict in &mut second.caches {
        let Some(before) = first.caches.iter().find(|before| before.at == verdict.at) else { continue };
        verdict.corrupt.retain(|corrupt| before.corrupt.contains(corrupt));
        if before.disagreements.is_empty() {
            verdict.disagreements.clear();
        }
    }
    second.pause = second.pause.max(Some(pause));
    Ok(second)
}

fn look(memory: &Memory<'_>, root: u64) -> Result<Verified, FindError> {
    let found = Heap::stopped(memory, root).map(|heap| (caches(&heap), heap.problems));
    let pause = memory.image().go_on();
    memory.forget();
    found.map(|(caches, problems)| Verified { caches, problems, pause })
}

fn caches(heap: &Heap<'_>) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = heap.caches.iter().map(begin).collect();
    let mut slabs = vec![0_u64; verdicts.len()];
    for span in &heap.spans {
        let crate::Use::Slab(place) = span.used else { continue };
        slabs[place] += 1;
        slab(heap, &heap.caches[place], span, &mut verdicts[place]);
    }
    for ((cache, verdict), slabs) in heap.caches.iter().zip(&mut verdicts).zip(slabs) {
        if cache.slabs.count != slabs {
            verdict
                .disagreements
                .push(format!("it says that it has {} slabs, and has {slabs}", cache.slabs.count));
        }
        if cache.slabs.buffers != verdict.buffers {
            let (says, has) = (cache.slabs.buffers, verdict.buffers);
            let said = format!("it says that it has {says} buffers, and has {has}");
            verdict.disagreements.push(said);
        }
    }
    for (round, place) in &heap.magazines.rounds {
        let span = heap.span(*round);
        let is_of_cache = span.is_some_and(|span| span.used == crate::Use::Slab(*place));
        let begins = span.zip(heap.caches.get(*place)).and_then(|(span, cache)| {
            span.chunk(cache, *round)
                .filter(|chunk| span.buffer(cache, *chunk) == *round && !span.is_free(*chunk))
        });
        if !(is_of_cache && begins.is_some()) {
            verdicts[*place]
                .disagreements
                .push(format!("a magazine has {round:x}, which is no buffer that it took"));
        }
    }
    for pair in heap.magazines.rounds.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        verdicts[pair[0].1].disagreements.push(format!("magazines have the buffer {:x} twice", pair[0].0));
    }
    verdicts
}

fn begin(cache: &Cache) -> Verdict {
    let checks = cache.tag > 0 || (cache.checks(flags::DEADBEEF) && cache.verify > 0);
    let (name, at) = (cache.name.clone(), cache.at);
    Verdict { name, at, checks, buffers: 0, corrupt: Vec::new(), disagreements: Vec::new() }
}

fn slab(heap: &Heap<'_>, cache: &Cache, span: &Span, verdict: &mut Verdict) {
    let free = (0..cache.chunks).filter(|chunk| span.is_free(*chunk)).count();
    if cache.chunks as usize - free != span.taken as usize {
        let said = format!(
            "slab {:x} says that {} buffers are taken, and {} are",
            span.base,
            span.taken,
            cache.chunks as usize - free
        );
        verdict.disagreements.push(said);
    }
    for chunk in 0..cache.chunks {
        verdict.buffers += 1;
        if !verdict.checks {
            continue;
        }
        let buffer = span.buffer(cache, chunk);
        let state = heap.state(span, cache, chunk);
        if state == State::InMagazine {
            continue;
        }
        let allocated = state == State::Allocated;
        let mut wrong = |fault| verdict.corrupt.push(Corrupt { buffer, allocated, fault });
        let length = if cache.tag > 0 { cache.tag + size_of::<Buftag>() } else { cache.verify };
        let Some(bytes) = heap.memory.bytes(buffer, length) else {
            wrong(Fault::Unreadable);
            continue;
        };
        let looked = Looked { heap, cache, bytes, buffer, bufctl: span.bufctl(cache, chunk) };
        if let Some(fault) = if allocated { looked.allocated() } else { looked.free() } {
            wrong(fault);
        }
    }
}

struct Looked<'a> {
    heap: &'a Heap<'a>,
    cache: &'a Cache,
    bytes: Vec<u8>,
    buffer: u64,
    bufctl: Option<u64>,
}

impl Looked<'_> {
    fn tag(&self, place: usize) -> u64 {
        word_at(&self.bytes, self.cache.tag.saturating_add(place))
    }

    fn free(&self) -> Option<Fault> {
        if self.cache.checks(flags::DEADBEEF)
            && let Some(at) = (0..self.cache.verify).step_by(8).find(|at| self.differs(*at))
        {
            return Some(Fault::FreeModified(self.buffer + at as u64));
        }
        if self.cache.tag > 0 && self.cache.checks(flags::REDZONE) && self.tag(0) != patterns::REDZONE {
            return Some(Fault::FreeRedzone);
        }
        self.control(patterns::FREED as u64)
    }

    /// Whether the compared part of a word differs from the pattern of free buffers.
    fn differs(&self, at: usize) -> bool {
        let count = (self.cache.verify - at).min(8);
        self.bytes.get(at..at + count) != Some(&patterns::FREE.to_le_bytes()[..count])
    }

    fn allocated(&self) -> Option<Fault> {
        if self.cache.tag > 0 && self.cache.checks(flags::REDZONE) && self.tag(0) != patterns::REDZONE {
            let [low, high] = [self.tag(0) & 0xffff_ffff, self.tag(0) >> 32];
            let size = u32::try_from(high).ok().and_then(patterns::decode).map(|size| size as usize);
            let Some(size) = size.filter(|size| *size <= self.cache.tag) else {
                return Some(Fault::Size);
            };
            // If the size ends where the tag begins, the end byte is the first byte of the redzone.
            let mark = patterns::REDZONE & 0xffff_ffff;
            let byte = u64::from(patterns::REDZONE_BYTE);
            let mark = if size == self.cache.tag { mark & !0xff | byte } else { mark };
            if self.bytes.get(size) != Some(&patterns::REDZONE_BYTE) || low != mark {
                return Some(Fault::Redzone);
            }
        }
        self.control(patterns::ALLOCATED as u64)
    }

    /// Checks the link from the tag to the bufctl, and the bufctl itself.
    fn control(&self, state: u64) -> Option<Fault> {
        if self.cache.tag == 0 {
            return None;
        }
        let told = self.tag(offset_of!(Buftag, bufctl));
        let expected = self.bufctl.is_none_or(|bufctl| told == bufctl);
        if !expected || told ^ self.tag(offset_of!(Buftag, bxstat)) != state {
            return Some(Fault::Buftag);
        }
        let bufctl = self.bufctl?;
        let buffer = self.heap.memory.word(bufctl.saturating_add(offset_of!(Bufctl, buffer) as u64));
        (buffer != Some(self.buffer)).then_some(Fault::Bufctl(bufctl))
    }
}
