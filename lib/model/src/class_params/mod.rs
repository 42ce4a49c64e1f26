//! Scheduling parameters that a user can set for a thread, and their rules (priocntl(1)).
//!
//! A thread of TS, IA, FX or FSS has a *user priority* and a *limit*. Raising the limit needs privileges. A thread of
//! RT has a *priority*. Threads of RT and FX have a *quantum*, their own time slice. The present global priority of a thread in the
//! dispatcher is not a parameter.

mod text;

pub use text::NoSuchParams;

use crate::{Class, DispatchTables, Quantum};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The parameters of a thread, with its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ClassParams {
    /// Kernel threads; they have no parameters.
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
        /// Its time slice.
        quantum: Quantum,
    },
    /// Real time.
    Rt {
        /// The priority, 0 to 59.
        pri: i8,
        /// Its time slice.
        quantum: Quantum,
        /// The signal at the end of a time slice; 0 for none.
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

/// A requested change. Omitted parameters keep their values within the same class. On entering another class the limit is 0, the priority
/// is the limit (RT: 0), the slice is that of the table, and there is no signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClassRequest {
    /// Time sharing.
    Ts {
        /// The limit.
        uprilim: Option<i32>,
        /// The user priority.
        upri: Option<i32>,
    },
    /// Interactive.
    Ia {
        /// The limit.
        uprilim: Option<i32>,
        /// The user priority.
        upri: Option<i32>,
        /// Whether it is in the foreground. The default on entering the class is yes.
        foreground: Option<bool>,
    },
    /// Fixed priority.
    Fx {
        /// The limit; clamped to the range of the class.
        uprilim: Option<i32>,
        /// The priority; clamped to the range of the class.
        upri: Option<i32>,
        /// The slice.
        quantum: Option<Quantum>,
    },
    /// Real time.
    Rt {
        /// The priority.
        pri: Option<i32>,
        /// The slice.
        quantum: Option<Quantum>,
        /// The signal.
        tqsig: Option<u8>,
    },
    /// Fair share.
    Fss {
        /// The limit.
        uprilim: Option<i32>,
        /// The user priority.
        upri: Option<i32>,
    },
}

/// A value outside the range of the class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{class} has {what} {low} to {high}, not {asked}")]
pub struct OutOfRange {
    /// The class.
    pub class: Class,
    /// The parameter: `user priorities`, `user priority limits`, `priorities`.
    pub what: &'static str,
    /// The requested value.
    pub asked: i32,
    /// The lowest valid value.
    pub low: i8,
    /// The highest valid value.
    pub high: i8,
}

/// A requested user priority above the limit, which was reduced to the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clamped {
    /// The requested value.
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
    /// Time sharing with default parameters.
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

/// The parameters that represent a process with these threads: of the threads in the class of the first one, those of the most
/// favoured. `None` without threads.
#[must_use]
pub fn most_favoured(threads: impl IntoIterator<Item = ClassParams>) -> Option<ClassParams> {
    let mut threads = threads.into_iter();
    let first = threads.next()?;
    let alike = threads.filter(|other| other.class() == first.class());
    Some(alike.fold(first, |best, other| if other.priority() > best.priority() { other } else { best }))
}

impl ClassRequest {
    /// A request to enter a class, or stay in it, without parameters; `None` for [`Class::Sys`], which no thread can enter.
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

    /// The new parameters of a thread that has `now`. A limit below the present priority lowers the priority. A
    /// priority above the limit is reduced to the limit, which is reported.
    ///
    /// # Errors
    /// [`OutOfRange`] for a value outside the range of the class (FX clamps values instead).
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

/// The user priority for a nice value of -20 to 19: three points per unit of nice.
#[must_use]
pub fn upri_of_nice(nice: i8) -> i8 {
    -3 * nice.clamp(-20, 19)
}

/// The nice value for a user priority, -20 to 19. Intermediate values are rounded towards 0.
#[must_use]
pub fn nice_of_upri(upri: i8) -> i8 {
    (-(upri.clamp(-60, 60) / 3)).min(19)
}

#[cfg(test)]
mod tests;
