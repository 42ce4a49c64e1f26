//! The lines of `cputrack`: counts of threads, and events in their lives.

use super::options::Options;
use super::sums::{Sum, Sums};
use crate::counting::{Sets, share_note};
use crate::failure::Exit;
use crate::json;
use millpond_formats::cpustat::{Figures, Layout, cputrack_head, cputrack_row};
use millpond_machine::facets::{Happening, LwpReading};
use millpond_model::{Lwp, LwpId, Nanos, Pid};
use millpond_observe::digits::millionths;
use millpond_observe::recording::{Clock, Count};
use millpond_session::Output;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A line: counts of a thread or a process, or an event in its life.
#[derive(Serialize, JsonSchema)]
pub struct Line<'a> {
    /// `tick`, `init_lwp`, `lwp_create`, `fini_lwp`, `lwp_exit`, `fork`, `exec` or `exit`.
    event: &'a str,
    /// Seconds since the start.
    #[serde(serialize_with = "millionths")]
    time_s: f64,
    pid: Pid,
    lwp: LwpId,
    /// Null if nothing was counted.
    counts: Option<Vec<Count<'a>>>,
    /// The event set as typed; in lines with counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<&'a str>,
    /// The part of the thread's time in which its counters were active, 0 to 1; in lines with counts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "millionths")]
    share: Option<f64>,
    /// CPU time (`-t`).
    #[serde(skip_serializing_if = "Option::is_none")]
    tick: Option<Clock<'a>>,
    /// The new process, after a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    child: Option<Pid>,
    /// The program, after an exec; null if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Option<String>>,
}

impl<'a> Line<'a> {
    /// A line without counts.
    fn of(lwp: Lwp, event: &'a str, time_s: f64) -> Line<'a> {
        let Lwp { pid, lwp } = lwp;
        let (spec, share, tick, child, image) = Default::default();
        Line { event, time_s, pid, lwp, counts: None, spec, share, tick, child, image }
    }
}

/// Prints lines, and adds up counts.
pub struct Lines<'a, 'o> {
    options: &'a Options,
    sets: Sets,
    layout: Layout,
    out: &'a mut Output<'o>,
    err: &'a mut Output<'o>,
    prog: &'a str,
    began: Nanos,
    sums: Sums,
    /// The first thread of each process. Lines about the whole process have its number.
    first: BTreeMap<Pid, LwpId>,
    exit: Exit,
}

impl<'a, 'o> Lines<'a, 'o> {
    /// Lines without any output yet.
    pub fn new(
        options: &'a Options,
        sets: Sets,
        layout: Layout,
        out: &'a mut Output<'o>,
        err: &'a mut Output<'o>,
        prog: &'a str,
        began: Nanos,
    ) -> Self {
        let sums = Sums::of(sets.len());
        let first = BTreeMap::new();
        Lines { options, sets, layout, out, err, prog, began, sums, first, exit: Exit::DONE }
    }

    /// The number of alternating sets.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// Whether the reader has closed the output.
    pub fn is_closed(&self) -> bool {
        self.out.is_closed()
    }

    /// Switches to another set.
    pub fn turn(&mut self, set: usize) {
        self.sums.turn(set);
    }

    /// Prints the head.
    pub fn head(&mut self) {
        if self.options.head && !self.options.json {
            self.out.line(cputrack_head(&self.layout));
            self.out.flush();
        }
    }

    /// Prints the counts of each thread since the last call.
    pub fn tick(&mut self, now: Nanos, readings: &[LwpReading]) {
        let set = self.sums.set();
        for reading in readings {
            let sum = self.sums.advance(reading);
            self.line(now, reading.lwp, "tick", set, &sum);
        }
        self.out.flush();
    }

    /// Handles an event of a process or thread.
    pub fn happened(&mut self, now: Nanos, happening: Happening) {
        match happening {
            Happening::Began { lwp, created } => {
                self.first.entry(lwp.pid).or_insert(lwp.lwp);
                self.sums.begin(lwp);
                if self.options.verbose {
                    self.zero(now, lwp, "init_lwp");
                }
                if created {
                    self.zero(now, lwp, "lwp_create");
                }
            }
            Happening::NotCounted { lwp, why } => {
                self.exit = Exit::REFUSED;
                let Lwp { pid, lwp } = lwp;
                self.warn(&format!("{:6}: init_lwp: can't bind perf counters to lwp{lwp} - {why}", pid.0));
            }
            Happening::Ended(reading) => {
                self.sums.advance(&reading);
                let lwp = reading.lwp;
                let sums = self.sums.end(lwp);
                if self.options.verbose {
                    self.lines(now, lwp, "fini_lwp", &sums);
                }
                // The end of the last thread is that of the process.
                if self.sums.has_threads(lwp.pid) {
                    self.lines(now, lwp, "lwp_exit", &sums);
                }
            }
            Happening::Forked { lwp, child } => {
                if self.options.follow.forks {
                    let line = Line { child: Some(child), ..Line::of(lwp, "fork", self.since(now)) };
                    self.blank(child.to_string(), &line);
                }
            }
            Happening::Became { lwp, before, image, followed } => {
                for reading in &before {
                    self.sums.advance(reading);
                }
                let sums = self.sums.end_process(lwp.pid);
                self.lines(now, lwp, "exec", &sums);
                if followed {
                    let name = image.as_deref().unwrap_or("(unknown)");
                    let note = format!("'{name}'");
                    let line = Line { image: Some(image), ..Line::of(lwp, "exec", self.since(now)) };
                    self.blank(note, &line);
                }
            }
            Happening::Exited { pid } => {
                let sums = self.sums.end_process(pid);
                let lwp = Lwp { pid, lwp: self.first.get(&pid).copied().unwrap_or(LwpId(1)) };
                self.lines(now, lwp, "exit", &sums);
            }
            Happening::Due | Happening::Over => {}
        }
        self.out.flush();
    }

    /// The exit status.
    pub fn end(self) -> Exit {
        self.out.flush();
        self.exit
    }

    fn warn(&mut self, text: &str) {
        self.out.flush();
        self.err.line(format_args!("{}: {}", self.prog, millpond_model::printable(text)));
    }

    /// A line of a thread without any counts yet.
    fn zero(&mut self, now: Nanos, lwp: Lwp, event: &str) {
        let set = self.sums.set();
        let counters = self.sets.0.get(set).map_or(0, |spec| spec.counters.len());
        let sum = Sum { tick: 0, counts: Some(vec![0; counters]), share: Some(1.0) };
        self.line(now, lwp, event, set, &sum);
    }

    /// A line for each set that has counted.
    fn lines(&mut self, now: Nanos, lwp: Lwp, event: &str, sums: &[Sum]) {
        let turns = |(_, sum): &(usize, &Sum)| sums.len() == 1 || sum.share.is_some();
        for (set, sum) in sums.iter().enumerate().filter(turns) {
            self.line(now, lwp, event, set, sum);
        }
    }

    fn line(&mut self, now: Nanos, lwp: Lwp, event: &str, set: usize, sum: &Sum) {
        let share = sum.share.unwrap_or(1.0);
        if sum.counts.is_none() && sum.share.is_some() {
            self.exit = Exit::REFUSED;
        }
        let time = self.since(now);
        if self.options.json {
            let line = Line {
                counts: sum.counts.as_ref().map(|counts| self.sets.counts(set, counts)),
                spec: self.sets.0.get(set).map(|spec| spec.text.as_str()),
                share: Some(share),
                tick: self.layout.tick.as_ref().map(|name| Clock { name, count: sum.tick }),
                ..Line::of(lwp, event, time)
            };
            self.out.line(json::document(&line));
            return;
        }
        let notes = self.sets.note(set).into_iter().chain(share_note(share)).collect();
        let figures = Figures { tick: Some(sum.tick), counts: sum.counts.clone(), cpi: None, notes };
        self.out.line(cputrack_row(&self.layout, time, lwp.pid.0, lwp.lwp.0, event, &figures));
    }

    /// A line without counts.
    fn blank(&mut self, note: String, line: &Line<'_>) {
        if self.options.json {
            self.out.line(json::document(line));
            return;
        }
        let Line { event, time_s: time, pid, lwp, .. } = *line;
        let figures = Figures { notes: vec![note], ..Figures::default() };
        self.out.line(cputrack_row(&self.layout, time, pid.0, lwp.0, event, &figures));
    }

    fn since(&self, now: Nanos) -> f64 {
        Nanos(now.0.saturating_sub(self.began.0)).as_secs_f64()
    }
}
