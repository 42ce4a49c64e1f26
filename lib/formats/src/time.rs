//! Times in the format of listings.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use millpond_model::WallTime;

/// Month, day, year, and the time on the 24 hour clock: `11/20/2024 08:14:02`.
#[must_use]
pub fn print_time(at: WallTime, zone: &TimeZone) -> String {
    timestamp(at).to_zoned(zone.clone()).strftime("%m/%d/%Y %H:%M:%S").to_string()
}

/// For JSON: always in UTC, `2024-11-20T08:14:02Z`.
#[must_use]
pub fn print_iso(at: WallTime) -> String {
    timestamp(at).to_string()
}

/// Times outside the range of the calendar are clamped.
pub(crate) fn timestamp(at: WallTime) -> Timestamp {
    let end = if at.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_second(at.0).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::{TimeZone, offset};
    use proptest::prelude::*;

    #[test]
    fn a_time_prints_in_the_zone_that_is_given() {
        let at = WallTime(1_732_090_442);
        assert_eq!(print_time(at, &TimeZone::UTC), "11/20/2024 08:14:02");
        assert_eq!(print_time(at, &TimeZone::fixed(offset(2))), "11/20/2024 10:14:02");
        assert_eq!(print_iso(at), "2024-11-20T08:14:02Z");
    }

    #[test]
    fn the_epoch_has_leading_zeros() {
        assert_eq!(print_time(WallTime(0), &TimeZone::UTC), "01/01/1970 00:00:00");
    }

    proptest! {
        #[test]
        fn no_time_is_too_far_to_print(at in any::<i64>()) {
            let _ = print_time(WallTime(at), &TimeZone::UTC);
            let _ = print_iso(WallTime(at));
        }
    }
}
