//! The operands `interval [count]` of commands that repeat, and the moments at which they report.

use crate::failure::Failure;
use millpond_model::Nanos;

/// The longest interval: what is longer was not meant as one.
const INTERVAL_S_MAX: f64 = 1e9;

/// How often a command reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Time between reports.
    pub interval: Nanos,
    /// How many; `None` for no end.
    pub count: Option<u64>,
}

impl Repetition {
    /// Understands the operands. `None` when there are none.
    ///
    /// # Errors
    /// [`Failure::Usage`] for too many, [`Failure::Operand`] for one that makes no sense.
    pub fn parse(words: &[String]) -> Result<Option<Repetition>, Failure> {
        match words {
            [] => Ok(None),
            [interval] => Ok(Some(Repetition { interval: seconds(interval)?, count: None })),
            [interval, count] => {
                let count = count.parse().ok().filter(|_| count.bytes().all(|b| b.is_ascii_digit()));
                let refuse = || Failure::Operand(format!("`{}` is not a count", words[1]));
                let count: u64 = count.ok_or_else(refuse)?;
                Ok(Some(Repetition { interval: seconds(interval)?, count: Some(count) }))
            }
            _ => Err(Failure::Usage("too many operands".to_owned())),
        }
    }
}

/// Seconds, with a fraction if need be: `5`, `0.25`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be positive and small"
)]
pub fn seconds(text: &str) -> Result<Nanos, Failure> {
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: Option<f64> = if plain { text.parse().ok() } else { None };
    let nanos = value.filter(|v| *v <= INTERVAL_S_MAX).map(|v| Nanos((v * 1e9).round() as u64));
    nanos
        .filter(|n| *n > Nanos(0))
        .ok_or_else(|| Failure::Operand(format!("`{text}` is not an interval (seconds, more than 0)")))
}

/// When to report next.
///
/// A run with an end keeps its cadence: each report is due an interval after the last was due. If a report
/// took so long that less than a quarter of the interval is left, the wait is half an interval, and the
/// cadence goes on from there. A run without an end, and one that was stopped for longer than an interval,
/// waits for a whole interval each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    interval: Nanos,
    due: Nanos,
    keeps: bool,
}

impl Cadence {
    /// The first report was at `now`.
    #[must_use]
    pub fn begin(repetition: Repetition, now: Nanos) -> Self {
        Cadence { interval: repetition.interval, due: now, keeps: repetition.count.is_some() }
    }

    /// A report is done, and it is `now`: when is the next one due?
    pub fn next(&mut self, now: Nanos) -> Nanos {
        let planned = self.due + self.interval;
        if now >= planned + self.interval {
            self.keeps = false;
        }
        self.due = if !self.keeps {
            now + self.interval
        } else if (planned - now).0 < self.interval.0 / 4 {
            now + Nanos(self.interval.0 / 2)
        } else {
            planned
        };
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<Repetition>, Failure> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Repetition::parse(&words)
    }

    #[test]
    fn an_interval_may_have_a_fraction_and_a_count_not() {
        let repetition = |ms, count| Ok(Some(Repetition { interval: Nanos::from_millis(ms), count }));
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("5"), repetition(5000, None));
        assert_eq!(parse("0.25 3"), repetition(250, Some(3)));
        assert_eq!(parse("1 0"), repetition(1000, Some(0)));
        for bad in ["0", "-1", "1e3", "inf", "x", "1 -2", "1 2.5", "1 +2", "9999999999", "1 2 3", "."] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    fn cadence(count: Option<u64>) -> Cadence {
        Cadence::begin(Repetition { interval: Nanos(1000), count }, Nanos(0))
    }

    #[test]
    fn a_run_with_an_end_keeps_its_cadence() {
        let mut cadence = cadence(Some(9));
        assert_eq!(cadence.next(Nanos(100)), Nanos(1000));
        assert_eq!(cadence.next(Nanos(1700)), Nanos(2000));
        // Late: less than a quarter is left.
        assert_eq!(cadence.next(Nanos(2800)), Nanos(3300));
        assert_eq!(cadence.next(Nanos(3310)), Nanos(4300));
    }

    #[test]
    fn a_run_without_an_end_starts_anew_each_time() {
        let mut cadence = cadence(None);
        assert_eq!(cadence.next(Nanos(100)), Nanos(1100));
        assert_eq!(cadence.next(Nanos(1150)), Nanos(2150));
    }

    #[test]
    fn a_run_that_was_stopped_starts_anew_from_then_on() {
        let mut cadence = cadence(Some(9));
        assert_eq!(cadence.next(Nanos(5000)), Nanos(6000));
        assert_eq!(cadence.next(Nanos(6100)), Nanos(7100));
    }

    #[test]
    fn fuzz_intervals() {
        let seeds = ["5", "0.25 3", "1 0", "1e3", "inf", "1000000000 18446744073709551615"];
        millpond_fuzz::check_text("cmd-intervals", &seeds, |text| {
            if let Ok(Some(repetition)) = parse(text) {
                assert!(repetition.interval > Nanos(0));
                let mut cadence = Cadence::begin(repetition, Nanos(0));
                assert!(cadence.next(Nanos(7)) > Nanos(7));
            }
        });
    }

    proptest! {
        #[test]
        fn the_next_report_is_ahead_by_a_quarter_at_least_and_five_quarters_at_most(
            counted in any::<bool>(), steps in proptest::collection::vec(0u64..3000, 1..20)
        ) {
            let mut cadence = cadence(counted.then_some(9));
            let mut now = Nanos(0);
            for late in steps {
                let due = cadence.next(now);
                prop_assert!(due.0 >= now.0 + 250 && due.0 <= now.0 + 1250);
                now = due + Nanos(late);
            }
        }

        #[test]
        fn any_words_are_survived(words in proptest::collection::vec(".{0,8}", 0..4)) {
            let _ = Repetition::parse(&words);
        }
    }
}
