//! Measuring: from the probe's beginning to its end, and everything put back.

use super::options::Options;
use super::{files, place, show};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Failure};
use millpond_machine::facets::{LatencyProbe, LatencyWatch, ProbePlan};
use millpond_machine::{Absent, Machine, Refusal};
use millpond_model::{CpuId, Nanos, PsetId, Sharer};
use millpond_observe::latency::{Saved, Worst};
use millpond_session::{messages_are_seen, stop_on_signal};
use std::sync::atomic::{AtomicBool, Ordering};

/// After so many samples files are rewritten.
const REWRITTEN: u64 = 500_000;
/// How often it is told how far it is.
const TOLD: Nanos = Nanos::from_secs(1);

/// What is known of one run beside its samples.
pub(super) struct Run {
    /// Where it measured.
    pub cpu: CpuId,
    /// In which set.
    pub set: PsetId,
    /// Whether others were left there.
    pub keep_others: bool,
    /// What else ran there.
    pub sharers: Vec<Sharer>,
    /// What ended it before its time.
    pub failed: Option<Complaint>,
}

fn refused(refusal: &Refusal) -> Complaint {
    Complaint::refused("measure latency", |_| None, refusal)
}

/// Measures, and adds what was measured to `saved`.
pub(super) fn measure(
    machine: &dyn Machine,
    probe: &dyn LatencyProbe,
    cpu: CpuId,
    options: &Options,
    saved: &mut Saved,
    ctx: &mut Ctx<'_>,
) -> Result<Run, Failure> {
    let stop = stop_on_signal();
    let mut watch = begin(probe, cpu, options, ctx)?;
    let place = place::take(machine, probe, (cpu, options.keep_others), watch.pid(), ctx)?;
    let mut run =
        Run { cpu, set: place.set, keep_others: options.keep_others, sharers: Vec::new(), failed: None };
    let ended = watch.go().and_then(|()| {
        let began = machine.clock().now();
        let mut turn = Turn { machine, options, began, stop, told: began, rewritten: 0 };
        let ended = turn.until_end(watch.as_mut(), saved, ctx);
        saved.elapsed = saved.elapsed + (machine.clock().now() - began);
        saved.runs = saved.runs.saturating_add(1);
        run.sharers = watch.sharers();
        ended
    });
    run.failed = ended.err().map(|refusal| refused(&refusal));
    drop(watch);
    // What was measured is shown and kept all the same; the next command tries again to put the processor back.
    match place::leave(machine, probe, &place, ctx) {
        Err(Failure::Refused(complaint)) => run.failed = run.failed.take().or(Some(complaint)),
        other => other?,
    }
    if let Some(complaint) = run.failed.take_if(|_| saved.latencies.samples() == 0) {
        return Err(complaint.into());
    }
    Ok(run)
}

/// Makes the probe; without stages where these cannot be stamped, which is told.
fn begin<'p>(
    probe: &'p dyn LatencyProbe,
    cpu: CpuId,
    options: &Options,
    ctx: &mut Ctx<'_>,
) -> Result<Box<dyn LatencyWatch + 'p>, Failure> {
    let plan = |staged| ProbePlan { cpu, intervals: options.intervals.clone(), level: options.level, staged };
    if !options.plain {
        match probe.begin(&plan(true)) {
            Ok(watch) => return Ok(watch),
            Err(Absent { why, .. }) => ctx.warn(format_args!("only the whole is measured: {why}")),
        }
    }
    probe.begin(&plan(false)).map_err(|Absent { why, what_would_help }| {
        Complaint { what: "measure latency".into(), reason: why, hint: what_would_help }.into()
    })
}

/// One run on its way.
struct Turn<'t> {
    machine: &'t dyn Machine,
    options: &'t Options,
    began: Nanos,
    stop: &'t AtomicBool,
    told: Nanos,
    rewritten: u64,
}

impl Turn<'_> {
    fn until_end(
        &mut self,
        watch: &mut dyn LatencyWatch,
        saved: &mut Saved,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Refusal> {
        let clock = self.machine.clock();
        let end = self.options.duration.map_or(Nanos(u64::MAX), |duration| self.began + duration);
        let mut left = self.options.samples;
        let before = saved.worst.clone();
        let told = messages_are_seen() && !self.options.json;
        let mut ended = Ok(());
        while ended.is_ok() && left != Some(0) && !self.stop.load(Ordering::Relaxed) && !ctx.out.is_closed() {
            let now = clock.now();
            if now >= end {
                break;
            }
            match watch.collect(end.min(now + TOLD)) {
                Ok(measured) => {
                    let wanted = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
                    let taken = measured.samples.iter().take(wanted);
                    taken.clone().for_each(|sample| saved.latencies.record(sample));
                    left = left.map(|left| left.saturating_sub(taken.len() as u64));
                    saved.latencies.lost = saved.latencies.lost.saturating_add(measured.lost);
                    self.rewritten += measured.samples.len() as u64;
                }
                Err(refusal) => ended = Err(refusal),
            }
            self.look(watch, &before, saved, ctx, told);
        }
        self.take_worst(watch, &before, saved);
        if told {
            ctx.err.text("\r\x1b[K");
        }
        ended
    }

    fn take_worst(&self, watch: &dyn LatencyWatch, before: &[Worst], saved: &mut Saved) {
        // A sample behind the last one that counts is among the worst of the probe, and not of the run.
        let most = saved.latencies.row(millpond_model::LATENCY_STAGES).map_or(Nanos(0), |row| row.max);
        let worst =
            watch.worst().into_iter().map(|(sample, moments)| Worst::of(&sample, &moments, self.began));
        saved.worst = before.iter().cloned().chain(worst.filter(|worst| worst.total <= most)).collect();
        Worst::keep(&mut saved.worst);
    }

    /// Tells how far it is, and rewrites files when it is time.
    fn look(
        &mut self,
        watch: &dyn LatencyWatch,
        before: &[Worst],
        saved: &mut Saved,
        ctx: &mut Ctx<'_>,
        told: bool,
    ) {
        let now = self.machine.clock().now();
        if told && now - self.told >= TOLD {
            self.told = now;
            let line = show::progress(saved, now - self.began, self.options);
            ctx.err.text(&format!("\r\x1b[K{line}"));
            ctx.err.flush();
        }
        if self.rewritten >= REWRITTEN {
            self.rewritten = 0;
            self.take_worst(watch, before, saved);
            // What cannot be written now is tried again, and is a failure at the end.
            files::write(self.options, saved, ctx);
        }
    }
}
