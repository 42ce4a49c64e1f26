//! How a field looks in a row: by its unit and kind.

use millpond_observe::catalogue::{Entity, FieldId, FieldKind, Unit};
use millpond_observe::{Row, Value};

/// What stands for a figure that is not known.
const UNKNOWN: &str = "-";

/// A field of a row of an interval, as text without blanks around it. Time of counters is in percent of one CPU or
/// thread, of sets in CPUs or threads; other counters are per second.
#[must_use]
pub fn figure(row: &Row, id: FieldId) -> String {
    let field = id.field();
    let number = match row.value(id) {
        Value::Unknown => return UNKNOWN.to_owned(),
        Value::Text(_) => return row.text(id).into_owned(),
        Value::Number(number) => *number,
    };
    match (field.kind, field.unit) {
        (FieldKind::Counter, Unit::Seconds) if id.entity == Entity::Pset => format!("{number:.2}"),
        (FieldKind::Counter, Unit::Seconds) => percent(100.0 * number),
        (FieldKind::Counter, _) => count(number),
        (_, Unit::Bytes) => bytes(number),
        (_, Unit::Seconds) => format!("{number:.3}"),
        (_, Unit::Count | Unit::None) if number.fract() == 0.0 => format!("{number:.0}"),
        (_, Unit::Count | Unit::None) => format!("{number:.2}"),
    }
}

/// Three digits at least tell values apart: `0.0`, `7.3`, `42`, `1200`.
fn percent(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// `0`, `7`, `12345`, `123k`, `12M`.
fn count(value: f64) -> String {
    match value {
        v if v < 99_999.5 => format!("{v:.0}"),
        v if v < 99_999_500.0 => format!("{:.0}k", v / 1e3),
        v => format!("{:.0}M", v / 1e6),
    }
}

/// `512K`, `1.4G`: powers of 1024.
fn bytes(value: f64) -> String {
    let mut value = value / 1024.0;
    for letter in ["K", "M", "G"] {
        if value < 999.5 {
            return if value < 9.95 { format!("{value:.1}{letter}") } else { format!("{value:.0}{letter}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1}T")
}

/// Eight heights of a column, for a part of 1; an empty one only for nothing at all.
#[must_use]
pub fn level_char(part: f64) -> char {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if part.is_nan() {
        return '·';
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 7")]
    let index = (part.clamp(0.0, 1.0) * 7.999) as usize;
    LEVELS[index.min(LEVELS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_observe::catalogue::{cpu, process, pset, thread};

    #[test]
    fn each_unit_has_its_look() {
        let row =
            Row::of(Entity::Cpu).with(cpu::USER, 0.0731).with(cpu::IDLE, 1.0).with(cpu::CSW, 1_234_567.0);
        assert_eq!(
            [cpu::USER, cpu::IDLE, cpu::CSW, cpu::MINF].map(|id| figure(&row, id)),
            ["7.3", "100", "1235k", "-"]
        );
        let row = Row::of(Entity::Process).with(process::RSS, 1_509_949_440.0).with(process::THREADS, 12u32);
        assert_eq!([process::RSS, process::THREADS].map(|id| figure(&row, id)), ["1.4G", "12"]);
        let row =
            Row::of(Entity::Pset).with(pset::BUSY, 7.9).with(pset::NAME, "web").with(pset::RUNNABLE, 3u32);
        assert_eq!([pset::BUSY, pset::NAME, pset::RUNNABLE].map(|id| figure(&row, id)), ["7.90", "web", "3"]);
    }

    #[test]
    fn a_hostile_name_cannot_reach_the_terminal() {
        let row = Row::of(Entity::Thread).with(thread::NAME, "a\x1b]0;b\x07\u{202e}c");
        assert!(figure(&row, thread::NAME).chars().all(|c| !c.is_control() && c != '\u{202e}'));
    }

    #[test]
    fn heights_rise_with_the_part() {
        assert_eq!([0.0, 0.5, 1.0, 7.0, -1.0].map(level_char), ['▁', '▄', '█', '█', '▁']);
        assert_eq!(level_char(f64::NAN), '·');
    }

    #[test]
    fn large_figures_stay_short() {
        assert_eq!([0.0, 99_999.0, 100_000.0, 123_456_789.0].map(count), ["0", "99999", "100k", "123M"]);
        assert_eq!([0.0, 1024.0 * 10.0, 1023.0 * 1024.0].map(bytes), ["0.0K", "10K", "1.0M"]);
    }
}
