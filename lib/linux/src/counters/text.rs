//! Reading and cutting up the wide per-processor tables of `/proc`, without an allocation per sample.

use crate::{Root, is_gone};
use millpond_model::CpuId;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Enough for `/proc/stat` of a small machine; grows to what the file needs and stays there.
const BUFFER_BYTES: usize = 16 * 1024;

/// A file that is read again and again from its beginning.
#[derive(Debug)]
pub(super) struct ProcFile {
    file: File,
    buffer: Vec<u8>,
}

impl ProcFile {
    /// Opens `name` below the root's `proc`. `None` when this kernel has no such file.
    pub(super) fn open(root: &Root, name: &str) -> io::Result<Option<ProcFile>> {
        ProcFile::open_at(&root.proc.join(name))
    }

    fn open_at(path: &Path) -> io::Result<Option<ProcFile>> {
        match File::open(path) {
            Ok(file) => Ok(Some(ProcFile { file, buffer: Vec::new() })),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The whole text as it is now.
    pub(super) fn read(&mut self) -> io::Result<&[u8]> {
        // The kernel hands out what it has ready, often less than there is room for: only 0 is the end.
        self.read_until(|_, count| count == 0)
    }

    /// The whole text of a file that the kernel makes in one piece: where it leaves room it has ended.
    pub(super) fn read_piece(&mut self) -> io::Result<&[u8]> {
        self.read_until(|room, count| count < room)
    }

    fn read_until(&mut self, ended: impl Fn(usize, usize) -> bool) -> io::Result<&[u8]> {
        if self.buffer.is_empty() {
            self.buffer.resize(BUFFER_BYTES, 0);
        }
        let mut filled = 0;
        loop {
            if filled == self.buffer.len() {
                self.buffer.resize(filled * 2, 0);
            }
            let room = self.buffer.len() - filled;
            match self.file.read_at(&mut self.buffer[filled..], filled as u64) {
                Ok(count) => {
                    filled += count;
                    if ended(room, count) {
                        return Ok(&self.buffer[..filled]);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A place in a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Cursor { text, at: 0 }
    }

    pub(super) fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips blanks, eight at a time where the table is wide and empty.
    fn skip_blanks(&mut self) {
        while let Some(chunk) = self.text.get(self.at..self.at + 8) {
            if chunk != b"        " {
                break;
            }
            self.at += 8;
        }
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// The next number of this line. `None`, with the cursor before it, when something else stands there:
    /// a number ends at a blank, so `5-edge` is none. Digits beyond 64 bits saturate.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.skip_blanks();
        let start = self.at;
        let mut value: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let ended = matches!(self.peek(), None | Some(b' ' | b'\t' | b'\n' | b'\r'));
        if self.at > start && ended {
            return Some(value);
        }
        self.at = start;
        None
    }

    /// The next word of this line.
    pub(super) fn word(&mut self) -> Option<&'t [u8]> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
        self.at += len;
        (len > 0).then(|| &rest[..len])
    }

    /// What stands before the next colon of this line; the cursor is then behind it. `None`, with the cursor
    /// where it was, when the line has no colon.
    pub(super) fn label(&mut self) -> Option<&'t [u8]> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let len = rest.iter().position(|b| matches!(b, b':' | b'\n'))?;
        if rest[len] != b':' {
            return None;
        }
        self.at += len + 1;
        Some(&rest[..len])
    }

    /// What is left of this line; the cursor is then at the beginning of the next.
    pub(super) fn rest_of_line(&mut self) -> &'t [u8] {
        let rest = &self.text[self.at.min(self.text.len())..];
        let len = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        self.at += len + 1;
        &rest[..len]
    }
}

/// Sums of some rows of a table whose columns are processors.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ColumnSums {
    /// The processors, in the order of the table's head.
    pub(super) cpus: Vec<CpuId>,
    /// One sum per processor.
    pub(super) sums: Vec<u64>,
    /// How many rows went into them.
    pub(super) rows: usize,
}

impl ColumnSums {
    /// Takes the head line (`CPU0 CPU1 CPU3 …`) and forgets all sums.
    pub(super) fn start(&mut self, cursor: &mut Cursor<'_>) {
        self.cpus.clear();
        self.rows = 0;
        while let Some(word) = cursor.word() {
            let number = word.strip_prefix(b"CPU").and_then(parse_u32);
            self.cpus.extend(number.map(CpuId));
        }
        cursor.rest_of_line();
        self.sums.clear();
        self.sums.resize(self.cpus.len(), 0);
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        self.cpus.clear();
        self.sums.clear();
        self.rows = 0;
    }

    /// Adds a row: one number per processor. A row with fewer numbers belongs to no processor and is left out.
    pub(super) fn add_row(&mut self, cursor: &mut Cursor<'_>) {
        let start = *cursor;
        for (index, sum) in self.sums.iter_mut().enumerate() {
            let Some(value) = cursor.number() else {
                self.take_back(start, index);
                return;
            };
            *sum = sum.wrapping_add(value);
        }
        self.rows += 1;
    }

    fn take_back(&mut self, mut cursor: Cursor<'_>, count: usize) {
        for sum in &mut self.sums[..count] {
            *sum = sum.wrapping_sub(cursor.number().unwrap_or(0));
        }
    }

    /// The sum of a processor. `hint` is where it is likely to stand; a table is walked in order.
    pub(super) fn of(&self, cpu: CpuId, hint: usize) -> Option<u64> {
        if self.rows == 0 {
            return None;
        }
        let index = match self.cpus.get(hint) {
            Some(there) if *there == cpu => hint,
            _ => self.cpus.iter().position(|c| *c == cpu)?,
        };
        self.sums.get(index).copied()
    }
}

/// Decimal digits only.
pub(super) fn parse_u32(text: &[u8]) -> Option<u32> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if digits { std::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[test]
    fn a_number_ends_at_a_blank() {
        let mut cursor = Cursor::new(b" 12 5-edge\n7");
        assert_eq!(cursor.number(), Some(12));
        assert_eq!(cursor.number(), None);
        assert_eq!(cursor.rest_of_line(), b"5-edge");
        assert_eq!(cursor.number(), Some(7));
        assert_eq!(cursor.number(), None);
    }

    #[test]
    fn a_number_does_not_reach_over_the_end_of_its_line() {
        let mut cursor = Cursor::new(b"1\n2\n");
        assert_eq!(cursor.number(), Some(1));
        assert_eq!(cursor.number(), None);
    }

    #[test]
    fn a_file_is_read_anew_each_time_and_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let long = "x".repeat(3 * BUFFER_BYTES);
        std::fs::write(&path, &long).unwrap();
        let mut file = ProcFile::open_at(&path).unwrap().unwrap();
        assert_eq!(file.read().unwrap(), long.as_bytes());
        assert_eq!(file.read_piece().unwrap(), long.as_bytes());
        let mut writer = std::fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
        writer.write_all(b"short").unwrap();
        assert_eq!(file.read().unwrap(), b"short");
        assert_eq!(file.read_piece().unwrap(), b"short");
        assert!(ProcFile::open_at(&dir.path().join("absent")).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn sums_are_the_sums_of_full_rows_whatever_the_widths(
            cpus in proptest::collection::btree_set(0u32..5000, 1..20),
            rows in proptest::collection::vec((proptest::collection::vec(0u64..1 << 32, 20), 1usize..14), 0..8),
            short in 0usize..19,
        ) {
            let mut text = String::from("     ");
            for cpu in &cpus {
                text.push_str(&format!("CPU{cpu}       "));
            }
            text.push('\n');
            let mut expected = vec![0u64; cpus.len()];
            for (row, width) in &rows {
                text.push_str(" X:");
                for (value, sum) in row.iter().zip(&mut expected) {
                    text.push_str(&format!(" {value:width$}"));
                    *sum += value;
                }
                text.push_str("  GIC 5-edge name 12\n");
            }
            text.push_str("ERR:");
            let short = short.min(cpus.len() - 1);
            text.push_str(&" 9".repeat(short));
            text.push('\n');

            let mut sums = ColumnSums::default();
            let mut cursor = Cursor::new(text.as_bytes());
            sums.start(&mut cursor);
            while !cursor.at_end() {
                if cursor.label().is_some() {
                    sums.add_row(&mut cursor);
                }
                cursor.rest_of_line();
            }
            prop_assert!(sums.cpus.iter().map(|c| c.0).eq(cpus.iter().copied()));
            prop_assert_eq!(&sums.sums, &expected);
            prop_assert_eq!(sums.rows, rows.len());
        }
    }
}
