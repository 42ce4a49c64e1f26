//! Tests of reports: shares of groups, what is missing, orders, changes.

use super::super::options::tests::options;
use super::*;
use millpond_model::{
    COLUMNS, ChipId, CoreId, CoreKind, CpuSample, Lgroup, LgrpId, Processor, PsetId, Sample, Topology,
    WallTime,
};
use serde_json::{Value, json};

/// A chip of two cores with two strands each: 0 is the system, 2 the chip, 1 and 3 the cores.
fn groups() -> ProcessorGroups {
    let processor = |n: u32| Processor {
        id: CpuId(n),
        core: CoreId(n / 2),
        chip: ChipId(0),
        lgroup: LgrpId(0),
        kind: CoreKind::Uniform,
        isa: "i386".into(),
        clock_mhz: None,
        fpu: None,
        implementation: String::new(),
        brand: String::new(),
    };
    let lgroup = Lgroup::only("0-3".parse().unwrap());
    ProcessorGroups::new(&Topology::new((0..4).map(processor).collect(), vec![], vec![lgroup]).unwrap())
}

/// Processors with milliseconds of user, kernel, waiting, idle and stolen time.
fn sample(second: u64, cpus: &[(u32, [u64; 5])]) -> Sample {
    let cpus = cpus.iter().map(|(cpu, times)| {
        let [user, sys, wait, idle, steal] = times.map(Nanos::from_millis);
        CpuSample {
            cpu: CpuId(*cpu),
            set: PsetId::DEFAULT,
            events: [None; COLUMNS.len()],
            ticks: Ticks { user, sys, wait, idle, steal },
        }
    });
    Sample {
        at: Nanos::from_secs(second),
        wall: WallTime(1_732_090_442),
        cpus: cpus.collect(),
        sets: vec![],
        missing: vec![],
    }
}

/// CPU 0 works half of its time, CPU 1 waits for a disk, half of what CPU 2 had was taken, and of CPU 3 everything.
fn frame() -> Rates {
    let zero = [0, 1, 2, 3].map(|cpu| (cpu, [0; 5]));
    let after = [
        (0, [300, 200, 0, 500, 0]),
        (1, [0, 0, 600, 400, 0]),
        (2, [250, 0, 0, 250, 500]),
        (3, [0, 0, 0, 0, 1000]),
    ];
    Rates::between(&sample(10, &zero), &sample(11, &after))
}

fn draw(text: &str, frame: &Rates) -> String {
    let (options, groups) = (options(text).unwrap(), groups());
    let all = groups.groups().iter().map(|group| group.id).collect();
    Reports::new(&options, &groups, &all, &TimeZone::UTC).draw(frame, &[], "why")
}

#[test]
fn shares_are_of_the_time_that_the_machine_had() {
    // All: 750 of 2,500 ms. The first core: 500 of 2,000. The second one: 250 of 500.
    assert_eq!(
        draw("-v", &frame()),
        "PG  RELATIONSHIP           HW    SW   USR   SYS  IDLE  CPUS\n \
         0  System                  -   30%   22%    8%   70%  0-3\n \
         2   Data_Pipe_to_memory    -   30%   22%    8%   70%  0-3\n \
         1    Integer_Pipeline      -   25%   15%   10%   75%  0-1\n \
         3    Integer_Pipeline      -   50%   50%    0%   50%  2-3\n"
    );
}

#[test]
fn what_had_no_time_has_a_dash_and_comes_last() {
    let text = draw("-C -s sw", &frame());
    let cpus: Vec<&str> = text.lines().filter(|line| line.contains("CPU  ")).collect();
    assert_eq!(cpus.len(), 4);
    assert_eq!(cpus[1], " -   CPU                   -     -  3");
    let report: Value = serde_json::from_str(&draw("--json -C -s sw", &frame())).unwrap();
    assert_eq!(
        report["processors"][3],
        json!({ "cpu": 3, "sw": null, "user": null, "sys": null, "idle": null })
    );
    assert_eq!(report["missing"], json!(["hw: why"]));
    assert_eq!(report["interval_s"], json!(1.0));
    let order: Vec<u64> =
        report["groups"].as_array().unwrap().iter().map(|group| group["id"].as_u64().unwrap()).collect();
    assert_eq!(order, [3, 0, 2, 1]);
}

#[test]
fn cpus_that_left_are_told_and_have_no_part() {
    let (options, groups, zone) = (options("-r pipeline").unwrap(), groups(), TimeZone::UTC);
    let all = groups.groups().iter().skip(2).map(|group| group.id).collect();
    let mut reports = Reports::new(&options, &groups, &all, &zone);
    let before = sample(10, &[0, 1, 2, 3].map(|cpu| (cpu, [0; 5])));
    let after = sample(11, &[(0, [1000, 0, 0, 0, 0]), (1, [0, 0, 0, 1000, 0])]);
    let changes = millpond_observe::changes(&before, &after, millpond_observe::Scope::Processors);
    assert_eq!(
        reports.draw(&Rates::between(&before, &after), &changes, "why"),
        "<<processors removed: 2, 3>>\n\
         PG  RELATIONSHIP       HW    SW  CPUS\n 1  Integer_Pipeline    -   50%  0-1\n 3  Integer_Pipeline    -     -  -\n"
    );
}

#[test]
fn a_mean_is_of_all_time_and_not_of_reports() {
    let (options, groups, zone) = (options("-A --json").unwrap(), groups(), TimeZone::UTC);
    let core = [PgId(1)].into();
    let mut reports = Reports::new(&options, &groups, &core, &zone);
    assert_eq!(reports.summary(), "");
    let samples = [
        sample(10, &[(0, [0; 5])]),
        // A second at work, then three without.
        sample(11, &[(0, [1000, 0, 0, 0, 0])]),
        sample(14, &[(0, [1000, 0, 0, 3000, 0])]),
    ];
    for pair in samples.windows(2) {
        reports.draw(&Rates::between(&pair[0], &pair[1]), &[], "why");
    }
    let summary: Value = serde_json::from_str(&reports.summary()).unwrap();
    assert_eq!(summary["seconds"], json!(4.0));
    assert_eq!(summary["summary"][0]["sw"], json!({ "min": 0.0, "avg": 25.0, "max": 100.0 }));
}
