//! Knob values that are more than one word: controls, rows of dispatch tables, and lgroup preferences of sets and threads.

use crate::kernel::LgroupAffinities;
use millpond_machine::Value;
use millpond_model::{
    CONTROLS, Class, ClassTable, Control, ControlSetting, CpuCap, DispatchTables, FssQuantum, Quantum,
    QuantumTable, SetMemory, Shares, TsRow, TsTable,
};
use std::fmt;
use std::str::FromStr;

/// A dispatch table. TS and IA share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableName {
    /// Of TS and IA.
    Ts,
    /// Of RT.
    Rt,
    /// Of FX.
    Fx,
    /// Of FSS: one quantum.
    Fss,
}

impl TableName {
    /// The name of a table.
    #[must_use]
    pub fn of(table: &ClassTable) -> Self {
        match table {
            ClassTable::Ts(_) => TableName::Ts,
            ClassTable::Rt(_) => TableName::Rt,
            ClassTable::Fx(_) => TableName::Fx,
            ClassTable::Fss(_) => TableName::Fss,
        }
    }

    fn class(self) -> Class {
        match self {
            TableName::Ts => Class::Ts,
            TableName::Rt => Class::Rt,
            TableName::Fx => Class::Fx,
            TableName::Fss => Class::Fss,
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.class().fmt(f)
    }
}

impl FromStr for TableName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let names = [TableName::Ts, TableName::Rt, TableName::Fx, TableName::Fss];
        names.into_iter().find(|name| name.class().word() == text).ok_or(())
    }
}

/// The rows of a table as knob values.
pub(crate) fn row_values(table: &ClassTable) -> Vec<String> {
    match table {
        ClassTable::Ts(table) => table.rows().iter().map(ts_value).collect(),
        ClassTable::Rt(table) | ClassTable::Fx(table) => table.rows().iter().map(quantum_value).collect(),
        ClassTable::Fss(quantum) => vec![quantum.ticks().to_string()],
    }
}

fn ts_value(row: &TsRow) -> String {
    let TsRow { quantum, tqexp, slpret, maxwait, lwait } = row;
    format!("{quantum} {tqexp} {slpret} {maxwait} {lwait}")
}

fn quantum_value(quantum: &Quantum) -> String {
    match quantum {
        Quantum::Ticks(ticks) => ticks.to_string(),
        Quantum::Infinite => "infinite".to_owned(),
    }
}

/// One row; `None` if the table has no such level.
pub(crate) fn read_row(tables: &DispatchTables, table: TableName, level: u8) -> Option<String> {
    let at = usize::from(level);
    match table {
        TableName::Ts => tables.ts.rows().get(at).map(ts_value),
        TableName::Rt => tables.rt.rows().get(at).map(quantum_value),
        TableName::Fx => tables.fx.rows().get(at).map(quantum_value),
        TableName::Fss => (at == 0).then(|| tables.fss.ticks().to_string()),
    }
}

/// Sets one row; `None` if the table has no such level or the row is invalid.
pub(crate) fn write_row(tables: &mut DispatchTables, table: TableName, level: u8, value: &str) -> Option<()> {
    let at = usize::from(level);
    match table {
        TableName::Ts => {
            let words: Vec<&str> = value.split(' ').collect();
            let [quantum, tqexp, slpret, maxwait, lwait] = words[..] else { return None };
            let row = TsRow {
                quantum: quantum.parse().ok()?,
                tqexp: tqexp.parse().ok()?,
                slpret: slpret.parse().ok()?,
                maxwait: maxwait.parse().ok()?,
                lwait: lwait.parse().ok()?,
            };
            let mut rows = tables.ts.rows().to_vec();
            *rows.get_mut(at)? = row;
            tables.ts = TsTable::new(rows).ok()?;
        }
        TableName::Rt => tables.rt = with_quantum(&tables.rt, at, value)?,
        TableName::Fx => tables.fx = with_quantum(&tables.fx, at, value)?,
        TableName::Fss if at == 0 => tables.fss = FssQuantum::new(value.parse().ok()?).ok()?,
        TableName::Fss => return None,
    }
    Some(())
}

fn with_quantum(table: &QuantumTable, at: usize, value: &str) -> Option<QuantumTable> {
    let mut rows = table.rows().to_vec();
    *rows.get_mut(at)? = match value {
        "infinite" => Quantum::Infinite,
        ticks => Quantum::Ticks(ticks.parse().ok()?),
    };
    QuantumTable::new(rows).ok()
}

/// The knob value of a control; `None` if it is not set.
pub(crate) fn control_value(setting: ControlSetting) -> Option<String> {
    setting.value().map(|value| value.to_string())
}

/// The inverse of [`control_value`].
pub(crate) fn parse_control(control: Control, value: &str) -> Option<ControlSetting> {
    Some(match control {
        Control::CpuShares => ControlSetting::CpuShares(Some(value.parse::<Shares>().ok()?)),
        Control::CpuCap => ControlSetting::CpuCap(Some(value.parse::<CpuCap>().ok()?)),
    })
}

/// Parses a control's name without the holder.
pub(crate) fn parse_control_name(text: &str) -> Option<Control> {
    CONTROLS.into_iter().find(|control| control.to_string() == text)
}

/// The knob value of a set's memory placement; `None` for memory anywhere.
#[must_use]
pub fn memory_value(memory: &SetMemory) -> Option<Value> {
    match memory {
        SetMemory::All => None,
        SetMemory::Local => Some("local".into()),
        SetMemory::Nodes(nodes) => Some(nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
    }
}

/// The inverse of [`memory_value`].
pub(crate) fn parse_memory(value: &str) -> Option<SetMemory> {
    if value == "local" {
        return Some(SetMemory::Local);
    }
    value.split(',').map(|node| node.parse().ok()).collect::<Option<_>>().map(SetMemory::Nodes)
}

/// The knob value of a thread's preferred lgroups.
#[must_use]
pub fn affinities_value(affinities: LgroupAffinities) -> Value {
    let list = |bits: u64| {
        let set = (0..u64::BITS).filter(|bit| bits >> bit & 1 == 1);
        set.map(|bit| bit.to_string()).collect::<Vec<_>>().join(",")
    };
    let words = [("strong", affinities.strong), ("weak", affinities.weak)];
    let said =
        words.iter().filter(|(_, bits)| *bits > 0).map(|(word, bits)| format!("{word} {}", list(*bits)));
    let said = said.collect::<Vec<_>>().join(" ");
    if said.is_empty() { "none".into() } else { said }
}

/// The inverse of [`affinities_value`].
pub(crate) fn parse_affinities(value: &str) -> Option<LgroupAffinities> {
    let mut affinities = LgroupAffinities::default();
    if value == "none" {
        return Some(affinities);
    }
    let mut words = value.split(' ');
    while let Some(word) = words.next() {
        let bits = match word {
            "strong" => &mut affinities.strong,
            "weak" => &mut affinities.weak,
            _ => return None,
        };
        for bit in words.next()?.split(',') {
            *bits |= 1u64.checked_shl(bit.parse().ok()?)?;
        }
    }
    Some(affinities)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn affinities_are_read_as_it_is_written(strong in any::<u64>(), weak in any::<u64>()) {
            let affinities = LgroupAffinities { strong, weak };
            prop_assert_eq!(parse_affinities(&affinities_value(affinities)), Some(affinities));
        }

        #[test]
        fn reading_any_text_never_panics(text in "(strong|weak|local|none|[0-9 ,]){0,6}") {
            let _ = (parse_affinities(&text), parse_memory(&text));
        }
    }

    #[test]
    fn values_are_words_and_places() {
        assert_eq!(affinities_value(LgroupAffinities { strong: 0b101, weak: 0b10 }), "strong 0,2 weak 1");
        assert_eq!(affinities_value(LgroupAffinities::default()), "none");
        assert_eq!(parse_affinities("strong 64"), None);
        assert_eq!(parse_affinities("strong"), None);
        assert_eq!(memory_value(&SetMemory::All), None);
        assert_eq!(parse_memory("0,2").as_ref().and_then(memory_value).as_deref(), Some("0,2"));
        assert_eq!(parse_memory("near"), None);
    }
}
