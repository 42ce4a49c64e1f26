//! Scheduling parameters that a user can set for a thread, and their rules (reference §2.2).
//!
//! A thread of TS, IA, FX or FSS has a *user priority* and a *limit* above which it is raised only with privileges; one of
//! RT has a *priority*; those of RT and FX have a *quantum*, the slice of their own. Where a thread stands in the dispatcher at this
//! moment is no part of this.

mod text;

pub use text::NoSuchParams;

use crate::{Class, DispatchTables, Quantum};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

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
    /// Fair share.
    Fss {
        /// The limit, -60 to 60.
        uprilim: i8,
        /// The user priority, -60 to the limit.
        upri: i8,
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
        /// Whether it is in the foreground; a thread that enters the class is.
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
    /// To be in FSS.
    Fss {
        /// The limit.
        uprilim: Option<i32>,
        /// The user priority.
        upri: Option<i32>,
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
            Class::Ts | Class::Ia | Class::Fss => Some(-60..=60),
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
            ClassParams::Fss { .. } => Class::Fss,
        }
    }

    /// The priority that the user set; 0 in SYS.
    #[must_use]
    pub fn priority(&self) -> i8 {
        match *self {
            ClassParams::Sys => 0,
            ClassParams::Ts { upri, .. }
            | ClassParams::Ia { upri, .. }
            | ClassParams::Fx { upri, .. }
            | ClassParams::Fss { upri, .. } => upri,
            ClassParams::Rt { pri, .. } => pri,
        }
    }

    fn limit(&self) -> i8 {
        match *self {
            ClassParams::Ts { uprilim, .. }
            | ClassParams::Ia { uprilim, .. }
            | ClassParams::Fx { uprilim, .. }
            | ClassParams::Fss { uprilim, .. } => uprilim,
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
    /// To enter a class, or stay there, with nothing else asked for; `None` for [`Class::Sys`], which no thread enters.
    #[must_use]
    pub fn bare(class: Class) -> Option<Self> {
        let (uprilim, upri, quantum) = (None, None, None);
        Some(match class {
            Class::Sys => return None,
            Class::Ts => ClassRequest::Ts { uprilim, upri },
            Class::Ia => ClassRequest::Ia { uprilim, upri, foreground: None },
            Class::Fx => ClassRequest::Fx { uprilim, upri, quantum },
            Class::Rt => ClassRequest::Rt { pri: None, quantum, tqsig: None },
            Class::Fss => ClassRequest::Fss { uprilim, upri },
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
            ClassRequest::Fss { .. } => Class::Fss,
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
            ClassRequest::Fss { uprilim, upri } => {
                let (uprilim, upri, clamped) = priorities(class, now, uprilim, upri)?;
                Ok((ClassParams::Fss { uprilim, upri }, clamped))
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

#[cfg(test)]
mod tests;
