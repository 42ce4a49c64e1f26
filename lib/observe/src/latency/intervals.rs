//! Times between timers: primes, so that they keep step with no clock.

/// How many there are.
pub const INTERVALS: usize = 24;

/// The primes that are nearest to a number, ascending; of two that are equally near the lesser one.
#[must_use]
pub fn primes_near(number: u64) -> Vec<u64> {
    let mut primes = Vec::with_capacity(INTERVALS);
    let mut away = 0;
    while primes.len() < INTERVALS {
        let below = number.checked_sub(away).filter(|n| is_prime(*n));
        let above = number.checked_add(away).filter(|n| away > 0 && is_prime(*n));
        primes.extend(below.into_iter().chain(above));
        away += 1;
    }
    primes.truncate(INTERVALS);
    primes.sort_unstable();
    primes
}

fn is_prime(number: u64) -> bool {
    let mut divisors = (2..).take_while(|d: &u64| d.checked_mul(*d).is_some_and(|square| square <= number));
    number >= 2 && divisors.all(|d| !number.is_multiple_of(d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn around_a_thousand_they_are_these() {
        assert_eq!(
            primes_near(1000),
            [
                919, 929, 937, 941, 947, 953, 967, 971, 977, 983, 991, 997, 1009, 1013, 1019, 1021, 1031,
                1033, 1039, 1049, 1051, 1061, 1063, 1069
            ]
        );
        assert_eq!(primes_near(0)[..5], [2, 3, 5, 7, 11]);
    }

    proptest! {
        #[test]
        fn no_prime_that_was_left_out_is_nearer(number in 0..100_000u64) {
            let primes = primes_near(number);
            prop_assert_eq!(primes.len(), INTERVALS);
            let farthest = primes.iter().map(|p| p.abs_diff(number)).max().unwrap();
            for other in number.saturating_sub(farthest)..=number + farthest {
                let nearer = other.abs_diff(number) < farthest;
                prop_assert!(!nearer || primes.contains(&other) == is_prime(other));
            }
        }
    }
}
