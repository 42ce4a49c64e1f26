//! `pginfo` and `pgstat` on captured machines and on this machine. No test here depends on the load of a CPU.

use crate::captured::{Captured, err, out, run};
use serde_json::Value;
use std::fs;

/// Two cores of two strands. Each core has an L1 cache, and the chip an L3 cache.
fn two_cores() -> Captured {
    let machine = Captured::new();
    for cpu in 0..4 {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        let core = if cpu < 2 { "0-1\n" } else { "2-3\n" };
        machine.file(&format!("{dir}/topology/core_cpus_list"), core);
        cache(&machine, cpu, 0, ["1", "Data", "32K", core]);
        cache(&machine, cpu, 3, ["3", "Unified", "8192K", "0-3\n"]);
    }
    machine
}

/// Writes level, kind, size and sharers of a cache of a CPU.
fn cache(machine: &Captured, cpu: u32, index: u32, values: [&str; 4]) {
    let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
    for (name, value) in ["level", "type", "size", "shared_cpu_list"].iter().zip(values) {
        machine.file(&format!("{dir}/{name}"), value);
    }
}

#[test]
fn groups_of_a_captured_machine_come_from_sysfs() {
    let shown = two_cores().run(&["pginfo", "-Tp"]);
    assert_eq!(
        out(&shown),
        "0 (System) CPUs: 0-3\n\
         `-- 4 (Data_Pipe_to_memory [system,chip]) CPUs: 0-3\n    \
             `-- 3 (L3_Cache [system,chip]) CPUs: 0-3\n        \
                 |-- 2 (L1_Cache [core]) CPUs: 0-1\n        \
                 |   `-- 1 (Integer_Pipeline [core]) CPUs: 0-1\n        \
                 `-- 6 (L1_Cache [core]) CPUs: 2-3\n            \
                     `-- 5 (Integer_Pipeline [core]) CPUs: 2-3\n"
    );
    let caches = two_cores().run(&["pginfo", "-v", "-r", "L1"]);
    assert_eq!(
        out(&caches),
        "PG  RELATIONSHIP  CPUs\n \
         2  L1_Cache      0-1\n      a cache of level 1: data 32 KiB\n \
         6  L1_Cache      2-3\n      a cache of level 1: data 32 KiB\n"
    );
    assert_eq!((shown.status.code(), err(&shown).as_str()), (Some(0), ""));
}

#[test]
fn caches_that_contradict_the_cores_are_left_out_and_nonsense_is_no_cache() {
    let machine = two_cores();
    cache(&machine, 1, 2, ["2", "Unified", "1024K", "1-2\n"]);
    cache(&machine, 2, 4, ["many", "Unified", "1024K", "0-3\n"]);
    cache(&machine, 3, 5, ["4", "Unified", "1024K", "0-x\n"]);
    cache(&machine, 3, 6, ["4", "Unified", "-1K", "900-901\n"]);
    let shown = machine.run(&["pginfo", "-s"]);
    assert_eq!(out(&shown), "System\nData_Pipe_to_memory\nL3_Cache\nL1_Cache\nInteger_Pipeline\n");
    assert_eq!(err(&shown), "pginfo: L2_Cache of CPUs 1-2 is left out: it overlaps with other groups\n");
}

#[test]
fn nothing_is_busy_on_a_captured_machine() {
    let refused = two_cores().run(&["pgstat", "1", "1"]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(1), ""));
    assert_eq!(
        err(&refused),
        "pgstat: cannot watch processor groups: it is a captured machine, where nothing goes on\n\
         hint: pginfo shows them without their utilization; mpstat shows figures since boot\n"
    );
}

#[test]
fn the_machine_at_hand_has_all_its_cpus_in_the_system() {
    let on_line = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let shown = run(["pginfo", "-r", "system"]);
    assert_eq!(shown.status.code(), Some(0), "{}", err(&shown));
    let row = out(&shown).lines().nth(1).unwrap().to_owned();
    assert!(row.starts_with(" 0  System        ") && row.contains(on_line.trim()), "{row}");
}

#[test]
fn shares_of_the_machine_at_hand_add_up() {
    let shown = run(["pgstat", "--json", "-AC", "0.3", "2"]);
    assert_eq!((shown.status.code(), err(&shown).as_str()), (Some(0), ""));
    let text = out(&shown);
    let reports: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 3, "two intervals and a summary");
    for report in &reports[..2] {
        assert!(report["interval_s"].as_f64().unwrap() >= 0.1, "{report}");
        for rows in ["groups", "processors"] {
            let rows = report[rows].as_array().unwrap();
            assert!(!rows.is_empty());
            for row in rows.iter().filter(|row| !row["sw"].is_null()) {
                let part = |name: &str| row[name].as_f64().unwrap();
                // Each value is rounded to thousandths.
                assert!((part("user") + part("sys") + part("idle") - 100.0).abs() < 0.01, "{row}");
                assert!((part("user") + part("sys") - part("sw")).abs() < 0.01, "{row}");
            }
        }
    }
    let system = &reports[2]["summary"][0];
    let part = |name: &str| system["sw"][name].as_f64().unwrap();
    assert!(part("min") <= part("max") && part("min") >= 0.0 && part("max") <= 100.0, "{system}");
    assert!(part("avg") >= part("min") - 0.01 && part("avg") <= part("max") + 0.01, "{system}");
}
