//! Memory that the probe, a process of its own, shares with its parent.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Samples in a buffer: when so many have come, whoever waits for them is given them.
pub(super) const BUFFER: u64 = 5_000;
/// There is room for two buffers: one is read while the other is filled.
const ROOM: usize = 10_000;
/// MappedWords of a sample: due, three stamps, user mode.
pub(super) const SAMPLE_WORDS: usize = 5;
/// How many of the longest waits are kept with what happened meanwhile.
pub(super) const WORST: usize = 16;
/// How many moments are kept of each.
pub(super) const MOMENTS: usize = 96;
/// MappedWords of a moment.
pub(super) const MOMENT_WORDS: usize = 4;

/// How the probe ended, as the upper half of [`Shared::ended`]; the lower half is the system's error.
pub(super) const NO_LOCK: u64 = 1;
/// It may not enter the real-time class.
pub(super) const NO_CLASS: u64 = 2;
/// It found itself on another CPU.
pub(super) const MOVED: u64 = 3;
/// The tracer does not let it wait for its timers.
pub(super) const NO_TIMER: u64 = 4;

/// One of the longest waits.
#[repr(C)]
pub(super) struct Slot {
    /// Odd while it is written.
    turn: AtomicU64,
    sample: [AtomicU64; SAMPLE_WORDS],
    count: AtomicU64,
    moments: [[AtomicU64; MOMENT_WORDS]; MOMENTS],
}

impl Slot {
    /// From when the timer was due to user mode; 0 before it holds anything.
    fn total(&self) -> u64 {
        let at = |word: usize| self.sample[word].load(Ordering::Relaxed);
        at(SAMPLE_WORDS - 1).wrapping_sub(at(0))
    }
}

/// All of it. Zeros are its beginning.
#[repr(C)]
pub(super) struct Shared {
    /// The probe measures.
    pub ready: AtomicU64,
    /// Why it does not any more; see [`MOVED`].
    pub ended: AtomicU64,
    /// Samples that found no room.
    pub lost: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    /// How long the least of the worst waited: what is below it need not look at them, each of which lies on pages of its own.
    least: AtomicU64,
    samples: [[AtomicU64; SAMPLE_WORDS]; ROOM],
    worst: [Slot; WORST],
}

impl Shared {
    /// Samples that wait to be read.
    pub fn waiting(&self) -> u64 {
        self.written.load(Ordering::Acquire).wrapping_sub(self.read.load(Ordering::Relaxed))
    }

    /// Adds a sample; the probe calls this, and nobody else.
    pub fn push(&self, sample: &[u64; SAMPLE_WORDS]) {
        let at = self.written.load(Ordering::Relaxed);
        if at.wrapping_sub(self.read.load(Ordering::Acquire)) >= ROOM as u64 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        store(&self.samples[place(at)], sample);
        self.written.store(at.wrapping_add(1), Ordering::Release);
    }

    /// Takes all samples that wait.
    pub fn take(&self) -> Vec<[u64; SAMPLE_WORDS]> {
        let count = self.waiting();
        let from = self.read.load(Ordering::Relaxed);
        let samples = (0..count).map(|n| load(&self.samples[place(from.wrapping_add(n))])).collect();
        self.read.store(from.wrapping_add(count), Ordering::Release);
        samples
    }

    /// Keeps a sample among the worst if it is one. `moment` gives the n-th last moment, from 0 to below `count`. The probe calls this, and nobody else.
    pub fn keep(
        &self,
        sample: &[u64; SAMPLE_WORDS],
        count: u64,
        moment: impl Fn(u64) -> [u64; MOMENT_WORDS],
    ) {
        if sample[SAMPLE_WORDS - 1].wrapping_sub(sample[0]) <= self.least.load(Ordering::Relaxed) {
            return;
        }
        let mut least = &self.worst[0];
        for slot in &self.worst[1..] {
            if slot.total() < least.total() {
                least = slot;
            }
        }
        least.turn.fetch_add(1, Ordering::AcqRel);
        store(&least.sample, sample);
        let count = count.min(MOMENTS as u64);
        for n in 0..count {
            store(&least.moments[usize::try_from(n).unwrap_or(0)], &moment(n));
        }
        least.count.store(count, Ordering::Relaxed);
        least.turn.fetch_add(1, Ordering::Release);
        let now = self.worst.iter().map(Slot::total).min().unwrap_or(0);
        self.least.store(now, Ordering::Relaxed);
    }

    /// The worst, each with its moments, newest first. What is being replaced just now is left out.
    pub fn worst(&self) -> Vec<([u64; SAMPLE_WORDS], Vec<[u64; MOMENT_WORDS]>)> {
        let read = |slot: &Slot| {
            let turn = slot.turn.load(Ordering::Acquire);
            let sample = load(&slot.sample);
            let count = usize::try_from(slot.count.load(Ordering::Relaxed)).unwrap_or(0).min(MOMENTS);
            let moments = slot.moments[..count].iter().map(load).collect();
            std::sync::atomic::fence(Ordering::Acquire);
            let whole = turn > 0 && turn.is_multiple_of(2) && slot.turn.load(Ordering::Relaxed) == turn;
            whole.then_some((sample, moments))
        };
        let mut worst: Vec<_> = self.worst.iter().filter_map(read).collect();
        worst.sort_by_key(|(sample, _)| std::cmp::Reverse(sample[SAMPLE_WORDS - 1].wrapping_sub(sample[0])));
        worst
    }
}

fn place(at: u64) -> usize {
    usize::try_from(at % ROOM as u64).unwrap_or(0)
}

fn store<const N: usize>(to: &[AtomicU64; N], words: &[u64; N]) {
    for (to, word) in to.iter().zip(words) {
        to.store(*word, Ordering::Relaxed);
    }
}

fn load<const N: usize>(from: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|word| from[word].load(Ordering::Relaxed))
}

/// The memory itself.
pub(super) struct Mapped(NonNull<Shared>);

impl Mapped {
    /// New memory, all zeros, that processes share which are forked from now on.
    pub fn new() -> io::Result<Mapped> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; no memory of ours is replaced.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), size_of::<Shared>(), prot, MapFlags::SHARED) }?;
        NonNull::new(base.cast()).map(Mapped).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl Deref for Mapped {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        // SAFETY: mapped with that size, aligned to a page, and zeros are valid; everything in it is atomic, so that another process may
        // change it.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: made by `new` with this length, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), size_of::<Shared>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_taken_once_and_those_without_room_are_counted() {
        let shared = Mapped::new().unwrap();
        for n in 0..ROOM as u64 + 3 {
            shared.push(&[n, 0, 0, 0, n + 1]);
        }
        assert_eq!((shared.waiting(), shared.lost.load(Ordering::Relaxed)), (ROOM as u64, 3));
        let taken = shared.take();
        assert_eq!((taken.len(), taken[0][0], taken[ROOM - 1][0]), (ROOM, 0, ROOM as u64 - 1));
        shared.push(&[7, 0, 0, 0, 8]);
        assert_eq!(shared.take(), [[7, 0, 0, 0, 8]]);
        assert!(shared.take().is_empty());
    }

    #[test]
    fn the_worst_stay_longest_first_with_their_moments() {
        let shared = Mapped::new().unwrap();
        for total in (1..=40).chain((1..=40).rev()) {
            shared.keep(&[1000, 0, 0, 0, 1000 + total], 200, |n| [n, total, 0, 0]);
        }
        let worst = shared.worst();
        let totals: Vec<u64> = worst.iter().map(|(sample, _)| sample[4] - sample[0]).collect();
        assert_eq!(totals, [40, 40, 39, 39, 38, 38, 37, 37, 36, 36, 35, 35, 34, 34, 33, 33]);
        for ((_, moments), total) in worst.iter().zip(totals) {
            assert_eq!(moments.len(), MOMENTS);
            assert_eq!(moments[3], [3, total, 0, 0]);
        }
    }
}
