//! The syntax of counter specifications: `pic0=Cycle_cnt,pic1=Instr_cnt,sys`.
//!
//! ```text
//! spec  := item ("," item)*
//! item  := "pic"N "=" event       that counter
//!        | event                  the first counter that can, above the highest one named so far
//!        | attr[N] ["=" value]    an attribute of counter N, or of all; 1 where no value is given
//! attr  := "nouser" | "sys"       user mode is counted unless nouser, kernel mode is if sys; 0 means not
//! ```
//!
//! Values are C integers. The caller of [`parse`] knows which counter can measure which event.

use std::collections::BTreeMap;
use std::fmt;

/// A counter with its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its number.
    pub pic: u32,
    /// The event as given.
    pub event: String,
    /// Whether it counts in user mode.
    pub user: bool,
    /// Whether it counts in kernel mode.
    pub sys: bool,
}

/// Events that are counted at the same time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSpec {
    /// The specification as given.
    pub text: String,
    /// The counters, ascending by number; never empty.
    pub counters: Vec<Counter>,
}

/// An error in a specification.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecFault {
    /// A counter occurs twice.
    #[error("repeated 'pic{0}' token")]
    Repeated(u32),
    /// A counter has no event.
    #[error("missing 'pic{0}' value")]
    MissingValue(u32),
    /// The event does not exist on the machine, or not on this counter.
    #[error("pic{pic} cannot measure event '{event}' on this cpu")]
    CannotMeasure {
        /// The counter.
        pic: u32,
        /// The event.
        event: String,
    },
    /// A word that is neither an event nor an attribute.
    #[error("bad token '{0}'")]
    BadToken(String),
    /// The value of an attribute is not an integer.
    #[error("invalid value '{value}' for attribute '{attribute}'")]
    BadValue {
        /// The value.
        value: String,
        /// The attribute.
        attribute: String,
    },
    /// An attribute of an unused counter, or one that leaves nothing to count.
    #[error("invalid parameter \"{0}\"")]
    BadParameter(String),
    /// There are more events than counters.
    #[error("no counter is left for event '{0}'")]
    NoCounterLeft(String),
}

/// An error with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The byte at which the item begins, from 1.
    pub column: usize,
    /// The error.
    pub fault: SpecFault,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for SpecError {}

/// The highest number of a counter, plus 1: counters are bits of a mask.
pub const COUNTERS_MAX: u32 = 32;

/// One item of a specification.
enum Item<'t> {
    Counter(u32, &'t str),
    Event(&'t str),
    Attribute { token: &'t str, name: Attribute, pic: Option<u32>, on: bool },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attribute {
    NoUser,
    Sys,
}

/// Parses a specification. `capable` returns the counters (as a bitmask) that can measure an event on this machine, and `None` for an
/// unknown event.
///
/// # Errors
/// [`SpecError`] for the first invalid item.
pub fn parse(text: &str, capable: &dyn Fn(&str) -> Option<u32>) -> Result<EventSpec, SpecError> {
    let mut counters: BTreeMap<u32, Counter> = BTreeMap::new();
    let mut attributes = Vec::new();
    let mut column = 1;
    for token in text.split(',') {
        let at = |fault| SpecError { column, fault };
        match item(token).map_err(at)? {
            Item::Counter(pic, event) => {
                if counters.contains_key(&pic) {
                    return Err(at(SpecFault::Repeated(pic)));
                }
                if capable(event).is_none_or(|mask| mask >> pic & 1 == 0) {
                    return Err(at(SpecFault::CannotMeasure { pic, event: event.to_owned() }));
                }
                counters.insert(pic, counter(pic, event));
            }
            Item::Event(event) => {
                let mask = capable(event).ok_or_else(|| at(SpecFault::BadToken(event.to_owned())))?;
                let above = counters.keys().next_back().map_or(0, |highest| highest + 1);
                let pic = (above..COUNTERS_MAX).find(|pic| mask >> pic & 1 == 1);
                let pic = pic.ok_or_else(|| at(SpecFault::NoCounterLeft(event.to_owned())))?;
                counters.insert(pic, counter(pic, event));
            }
            Item::Attribute { token, name, pic, on } => attributes.push((column, token, name, pic, on)),
        }
        column += token.len() + 1;
    }
    for (column, token, name, pic, on) in attributes {
        let wrong = || SpecError { column, fault: SpecFault::BadParameter(token.to_owned()) };
        if pic.is_some_and(|pic| !counters.contains_key(&pic)) {
            return Err(wrong());
        }
        for counter in counters.values_mut().filter(|c| pic.is_none_or(|pic| pic == c.pic)) {
            match name {
                Attribute::NoUser => counter.user = !on,
                Attribute::Sys => counter.sys = on,
            }
        }
    }
    let counters: Vec<Counter> = counters.into_values().collect();
    let idle = counters.iter().any(|counter| !counter.user && !counter.sys);
    if counters.is_empty() || idle {
        let token = if idle { "nouser" } else { text };
        return Err(SpecError { column: 1, fault: SpecFault::BadParameter(token.to_owned()) });
    }
    Ok(EventSpec { text: text.to_owned(), counters })
}

fn counter(pic: u32, event: &str) -> Counter {
    Counter { pic, event: event.to_owned(), user: true, sys: false }
}

fn item(token: &str) -> Result<Item<'_>, SpecFault> {
    let (left, value) = match token.split_once('=') {
        Some((left, value)) => (left, Some(value)),
        None => (token, None),
    };
    let bad = || SpecFault::BadToken(token.to_owned());
    if let Some(number) = left.strip_prefix("pic").filter(|rest| is_number(rest)) {
        let pic = number.parse().ok().filter(|pic| *pic < COUNTERS_MAX).ok_or_else(bad)?;
        return match value {
            None | Some("") => Err(SpecFault::MissingValue(pic)),
            Some(event) => Ok(Item::Counter(pic, event)),
        };
    }
    let name = left.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = match name {
        "nouser" => Attribute::NoUser,
        "sys" => Attribute::Sys,
        _ if value.is_none() && !token.is_empty() => return Ok(Item::Event(token)),
        _ => return Err(bad()),
    };
    let pic = match &left[name.len()..] {
        "" => None,
        number => Some(number.parse().ok().filter(|pic| *pic < COUNTERS_MAX).ok_or_else(bad)?),
    };
    let on = match value {
        None => true,
        Some(text) => {
            let wrong = || SpecFault::BadValue { value: text.to_owned(), attribute: left.to_owned() };
            c_integer(text).ok_or_else(wrong)? != 0
        }
    };
    Ok(Item::Attribute { token, name: known, pic, on })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether an event counts unhalted CPU cycles, under any of its names.
#[must_use]
pub fn is_cycles(event: &str) -> bool {
    let names = ["Cycle_cnt", "cycles", "cpu-cycles", "cpu_cycles"];
    names.contains(&event) || event.eq_ignore_ascii_case("PAPI_tot_cyc")
}

/// Whether an event counts retired instructions, under any of its names.
#[must_use]
pub fn is_instructions(event: &str) -> bool {
    let names = ["Instr_cnt", "instructions", "inst_retired"];
    names.contains(&event) || event.eq_ignore_ascii_case("PAPI_tot_ins")
}

/// A C integer: decimal, `0x` hexadecimal, `0` octal.
#[must_use]
pub fn c_integer(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (text, 10),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    if plain { u64::from_str_radix(digits, radix).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two counters; both count cycles and instructions, each counts one kind of misses.
    fn capable(event: &str) -> Option<u32> {
        match event {
            "Cycle_cnt" | "Instr_cnt" | "0x1f" => Some(0b11),
            "DC_rd" => Some(0b01),
            "DC_rd_hit" => Some(0b10),
            _ => None,
        }
    }

    fn meant(text: &str) -> String {
        let spec = parse(text, &capable).unwrap();
        let one = |c: &Counter| {
            let modes = [(c.user, "u"), (c.sys, "s")].map(|(on, letter)| if on { letter } else { "" });
            format!("{}:{}:{}", c.pic, c.event, modes.concat())
        };
        spec.counters.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn refused(text: &str) -> (usize, String) {
        let error = parse(text, &capable).unwrap_err();
        (error.column, error.to_string())
    }

    #[test]
    fn counters_are_named_or_follow_from_what_can_count() {
        assert_eq!(meant("pic0=Cycle_cnt,pic1=Instr_cnt"), "0:Cycle_cnt:u 1:Instr_cnt:u");
        assert_eq!(meant("pic1=Instr_cnt,pic0=Cycle_cnt"), "0:Cycle_cnt:u 1:Instr_cnt:u");
        assert_eq!(meant("Cycle_cnt,Instr_cnt"), "0:Cycle_cnt:u 1:Instr_cnt:u");
        assert_eq!(meant("DC_rd_hit"), "1:DC_rd_hit:u");
        assert_eq!(meant("pic1=0x1f"), "1:0x1f:u");
    }

    #[test]
    fn attributes_choose_the_modes_of_one_counter_or_of_all() {
        assert_eq!(meant("Cycle_cnt,Instr_cnt,sys"), "0:Cycle_cnt:us 1:Instr_cnt:us");
        assert_eq!(meant("Cycle_cnt,Instr_cnt,sys,nouser1"), "0:Cycle_cnt:us 1:Instr_cnt:s");
        assert_eq!(meant("sys0=0x1,pic0=Cycle_cnt"), "0:Cycle_cnt:us");
        assert_eq!(meant("Cycle_cnt,sys,sys0=00,nouser=0"), "0:Cycle_cnt:u");
    }

    #[test]
    fn what_is_wrong_is_said_as_there_with_its_place() {
        let said = |column, text: &str| (column, text.to_owned());
        assert_eq!(refused("pic0=Cycle_cnt,pic0=Instr_cnt"), said(16, "repeated 'pic0' token"));
        assert_eq!(refused("pic0"), said(1, "missing 'pic0' value"));
        assert_eq!(refused("Cycle_cnt,pic1="), said(11, "missing 'pic1' value"));
        assert_eq!(refused("pic1=DC_rd"), said(1, "pic1 cannot measure event 'DC_rd' on this cpu"));
        assert_eq!(refused("pic0=Nothing"), said(1, "pic0 cannot measure event 'Nothing' on this cpu"));
        assert_eq!(refused("Cycle_cnt,Nothing"), said(11, "bad token 'Nothing'"));
        assert_eq!(refused("pic=Cycle_cnt"), said(1, "bad token 'pic=Cycle_cnt'"));
        assert_eq!(refused("pic32=Cycle_cnt"), said(1, "bad token 'pic32=Cycle_cnt'"));
        assert_eq!(refused("cmask=3,Cycle_cnt"), said(1, "bad token 'cmask=3'"));
        assert_eq!(refused(""), said(1, "bad token ''"));
        assert_eq!(refused("Cycle_cnt,,sys"), said(11, "bad token ''"));
        assert_eq!(refused("Cycle_cnt,sys=on"), said(11, "invalid value 'on' for attribute 'sys'"));
        assert_eq!(refused("Cycle_cnt,sys=08"), said(11, "invalid value '08' for attribute 'sys'"));
        assert_eq!(refused("Cycle_cnt,sys1"), said(11, "invalid parameter \"sys1\""));
        assert_eq!(refused("Cycle_cnt,nouser"), said(1, "invalid parameter \"nouser\""));
        assert_eq!(refused("sys"), said(1, "invalid parameter \"sys\""));
        assert_eq!(
            refused("Cycle_cnt,Instr_cnt,Cycle_cnt"),
            said(21, "no counter is left for event 'Cycle_cnt'")
        );
    }

    #[test]
    fn cycles_and_instructions_are_known_by_all_their_names() {
        assert!(is_cycles("Cycle_cnt") && is_cycles("PAPI_TOT_CYC") && !is_cycles("Instr_cnt"));
        assert!(
            is_instructions("instructions") && is_instructions("PAPI_tot_ins") && !is_instructions("r08")
        );
    }

    #[test]
    fn integers_are_written_as_in_c() {
        let values = ["0", "10", "0x1F", "017", "-1", "0x", "1a", "+1", "", "99999999999999999999"];
        assert_eq!(
            values.map(c_integer),
            [Some(0), Some(10), Some(31), Some(15), None, None, None, None, None, None]
        );
    }

    #[test]
    fn fuzz_event_specs() {
        let seeds = ["pic0=Cycle_cnt,pic1=Instr_cnt", "DC_rd,DC_rd_hit,sys1=0x1,nouser1", "pic0=,x=1,,pic"];
        millpond_fuzz::check_text("formats-events", &seeds, |text| match parse(text, &capable) {
            Ok(spec) => {
                assert_eq!(spec.text, text);
                assert!(!spec.counters.is_empty());
                assert!(spec.counters.windows(2).all(|two| two[0].pic < two[1].pic));
                let able = |c: &Counter| capable(&c.event).is_some_and(|mask| mask >> c.pic & 1 == 1);
                assert!(spec.counters.iter().all(|c| able(c) && (c.user || c.sys)));
            }
            Err(error) => assert!((1..=text.len() + 1).contains(&error.column)),
        });
    }
}
