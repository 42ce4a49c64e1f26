//! The operands `interval [count]` of repeating commands, and the times of their reports.

use crate::ctx::Ctx;
use crate::failure::Failure;
use crate::values::digits;
use millpond_cli::units;
use millpond_machine::Clock;
use millpond_model::Nanos;
use millpond_session::{Output, Stopwatch, messages_are_seen};
use std::sync::atomic::{AtomicBool, Ordering};

/// With a count of 0, some Solaris commands report until they are interrupted and others do not report at all. Here
/// all commands refuse it.
const COUNT_OF_NONE: &str = "a count is at least 1; without one reports go on until you interrupt them";

/// The shortest wait that shows progress.
const WORTH_SHOWING: Nanos = Nanos::from_secs(3);

/// The interval of progress messages.
const SHOWN_EVERY: Nanos = Nanos::from_secs(1);

/// The interval of checks for an interrupt by the user.
const LOOK: Nanos = Nanos::from_millis(100);

/// Waits until `due`, or until the user interrupts. All commands that report or measure for some time wait here. If
/// messages go to a terminal, a long wait shows the remaining time in a line, which is removed at the end.
pub fn wait_until(clock: &dyn Clock, stop: &AtomicBool, due: Nanos, ctx: &mut Ctx<'_>) {
    let begun = clock.now();
    if !ctx.shows_progress || due == Nanos(u64::MAX) || due < begun + WORTH_SHOWING {
        return clock.sleep_until(due);
    }
    let ended = |now: Nanos| now >= due || stop.load(Ordering::Relaxed);
    let mut now = begun;
    while !ended(now) {
        show_remaining(due - now, ctx);
        clock.sleep_until(due.min(now + SHOWN_EVERY));
        now = clock.now();
    }
    wait_ends(ctx);
}

/// The same until the next report. Reports without an end are meant for a reader, so on a simulated machine this also
/// waits for the same real time.
pub fn wait_for_report(
    clock: &dyn Clock,
    stop: &AtomicBool,
    due: Nanos,
    is_endless: bool,
    ctx: &mut Ctx<'_>,
) {
    let (began, watch) = (clock.now(), Stopwatch::start());
    wait_until(clock, stop, due, ctx);
    if !is_endless || !ctx.is_simulated {
        return;
    }
    let passed = clock.now() - began;
    ctx.out.flush();
    while watch.elapsed() < passed && !stop.load(Ordering::Relaxed) && !ctx.out.is_closed() {
        watch.sleep_until(passed.min(watch.elapsed() + LOOK));
    }
}

/// Waits for the time `look` on the way to `end`, for commands that poll. Shows the remaining time until
/// [`wait_ends`].
pub fn wait_toward(clock: &dyn Clock, look: Nanos, end: Nanos, ctx: &mut Ctx<'_>) {
    let now = clock.now();
    if ctx.shows_progress && end != Nanos(u64::MAX) && end > now {
        show_remaining(end - now, ctx);
    }
    clock.sleep_until(end.min(now + look));
}

/// Removes the line of progress.
pub fn wait_ends(ctx: &mut Ctx<'_>) {
    if ctx.shows_progress {
        clear_line(&mut ctx.err);
    }
}

const LINE_START: &str = "\r";
const REST_OF_LINE: &str = "\x1b[K";

/// Shows the remaining time in whole seconds, rounded up, in place of the previous line.
fn show_remaining(left: Nanos, ctx: &mut Ctx<'_>) {
    show_progress(&format!("report in {} s", left.0.div_ceil(1_000_000_000)), ctx);
}

/// Shows a line of progress in place of the previous one, until [`wait_ends`].
pub fn show_progress(text: &str, ctx: &mut Ctx<'_>) {
    show_line(&format!("{}: {text}", ctx.prog), &mut ctx.err);
}

/// Shows a line in place of the previous one, until [`clear_line`].
pub fn show_line(text: &str, err: &mut Output<'_>) {
    err.control(LINE_START);
    err.text(text);
    err.control(REST_OF_LINE);
    err.flush();
}

/// Removes such a line.
pub fn clear_line(err: &mut Output<'_>) {
    err.control(LINE_START);
    err.control(REST_OF_LINE);
    err.flush();
}

/// Shows the progress of work of known length, if it takes more than a second.
pub struct Meter<'o> {
    err: Output<'o>,
    prog: String,
    /// The effect of Ctrl-C, as text.
    keeps: &'static str,
    begun: Stopwatch,
    shown: Nanos,
}

impl<'o> Meter<'o> {
    /// A meter for a command of this name. `None` if messages do not go to a terminal.
    pub fn begin(prog: &str, err: Output<'o>, keeps: &'static str) -> Option<Meter<'o>> {
        let (begun, shown) = (Stopwatch::start(), Nanos(0));
        messages_are_seen().then(|| Meter { err, prog: prog.to_owned(), keeps, begun, shown })
    }

    /// Reports the completed part, from 0 to 1.
    pub fn at(&mut self, part: f64) {
        let elapsed = self.begun.elapsed();
        if elapsed - self.shown < SHOWN_EVERY {
            return;
        }
        self.shown = elapsed;
        let text = part_done(part, elapsed);
        show_line(&format!("{}: {text}; {}", self.prog, self.keeps), &mut self.err);
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        if self.shown > Nanos(0) {
            clear_line(&mut self.err);
        }
    }
}

/// The progress and the estimated remaining time at the same speed: `42 %, 12 s left`.
pub fn part_done(part: f64, elapsed: Nanos) -> String {
    let part = part.clamp(0.0, 1.0);
    let percent = (part * 100.0).floor();
    match part > 0.0 {
        true => format!("{percent} %, {:.0} s left", (elapsed.as_secs_f64() * (1.0 - part) / part).ceil()),
        false => format!("{percent} %"),
    }
}

/// Interval and count of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repetition {
    /// Time between reports.
    pub interval: Nanos,
    /// The number of reports, at least 1. `None` for no end.
    pub count: Option<u64>,
}

impl Repetition {
    /// Parses the operands. `None` if there are none.
    ///
    /// # Errors
    /// [`Failure::Usage`] for too many operands, [`Failure::Operand`] for an invalid one.
    pub fn parse(words: &[String]) -> Result<Option<Repetition>, Failure> {
        match words {
            [] => Ok(None),
            [interval] => Ok(Some(Repetition { interval: seconds(interval)?, count: None })),
            [interval, count] => {
                let count =
                    digits(count).ok_or_else(|| Failure::Operand(format!("`{count}` is not a count")))?;
                if count == 0 {
                    return Err(Failure::Operand(COUNT_OF_NONE.to_owned()));
                }
                Ok(Some(Repetition { interval: seconds(interval)?, count: Some(count) }))
            }
            _ => Err(Failure::Usage(match words.iter().find(|word| word.starts_with('-')) {
                Some(option) => format!("options stand before the interval: {option}"),
                None => "too many operands".to_owned(),
            })),
        }
    }
}

/// Parses seconds, possibly with a fraction, or a time with a unit: `5`, `0.25`, `500ms`.
pub fn seconds(text: &str) -> Result<Nanos, Failure> {
    units::seconds(text)
        .ok_or_else(|| Failure::Operand(format!("`{text}` is not an interval (seconds, more than 0)")))
}

/// The schedule of reports.
///
/// A run with an end keeps its cadence: each report is due one interval after the previous due time. If a report
/// takes so long that less than a quarter of the interval is left, the wait is half an interval, and the cadence
/// continues from there. A run without an end waits for a whole interval each time. So does a run that was stopped
/// for longer than an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    interval: Nanos,
    due: Nanos,
    keeps: bool,
}

impl Cadence {
    /// A schedule whose first report was at `now`.
    #[must_use]
    pub fn begin(repetition: Repetition, now: Nanos) -> Self {
        Cadence { interval: repetition.interval, due: now, keeps: repetition.count.is_some() }
    }

    /// The time of the next report, where the last one is done at `now`.
    pub fn next(&mut self, now: Nanos) -> Nanos {
        let planned = self.due + self.interval;
        if now >= planned + self.interval {
            self.keeps = false;
        }
        self.due = if !self.keeps {
            now + self.interval
        } else if (planned - now).0 < self.interval.0 / 4 {
            now + Nanos(self.interval.0 / 2)
        } else {
            planned
        };
        self.due
    }
}

/// The remaining reports.
pub struct Rounds<'a> {
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    cadence: Cadence,
    left: Option<u64>,
}

impl<'a> Rounds<'a> {
    /// As many reports as `repetition` states, the first of them due one interval from now. `stop` is set when the
    /// user interrupts.
    pub fn begin(repetition: Repetition, clock: &'a dyn Clock, stop: &'a AtomicBool) -> Rounds<'a> {
        Rounds { clock, stop, cadence: Cadence::begin(repetition, clock.now()), left: repetition.count }
    }

    /// The same if the first report was made at `at`.
    pub fn behind_first(self, at: Nanos) -> Rounds<'a> {
        let left = self.left.map(|left| left - 1);
        Rounds { cadence: Cadence { due: at, ..self.cadence }, left, ..self }
    }

    /// Waits until the next report is due. `false` if no report is left, the user interrupted, or the output was
    /// closed.
    pub fn wait(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if self.left == Some(0) || self.ends(ctx) {
            return false;
        }
        let due = self.cadence.next(self.clock.now());
        wait_for_report(self.clock, self.stop, due, self.left.is_none(), ctx);
        self.left = self.left.map(|left| left - 1);
        !self.ends(ctx)
    }

    fn ends(&self, ctx: &Ctx<'_>) -> bool {
        self.stop.load(Ordering::Relaxed) || ctx.out.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<Repetition>, Failure> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Repetition::parse(&words)
    }

    #[test]
    fn an_interval_may_have_a_fraction_and_a_count_not() {
        let repetition = |ms, count| Ok(Some(Repetition { interval: Nanos::from_millis(ms), count }));
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("5"), repetition(5000, None));
        assert_eq!(parse("0.25 3"), repetition(250, Some(3)));
        assert_eq!(parse("1 1"), repetition(1000, Some(1)));
        assert_eq!(parse("1 0"), Err(Failure::Operand(COUNT_OF_NONE.to_owned())));
        for bad in ["0", "-1", "1e3", "inf", "x", "1 -2", "1 2.5", "1 +2", "9999999999", "1 2 3", "."] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    /// A clock that advances to each requested time at once.
    struct Patient(std::cell::Cell<Nanos>, std::cell::Cell<u32>);

    impl Clock for Patient {
        fn now(&self) -> Nanos {
            self.0.get()
        }
        fn wall(&self) -> millpond_model::WallTime {
            millpond_model::WallTime(0)
        }
        fn booted(&self) -> millpond_model::WallTime {
            millpond_model::WallTime(0)
        }
        fn sleep_until(&self, deadline: Nanos) {
            self.0.set(deadline);
            self.1.set(self.1.get() + 1);
        }
    }

    /// The output on the way to `due`, and the number of waits.
    fn waited(shows: bool, stop: bool, due: Nanos) -> (String, u32, Nanos) {
        let (mut err, clock) = (Vec::new(), Patient(Nanos::from_secs(100).into(), 0.into()));
        let mut ctx =
            Ctx::new(millpond_session::Output::to(std::io::sink()), millpond_session::Output::to(&mut err));
        (ctx.shows_progress, ctx.prog) = (shows, "poolstat".into());
        wait_until(&clock, &AtomicBool::new(stop), due, &mut ctx);
        drop(ctx);
        (String::from_utf8(err).unwrap(), clock.1.get(), clock.0.get())
    }

    #[test]
    fn a_long_wait_says_for_how_much_longer_where_it_is_seen() {
        let due = Nanos::from_millis(103_500);
        let lines: String = [4, 3, 2, 1].map(|s| format!("\rpoolstat: report in {s} s\x1b[K")).concat();
        assert_eq!(waited(true, false, due), (lines + "\r\x1b[K", 4, due));
        assert_eq!(waited(false, false, due), (String::new(), 1, due));
        let soon = Nanos::from_secs(102);
        assert_eq!(waited(true, false, soon), (String::new(), 1, soon));
        assert_eq!(waited(true, true, due), ("\r\x1b[K".into(), 0, Nanos::from_secs(100)));
    }

    #[test]
    fn a_part_that_is_done_tells_how_long_the_rest_takes() {
        let after = |part| part_done(part, Nanos::from_secs(10));
        assert_eq!(
            [0.0, 0.25, 0.999, 1.0, 7.0].map(after),
            ["0 %", "25 %, 30 s left", "99 %, 1 s left", "100 %, 0 s left", "100 %, 0 s left"]
        );
    }

    fn cadence(count: Option<u64>) -> Cadence {
        Cadence::begin(Repetition { interval: Nanos(1000), count }, Nanos(0))
    }

    #[test]
    fn a_run_with_an_end_keeps_its_cadence() {
        let mut cadence = cadence(Some(9));
        assert_eq!(cadence.next(Nanos(100)), Nanos(1000));
        assert_eq!(cadence.next(Nanos(1700)), Nanos(2000));
        // A late report: less than a quarter of the interval is left.
        assert_eq!(cadence.next(Nanos(2800)), Nanos(3300));
        assert_eq!(cadence.next(Nanos(3310)), Nanos(4300));
    }

    #[test]
    fn a_run_without_an_end_starts_anew_each_time() {
        let mut cadence = cadence(None);
        assert_eq!(cadence.next(Nanos(100)), Nanos(1100));
        assert_eq!(cadence.next(Nanos(1150)), Nanos(2150));
    }

    #[test]
    fn a_run_that_was_stopped_starts_anew_from_then_on() {
        let mut cadence = cadence(Some(9));
        assert_eq!(cadence.next(Nanos(5000)), Nanos(6000));
        assert_eq!(cadence.next(Nanos(6100)), Nanos(7100));
    }

    #[test]
    fn fuzz_intervals() {
        let seeds = ["5", "0.25 3", "1 0", "1e3", "inf", "1000000000 18446744073709551615"];
        millpond_fuzz::check_text("cmd-intervals", &seeds, |text| {
            if let Ok(Some(repetition)) = parse(text) {
                assert!(repetition.interval > Nanos(0));
                let mut cadence = Cadence::begin(repetition, Nanos(0));
                assert!(cadence.next(Nanos(7)) > Nanos(7));
            }
        });
    }

    proptest! {
        #[test]
        fn the_next_report_is_ahead_by_a_quarter_at_least_and_five_quarters_at_most(
            counted in any::<bool>(), steps in proptest::collection::vec(0u64..3000, 1..20)
        ) {
            let mut cadence = cadence(counted.then_some(9));
            let mut now = Nanos(0);
            for late in steps {
                let due = cadence.next(now);
                prop_assert!(due.0 >= now.0 + 250 && due.0 <= now.0 + 1250);
                now = due + Nanos(late);
            }
        }

        #[test]
        fn any_words_are_survived(words in proptest::collection::vec(".{0,8}", 0..4)) {
            let _ = Repetition::parse(&words);
        }
    }
}
