//! Totals of the fuzzing searches over all slices: a small file next to each corpus.

use crate::ledger;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// The file, in the directory of the search.
const FILE: &str = "ledger.json";
/// libFuzzer's corpus, in the same directory.
const CORPUS: &str = "corpus";

/// The totals of a search over all slices, or of several searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ledger {
    pub(super) executions: u64,
    pub(super) seconds: u64,
    /// Number of inputs in the corpus after the last slice.
    pub(super) corpus: u64,
    pub(super) slices: u64,
}

impl Ledger {
    /// The totals of a search; zero before its first slice. A damaged file is replaced, with a message.
    pub(super) fn read(dir: &Path) -> (Ledger, Option<String>) {
        ledger::read(&dir.join(FILE))
    }

    /// Adds a slice. The corpus is counted in the directory.
    pub(super) fn after(self, executions: u64, seconds: u64, dir: &Path) -> Ledger {
        Ledger {
            executions: self.executions.saturating_add(executions),
            seconds: self.seconds.saturating_add(seconds),
            corpus: fs::read_dir(dir.join(CORPUS)).map_or(0, |entries| entries.flatten().count() as u64),
            slices: self.slices.saturating_add(1),
        }
    }

    /// Writes the totals.
    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        ledger::write(&dir.join(FILE), self)
    }

    /// The sum of both.
    pub(super) fn plus(self, other: Ledger) -> Ledger {
        Ledger {
            executions: self.executions.saturating_add(other.executions),
            seconds: self.seconds.saturating_add(other.seconds),
            corpus: self.corpus.saturating_add(other.corpus),
            slices: self.slices.saturating_add(other.slices),
        }
    }

    /// Executions per second; `None` before the first.
    pub(super) fn rate(&self) -> Option<u64> {
        self.executions.checked_div(self.seconds)
    }
}

/// A number with separators: `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_add_up() {
        let dir = tempfile::tempdir().unwrap();
        let search = dir.path().join("formats-pset");
        let (none, told) = Ledger::read(&search);
        assert_eq!((none, told), (Ledger { executions: 0, seconds: 0, corpus: 0, slices: 0 }, None));
        none.after(1000, 20, &search).write(&search).unwrap();
        fs::create_dir(search.join("corpus")).unwrap();
        fs::write(search.join("corpus/seed-0"), "1-2").unwrap();
        fs::write(search.join("corpus/0a4d55a8d778e5022fab701977c5d840bbc486d0"), "1-3").unwrap();
        let second = Ledger::read(&search).0.after(234, 61, &search);
        assert_eq!(second, Ledger { executions: 1234, seconds: 81, corpus: 2, slices: 2 });
        second.write(&search).unwrap();
        let text = fs::read_to_string(search.join("ledger.json")).unwrap();
        assert_eq!(text, "{\"executions\":1234,\"seconds\":81,\"corpus\":2,\"slices\":2}\n");
        assert_eq!(fs::read_dir(&search).unwrap().count(), 2, "the corpus and the ledger");
        assert_eq!(second.rate(), Some(15));
        assert_eq!(none.rate(), None);
        let both = second.plus(Ledger { executions: 6, seconds: 1, corpus: 3, slices: 1 });
        assert_eq!(both, Ledger { executions: 1240, seconds: 82, corpus: 5, slices: 3 });
    }

    #[test]
    fn a_damaged_ledger_is_told_and_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ledger.json");
        for damaged in
            ["", "{\"executions\":12", "{\"executions\":-1,\"seconds\":0,\"corpus\":0,\"slices\":0}"]
        {
            fs::write(&file, damaged).unwrap();
            let (ledger, told) = Ledger::read(dir.path());
            assert_eq!(ledger, Ledger::default());
            let begins = format!("{}: the ledger is damaged and begins anew: ", file.display());
            assert!(told.unwrap().starts_with(&begins), "{damaged}");
        }
        fs::write(&file, [0xff, 0xfe]).unwrap();
        let told = Ledger::read(dir.path()).1.unwrap();
        assert!(
            told.ends_with(": the ledger is damaged and begins anew: stream did not contain valid UTF-8")
        );
        Ledger::default().after(5, 1, dir.path()).write(dir.path()).unwrap();
        assert_eq!(Ledger::read(dir.path()).1, None);
    }

    #[test]
    fn large_numbers_have_commas() {
        assert_eq!([0, 999, 1000, 100_000_000].map(grouped), ["0", "999", "1,000", "100,000,000"]);
    }
}
