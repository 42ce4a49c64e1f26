//! `/proc/stat`: time of each CPU by use.

use super::cursor::{Cursor, parse_u32};
use millpond_model::{CpuId, Nanos, Ticks};

/// One tick of `/proc/stat` in nanoseconds. `USER_HZ` is part of the kernel's interface: 100 on every supported architecture,
/// independent of `CONFIG_HZ`.
const TICK_NS: u64 = 1_000_000_000 / 100;

/// Reads the `cpuN` lines, one for each active CPU, and replaces the contents of `into`.
///
/// Fields: user nice system idle iowait irq softirq steal (guest time is included in user). Old kernels write fewer fields; a missing one
/// is 0.
pub fn parse_stat(text: &[u8], into: &mut Vec<(CpuId, Ticks)>) {
    into.clear();
    let mut cursor = Cursor::new(text);
    while !cursor.at_end() {
        match cursor.word().and_then(|word| word.strip_prefix(b"cpu")) {
            Some(b"") => {}
            Some(number) => {
                if let Some(cpu) = parse_u32(number) {
                    into.push((CpuId(cpu), ticks(&mut cursor)));
                }
            }
            // The lines of CPUs come first; then follows a line with a number per interrupt, which is long.
            None if !into.is_empty() => break,
            None => {}
        }
        cursor.rest_of_line();
    }
    // Kernels write them in order and once each; a synthetic file may not.
    if !into.is_sorted_by(|(a, _), (b, _)| a < b) {
        into.sort_unstable_by_key(|(cpu, _)| *cpu);
        into.dedup_by_key(|(cpu, _)| *cpu);
    }
}

fn ticks(cursor: &mut Cursor<'_>) -> Ticks {
    let mut next = || Nanos(cursor.number().unwrap_or(0).saturating_mul(TICK_NS));
    let (user, nice, system, idle, wait, irq, softirq, steal) =
        (next(), next(), next(), next(), next(), next(), next(), next());
    Ticks { user: user + nice, sys: system + irq + softirq, wait, idle, steal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &[u8]) -> Vec<(CpuId, Ticks)> {
        let mut ticks = vec![(CpuId(9), Ticks::default())];
        parse_stat(text, &mut ticks);
        ticks
    }

    #[test]
    fn nice_is_user_and_interrupts_are_system() {
        let text = b"cpu  10 0 0 0 0 0 0 0 0 0\n\
            cpu0 1 2 4 100 8 16 32 64 1 1\n\
            cpu12 7 0 0 50 0 0 0 0 0 0\n\
            intr 5 1 2 3\nctxt 8\n";
        let ms = |n| Nanos::from_millis(n);
        let expected = vec![
            (CpuId(0), Ticks { user: ms(30), sys: ms(520), wait: ms(80), idle: ms(1000), steal: ms(640) }),
            (CpuId(12), Ticks { user: ms(70), idle: ms(500), ..Ticks::default() }),
        ];
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn a_processor_that_is_off_line_has_no_line() {
        let cpus: Vec<u32> = parse(b"cpu 1\ncpu0 1\ncpu3 1\n").iter().map(|(c, _)| c.0).collect();
        assert_eq!(cpus, [0, 3]);
    }

    #[test]
    fn a_kernel_that_knows_four_fields_is_understood() {
        let ticks = parse(b"cpu0 1 1 1 1\n")[0].1;
        assert_eq!(ticks.total(), Nanos::from_millis(40));
    }

    #[test]
    fn fuzz_times() {
        let seeds: [&[u8]; 2] = [
            b"cpu  10 0 0 0 0 0 0 0 0 0\ncpu0 1 2 4 100 8 16 32 64 1 1\ncpu12 7 0 0 50 0 0 0 0 0 0\nintr 5 1 2\nctxt 8\n",
            b"cpu3 1 1 1 1\ncpu1 2 2 2 18446744073709551615",
        ];
        millpond_fuzz::check("linux-stat", &seeds, |text| {
            let rows = parse(text);
            assert!(rows.is_sorted_by(|(a, _), (b, _)| a < b), "{rows:?}");
            // Displayed figures are sums and differences of these.
            assert!(rows.iter().all(|(_, ticks)| ticks.total() >= ticks.idle));
        });
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&text);
        }

        #[test]
        fn any_almost_right_text_is_survived(text in "(cpu[0-9]{0,11}( [0-9-]{0,22}){0,12}\n?){0,6}") {
            parse(text.as_bytes());
        }
    }
}
