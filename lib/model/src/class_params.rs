//! What a user can set about a thread in its class, and the rules by which it is set (reference §2.2).
//!
//! A thread of TS, IA or FX has a *user priority* and a *limit* above which nobody without privileges raises it; one of
//! RT has a *priority*; those of RT and FX have a *quantum*, the slice of their own. Where a thread stands in the dispatcher at this
//! moment is no part of this.

use crate::{Class, DispatchTables, Quantum};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The parameters of a thread, with its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ClassParams {
    /// The kernel's own threads have none.
    Sys,
    /// Time sharing.
    Ts {
        /// The limit, -60 to 60.
        uprilim: i8,
        /// The user priority, -60 to the limit.
        upri: i8,
    },
    /// Interactive.
    Ia {
        /// The limit, -60 to 60.
        uprilim: i8,
        /// The user priority, -60 to the limit.
        upri: i8,
        /// Whether it is in the foreground.
        foreground: bool,
    },
    /// Fixed priority.
    Fx {
        /// The limit, 0 to 60.
        uprilim: i8,
        /// The priority, 0 to the limit.
        upri: i8,
        /// Its slice.
        quantum: Quantum,
    },
    /// Real time.
    Rt {
        /// The priority, 0 to 59.
        pri: i8,
        /// Its slice.
        quantum: Quantum,
        /// The signal that it gets when a slice runs out; 0 for none.
        tqsig: u8,
    },
}

/// What is to be changed. Parameters that are not named stay as they are in the class that the thread is in; on entering
/// another class the limit is 0, the priority the limit (RT: 0), the slice that of the table, and there is no signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassRequest {
    /// To be in TS.
    Ts {
        /// The limit.
        uprilim: Option<i32>,
        /// The user priority.
        upri: Option<i32>,
    },
    /// To be in IA.
    Ia {
        /// The limit.
        uprilim: Option<i32>,
        /// The user priority.
        upri: Option<i32>,
        /// Whether it is in the foreground; who enters the class is.
        foreground: Option<bool>,
    },
    /// To be in FX.
    Fx {
        /// The limit; brought into the range of the class.
        uprilim: Option<i32>,
        /// The priority; brought into the range of the class.
        upri: Option<i32>,
        /// The slice.
        quantum: Option<Quantum>,
    },
    /// To be in RT.
    Rt {
        /// The priority.
        pri: Option<i32>,
        /// The slice.
        quantum: Option<Quantum>,
        /// The signal.
        tqsig: Option<u8>,
    },
}

/// A parameter that the class does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{class} has {what} {low} to {high}, not {asked}")]
pub struct OutOfRange {
    /// The class.
    pub class: Class,
    /// Which parameter: `user priorities`, `user priority limits`, `priorities`.
    pub what: &'static str,
    /// What was asked for.
    pub asked: i32,
    /// The least.
    pub low: i8,
    /// The most.
    pub high: i8,
}

/// A user priority that was asked for above the limit, and became the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clamped {
    /// What was asked for.
    pub asked: i32,
    /// The limit.
    pub limit: i8,
}

impl Class {
    /// The user priorities of a class, ascending; `None` for [`Class::Sys`].
    #[must_use]
    pub fn user_priorities(self) -> Option<RangeInclusive<i8>> {
        match self {
            Class::Sys => None,
            Class::Ts | Class::Ia => Some(-60..=60),
            Class::Fx => Some(0..=60),
            Class::Rt => Some(0..=59),
        }
    }
}

impl Default for ClassParams {
    /// Time sharing, with nothing asked for.
    fn default() -> Self {
        ClassParams::Ts { uprilim: 0, upri: 0 }
    }
}

impl ClassParams {
    /// The class.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            ClassParams::Sys => Class::Sys,
            ClassParams::Ts { .. } => Class::Ts,
            ClassParams::Ia { .. } => Class::Ia,
            ClassParams::Fx { .. } => Class::Fx,
            ClassParams::Rt { .. } => Class::Rt,
        }
    }

    /// The priority that the user set; 0 in SYS.
    #[must_use]
    pub fn priority(&self) -> i8 {
        match *self {
            ClassParams::Sys => 0,
            ClassParams::Ts { upri, .. } | ClassParams::Ia { upri, .. } | ClassParams::Fx { upri, .. } => {
                upri
            }
            ClassParams::Rt { pri, .. } => pri,
        }
    }

    fn limit(&self) -> i8 {
        match *self {
            ClassParams::Ts { uprilim, .. }
            | ClassParams::Ia { uprilim, .. }
            | ClassParams::Fx { uprilim, .. } => uprilim,
            ClassParams::Sys | ClassParams::Rt { .. } => 0,
        }
    }
}

/// What stands for a process whose threads have these: of those in the class of the first one, the parameters of the most
/// favoured. `None` when there are no threads.
#[must_use]
pub fn most_favoured(threads: impl IntoIterator<Item = ClassParams>) -> Option<ClassParams> {
    let mut threads = threads.into_iter();
    let first = threads.next()?;
    let alike = threads.filter(|other| other.class() == first.class());
    Some(alike.fold(first, |best, other| if other.priority() > best.priority() { other } else { best }))
}

impl ClassRequest {
    /// To enter a class, or stay there, with nothing else asked for; `None` for [`Class::Sys`], which nobody enters.
    #[must_use]
    pub fn bare(class: Class) -> Option<Self> {
        let (uprilim, upri, quantum) = (None, None, None);
        Some(match class {
            Class::Sys => return None,
            Class::Ts => ClassRequest::Ts { uprilim, upri },
            Class::Ia => ClassRequest::Ia { uprilim, upri, foreground: None },
            Class::Fx => ClassRequest::Fx { uprilim, upri, quantum },
            Class::Rt => ClassRequest::Rt { pri: None, quantum, tqsig: None },
        })
    }

    /// The class.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            ClassRequest::Ts { .. } => Class::Ts,
            ClassRequest::Ia { .. } => Class::Ia,
            ClassRequest::Fx { .. } => Class::Fx,
            ClassRequest::Rt { .. } => Class::Rt,
        }
    }

    /// The parameters that a thread gets which has `now`. A limit below the present priority takes the priority along; a
    /// priority above the limit becomes the limit, which is told.
    ///
    /// # Errors
    /// [`OutOfRange`] for a value that the class does not have (FX brings values into its range instead).
    pub fn apply(
        &self,
        now: ClassParams,
        tables: &DispatchTables,
    ) -> Result<(ClassParams, Option<Clamped>), OutOfRange> {
        let class = self.class();
        let stays = now.class() == class;
        match *self {
            ClassRequest::Ts { uprilim, upri } => {
                let (uprilim, upri, clamped) = priorities(class, now, uprilim, upri)?;
                Ok((ClassParams::Ts { uprilim, upri }, clamped))
            }
            ClassRequest::Ia { uprilim, upri, foreground } => {
                let (uprilim, upri, clamped) = priorities(class, now, uprilim, upri)?;
                let was = match now {
                    ClassParams::Ia { foreground, .. } => foreground,
                    _ => true,
                };
                let foreground = foreground.unwrap_or(was);
                Ok((ClassParams::Ia { uprilim, upri, foreground }, clamped))
            }
            ClassRequest::Fx { uprilim, upri, quantum } => {
                let inside = |value: i32| value.clamp(0, 60);
                let (uprilim, upri, clamped) = priorities(class, now, uprilim.map(inside), upri.map(inside))?;
                let own = match now {
                    ClassParams::Fx { quantum, .. } => Some(quantum),
                    _ => None,
                };
                let quantum = quantum.or(own).unwrap_or_else(|| tables.fx.row(upri.unsigned_abs()));
                Ok((ClassParams::Fx { uprilim, upri, quantum }, clamped))
            }
            ClassRequest::Rt { pri, quantum, tqsig } => {
                let pri = match pri {
                    Some(pri) => within(class, "priorities", pri)?,
                    None if stays => now.priority(),
                    None => 0,
                };
                let own = match now {
                    ClassParams::Rt { quantum, tqsig, .. } => Some((quantum, tqsig)),
                    _ => None,
                };
                let quantum = quantum.or(own.map(|(quantum, _)| quantum));
                let quantum = quantum.unwrap_or_else(|| tables.rt.row(pri.unsigned_abs()));
                let tqsig = tqsig.or(own.map(|(_, tqsig)| tqsig)).unwrap_or(0);
                Ok((ClassParams::Rt { pri, quantum, tqsig }, None))
            }
        }
    }
}

/// Limit and priority after a change.
fn priorities(
    class: Class,
    now: ClassParams,
    uprilim: Option<i32>,
    upri: Option<i32>,
) -> Result<(i8, i8, Option<Clamped>), OutOfRange> {
    let stays = now.class() == class;
    let limit = match uprilim {
        Some(limit) => within(class, "user priority limits", limit)?,
        None if stays => now.limit(),
        None => 0,
    };
    let asked = match upri {
        Some(upri) => within(class, "user priorities", upri)?,
        None if stays => now.priority(),
        None => limit,
    };
    let clamped = upri.filter(|_| asked > limit).map(|asked| Clamped { asked, limit });
    Ok((limit, asked.min(limit), clamped))
}

fn within(class: Class, what: &'static str, asked: i32) -> Result<i8, OutOfRange> {
    let range = class.user_priorities().unwrap_or(0..=0);
    let value = i8::try_from(asked).ok().filter(|value| range.contains(value));
    value.ok_or(OutOfRange { class, what, asked, low: *range.start(), high: *range.end() })
}

/// The user priority of a thread that is `nice`, -20 to 19: three points for each.
#[must_use]
pub fn upri_of_nice(nice: i8) -> i8 {
    -3 * nice.clamp(-20, 19)
}

/// How nice a thread becomes with a user priority, -20 to 19. Steps between are rounded towards 0.
#[must_use]
pub fn nice_of_upri(upri: i8) -> i8 {
    (-(upri.clamp(-60, 60) / 3)).min(19)
}

/// In one line: `TS 0 -10`, `IA 0 0 foreground`, `FX 0 0 20`, `RT 10 infinite 0`. Slices are in ticks.
impl fmt::Display for ClassParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.class();
        match *self {
            ClassParams::Sys => write!(f, "{class}"),
            ClassParams::Ts { uprilim, upri } => write!(f, "{class} {uprilim} {upri}"),
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

/// A text that is no parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no class with its parameters")]
pub struct NoSuchParams(pub String);

impl FromStr for ClassParams {
    type Err = NoSuchParams;

    /// What [`fmt::Display`] writes, and nothing else.
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
    /// Whether the priorities are those of the class, and none is above its limit.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FX_LEVELS, QuantumTable, RT_LEVELS, TS_LEVELS, TsRow, TsTable};
    use proptest::prelude::*;

    fn tables() -> DispatchTables {
        let row = TsRow { quantum: 4, tqexp: 0, slpret: 59, maxwait: 0, lwait: 59 };
        let by_level =
            |levels: u32| QuantumTable::new((1..=levels).map(|n| Quantum::Ticks(n * 10)).collect());
        DispatchTables {
            ts: TsTable::new(vec![row; TS_LEVELS]).unwrap(),
            rt: by_level(u32::try_from(RT_LEVELS).unwrap()).unwrap(),
            fx: by_level(u32::try_from(FX_LEVELS).unwrap()).unwrap(),
        }
    }

    fn after(now: &str, request: ClassRequest) -> (String, Option<Clamped>) {
        let (params, clamped) = request.apply(now.parse().unwrap(), &tables()).unwrap();
        (params.to_string(), clamped)
    }

    fn ts(uprilim: Option<i32>, upri: Option<i32>) -> ClassRequest {
        ClassRequest::Ts { uprilim, upri }
    }

    #[test]
    fn v6_a_point_of_nice_is_three_of_user_priority() {
        assert_eq!([10, -20, 19].map(upri_of_nice), [-30, 60, -57]);
        assert_eq!([-30, 60, -57, -60, 10, -10, 1].map(nice_of_upri), [10, -20, 19, 19, -3, 3, 0]);
    }

    #[test]
    fn a_priority_above_the_limit_becomes_the_limit_and_is_told() {
        assert_eq!(after("TS 0 0", ts(Some(10), Some(5))), ("TS 10 5".into(), None));
        assert_eq!(
            after("TS 0 -5", ts(None, Some(10))),
            ("TS 0 0".into(), Some(Clamped { asked: 10, limit: 0 }))
        );
        assert_eq!(after("TS 20 20", ts(Some(5), None)), ("TS 5 5".into(), None), "the limit takes it along");
        assert_eq!(after("TS 20 -7", ts(Some(5), None)), ("TS 5 -7".into(), None));
    }

    #[test]
    fn who_enters_a_class_gets_its_defaults_and_who_stays_keeps_what_is_not_named() {
        let bare = |class| ClassRequest::bare(class).unwrap();
        assert_eq!(after("RT 10 100 9", bare(Class::Ts)).0, "TS 0 0");
        assert_eq!(after("RT 10 100 9", ts(Some(-7), None)).0, "TS -7 -7");
        assert_eq!(after("TS 9 9", bare(Class::Ia)).0, "IA 0 0 foreground");
        assert_eq!(after("IA 9 -9 background", bare(Class::Ia)).0, "IA 9 -9 background");
        assert_eq!(after("TS 9 9", bare(Class::Fx)).0, "FX 0 0 10");
        assert_eq!(after("TS 9 9", bare(Class::Rt)).0, "RT 0 10 0");
        let to_3 = ClassRequest::Rt { pri: Some(3), quantum: None, tqsig: None };
        assert_eq!(after("TS 9 9", to_3).0, "RT 3 40 0", "the slice of its level");
        assert_eq!(after("RT 10 infinite 9", to_3).0, "RT 3 infinite 9", "the slice of its own");
    }

    #[test]
    fn what_the_class_does_not_have_is_refused_and_fx_brings_it_inside() {
        let refused = ts(None, Some(61)).apply(ClassParams::default(), &tables()).unwrap_err();
        assert_eq!(refused.to_string(), "TS has user priorities -60 to 60, not 61");
        let rt = ClassRequest::Rt { pri: Some(-1), quantum: None, tqsig: None };
        let refused = rt.apply(ClassParams::default(), &tables()).unwrap_err();
        assert_eq!(refused.to_string(), "RT has priorities 0 to 59, not -1");
        let fx = ClassRequest::Fx { uprilim: Some(99), upri: Some(-4), quantum: Some(Quantum::Infinite) };
        assert_eq!(after("TS 0 0", fx).0, "FX 60 0 infinite");
        assert_eq!(ClassRequest::bare(Class::Sys), None);
    }

    #[test]
    fn the_most_favoured_thread_of_the_first_one_s_class_stands_for_its_process() {
        let stands = |threads: &[&str]| most_favoured(threads.iter().map(|text| text.parse().unwrap()));
        assert_eq!(stands(&["TS 0 -9", "RT 9 1 0", "TS 9 3", "TS 0 0"]), "TS 9 3".parse().ok());
        assert_eq!(stands(&[]), None);
    }

    #[test]
    fn texts_that_are_no_parameters_are_refused() {
        for text in
            ["", "TS", "TS 0", "TS 0 1", "TS 61 0", "FX 0 0 0", "RT 60 1 0", "IA 0 0 1", "TS +0 0", "SYS "]
        {
            assert_eq!(text.parse::<ClassParams>(), Err(NoSuchParams(text.into())));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_the_parameters_are_possible_and_survive_being_saved(
            lim in proptest::option::of(-70i32..70),
            pri in proptest::option::of(-70i32..70),
            ticks in proptest::option::of(1u32..1000),
            class in 0usize..5,
            was in prop::sample::select(vec!["SYS", "TS 9 -9", "IA 0 0 background", "FX 7 7 3", "RT 59 infinite 2"]),
        ) {
            let quantum = ticks.map(Quantum::Ticks);
            let request = match class {
                0 => ClassRequest::Ts { uprilim: lim, upri: pri },
                1 => ClassRequest::Ia { uprilim: lim, upri: pri, foreground: None },
                2 => ClassRequest::Fx { uprilim: lim, upri: pri, quantum },
                _ => ClassRequest::Rt { pri, quantum, tqsig: None },
            };
            if let Ok((params, _)) = request.apply(was.parse().unwrap(), &tables()) {
                prop_assert_eq!(params.class(), request.class());
                let saved = serde_json::to_string(&params).unwrap();
                prop_assert_eq!(serde_json::from_str::<ClassParams>(&saved).unwrap(), params);
            }
        }
    }
}
