//! Axes with round numbers.

/// An axis from 0, or from the lowest value if that is negative, to a round number that covers the values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    /// The lowest value on the axis.
    pub min: f64,
    /// The highest value on the axis.
    pub max: f64,
    /// The distance between two marks: 1, 2 or 5 times a power of ten.
    pub step: f64,
    /// The number of decimals of a mark.
    pub digits: usize,
}

/// The approximate number of marks on an axis.
const MARKS: f64 = 5.0;

impl Scale {
    /// Covers the values; those that are not finite are ignored.
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

    /// Integer powers of ten that cover the values, which are logarithms.
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
            // Half a step of tolerance: sums of steps are not exact.
            if mark > self.max + self.step / 2.0 {
                return marks;
            }
            marks.push(mark);
            index += 1;
        }
    }

    /// The position of a value between `from` (the lowest) and `to` (the highest), clamped to both.
    pub fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let share = ((value - self.min) / (self.max - self.min)).clamp(0.0, 1.0);
        from + (to - from) * share
    }

    /// A mark as text.
    pub fn word(&self, mark: f64) -> String {
        format!("{mark:.*}", self.digits)
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `rough`, and the number of decimals it needs.
fn round_step(rough: f64) -> (f64, usize) {
    let power = rough.log10().floor();
    let base = 10_f64.powf(power);
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * base).find(|step| *step >= rough * 0.999);
    let mut digits = 0;
    // Negative powers of ten from 1 up; the loop is short because a chart has few orders of magnitude.
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
