//! The table of `intrstat`: two readings, and what happened between them (reference §4.6).

use millpond_formats::print_iso;
use millpond_model::{CpuId, CpuSet, DisturbanceKind, Disturbed, Nanos, WallTime};
use millpond_observe::digits::thousandths;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How wide a line may be, what a device's name and rule take, and what each processor does: four stand beside each other.
const WIDTH: usize = 80;
const NAME_WIDTH: usize = 14;
const CPU_WIDTH: usize = 15;

/// How often each device interrupted each processor since the beginning, and how long in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    at: Nanos,
    devices: BTreeMap<String, BTreeMap<CpuId, (u64, Option<Nanos>)>>,
}

impl Reading {
    /// The devices among what was seen.
    pub fn of(seen: &Disturbed) -> Reading {
        let mut devices: BTreeMap<String, BTreeMap<CpuId, (u64, Option<Nanos>)>> = BTreeMap::new();
        for row in seen.rows.iter().filter(|row| row.cause.kind == DisturbanceKind::Device) {
            let device = devices.entry(instance(&row.cause.name)).or_default();
            let (count, total) = device.entry(row.cpu).or_insert((0, Some(Nanos(0))));
            *count += row.count.unwrap_or(0);
            *total = total.zip(row.total).map(|(a, b)| a + b);
        }
        Reading { at: seen.at, devices }
    }
}

/// `e1000g0` is the instance 0 of the driver `e1000g`; a name that is more than letters and a number stays.
fn instance(name: &str) -> String {
    let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_plain = driver.bytes().all(|b| b.is_ascii_alphanumeric())
        && driver.starts_with(|c: char| c.is_ascii_alphabetic());
    if is_plain && driver.len() < name.len() {
        format!("{driver}#{}", &name[driver.len()..])
    } else {
        name.to_owned()
    }
}

/// One report.
#[derive(Serialize, JsonSchema)]
pub struct Document<'r> {
    /// When the interval ended, as ISO 8601.
    time: String,
    #[serde(serialize_with = "thousandths")]
    interval_s: f64,
    /// Those that interrupted a CPU since the command began.
    devices: &'r [Device],
}

/// What a device did in an interval.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct Device {
    device: String,
    processors: Vec<Figures>,
}

/// What a device did on one CPU.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
struct Figures {
    cpu: CpuId,
    /// Interrupts per second.
    #[serde(serialize_with = "thousandths")]
    rate: f64,
    /// Part of the CPU's time that handlers took; null where it is not measured.
    #[serde(serialize_with = "thousandths")]
    percent: Option<f64>,
}

/// What happened between two readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    elapsed: Nanos,
    cpus: Vec<CpuId>,
    devices: Vec<Device>,
}

impl Report {
    /// All devices of the later reading, on these processors.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn between(before: &Reading, after: &Reading, cpus: &CpuSet) -> Report {
        let elapsed = after.at - before.at;
        let seconds = if elapsed == Nanos(0) { 1.0 } else { elapsed.as_secs_f64() };
        let timed = after.devices.values().flat_map(BTreeMap::values).all(|(_, total)| total.is_some());
        let cpus: Vec<CpuId> = cpus.iter().collect();
        let none = if timed { Some(Nanos(0)) } else { None };
        let row = |(device, counts): (&String, &BTreeMap<CpuId, (u64, Option<Nanos>)>)| {
            let earlier = before.devices.get(device);
            let cell = |cpu: &CpuId| {
                let (count, total) = counts.get(cpu).copied().unwrap_or((0, none));
                let was = earlier.and_then(|counts| counts.get(cpu)).copied().unwrap_or((0, none));
                let rate = count.saturating_sub(was.0) as f64 / seconds;
                let percent =
                    total.map(|total| (total - was.1.unwrap_or_default()).as_secs_f64() * 100.0 / seconds);
                Figures { cpu: *cpu, rate, percent }
            };
            Device { device: device.clone(), processors: cpus.iter().map(cell).collect() }
        };
        let devices = after.devices.iter().map(row).collect();
        Report { elapsed, cpus, devices }
    }

    /// Block after block of as many processors as fit.
    pub fn text(&self) -> String {
        let beside = ((WIDTH - NAME_WIDTH) / CPU_WIDTH).max(1);
        let mut text = String::new();
        for (block, cpus) in self.cpus.chunks(beside).enumerate() {
            let _ = write!(text, "\n{:>12} |", "device");
            for cpu in cpus {
                let _ = write!(text, " {:>9} %tim", format!("cpu{cpu}"));
            }
            let _ = writeln!(text, "\n-------------+{}", "-".repeat(CPU_WIDTH * cpus.len()));
            for Device { device, processors } in &self.devices {
                let _ = write!(text, "{device:>12} |");
                for Figures { rate, percent, .. } in processors.iter().skip(block * beside).take(cpus.len()) {
                    match percent {
                        Some(percent) => {
                            let _ = write!(text, " {:>9} {percent:>4.1}", rate.floor());
                        }
                        None => {
                            let _ = write!(text, " {:>9} {:>4}", rate.floor(), "-");
                        }
                    }
                }
                text.push('\n');
            }
        }
        text
    }

    /// The same for programs.
    pub fn document(&self, wall: WallTime) -> Document<'_> {
        let interval_s = self.elapsed.as_secs_f64();
        Document { time: print_iso(wall), interval_s, devices: &self.devices }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Cause, Disturbance, Doer};

    fn reading(at_s: u64, rows: &[(&str, u32, u64, Option<u64>)]) -> Reading {
        let row = |&(name, cpu, count, total): &(&str, u32, u64, Option<u64>)| Disturbance {
            cpu: CpuId(cpu),
            cause: Cause { kind: DisturbanceKind::Device, name: name.into(), by: None, doer: Doer::Others },
            pid: None,
            count: Some(count),
            total: total.map(Nanos),
            longest: None,
            longest_at: None,
        };
        let rows = rows.iter().map(row).collect();
        Reading::of(&Disturbed { at: Nanos::from_secs(at_s), rows, ..Disturbed::default() })
    }

    fn cpus(count: u32) -> CpuSet {
        CpuSet::first(count)
    }

    // By the format of reference §4.6: 12 columns, a bar, 9 and 4 for each processor.
    #[test]
    fn the_table_is_that_of_the_reference() {
        let before = reading(10, &[("bge0", 0, 100, Some(1_000_000))]);
        let after = reading(12, &[("bge0", 0, 300, Some(26_000_000)), ("uhci1", 1, 7, Some(100_000_000))]);
        let expected = "
      device |      cpu0 %tim      cpu1 %tim
-------------+------------------------------
       bge#0 |       100  1.2         0  0.0
      uhci#1 |         0  0.0         3  5.0
";
        assert_eq!(Report::between(&before, &after, &cpus(2)).text(), expected);
    }

    #[test]
    fn five_processors_are_two_blocks() {
        let after = reading(1, &[("bge0", 4, 5, Some(0))]);
        let expected = "
      device |      cpu0 %tim      cpu1 %tim      cpu2 %tim      cpu3 %tim
-------------+------------------------------------------------------------
       bge#0 |         0  0.0         0  0.0         0  0.0         0  0.0

      device |      cpu4 %tim
-------------+---------------
       bge#0 |         5  0.0
";
        assert_eq!(Report::between(&Reading::default(), &after, &cpus(5)).text(), expected);
    }

    #[test]
    fn without_times_there_is_a_dash() {
        let after = reading(1, &[("virtio1-req.0", 0, 12, None)]);
        let expected = "
      device |      cpu0 %tim      cpu1 %tim
-------------+------------------------------
virtio1-req.0 |        12    -         0    -
";
        assert_eq!(Report::between(&Reading::default(), &after, &cpus(2)).text(), expected);
    }

    #[test]
    fn instances_are_told_from_drivers() {
        let said =
            ["e1000g0", "bge12", "ttyS0", "virtio1-req.0", "eth0", "40", "ACPI:Ged", "sd"].map(instance);
        assert_eq!(said, ["e1000g#0", "bge#12", "ttyS#0", "virtio1-req.0", "eth#0", "40", "ACPI:Ged", "sd"]);
    }
}
