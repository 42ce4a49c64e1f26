//! Dispatch tables in the layout of the header.

/// Levels of the TS and IA table, 0 to 59.
pub const TS_LEVELS: usize = 60;

/// Levels of the FX table, 0 to 60.
pub const FX_LEVELS: usize = 61;

/// An infinite slice.
pub const FOREVER: i64 = i64::MAX;

/// A row of the TS and IA table: `struct rule_ts_row`. A thread's system priority selects the row; for `maxwait` its level does.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TsRow {
    /// The slice: nanoseconds for BPF, clock ticks on the host.
    pub quantum: i64,
    /// The system priority after the end of the slice.
    pub tqexp: i32,
    /// The system priority after too long a wait: at sleep, wake-up and return to user mode.
    pub slpret: i32,
    /// The system priority after too long a wait: by the once-per-second update, of a queued or sleeping thread.
    pub lwait: i32,
    /// The longest wait in seconds; a longer one is too long. `u32::MAX`: no limit.
    pub maxwait: u32,
}

/// All tables: `struct rule_tables`.
#[repr(C)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// The TS and IA table, by level.
    pub ts: [TsRow; TS_LEVELS],
    /// The slice of each FX level, [`FOREVER`] for an infinite one. The same unit as [`TsRow::quantum`].
    pub fx: [i64; FX_LEVELS],
    /// The slice of the classes [`Sys`](crate::Class::Sys) and [`Idle`](crate::Class::Idle). The same unit.
    pub sys: i64,
}

impl Tables {
    /// The same tables with slices in a smaller unit; `units` of them make one present unit. With 10,000,000, ticks at 100 Hz become
    /// nanoseconds. [`FOREVER`] and overflows become [`FOREVER`].
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
