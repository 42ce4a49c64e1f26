//! Reading and cutting up the wide per-processor tables of `/proc`, without an allocation per sample.

use super::digits::DigitSums;
use crate::{Root, is_gone};
use memchr::{memchr, memchr2, memrchr};
use millpond_model::CpuId;
use rustix::buffer::spare_capacity;
use rustix::io::{Errno, pread};
use std::fs::File;
use std::io;

/// Enough for `/proc/stat` of a machine with a thousand CPUs, and little enough to stay in the cache.
/// Grows to what a file needs, and stays there. Memory that is not needed is not touched.
const BUFFER_BYTES: usize = 64 * 1024;

/// What is read: one buffer for all files, since each is done with before the next is read.
#[derive(Debug, Default)]
pub(super) struct Buffer(Vec<u8>);

/// A file that is read again and again from its beginning.
#[derive(Debug)]
pub(super) struct ProcFile {
    file: File,
}

impl ProcFile {
    /// Opens `name` below the root's `proc`. `None` when this kernel has no such file.
    pub(super) fn open(root: &Root, name: &str) -> io::Result<Option<ProcFile>> {
        ProcFile::of(root.open(&root.proc.join(name)))
    }

    #[cfg(test)]
    fn open_at(path: &std::path::Path) -> io::Result<Option<ProcFile>> {
        ProcFile::of(File::open(path))
    }

    fn of(opened: io::Result<File>) -> io::Result<Option<ProcFile>> {
        match opened {
            Ok(file) => Ok(Some(ProcFile { file })),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Hands the text as it is now to `take`, piece by piece. Pieces are made of whole lines; only the last line
    /// may lack its end.
    pub(super) fn read_lines(&self, buffer: &mut Buffer, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let text = &mut buffer.0;
        let mut offset = 0;
        text.clear();
        loop {
            let old = text.len();
            // The kernel hands out what it has ready, often less than there is room for: only 0 is the end.
            let count = self.read_on(text, offset)?;
            if count == 0 {
                if !text.is_empty() {
                    take(text);
                }
                return Ok(());
            }
            offset += count as u64;
            if let Some(end) = memrchr(b'\n', &text[old..]) {
                take(&text[..=old + end]);
                text.drain(..=old + end);
            }
        }
    }

    /// The whole text of a file that the kernel makes in one piece: where it leaves room it has ended.
    pub(super) fn read_piece<'b>(&self, buffer: &'b mut Buffer) -> io::Result<&'b [u8]> {
        let text = &mut buffer.0;
        text.clear();
        loop {
            let offset = text.len() as u64;
            let count = self.read_on(text, offset)?;
            if count == 0 || text.len() < text.capacity() {
                return Ok(text);
            }
        }
    }

    /// Reads what stands at `offset` of the file to the end of `text`, for which there will be room. Gives how
    /// many bytes came; 0 at the end.
    fn read_on(&self, text: &mut Vec<u8>, offset: u64) -> io::Result<usize> {
        if text.len() == text.capacity() {
            text.reserve_exact(text.len().max(BUFFER_BYTES));
        }
        loop {
            match pread(&self.file, spare_capacity(text), offset) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
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

    /// Skips blanks: mostly one, and many at once where a table is wide and empty.
    #[inline]
    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
            if self.peek() != Some(b' ') {
                continue;
            }
            if let Some(chunk) = self.text.get(self.at..).and_then(|rest| rest.first_chunk()) {
                let others = u64::from_le_bytes(*chunk) ^ u64::from_le_bytes([b' '; 8]);
                self.at += (others.trailing_zeros() / 8) as usize;
            }
        }
    }

    /// The next number of this line. `None`, with the cursor before it, when something else stands there:
    /// a number ends at a blank, so `5-edge` is none. Digits beyond 64 bits saturate.
    pub(super) fn number(&mut self) -> Option<u64> {
        self.skip_blanks();
        let start = self.at;
        // Sixteen digits always fit, eight at a time. Longer numbers are rare, as are those that end the text.
        let mut value = 0;
        for _ in 0..2 {
            let Some(chunk) = self.text.get(self.at..).and_then(|rest| rest.first_chunk()) else { break };
            let (part, count) = leading_number(u64::from_le_bytes(*chunk));
            value = value * POWERS[count] + part;
            self.at += count;
            if count < 8 {
                break;
            }
        }
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
        let len = memchr2(b':', b'\n', rest)?;
        if rest[len] != b':' {
            return None;
        }
        self.at += len + 1;
        Some(&rest[..len])
    }

    /// The next `count` bytes, if a number may end behind them.
    fn peek_numbers(&self, count: usize) -> Option<&'t [u8]> {
        let (bytes, behind) = self.text.get(self.at..)?.split_at_checked(count)?;
        matches!(behind.first(), None | Some(b' ' | b'\t' | b'\n' | b'\r')).then_some(bytes)
    }

    /// What is left of this line; the cursor is then at the beginning of the next.
    pub(super) fn rest_of_line(&mut self) -> &'t [u8] {
        let rest = &self.text[self.at.min(self.text.len())..];
        let len = memchr(b'\n', rest).unwrap_or(rest.len());
        self.at += len + 1;
        &rest[..len]
    }
}

/// What a number is worth more with so many digits behind it.
const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The number with which eight bytes begin, the first of them the lowest of the word, and how many digits it
/// has. All digits at once: a loop over digits of numbers of all lengths mostly waits for its end.
#[inline]
fn leading_number(text: u64) -> (u64, usize) {
    let digits = text ^ u64::from_le_bytes([b'0'; 8]);
    // The highest bit of each byte that is no digit. A carry spoils only what stands behind such a byte.
    let others =
        (digits.wrapping_add(u64::from_le_bytes([0x76; 8])) | digits) & u64::from_le_bytes([0x80; 8]);
    let bits = others.trailing_zeros() & !7;
    if bits == 0 {
        return (0, 0);
    }
    // To the end of the word; noughts come in before. Then pairs are joined, fours, and all.
    let digits = digits << (64 - bits);
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    ((fours * 10_000 + (fours >> 32)) & 0xffff_ffff, (bits / 8) as usize)
}

/// Sums of some rows of a table whose columns are CPUs. The table comes in pieces.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct ColumnSums {
    /// The CPUs, in the order of the table's head.
    pub(super) cpus: Vec<CpuId>,
    /// One sum per CPU, complete when the table has been finished.
    pub(super) sums: Vec<u64>,
    /// How many rows went into them.
    pub(super) rows: usize,
    /// The head has been taken.
    started: bool,
    /// What is not in the sums yet.
    digits: DigitSums,
}

impl ColumnSums {
    /// Takes the head line (`CPU0 CPU1 CPU3 …`) if it has not been taken. Says whether it was taken now.
    pub(super) fn start(&mut self, cursor: &mut Cursor<'_>) -> bool {
        if self.started {
            return false;
        }
        while let Some(word) = cursor.word() {
            let number = word.strip_prefix(b"CPU").and_then(parse_u32);
            self.cpus.extend(number.map(CpuId));
        }
        cursor.rest_of_line();
        self.started = true;
        self.sums.resize(self.cpus.len(), 0);
        true
    }

    /// Takes the head of another table.
    pub(super) fn start_like(&mut self, other: &ColumnSums) {
        self.started = true;
        self.cpus.clone_from(&other.cpus);
        self.sums.resize(self.cpus.len(), 0);
    }

    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        self.started = false;
        self.cpus.clear();
        self.sums.clear();
        self.rows = 0;
        self.digits.lay_out(0, 0);
    }

    /// Adds a row: one number per CPU. A row with fewer numbers belongs to no CPU and is left out.
    pub(super) fn add_row(&mut self, cursor: &mut Cursor<'_>) {
        if self.add_aligned(cursor) || (self.lay_out_as(*cursor) && self.add_aligned(cursor)) {
            return;
        }
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

    /// Adds a row whose numbers stand where they are expected; `false`, with nothing done, if they do not.
    fn add_aligned(&mut self, cursor: &mut Cursor<'_>) -> bool {
        let Some(row) = cursor.peek_numbers(self.digits.row_bytes()) else { return false };
        if !self.digits.add(row) {
            return false;
        }
        cursor.at += row.len();
        self.rows += 1;
        if self.digits.is_full() {
            self.digits.drain_into(&mut self.sums);
        }
        true
    }

    /// Expects rows like the one at the cursor, whose first number tells how wide its fields are. `false` when
    /// that is expected already.
    fn lay_out_as(&mut self, mut cursor: Cursor<'_>) -> bool {
        let begin = cursor.at;
        let bytes = cursor.number().map_or(0, |_| (cursor.at - begin) * self.sums.len());
        if bytes == 0 || bytes == self.digits.row_bytes() {
            return false;
        }
        self.digits.drain_into(&mut self.sums);
        self.digits.lay_out(self.sums.len(), bytes / self.sums.len());
        true
    }

    /// No more rows will come.
    pub(super) fn finish(&mut self) {
        self.digits.drain_into(&mut self.sums);
    }

    fn take_back(&mut self, mut cursor: Cursor<'_>, count: usize) {
        for sum in &mut self.sums[..count] {
            *sum = sum.wrapping_sub(cursor.number().unwrap_or(0));
        }
    }

    /// The sum of a CPU. `hint` is where it is likely to stand; a table is walked in order.
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
    let add = |value: u32, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, add) }
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

    fn lines(file: &ProcFile) -> Vec<u8> {
        let mut whole = Vec::new();
        file.read_lines(&mut Buffer::default(), |piece| {
            assert!(whole.is_empty() || whole.ends_with(b"\n"), "pieces end where lines do");
            whole.extend_from_slice(piece);
        })
        .unwrap();
        whole
    }

    #[test]
    fn a_file_is_read_anew_each_time_and_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let line = "x".repeat(BUFFER_BYTES / 3) + "\n";
        let mut buffer = Buffer::default();
        let long_line = "y".repeat(3 * BUFFER_BYTES);
        for text in [line.repeat(7), long_line.clone(), line.repeat(4) + &long_line, String::new()] {
            std::fs::write(&path, &text).unwrap();
            let file = ProcFile::open_at(&path).unwrap().unwrap();
            assert!(lines(&file) == text.as_bytes());
            assert!(file.read_piece(&mut buffer).unwrap() == text.as_bytes());
            let mut writer = std::fs::OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
            writer.write_all(b"short").unwrap();
            assert_eq!(lines(&file), b"short");
            assert_eq!(file.read_piece(&mut buffer).unwrap(), b"short");
        }
        assert!(ProcFile::open_at(&dir.path().join("absent")).unwrap().is_none());
    }

    proptest! {
        #[test]
        fn numbers_are_what_their_digits_say(
            number in any::<u64>(),
            cut in 0u32..64,
            noughts in 0usize..4,
            behind in "[ \n]?[0-9 ]{0,9}|[a-z:/-].{0,9}",
        ) {
            let number = number >> cut;
            let text = format!("{}{number}", "0".repeat(noughts));
            let ended = behind.is_empty() || behind.starts_with([' ', '\n']);
            let whole = format!("{text}{behind}");
            let mut cursor = Cursor::new(whole.as_bytes());
            if behind.starts_with(|c: char| c.is_ascii_digit()) {
                return Ok(());
            }
            prop_assert_eq!(cursor.number(), ended.then_some(number));
            prop_assert_eq!(cursor.at, if ended { text.len() } else { 0 });
        }

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
            sums.finish();
            prop_assert!(sums.cpus.iter().map(|c| c.0).eq(cpus.iter().copied()));
            prop_assert_eq!(&sums.sums, &expected);
            prop_assert_eq!(sums.rows, rows.len());
        }
    }
}
