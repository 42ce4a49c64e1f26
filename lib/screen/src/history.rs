//! Recent pressure of sets, for sparklines.

use millpond_observe::catalogue::{Entity, pset};
use millpond_observe::{Frame, Row, RowKey};
use std::collections::{HashMap, VecDeque};

/// Number of stored intervals.
const LENGTH: usize = 60;

/// The recent pressures of each set, oldest first.
#[derive(Debug, Default)]
pub struct History {
    waits: HashMap<RowKey, VecDeque<f64>>,
}

/// Average number of the set's threads that waited for a CPU: 1 is one thread that waited all the time. Where only the time is known in which any
/// thread waited, the fraction of that time.
pub fn waiting(row: &Row) -> Option<f64> {
    row.number(pset::WAITED).or_else(|| row.number(pset::PRESSED))
}

impl History {
    /// Stores an interval, and removes sets that no longer exist.
    pub fn push(&mut self, interval: &Frame) {
        let mut waits = HashMap::new();
        for row in interval.rows(Entity::Pset) {
            let key = row.key();
            let mut known = self.waits.remove(&key).unwrap_or_default();
            known.push_back(waiting(row).unwrap_or(f64::NAN));
            if known.len() > LENGTH {
                known.pop_front();
            }
            waits.insert(key, known);
        }
        self.waits = waits;
    }

    /// The last `width` pressures of a set, oldest first; fewer if fewer are stored.
    pub fn of(&self, row: &Row, width: usize) -> Vec<f64> {
        let known = self.waits.get(&row.key());
        known
            .map(|all| all.iter().skip(all.len().saturating_sub(width)).copied().collect())
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Nanos, WallTime};

    fn interval(sets: &[(u32, f64)]) -> Frame {
        let mut frame = Frame::at(Nanos(0), WallTime(0));
        let row =
            |(id, waited): &(u32, f64)| Row::of(Entity::Pset).with(pset::ID, *id).with(pset::WAITED, *waited);
        frame.set_rows(Entity::Pset, sets.iter().map(row).collect());
        frame
    }

    #[test]
    fn the_latest_pressures_are_kept_and_sets_that_go_are_forgotten() {
        let mut history = History::default();
        for n in 0..70u32 {
            history.push(&interval(&[(0, f64::from(n)), (1, 0.5)]));
        }
        let now = interval(&[(0, 0.0), (1, 0.0)]);
        let rows = now.rows(Entity::Pset);
        assert_eq!(history.of(&rows[0], 3), [67.0, 68.0, 69.0]);
        assert_eq!(history.of(&rows[0], 100).len(), 60);
        history.push(&interval(&[(0, 1.0)]));
        assert!(history.of(&rows[1], 3).is_empty());
    }
}
