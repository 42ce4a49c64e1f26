//! Decodes words of maps and rings, in the layout of nesting.h.

use super::{KINDS, Origin, Stretch, Sum, What};
use crate::mapped::text;

/// Words of `struct what`, `struct frame` and `struct state` in nesting.h.
pub(super) const WHAT_WORDS: usize = 5;
const FRAME_WORDS: usize = WHAT_WORDS + 3;
/// Index of the time when the CPU left home; the longest part of the stretch and its activity follow.
pub(super) const AWAY: usize = 2;
pub(super) const FRAMES: usize = 5 + WHAT_WORDS;
pub(super) const DEEP: usize = FRAMES - 1;
pub(super) const STATE_WORDS: usize = FRAMES + 8 * FRAME_WORDS;

/// Decodes `struct what`: kind and origin, name, two words of text, process.
pub(super) fn what_of(words: &[u64]) -> Option<What> {
    let &[kind, name, first, second, process] = words else { return None };
    let index = usize::try_from(kind & 0xffff).ok()?.checked_sub(1)?;
    let whose = match kind >> 16 {
        0 => Origin::Others,
        1 => Origin::Job,
        _ => Origin::Watcher,
    };
    Some(What { kind: *KINDS.get(index)?, whose, name, thread: text(&[first, second]), process })
}

pub(super) fn sum(key: &[u64], value: &[u64]) -> Option<Sum> {
    let &[processor, kind, name, first, second] = key else { return None };
    let &[count, total_ns, longest_ns, longest_at_ns, process] = value else { return None };
    let what = what_of(&[kind, name, first, second, process])?;
    let processor = u32::try_from(processor).ok()?;
    Some(Sum { processor, what, count, total_ns, longest_ns, longest_at_ns })
}

/// The thread that a CPU runs now, unless it is the job's: its present run is in no sum yet.
pub(super) fn going_on(processor: u64, state: &[u64], now_ns: u64) -> Option<Sum> {
    let base = state.get(FRAMES..FRAMES + FRAME_WORDS)?;
    let what = what_of(base.get(..WHAT_WORDS)?)?;
    let (start, inner) = (base[WHAT_WORDS + 1], base[WHAT_WORDS + 2]);
    let own = now_ns.saturating_sub(start).saturating_sub(inner);
    let processor = u32::try_from(processor).ok()?;
    let sum = Sum { processor, what, count: 1, total_ns: own, longest_ns: own, longest_at_ns: start };
    (state.first() == Some(&1) && start > 0).then_some(sum)
}

/// The stretch in progress on a CPU. Its longest part may be the thread that runs now.
pub(super) fn away(processor: u64, state: &[u64], now_ns: u64) -> Option<Stretch> {
    let (on, since, worst) = (*state.first()?, *state.get(AWAY)?, *state.get(AWAY + 1)?);
    if on == 0 || since == 0 || since > now_ns {
        return None;
    }
    let base = going_on(processor, state, now_ns).filter(|base| base.total_ns >= worst);
    let culprit = base.map(|base| base.what).or_else(|| what_of(state.get(AWAY + 2..DEEP)?))?;
    let processor = u32::try_from(processor).ok()?;
    Some(Stretch { processor, at_ns: since, length_ns: now_ns.saturating_sub(since), culprit })
}

/// Adds to the sum of the same disturbance, or appends a new one.
pub(super) fn join(sums: &mut Vec<Sum>, more: Sum) {
    let same = |sum: &&mut Sum| {
        let (a, b) = (&sum.what, &more.what);
        sum.processor == more.processor
            && (a.kind, a.whose, a.name, &a.thread) == (b.kind, b.whose, b.name, &b.thread)
    };
    match sums.iter_mut().find(same) {
        Some(sum) => {
            sum.count += more.count;
            sum.total_ns += more.total_ns;
            if more.longest_ns > sum.longest_ns {
                (sum.longest_ns, sum.longest_at_ns) = (more.longest_ns, more.longest_at_ns);
            }
        }
        None => sums.push(more),
    }
}
