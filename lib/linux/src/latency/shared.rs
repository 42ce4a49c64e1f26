//! Memory shared by the probe, a separate process, and its parent.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of samples that wake the reader.
pub(super) const BUFFER: u64 = 5_000;
/// Room for two buffers: one is read while the other is filled.
const ROOM: usize = 10_000;
/// Words of a sample: due time, three stamps, user mode.
pub(super) const SAMPLE_WORDS: usize = 5;
/// Number of longest waits that are kept with their events.
pub(super) const WORST: usize = 16;
/// Number of events that are kept per wait.
pub(super) const MOMENTS: usize = 96;
/// Words of an event.
pub(super) const MOMENT_WORDS: usize = 4;

/// Why the probe ended: upper half of [`Shared::ended`]. The lower half is the system's error number.
pub(super) const NO_LOCK: u64 = 1;
/// No permission for the real-time class.
pub(super) const NO_CLASS: u64 = 2;
/// The probe was moved to another CPU.
pub(super) const MOVED: u64 = 3;
/// The tracer refuses the wait for its timers.
pub(super) const NO_TIMER: u64 = 4;

/// One of the longest waits.
#[repr(C)]
pub(super) struct Slot {
    /// Sequence number; odd during a write.
    turn: AtomicU64,
    sample: [AtomicU64; SAMPLE_WORDS],
    count: AtomicU64,
    moments: [[AtomicU64; MOMENT_WORDS]; MOMENTS],
}

impl Slot {
    /// Time from due time to user mode; 0 while empty.
    fn total(&self) -> u64 {
        let at = |word: usize| self.sample[word].load(Ordering::Relaxed);
        at(SAMPLE_WORDS - 1).wrapping_sub(at(0))
    }
}

/// The shared memory. It begins as zeros.
#[repr(C)]
pub(super) struct Shared {
    /// Whether the probe measures.
    pub ready: AtomicU64,
    /// Why the probe ended; see [`MOVED`].
    pub ended: AtomicU64,
    /// Number of samples that did not fit.
    pub lost: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
    /// The shortest of the longest waits. Shorter samples need not read the slots, each of which is on pages of its own.
    least: AtomicU64,
    samples: [[AtomicU64; SAMPLE_WORDS]; ROOM],
    worst: [Slot; WORST],
}

impl Shared {
    /// Number of unread samples.
    pub fn waiting(&self) -> u64 {
        self.written.load(Ordering::Acquire).wrapping_sub(self.read.load(Ordering::Relaxed))
    }

    /// Adds a sample. Only the probe calls this.
    pub fn push(&self, sample: &[u64; SAMPLE_WORDS]) {
        let at = self.written.load(Ordering::Relaxed);
        if at.wrapping_sub(self.read.load(Ordering::Acquire)) >= ROOM as u64 {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        store(&self.samples[place(at)], sample);
        self.written.store(at.wrapping_add(1), Ordering::Release);
    }

    /// Takes all unread samples.
    pub fn take(&self) -> Vec<[u64; SAMPLE_WORDS]> {
        let count = self.waiting();
        let from = self.read.load(Ordering::Relaxed);
        let samples = (0..count).map(|n| load(&self.samples[place(from.wrapping_add(n))])).collect();
        self.read.store(from.wrapping_add(count), Ordering::Release);
        samples
    }

    /// Keeps a sample if it is among the longest. `moment` returns the n-th last event, from 0 to below `count`. Only the probe
    /// calls this.
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

    /// The longest waits, each with its events, newest first. A slot that is being replaced is left out.
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

/// The mapping of the shared memory.
pub(super) struct Mapped(NonNull<Shared>);

impl Mapped {
    /// New zeroed memory, shared with processes that are forked later.
    pub fn new() -> io::Result<Mapped> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses; it replaces no memory.
        let base =
            unsafe { mmap_anonymous(std::ptr::null_mut(), size_of::<Shared>(), prot, MapFlags::SHARED) }?;
        NonNull::new(base.cast()).map(Mapped).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

impl Deref for Mapped {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        // SAFETY: mapped with that size and page-aligned, and zeros are valid. All fields are atomic, so another process may
        // change them.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping with this length, and no borrow of it is left.
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
