//! The output of `cyclictest` of rt-tests about one thread: `cyclictest -q -t 1 -h US`.
//!
//! For each microsecond a line with the number of waits of that length (rounded down), then lines with `#`:
//!
//! ```text
//! 000025 000069
//! # Total: 000000498
//! # Min Latencies: 00016
//! # Avg Latencies: 00035
//! # Max Latencies: 01331
//! # Histogram Overflows: 00002
//! ```
//!
//! The total is the sum of the lines above; longer waits are the overflows.

use std::collections::BTreeMap;

/// The result of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cyclictest {
    /// The number of waits by length in microseconds.
    pub counts: BTreeMap<u64, u64>,
    /// Waits beyond the histogram.
    pub over: u64,
    /// The longest wait, in microseconds.
    pub max_us: u64,
}

/// A text that is not output of `cyclictest`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct CyclictestError {
    /// From 1; for a missing line the one after the last.
    pub line: usize,
    /// The error.
    pub why: String,
}

/// The labels of the required lines after `#`.
const TOTAL: &str = "Total:";
const MAX: &str = "Max Latencies:";
const OVER: &str = "Histogram Overflows:";

/// Parses the whole output.
///
/// # Errors
/// [`CyclictestError`] with the line: a text without numbers, several threads, a wrong total, a missing end.
pub fn parse(text: &str) -> Result<Cyclictest, CyclictestError> {
    let mut read = Cyclictest::default();
    let (mut sum, mut max, mut total, mut last) = (0u64, None, None, 0);
    for (line, words) in (1..).zip(text.lines()) {
        last = line;
        let at = |why: &str| CyclictestError { line, why: why.to_owned() };
        let words = words.trim();
        if let Some(head) = words.strip_prefix('#') {
            for (name, place) in [(TOTAL, &mut total), (MAX, &mut max)] {
                if let Some(numbers) = head.trim_start().strip_prefix(name) {
                    *place = Some(one(numbers).map_err(at)?);
                }
            }
            if let Some(numbers) = head.trim_start().strip_prefix(OVER) {
                read.over = one(numbers).map_err(at)?;
            }
            continue;
        }
        let Some((us, count)) = words.split_once(char::is_whitespace) else {
            if words.is_empty() {
                continue;
            }
            return Err(at("a wait and its count are expected"));
        };
        let us = one(us).map_err(at)?;
        let count = one(count).map_err(at)?;
        if count == 0 {
            continue;
        }
        sum = sum.checked_add(count).ok_or_else(|| at("there are too many waits"))?;
        if read.counts.insert(us, count).is_some() {
            return Err(at("this wait was counted before"));
        }
    }
    let end = |why: &str| CyclictestError { line: last + 1, why: why.to_owned() };
    let Some(total) = total else { return Err(end("the total is missing")) };
    read.max_us = max.ok_or_else(|| end("the longest wait is missing"))?;
    if total != sum {
        return Err(end(&format!("the total is {total}, and the lines have {sum} waits")));
    }
    Ok(read)
}

/// The only number in a text.
fn one(text: &str) -> Result<u64, &'static str> {
    let mut words = text.split_whitespace();
    match (words.next().map(str::parse), words.next()) {
        (Some(Ok(number)), None) => Ok(number),
        (Some(Ok(_)), Some(_)) => Err("there are several threads"),
        _ => Err("a number is expected"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
# /dev/cpu_dma_latency set to 0us
# Histogram
000000 000000
000001 000000
000002 000003
000003 000005
# Total: 000000008
# Min Latencies: 00002
# Avg Latencies: 00003
# Max Latencies: 01331
# Histogram Overflows: 00002
# Histogram Overflow at cycle number:
# Thread 0: 00438 00439
";

    #[test]
    fn waits_are_read_with_what_lies_beyond() {
        let read = parse(SAID).unwrap();
        assert_eq!(read, Cyclictest { counts: [(2, 3), (3, 5)].into(), over: 2, max_us: 1331 });
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (from, to, says) in [
            ("000003 000005", "000003 000005 000005", "line 6: there are several threads"),
            ("000003 000005", "000003", "line 6: a wait and its count are expected"),
            ("000003 000005", "three 000005", "line 6: a number is expected"),
            ("000003 000005", "000002 000005", "line 6: this wait was counted before"),
            ("000003 000005", "000003 000006", "line 14: the total is 8, and the lines have 9 waits"),
            ("# Total: 000000008\n", "", "line 13: the total is missing"),
            ("# Max Latencies: 01331", "# Max", "line 14: the longest wait is missing"),
            ("# Max Latencies: 01331", "# Max Latencies: 01331 00007", "line 10: there are several threads"),
        ] {
            assert_eq!(parse(&SAID.replace(from, to)).unwrap_err().to_string(), says, "{to}");
        }
        assert_eq!(parse("").unwrap_err().to_string(), "line 1: the total is missing");
    }

    #[test]
    fn fuzz_cyclictest() {
        let seeds = [SAID, "000001 18446744073709551615\n# Total: 1\n# Max Latencies: 1", ""];
        millpond_fuzz::check_text("formats-cyclictest", &seeds, |text| match parse(text) {
            Ok(read) => {
                let lines: String = read.counts.iter().map(|(us, count)| format!("{us} {count}\n")).collect();
                let total: u64 = read.counts.values().sum();
                let said = format!(
                    "{lines}# Total: {total}\n# Max Latencies: {}\n# Histogram Overflows: {}\n",
                    read.max_us, read.over
                );
                assert_eq!(parse(&said), Ok(read));
            }
            Err(error) => assert!((1..=text.lines().count() + 1).contains(&error.line), "{error}"),
        });
    }
}
