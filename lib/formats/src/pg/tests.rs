//! Tests of the listings of processor groups, by the published samples.

use super::*;
use millpond_model::{Physical, Relationship};

/// The groups of the published sample, with some pipelines left out, and a cache instead of its floating-point unit: a chip with 32 strands,
/// four per pipeline.
fn sample() -> Vec<ProcessorGroup> {
    let group = |id, relationship, cpus: &str, parent: Option<u32>, physical: &[Physical]| ProcessorGroup {
        id: PgId(id),
        relationship,
        cpus: cpus.parse().unwrap(),
        parent: parent.map(PgId),
        physical: physical.to_vec(),
        caches: Vec::new(),
    };
    let whole = [Physical::System, Physical::Chip];
    let mut groups = vec![
        group(0, Relationship::System, "0-31", None, &[]),
        group(3, Relationship::DataPipe, "0-31", Some(0), &whole),
        ProcessorGroup {
            caches: vec![(CacheKind::Unified, Some(3072))],
            ..group(2, Relationship::Cache(2), "0-31", Some(3), &whole)
        },
    ];
    let pipelines = [(1, "0-3"), (4, "4-7"), (5, "8-11"), (10, "28-31")];
    groups.extend(
        pipelines.map(|(id, cpus)| group(id, Relationship::Pipeline, cpus, Some(2), &[Physical::Core])),
    );
    groups
}

fn all() -> CpuSet {
    "0-31".parse().unwrap()
}

#[test]
fn the_published_tree() {
    let groups = sample();
    assert_eq!(
        tree(&placed(&groups, |_| true), true, false, &all()),
        "0 (System) CPUs: 0-31\n\
         `-- 3 (Data_Pipe_to_memory [system,chip]) CPUs: 0-31\n    \
             `-- 2 (L2_Cache [system,chip]) CPUs: 0-31\n        \
                 |-- 1 (Integer_Pipeline [core]) CPUs: 0-3\n        \
                 |-- 4 (Integer_Pipeline [core]) CPUs: 4-7\n        \
                 |-- 5 (Integer_Pipeline [core]) CPUs: 8-11\n        \
                 `-- 10 (Integer_Pipeline [core]) CPUs: 28-31\n"
    );
}

#[test]
fn the_published_table_of_loads() {
    let groups = sample();
    let load = |p: &Placed<'_>, hw: Option<f64>, sw: f64| Load {
        id: Some(p.group.id),
        depth: p.depth,
        label: label(p.group, false),
        hardware: hw,
        software: Some(Software { user: sw, sys: 0.0, idle: 100.0 - sw }),
        cpus: p.group.cpus.clone(),
    };
    let figures = [
        (None, 0.4),
        (None, 0.4),
        (Some(0.0), 0.4),
        (Some(0.0), 0.0),
        (Some(0.0), 0.2),
        (Some(2.8), 2.7),
        (Some(100.0), 99.96),
    ];
    let placed = placed(&groups, |_| true);
    let rows: Vec<Load> = placed.iter().zip(figures).map(|(p, (hw, sw))| load(p, hw, sw)).collect();
    assert_eq!(
        loads(&rows, false),
        "PG  RELATIONSHIP           HW    SW  CPUS\n 0  System                  -  0.4%  0-31\n 3   Data_Pipe_to_memory    -  0.4%  0-31\n \
         2    L2_Cache             0%  0.4%  0-31\n 1     Integer_Pipeline    0%    0%  0-3\n 4     Integer_Pipeline    0%  0.2%  4-7\n \
         5     Integer_Pipeline  2.8%  2.7%  8-11\n10     Integer_Pipeline  100%  100%  28-31\n"
    );
    let verbose = loads(&rows[5..6], true);
    assert_eq!(
        verbose,
        "PG  RELATIONSHIP          HW    SW   USR   SYS  IDLE  CPUS\n 5     Integer_Pipeline 2.8%  2.7%  2.7%    0% 97.3%  8-11\n"
    );
}

#[test]
fn groups_that_are_not_shown_leave_no_gap() {
    let groups = sample();
    let cores = placed(&groups, |g| g.relationship != Relationship::DataPipe && g.id != PgId(4));
    let on_line: CpuSet = "0-2,8-11".parse().unwrap();
    assert_eq!(
        list(&cores[..3], false, false, &on_line),
        "PG  RELATIONSHIP        CPUs\n 0  System              0-2,8-11 (off-line: 3-7,12-31)\n 2   L2_Cache           0-2,8-11 (off-line: 3-7,12-31)\n \
         1    Integer_Pipeline  0-2 (off-line: 3)\n"
    );
    let alone = placed(&groups, |g| g.id == PgId(10));
    assert_eq!(
        list(&alone, false, true, &on_line),
        "PG  RELATIONSHIP      CPUs\n10  Integer_Pipeline  - (off-line: 28-31)\n      the pipeline of a core: its strands\n"
    );
}

#[test]
fn a_verbose_tree_keeps_its_lines() {
    let groups = sample();
    let some = placed(&groups, |g| [2, 1, 10].contains(&g.id.0));
    assert_eq!(
        tree(&some, false, true, &all()),
        "2 (L2_Cache) CPUs: 0-31\n\
         |   a cache of level 2: unified 3072 KiB\n\
         |-- 1 (Integer_Pipeline) CPUs: 0-3\n\
         |       the pipeline of a core: its strands\n\
         `-- 10 (Integer_Pipeline) CPUs: 28-31\n        \
                 the pipeline of a core: its strands\n"
    );
}

#[test]
fn a_summary_has_the_least_the_mean_and_the_most() {
    let row = Summary {
        id: PgId(1),
        depth: 1,
        label: "Integer_Pipeline".into(),
        hardware: None,
        software: Some([0.0, 12.5, 100.0]),
        cpus: "0-3".parse().unwrap(),
    };
    assert_eq!(
        summary(&[row], 4.0),
        "\n    SUMMARY: UTILIZATION OVER 4 SECONDS\n\n                      -----HARDWARE----- -----SOFTWARE-----\n\
         PG  RELATIONSHIP         MIN   AVG   MAX    MIN   AVG   MAX  CPUS\n \
         1   Integer_Pipeline      -     -     -     0% 12.5%  100%  0-3\n"
    );
}

#[test]
fn words_name_groups() {
    let range = |first, last| PgRange { first: PgId(first), last: PgId(last) };
    assert_eq!(parse_pgs("0,3-5"), Ok(vec![range(0, 0), range(3, 5)]));
    let error = |word: &str| parse_pgs(word).unwrap_err().to_string();
    assert_eq!(error("1,x"), "column 3: `x` is not the number of a processor group");
    assert_eq!(error("-1"), "column 1: `-1` is not the number of a processor group");
    assert_eq!(error(""), "column 1: `` is not the number of a processor group");
    assert_eq!(error("4294967296"), "column 1: `4294967296` is not the number of a processor group");
    assert_eq!(error("5-3"), "column 1: the range 5-3 runs backwards");
}

#[test]
fn fuzz_processor_groups() {
    millpond_fuzz::check_text("formats-pgs", &["0", "0,3-5", "5-3", "0-4294967295"], |text| {
        if let Ok(ranges) = parse_pgs(text) {
            assert!(!ranges.is_empty() && ranges.iter().all(|r| r.first <= r.last));
            let typed = |r: &PgRange| format!("{}-{}", r.first, r.last);
            let again = ranges.iter().map(typed).collect::<Vec<_>>().join(",");
            assert_eq!(parse_pgs(&again), Ok(ranges));
        }
    });
}
