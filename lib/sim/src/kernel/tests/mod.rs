//! Test vectors V1 to V16 of the classes and the dispatcher, and tests of the rules around them.

mod caps;
mod eevdf;
mod hardware;
mod interrupts;
mod order;
mod parity;
mod real_time;
mod rules;
mod shares;
mod sharing;
mod time_sharing;

use super::class_state::{ClassState, TsState};
use super::time::SECOND;
use super::*;
use millpond_formats::dispadmin::default_tables;
use millpond_model::{ClassParams, DispatchTables, Quantum};

/// Nanoseconds per tick at 100 Hz.
pub const TICK: u64 = 10_000_000;

/// The standard tables.
pub fn standard() -> DispatchTables {
    default_tables(false)
}

/// The extended tables, of large servers.
pub fn extended() -> DispatchTables {
    default_tables(true)
}

/// A machine with this many CPUs, each a core of its own.
pub fn kernel(cpus: u32, tables: DispatchTables) -> Kernel {
    Kernel::new(&Layout::flat(cpus), tables, Tunables::default())
}

impl Kernel {
    /// The class state of a TS thread with this user priority.
    pub fn ts_entry_at(&self, upri: i8) -> ClassState {
        self.entry(ClassParams::Ts { uprilim: upri.max(0), upri })
    }

    /// The class state of an FX thread at a level.
    pub fn fx_start(&self, pri: i8, quantum: Option<Quantum>) -> ClassState {
        let quantum = quantum.unwrap_or(self.tables().fx.row(pri.unsigned_abs()));
        self.entry(ClassParams::Fx { uprilim: pri, upri: pri, quantum })
    }

    /// The class state of an RT thread at a level.
    pub fn rt_start(&self, pri: i8, quantum: Option<Quantum>, tqsig: u8) -> ClassState {
        let quantum = quantum.unwrap_or(self.tables().rt.row(pri.unsigned_abs()));
        self.entry(ClassParams::Rt { pri, quantum, tqsig })
    }

    /// The TS or IA state of a thread.
    pub fn seen(&self, thread: ThreadId) -> TsState {
        match self.thread(thread).class {
            ClassState::Ts(state) => state,
            other => panic!("{other:?}"),
        }
    }

    /// Advances time by this many ticks.
    pub fn pass(&mut self, ticks: u64) {
        let until = self.now() + ticks * TICK;
        self.run_until(until).unwrap();
    }

    /// Starts a TS thread with this program.
    pub fn ts_start(&mut self, program: Program) -> ThreadId {
        self.start(Start::new(self.ts_entry_at(0), program))
    }

    /// Starts a TS thread at a level (cpupri) with a full slice.
    pub fn ts_start_at(&mut self, cpupri: u8, program: Program) -> ThreadId {
        let ClassState::Ts(mut state) = self.ts_entry_at(0) else { panic!() };
        state.cpupri = cpupri;
        state.umdpri = state.level();
        state.timeleft = i64::from(self.tables().ts.row(cpupri).quantum);
        self.start(Start::new(ClassState::Ts(state), program))
    }

    /// The thread that a CPU runs.
    pub fn on(&self, cpu: CpuIndex) -> Option<ThreadId> {
        self.cpus()[cpu].running
    }
}
