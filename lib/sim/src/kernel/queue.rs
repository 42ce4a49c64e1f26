//! Dispatch queues: a FIFO list of threads for each global priority. Every CPU has one. Every partition has one more, the kp queue,
//! for threads that may preempt the kernel.

use super::ids::{CpuIndex, QueueId, Table, ThreadId};
use super::thread::Thread;
use serde::{Deserialize, Serialize};
use std::ops::{Index, IndexMut};

/// Global priorities, 0 to 169.
pub const LEVELS: usize = 170;

/// One more than the best priority.
pub const LEVELS_END: i16 = 170;

/// The priority of an idle CPU or an empty queue.
pub const IDLE: i16 = -1;

/// "No thread" in links.
pub const NONE: ThreadId = ThreadId(u32::MAX);

/// The threads of one priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    head: ThreadId,
    tail: ThreadId,
    len: u32,
}

const EMPTY: Level = Level { head: NONE, tail: NONE, len: 0 };

/// A saved queue: the levels with threads, each with its first and last thread and their number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    levels: Vec<(u8, ThreadId, ThreadId, u32)>,
    best_unbound: i16,
    steal_after: u64,
}

/// A dispatch queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Saved", into = "Saved")]
pub struct Queue {
    levels: Vec<Level>,
    /// Bit set of levels with threads.
    map: [u64; 3],
    /// Number of threads.
    len: u32,
    /// The best priority, [`IDLE`] if empty.
    pub best: i16,
    /// Upper bound of the priorities of threads that are not bound to a CPU.
    pub best_unbound: i16,
    /// No thread may be stolen before this time, in nanoseconds.
    pub steal_after: u64,
}

impl From<Queue> for Saved {
    fn from(queue: Queue) -> Self {
        let full = (0u8..).zip(&queue.levels).filter(|(_, level)| level.len > 0);
        let levels = full.map(|(pri, level)| (pri, level.head, level.tail, level.len)).collect();
        Saved { levels, best_unbound: queue.best_unbound, steal_after: queue.steal_after }
    }
}

impl From<Saved> for Queue {
    /// Drops levels beyond the last; the check of the whole kernel finds the threads without a queue.
    fn from(saved: Saved) -> Self {
        let mut queue =
            Queue { best_unbound: saved.best_unbound, steal_after: saved.steal_after, ..Queue::default() };
        for (pri, head, tail, len) in saved.levels {
            let at = usize::from(pri);
            if at < LEVELS && len > 0 {
                queue.levels[at] = Level { head, tail, len };
                queue.map[at / 64] |= 1 << (at % 64);
                queue.len = queue.len.saturating_add(len);
                queue.best = queue.best.max(i16::from(pri));
            }
        }
        queue
    }
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            levels: vec![EMPTY; LEVELS],
            map: [0; 3],
            len: 0,
            best: IDLE,
            best_unbound: IDLE,
            steal_after: 0,
        }
    }
}

impl Queue {
    /// Number of threads.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of threads of one priority.
    #[must_use]
    pub fn len_at(&self, pri: i16) -> u32 {
        self.levels[index(pri)].len
    }

    /// Inserts a thread that is in no queue. Returns whether it is better than all others.
    pub fn insert(&mut self, threads: &mut Table<ThreadId, Thread>, thread: ThreadId, front: bool) -> bool {
        let t = &threads[thread];
        let (pri, bound) = (t.effective(), t.bound.is_some());
        let at = index(pri);
        let level = &mut self.levels[at];
        let (prev, next) = if front { (NONE, level.head) } else { (level.tail, NONE) };
        let t = &mut threads[thread];
        (t.prev, t.next) = (prev, next);
        match prev {
            NONE => level.head = thread,
            prev => threads[prev].next = thread,
        }
        match next {
            NONE => level.tail = thread,
            next => threads[next].prev = thread,
        }
        level.len += 1;
        self.map[at / 64] |= 1 << (at % 64);
        self.len += 1;
        if !bound {
            self.best_unbound = self.best_unbound.max(pri);
        }
        let better = pri > self.best;
        self.best = self.best.max(pri);
        better
    }

    /// Removes a thread of this queue.
    pub fn remove(&mut self, threads: &mut Table<ThreadId, Thread>, thread: ThreadId) {
        let t = &mut threads[thread];
        let (pri, prev, next) = (t.effective(), t.prev, t.next);
        (t.prev, t.next) = (NONE, NONE);
        let at = index(pri);
        let level = &mut self.levels[at];
        match prev {
            NONE => level.head = next,
            prev => threads[prev].next = next,
        }
        match next {
            NONE => level.tail = prev,
            next => threads[next].prev = prev,
        }
        level.len -= 1;
        self.len -= 1;
        if level.len == 0 {
            self.map[at / 64] &= !(1 << (at % 64));
            if pri == self.best {
                self.best = self.highest_at_most(pri);
            }
        }
        self.best_unbound = self.best_unbound.min(self.best);
    }

    /// The first thread of the best priority.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<ThreadId> {
        if self.best == IDLE { None } else { Some(self.levels[index(self.best)].head) }
    }

    /// The best thread that is not bound to a CPU and for which `wanted` holds. Corrects [`Queue::best_unbound`].
    pub fn first_unbound(
        &mut self,
        threads: &Table<ThreadId, Thread>,
        wanted: impl Fn(ThreadId) -> bool,
    ) -> Option<ThreadId> {
        let (mut best, mut found) = (IDLE, None);
        let mut pri = self.highest_at_most(self.best_unbound);
        while pri != IDLE && found.is_none() {
            let mut at = self.levels[index(pri)].head;
            while at != NONE && found.is_none() {
                let t = &threads[at];
                if t.bound.is_none() {
                    best = best.max(pri);
                    found = Some(at).filter(|at| wanted(*at));
                }
                at = t.next;
            }
            pri = self.highest_at_most(pri - 1);
        }
        self.best_unbound = best;
        found
    }

    /// All threads, best first.
    pub fn threads<'a>(
        &'a self,
        threads: &'a Table<ThreadId, Thread>,
    ) -> impl Iterator<Item = ThreadId> + 'a {
        // Most queues of a large machine are empty.
        let used = usize::try_from(self.best).map_or(0, |best| best + 1);
        let levels = self.levels[..used].iter().rev().filter(|level| level.len > 0);
        levels.flat_map(move |level| {
            std::iter::successors(Some(level.head), |at| Some(threads[*at].next).filter(|next| *next != NONE))
        })
    }

    /// All threads of one priority, in order.
    pub fn threads_at<'a>(
        &'a self,
        threads: &'a Table<ThreadId, Thread>,
        pri: i16,
    ) -> impl Iterator<Item = ThreadId> + 'a {
        let link = |at: ThreadId| Some(at).filter(|at| *at != NONE);
        std::iter::successors(link(self.levels[index(pri)].head), move |at| link(threads[*at].next))
    }

    /// The levels with threads: priority, first, last and number.
    pub fn full_levels(&self) -> impl Iterator<Item = (i16, ThreadId, ThreadId, u32)> + '_ {
        let full = (0i16..).zip(&self.levels).filter(|(_, level)| level.len > 0);
        full.map(|(pri, level)| (pri, level.head, level.tail, level.len))
    }

    /// The highest priority at or below `pri` that has threads.
    #[inline]
    fn highest_at_most(&self, pri: i16) -> i16 {
        if pri < 0 {
            return IDLE;
        }
        let at = index(pri);
        let mut word = at / 64;
        let mut bits = self.map[word] & (u64::MAX >> (63 - at % 64));
        loop {
            if bits != 0 {
                let bit = 63 - bits.leading_zeros();
                return i16::try_from(word * 64 + bit as usize).unwrap_or(IDLE);
            }
            if word == 0 {
                return IDLE;
            }
            word -= 1;
            bits = self.map[word];
        }
    }
}

/// The index of a priority's level.
#[inline]
#[expect(clippy::cast_sign_loss, reason = "priorities of threads are never negative")]
fn index(pri: i16) -> usize {
    debug_assert!((0..170).contains(&pri), "priority {pri}");
    pri.max(0) as usize
}

/// The queue of a CPU.
impl Index<CpuIndex> for Table<QueueId, Queue> {
    type Output = Queue;

    #[inline]
    fn index(&self, cpu: CpuIndex) -> &Queue {
        &self[QueueId::from(cpu)]
    }
}

impl IndexMut<CpuIndex> for Table<QueueId, Queue> {
    #[inline]
    fn index_mut(&mut self, cpu: CpuIndex) -> &mut Queue {
        &mut self[QueueId::from(cpu)]
    }
}
