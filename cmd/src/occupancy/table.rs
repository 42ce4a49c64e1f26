//! The table of `occupancy`: a row per program, a column per CPU.

use super::programs::Program;
use millpond_machine::facets::{Residence, Samples};
use millpond_model::{CpuId, Pid};
use millpond_observe::digits::thousandths;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// On machines with more CPUs, only CPUs on which a program ran have a column.
const COLUMNS_MAX: usize = 32;
/// With a single program, the head is repeated after this number of rows.
const HEAD_EVERY: u32 = 20;
/// The width of the column of programs.
const NAME_WIDTH: usize = 16;

/// One report.
#[derive(Serialize, JsonSchema)]
pub struct Document<'a> {
    #[serde(serialize_with = "thousandths")]
    interval_s: f64,
    /// Over all CPUs; null if times are measured.
    samples: Option<Samples>,
    programs: Vec<OnCpus<'a>>,
}

/// A program's time by CPU.
#[derive(Serialize, JsonSchema)]
struct OnCpus<'a> {
    /// The operand as typed.
    program: &'a str,
    pids: &'a [Pid],
    processors: Vec<OnCpu>,
}

#[derive(Serialize, JsonSchema)]
struct OnCpu {
    cpu: CpuId,
    time_ns: u64,
    /// Percent of the interval.
    percent: f64,
}

/// Prints tables. Keeps the last head, so that it is not repeated for a single row unless it changes.
#[derive(Debug, Default)]
pub struct Tables {
    shown: Vec<CpuId>,
    since_head: u32,
}

impl Tables {
    /// The table of one interval, each line with its line end.
    pub fn draw(&mut self, programs: &[Program], residence: &Residence, active: &[CpuId]) -> String {
        let columns = columns(residence, active);
        let mut text = String::new();
        if programs.len() > 1 || columns != self.shown || self.since_head.is_multiple_of(HEAD_EVERY) {
            text += &format!("{:NAME_WIDTH$}", "PROGRAM");
            for cpu in &columns {
                text += &format!(" {cpu:5}");
            }
            text += "   all\n";
            self.since_head = 0;
        }
        self.since_head += 1;
        for program in programs {
            text += &format!("{:NAME_WIDTH$}", program.name);
            for cpu in &columns {
                text += &format!(" {:5.1}", percent(time(program, residence, Some(*cpu)), residence));
            }
            text += &format!(" {:5.1}\n", percent(time(program, residence, None), residence));
        }
        self.shown = columns;
        text
    }
}

fn columns(residence: &Residence, active: &[CpuId]) -> Vec<CpuId> {
    let seen: BTreeSet<CpuId> = residence.sightings.iter().map(|s| s.cpu).collect();
    if active.len() > COLUMNS_MAX {
        return seen.into_iter().collect();
    }
    // Includes a CPU that went off-line at the end of the interval.
    active.iter().copied().chain(seen).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The time of a program on one CPU, or on all CPUs, in nanoseconds.
fn time(program: &Program, residence: &Residence, cpu: Option<CpuId>) -> u64 {
    let ours = residence.sightings.iter().filter(|s| program.pids.contains(&s.pid));
    ours.filter(|s| cpu.is_none_or(|cpu| s.cpu == cpu)).map(|s| s.time.0).sum()
}

#[expect(clippy::cast_precision_loss, reason = "percents need three digits")]
fn percent(time: u64, residence: &Residence) -> f64 {
    if residence.elapsed.0 == 0 { 0.0 } else { 100.0 * time as f64 / residence.elapsed.0 as f64 }
}

impl<'a> Document<'a> {
    /// The report of an interval.
    pub fn of(programs: &'a [Program], residence: &Residence) -> Document<'a> {
        let cpus: BTreeSet<CpuId> = residence.sightings.iter().map(|s| s.cpu).collect();
        let program = |program: &'a Program| {
            let on = |&cpu: &CpuId| {
                let time_ns = time(program, residence, Some(cpu));
                let percent = (percent(time_ns, residence) * 10.0).round() / 10.0;
                (time_ns > 0).then_some(OnCpu { cpu, time_ns, percent })
            };
            let processors = cpus.iter().filter_map(on).collect();
            OnCpus { program: &program.name, pids: &program.pids, processors }
        };
        let programs = programs.iter().map(program).collect();
        Document { interval_s: residence.elapsed.as_secs_f64(), samples: residence.samples, programs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_machine::facets::Sighting;
    use millpond_model::Nanos;
    use serde_json::{Value, json};

    fn residence(sightings: &[(u32, u32, u64)]) -> Residence {
        let sightings = sightings.iter();
        Residence {
            elapsed: Nanos::from_secs(1),
            sightings: sightings
                .map(|(cpu, pid, ms)| Sighting {
                    cpu: CpuId(*cpu),
                    pid: Pid(*pid),
                    time: Nanos::from_millis(*ms),
                })
                .collect(),
            samples: None,
            alive: vec![Pid(1)],
            unfollowed: 0,
        }
    }

    fn program(name: &str, pids: &[u32]) -> Program {
        Program { name: name.into(), pids: pids.iter().copied().map(Pid).collect() }
    }

    fn cpus(count: u32) -> Vec<CpuId> {
        (0..count).map(CpuId).collect()
    }

    #[test]
    fn each_program_has_a_row_and_each_processor_a_column() {
        let programs = [program("cg", &[4, 5]), program("4711", &[4711])];
        let residence = residence(&[(0, 4, 300), (0, 5, 12), (1, 4, 500), (1, 4711, 967)]);
        assert_eq!(
            Tables::default().draw(&programs, &residence, &cpus(2)),
            "\
PROGRAM              0     1   all
cg                31.2  50.0  81.2
4711               0.0  96.7  96.7
"
        );
    }

    #[test]
    fn a_single_program_has_its_head_when_columns_change_and_every_twenty_rows() {
        let programs = [program("cg", &[4])];
        let mut tables = Tables::default();
        let mut heads = Vec::new();
        for i in 0..45 {
            let count = if i < 22 { 2 } else { 3 };
            if tables.draw(&programs, &residence(&[]), &cpus(count)).starts_with("PROGRAM") {
                heads.push(i);
            }
        }
        assert_eq!(heads, [0, 20, 22, 42]);
    }

    #[test]
    fn a_large_machine_shows_where_programs_were_seen() {
        let programs = [program("cg", &[4])];
        let text = Tables::default().draw(&programs, &residence(&[(70, 4, 1000)]), &cpus(128));
        assert_eq!(text, "PROGRAM             70   all\ncg               100.0 100.0\n");
    }

    #[test]
    fn json_lists_only_where_a_program_was_seen() {
        let programs = [program("cg", &[4])];
        let json = |residence: Residence| serde_json::to_value(Document::of(&programs, &residence)).unwrap();
        let value = json(residence(&[(0, 4, 512), (1, 9, 5)]));
        assert_eq!(
            value["programs"][0]["processors"],
            json!([{"cpu": 0, "time_ns": 512_000_000, "percent": 51.2}])
        );
        assert_eq!((value["interval_s"].as_f64(), &value["samples"]), (Some(1.0), &Value::Null));
        let samples = Some(Samples { wanted: 1000, taken: 990, lost: 10 });
        let value = json(Residence { samples, ..residence(&[]) });
        assert_eq!(value["samples"], json!({"wanted": 1000, "taken": 990, "lost": 10}));
    }
}
