//! Durations and sizes in command lines: one parser for all commands.

use millpond_model::Nanos;

/// Units of time, with their nanoseconds.
const UNITS: [(&str, u64); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// The longest duration, in nanoseconds: about 31 years. Longer ones are typing errors.
const NANOS_MAX: u64 = 1_000_000_000_000_000_000;

/// The maximum number of digits after the point.
const DIGITS_MAX: usize = 9;

/// The units, for messages.
pub const NAMES: &str = "ns, us, ms, s, m, h or d";

/// A number with an optional fraction, and a unit (`10s`, `1.5ms`, `2m`). A number without a unit is in units of `bare` nanoseconds; if
/// that is 0, the unit is required. `None` for anything else, for fractions of a nanosecond, and for more than 10^18 ns. Zero is valid.
#[must_use]
pub fn time(text: &str, bare: u64) -> Option<Nanos> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => *factor,
        None if unit.is_empty() && bare > 0 => bare,
        None => return None,
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((_, "")) => return None,
        Some((whole, fraction)) => (whole, fraction),
        None => (number, ""),
    };
    if whole.is_empty() || fraction.contains('.') || fraction.len() > DIGITS_MAX {
        return None;
    }
    let scale = 10u64.pow(u32::try_from(fraction.len()).ok()?);
    let part: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let part = u128::from(part) * u128::from(factor);
    if part % u128::from(scale) != 0 {
        return None;
    }
    let part = u64::try_from(part / u128::from(scale)).ok()?;
    let time = whole.parse::<u64>().ok()?.checked_mul(factor)?.checked_add(part)?;
    (time <= NANOS_MAX).then_some(Nanos(time))
}

/// The same with seconds as the default unit, and more than zero: for intervals and durations.
#[must_use]
pub fn seconds(text: &str) -> Option<Nanos> {
    time(text, 1_000_000_000).filter(|time| *time > Nanos(0))
}

/// Bytes: a positive integer with an optional K, M, G or T, which are powers of 1024.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let (number, shift) = match text.as_bytes().last()? {
        b'K' | b'k' => (&text[..text.len() - 1], 10),
        b'M' | b'm' => (&text[..text.len() - 1], 20),
        b'G' | b'g' => (&text[..text.len() - 1], 30),
        b'T' | b't' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number = number.parse::<u64>().ok().filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_whole_numbers_with_a_power_of_1024() {
        let known = [("1", 1), ("512", 512), ("4K", 4096), ("1m", 1 << 20), ("2G", 2 << 30), ("1T", 1 << 40)];
        known.iter().for_each(|(text, expected)| assert_eq!(bytes(text), Some(*expected), "{text}"));
        ["", "0", "K", "-1", "+1", "1.5G", "1GB", "1 G", "99999999999T"]
            .iter()
            .for_each(|text| assert_eq!(bytes(text), None, "{text}"));
    }

    #[test]
    fn times_have_units_and_fractions() {
        let ns = |text| time(text, 1_000_000_000).map(|time| time.0);
        for (text, expected) in [
            ("10s", 10_000_000_000),
            ("2", 2_000_000_000),
            ("0.25", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("0.25ms", 250_000),
            ("20us", 20_000),
            ("20µs", 20_000),
            ("5ns", 5),
            ("2min", 120_000_000_000),
            ("1.5m", 90_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1d", 86_400_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(ns(text), Some(expected), "{text}");
        }
        for bad in [
            "",
            "s",
            ".",
            "-1s",
            "+1s",
            "1.s",
            ".5s",
            "1..5s",
            "1.2.3s",
            "10 s",
            "10x",
            "1e3",
            "1.5ns",
            "inf",
            "0.0000000001s",
            "999999999h",
            "99999999999999999999",
        ] {
            assert_eq!(ns(bad), None, "{bad}");
        }
        assert_eq!(time("5", 0), None);
        assert_eq!(time("5", 1_000), Some(Nanos(5_000)));
        assert_eq!(seconds("0"), None);
    }

    #[test]
    fn fuzz_times() {
        millpond_fuzz::check_text("cli-times", &["10s", "1.5s", "0.25ms", "20us", "2min", "µs"], |text| {
            assert!(time(text, 1).is_none_or(|time| time.0 <= NANOS_MAX));
        });
    }
}
