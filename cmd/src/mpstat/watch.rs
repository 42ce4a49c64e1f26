//! The loop: sample, compare, report, wait.

use super::options::Options;
use super::report::Reports;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, read, unless_absent};
use crate::interval::Rounds;
use millpond_machine::facets::{CounterWatch, WatchOptions};
use millpond_machine::{Clock, Counters};
use millpond_model::Sample;
use millpond_observe::{Change, Rates, changes};
use std::sync::atomic::AtomicBool;

/// What the loop works with.
pub struct Watcher<'a> {
    /// The counters of the machine.
    pub counters: &'a dyn Counters,
    /// Tells which scheduler is loaded in place of the kernel's own.
    pub scheduler: &'a dyn Fn() -> Option<String>,
    /// Its time.
    pub clock: &'a dyn Clock,
    /// Set when the user wants an end.
    pub stop: &'a AtomicBool,
    /// What was asked for.
    pub options: &'a Options,
    /// Draws.
    pub reports: Reports<'a>,
}

impl Watcher<'_> {
    /// Reports as often as was asked for.
    ///
    /// # Errors
    /// [`Failure`] when the machine cannot be read or watched. What was reported before stays.
    pub fn run(mut self, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
        let repetition = self.options.repetition.filter(|r| r.count != Some(1));
        // Counting begins before the first report, which takes its time.
        let watching = repetition.map(|repetition| {
            let options = WatchOptions { touch_fenced: self.options.touch_fenced, times_only: false };
            (repetition, self.counters.watch(options))
        });
        let began = self.clock.now();
        let boot = Rates::since_boot(read("counters", self.counters.since_boot())?);
        self.show(&boot, &[], ctx);
        match watching {
            None => self.explain(&boot.missing, ctx),
            Some((repetition, watch)) => {
                let mut watch = unless_absent("watch CPUs", watch)?;
                let rounds = Rounds::begin(repetition, self.clock, self.stop).behind_first(began);
                self.repeat(watch.as_mut(), rounds, ctx)?;
            }
        }
        Ok(Exit::DONE)
    }

    fn repeat(
        &mut self,
        watch: &mut dyn CounterWatch,
        mut rounds: Rounds<'_>,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), Failure> {
        let mut before = read("counters", watch.sample())?;
        let mut told = before.missing.clone();
        told.extend(watch.explain());
        self.explain(&told, ctx);
        while rounds.wait(ctx) {
            let after = read("counters", watch.sample())?;
            self.compare(&before, &after, ctx)?;
            before = after;
        }
        let last: Vec<String> = watch.explain().into_iter().filter(|line| !told.contains(line)).collect();
        self.explain(&last, ctx);
        Ok(())
    }

    fn compare(&mut self, before: &Sample, after: &Sample, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        let changes = changes(before, after, self.options.scope());
        let frame = if changes.is_empty() {
            Rates::between(before, after)
        } else {
            Rates::since_boot(read("counters", self.counters.since_boot())?)
        };
        self.show(&frame, &changes, ctx);
        Ok(())
    }

    fn show(&mut self, frame: &Rates, changes: &[Change], ctx: &mut Ctx<'_>) {
        if self.options.json {
            self.reports.scheduler = (self.scheduler)();
        }
        let text = self.reports.draw(frame, changes);
        ctx.out.text(&text);
        ctx.out.flush();
    }

    fn explain(&self, lines: &[String], ctx: &mut Ctx<'_>) {
        if self.options.verbose {
            for line in lines {
                ctx.err.line(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::options;
    use super::*;
    use jiff::tz::TimeZone;
    use millpond_machine::{Absent, Refusal};
    use millpond_model::{COLUMNS, CpuId, CpuSample, Nanos, PsetId, Ticks, WallTime};
    use millpond_session::Output;
    use std::cell::Cell;

    /// A machine of two processors on which each second brings 100 events of every kind per processor, and
    /// whose processor 1 leaves when it is told to.
    struct Metronome {
        now: Cell<Nanos>,
        leaves_at: Nanos,
        watchable: bool,
    }

    impl Metronome {
        fn sample(&self, counted: bool) -> Sample {
            let now = self.now.get();
            let cpus = if now >= self.leaves_at { 1 } else { 2 };
            let cpus = (0..cpus).map(|cpu| CpuSample {
                cpu: CpuId(cpu),
                set: PsetId::DEFAULT,
                events: [counted.then_some(now.0 / 10_000_000); COLUMNS.len()],
                ticks: Ticks { idle: now, ..Ticks::default() },
            });
            Sample {
                at: now,
                wall: WallTime(0),
                cpus: cpus.collect(),
                sets: vec![],
                missing: vec!["why".into()],
            }
        }
    }

    impl Clock for Metronome {
        fn now(&self) -> Nanos {
            self.now.get()
        }
        fn wall(&self) -> WallTime {
            WallTime(0)
        }
        fn booted(&self) -> WallTime {
            WallTime(0)
        }
        fn sleep_until(&self, deadline: Nanos) {
            self.now.set(self.now.get().max(deadline));
        }
    }

    impl Counters for Metronome {
        fn since_boot(&self) -> Result<Sample, Refusal> {
            Ok(self.sample(false))
        }
        fn watch(&self, _: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent> {
            if self.watchable { Ok(Box::new(Watch(self))) } else { Err(Absent::because("it is on paper")) }
        }
    }

    struct Watch<'m>(&'m Metronome);

    impl CounterWatch for Watch<'_> {
        fn sample(&mut self) -> Result<Sample, Refusal> {
            Ok(self.0.sample(true))
        }
        fn explain(&self) -> Vec<String> {
            vec!["origin".into(), format!("cost at {}", self.0.now.get())]
        }
    }

    fn run(text: &str, machine: &Metronome) -> (Result<Exit, Failure>, String, String) {
        let options = options(text).unwrap();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let zone = TimeZone::UTC;
        let result = {
            let mut ctx = Ctx::new(Output::to(&mut out), Output::to(&mut err));
            let stop = AtomicBool::new(false);
            let reports = Reports::new(&options, &zone);
            let watcher = Watcher {
                scheduler: &|| None,
                counters: machine,
                clock: machine,
                stop: &stop,
                options: &options,
                reports,
            };
            watcher.run(&mut ctx)
        };
        (result, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    fn machine() -> Metronome {
        Metronome { now: Cell::new(Nanos::from_secs(100)), leaves_at: Nanos(u64::MAX), watchable: true }
    }

    const HEAD: &str = "CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n";

    fn rows(figure: &str, cpus: u32) -> String {
        let cells: String = [4, 3, 4, 5, 4, 4, 4, 4, 4, 4, 5].map(|w| format!(" {figure:>w$}")).concat();
        let head = if cpus > 1 { HEAD } else { "" };
        (0..cpus).fold(head.to_owned(), |text, cpu| text + &format!("{cpu:3}{cells}    0   0   0 100\n"))
    }

    #[test]
    fn the_first_report_is_since_boot_and_the_others_about_intervals() {
        let machine = machine();
        let (result, out, err) = run("0.5 3", &machine);
        assert_eq!(result, Ok(Exit::DONE));
        assert_eq!(out, rows("-", 2) + &rows("100", 2) + &rows("100", 2));
        assert_eq!(err, "");
        assert_eq!(machine.now.get(), Nanos::from_secs(101));
    }

    #[test]
    fn one_report_needs_no_watch() {
        let machine = Metronome { watchable: false, ..machine() };
        assert_eq!(run("", &machine).1, rows("-", 2));
        assert_eq!(run("5 1", &machine).0, Ok(Exit::DONE));
        let (result, out, err) = run("-v", &machine);
        assert_eq!((result, out, err.as_str()), (Ok(Exit::DONE), rows("-", 2), "why\n"));
    }

    #[test]
    fn an_interval_where_nothing_goes_on_is_refused_after_the_report_since_boot() {
        let (result, out, _) = run("5 2", &Metronome { watchable: false, ..machine() });
        assert_eq!(out, rows("-", 2));
        let Err(Failure::Refused(complaint)) = result else { panic!("{result:?}") };
        assert_eq!(complaint.to_string(), "cannot watch CPUs: it is on paper");
    }

    #[test]
    fn a_change_is_told_and_followed_by_figures_since_boot() {
        let machine = Metronome { leaves_at: Nanos::from_secs(102), ..machine() };
        let (_, out, _) = run("1 4", &machine);
        let expected =
            rows("-", 2) + &rows("100", 2) + "<<processors removed: 1>>\n" + &rows("-", 1) + &rows("100", 1);
        assert_eq!(out, expected);
    }

    #[test]
    fn explanations_come_once_and_the_cost_at_the_end_again() {
        let (_, _, err) = run("-v 1 2", &machine());
        assert_eq!(err, "why\norigin\ncost at 100.000 s\ncost at 101.000 s\n");
    }

    #[test]
    fn somebody_who_is_asked_to_stop_stops() {
        let options = options("1").unwrap();
        let machine = machine();
        let zone = TimeZone::UTC;
        let mut out = Vec::new();
        {
            let mut ctx = Ctx::new(Output::to(&mut out), Output::to(std::io::sink()));
            let stop = AtomicBool::new(true);
            let reports = Reports::new(&options, &zone);
            let watcher = Watcher {
                scheduler: &|| None,
                counters: &machine,
                clock: &machine,
                stop: &stop,
                options: &options,
                reports,
            };
            assert_eq!(watcher.run(&mut ctx), Ok(Exit::DONE));
        }
        assert_eq!(String::from_utf8(out).unwrap(), rows("-", 2));
    }
}
