//! Scheduler statistics of the kernel: of CPUs in `/proc/schedstat`, of threads in `/proc/PID/schedstat`.

use super::cursor::{Cursor, parse_u32};
use millpond_model::{CpuId, Nanos};

/// The layout of the `cpuN` lines is unchanged since this version of the file.
const OLDEST_VERSION: u64 = 15;

/// A field in the line of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Run-queue delay of threads on the CPU, in nanoseconds since boot.
    Waited = 8,
    /// Time slices of threads. Switches to the idle thread are excluded (they are counted only if
    /// `kernel.sched_schedstats` is on), so this is a lower bound of `csw`.
    Slices = 9,
}

/// The last field of a line.
const LAST: Field = Field::Slices;
/// The longest line that is scanned as a whole, in bytes: nine 64-bit numbers, each with a blank.
const LINE_MAX: usize = LAST as usize * 21;

/// One field of every CPU. The table is read in pieces.
#[derive(Debug)]
pub struct SchedTable {
    field: Field,
    understood: bool,
    /// In ascending order after `finish`.
    of: Vec<(CpuId, u64)>,
}

impl SchedTable {
    /// An empty table.
    pub fn new(field: Field) -> Self {
        SchedTable { field, understood: false, of: Vec::new() }
    }

    /// One field of every CPU in a whole table, ascending.
    pub fn read(text: &str, field: Field) -> Vec<(CpuId, u64)> {
        let mut table = SchedTable::new(field);
        table.take(text.as_bytes());
        table.finish();
        table.of
    }

    /// Clears the table.
    pub fn forget(&mut self) {
        self.understood = false;
        self.of.clear();
    }

    /// Adds the next lines.
    pub fn take(&mut self, lines: &[u8]) {
        let mut cursor = Cursor::new(lines);
        while !cursor.at_end() {
            match cursor.word() {
                Some(b"version") => self.understood = cursor.number().is_some_and(|v| v >= OLDEST_VERSION),
                Some(word) if self.understood => {
                    if let Some(cpu) = word.strip_prefix(b"cpu").and_then(parse_u32) {
                        let number = number(cursor.rest_of_line(), self.field);
                        self.of.extend(number.map(|number| (CpuId(cpu), number)));
                        continue;
                    }
                }
                _ => {}
            }
            cursor.rest_of_line();
        }
    }

    /// Ends the table.
    pub fn finish(&mut self) {
        if !self.of.is_sorted_by_key(|(cpu, _)| *cpu) {
            self.of.sort_unstable_by_key(|(cpu, _)| *cpu);
        }
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The number of a CPU. `hint` is its likely index.
    pub fn of(&self, cpu: CpuId, hint: usize) -> Option<u64> {
        match self.of.get(hint) {
            Some((there, number)) if *there == cpu => Some(*number),
            _ => self.of.binary_search_by_key(&cpu, |(c, _)| *c).ok().map(|at| self.of[at].1),
        }
    }
}

/// One of the numbers after the name of a CPU.
fn number(numbers: &[u8], field: Field) -> Option<u64> {
    if field == LAST
        && let Some(last) = last_of_nine(numbers)
    {
        return Cursor::new(last).number();
    }
    let mut cursor = Cursor::new(numbers);
    let before = field as usize - 1;
    (0..=before).map_while(|_| cursor.number()).nth(before)
}

/// The last of exactly nine numbers with a blank before each, the format of all kernels: the other numbers, most of
/// the line, need not be parsed. `None` for any other format.
fn last_of_nine(numbers: &[u8]) -> Option<&[u8]> {
    if numbers.len() > LINE_MAX {
        return None;
    }
    let (words, rest) = numbers.as_chunks::<8>();
    let mut line = Line { before: b'0', ..Line::default() };
    words.iter().for_each(|word| line.look(u64::from_le_bytes(*word)));
    if let Some(last) = rest.last() {
        // The last bytes, padded to a word with the last digit.
        let mut word = [*last; 8];
        word[..rest.len()].copy_from_slice(rest);
        line.look(u64::from_le_bytes(word));
    }
    let right = line.wrong == 0
        && sum_of_bytes(line.blanks) == u64::from(LAST as u8)
        && sum_of_bytes(line.beginnings) == u64::from(LAST as u8)
        && numbers.first() == Some(&b' ')
        && numbers.last().is_some_and(u8::is_ascii_digit);
    let last = numbers.iter().rposition(|byte| *byte == b' ')?;
    right.then(|| &numbers[last..])
}

/// Counts of characters in a line, eight bytes at a time.
#[derive(Debug, Default)]
struct Line {
    /// The previous byte.
    before: u8,
    /// Nonzero after a character that is neither digit nor blank.
    wrong: u64,
    /// Blanks, one byte per position in a word. A line of [`LINE_MAX`] has too few words for an overflow.
    blanks: u64,
    /// Beginnings of numbers, in the same form.
    beginnings: u64,
}

impl Line {
    fn look(&mut self, word: u64) {
        const ONES: u64 = 0x0101_0101_0101_0101;
        // Blanks become 0, digits 16 to 25.
        let shifted = word ^ (ONES * 0x20);
        let (low, are_digits) = (shifted & (ONES * 0x0f), shifted & (ONES * 0x10));
        let all_of_digits = are_digits - (are_digits >> 4);
        self.wrong |= (shifted & (ONES * 0xe0)) | (low & !all_of_digits) | ((low + ONES * 6) & (ONES * 0x10));
        let before = (word << 8) | u64::from(self.before);
        self.blanks = self.blanks.wrapping_add((!word >> 4) & ONES);
        self.beginnings = self.beginnings.wrapping_add(((!before & word) >> 4) & ONES);
        self.before = word.to_le_bytes()[7];
    }
}

/// The sum of the bytes of a word; must be less than 256.
fn sum_of_bytes(word: u64) -> u64 {
    word.wrapping_mul(0x0101_0101_0101_0101) >> 56
}

/// Scheduler statistics of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a CPU.
    pub ran: Nanos,
    /// Run-queue delay.
    pub waited: Nanos,
    /// The number of times that it got a CPU.
    pub turns: u64,
}

/// Parses the file of a thread: three numbers.
pub fn parse_thread(text: &str) -> Option<ThreadTimes> {
    let mut words = text.split_ascii_whitespace().map(|word| word.parse().ok());
    let (ran, waited, turns) = (words.next()??, words.next()??, words.next()??);
    Some(ThreadTimes { ran: Nanos(ran), waited: Nanos(waited), turns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Vec<(u32, u64)> {
        SchedTable::read(text, Field::Slices).into_iter().map(|(cpu, n)| (cpu.0, n)).collect()
    }

    #[test]
    fn the_ninth_field_is_taken_and_domains_are_passed_over() {
        let text = "version 17\ntimestamp 4295\ncpu0 0 0 0 0 0 0 81 92 310\n\
                    domain0 MC 3 1 2 3 4 5 6 7 8 9 10 11\ncpu2 0 0 0 0 0 0 1 2 44\n";
        assert_eq!(parse(text), [(0, 310), (2, 44)]);
    }

    #[test]
    fn waits_are_the_eighth_numbers() {
        let text =
            "version 15\ntimestamp 4\ncpu0 1 0 2 3 4 5 6 70 8\ndomain0 3 1 2\ncpu1 1 0 2 3 4 5 6 71 8\n";
        assert_eq!(SchedTable::read(text, Field::Waited), [(CpuId(0), 70), (CpuId(1), 71)]);
        for none in ["", "version 14\ncpu0 1 2 3 4 5 6 7 8 9\n", "version 15\n", "version 15\ncpu0 1 2\n"] {
            assert_eq!(SchedTable::read(none, Field::Waited), [], "{none}");
        }
    }

    #[test]
    fn a_thread_has_three_numbers() {
        let times = ThreadTimes { ran: Nanos(410), waited: Nanos(90), turns: 12 };
        assert_eq!(parse_thread("410 90 12\n"), Some(times));
        for none in ["", "410 90\n", "410 x 12\n", "-1 90 12\n"] {
            assert_eq!(parse_thread(none), None, "{none}");
        }
    }

    #[test]
    fn a_processor_is_found_wherever_it_stands() {
        let mut slices = SchedTable::new(Field::Slices);
        slices.take(b"version 17\ncpu4 0 0 0 0 0 0 81 92 310\n");
        slices.take(b"cpu2 0 0 0 0 0 0 1 2 44\n");
        slices.finish();
        let of = |cpu, hint| slices.of(CpuId(cpu), hint);
        assert_eq!(
            (of(2, 0), of(4, 1), of(4, 0), of(2, 7), of(3, 1)),
            (Some(44), Some(310), Some(310), Some(44), None)
        );
    }

    #[test]
    fn an_unknown_layout_gives_nothing() {
        assert_eq!(parse("version 14\ncpu0 1 2 3 4 5 6 7 8 9\n"), []);
        assert_eq!(parse("version 15\ncpu0 1 2 3 4 5 6 7 8\n"), []);
        assert_eq!(parse(""), []);
    }

    #[test]
    fn only_nine_plain_numbers_are_passed_over() {
        assert_eq!(last_of_nine(b" 1 2 3 4 5 6 7 8 90"), Some(&b" 90"[..]));
        let others = [
            "",
            " ",
            " 1 2 3 4 5 6 7 8",
            " 1 2 3 4 5 6 7 8 9 10",
            " 1 2 3 4 5 6 7 8 9x",
            " 1  2 3 4 5 6 7 8 ",
            "0 1 2 3 4 5 6 7 8 9",
            " 1 2 3 4 5 6 7 8  9",
            " 1 2 3 4 5 6 7 8 9\r",
            " 1 2 3 4 5 6 7 8 9 ",
            &" 1".repeat(9 + 256),
        ];
        for text in others {
            assert_eq!(last_of_nine(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(
            parse("version 17\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu1 1 2 3 4  5 6 7 8 9\r\n"),
            [(0, 9), (1, 9)]
        );
    }

    #[test]
    fn fuzz_time_slices() {
        let seeds = [
            "version 17\ntimestamp 4295\ncpu0 0 0 0 0 0 0 81 92 310\ndomain0 MC 3 1 2 3\ncpu2 0 0 0 0 0 0 1 2 44\n",
            "version 14\ncpu0 1 2 3 4 5 6 7 8 9\n",
        ];
        millpond_fuzz::check_text("linux-schedstat", &seeds, |text| {
            let rows = parse(text);
            assert!(rows.is_sorted_by_key(|(cpu, _)| *cpu));
            assert!(rows.is_empty() || text.contains("version"));
        });
    }

    #[test]
    fn fuzz_times_of_threads() {
        millpond_fuzz::check_text("linux-schedstat-thread", &["410000000 90000000 12\n"], |text| {
            let Some(times) = parse_thread(text) else { return };
            let ThreadTimes { ran, waited, turns } = times;
            assert_eq!(parse_thread(&format!("{} {} {turns}\n", ran.0, waited.0)), Some(times));
        });
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,200}", lines in "(version 1[0-9]\n)?(cpu[0-9]{0,3}( [0-9x]{0,20}){0,11}\n){0,4}") {
            parse(&text);
            parse(&lines);
        }
    }
}
