//! Conversion between ticks and units of a resolution. Both directions round up.

/// The largest number in a table.
const VALUE_MAX: u64 = 0x7fff_ffff;

/// Ticks as units of 1/`res` second; `None` if the result is too large for a table.
pub(super) fn to_units(ticks: u32, res: u32, hz: u32) -> Option<u32> {
    scaled(ticks, res, hz)
}

/// Units of 1/`res` second as ticks; `None` if the result is too large for a table.
pub(crate) fn to_ticks(units: u32, res: u32, hz: u32) -> Option<u32> {
    scaled(units, hz, res)
}

fn scaled(value: u32, by: u32, per: u32) -> Option<u32> {
    if per == 0 {
        return None;
    }
    let rounded = (u64::from(value) * u64::from(by)).div_ceil(u64::from(per));
    u32::try_from(rounded).ok().filter(|_| rounded <= VALUE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_ways_are_rounded_up() {
        assert_eq!(to_ticks(7, 1000, 100), Some(1));
        assert_eq!(to_units(1, 1000, 100), Some(10));
        let shown: Vec<_> = [20, 16, 12, 8, 4, 2].map(|ticks| to_units(ticks, 10, 100)).into();
        assert_eq!(shown, [2, 2, 2, 1, 1, 1].map(Some));
    }

    #[test]
    fn what_a_table_cannot_hold_is_told() {
        assert_eq!(to_units(300, 1_000_000_000, 100), None, "three seconds in nanoseconds");
        assert_eq!(to_units(200, 1_000_000_000, 100), Some(2_000_000_000));
        assert_eq!(to_ticks(2_000_000_000, 1, 100), None);
        assert_eq!(to_ticks(1, 0, 100), None);
        assert_eq!(to_ticks(0x7fff_ffff, 100, 100), Some(0x7fff_ffff));
        assert_eq!(to_ticks(0x8000_0000, 100, 100), None);
    }

    proptest! {
        #[test]
        fn nothing_becomes_shorter(ticks in 1u32..100_000, res in 1u32..20_000, hz in 1u32..2000) {
            let back = to_units(ticks, res, hz).and_then(|units| to_ticks(units, res, hz)).unwrap();
            prop_assert!(back >= ticks);
            prop_assert!(res % hz != 0 || back == ticks);
        }
    }
}
