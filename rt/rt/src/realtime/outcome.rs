//! What became of each thing that was asked for, and what to do about what could not be had.

use std::error::Error;
use std::fmt;
use std::io;

/// A thing that can be set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Item {
    /// The CPUs that the thread may run on.
    Cpus,
    /// All memory of the process, locked.
    Memory,
    /// Memory for the allocator, faulted in.
    Heap,
    /// The stack of the thread, faulted in and locked.
    Stack,
    /// The deepest idle states of the CPUs.
    IdleLatency,
    /// How late the kernel lets timers of the thread be.
    TimerSlack,
    /// The scheduling class of the thread.
    Class,
}

impl fmt::Display for Item {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Item::Cpus => "CPUs",
            Item::Memory => "memory",
            Item::Heap => "heap",
            Item::Stack => "stack",
            Item::IdleLatency => "idle latency",
            Item::TimerSlack => "timer slack",
            Item::Class => "class",
        })
    }
}

/// Why a thing cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What the system said, or what it would say.
    pub errno: i32,
    /// What was refused and what helps, in a sentence.
    pub reason: String,
}

impl Refusal {
    pub(super) fn new(errno: i32, reason: impl Into<String>) -> Refusal {
        Refusal { errno, reason: reason.into() }
    }

    /// The system's own words, where there is nothing to add.
    pub(super) fn system(action: &str, error: &io::Error) -> Refusal {
        Refusal::new(errno(error), format!("cannot {action}: {error}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)
    }
}

pub(super) fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// What a call says that answers with 0, or leaves its error in errno.
pub(super) fn check(answer: impl Into<i64>) -> io::Result<()> {
    if answer.into() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What became of one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which one.
    pub item: Item,
    /// Whether the call was to fail without it.
    pub is_required: bool,
    /// What was asked for.
    pub wanted: String,
    /// What there is instead, or the same.
    pub had: String,
    /// Why it could not be had, or could not be put back. None: it is as was wanted.
    pub refusal: Option<Refusal>,
    /// It was had, and there is something to know about it.
    pub note: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { item, wanted, had, .. } = self;
        match (&self.refusal, &self.note) {
            (Some(refusal), _) => write!(out, "{item}: wanted {wanted}, had {had}: {refusal}"),
            (None, Some(note)) => write!(out, "{item}: {had} ({note})"),
            (None, None) => write!(out, "{item}: {had}"),
        }
    }
}

/// Real time cannot be had, or not be left.
#[derive(Debug)]
#[non_exhaustive]
pub enum RealtimeError {
    /// A required thing cannot be had: the last of these outcomes. The rest was put back; what could not be says so.
    Required(Vec<Outcome>),
    /// These could not be put back. Everything else was.
    Undo(Vec<Outcome>),
}

impl RealtimeError {
    /// What became of each thing that was tried.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        match self {
            RealtimeError::Required(outcomes) | RealtimeError::Undo(outcomes) => outcomes,
        }
    }

    /// The errno for it, positive: of the required thing, or of the first that could not be put back.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.refused().and_then(|outcome| outcome.refusal.as_ref()).map_or(libc::EIO, |refusal| refusal.errno)
    }

    fn refused(&self) -> Option<&Outcome> {
        match self {
            RealtimeError::Required(outcomes) => outcomes.last(),
            RealtimeError::Undo(outcomes) => outcomes.first(),
        }
    }
}

impl fmt::Display for RealtimeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            RealtimeError::Required(_) => "cannot set up real time",
            RealtimeError::Undo(_) => "cannot put back how it was",
        })?;
        self.refused().map_or(Ok(()), |outcome| write!(out, ": {outcome}"))
    }
}

impl Error for RealtimeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(refusal: Option<Refusal>, note: Option<&str>) -> Outcome {
        Outcome {
            item: Item::Class,
            is_required: true,
            wanted: "FIFO, priority 80".into(),
            had: "OTHER, nice 0".into(),
            refusal,
            note: note.map(str::to_owned),
        }
    }

    #[test]
    fn an_outcome_is_a_line() {
        let refused = Some(Refusal::new(libc::EPERM, "cannot enter it: ask"));
        assert_eq!(
            outcome(refused, None).to_string(),
            "class: wanted FIFO, priority 80, had OTHER, nice 0: cannot enter it: ask"
        );
        assert_eq!(outcome(None, None).to_string(), "class: OTHER, nice 0");
        assert_eq!(outcome(None, Some("but")).to_string(), "class: OTHER, nice 0 (but)");
    }

    #[test]
    fn an_error_names_what_was_required() {
        let error = RealtimeError::Required(vec![
            outcome(None, None),
            outcome(Some(Refusal::new(libc::EBUSY, "no room")), None),
        ]);
        assert_eq!(error.errno(), libc::EBUSY);
        assert_eq!(
            error.to_string(),
            "cannot set up real time: class: wanted FIFO, priority 80, had OTHER, nice 0: no room"
        );
    }
}
