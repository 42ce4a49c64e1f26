//! Parses the trace of timerlat into samples.
//!
//! ```text
//!           <idle>-0       [002] d.h1.  54.029328: #1     context    irq timer_latency       932 ns
//!   timerlat-probe-867     [002] .....  54.029339: #1     context thread timer_latency     11700 ns
//!   timerlat-probe-867     [002] .....  54.029351: #1     context user-ret timer_latency   23001 ns
//! CPU:2 [LOST 7 EVENTS]
//! ```
//!
//! All three times are relative to the due time of the timer. The number counts timers, so gaps show missing ones. Other kinds of
//! lines are ignored, because other events can be enabled in an instance.

use millpond_model::{LatencySample, Nanos};

/// The stage that a line reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Point {
    /// The timer's handler ran.
    Irq,
    /// The thread was running on its CPU.
    Thread,
    /// The thread waits for the next timer.
    User,
}

/// A line of timerlat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    /// Time of the line, with microsecond resolution.
    at: Nanos,
    /// Number of the timer.
    number: u64,
    point: Point,
    /// Time since the timer was due.
    latency: Nanos,
}

/// Parses a line; `None` for a line of another kind. Parses from the end, because the task name at the start is arbitrary.
fn line(text: &str) -> Option<Line> {
    let mut words = text.split_ascii_whitespace().rev();
    let mut next = || words.next();
    let ("ns", latency, "timer_latency") = (next()?, next()?, next()?) else { return None };
    let point = match next()? {
        "irq" => Point::Irq,
        "thread" => Point::Thread,
        "user-ret" => Point::User,
        _ => return None,
    };
    let ("context", number, at) = (next()?, next()?, next()?) else { return None };
    let (seconds, micros) = at.strip_suffix(':')?.split_once('.')?;
    let micros = (micros.len() == 6).then(|| micros.parse::<u64>().ok())??;
    let ns = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(micros * 1_000)?;
    Some(Line {
        at: Nanos(ns),
        number: number.strip_prefix('#')?.parse().ok()?,
        point,
        latency: Nanos(latency.parse().ok()?),
    })
}

/// A timer with missing lines.
#[derive(Debug, Clone, Copy)]
struct Begun {
    number: u64,
    at: Nanos,
    irq: Nanos,
    thread: Option<Nanos>,
}

/// Converts the trace to samples, piece by piece.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// An incomplete last line.
    rest: Vec<u8>,
    begun: Option<Begun>,
    /// Number of the last complete timer.
    last: Option<u64>,
    samples: Vec<LatencySample>,
    lost: u64,
}

impl Trace {
    /// Adds a piece of the trace.
    pub fn add(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let text: Vec<u8> = self.rest.drain(..whole).collect();
        String::from_utf8_lossy(&text).lines().filter_map(line).for_each(|line| self.one(line));
    }

    fn one(&mut self, Line { at, number, point, latency }: Line) {
        let begun = self.begun.take().filter(|begun| begun.number == number);
        match (point, begun) {
            (Point::Irq, _) => self.begun = Some(Begun { number, at, irq: latency, thread: None }),
            (Point::Thread, Some(begun)) => self.begun = Some(Begun { thread: Some(latency), ..begun }),
            (Point::User, Some(Begun { at, irq, thread: Some(thread), .. })) => {
                self.whole(number, at - irq, [irq, thread, latency]);
            }
            // The beginning was lost, or precedes our reading.
            _ => {}
        }
    }

    fn whole(&mut self, number: u64, due: Nanos, [irq, thread, user]: [Nanos; 3]) {
        let next = self.last.map(|last| last.saturating_add(1));
        // A restarted tracer counts from the beginning.
        self.lost = self.lost.saturating_add(next.map_or(0, |next| number.saturating_sub(next)));
        self.last = Some(number);
        self.samples.push(LatencySample {
            due,
            stamps: [due + irq, Nanos(0), due + thread],
            user: due + user,
        });
    }

    /// Number of samples.
    pub fn waiting(&self) -> usize {
        self.samples.len()
    }

    /// Takes the samples, and the number of lost ones before and between them.
    pub fn take(&mut self) -> (Vec<LatencySample>, u64) {
        (std::mem::take(&mut self.samples), std::mem::take(&mut self.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# tracer: timerlat
#
#                                _-----=> irqs-off/BH-disabled
#            TASK-PID     CPU#  |||||  TIMESTAMP  ID            CONTEXT                 LATENCY
";

    /// The lines of a timer that was due at 54 s.
    fn timer(number: u64, [irq, thread, user]: [u64; 3]) -> String {
        let line = |who: &str, micros: u64, context: &str, ns: u64| {
            format!(
                "{who} [002] d.h1.    54.{micros:06}: #{number:<6}context {context:>6} timer_latency {ns:>9} ns\n"
            )
        };
        line("          <idle>-0      ", irq / 1000, "irq", irq)
            + &line("   timerlat-probe-867    ", thread / 1000, "thread", thread)
            + &line("   a 1] #2 context: 3-867", user / 1000, "user-ret", user)
    }

    fn samples(text: &str) -> (Vec<LatencySample>, u64) {
        let mut trace = Trace::default();
        trace.add(text.as_bytes());
        trace.take()
    }

    fn stages(sample: &LatencySample) -> [Option<u64>; 4] {
        sample.stages().unwrap().map(|stage| stage.map(|ns| ns.0))
    }

    #[test]
    fn three_lines_are_a_sample_whose_stages_are_the_whole() {
        let (samples, lost) = samples(&format!("{HEAD}{}", timer(1, [9_000, 11_700, 23_001])));
        assert_eq!((samples.len(), lost), (1, 0));
        assert_eq!(stages(&samples[0]), [Some(9_000), None, Some(2_700), Some(11_301)]);
        assert_eq!((samples[0].due, samples[0].total()), (Nanos(54_000_000_000), Nanos(23_001)));
    }

    #[test]
    fn a_line_as_the_kernel_prints_it() {
        let text = "           <...>-867     [000] ....    54.029339: #1     context thread timer_latency     11700 ns";
        let expected =
            Line { at: Nanos(54_029_339_000), number: 1, point: Point::Thread, latency: Nanos(11_700) };
        assert_eq!(line(text), Some(expected));
        for other in [
            "",
            "#           TASK-PID      CPU# ||||   TIMESTAMP    ID            CONTEXT                LATENCY",
            "CPU:2 [LOST 7 EVENTS]",
            "  <...>-867 [000] .... 54.029339: #1 context softirq timer_latency 11700 ns",
            "  <...>-867 [000] .... 54.0293: #1 context thread timer_latency 11700 ns",
            "  <...>-867 [000] .... 54.029339: #x context thread timer_latency 11700 ns",
            "  <...>-867 [000] .... 54.029339: #1 context thread timer_latency -7 ns",
            "  <...>-867 [000] .... 54.029339: irq_noise: local_timer:236 start 54.029328000 duration 932 ns",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn what_comes_in_pieces_is_the_same() {
        let text = timer(1, [1_000, 2_000, 3_000]) + &timer(2, [1_500, 2_500, 3_500]);
        let mut trace = Trace::default();
        text.as_bytes().chunks(7).for_each(|piece| trace.add(piece));
        assert_eq!(trace.waiting(), 2);
        assert_eq!(trace.take(), samples(&text));
        assert_eq!(trace.waiting(), 0);
    }

    #[test]
    fn what_is_lost_is_known_by_its_number() {
        let one = |number| timer(number, [1_000, 2_000, 3_000]);
        // Of 7 only the end is there; 8 and 9 are lost; of 11 only the beginning is there.
        let seven = one(7).lines().skip(1).collect::<Vec<_>>().join("\n");
        let text = one(6) + &seven + "\nCPU:2 [LOST 7 EVENTS]\n" + &one(10) + one(11).lines().next().unwrap();
        let (whole, lost) = samples(&text);
        assert_eq!((whole.len(), lost), (2, 3));
        // The first timer that is read need not be the first of the trace, and a tracer may be restarted.
        assert_eq!(samples(&(one(900) + &one(1) + &one(2))).1, 0);
    }

    #[test]
    fn latencies_out_of_order_have_no_stages() {
        let (samples, _) = samples(&timer(1, [3_000, 2_000, 4_000]));
        assert_eq!((samples[0].stages(), samples[0].total()), (None, Nanos(4_000)));
    }

    #[test]
    fn fuzz_timerlat() {
        let text = HEAD.to_owned() + &timer(1, [932, 11_700, 23_001]) + "CPU:2 [LOST 7 EVENTS]\n";
        millpond_fuzz::check_text("linux-timerlat", &[&text, &timer(u64::MAX, [1, 2, u64::MAX])], |text| {
            let (all, _) = samples(text);
            let mut trace = Trace::default();
            text.as_bytes().chunks(3).for_each(|piece| trace.add(piece));
            assert_eq!(trace.take().0, all);
        });
    }
}
