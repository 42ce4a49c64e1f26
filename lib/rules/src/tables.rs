//! Dispatch tables in the layout of the header.

/// Levels of the table of TS and IA, 0 to 59.
pub const TS_LEVELS: usize = 60;

/// Levels of the table of FX, 0 to 60.
pub const FX_LEVELS: usize = 61;

/// A slice that never ends.
pub const FOREVER: i64 = i64::MAX;

/// A level of the table of TS and IA: `struct rule_ts_row`. The level of a thread's system part finds the row, for `maxwait` that of the sum.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TsRow {
    /// The slice: nanoseconds for BPF, clock ticks on the host.
    pub quantum: i64,
    /// The system's part after the slice was used up.
    pub tqexp: i32,
    /// The system's part after too long a wait: at sleep, wake-up and return to user mode.
    pub slpret: i32,
    /// The system's part after too long a wait: by the update of each second, of a thread that is queued or asleep.
    pub lwait: i32,
    /// More seconds than these are too long a wait. `u32::MAX`: no wait is.
    pub maxwait: u32,
}

/// All tables: `struct rule_tables`.
#[repr(C)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// That of TS and IA, by level.
    pub ts: [TsRow; TS_LEVELS],
    /// The slice of each level of FX, [`FOREVER`] for one that never ends. The same unit as [`TsRow::quantum`].
    pub fx: [i64; FX_LEVELS],
    /// The slice of the classes [`Sys`](crate::Class::Sys) and [`Idle`](crate::Class::Idle). The same unit.
    pub sys: i64,
}

impl Tables {
    /// The same tables with each slice in a unit of which one of theirs has so many: with 10,000,000, ticks at 100 Hz become nanoseconds.
    /// [`FOREVER`] stays, and what would be more is that.
    #[must_use]
    pub fn in_units(&self, units: i64) -> Tables {
        let mut tables = self.clone();
        let slices = tables.ts.iter_mut().map(|row| &mut row.quantum);
        for slice in slices.chain(&mut tables.fx).chain([&mut tables.sys]) {
            *slice = slice.saturating_mul(units);
        }
        tables
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_and_what_never_ends_does_not_end() {
        let mut ticks =
            Tables { ts: [TsRow { quantum: 20, maxwait: 3, ..TsRow::default() }; 60], fx: [4; 61], sys: 2 };
        ticks.fx[60] = FOREVER;
        let ns = ticks.in_units(10_000_000);
        assert_eq!((ns.ts[0].quantum, ns.ts[59].quantum, ns.ts[0].maxwait), (200_000_000, 200_000_000, 3));
        assert_eq!((ns.fx[0], ns.fx[60], ns.sys), (40_000_000, FOREVER, 20_000_000));
    }
}
