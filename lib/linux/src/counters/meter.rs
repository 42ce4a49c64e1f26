//! Monotonic meters: counts that never decrease when their source changes.
//!
//! The source of a CPU's figure can change. A group of events is opened again after the CPU was off-line, or a table replaces the
//! events when the CPU is fenced. Absolute values of different sources are not comparable, so a meter only adds differences
//! within one source.

use millpond_model::{COLUMNS, Column, Ticks};

/// The meter of one column.
#[derive(Debug, Clone, Copy, Default)]
struct Meter {
    /// The last source and its value.
    last: Option<(u32, u64)>,
    total: u64,
}

/// The meters of one CPU.
#[derive(Debug, Default)]
pub(super) struct Meters {
    columns: [Meter; COLUMNS.len()],
    ticks: Ticks,
}

impl Meters {
    /// Feeds a value and returns the meter's total. The total begins at 0. It does not change when the source differs from the
    /// last one.
    pub(super) fn advance(&mut self, column: Column, source: u32, value: u64) -> u64 {
        let meter = &mut self.columns[column.index()];
        if let Some((_, before)) = meter.last.filter(|(last, _)| *last == source) {
            meter.total = meter.total.saturating_add(value.saturating_sub(before));
        }
        meter.last = Some((source, value));
        meter.total
    }

    /// Ticks by kind, made monotonic. The kernel's idle and I/O wait times can decrease by a tick.
    pub(super) fn advance_ticks(&mut self, now: Ticks) -> Ticks {
        self.ticks = Ticks {
            user: now.user.max(self.ticks.user),
            sys: now.sys.max(self.ticks.sys),
            wait: now.wait.max(self.ticks.wait),
            idle: now.idle.max(self.ticks.idle),
            steal: now.steal.max(self.ticks.steal),
        };
        self.ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::Nanos;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_meter_never_goes_back_and_holds_what_each_source_added(
            feeds in proptest::collection::vec((0u32..3, proptest::collection::vec(0u64..1000, 1..5)), 1..6)
        ) {
            let mut meters = Meters::default();
            let (mut expected, mut last, mut fed) = (0, 0, None);
            for (source, values) in feeds {
                for value in values {
                    if let Some((_, before)) = fed.filter(|(from, _)| *from == source) {
                        expected += u64::saturating_sub(value, before);
                    }
                    fed = Some((source, value));
                    let total = meters.advance(Column::Syscl, source, value);
                    prop_assert!(total >= last);
                    last = total;
                }
            }
            prop_assert_eq!(last, expected);
            prop_assert_eq!(meters.advance(Column::Csw, 0, 7), 0);
        }

        #[test]
        fn time_by_use_never_goes_back(times in proptest::collection::vec(proptest::array::uniform5(0u64..100), 2..6)) {
            let mut meters = Meters::default();
            let mut last = Ticks::default();
            for time in times {
                let [user, sys, wait, idle, steal] = time.map(Nanos);
                let now = meters.advance_ticks(Ticks { user, sys, wait, idle, steal });
                prop_assert!(now.idle >= last.idle && now.total() >= last.total());
                last = now;
            }
        }
    }

    #[test]
    fn a_change_of_source_is_no_event() {
        let mut meters = Meters::default();
        assert_eq!(meters.advance(Column::Csw, 2, 100), 0);
        assert_eq!(meters.advance(Column::Csw, 2, 130), 30);
        assert_eq!(meters.advance(Column::Csw, 0, 9_000_000), 30);
        assert_eq!(meters.advance(Column::Csw, 0, 9_000_005), 35);
    }
}
