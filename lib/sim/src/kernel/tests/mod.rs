//! The test vectors of the reference (§3.11) and the rules around them.

mod real_time;
mod sharing;
mod time_sharing;

use super::thread::{ClassState, TsState};
use super::*;
use millpond_model::{DispatchTables, FX_LEVELS, Quantum, QuantumTable, RT_LEVELS, TsRow, TsTable};

/// Nanoseconds of a tick at 100 per second.
pub const TICK: u64 = 10_000_000;

/// The standard table of the reference, §1.7.
pub fn standard() -> DispatchTables {
    let row = |p: u8| TsRow {
        quantum: if p == 59 { 2 } else { [20, 16, 12, 8, 4, 4][usize::from(p / 10)] },
        tqexp: p.saturating_sub(10),
        slpret: match p {
            0..=29 => 50 + p / 10,
            30..=34 => 53,
            35..=39 => 54,
            40..=44 => 55,
            45..=47 => p + 11,
            48..=58 => 58,
            _ => 59,
        },
        maxwait: if p == 59 { 32_000 } else { 0 },
        lwait: match p {
            0..=29 => 50 + p / 10,
            30..=34 => 53,
            35..=39 => 54,
            40..=44 => 55,
            45..=47 => p + 11,
            48 => 58,
            _ => 59,
        },
    };
    with_ts((0..60).map(row).collect())
}

/// The extended table of the reference, §1.8.
pub fn extended() -> DispatchTables {
    let row = |p: u8| TsRow {
        quantum: match p {
            0 => 40,
            1..=19 => 38,
            20..=40 => 36,
            _ => 34,
        },
        tqexp: if p < 20 { p / 2 } else { p - 10 },
        slpret: (p + 1).min(59),
        maxwait: 2,
        lwait: if p < 40 { 40 } else { (p + 1).min(59) },
    };
    with_ts((0..60).map(row).collect())
}

fn with_ts(rows: Vec<TsRow>) -> DispatchTables {
    let slices = |levels: usize, ticks: [u32; 7]| {
        let slice = |p: usize| Quantum::Ticks(ticks[(p / 10).min(6)]);
        QuantumTable::new((0..levels).map(slice).collect()).unwrap()
    };
    DispatchTables {
        ts: TsTable::new(rows).unwrap(),
        rt: slices(RT_LEVELS, [100, 80, 60, 40, 20, 10, 10]),
        fx: slices(FX_LEVELS, [20, 16, 12, 8, 4, 4, 2]),
    }
}

/// A machine of so many processors, each a core of its own.
pub fn kernel(cpus: u32, tables: DispatchTables) -> Kernel {
    Kernel::new(&Layout::flat(cpus), tables, Tunables::default())
}

impl Kernel {
    /// What TS or IA remembers about a thread.
    pub fn seen(&self, thread: u32) -> TsState {
        match self.thread(thread).class {
            ClassState::Ts(state) => state,
            other => panic!("{other:?}"),
        }
    }

    /// Lets so many ticks pass.
    pub fn pass(&mut self, ticks: u64) {
        let until = self.now() + ticks * TICK;
        self.run_until(until).unwrap();
    }

    /// Starts a time-sharing thread with this program.
    pub fn ts_start(&mut self, program: Program) -> u32 {
        self.start(Start::new(self.ts_entry(0, false), program))
    }

    /// Starts a time-sharing thread at a level of the system's part, with a full slice of it.
    pub fn ts_start_at(&mut self, cpupri: u8, program: Program) -> u32 {
        let ClassState::Ts(mut state) = self.ts_entry(0, false) else { panic!() };
        state.cpupri = cpupri;
        state.umdpri = state.level();
        state.timeleft = i64::from(self.tables().ts.row(cpupri).quantum);
        self.start(Start::new(ClassState::Ts(state), program))
    }

    /// The thread that a processor runs.
    pub fn on(&self, cpu: u32) -> Option<u32> {
        self.cpus()[cpu as usize].running
    }
}
