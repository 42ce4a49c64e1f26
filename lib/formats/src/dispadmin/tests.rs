//! Tests with expected values written by hand: the published tables, and the test vectors V17 to V20 for conversions and ranges.

use super::*;
use millpond_model::{Quantum, QuantumTable, TsRow, TsTable};
use proptest::prelude::*;

fn standard() -> DispatchTables {
    default_tables(false)
}

fn lines(text: &str, which: std::ops::Range<usize>) -> Vec<&str> {
    text.lines().skip(which.start).take(which.len()).collect()
}

/// A table file of TS that repeats `row`.
fn ts_file(res: &str, row: &str, rows: usize) -> String {
    format!("{res}\n{}", format!("{row}\n").repeat(rows))
}

fn told(class: Class, text: &str) -> (String, String) {
    let error = parse_table(class, text, 100).unwrap_err();
    (error.to_string(), error.hint("ts.txt"))
}

#[test]
fn the_listing_has_the_classes_in_order_of_loading() {
    assert_eq!(
        listing(&CLASSES),
        "CONFIGURED CLASSES\n==================\n\nSYS\t(System Class)\nTS\t(Time Sharing)\n\
         FX\t(Fixed Priority)\nRT\t(Real Time)\nIA\t(Interactive)\nFSS\t(Fair Share)\n"
    );
}

#[test]
fn the_standard_tables_print_as_they_are_published() {
    let print = |class, extended| print_table(class, &default_tables(extended), 1000, 100).unwrap();
    assert_eq!(print(Class::Ts, false), TS_STANDARD);
    assert_eq!(print(Class::Ts, true), TS_EXTENDED);
    assert_eq!(print(Class::Rt, false), RT_STANDARD);
    assert_eq!(print(Class::Fx, false), FX_STANDARD);
}

#[test]
fn a_table_has_its_heading_and_a_row_for_each_level() {
    let text = print_table(Class::Ia, &standard(), 1000, 100).unwrap();
    assert_eq!(
        lines(&text, 0..5),
        [
            "# Interactive Dispatcher Configuration",
            "RES=1000",
            "",
            "# ia_quantum  ia_tqexp  ia_slpret  ia_maxwait ia_lwait  PRIORITY LEVEL",
            "       200         0        50           0        50        #     0",
        ]
    );
    assert_eq!(
        text.lines().last(),
        Some("        20        49        59       32000        59        #    59")
    );
    let text = print_table(Class::Rt, &standard(), 1000, 100).unwrap();
    assert_eq!(
        lines(&text, 0..6),
        [
            "# Real Time Dispatcher Configuration",
            "RES=1000",
            "",
            "# TIME QUANTUM                    PRIORITY",
            "# (rt_quantum)                      LEVEL",
            "      1000                    #        0",
        ]
    );
}

#[test]
fn the_tables_stay_in_ticks_whatever_the_clock_rate() {
    let ts = standard().ts;
    assert_eq!(*ts.row(0), TsRow { quantum: 20, tqexp: 0, slpret: 50, maxwait: 0, lwait: 50 });
    assert_eq!(*ts.row(29), TsRow { quantum: 12, tqexp: 19, slpret: 52, maxwait: 0, lwait: 52 });
    assert_eq!(default_tables(true).ts.row(29).quantum, 36);
    let text = print_table(Class::Ts, &default_tables(false), 1000, 1000).unwrap();
    assert_eq!(lines(&text, 4..5), ["        20         0        50           0        50        #     0"]);
}

#[test]
fn v17_seven_milliseconds_are_one_tick_and_print_as_ten() {
    let table = parse_table(Class::Ts, &ts_file("RES=1000", "7 0 50 0 50", 60), 100).unwrap();
    let mut tables = standard();
    tables.set(table);
    assert_eq!(tables.ts.row(0).quantum, 1);
    let text = print_table(Class::Ts, &tables, 1000, 100).unwrap();
    assert_eq!(lines(&text, 4..5), ["        10         0        50           0        50        #     0"]);
}

#[test]
fn v18_in_tenths_of_a_second_slices_are_rounded_up() {
    let text = print_table(Class::Ts, &standard(), 10, 100).unwrap();
    let shown = |level: usize| text.lines().nth(4 + level).unwrap().split_whitespace().next().unwrap();
    assert_eq!([0, 10, 20, 30, 40, 59].map(shown), ["2", "2", "2", "1", "1", "1"]);
}

#[test]
fn v19_a_table_has_exactly_its_rows() {
    let file = |rows| ts_file("RES=1000", "200 0 50 0 50", rows);
    assert_eq!(
        told(Class::Ts, &file(59)),
        (
            "Too few lines in input table".into(),
            "ts.txt:61:1: the table ends after 59 rows; TS has 60, one for each level from 0 to 59".into()
        )
    );
    assert_eq!(
        told(Class::Ts, &(file(60) + "# good\n\n  20 0 50 0 50\n")),
        (
            "Too many lines in input table".into(),
            "ts.txt:64:3: the table of TS ended before this line, with 60 rows for the levels from 0 to 59; take it out, or put # before it".into()
        )
    );
    let fx = format!("RES=1000\n{}", "40\n".repeat(60));
    assert_eq!(told(Class::Fx, &fx).0, "Too few lines in input table");
    assert_eq!(
        told(Class::Ts, "").1,
        "ts.txt:1:1: the table ends after 0 rows; TS has 60, one for each level from 0 to 59"
    );
}

#[test]
fn v20_a_level_of_60_passes_the_command_and_not_the_kernel() {
    let mut text = ts_file("RES=1000", "200 0 50 0 50", 10);
    text += &ts_file("200  60 50 0 50 # high", "200 0 50 0 50", 49);
    assert_eq!(
        told(Class::Ts, &text),
        (
            "Can't set ts_dptbl, priocntl system call failed with errno 22".into(),
            "ts.txt:12:6: ts_tqexp is a level from 0 to 59, not `60`".into()
        )
    );
    assert_eq!(
        told(Class::Ts, &text.replace("60", "61")).0,
        "ts_tqexp value out of valid range; line 12 of input,\ntable not overwritten"
    );
}

#[test]
fn a_resolution_is_written_in_four_ways_and_in_two_for_fx() {
    let row = "200 0 50 0 50";
    for res in ["RES=1000", "RES= 1000", "RES =1000", "RES\t= 1000", "  RES=1000 # ms", "# a\n\nRES=1000"] {
        assert!(parse_table(Class::Ts, &ts_file(res, row, 60), 100).is_ok(), "{res}");
    }
    for res in ["RES=", "RES=-1", "RES=1000#ms", "RES=10x", "res=1000", "RES 1000", row] {
        assert_eq!(
            told(Class::Ts, &ts_file(res, row, 60)).0,
            "Bad RES specification, line 1 of input file",
            "{res}"
        );
    }
    assert!(parse_table(Class::Fx, &ts_file("RES= 1000", "40", 61), 100).is_ok());
    assert_eq!(
        told(Class::Fx, &ts_file("RES =1000", "40", 61)).0,
        "Bad RES specification, line 1 of input file"
    );
    assert_eq!(
        told(Class::Fx, &ts_file("40", "40", 61)).1,
        "ts.txt:1:1: the table begins with its resolution; write RES=1000 for units of a millisecond"
    );
    for res in ["RES=0", "RES=1000000001", "RES=99999999999999999999"] {
        assert_eq!(
            told(Class::Ts, &ts_file(res, row, 60)).0,
            "Can't convert specified resolution to ticks",
            "{res}"
        );
    }
    assert_eq!(
        told(Class::Ts, "RES = 0").1,
        "ts.txt:1:7: a resolution is 1 to 1000000000 units in a second, not `0`"
    );
}

#[test]
fn a_row_has_exactly_its_values() {
    let told = |row| told(Class::Ts, &ts_file("RES=1000", row, 60));
    assert_eq!(
        told(" 200 0 50 0 # 50"),
        (
            "Too few values, line 2 of input file".into(),
            "ts.txt:2:13: 4 of 5 values; a row is quantum, tqexp, slpret, maxwait, lwait".into()
        )
    );
    assert_eq!(
        told("200 0 50 0 50 level 0"),
        (
            "Too many values, line 2 of input file".into(),
            "ts.txt:2:15: `level` stands behind the last value; a row is quantum, tqexp, slpret, maxwait, lwait, and a comment begins with #".into()
        )
    );
    for good in ["200 0 50 0 50 #x", "200\t0 50 0 50 # a b c", "200 0 50 0 50#x"] {
        assert!(parse_table(Class::Ts, &ts_file("RES=1000", good, 60), 100).is_ok(), "{good}");
    }
}

#[test]
fn values_are_checked_one_by_one() {
    let told = |row| told(Class::Ts, &ts_file("RES=1000", row, 60));
    let out = |column| format!("{column} value out of valid range; line 2 of input,\ntable not overwritten");
    assert_eq!(
        told("0 0 50 0 50"),
        (out("ts_quantum"), "ts.txt:2:1: ts_quantum is a whole number of units from 1, not `0`".into())
    );
    assert_eq!(told("-2 0 50 0 50").0, out("ts_quantum"));
    assert_eq!(told("2O0 0 50 0 50").0, out("ts_quantum"));
    assert_eq!(told("200 0 -1 0 50").0, out("ts_slpret"));
    assert_eq!(
        told("200 0 50 -1 50"),
        (out("ts_maxwait"), "ts.txt:2:10: ts_maxwait is a whole number of seconds from 0, not `-1`".into())
    );
    assert_eq!(told("200 0 50 0 99999999999").0, out("ts_lwait"));
    let long = parse_table(Class::Ts, &ts_file("RES=1", "2000000000 0 50 0 50", 60), 100).unwrap_err();
    assert_eq!(long.to_string(), "Can't convert specified resolution to ticks");
    let ia = parse_table(Class::Ia, &ts_file("RES=1", "0 0 50 0 50", 60), 100).unwrap_err();
    assert_eq!(ia.to_string(), out("ia_quantum"));
}

#[test]
fn only_rt_takes_a_slice_without_end() {
    let ClassTable::Rt(rt) = parse_table(Class::Rt, &ts_file("RES=1000", "-2", 60), 100).unwrap() else {
        panic!("not a table of RT");
    };
    assert_eq!(rt.row(0), Quantum::Infinite);
    let tables = DispatchTables { rt, ..standard() };
    let text = print_table(Class::Rt, &tables, 3, 100).unwrap();
    assert_eq!(text.lines().last(), Some("        -2                    #       59"));
    assert_eq!(
        told(Class::Fx, &ts_file("RES=1000", "-2", 61)).0,
        "fx_quantum value out of valid range; line 2 of input,\ntable not overwritten"
    );
    assert_eq!(
        told(Class::Rt, &ts_file("RES=1000", "-1", 60)).1,
        "ts.txt:2:1: rt_quantum is a whole number of units from 1, or -2 for a slice without end, not `-1`"
    );
}

#[test]
fn what_cannot_be_printed_is_refused() {
    let print = |class, tables: &DispatchTables, res| print_table(class, tables, res, 100).unwrap_err();
    for res in [0, 1_000_000_001] {
        assert_eq!(print(Class::Ts, &standard(), res).to_string(), "Can't convert to requested resolution");
    }
    let rt = QuantumTable::new(vec![Quantum::Ticks(300); 60]).unwrap();
    let long = print(Class::Rt, &DispatchTables { rt, ..standard() }, 1_000_000_000);
    assert_eq!(
        long.to_string(),
        "Can't express time quantum in requested resolution,\ntry coarser resolution"
    );
    let sys = print(Class::Sys, &standard(), 1000);
    assert_eq!(sys.to_string(), "Invalid or unconfigured class SYS");
    assert_eq!(sys.hint(), "SYS has no table; TS, FX, RT, IA and FSS have one");
    assert_eq!(told(Class::Sys, ""), (sys.to_string(), sys.hint()));
}

#[test]
fn fuzz_table_files() {
    let fx = ts_file("# fx\nRES=1000", "40 # a", 61);
    for (class, name) in
        [(Class::Ts, "formats-ts-table"), (Class::Rt, "formats-rt-table"), (Class::Fx, "formats-fx-table")]
    {
        let seeds = [TS_STANDARD, TS_EXTENDED, RT_STANDARD, FX_STANDARD, &fx];
        millpond_fuzz::check_text(name, &seeds, move |text| match parse_table(class, text, 100) {
            Ok(table) => {
                let mut tables = standard();
                tables.set(table.clone());
                let printed = print_table(class, &tables, 100, 100).unwrap();
                assert_eq!(parse_table(class, &printed, 100), Ok(table));
            }
            Err(error) => {
                let line = text.lines().nth(error.line - 1).unwrap_or_default();
                assert!((1..=text.lines().count() + 1).contains(&error.line), "line {}", error.line);
                assert!((1..=line.len() + 1).contains(&error.column), "column {}", error.column);
                assert!(!error.to_string().is_empty() && error.hint("x").starts_with("x:"));
            }
        });
    }
}

proptest! {
    #[test]
    fn what_is_printed_finely_enough_parses_to_itself(
        rows in proptest::collection::vec((1u32..500, 0u8..60, 0u8..60, 0u32..40_000, 0u8..60), TS_LEVELS),
        slices in proptest::collection::vec(proptest::option::of(1u32..500), RT_LEVELS),
        hz in 1u32..1001,
        times in 1u32..50,
    ) {
        let row = |(quantum, tqexp, slpret, maxwait, lwait)| TsRow { quantum, tqexp, slpret, maxwait, lwait };
        let ts = TsTable::new(rows.into_iter().map(row).collect()).unwrap();
        let slice = |ticks: Option<u32>| ticks.map_or(Quantum::Infinite, Quantum::Ticks);
        let rt = QuantumTable::new(slices.into_iter().map(slice).collect()).unwrap();
        let tables = DispatchTables { ts, rt, ..standard() };
        for class in [Class::Ts, Class::Ia, Class::Rt, Class::Fx] {
            let text = print_table(class, &tables, hz * times, hz).unwrap();
            prop_assert_eq!(parse_table(class, &text, hz).ok(), tables.of(class));
        }
    }
}
