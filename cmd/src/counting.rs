//! Common code of `cpustat` and `cputrack`: event sets, their columns, and the list of countable events.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Failure};
use millpond_formats::cpustat::{Layout, Listing, Measurable, event_head, listing};
use millpond_formats::events::{self, EventSpec, SpecFault, is_cycles, is_instructions};
use millpond_machine::facets::{EventKind, HardwareCounters, Interface, Wanted};
use millpond_machine::{Refusal, Subject};
use millpond_observe::cycles_per_instruction;
use millpond_observe::recording::{self, Count};

/// The event sets of a command, in the order in which they alternate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sets(pub Vec<EventSpec>);

impl Sets {
    /// Parses the arguments of `-c`.
    ///
    /// # Errors
    /// [`Failure`] with the position in the text.
    pub fn of(texts: &[String], counters: &dyn HardwareCounters) -> Result<Sets, Failure> {
        if texts.is_empty() {
            return Err(Failure::Usage("which events? -c names them".to_owned()));
        }
        let one = |text: &String| {
            events::parse(text, &|event| counters.capable(event)).map_err(|error| {
                let place = format!("column {} of `{text}`", error.column);
                let hint = match error.fault {
                    SpecFault::CannotMeasure { .. } | SpecFault::BadToken(_) => {
                        format!("{place}; -h lists the events of this machine")
                    }
                    SpecFault::NoCounterLeft(_) => format!("{place}; several -c are counted in turn"),
                    _ => place,
                };
                Failure::Mistake(error.to_string(), hint)
            })
        };
        texts.iter().map(one).collect::<Result<_, _>>().map(Sets)
    }

    /// The requests to the machine.
    pub fn wanted(&self) -> Vec<Vec<Wanted>> {
        let one =
            |c: &events::Counter| Wanted { counter: c.pic, event: c.event.clone(), user: c.user, sys: c.sys };
        self.0.iter().map(|spec| spec.counters.iter().map(one).collect()).collect()
    }

    /// The number of sets.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The columns: those of the largest set.
    pub fn layout(&self, tick: Option<String>) -> Layout {
        let largest = self.0.iter().rev().max_by_key(|spec| spec.counters.len());
        let pics = largest.map(|spec| spec.counters.iter().map(|c| c.pic).collect());
        Layout { tick, pics: pics.unwrap_or_default(), ..Layout::default() }
    }

    /// The text after a line about a set: which set, if there are several.
    pub fn note(&self, set: usize) -> Option<String> {
        self.0.get(set).filter(|_| self.0.len() > 1).map(|spec| spec.text.clone())
    }

    /// Cycles per instruction, from the counts of a set.
    pub fn cpi(&self, set: usize, counts: &[u64]) -> Option<f64> {
        let (cycles, instructions) = self.cpi_counters(set)?;
        cycles_per_instruction(*counts.get(cycles)?, *counts.get(instructions)?)
    }

    /// The positions of cycles and instructions in a set.
    pub fn cpi_counters(&self, set: usize) -> Option<(usize, usize)> {
        let counters = &self.0.get(set)?.counters;
        let at = |is_it: fn(&str) -> bool| counters.iter().position(|c| is_it(&c.event));
        Some((at(is_cycles)?, at(is_instructions)?))
    }

    /// The counts with their counters and events.
    pub fn counts(&self, set: usize, counts: &[u64]) -> Vec<Count<'_>> {
        let counters = self.0.get(set).map_or(&[][..], |spec| spec.counters.as_slice());
        let events: Vec<_> = counters.iter().map(|c| (c.pic, c.event.as_str())).collect();
        recording::counts(&events, counts)
    }
}

/// The common start of both commands. With -h it prints the listing and returns nothing; otherwise it returns the
/// event sets, and what can be counted.
///
/// # Errors
/// [`Failure`] with the position of an error in the text of a set.
pub fn begin(
    counters: &dyn HardwareCounters,
    texts: &[String],
    lists: bool,
    ctx: &mut Ctx<'_>,
) -> Result<Option<(Sets, Interface)>, Failure> {
    let interface = counters.interface();
    if lists {
        ctx.out.text(&capabilities(&interface));
        return Ok(None);
    }
    Ok(Some((Sets::of(texts, counters)?, interface)))
}

/// The listing of `-h`.
fn capabilities(interface: &Interface) -> String {
    let section = |(heading, kind): (&str, EventKind)| {
        let lists = interface.events.iter().filter(|list| list.kind == kind && !list.names.is_empty());
        let lists: Vec<Measurable> = lists
            .map(|list| Measurable { head: event_head(list.counters), names: list.names.clone() })
            .collect();
        (!lists.is_empty()).then(|| (heading.to_owned(), lists))
    };
    let headings = [
        ("Generic Events", EventKind::Generic),
        ("Platform Specific Events", EventKind::Platform),
        ("Software Events", EventKind::Software),
    ];
    listing(&Listing {
        interface: interface.name.clone(),
        sections: headings.into_iter().filter_map(section).collect(),
        attributes: interface.attributes.clone(),
        reference: interface.reference.clone(),
    })
}

/// Why counting is impossible. With `debug` it names the failed call.
pub fn cannot_count(refusal: &Refusal, call: &str, debug: bool) -> Failure {
    let names = |subject: &Subject| match subject {
        Subject::Operation => None,
        subject => Some(format!("count events of {subject}")),
    };
    let mut complaint = Complaint::refused("count events", names, refusal);
    if debug {
        complaint.reason = format!("{} ({call})", complaint.reason);
    }
    complaint.into()
}

/// The text after counts that are not exact.
pub fn share_note(share: f64) -> Option<String> {
    if share >= 1.0 {
        None
    } else if share > 0.0 {
        Some(format!("scaled: counted {:.0}% of the time", share * 100.0))
    } else {
        Some("not counted: others have the counters".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_are_estimates_say_so() {
        assert_eq!(share_note(1.0), None);
        assert_eq!(share_note(0.5).as_deref(), Some("scaled: counted 50% of the time"));
        assert_eq!(share_note(0.0).as_deref(), Some("not counted: others have the counters"));
    }
}
