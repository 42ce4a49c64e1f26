//! `/proc/schedstat`: how often each processor went on to another thread, where the kernel keeps it.

use super::text::{Cursor, parse_u32};
use millpond_model::CpuId;

/// The layout of the `cpuN` lines has been the same since this version of the file.
const OLDEST_VERSION: u64 = 15;

/// The ninth number of a line: time slices that threads were given. Switches to the idle thread are not in
/// it (they are counted only while `kernel.sched_schedstats` is on), so it is a lower bound of `csw`.
const SLICES_FIELD: usize = 9;

/// The time slices of processors. The table comes in pieces.
#[derive(Debug, Default)]
pub(super) struct TimeSlices {
    understood: bool,
    /// Ascending, when the table has been finished.
    of: Vec<(CpuId, u64)>,
}

impl TimeSlices {
    /// Forgets everything.
    pub(super) fn forget(&mut self) {
        self.understood = false;
        self.of.clear();
    }

    /// Takes the next lines.
    pub(super) fn take(&mut self, lines: &[u8]) {
        let mut cursor = Cursor::new(lines);
        while !cursor.at_end() {
            match cursor.word() {
                Some(b"version") => self.understood = cursor.number().is_some_and(|v| v >= OLDEST_VERSION),
                Some(word) if self.understood => {
                    if let Some(cpu) = word.strip_prefix(b"cpu").and_then(parse_u32) {
                        let slices = slices(cursor.rest_of_line());
                        self.of.extend(slices.map(|slices| (CpuId(cpu), slices)));
                        continue;
                    }
                }
                _ => {}
            }
            cursor.rest_of_line();
        }
    }

    /// No more lines will come.
    pub(super) fn finish(&mut self) {
        if !self.of.is_sorted_by_key(|(cpu, _)| *cpu) {
            self.of.sort_unstable_by_key(|(cpu, _)| *cpu);
        }
    }

    /// Whether the table has none.
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Those of a processor. `hint` is where it is likely to stand.
    pub(super) fn of(&self, cpu: CpuId, hint: usize) -> Option<u64> {
        match self.of.get(hint) {
            Some((there, slices)) if *there == cpu => Some(*slices),
            _ => self.of.binary_search_by_key(&cpu, |(c, _)| *c).ok().map(|at| self.of[at].1),
        }
    }
}

/// The time slices among the numbers behind a processor's name.
fn slices(numbers: &[u8]) -> Option<u64> {
    if let Some(last) = last_of_nine(numbers) {
        return Cursor::new(last).number();
    }
    let mut cursor = Cursor::new(numbers);
    (0..SLICES_FIELD).map_while(|_| cursor.number()).nth(SLICES_FIELD - 1)
}

/// The last of exactly nine numbers with a blank before each, which is what kernels write: the others, most of
/// the line, need not be read. Nothing when anything else stands there.
fn last_of_nine(numbers: &[u8]) -> Option<&[u8]> {
    let count = |wanted: fn(&u8) -> bool| numbers.iter().filter(|byte| wanted(byte)).count();
    let blanks = count(|byte| *byte == b' ');
    let beginnings =
        numbers.iter().zip(numbers.get(1..)?).filter(|(a, b)| **a == b' ' && b.is_ascii_digit()).count();
    let right = blanks == SLICES_FIELD
        && beginnings == SLICES_FIELD
        && blanks + count(u8::is_ascii_digit) == numbers.len()
        && numbers[0] == b' ';
    let last = numbers.iter().rposition(|byte| *byte == b' ')?;
    right.then(|| &numbers[last..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Vec<(u32, u64)> {
        let mut slices = TimeSlices::default();
        slices.take(text.as_bytes());
        slices.finish();
        slices.of.into_iter().map(|(cpu, n)| (cpu.0, n)).collect()
    }

    #[test]
    fn the_ninth_field_is_taken_and_domains_are_passed_over() {
        let text = "version 17\ntimestamp 4295\ncpu0 0 0 0 0 0 0 81 92 310\n\
                    domain0 MC 3 1 2 3 4 5 6 7 8 9 10 11\ncpu2 0 0 0 0 0 0 1 2 44\n";
        assert_eq!(parse(text), [(0, 310), (2, 44)]);
    }

    #[test]
    fn a_processor_is_found_wherever_it_stands() {
        let mut slices = TimeSlices::default();
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

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,200}", lines in "(version 1[0-9]\n)?(cpu[0-9]{0,3}( [0-9x]{0,20}){0,11}\n){0,4}") {
            parse(&text);
            parse(&lines);
        }
    }
}
