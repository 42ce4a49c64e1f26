//! Parses limits, and formats times.

use millpond_cli::units;
use millpond_model::Nanos;
use millpond_observe::Limit;

/// `50us`, or `10/s`.
pub fn parse_limit(text: &str) -> Option<Limit> {
    if let Some(number) = text.strip_suffix("/s") {
        let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        return number.parse().ok().filter(|rate: &f64| plain && rate.is_finite()).map(Limit::Rate);
    }
    units::time(text, 0).map(Limit::Time)
}

/// A time with one decimal, in the largest unit that gives at least 1: `830ns`, `12.3us`, `4.6ms`, `1.2s`.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn time(time: Nanos) -> String {
    match time.0 {
        0 => "0".to_owned(),
        ns @ 1..1_000 => format!("{ns}ns"),
        ns @ 1_000..1_000_000 => format!("{:.1}us", ns as f64 / 1e3),
        ns @ 1_000_000..1_000_000_000 => format!("{:.1}ms", ns as f64 / 1e6),
        ns => format!("{:.1}s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_times_or_rates() {
        assert_eq!(parse_limit("50us"), Some(Limit::Time(Nanos(50_000))));
        assert_eq!(parse_limit("0.1/s"), Some(Limit::Rate(0.1)));
        for bad in ["50", "/s", "inf/s", "-1/s", "x/s", "1/m"] {
            assert_eq!(parse_limit(bad), None, "{bad}");
        }
    }

    #[test]
    fn times_are_written_with_one_digit() {
        let written = [0, 830, 12_340, 4_560_000, 1_230_000_000].map(|ns| time(Nanos(ns)));
        assert_eq!(written, ["0", "830ns", "12.3us", "4.6ms", "1.2s"]);
    }

    #[test]
    fn fuzz_limits() {
        millpond_fuzz::check_text("cmd-limits", &["50us", "10/s", "0.5ms", "2m", "µs"], |text| {
            if let Some(Limit::Rate(rate)) = parse_limit(text) {
                assert!(rate >= 0.0 && rate.is_finite());
            }
        });
    }
}
