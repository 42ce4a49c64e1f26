//! Scheduling classes and their dispatch tables, in clock ticks, as the kernel keeps them.
//!
//! A *class* determines how the priority of its threads changes; a *dispatch table* holds the parameters for it.
//! Class priorities are levels of a table; the *global* priority, 0 to 169, is what the dispatcher compares.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::words! {
    /// A scheduling class.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "UPPERCASE")]
    pub enum Class {
        /// System: kernel threads.
        Sys = "SYS",
        /// Time sharing: the priority of threads that use their slices falls, that of sleepers rises.
        Ts = "TS",
        /// Fixed priority: time slices at a constant priority.
        Fx = "FX",
        /// Real time: above all others except interrupts.
        Rt = "RT",
        /// Interactive: time sharing with a boost for foreground processes. It uses the table of TS.
        Ia = "IA",
        /// Fair share: the priority of a thread that has used more than its share falls.
        Fss = "FSS",
    }
    else NoSuchClass, NoSuchClass
}

/// Every class, in the order of listings.
pub const CLASSES: [Class; 6] = Class::ALL;

/// A word that is not the name of a class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no class; there are SYS, TS, FX, RT, IA and FSS")]
pub struct NoSuchClass(pub String);

/// Levels of the time-sharing table, 0 to 59.
pub const TS_LEVELS: usize = 60;
/// Levels of the real-time table, 0 to 59.
pub const RT_LEVELS: usize = 60;
/// Levels of the fixed-priority table, 0 to 60.
pub const FX_LEVELS: usize = 61;

/// A row of the time-sharing table. Each column says which level selects its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TsRow {
    /// Slice in ticks; by the system priority.
    pub quantum: u32,
    /// New system priority after the end of a slice; by the system priority.
    pub tqexp: u8,
    /// New system priority on sleep, wake-up or return from a trap after a long wait; by the system priority.
    pub slpret: u8,
    /// Seconds since the beginning of the slice; a longer wait is a long wait; by the user-mode priority.
    pub maxwait: u32,
    /// New system priority from the once-per-second update after a long wait; by the system priority.
    pub lwait: u8,
}

/// The table of TS and IA.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<TsRow>", into = "Vec<TsRow>")]
pub struct TsTable(Vec<TsRow>);

/// The longest run of a thread before it goes to the end of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Quantum {
    /// Clock ticks, at least one.
    Ticks(u32),
    /// No limit.
    Infinite,
}

/// The table of RT or FX: time slices by level.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<Quantum>", into = "Vec<Quantum>")]
pub struct QuantumTable(Vec<Quantum>);

/// An invalid table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The number of rows is wrong.
    #[error("it has {found} rows")]
    Rows {
        /// The number of rows found.
        found: usize,
    },
    /// A value is invalid.
    #[error("the value of {column} at level {level} is out of range")]
    Value {
        /// The name of the column without the class.
        column: &'static str,
        /// The row.
        level: usize,
    },
}

impl TsTable {
    /// A table from its rows, with the checks of the kernel: slices of at least one tick, levels below
    /// [`TS_LEVELS`].
    ///
    /// # Errors
    /// [`TableError`] with the first invalid value, or the number of rows.
    pub fn new(rows: Vec<TsRow>) -> Result<Self, TableError> {
        if rows.len() != TS_LEVELS {
            return Err(TableError::Rows { found: rows.len() });
        }
        for (level, row) in rows.iter().enumerate() {
            let wrong = |column| Err(TableError::Value { column, level });
            if row.quantum == 0 {
                return wrong("quantum");
            }
            for (column, value) in [("tqexp", row.tqexp), ("slpret", row.slpret), ("lwait", row.lwait)] {
                if usize::from(value) >= TS_LEVELS {
                    return wrong(column);
                }
            }
        }
        Ok(TsTable(rows))
    }

    /// All rows, by level.
    #[must_use]
    pub fn rows(&self) -> &[TsRow] {
        &self.0
    }

    /// The row of a level; levels above the last use the last row.
    #[must_use]
    pub fn row(&self, level: u8) -> &TsRow {
        &self.0[usize::from(level).min(TS_LEVELS - 1)]
    }
}

impl TryFrom<Vec<TsRow>> for TsTable {
    type Error = TableError;
    fn try_from(rows: Vec<TsRow>) -> Result<Self, TableError> {
        TsTable::new(rows)
    }
}

impl From<TsTable> for Vec<TsRow> {
    fn from(table: TsTable) -> Self {
        table.0
    }
}

impl QuantumTable {
    /// A table from its rows. Any slice of at least one tick is valid.
    ///
    /// # Errors
    /// [`TableError`] with the first invalid value, or the number of rows.
    pub fn new(rows: Vec<Quantum>) -> Result<Self, TableError> {
        if rows.len() != RT_LEVELS && rows.len() != FX_LEVELS {
            return Err(TableError::Rows { found: rows.len() });
        }
        match rows.iter().position(|row| *row == Quantum::Ticks(0)) {
            Some(level) => Err(TableError::Value { column: "quantum", level }),
            None => Ok(QuantumTable(rows)),
        }
    }

    /// All rows, by level.
    #[must_use]
    pub fn rows(&self) -> &[Quantum] {
        &self.0
    }

    /// The slice of a level; levels above the last use the last row.
    #[must_use]
    pub fn row(&self, level: u8) -> Quantum {
        self.0[usize::from(level).min(self.0.len() - 1)]
    }
}

impl TryFrom<Vec<Quantum>> for QuantumTable {
    type Error = TableError;
    fn try_from(rows: Vec<Quantum>) -> Result<Self, TableError> {
        QuantumTable::new(rows)
    }
}

impl From<QuantumTable> for Vec<Quantum> {
    fn from(table: QuantumTable) -> Self {
        table.0
    }
}

/// All tables of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DispatchTables {
    /// The table of TS and IA.
    pub ts: TsTable,
    /// The table of RT, [`RT_LEVELS`] rows.
    pub rt: QuantumTable,
    /// The table of FX, [`FX_LEVELS`] rows.
    pub fx: QuantumTable,
    /// The slice of FSS, which is the same for all its threads.
    #[serde(default)]
    pub fss: FssQuantum,
}

/// The slice of all FSS threads, in ticks: at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u32", into = "u32")]
pub struct FssQuantum(u32);

impl FssQuantum {
    /// A slice in ticks.
    ///
    /// # Errors
    /// [`TableError`] for 0.
    pub fn new(ticks: u32) -> Result<Self, TableError> {
        if ticks == 0 {
            Err(TableError::Value { column: "quantum", level: 0 })
        } else {
            Ok(FssQuantum(ticks))
        }
    }

    /// Ticks.
    #[must_use]
    pub fn ticks(self) -> u32 {
        self.0
    }
}

impl Default for FssQuantum {
    /// 11 ticks, the default of Solaris.
    fn default() -> Self {
        FssQuantum(11)
    }
}

impl TryFrom<u32> for FssQuantum {
    type Error = TableError;
    fn try_from(ticks: u32) -> Result<Self, TableError> {
        FssQuantum::new(ticks)
    }
}

impl From<FssQuantum> for u32 {
    fn from(quantum: FssQuantum) -> u32 {
        quantum.0
    }
}

/// The table of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassTable {
    /// The table of TS and IA.
    Ts(TsTable),
    /// The table of RT.
    Rt(QuantumTable),
    /// The table of FX.
    Fx(QuantumTable),
    /// The slice of FSS, which has no table.
    Fss(FssQuantum),
}

impl DispatchTables {
    /// The table of a class; `None` for [`Class::Sys`], which has none.
    #[must_use]
    pub fn of(&self, class: Class) -> Option<ClassTable> {
        match class {
            Class::Sys => None,
            Class::Ts | Class::Ia => Some(ClassTable::Ts(self.ts.clone())),
            Class::Rt => Some(ClassTable::Rt(self.rt.clone())),
            Class::Fx => Some(ClassTable::Fx(self.fx.clone())),
            Class::Fss => Some(ClassTable::Fss(self.fss)),
        }
    }

    /// Replaces the table of its class.
    pub fn set(&mut self, table: ClassTable) {
        match table {
            ClassTable::Ts(table) => self.ts = table,
            ClassTable::Rt(table) => self.rt = table,
            ClassTable::Fx(table) => self.fx = table,
            ClassTable::Fss(quantum) => self.fss = quantum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROW: TsRow = TsRow { quantum: 4, tqexp: 0, slpret: 59, maxwait: 0, lwait: 59 };

    proptest! {
        #[test]
        fn tables_survive_being_saved(
            rows in proptest::collection::vec((1u32..500, 0u8..60, 0u8..60, 0u32..40_000, 0u8..60), TS_LEVELS)
        ) {
            let row = |(quantum, tqexp, slpret, maxwait, lwait)| TsRow { quantum, tqexp, slpret, maxwait, lwait };
            let table = TsTable::new(rows.into_iter().map(row).collect()).unwrap();
            let saved = serde_json::to_string(&table).unwrap();
            prop_assert_eq!(serde_json::from_str::<TsTable>(&saved).unwrap(), table);
        }

        #[test]
        fn words_are_the_names_of_classes(text in "[A-Z]{2,3}") {
            prop_assert_eq!(text.parse::<Class>().is_ok(), CLASSES.iter().any(|c| c.word() == text));
        }
    }

    #[test]
    fn a_table_has_exactly_its_rows() {
        assert_eq!(TsTable::new(vec![ROW; 59]), Err(TableError::Rows { found: 59 }));
        assert_eq!(QuantumTable::new(vec![Quantum::Infinite; 62]), Err(TableError::Rows { found: 62 }));
        assert!(QuantumTable::new(vec![Quantum::Infinite; FX_LEVELS]).is_ok());
    }

    #[test]
    fn values_that_the_kernel_refuses_are_named() {
        let mut rows = vec![ROW; TS_LEVELS];
        rows[7].tqexp = 60;
        assert_eq!(TsTable::new(rows), Err(TableError::Value { column: "tqexp", level: 7 }));
        let mut rows = vec![ROW; TS_LEVELS];
        rows[59].quantum = 0;
        assert_eq!(TsTable::new(rows), Err(TableError::Value { column: "quantum", level: 59 }));
    }
}
