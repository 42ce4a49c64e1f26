//! Formats a field's value, by its unit and kind.

use millpond_model::Histogram;
use millpond_observe::catalogue::{Entity, FieldId, FieldKind, Unit};
use millpond_observe::{Row, Value};

/// Text of an unknown value.
const UNKNOWN: &str = "-";

/// A field of an interval's row, as text without surrounding blanks. Times of counters are in percent of one CPU or thread; for sets, in
/// CPUs or threads. Other counters are per second.
#[must_use]
pub fn figure(row: &Row, id: FieldId) -> String {
    let field = id.field();
    let number = match row.value(id) {
        Value::Unknown => return UNKNOWN.to_owned(),
        Value::Text(_) => return row.text(id).into_owned(),
        Value::Histogram(histogram) => return histogram_figure(histogram),
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

/// The heading of histograms.
pub const HISTOGRAM_HEADING: &str = "  EVENTS   MEDIAN      P99    P99.9  LONGEST 1us       1ms       1s";

/// The powers of two of a histogram's columns: up to 2^-20 s (0.95 us), and so on, to 16 s.
const OCTAVES: [u16; 25] = {
    let mut ends = [0; 25];
    let mut at = 0;
    while at < ends.len() {
        #[expect(clippy::cast_possible_truncation, reason = "up to 24")]
        let octave = at as u16;
        ends[at] = (octave + 10) * 8;
        at += 1;
    }
    ends
};

/// Number of events, three quantiles, the maximum, and a column for each power of two. Quantiles are the upper bounds of their buckets.
fn histogram_figure(histogram: &Histogram) -> String {
    let quantile = |q| histogram.quantile_s(q).map_or_else(|| UNKNOWN.to_owned(), time);
    let longest = histogram.longest_s().map_or_else(|| UNKNOWN.to_owned(), time);
    let mut from = 0;
    let counts = OCTAVES.map(|end| {
        let inside = histogram.buckets().iter().filter(|(bucket, _)| (from..=end).contains(bucket));
        let sum: u64 = inside.map(|(_, count)| count).sum();
        from = end + 1;
        sum
    });
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    #[expect(clippy::cast_precision_loss, reason = "a height of eight")]
    let column = |count: &u64| match count {
        0 => ' ',
        _ => level_char(*count as f64 / most as f64),
    };
    let picture: String = counts.iter().map(column).collect();
    let [median, p99, p999] = [0.5, 0.99, 0.999].map(quantile);
    let line = format!("{:>8} {median:>8} {p99:>8} {p999:>8} {longest:>8} {picture}", histogram.count());
    line.trim_end().to_owned()
}

/// A time: `0`, `850ns`, `1.3us`, `12ms`, `2.0s`.
fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        // The first bucket is zero time.
        s if s < 1e-9 => return "0".to_owned(),
        s if s < 1e-6 => (s * 1e9, "ns"),
        s if s < 1e-3 => (s * 1e6, "us"),
        s if s < 1.0 => (s * 1e3, "ms"),
        s => (s, "s"),
    };
    if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// A percentage; below 10 with one decimal: `0.0`, `7.3`, `42`, `1200`.
fn percent(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A count: `0`, `7`, `12345`, `123k`, `12M`.
fn count(value: f64) -> String {
    match value {
        v if v < 99_999.5 => format!("{v:.0}"),
        v if v < 99_999_500.0 => format!("{:.0}k", v / 1e3),
        v => format!("{:.0}M", v / 1e6),
    }
}

/// A size in powers of 1024: `512K`, `1.4G`.
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

/// A block character of eight heights, for a value from 0 to 1; blank only for zero.
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
    use millpond_model::Nanos;
    use millpond_observe::catalogue::{cpu, latency, process, pset, thread};

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
    fn a_histogram_has_a_column_for_each_doubling() {
        let mut waits = Histogram::default();
        (0..200).for_each(|_| waits.record(Nanos::from_millis(1)));
        (0..100).for_each(|_| waits.record(Nanos(900)));
        waits.record(Nanos::from_secs(10));
        let row = Row::of(Entity::Latency).with(latency::WAITS, waits);
        assert_eq!(
            figure(&row, latency::WAITS),
            "     301    1.1ms    1.1ms        -      10s ▄          █            ▁"
        );
        assert_eq!([9e-10, 9e-9, 1.3e-6, 0.0124, 2.0].map(time), ["0", "9.0ns", "1.3us", "12ms", "2.0s"]);
        let empty = Row::of(Entity::Latency).with(latency::WAITS, Histogram::default());
        assert_eq!(figure(&empty, latency::WAITS), "       0        -        -        -        -");
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
