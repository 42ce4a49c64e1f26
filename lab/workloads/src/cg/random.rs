//! The benchmark's random numbers: x <- 5^13 x mod 2^46, seeded with 314159265.
//!
//! The definition is usually evaluated in double precision, with numbers split at 23 bits to stay exact. Integer
//! arithmetic modulo 2^64 gives the same values: 2^46 divides 2^64, so the low 46 bits of the wrapped product are correct.

const MULTIPLIER: u64 = 1_220_703_125;
const SEED: u64 = 314_159_265;
const BITS: u32 = 46;

/// The generator. Its values are `state / 2^46`, in [0, 1).
#[derive(Debug, Clone)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The generator with the benchmark's seed.
    pub(crate) fn new() -> Self {
        Self { state: SEED }
    }

    /// The next number times 2^46.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(MULTIPLIER) & ((1 << BITS) - 1);
        self.state
    }

    /// The next number in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        // Both conversions are exact: 46 bits fit a double.
        self.next() as f64 / (1_u64 << BITS) as f64
    }

    /// The integer part of the next number times 2^`bits`. `bits` is at most 32.
    pub(crate) fn below_power_of_two(&mut self, bits: u32) -> u32 {
        debug_assert!(bits <= 32);
        u32::try_from(self.next() >> (BITS - bits)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_values_are_those_worked_out_by_hand() {
        // 314 159 265 x 5^13 = 383 495 196 533 203 125 = 5 449 x 2^46 + 55 909 509 111 989; the others likewise.
        let mut random = Random::new();
        let expected: [u64; 4] =
            [55_909_509_111_989, 61_155_031_930_969, 45_573_031_421_645, 55_279_057_169_489];
        assert_eq!([(); 4].map(|()| random.next()), expected);
    }

    #[test]
    fn the_fraction_is_the_state_over_two_to_the_46th() {
        assert_eq!(Random::new().uniform(), 55_909_509_111_989.0 / 70_368_744_177_664.0);
    }

    /// a x mod 2^46 in double precision, both factors split into halves of 23 bits: the benchmark's own definition.
    fn step_in_doubles(x: f64) -> f64 {
        let (half, whole) = (8_388_608.0_f64, 70_368_744_177_664.0_f64);
        let (a_high, x_high) = ((1_220_703_125.0 / half).floor(), (x / half).floor());
        let (a_low, x_low) = (1_220_703_125.0 - a_high * half, x - x_high * half);
        let cross = a_high * x_low + a_low * x_high;
        let cross = cross - (cross / half).floor() * half;
        let product = cross * half + a_low * x_low;
        product - (product / whole).floor() * whole
    }

    #[test]
    fn ten_thousand_values_agree_with_the_definition_in_double_precision() {
        let (mut random, mut x) = (Random::new(), 314_159_265.0);
        for _ in 0..10_000 {
            x = step_in_doubles(x);
            assert_eq!(random.next() as f64, x);
        }
    }

    proptest! {
        #[test]
        fn whole_parts_agree_with_the_fraction(skip in 0_usize..1000, bits in 0_u32..=32) {
            let mut one = Random::new();
            (0..skip).for_each(|_| { one.next(); });
            let mut other = one.clone();
            let product = one.uniform() * (1_u64 << bits) as f64;
            prop_assert_eq!(f64::from(other.below_power_of_two(bits)), product.floor());
        }
    }
}
