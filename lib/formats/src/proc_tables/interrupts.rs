//! `/proc/interrupts` and `/proc/softirqs`: interrupt counts of each CPU.

use super::cursor::Cursor;
use super::sums::ColumnSums;

/// Rows of `/proc/interrupts` that are not interrupts, or that other rows already count.
///
/// * `TLB`: shoot-downs, each of which arrived as a call that `CAL` counts;
/// * `MCP`: polls for machine checks, run from a timer;
/// * `RTR`: repeated reads of a register;
/// * `ERR`, `MIS`: one number for the whole machine, which looks like a column if there is one CPU.
const NOT_INTERRUPTS: [&[u8]; 6] = [b"TLB", b"MCP", b"RTR", b"ERR", b"Err", b"MIS"];

/// Rows of `/proc/softirqs` that finish the work of device interrupts. They are the closest equivalent of the interrupt threads of Solaris.
/// Timers, load balancing and RCU are left out, as Solaris leaves out its clock.
const DEVICE_SOFTIRQS: [&[u8]; 6] = [b"HI", b"NET_TX", b"NET_RX", b"BLOCK", b"IRQ_POLL", b"TASKLET"];

/// The counts of `/proc/interrupts`, which is read in pieces.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct InterruptCounts {
    /// Interrupts of all kinds by CPU.
    pub all: ColumnSums,
    /// The part of `all` that are calls from other CPUs.
    pub calls: ColumnSums,
}

impl InterruptCounts {
    /// Clears all counts.
    pub fn forget(&mut self) {
        self.all.forget();
        self.calls.forget();
    }

    /// Adds the next lines. The first of all lines is the heading.
    pub fn take(&mut self, lines: &[u8]) {
        let mut cursor = Cursor::new(lines);
        if self.all.start(&mut cursor) {
            self.calls.start_like(&self.all);
        }
        while !cursor.at_end() {
            if let Some(label) = cursor.label()
                && !NOT_INTERRUPTS.contains(&label)
            {
                let mut row = cursor;
                self.all.add_row(&mut cursor);
                if is_call(label, cursor) {
                    self.calls.add_row(&mut row);
                }
            }
            cursor.rest_of_line();
        }
    }

    /// Ends the table.
    pub fn finish(&mut self) {
        self.all.finish();
        self.calls.finish();
    }
}

/// Calls have their own row: `CAL` on x86; elsewhere one of the rows `IPI0`, `IPI1` …, identified by its description.
fn is_call(label: &[u8], mut behind: Cursor<'_>) -> bool {
    label == b"CAL"
        || (label.starts_with(b"IPI")
            && behind.rest_of_line().to_ascii_lowercase().windows(13).any(|part| part == b"function call"))
}

/// Adds the next lines of `/proc/softirqs`, the first of which is the heading: only rows of devices.
pub fn take_softirqs(lines: &[u8], into: &mut ColumnSums) {
    let mut cursor = Cursor::new(lines);
    into.start(&mut cursor);
    while !cursor.at_end() {
        if cursor.label().is_some_and(|label| DEVICE_SOFTIRQS.contains(&label)) {
            into.add_row(&mut cursor);
        }
        cursor.rest_of_line();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CpuId;
    use proptest::prelude::*;

    fn interrupts(text: &str) -> InterruptCounts {
        let mut counts = InterruptCounts::default();
        counts.take(text.as_bytes());
        counts.finish();
        counts
    }

    fn softirqs(text: &[u8]) -> ColumnSums {
        let mut sums = ColumnSums::default();
        take_softirqs(text, &mut sums);
        sums.finish();
        sums
    }

    // The format of a virtual x86 machine with kernel 6.18.
    const X86: &str = "           CPU0       CPU1       \n\
        \x20 4:          0         15  IO-APIC   4-edge      ttyS0\n\
        \x2028:          2          0 PCI-MSIX-0000:00:01.0   0-edge      virtio0-config\n\
        NMI:          0          0   Non-maskable interrupts\n\
        LOC:      38936      44849   Local timer interrupts\n\
        RES:         10         20   Rescheduling interrupts\n\
        CAL:        100        200   Function call interrupts\n\
        TLB:         90        190   TLB shootdowns\n\
        MCP:          7          7   Machine check polls\n\
        ERR:          5\n\
        MIS:          0\n\
        PIN:          1          1   Posted-interrupt notification event\n";

    #[test]
    fn every_interrupt_counts_once() {
        let counts = interrupts(X86);
        assert_eq!(counts.all.cpus, [CpuId(0), CpuId(1)]);
        assert_eq!(counts.all.sums, [2 + 38936 + 10 + 100 + 1, 15 + 44849 + 20 + 200 + 1]);
        assert_eq!(counts.calls.sums, [100, 200]);
    }

    #[test]
    fn one_processor_does_not_take_the_errors_of_the_machine_for_interrupts() {
        let counts =
            interrupts("           CPU0       \n  1:          9   IO-APIC 1-edge i8042\nERR:          3\n");
        assert_eq!(counts.all.sums, [9]);
    }

    #[test]
    fn narrow_columns_and_holes_in_the_numbers_are_read_by_tokens() {
        // Columns as narrow as their figures, a row without a CPU, rows of zeros left out.
        let counts = interrupts(
            "      CPU0 CPU2 CPU1023\n 24: 1 22 4294967295 IO-APIC 5-edge 3com 77\nLOC: 5 6 7 Local timer interrupts\n",
        );
        assert_eq!(counts.all.cpus, [CpuId(0), CpuId(2), CpuId(1023)]);
        assert_eq!(counts.all.sums, [6, 28, 4_294_967_302]);
        assert_eq!(counts.all.of(CpuId(1023), 0), Some(4_294_967_302));
        assert_eq!(counts.all.of(CpuId(1), 1), None);
        assert_eq!(counts.calls.of(CpuId(0), 0), None, "no row of calls");
    }

    #[test]
    fn calls_on_arm_are_told_by_their_name() {
        let counts = interrupts(
            "           CPU0       CPU1\n 11:        500        600     GICv3  27 Level     arch_timer\n\
             IPI0:         3          4       Rescheduling interrupts\n\
             IPI1:        70         80       Function call interrupts\nErr:          9\n",
        );
        assert_eq!(counts.all.sums, [573, 684]);
        assert_eq!(counts.calls.sums, [70, 80]);
    }

    #[test]
    fn soft_interrupts_of_devices_count_and_those_of_clocks_do_not() {
        let text = "                    CPU0       CPU1       \n\
            \x20         HI:          1          0\n       TIMER:       9310      11864\n\
            \x20     NET_TX:          4          0\n      NET_RX:       2888       5038\n\
            \x20      BLOCK:          0      62365\n    IRQ_POLL:          0          0\n\
            \x20    TASKLET:         28          2\n       SCHED:      21151      22399\n\
            \x20    HRTIMER:          0          0\n         RCU:      13233      16295\n";
        assert_eq!(softirqs(text.as_bytes()).sums, [1 + 4 + 2888 + 28, 5038 + 62365 + 2]);
    }

    #[test]
    fn pieces_make_the_same_as_the_whole() {
        let whole = interrupts(X86);
        for (at, _) in X86.match_indices('\n') {
            let (first, second) = X86.split_at(at + 1);
            let mut counts = InterruptCounts::default();
            counts.take(first.as_bytes());
            counts.take(second.as_bytes());
            counts.finish();
            assert_eq!(
                (&counts.all.sums, &counts.calls.sums),
                (&whole.all.sums, &whole.calls.sums),
                "{first}"
            );
            assert_eq!(counts.all.rows, whole.all.rows);
        }
    }

    /// Enough rows for all code paths: of one width, of another, shifted, too short.
    #[test]
    fn a_long_table_counts_as_its_rows_do() {
        let head = "           CPU0       CPU1       CPU2\n";
        let (mut text, mut expected) = (head.to_owned(), [0u64; 3]);
        for row in 0..200u64 {
            let figures = [row * 1_000_003, 4_294_967_295 - row, row % 7];
            let width = if row % 50 == 49 { 12 } else { 10 };
            text.push_str(&format!("{row:>4}:"));
            for (figure, sum) in figures.iter().zip(&mut expected) {
                text.push_str(&format!(" {figure:>width$}"));
                *sum += figure;
            }
            text.push_str("  IR-PCI-MSIX-0000:c2:00.0    1-edge      nvme0q1\n");
            if row % 30 == 7 {
                text.push_str(" BAD:         12         13  14-edge\n");
            }
        }
        assert_eq!(interrupts(&text).all.sums, expected);
        assert_eq!(interrupts(&text).all.rows, 200);
    }

    #[test]
    fn fuzz_interrupts_and_soft_interrupts() {
        let soft = "                    CPU0       CPU1\n  HI:  1  0\n  TIMER:  9310  11864\n  NET_RX:  2888  5038\n";
        let arm =
            "   CPU0 CPU3\n 11: 500 600 GICv3 27 Level arch_timer\nIPI1: 3 4 Function call interrupts\n";
        millpond_fuzz::check(
            "linux-interrupts",
            &[X86.as_bytes(), arm.as_bytes(), soft.as_bytes()],
            |text| {
                let text = String::from_utf8_lossy(text);
                let counts = interrupts(&text);
                assert_eq!(counts.all.cpus.len(), counts.all.sums.len());
                assert!(counts.calls.rows <= counts.all.rows);
                let sums = softirqs(text.as_bytes());
                assert_eq!(sums.cpus, counts.all.cpus, "both tables have the same head");
                // The result must not depend on the pieces.
                let (mut counts_by_line, mut sums_by_line) =
                    (InterruptCounts::default(), ColumnSums::default());
                for line in text.split_inclusive('\n') {
                    counts_by_line.take(line.as_bytes());
                    take_softirqs(line.as_bytes(), &mut sums_by_line);
                }
                counts_by_line.finish();
                sums_by_line.finish();
                assert_eq!(
                    (counts_by_line.all.sums, counts_by_line.calls.sums),
                    (counts.all.sums, counts.calls.sums)
                );
                assert_eq!(sums_by_line.sums, sums.sums);
            },
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            interrupts(&String::from_utf8_lossy(&text));
            softirqs(&text);
        }

        #[test]
        fn any_almost_right_text_is_survived(
            text in "( *(CPU[0-9]{0,12} *){0,4}\n)?( *[A-Z0-9]{0,3}:?( +[0-9]{0,21}){0,5}[ a-z:]{0,6}\n?){0,6}"
        ) {
            let counts = interrupts(&text);
            prop_assert_eq!(counts.all.cpus.len(), counts.all.sums.len());
        }
    }
}
