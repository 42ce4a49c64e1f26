//! Outcomes of a set-up, with the remedy for each refusal.

use std::error::Error;
use std::fmt;
use std::io;

/// An item of a set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Item {
    /// Affinity of the thread.
    Cpus,
    /// All memory of the process, locked.
    Memory,
    /// Memory for the allocator, pre-faulted.
    Heap,
    /// The stack of the thread, pre-faulted and locked.
    Stack,
    /// Limit of the CPUs' idle states.
    IdleLatency,
    /// Maximum delay of the thread's timers.
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

/// Why an item was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The errno of the system, or a matching one.
    pub errno: i32,
    /// The refused operation and its remedy, in one sentence.
    pub reason: String,
}

impl Refusal {
    pub(super) fn new(errno: i32, reason: impl Into<String>) -> Refusal {
        Refusal { errno, reason: reason.into() }
    }

    /// A refusal with the system's message.
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

/// Converts the result of a call that returns 0, or sets errno.
pub(super) fn check(answer: impl Into<i64>) -> io::Result<()> {
    if answer.into() == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The outcome of one item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The item.
    pub item: Item,
    /// Whether the item is required.
    pub is_required: bool,
    /// The wanted state.
    pub wanted: String,
    /// The state after the call.
    pub had: String,
    /// Why it was refused, or could not be restored. `None`: the state is as wanted.
    pub refusal: Option<Refusal>,
    /// A warning about an item that was set up.
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

/// A failed set-up or undo.
#[derive(Debug)]
#[non_exhaustive]
pub enum RealtimeError {
    /// A required item was refused: the last of these outcomes. The others were restored, except where an outcome has a refusal.
    Required(Vec<Outcome>),
    /// These items could not be restored. All others were.
    Undo(Vec<Outcome>),
}

impl RealtimeError {
    /// The outcome of each attempted item.
    #[must_use]
    pub fn outcomes(&self) -> &[Outcome] {
        match self {
            RealtimeError::Required(outcomes) | RealtimeError::Undo(outcomes) => outcomes,
        }
    }

    /// Its errno, positive: of the required item, or of the first that could not be restored.
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
