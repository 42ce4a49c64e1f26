//! Dispatch tables of the scheduler: as words of its map (slices in nanoseconds), and as text of the journal (in clock ticks).
//!
//! The text has a word for each level: `20:0:50:0:50` of TS (quantum, tqexp, slpret, maxwait, lwait), `20` or `infinite` of FX.

use millpond_formats::dispadmin::{HZ_DEFAULT, default_tables};
use millpond_model::{Class, ClassTable, DispatchTables, Quantum, QuantumTable, TsRow, TsTable};
use millpond_rules as rules;

/// Nanoseconds of a clock tick of the tables.
const TICK: i64 = 1_000_000_000 / HZ_DEFAULT as i64;
/// The slice of threads of the kernel, in ticks: that of the highest level of FX.
const SYS_TICKS: i64 = 2;

pub(super) fn nanoseconds(quantum: Quantum) -> i64 {
    match quantum {
        Quantum::Ticks(ticks) => i64::from(ticks).saturating_mul(TICK),
        Quantum::Infinite => rules::FOREVER,
    }
}

pub(super) fn quantum(nanoseconds: i64) -> Quantum {
    if nanoseconds == rules::FOREVER {
        return Quantum::Infinite;
    }
    Quantum::Ticks(
        u32::try_from(nanoseconds.max(1).cast_unsigned().div_ceil(TICK.cast_unsigned())).unwrap_or(u32::MAX),
    )
}

/// The words of the scheduler's map.
pub(super) fn to_words(tables: &DispatchTables) -> Vec<u64> {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let mut words = Vec::new();
    for row in tables.ts.rows() {
        words.push(nanoseconds(Quantum::Ticks(row.quantum)).cast_unsigned());
        words.push(pair(row.tqexp.into(), row.slpret.into()));
        words.push(pair(row.lwait.into(), row.maxwait));
    }
    words.extend(tables.fx.rows().iter().map(|slice| nanoseconds(*slice).cast_unsigned()));
    words.push((SYS_TICKS * TICK).cast_unsigned());
    words
}

/// The inverse; `None` for invalid words.
pub(super) fn from_words(words: &[u64]) -> Option<DispatchTables> {
    let (rows, rest) = words.split_at_checked(rules::TS_LEVELS * 3)?;
    let half = |word: u64, shift: u32| u32::try_from(word >> shift & 0xffff_ffff).unwrap_or(u32::MAX);
    let row = |words: &[u64]| {
        let [slice, first, second] = *words else { return None };
        let Quantum::Ticks(quantum) = quantum(slice.cast_signed()) else { return None };
        let level = |word, shift| u8::try_from(half(word, shift)).ok();
        let (tqexp, slpret, lwait) = (level(first, 0)?, level(first, 32)?, level(second, 0)?);
        Some(TsRow { quantum, tqexp, slpret, maxwait: half(second, 32), lwait })
    };
    let ts = rows.chunks_exact(3).map(row).collect::<Option<Vec<_>>>()?;
    let fx = rest.get(..rules::FX_LEVELS)?.iter().map(|slice| quantum(slice.cast_signed())).collect();
    Some(DispatchTables {
        ts: TsTable::new(ts).ok()?,
        fx: QuantumTable::new(fx).ok()?,
        ..default_tables(false)
    })
}

/// The table of a class as text; `None` for a class that the scheduler does not have.
pub(super) fn text(class: Class, tables: &DispatchTables) -> Option<String> {
    let rows: Vec<String> = match tables.of(class)? {
        ClassTable::Ts(table) => {
            let row = |row: &TsRow| {
                let TsRow { quantum, tqexp, slpret, maxwait, lwait } = row;
                format!("{quantum}:{tqexp}:{slpret}:{maxwait}:{lwait}")
            };
            table.rows().iter().map(row).collect()
        }
        ClassTable::Fx(table) => {
            let slice = |slice: &Quantum| match slice {
                Quantum::Ticks(ticks) => ticks.to_string(),
                Quantum::Infinite => "infinite".to_owned(),
            };
            table.rows().iter().map(slice).collect()
        }
        ClassTable::Rt(_) | ClassTable::Fss(_) => return None,
    };
    Some(rows.join(" "))
}

/// Replaces the table of a class by the one in the text; `None` for an invalid text.
pub(super) fn with(tables: DispatchTables, class: Class, text: &str) -> Option<DispatchTables> {
    match class {
        Class::Ts | Class::Ia => {
            let row = |word: &str| {
                let parts: Vec<u32> = word.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
                let [quantum, tqexp, slpret, maxwait, lwait] = parts[..] else { return None };
                let level = |level| u8::try_from(level).ok();
                Some(TsRow {
                    quantum,
                    tqexp: level(tqexp)?,
                    slpret: level(slpret)?,
                    maxwait,
                    lwait: level(lwait)?,
                })
            };
            let rows = text.split(' ').map(row).collect::<Option<Vec<_>>>()?;
            Some(DispatchTables { ts: TsTable::new(rows).ok()?, ..tables })
        }
        Class::Fx => {
            let slice = |word: &str| match word {
                "infinite" => Some(Quantum::Infinite),
                word => word.parse().ok().map(Quantum::Ticks),
            };
            let rows = text.split(' ').map(slice).collect::<Option<Vec<_>>>()?;
            (rows.len() == rules::FX_LEVELS).then_some(())?;
            Some(DispatchTables { fx: QuantumTable::new(rows).ok()?, ..tables })
        }
        Class::Sys | Class::Rt | Class::Fss => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_tables() -> impl Strategy<Value = DispatchTables> {
        let row = (1u32..10_000, 0u8..60, 0u8..60, 0u32..40_000, 0u8..60).prop_map(
            |(quantum, tqexp, slpret, maxwait, lwait)| TsRow { quantum, tqexp, slpret, maxwait, lwait },
        );
        let slice = prop_oneof![(1u32..10_000).prop_map(Quantum::Ticks), Just(Quantum::Infinite)];
        let rows = (prop::collection::vec(row, 60), prop::collection::vec(slice, 61));
        rows.prop_map(|(ts, fx)| DispatchTables {
            ts: TsTable::new(ts).unwrap(),
            fx: QuantumTable::new(fx).unwrap(),
            ..default_tables(false)
        })
    }

    proptest! {
        #[test]
        fn tables_come_back_from_the_scheduler_and_from_the_journal(tables in any_tables()) {
            prop_assert_eq!(from_words(&to_words(&tables)), Some(tables.clone()));
            let mut other = default_tables(true);
            for class in [Class::Ts, Class::Fx] {
                other = with(other, class, &text(class, &tables).unwrap()).unwrap();
            }
            prop_assert_eq!(other, tables);
        }

        #[test]
        fn words_that_are_no_table_are_refused(words in "[0-9: a-z]{0,80}") {
            prop_assert!(with(default_tables(false), Class::Ts, &words).is_none());
            prop_assert!(with(default_tables(false), Class::Fx, &words).is_none());
        }
    }

    #[test]
    fn words_have_the_layout_of_the_rules() {
        let words = to_words(&default_tables(false));
        assert_eq!(words.len() * 8, size_of::<rules::Tables>());
        // Level 0 of the standard table: 200 ms, 0, 50, 0, 50.
        assert_eq!(words[..3], [200_000_000, 50 << 32, 50]);
        // Level 59: 20 ms, 49, 59, 32000, 59.
        assert_eq!(words[177..180], [20_000_000, 49 | 59 << 32, 59 | 32_000 << 32]);
        assert_eq!(words[180], 200_000_000);
        assert_eq!(from_words(&words[1..]), None);
        assert!(text(Class::Ts, &default_tables(false)).unwrap().starts_with("20:0:50:0:50 "));
    }
}
