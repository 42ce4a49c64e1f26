//! Random numbers, tables and parameters, reproducible from a seed.

use millpond_model::{Class, ClassParams, DispatchTables, FX_LEVELS, Quantum, QuantumTable, TS_LEVELS};
use millpond_model::{TsRow, TsTable};

/// A generator (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(((self.next() >> 32) * u64::from(limit)) >> 32).unwrap()
    }

    /// A number within limits.
    pub fn within(&mut self, lowest: i8, highest: i8) -> i8 {
        let span = u32::try_from(i32::from(highest) - i32::from(lowest) + 1).unwrap();
        i8::try_from(i32::from(lowest) + i32::try_from(self.below(span)).unwrap()).unwrap()
    }

    /// `true` once in this many times, on average.
    pub fn once_in(&mut self, times: u32) -> bool {
        self.below(times) == 0
    }

    fn level(&mut self) -> u8 {
        u8::try_from(self.below(60)).unwrap()
    }

    pub fn quantum(&mut self) -> Quantum {
        if self.once_in(4) { Quantum::Infinite } else { Quantum::Ticks(1 + self.below(12)) }
    }

    /// Tables that the kernel accepts. Long waits may lead in circles, down, or nowhere.
    pub fn tables(&mut self) -> DispatchTables {
        let still = self.once_in(3);
        let ts = (0..TS_LEVELS).map(|level| {
            let lwait = if still { u8::try_from(level).unwrap() } else { self.level() };
            TsRow {
                quantum: 1 + self.below(12),
                tqexp: self.level(),
                slpret: self.level(),
                maxwait: [0, 1, 2, 3, 32_000][self.below(5) as usize],
                lwait,
            }
        });
        let ts = TsTable::new(ts.collect()).unwrap();
        let fx = QuantumTable::new((0..FX_LEVELS).map(|_| self.quantum()).collect()).unwrap();
        DispatchTables { ts, fx, ..super::standard() }
    }

    /// Parameters of a class; the user priority is within its limit.
    pub fn params(&mut self, class: Class) -> ClassParams {
        let lowest = if class == Class::Fx { 0 } else { -60 };
        let uprilim = self.within(lowest, 60);
        // Most threads have the default parameters, where the table moves them.
        let (uprilim, upri) = if self.once_in(2) { (0, 0) } else { (uprilim, self.within(lowest, uprilim)) };
        match class {
            Class::Ts => ClassParams::Ts { uprilim, upri },
            Class::Ia => ClassParams::Ia { uprilim, upri, foreground: self.once_in(2) },
            _ => ClassParams::Fx { uprilim, upri, quantum: self.quantum() },
        }
    }
}
