//! The lines of `cpustat` and `cputrack`, and the listing of counters by `-h`.
//!
//! Every cell ends with a blank, also the last of a line. Cycles per instruction, and the notes after a `#` about scaled counts,
//! are extensions of Millpond.

use std::fmt::Write as _;

/// The columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// The name of the cycle register, if requested.
    pub tick: Option<String>,
    /// The numbers of the counters.
    pub pics: Vec<u32>,
    /// Whether cycles per instruction follow.
    pub cpi: bool,
    /// For `cputrack`: whether the process precedes the thread.
    pub pid: bool,
}

/// The values of a line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// The cycle register.
    pub tick: Option<u64>,
    /// A value for each counter; `None` leaves the cells blank.
    pub counts: Option<Vec<u64>>,
    /// Cycles per instruction, if the layout has them and there were instructions.
    pub cpi: Option<f64>,
    /// Notes at the end, each after a `#`.
    pub notes: Vec<String>,
}

/// The heading of `cpustat`, without newline.
#[must_use]
pub fn cpustat_head(layout: &Layout) -> String {
    let mut line = format!("{:>7} {:>3} {:>5} ", "time", "cpu", "event");
    push_heads(&mut line, layout);
    line
}

/// A line of `cpustat`, without newline. In a line of totals, `cpu` is the number of CPUs.
#[must_use]
pub fn cpustat_row(layout: &Layout, time_s: f64, cpu: u32, event: &str, figures: &Figures) -> String {
    let mut line = format!("{time_s:7.3} {cpu:3} {event:>5} ");
    push_figures(&mut line, layout, figures);
    line
}

/// The heading of `cputrack`, without newline.
#[must_use]
pub fn cputrack_head(layout: &Layout) -> String {
    let mut line = format!("{:>7} ", "time");
    if layout.pid {
        let _ = write!(line, "{:>6} ", "pid");
    }
    let _ = write!(line, "{:>3} {:>10} ", "lwp", "event");
    push_heads(&mut line, layout);
    line
}

/// A line of `cputrack`, without newline.
#[must_use]
pub fn cputrack_row(
    layout: &Layout,
    time_s: f64,
    pid: u32,
    lwp: u32,
    event: &str,
    figures: &Figures,
) -> String {
    let mut line = format!("{time_s:7.3} ");
    if layout.pid {
        let _ = write!(line, "{pid:6} ");
    }
    let _ = write!(line, "{lwp:3} {event:>10} ");
    push_figures(&mut line, layout, figures);
    line
}

fn push_heads(line: &mut String, layout: &Layout) {
    if let Some(tick) = &layout.tick {
        let _ = write!(line, "{tick:>9} ");
    }
    for pic in &layout.pics {
        let _ = write!(line, "{:>8}{pic:<2}", "pic");
    }
    if layout.cpi {
        let _ = write!(line, "{:>6} ", "cpi");
    }
}

fn push_figures(line: &mut String, layout: &Layout, figures: &Figures) {
    if layout.tick.is_some() {
        push_cell(line, figures.tick.filter(|_| figures.counts.is_some()));
    }
    for at in 0..layout.pics.len() {
        push_cell(line, figures.counts.as_ref().and_then(|counts| counts.get(at)).copied());
    }
    if layout.cpi {
        let _ = match (figures.cpi, &figures.counts) {
            (Some(cpi), Some(_)) => write!(line, "{cpi:6.2} "),
            (None, Some(_)) => write!(line, "{:>6} ", "-"),
            (_, None) => write!(line, "{:>6} ", ""),
        };
    }
    for note in &figures.notes {
        let _ = write!(line, " # {note}");
    }
}

fn push_cell(line: &mut String, figure: Option<u64>) {
    let _ = match figure {
        Some(figure) => write!(line, "{figure:9} "),
        None => write!(line, "{:9} ", ""),
    };
}

/// Events that the same counters can measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurable {
    /// `event[0-3]`, `event0`, or another heading.
    pub head: String,
    /// The events.
    pub names: Vec<String>,
}

/// The listing of `-h`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// The name of the counter interface.
    pub interface: String,
    /// Events by heading (`Generic Events`, …).
    pub sections: Vec<(String, Vec<Measurable>)>,
    /// Attributes of events.
    pub attributes: Vec<String>,
    /// A reference to further documentation.
    pub reference: String,
}

/// The line that shows the syntax.
const SYNTAX: &str = "[picn=]<eventn>[,attr[n][=<val>]][,[picn=]<eventn>[,attr[n][=<val>]],...]";
/// The maximum line length; a longer word exceeds it.
const WIDTH: usize = 76;
/// The column at which events begin.
const EVENTS_AT: usize = 17;
/// The column at which attributes begin.
const ATTRIBUTES_AT: usize = 20;

/// The listing of `-h`, several lines with newlines.
#[must_use]
pub fn listing(listing: &Listing) -> String {
    let mut text = format!("CPU performance counter interface: {}\n\n{SYNTAX}\n", listing.interface);
    for (heading, lists) in &listing.sections {
        let _ = write!(text, "\n{heading}:\n\n");
        for list in lists {
            push_wrapped(&mut text, &format!("{}: ", list.head), EVENTS_AT, &list.names);
        }
    }
    text.push('\n');
    push_wrapped(&mut text, "attributes: ", ATTRIBUTES_AT, &listing.attributes);
    text.push('\n');
    let words: Vec<String> = listing.reference.split_whitespace().map(str::to_owned).collect();
    let mut reference = String::new();
    // A tab counts as eight columns.
    push_wrapped(&mut reference, "", 8, &words);
    for line in reference.lines() {
        let _ = writeln!(text, "\t{}", line.trim_start());
    }
    text
}

/// Wraps words into lines that begin at `indent`; the first line begins with `head`.
fn push_wrapped(text: &mut String, head: &str, indent: usize, words: &[String]) {
    let mut line = format!("{head:>indent$}");
    let mut empty = true;
    for word in words {
        if !empty && line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// The counters of a heading: `event[0-3]`, `event0`, `event[0,2]`.
#[must_use]
pub fn event_head(mask: u32) -> String {
    let bits: Vec<u32> = (0..u32::BITS).filter(|bit| mask >> bit & 1 == 1).collect();
    match bits.as_slice() {
        [only] => format!("event{only}"),
        [first, .., last] if last - first + 1 == u32::try_from(bits.len()).unwrap_or(0) => {
            format!("event[{first}-{last}]")
        }
        bits => format!("event[{}]", bits.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout { pics: vec![0, 1], ..Layout::default() }
    }

    fn counts(counts: &[u64]) -> Figures {
        Figures { counts: Some(counts.to_vec()), ..Figures::default() }
    }

    #[test]
    fn lines_of_processors_are_those_of_the_manual() {
        let layout = layout();
        assert_eq!(cpustat_head(&layout), "   time cpu event      pic0      pic1 ");
        let row =
            |time, cpu, event, figures: &[u64]| cpustat_row(&layout, time, cpu, event, &counts(figures));
        assert_eq!(row(5.008, 0, "tick", &[123_456_789, 98_765]), "  5.008   0  tick 123456789     98765 ");
        assert_eq!(row(5.009, 1, "tick", &[4_567_890, 1_234]), "  5.009   1  tick   4567890      1234 ");
        assert_eq!(row(10.009, 2, "total", &[1, 12_345_678_901]), " 10.009   2 total         1 12345678901 ");
    }

    #[test]
    fn a_register_of_cycles_and_notes_stand_where_they_should() {
        let layout = Layout { tick: Some("%tick".into()), pics: vec![0, 10], cpi: true, pid: false };
        assert_eq!(cpustat_head(&layout), "   time cpu event     %tick      pic0      pic10   cpi ");
        let figures = Figures {
            tick: Some(7),
            counts: Some(vec![6, 2]),
            cpi: Some(3.0),
            notes: vec!["pic0=a,pic10=b".into(), "counted 50% of the time".into()],
        };
        assert_eq!(
            cpustat_row(&layout, 1.0, 3, "tick", &figures),
            "  1.000   3  tick         7         6         2   3.00  # pic0=a,pic10=b # counted 50% of the time"
        );
        let none = Figures { cpi: None, notes: Vec::new(), ..figures };
        assert!(cpustat_row(&layout, 1.0, 3, "tick", &none).ends_with("2      - "));
    }

    #[test]
    fn lines_of_threads_have_the_process_where_forks_are_followed() {
        let plain = layout();
        assert_eq!(cputrack_head(&plain), "   time lwp      event      pic0      pic1 ");
        assert_eq!(
            cputrack_row(&plain, 1.0, 300, 1, "tick", &counts(&[5, 6])),
            "  1.000   1       tick         5         6 "
        );
        let forks = Layout { pid: true, ..layout() };
        assert_eq!(cputrack_head(&forks), "   time    pid lwp      event      pic0      pic1 ");
        let fork = Figures { notes: vec!["301".into()], ..Figures::default() };
        assert_eq!(
            cputrack_row(&forks, 0.5, 300, 1, "fork", &fork),
            "  0.500    300   1       fork                      # 301"
        );
    }

    #[test]
    fn a_listing_is_wrapped_and_indented() {
        let names: Vec<String> = (10..25).map(|n| format!("Event_{n}")).collect();
        let text = listing(&Listing {
            interface: "UltraSPARC IIi".into(),
            sections: vec![(
                "Platform Specific Events".into(),
                vec![Measurable { head: event_head(0b1111), names }],
            )],
            attributes: vec!["nouser".into(), "sys".into()],
            reference: "See the handbook.".into(),
        });
        let expected = "\
CPU performance counter interface: UltraSPARC IIi

[picn=]<eventn>[,attr[n][=<val>]][,[picn=]<eventn>[,attr[n][=<val>]],...]

Platform Specific Events:

     event[0-3]: Event_10 Event_11 Event_12 Event_13 Event_14 Event_15
                 Event_16 Event_17 Event_18 Event_19 Event_20 Event_21
                 Event_22 Event_23 Event_24

        attributes: nouser sys

\tSee the handbook.
";
        assert_eq!(text, expected);
    }

    #[test]
    fn counters_have_one_head_where_they_are_equal() {
        assert_eq!(
            [0b1, 0b1100, 0b101, 0b11].map(event_head),
            ["event0", "event[2-3]", "event[0,2]", "event[0-1]"]
        );
    }
}
