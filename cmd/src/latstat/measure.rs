//! The measurement: starts the probe, stops it, and restores all settings.

use super::compare::{self, Peer, Turns};
use super::loads::{Got, Loads};
use super::options::Options;
use super::{files, place, show};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Failure, unless_absent};
use millpond_machine::facets::{LatencyProbe, LatencyWatch, ProbePlan, Stamps};
use millpond_machine::{Absent, Machine, Refusal};
use millpond_model::{CpuId, Nanos, PsetId, Sharer};
use millpond_observe::latency::{Latencies, Saved, Worst};
use millpond_session::{messages_are_seen, stop_on_signal};
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of samples after which files are rewritten.
const REWRITTEN: u64 = 500_000;
/// Counts the samples of a run, to decide when files are rewritten.
struct Rewrites {
    /// The number of samples between two rewrites.
    every: u64,
    since: u64,
}

impl Rewrites {
    /// Counts more samples. Returns whether a rewrite is due.
    fn are_due(&mut self, samples: u64) -> bool {
        self.since = self.since.saturating_add(samples);
        let due = self.since >= self.every;
        if due {
            self.since = 0;
        }
        due
    }
}

/// Moves the cursor to the first column and clears the line.
const CLEARED: &str = "\r\x1b[K";

/// The interval of progress messages.
const TOLD: Nanos = Nanos::from_secs(1);

/// The data of one run, except for its samples.
pub(super) struct Run {
    /// The measured CPU.
    pub cpu: CpuId,
    /// The set of that CPU.
    pub set: PsetId,
    /// Whether other threads were left on the CPU.
    pub keep_others: bool,
    /// The scheduler that replaced the kernel's own.
    pub scheduler: Option<String>,
    /// The interval of timerlat, if it measured.
    pub timerlat: Option<Nanos>,
    /// Other threads that ran on the CPU.
    pub sharers: Vec<Sharer>,
    /// The measurement of the other program in its turns, if there were any.
    pub peer: Option<Peer>,
    /// The measurement of latstat in this run alone, in the resolution of the other program.
    pub own: Latencies,
    /// The loads on the other CPUs.
    pub loads: Vec<Got>,
    /// The reason why the run ended early.
    pub failed: Option<Complaint>,
}

fn refused(refusal: &Refusal) -> Complaint {
    Complaint::refused("measure latency", |_| None, refusal)
}

/// Measures, and adds the samples to `saved`.
pub(super) fn measure(
    machine: &dyn Machine,
    probe: &dyn LatencyProbe,
    cpu: CpuId,
    options: &Options,
    saved: &mut Saved,
    ctx: &mut Ctx<'_>,
) -> Result<Run, Failure> {
    let stop = stop_on_signal();
    if options.compare {
        compare::must_be_there()?;
    }
    let (watch, stamps) = begin(probe, cpu, options, options.stamps, ctx)?;
    let place = place::take(machine, probe, (cpu, options), watch.pid(), ctx)?;
    let mut run = Run {
        cpu,
        set: place.set,
        keep_others: options.keep_others,
        scheduler: machine.dispatcher().ok().and_then(|dispatcher| dispatcher.loaded_scheduler()),
        timerlat: options.timerlat(),
        sharers: Vec::new(),
        peer: options.compare.then(Peer::default),
        own: Latencies::default(),
        loads: Vec::new(),
        failed: None,
    };
    let turns = Turns::of(options);
    let rewrites = Rewrites { every: REWRITTEN, since: 0 };
    let mut bench =
        Bench { machine, probe, options, turns, stamps, began: machine.clock().now(), stop, rewrites };
    let ended = bench.loaded(watch, &mut Sink { run: &mut run, saved, ctx });
    // The samples are shown and saved even if this fails. The next command tries again to restore the CPU.
    let left = place::leave(machine, probe, &place, ctx);
    for result in [ended, left] {
        match result {
            Err(Failure::Refused(complaint)) => run.failed = run.failed.take().or(Some(complaint)),
            other => other?,
        }
    }
    if let Some(complaint) = run.failed.take_if(|_| saved.latencies.samples() == 0) {
        return Err(complaint.into());
    }
    Ok(run)
}

/// Starts the probe, and returns the source of its stages. If BPF programs cannot stamp the stages, this is reported
/// and only the total is measured. timerlat has no such fallback.
fn begin<'p>(
    probe: &'p dyn LatencyProbe,
    cpu: CpuId,
    options: &Options,
    stamps: Stamps,
    ctx: &mut Ctx<'_>,
) -> Result<(Box<dyn LatencyWatch + 'p>, Stamps), Failure> {
    let plan = |stamps| ProbePlan { cpu, intervals: options.intervals.clone(), level: options.level, stamps };
    let mut stamps = stamps;
    if stamps == Stamps::Programs {
        match probe.begin(&plan(stamps)) {
            Ok(watch) => return Ok((watch, stamps)),
            Err(Absent { why, .. }) => ctx.warn(format_args!("only the whole is measured: {why}")),
        }
        stamps = Stamps::None;
    }
    let what = if stamps == Stamps::Timerlat { "measure latency by timerlat" } else { "measure latency" };
    Ok((unless_absent(what, probe.begin(&plan(stamps)))?, stamps))
}

/// The destinations of the measurement.
struct Sink<'s, 'c> {
    /// The data of this run.
    run: &'s mut Run,
    /// The samples of this run and of earlier ones.
    saved: &'s mut Saved,
    /// The output streams.
    ctx: &'s mut Ctx<'c>,
}

/// All turns of one run.
struct Bench<'b> {
    machine: &'b dyn Machine,
    probe: &'b dyn LatencyProbe,
    options: &'b Options,
    turns: Turns,
    /// The source of the stages.
    stamps: Stamps,
    began: Nanos,
    stop: &'static AtomicBool,
    rewrites: Rewrites,
}

impl<'b> Bench<'b> {
    /// Runs all turns, with the loads on the other CPUs.
    fn loaded(&mut self, first: Box<dyn LatencyWatch + 'b>, to: &mut Sink<'_, '_>) -> Result<(), Failure> {
        let mut loads = Loads::begin(self.machine, &self.options.loads, to.run.cpu)?;
        self.began = self.machine.clock().now();
        loads.mark(self.began);
        let before = to.saved.latencies.samples();
        let ended = self.all(first, to);
        let more = u64::from(to.saved.latencies.samples() > before);
        to.saved.runs = to.saved.runs.saturating_add(more);
        (to.run.loads, to.run.failed) = loads.end(self.machine);
        ended
    }

    fn all(&mut self, first: Box<dyn LatencyWatch + 'b>, to: &mut Sink<'_, '_>) -> Result<(), Failure> {
        let mut next = Some(first);
        let mut done = 0;
        loop {
            let watch = match next.take() {
                Some(watch) => watch,
                None => self.again(to.run, to.ctx)?,
            };
            self.ours(watch, to)?;
            let stopped = || self.stop.load(Ordering::Relaxed);
            let place = (to.run.cpu, to.run.set);
            if let Some(peer) = to.run.peer.as_mut().filter(|_| !stopped()) {
                peer.turn(self.machine, place, self.options, self.turns.length, self.stop)?;
            }
            done += 1;
            if self.turns.each == Some(done) || stopped() || to.ctx.out.is_closed() {
                return Ok(());
            }
        }
    }

    /// Starts another probe in the same place.
    fn again(&mut self, run: &Run, ctx: &mut Ctx<'_>) -> Result<Box<dyn LatencyWatch + 'b>, Failure> {
        let (watch, stamps) = begin(self.probe, run.cpu, self.options, self.stamps, ctx)?;
        self.stamps = stamps;
        place::bind(self.machine, watch.pid(), (run.cpu, run.set), ctx)?;
        Ok(watch)
    }

    /// Runs one turn of latstat.
    fn ours(&mut self, mut watch: Box<dyn LatencyWatch + 'b>, to: &mut Sink<'_, '_>) -> Result<(), Failure> {
        watch.go().map_err(|refusal| refused(&refusal))?;
        let began = self.machine.clock().now();
        let Bench { machine, options, stop, .. } = *self;
        let end = Nanos(began.0.saturating_add(self.turns.length.0));
        let rewrites = &mut self.rewrites;
        let mut turn = Turn { machine, options, run_began: self.began, end, stop, told: began, rewrites };
        let ended = turn.until_end(watch.as_mut(), to);
        to.saved.elapsed = to.saved.elapsed + (machine.clock().now() - began);
        add_sharers(&mut to.run.sharers, watch.sharers());
        ended.map_err(|refusal| refused(&refusal).into())
    }
}

/// Merges threads that ran in several turns, longest first.
fn add_sharers(all: &mut Vec<Sharer>, more: Vec<Sharer>) {
    for sharer in more {
        match all.iter_mut().find(|known| known.what == sharer.what) {
            Some(known) => {
                known.times = known.times.saturating_add(sharer.times);
                known.ran = known.ran + sharer.ran;
            }
            None => all.push(sharer),
        }
    }
    all.sort_by(|a, b| b.ran.cmp(&a.ran).then_with(|| a.what.cmp(&b.what)));
}

/// A turn in progress.
struct Turn<'t> {
    machine: &'t dyn Machine,
    options: &'t Options,
    run_began: Nanos,
    end: Nanos,
    stop: &'t AtomicBool,
    told: Nanos,
    rewrites: &'t mut Rewrites,
}

impl Turn<'_> {
    fn until_end(&mut self, watch: &mut dyn LatencyWatch, to: &mut Sink<'_, '_>) -> Result<(), Refusal> {
        let Sink { run, saved, ctx } = to;
        let clock = self.machine.clock();
        let end = self.end;
        let mut left = self.options.samples;
        let before = saved.worst.clone();
        let told = messages_are_seen() && !self.options.json;
        let mut ended = Ok(());
        while ended.is_ok() && left != Some(0) && !self.stop.load(Ordering::Relaxed) && !ctx.out.is_closed() {
            let now = clock.now();
            if now >= end {
                break;
            }
            let mut came = 0;
            match watch.collect(end.min(now + TOLD)) {
                Ok(measured) => {
                    let wanted = left.and_then(|left| usize::try_from(left).ok()).unwrap_or(usize::MAX);
                    let taken = measured.samples.iter().take(wanted);
                    taken.clone().for_each(|sample| saved.latencies.record(sample));
                    if self.options.compare {
                        taken.clone().for_each(|sample| run.own.record(&compare::as_counted(sample)));
                    }
                    left = left.map(|left| left.saturating_sub(taken.len() as u64));
                    saved.latencies.lost = saved.latencies.lost.saturating_add(measured.lost);
                    came = measured.samples.len() as u64;
                }
                Err(refusal) => ended = Err(refusal),
            }
            self.look(told, saved, ctx);
            if self.rewrites.are_due(came) {
                self.take_worst(watch, &before, saved);
                // A file that cannot be written now is tried again, and fails the command only at the end.
                files::write(self.options, saved, ctx);
            }
        }
        self.take_worst(watch, &before, saved);
        if told {
            ctx.err.control(CLEARED);
        }
        ended
    }

    fn take_worst(&self, watch: &dyn LatencyWatch, before: &[Worst], saved: &mut Saved) {
        // A sample after the last one that counts can be among the worst of the probe, but is not part of the run.
        let most = saved.latencies.row(millpond_model::LATENCY_STAGES).map_or(Nanos(0), |row| row.max);
        let worst =
            watch.worst().into_iter().map(|(sample, moments)| Worst::of(&sample, &moments, self.run_began));
        saved.worst = before.iter().cloned().chain(worst.filter(|worst| worst.total <= most)).collect();
        Worst::keep(&mut saved.worst);
    }

    /// Reports the progress.
    fn look(&mut self, told: bool, saved: &Saved, ctx: &mut Ctx<'_>) {
        let now = self.machine.clock().now();
        if told && now - self.told >= TOLD {
            self.told = now;
            let line = show::progress(saved, now - self.run_began, self.options);
            ctx.err.control(CLEARED);
            ctx.err.text(&line);
            ctx.err.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_rewritten_after_each_so_many_samples() {
        let mut rewrites = Rewrites { every: 10_000, since: 0 };
        let due: Vec<bool> = (0..8).map(|_| rewrites.are_due(4_000)).collect();
        assert_eq!(due, [false, false, true, false, false, true, false, false]);
        assert_eq!((rewrites.are_due(u64::MAX), rewrites.are_due(0)), (true, false));
        assert_eq!(REWRITTEN, 500_000);
    }

    #[test]
    fn what_ran_in_several_turns_is_one() {
        let sharer = |what: &str, times, ns| Sharer { what: what.into(), times, ran: Nanos(ns) };
        let mut all = vec![sharer("a", 1, 50), sharer("b", 2, 20)];
        add_sharers(&mut all, vec![sharer("b", 3, 40), sharer("c", 1, 7)]);
        assert_eq!(all, [sharer("b", 5, 60), sharer("a", 1, 50), sharer("c", 1, 7)]);
    }
}
