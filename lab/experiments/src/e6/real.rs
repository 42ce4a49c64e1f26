//! E6 on the real machine: latencies compared with the published figures. Other programs are not moved.

use crate::Failure;
use crate::here::Here;
use crate::published::{Choices, Findings, real};
use crate::sets::change;
use millpond_machine::facets::{LatencyProbe, LatencyWatch, Place, PlacePlan, ProbePlan, Stamps};
use millpond_machine::{Absent, Machine};
use millpond_model::{CpuId, LATENCY_STAGES, Nanos};
use millpond_observe::latency::{Latencies, Worst, primes_near};
use millpond_report::{Cell, Table};
use millpond_session::own_pid;
use std::sync::atomic::Ordering;

/// As published: FIFO at level 5.
const LEVEL: u8 = 5;
/// Mean interval in microseconds.
const INTERVAL_US: u64 = 1_000;
const SAMPLES: u64 = 100_000;
/// The variant of its points.
const HERE: &str = "this machine";
/// Polling interval of the stop flag.
const LOOK: Nanos = Nanos::from_millis(500);

/// Runs the experiment.
///
/// # Errors
/// [`Failure`]; all changes are undone.
pub fn run(here: &mut Here<'_>, choices: &Choices, findings: &mut Findings) -> Result<(), Failure> {
    let (facts, free, _) = here.look()?;
    findings.machines.push(facts.text());
    let samples = choices.number("samples").unwrap_or(SAMPLES);
    // At least two CPUs are free.
    let cpu = free.last().copied().unwrap_or(CpuId(0));
    (here.tell)(&format!("{samples} samples on CPU {cpu}, about {} s", samples / 1_000));
    let measured = measure(here, cpu, samples, Stamps::Programs)?;
    findings.notes.extend(measured.only_whole);
    findings.tables.push(("the longest waits".into(), measured.worst));
    beside(&measured.latencies, findings);
    let others = measured.others.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
    let note =
        "no thread was pushed out and no interrupt was moved: other threads and interrupts share the CPU";
    findings.notes.push(if others.is_empty() {
        note.into()
    } else {
        format!("{note}; {others} ran there, too")
    });
    Ok(())
}

/// Results of one run.
struct Measured {
    latencies: Latencies,
    /// Other threads that ran on the CPU, by name.
    others: Vec<String>,
    /// The longest latencies.
    worst: Table,
    /// The reason why stages were not measured.
    only_whole: Option<String>,
}

/// Median of the total latency over this many samples on the last CPU, in microseconds.
///
/// # Errors
/// [`Failure`]; all changes are undone.
pub(crate) fn median_us(here: &mut Here<'_>, samples: u64) -> Result<f64, Failure> {
    let (_, free, _) = here.look()?;
    let cpu = free.last().copied().unwrap_or(CpuId(0));
    let row = measure(here, cpu, samples, Stamps::None)?.latencies.row(LATENCY_STAGES);
    let median = row.and_then(|row| row.quantiles.into_iter().flatten().next());
    median
        .map(|median| real(median.0) / 1e3)
        .ok_or_else(|| Failure::Machine("no wake-up was measured".into()))
}

fn measure(here: &mut Here<'_>, cpu: CpuId, samples: u64, stamps: Stamps) -> Result<Measured, Failure> {
    let machine = here.machine();
    let probe = machine.latency().map_err(Failure::NotHere)?;
    let intervals: Vec<Nanos> = primes_near(INTERVAL_US).into_iter().map(|us| Nanos(us * 1_000)).collect();
    let plan = |stamps| ProbePlan { cpu, intervals: intervals.clone(), level: LEVEL, stamps };
    let mut only_whole = None;
    let mut watch = match probe.begin(&plan(stamps)) {
        Ok(watch) => watch,
        Err(Absent { why, .. }) => {
            only_whole = Some(format!("only the whole was measured: {why}"));
            probe.begin(&plan(Stamps::None)).map_err(Failure::NotHere)?
        }
    };
    let wanted = PlacePlan { cpu, keep_others: true, owner: own_pid(), timerlat: None };
    let place = change(machine, "make a place to measure", || probe.prepare_place(&wanted), &mut |_| ())?;
    let threads = machine.threads().map_err(Failure::NotHere)?;
    let (pid, set) = (watch.pid(), place.set);
    let bound = change(
        machine,
        "bind the thread that measures",
        || threads.prepare_bind_set(pid, None, Some(set)),
        &mut |_| (),
    );
    let done = bound.and_then(|_| collect(here, watch.as_mut(), samples));
    let others = watch.sharers().into_iter().map(|sharer| sharer.what).collect();
    let worst = worst(watch.as_ref());
    drop(watch);
    leave(machine, probe, &place)?;
    Ok(Measured { latencies: done?, others, worst, only_whole })
}

fn leave(machine: &dyn Machine, probe: &dyn LatencyProbe, place: &Place) -> Result<(), Failure> {
    change(machine, "put the CPU back", || probe.prepare_leave(place), &mut |_| ())
}

fn collect(here: &Here<'_>, watch: &mut dyn LatencyWatch, samples: u64) -> Result<Latencies, Failure> {
    let what = "measure latency";
    watch.go().map_err(Failure::refused(what))?;
    let mut latencies = Latencies::default();
    while latencies.samples() < samples {
        if here.stop.load(Ordering::Relaxed) {
            return Err(Failure::Stopped);
        }
        let deadline = here.machine().clock().now() + LOOK;
        let measured = watch.collect(deadline).map_err(Failure::refused(what))?;
        let left = usize::try_from(samples - latencies.samples()).unwrap_or(usize::MAX);
        measured.samples.iter().take(left).for_each(|sample| latencies.record(sample));
    }
    Ok(latencies)
}

fn worst(watch: &dyn LatencyWatch) -> Table {
    let mut table = Table::of(&[], &["us"]).and_words(&["was on the CPU"]);
    for (sample, moments) in watch.worst().into_iter().take(8) {
        let worst = Worst::of(&sample, &moments, Nanos(0));
        let us = Cell::Real(real(worst.total.0) / 1e3, 1);
        table.row([
            us,
            worst.culprits.first().map_or(Cell::Missing, |culprit| Cell::from(culprit.what.as_str())),
        ]);
    }
    table
}

/// The published and the measured figures in one table.
fn beside(latencies: &Latencies, findings: &mut Findings) {
    let mut table =
        Table::of(&["machine"], &["samples", "of a million 13 us and more", "worst us", "median us"]);
    let published = super::EXPERIMENT.published();
    let figure = |quantity: &str, variant: &str| {
        published.figure(quantity, variant).map_or(Cell::Missing, |figure| Cell::Real(figure.value, 2))
    };
    for (variant, _) in super::LONG_RUNS {
        let of = [super::LATE, super::WORST].map(|quantity| figure(quantity, variant));
        table.row([Cell::from("x4200, published"), Cell::from(variant)].into_iter().chain(of));
    }
    let Some(row) = latencies.row(LATENCY_STAGES) else { return };
    let late = real(latencies.above(Nanos(super::LATE_NS - 1))) * 1e6 / real(row.samples.max(1));
    findings.point(super::LATE, HERE, late);
    findings.point(super::WORST, HERE, real(row.max.0) / 1e3);
    let us = |time: Nanos| Cell::Real(real(time.0) / 1e3, 2);
    let median = row.quantiles[0].map_or(Cell::Missing, us);
    table.row([Cell::from(HERE), Cell::Count(row.samples), Cell::Real(late, 2), us(row.max), median]);
    findings.tables.push(("the whole, from the timer to user mode".into(), table));
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::LatencySample;

    #[test]
    fn the_published_lines_stand_beside_ours() {
        let mut latencies = Latencies::default();
        for us in [5, 6, 7, 20] {
            let user = Nanos(1_000_000 + us * 1_000);
            latencies.record(&LatencySample { due: Nanos(1_000_000), user, ..LatencySample::default() });
        }
        let mut findings = Findings::new("e6", super::super::EXPERIMENT.published(), false);
        beside(&latencies, &mut findings);
        let text = findings.tables[0].1.text();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["x4200,", "published", "320", "million", "0.94", "30.00", "-"]);
        assert_eq!(lines[2], ["x4200,", "published", "517", "million", "1.01", "32.00", "-"]);
        assert_eq!(lines[3][..4], ["this", "machine", "4", "250000.00"], "{text}");
    }
}
