//! The dispatch tables that Solaris installs (ts_dptbl(5), fx_dptbl(5)), in ticks at 100 Hz, and threads in them.

use millpond_rules::{Class, FX_LEVELS, TS_LEVELS, Tables, Thread, TsRow, host};
use std::array;

/// A step function: the value of the last step that begins at or below `level`.
fn step<T: Copy>(level: usize, steps: &[(usize, T)]) -> T {
    steps.iter().rev().find(|(first, _)| *first <= level).unwrap().1
}

fn fx() -> [i64; FX_LEVELS] {
    array::from_fn(|level| step(level, &[(0, 20), (10, 16), (20, 12), (30, 8), (40, 4), (59, 2)]))
}

fn number(level: usize) -> i32 {
    i32::try_from(level).unwrap()
}

/// The standard TS and IA table.
pub fn standard() -> Tables {
    let slpret =
        [(0, 50), (10, 51), (20, 52), (30, 53), (35, 54), (40, 55), (45, 56), (46, 57), (47, 58), (59, 59)];
    let lwait =
        [(0, 50), (10, 51), (20, 52), (30, 53), (35, 54), (40, 55), (45, 56), (46, 57), (47, 58), (49, 59)];
    let ts: [TsRow; TS_LEVELS] = array::from_fn(|level| TsRow {
        quantum: step(level, &[(0, 20), (10, 16), (20, 12), (30, 8), (40, 4), (59, 2)]),
        tqexp: (number(level) - 10).max(0),
        slpret: step(level, &slpret),
        lwait: step(level, &lwait),
        maxwait: step(level, &[(0, 0), (59, 32_000)]),
    });
    Tables { ts, fx: fx(), sys: 20 }
}

/// The TS and IA table of large servers.
pub fn extended() -> Tables {
    let ts: [TsRow; TS_LEVELS] = array::from_fn(|level| TsRow {
        quantum: step(level, &[(0, 40), (1, 38), (20, 36), (41, 34)]),
        tqexp: if level < 20 { number(level) / 2 } else { number(level) - 10 },
        slpret: (number(level) + 1).min(59),
        lwait: if level < 40 { 40 } else { (number(level) + 1).min(59) },
        maxwait: 2,
    });
    Tables { ts, fx: fx(), sys: 20 }
}

/// A thread that enters a class without parameters; in IA it is in the foreground.
pub fn entered(tables: &Tables, class: Class) -> Thread {
    let mut thread = Thread::default();
    host::enter(&mut thread, tables, class, 0, 0, true, host::fx_quantum(tables, 0));
    thread
}

/// A thread of TS or IA with this system priority and a full slice.
pub fn at(tables: &Tables, class: Class, cpupri: i32) -> Thread {
    let mut thread = entered(tables, class);
    host::move_to(&mut thread, cpupri);
    thread.timeleft = host::slice(&thread, tables);
    thread
}
