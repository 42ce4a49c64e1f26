//! What else runs on a machine: threads of other processes, each for a moment.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long is looked at.
const WINDOW: Duration = Duration::from_secs(1);

/// What other processes ran.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Others {
    /// How often in a second one of their threads was given a CPU.
    pub times_s: f64,
    /// How long it then kept it, in nanoseconds on average.
    pub time_ns: f64,
}

impl Others {
    /// Hundredths of one CPU that they took.
    #[must_use]
    pub fn percent(&self) -> f64 {
        self.times_s * self.time_ns / 1e7
    }
}

/// What a thread ran since it began: nanoseconds, and how often.
type Ran = (u64, u64);

/// Looks for a second, asleep. `None` where the kernel keeps no such count.
pub(super) fn look() -> Option<Others> {
    let (before, began) = (all(), Instant::now());
    std::thread::sleep(WINDOW);
    let (after, passed) = (all(), began.elapsed());
    (!after.is_empty()).then(|| between(&before, &after, passed))
}

/// What was added by threads that are there at the end.
fn between(before: &BTreeMap<u32, Ran>, after: &BTreeMap<u32, Ran>, passed: Duration) -> Others {
    let (mut nanos, mut times) = (0u64, 0u64);
    for (thread, (ran, count)) in after {
        // A number that came back is another thread's: it ran less than the one before.
        let (ran_before, count_before) =
            before.get(thread).filter(|before| before.0 <= *ran).copied().unwrap_or_default();
        nanos += ran - ran_before;
        times += count.saturating_sub(count_before);
    }
    #[expect(clippy::cast_precision_loss, reason = "a second's nanoseconds, of some thousand threads")]
    let float = |number: u64| number as f64;
    let time_ns = if times == 0 { 0.0 } else { float(nanos) / float(times) };
    Others { times_s: float(times) / passed.as_secs_f64(), time_ns }
}

/// All threads but our own.
fn all() -> BTreeMap<u32, Ran> {
    let own = std::process::id();
    numbers(Path::new("/proc"))
        .filter(|process| *process != own)
        .flat_map(|process| {
            let tasks = Path::new("/proc").join(process.to_string()).join("task");
            numbers(&tasks)
                .filter_map(|thread| {
                    let text = fs::read_to_string(tasks.join(thread.to_string()).join("schedstat")).ok()?;
                    Some((thread, parse(&text)?))
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The numbers that are names there.
fn numbers(directory: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `229839325 25550327 889`: nanoseconds on a CPU and in a queue, and how often on a CPU.
fn parse(text: &str) -> Option<Ran> {
    let mut words = text.split_ascii_whitespace();
    let (ran, _, times) = (words.next()?.parse().ok()?, words.next()?, words.next()?.parse().ok()?);
    Some((ran, times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_counts() {
        assert_eq!(parse("229839325 25550327 889\n"), Some((229_839_325, 889)));
        assert_eq!(parse("229839325 25550327"), None);
        let before = BTreeMap::from([(1, (1_000, 10)), (2, (5_000, 3)), (3, (70, 7)), (4, (900, 9))]);
        // 1 ran 10 times for 300 ns in all; 2 did not; 3 is another one's number now; 4 ended; 5 is new.
        let after = BTreeMap::from([(1, (1_300, 20)), (2, (5_000, 3)), (3, (50, 2)), (5, (250, 3))]);
        let others = between(&before, &after, Duration::from_millis(500));
        assert_eq!(others, Others { times_s: 30.0, time_ns: 40.0 });
        // 30 times 40 ns are 1.2 us of a second.
        assert!((others.percent() - 0.000_12).abs() < 1e-12);
        let none = between(&before, &before, Duration::from_secs(1));
        assert_eq!(none, Others { times_s: 0.0, time_ns: 0.0 });
    }
}
