//! Times in machine files.

use millpond_model::WallTime;

/// Parses `2024-11-20 08:14:02`, UTC.
pub(super) fn parse_time(text: &str) -> Option<WallTime> {
    let (date, time) = text.split_once(' ')?;
    let (year, month, day) = three(date, '-')?;
    let (hour, minute, second) = three(time, ':')?;
    let possible = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !possible {
        return None;
    }
    let before: i64 = (1970..year).map(|y| 365 + i64::from(is_leap(y))).sum();
    let before = before + (1..month).map(|m| days_in(year, m)).sum::<i64>();
    Some(WallTime(((before + day - 1) * 24 + hour) * 3600 + minute * 60 + second))
}

fn three(text: &str, separator: char) -> Option<(i64, i64, i64)> {
    let mut parts = text.split(separator).map(|p| p.parse::<u32>().ok().map(i64::from));
    let found = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() { None } else { Some(found) }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
