//! Axes: round numbers that a person would have chosen.

/// An axis from 0, or from its least value if that is below, to a round number that covers the values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    /// The least value on it.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Distance between two marks: 1, 2 or 5 times a power of ten.
    pub step: f64,
    /// Digits behind the point of a mark.
    pub digits: usize,
}

/// About how many marks an axis gets.
const MARKS: f64 = 5.0;

impl Scale {
    /// Covers the values; those that are no numbers are passed over.
    pub fn covering(values: impl IntoIterator<Item = f64>) -> Scale {
        let (low, high) = values
            .into_iter()
            .filter(|value| value.is_finite())
            .fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let span = if high > low { high - low } else { 1.0 };
        let (step, digits) = round_step(span / MARKS);
        let max = if high > low { (high / step).ceil() * step } else { 1.0 };
        Scale { min: (low / step).floor() * step, max, step, digits }
    }

    /// Whole powers of ten that cover the values, which are logarithms of these.
    pub fn of_powers(values: impl IntoIterator<Item = f64>) -> Scale {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let span = finite.fold(None, |span: Option<(f64, f64)>, value| {
            let (low, high) = span.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (low, high) = span.unwrap_or((0.0, 1.0));
        let min = low.floor();
        Scale { min, max: high.ceil().max(min + 1.0), step: 1.0, digits: 0 }
    }

    /// The marks, ascending.
    pub fn marks(&self) -> Vec<f64> {
        let mut marks = Vec::new();
        let mut index = 0_u32;
        loop {
            let mark = self.min + f64::from(index) * self.step;
            // Half a step of slack: sums of steps are not exact.
            if mark > self.max + self.step / 2.0 {
                return marks;
            }
            marks.push(mark);
            index += 1;
        }
    }

    /// Where a value stands between `from` (the least) and `to` (the greatest), kept within both.
    pub fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let share = ((value - self.min) / (self.max - self.min)).clamp(0.0, 1.0);
        from + (to - from) * share
    }

    /// A mark in words.
    pub fn word(&self, mark: f64) -> String {
        format!("{mark:.*}", self.digits)
    }
}

/// The least of 1, 2, 5 times a power of ten that is not below `rough`, and the digits it needs.
fn round_step(rough: f64) -> (f64, usize) {
    let power = rough.log10().floor();
    let base = 10_f64.powf(power);
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * base).find(|step| *step >= rough * 0.999);
    let mut digits = 0;
    // Negative powers of ten from 1 up; the loop ends because a chart has few magnitudes.
    while digits < 9
        && step.unwrap_or(base) * 10_f64.powf(f64::from(u8::try_from(digits).unwrap_or(9))) < 0.999
    {
        digits += 1;
    }
    (step.unwrap_or(base * 10.0), digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn marks_are_round_and_cover_the_values() {
        let marks = |values: &[f64]| {
            let scale = Scale::covering(values.iter().copied());
            scale.marks().into_iter().map(|mark| scale.word(mark)).collect::<Vec<_>>()
        };
        assert_eq!(marks(&[80.0, 1000.0]), ["0", "200", "400", "600", "800", "1000"]);
        assert_eq!(marks(&[97.0]), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(marks(&[0.031]), ["0.00", "0.01", "0.02", "0.03", "0.04"]);
        assert_eq!(marks(&[]), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(marks(&[-3.0, 4.0]), ["-4", "-2", "0", "2", "4"]);
    }

    proptest! {
        #[test]
        fn every_value_finds_a_place(values in proptest::collection::vec(-1e6..1e6_f64, 1..10)) {
            let scale = Scale::covering(values.iter().copied());
            prop_assert!(scale.marks().len() <= 13);
            for value in values {
                prop_assert!(scale.min <= value + 1e-9 && value <= scale.max + 1e-9);
                let place = scale.place(value, 100.0, 0.0);
                prop_assert!((0.0..=100.0).contains(&place));
            }
        }
    }
}
