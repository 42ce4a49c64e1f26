//! Scheduling parameters as one line of text, in saved machines and in journals.

use super::ClassParams;
use crate::Quantum;
use std::fmt;
use std::str::FromStr;

/// One line: `TS 0 -10`, `IA 0 0 foreground`, `FX 0 0 20`, `RT 10 infinite 0`, `FSS 0 0`. Slices are in ticks.
impl fmt::Display for ClassParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.class();
        match *self {
            ClassParams::Sys => write!(f, "{class}"),
            ClassParams::Ts { uprilim, upri } | ClassParams::Fss { uprilim, upri } => {
                write!(f, "{class} {uprilim} {upri}")
            }
            ClassParams::Ia { uprilim, upri, foreground } => {
                let mode = if foreground { "foreground" } else { "background" };
                write!(f, "{class} {uprilim} {upri} {mode}")
            }
            ClassParams::Fx { uprilim, upri, quantum } => {
                write!(f, "{class} {uprilim} {upri} {}", slice(quantum))
            }
            ClassParams::Rt { pri, quantum, tqsig } => write!(f, "{class} {pri} {} {tqsig}", slice(quantum)),
        }
    }
}

fn slice(quantum: Quantum) -> String {
    match quantum {
        Quantum::Ticks(ticks) => ticks.to_string(),
        Quantum::Infinite => "infinite".to_owned(),
    }
}

/// A text that is not a set of parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no class with its parameters")]
pub struct NoSuchParams(pub String);

impl FromStr for ClassParams {
    type Err = NoSuchParams;

    /// Accepts exactly the output of [`fmt::Display`].
    fn from_str(text: &str) -> Result<Self, NoSuchParams> {
        let found = parse(text).filter(|found| found.is_possible() && found.to_string() == text);
        found.ok_or_else(|| NoSuchParams(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<ClassParams> {
    let quantum = |word: &str| match word {
        "infinite" => Some(Quantum::Infinite),
        word => word.parse().ok().filter(|ticks| *ticks > 0).map(Quantum::Ticks),
    };
    let pri = |word: &str| word.parse::<i8>().ok();
    let words: Vec<&str> = text.split(' ').collect();
    Some(match words[..] {
        ["SYS"] => ClassParams::Sys,
        ["TS", lim, upri] => ClassParams::Ts { uprilim: pri(lim)?, upri: pri(upri)? },
        ["FSS", lim, upri] => ClassParams::Fss { uprilim: pri(lim)?, upri: pri(upri)? },
        ["IA", lim, upri, mode] => {
            ClassParams::Ia { uprilim: pri(lim)?, upri: pri(upri)?, foreground: mode == "foreground" }
        }
        ["FX", lim, upri, tq] => {
            ClassParams::Fx { uprilim: pri(lim)?, upri: pri(upri)?, quantum: quantum(tq)? }
        }
        ["RT", rt, tq, sig] => {
            ClassParams::Rt { pri: pri(rt)?, quantum: quantum(tq)?, tqsig: sig.parse().ok()? }
        }
        _ => return None,
    })
}

impl ClassParams {
    /// Whether the priorities are in the range of the class, and not above the limit.
    fn is_possible(&self) -> bool {
        let range = self.class().user_priorities().unwrap_or(0..=0);
        let limited = !matches!(self, ClassParams::Sys | ClassParams::Rt { .. });
        range.contains(&self.priority())
            && range.contains(&self.limit())
            && (!limited || self.priority() <= self.limit())
    }
}

impl TryFrom<String> for ClassParams {
    type Error = NoSuchParams;
    fn try_from(text: String) -> Result<Self, NoSuchParams> {
        text.parse()
    }
}

impl From<ClassParams> for String {
    fn from(params: ClassParams) -> String {
        params.to_string()
    }
}
