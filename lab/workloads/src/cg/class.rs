//! The problem classes of NPB CG: sizes, reference results and nominal operations.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A problem class. B takes about a quarter of a gigabyte while its matrix is generated; larger ones are not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Class {
    /// Sample: 1,400 rows, a few tens of milliseconds.
    S,
    /// Workstation: 7,000 rows.
    W,
    /// 14,000 rows.
    A,
    /// 75,000 rows, 75 iterations.
    B,
}

/// The parameters of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Problem {
    /// Rows (and columns) of the matrix.
    pub rows: u32,
    /// Off-diagonal positions drawn for each generating vector.
    pub row_nonzeros: u32,
    /// Outer iterations of one repetition.
    pub iterations: u32,
    /// Subtracted from the diagonal, and added to the eigenvalue estimate.
    pub shift: f64,
}

/// Steps of the conjugate gradient in each outer iteration, the same for every class.
pub(crate) const INNER_STEPS: u32 = 25;

/// Maximum relative deviation of zeta from the reference.
const ZETA_TOLERANCE: f64 = 1e-10;

impl Class {
    /// Every class, smallest first.
    pub const ALL: [Self; 4] = [Self::S, Self::W, Self::A, Self::B];

    /// The parameters of this class.
    pub fn problem(self) -> Problem {
        let (rows, row_nonzeros, iterations, shift) = match self {
            Self::S => (1_400, 7, 15, 10.0),
            Self::W => (7_000, 8, 15, 12.0),
            Self::A => (14_000, 11, 15, 20.0),
            Self::B => (75_000, 13, 75, 60.0),
        };
        Problem { rows, row_nonzeros, iterations, shift }
    }

    /// The published eigenvalue estimate after the last iteration.
    pub fn zeta_reference(self) -> f64 {
        match self {
            Self::S => 8.5971775078648,
            Self::W => 10.362595087124,
            Self::A => 17.130235054029,
            Self::B => 22.712745482631,
        }
    }

    /// Whether `zeta` passes: within 1e-10 of the reference, relative.
    pub fn accepts(self, zeta: f64) -> bool {
        let reference = self.zeta_reference();
        (zeta - reference).abs() <= ZETA_TOLERANCE * reference
    }

    /// Millions of operations per second of `iterations` outer iterations in `seconds`, by the benchmark's formula (a nominal count,
    /// independent of how the work is done). 0 for no time.
    pub fn mops(self, iterations: u64, seconds: f64) -> f64 {
        if seconds > 0.0 { iterations as f64 * self.problem().operations() / seconds / 1e6 } else { 0.0 }
    }
}

impl Problem {
    /// Nominal operations of one outer iteration.
    pub fn operations(&self) -> f64 {
        let row = f64::from(self.row_nonzeros) * f64::from(self.row_nonzeros + 1);
        2.0 * f64::from(self.rows) * (3.0 + row + f64::from(INNER_STEPS) * (5.0 + row) + 3.0)
    }

    /// The most elements that the matrix can have.
    pub fn nonzeros_max(&self) -> usize {
        let vector = self.row_nonzeros as usize + 1;
        self.rows as usize * vector * vector
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::S => "S",
            Self::W => "W",
            Self::A => "A",
            Self::B => "B",
        })
    }
}

/// The text is not one of the classes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot use class {0}: it is none of S, W, A, B")]
pub struct UnknownClass(String);

impl FromStr for Class {
    type Err = UnknownClass;

    /// Parses one letter, ignoring case.
    fn from_str(text: &str) -> Result<Self, UnknownClass> {
        let found = Self::ALL.into_iter().find(|class| class.to_string().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn class_s_counts_66_654_million_operations() {
        // 2 x 15 x 1400 x (3 + 56 + 25 x (5 + 56) + 3) = 42,000 x 1,587.
        assert_eq!(Class::S.mops(15, 1.0), 66.654);
        assert_eq!(Class::S.mops(15, 0.5), 133.308);
        assert_eq!(Class::S.mops(30, 1.0), 133.308);
    }

    #[test]
    fn no_time_gives_no_rate() {
        assert_eq!(Class::W.mops(0, 0.0), 0.0);
    }

    #[test]
    fn the_matrix_bound_is_rows_times_the_square_of_a_vector() {
        assert_eq!(Class::S.problem().nonzeros_max(), 89_600);
        assert_eq!(Class::A.problem().nonzeros_max(), 2_016_000);
    }

    #[test]
    fn zeta_passes_up_to_a_ten_billionth_of_the_reference() {
        assert!(Class::S.accepts(8.5971775078648));
        assert!(Class::S.accepts(8.5971775078648 + 8.5e-10));
        assert!(!Class::S.accepts(8.5971775078648 + 8.7e-10));
        assert!(!Class::S.accepts(8.5971775078648 - 8.7e-10));
        assert!(!Class::S.accepts(f64::NAN));
    }

    #[test]
    fn an_unknown_class_is_refused_by_name() {
        let error = "C".parse::<Class>().unwrap_err();
        assert_eq!(error.to_string(), "cannot use class C: it is none of S, W, A, B");
        assert!("".parse::<Class>().is_err());
        assert!("SS".parse::<Class>().is_err());
    }

    proptest! {
        #[test]
        fn a_class_reads_back_as_itself_in_either_case(class in prop::sample::select(&Class::ALL[..])) {
            prop_assert_eq!(class.to_string().parse::<Class>().unwrap(), class);
            prop_assert_eq!(class.to_string().to_lowercase().parse::<Class>().unwrap(), class);
            prop_assert_eq!(serde_json::from_str::<Class>(&serde_json::to_string(&class).unwrap()).unwrap(), class);
        }

        #[test]
        fn a_text_that_reads_as_a_class_is_its_letter(text in "\\PC{0,2}") {
            if let Ok(class) = text.parse::<Class>() {
                prop_assert_eq!(class.to_string(), text.to_uppercase());
            }
        }
    }
}
