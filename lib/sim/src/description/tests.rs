//! Tests of machine files: valid ones, and the places that errors name.

use super::*;
use millpond_model::{ChipId, WallTime};

const SMALL: &str = r#"{
  "name": "small", "about": "for tests",
  "chips": 2, "cores_per_chip": 2, "strands_per_core": 2,
  "processor": { "isa": "i386", "implementation": "x86 (chipid {chip})" }
}"#;

fn with(line: &str) -> String {
    SMALL.replace("\n  \"processor\"", &format!("\n  {line},\n  \"processor\""))
}

fn error(text: &str) -> String {
    parse(text, "small.json").unwrap_err().to_string()
}

#[test]
fn strands_are_numbered_as_the_file_says() {
    let core_major = parse(SMALL, "").unwrap().topology;
    assert_eq!(core_major.siblings(CpuId(0)).to_string(), "0-1");
    assert_eq!(core_major.chip_cpus(ChipId(1)).to_string(), "4-7");
    let strand_major = parse(&with(r#""numbering": "strand-major""#), "").unwrap().topology;
    assert_eq!(strand_major.siblings(CpuId(0)).to_string(), "0,4");
    assert_eq!(strand_major.chip_cpus(ChipId(1)).to_string(), "2-3,6-7");
    assert_eq!(strand_major.processor(CpuId(7)).unwrap().implementation, "x86 (chipid 1)");
}

#[test]
fn a_cache_stands_once_for_each_group_of_sharers() {
    let text = with(r#""caches": [{"level": 2, "kind": "unified", "size_kib": 64, "shared_by": "chip"}]"#);
    let topology = parse(&text, "").unwrap().topology;
    let sharers: Vec<String> = topology.caches().iter().map(|c| c.cpus.to_string()).collect();
    assert_eq!(sharers, ["0-3", "4-7"]);
}

#[test]
fn a_tunable_chooses_the_table_for_large_servers() {
    let slice = |line: &str| parse(&with(line), "").unwrap().tables.dispatch.ts.row(29).quantum;
    assert_eq!(slice(r#""numbering": "core-major""#), 12);
    assert_eq!(slice(r#""tunables": {"ts_dispatch_extended": -1}"#), 12);
    assert_eq!(slice(r#""tunables": {"ts_dispatch_extended": 0, "hz": 1000}"#), 12);
    assert_eq!(slice(r#""tunables": {"ts_dispatch_extended": 1}"#), 36);
}

#[test]
fn mistakes_are_reported_with_their_place() {
    assert_eq!(error("{"), "small.json:1:1: EOF while parsing an object");
    let unknown = error(&with(r#""nodes": 2"#));
    assert!(unknown.starts_with("small.json:4:9: unknown field `nodes`"), "{unknown}");
    assert_eq!(
        error(&with(r#""lgroups": [{"chips": [0]}]"#)),
        "small.json:4:3: chip 1 is in no lgroup; add it to one"
    );
    assert_eq!(
        error(&with(r#""lgroups": [{"chips": [0, 1]}, {"chips": [1]}]"#)),
        "small.json:4:3: chip 1 is in lgroups 0 and 1; leave it out of one of them"
    );
    assert_eq!(
        error(&with(r#""lgroups": [{"chips": [0]}, {"chips": [1]}], "distances": [[10, 20]]"#)),
        "small.json:4:48: lgroup 1 gives 0 distances where 2 are needed"
    );
    assert_eq!(
        error(&with(r#""devices": [{"name": "e1000g0", "processor": 8}]"#)),
        "small.json:4:3: device e1000g0 interrupts CPU 8, which does not exist"
    );
    assert_eq!(
        error(&SMALL.replace("\"chips\": 2", "\"chips\": 0")),
        "small.json:3:15: 0 chips of 2 cores of 2 strands are no CPUs: chips, cores_per_chip and strands_per_core are all needed, or cores"
    );
    assert_eq!(
        error(&SMALL.replace("\"chips\": 2", "\"chips\": 1025")),
        "small.json:3:3: there are 1025 chips; 1 to 1024 are possible"
    );
    assert_eq!(
        error(&SMALL.replace(": 2", ": 4294967295")),
        "small.json:3:3: chips, cores and strands make 18446744073709551615 CPUs; 1 to 16384 are possible"
    );
    assert_eq!(
        error(&with(r#""tunables": {"hz": 0}"#)),
        "small.json:4:16: hz is 0; 1 to 10000 ticks in a second are possible"
    );
    let crowd = with(r#""zones": [{"name": "web", "processes": [{"name": "httpd", "threads": 65537}]}]"#);
    assert_eq!(error(&crowd), "small.json:4:29: process httpd goes beyond 65536 threads in all");
    assert_eq!(
        error(&with(r#""booted": "yesterday""#)),
        "small.json:4:3: `yesterday` is no time; write 2024-11-20 08:14:02 (UTC)"
    );
}

/// The error message for a file with this line, which must name a place in line 4.
fn at_line_4(line: &str) -> String {
    let said = error(&with(line));
    said.strip_prefix("small.json:4:").unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn strands_that_stand_nowhere_or_twice_are_named() {
    const NAMED: &str = r#"{
  "name": "named", "about": "for tests",
  "cores": [ {"chip": 0, "strands": [0, 1]}, {"chip": 1, "strands": [2, 3]} ],
  "processor": { "isa": "i386", "implementation": "x86" }
}"#;
    let topology = parse(NAMED, "").unwrap().topology;
    assert_eq!(topology.chip_cpus(ChipId(1)).to_string(), "2-3");
    for (from, to, why) in [
        ("[2, 3]", "[1, 2]", "strand 1 is in cores 0 and 1; leave it out of one of them"),
        ("[2, 3]", "[2, 2]", "strand 2 is in core 1 twice; leave one out"),
        ("[2, 3]", "[2, 4294967295]", "core 1 has a strand 4294967295; strands are numbered up to 1048576"),
        ("[2, 3]", "[]", "core 1 has no strand; name one, or leave the core out"),
        (
            "\"chip\": 1",
            "\"chip\": 2",
            "there is a chip 2, and no chip 1; chips are numbered from 0 without a gap",
        ),
        (
            "\n  \"processor\"",
            " \"chips\": 2,\n  \"processor\"",
            "the file names every core, and says how many chips, cores or strands there are beside that; \
             leave one of the two out",
        ),
    ] {
        assert_eq!(error(&NAMED.replace(from, to)), format!("small.json:3:3: {why}"));
    }
    let unknown = error(&NAMED.replace("\"chip\": 1,", "\"chip\": 1, \"clock\": 2,"));
    let expected = "small.json:3:64: unknown field `clock`, expected `chip` or `strands`";
    assert_eq!(unknown, expected);
}

#[test]
fn hardware_that_does_not_fit_is_told_with_what_would() {
    for (line, why) in [
        (
            r#""pipeline": {"strands": 3}"#,
            "3: 3 strands share a pipeline, and a core has 2; 1, 2 are possible",
        ),
        (
            r#""pipeline": {"strands": 0}"#,
            "3: 0 strands share a pipeline, and a core has 2; 1, 2 are possible",
        ),
        (r#""memory": {}"#, "3: memory has neither local_ns nor latencies_ns; give one of the two"),
        (
            r#""memory": {"remote_ns": 105}"#,
            "3: memory has neither local_ns nor latencies_ns; give one of the two",
        ),
        (
            r#""memory": {"latencies_ns": [[65]], "local_ns": 65}"#,
            "3: memory has latencies_ns, and local_ns, remote_ns or per_board_ns beside it; \
             leave one of the two out",
        ),
        (
            r#""memory": {"local_ns": 2000000}"#,
            "3: 2000000 ns until memory answers; 0 to 1000000 are possible",
        ),
        (r#""memory": {"local_ns": -1}"#, "3: -1 ns until memory answers; 0 to 1000000 are possible"),
        (
            r#""memory": {"latencies_ns": [[1e9]]}"#,
            "3: 1000000000 ns until memory answers; 0 to 1000000 are possible",
        ),
        (
            r#""board": {"chips": 1}, "lgroups": [{"chips": [0, 1]}]"#,
            "3: the file has board and lgroups, which say the same; leave one of the two out",
        ),
        (r#""board": {"chips": 0}"#, "3: a board has 0 chips; 1 and more are possible"),
        (
            r#""core": {"cpi": 0}"#,
            "3: a core needs 0.001 to 100 cycles for an instruction, waits for 0 to 1 of its outer cache, and looks there 0 to 100 times as often as usual",
        ),
        (r#""cache_cycles": 10001"#, "3: cache_cycles is 10001; 0 to 10000 are possible"),
        (r#""switch_ns": 1000000001"#, "3: switch_ns is 1000000001; 0 to 1000000000 are possible"),
        (r#""lgroups": [{"chips": [0, 1, 2]}]"#, "3: lgroup 0 has chip 2, and there are chips 0 to 1"),
        (
            r#""lgroups": [{"chips": [0]}, {"chips": [1]}]"#,
            "3: lgroup 0 gives 0 distances where 2 are needed",
        ),
    ] {
        assert_eq!(at_line_4(line), why);
    }
    let slow = SMALL.replace("\"isa\"", "\"clock_mhz\": 5, \"isa\"");
    assert_eq!(error(&slow), "small.json:4:18: clock_mhz is 5; 10 to 1000000 are possible");
}

#[test]
fn a_row_of_latencies_that_is_missing_or_short_is_told() {
    let two = r#""lgroups": [{"chips": [0]}, {"chips": [1]}], "distances": [[10, 20], [20, 10]]"#;
    let with_rows =
        |rows: &str| error(&with(&format!("{two},\n  \"memory\": {{ \"latencies_ns\": {rows} }}")));
    assert_eq!(
        with_rows("[[65, 105]]"),
        "small.json:5:15: latencies_ns has 1 rows where 2 are needed, one for each lgroup"
    );
    assert_eq!(
        with_rows("[[65, 105], [105]]"),
        "small.json:5:15: row 1 of latencies_ns has 1 numbers where 2 are needed, one for each lgroup"
    );
}

#[test]
fn times_are_seconds_since_1970() {
    assert_eq!(parse_time("1970-01-01 00:00:00"), Some(WallTime(0)));
    assert_eq!(parse_time("2024-02-29 12:00:00"), Some(WallTime(1_709_208_000)));
    assert_eq!(parse_time("2024-11-20 08:14:02"), Some(BOOTED));
    for wrong in ["2023-02-29 00:00:00", "2024-13-01 00:00:00", "2024-01-01", "2024-01-01 24:00:00"] {
        assert_eq!(parse_time(wrong), None, "{wrong}");
    }
}

#[test]
fn fuzz_descriptions_of_machines() {
    let full = with(
        r#""booted": "2024-11-20 08:14:02", "numbering": "strand-major",
  "caches": [{"level": 2, "kind": "unified", "size_kib": 64, "shared_by": "chip"}],
  "lgroups": [{"chips": [0], "memory_kib": 9}, {"chips": [1]}], "distances": [[10, 20], [20, 10]],
  "devices": [{"name": "e1000g0", "processor": 1}],
  "tunables": {"hz": 1000, "ts_dispatch_extended": 1},
  "zones": [{"name": "web", "processes": [{"name": "httpd", "threads": 2}]}]"#,
    );
    millpond_fuzz::check_text("sim-descriptions", &[SMALL, &full], |text| match parse(text, "x") {
        Ok(state) => assert_eq!(state.check(), Ok(())),
        Err(error) => {
            let lines = text.lines().count().max(1);
            assert!((1..=lines + 1).contains(&error.line), "{error}");
        }
    });
}
