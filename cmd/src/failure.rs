//! Exit statuses of commands, and the wording of refusals.

use millpond_cli::Misuse;
use millpond_machine::{Absent, Reason, Refusal, Subject};
use millpond_model::Pid;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Exit(pub u8);

impl Exit {
    /// Everything was done.
    pub const DONE: Exit = Exit(0);
    /// Something was refused. Everything else was done.
    pub const REFUSED: Exit = Exit(1);
    /// The command line is invalid. Nothing was done.
    pub const USAGE: Exit = Exit(2);

    /// The worse of both.
    #[must_use]
    pub fn and(self, other: Exit) -> Exit {
        self.max(other)
    }
}

/// The reason why a command ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Invalid combination of options. The usage is shown.
    Usage(String),
    /// An unknown option, and the one that was probably meant.
    Mistyped(String, String),
    /// An invalid operand.
    Operand(String),
    /// The same with the message of Solaris, and the position of the error.
    Mistake(String, String),
    /// A refusal of the machine or the session.
    Refused(Complaint),
    /// The exact message of Solaris, and a remedy.
    Said(String, Option<String>),
    /// A message of Solaris without the program name, with the usage after it, and a remedy.
    Misuse(String, String),
}

/// A refused operation: `cannot assign processor 7: it is the last one in the default set`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Complaint {
    /// Verb, noun and number: `assign processor 7`.
    pub what: String,
    /// The second half of the sentence.
    pub reason: String,
    /// A remedy, if one is known.
    pub hint: Option<String>,
}

impl Complaint {
    /// A complaint without a remedy.
    #[must_use]
    pub fn new(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Complaint { what: what.into(), reason: reason.into(), hint: None }
    }

    /// The same with a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A refusal of `main`. For a subject that is a part of it, `names` returns a more exact phrase: `assign
    /// processor 7` if a set cannot be made because of processor 7. For any other subject the phrase is `main`, and
    /// the reason names the subject.
    #[must_use]
    pub fn refused(main: &str, names: impl Fn(&Subject) -> Option<String>, refusal: &Refusal) -> Self {
        let reason = &refusal.reason;
        let hint = remedy(refusal).or_else(|| refusal.hint.clone()).or_else(|| last_resort(reason));
        let reason = reason.to_string();
        let (what, reason) = match &refusal.subject {
            Subject::Operation => (main.to_owned(), reason),
            subject => match names(subject) {
                Some(what) => (what, reason),
                None => (main.to_owned(), format!("{subject}: {reason}")),
            },
        };
        Complaint { what, reason, hint }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.what, self.reason)
    }
}

/// The remedy for a reason, in terms of the commands. It precedes the suggestion of a machine, so that the same
/// refusal has the same text on every machine.
fn remedy(refusal: &Refusal) -> Option<String> {
    let named = match &refusal.subject {
        Subject::Processor(cpu) => format!(" {cpu}"),
        Subject::Process(pid) => format!(" {pid}"),
        Subject::Thread(lwp) => format!(" {lwp}"),
        _ => String::new(),
    };
    Some(match &refusal.reason {
        Reason::NoSuchPset => "psrset -i lists the sets that exist".into(),
        Reason::LastOfDefault => "the system itself needs one; give another one back first: psrset -r".into(),
        Reason::LastOfBusy(set) => format!("unbind them first: psrset -U {set}"),
        Reason::NotActive(_) => format!("bring it on-line first: psradm -n{named}"),
        Reason::EmptyPset(set) => format!("assign CPUs to it first: psrset -a {set}"),
        Reason::BoundElsewhere { .. } => format!("unbind it from the CPU first: pbind -u{named}"),
        Reason::ProcessorInOtherPset { of, .. } if of.is_default() => {
            format!("unbind it from its set first: psrset -u{named}")
        }
        Reason::ProcessorInOtherPset { of, .. } => {
            format!("bind it to that set first: psrset -b {of}{named}")
        }
        Reason::BoundThreads(lwps) => {
            let pids: BTreeSet<Pid> = lwps.iter().map(|lwp| lwp.pid).collect();
            let pids: String = pids.iter().map(|pid| format!(" {pid}")).collect();
            format!("unbind them first: pbind -u{pids}; or add -F")
        }
        Reason::LastInterruptible => "let another one take interrupts first: psradm -n".into(),
        Reason::NeedsForce => "add -F to force the change".into(),
        _ => return None,
    })
}

/// The remedy if the machine suggests none.
fn last_resort(reason: &Reason) -> Option<String> {
    let hint = match reason {
        Reason::ProcessInPset(_) => "bind the process",
        Reason::NotPermitted => "this needs the rights of the superuser",
        Reason::Busy(_) => "try again when it is done",
        _ => return None,
    };
    Some(hint.to_owned())
}

impl Failure {
    /// The exit status of the command after this failure.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_)
            | Failure::Mistyped(..)
            | Failure::Operand(_)
            | Failure::Mistake(..)
            | Failure::Misuse(..) => Exit::USAGE,
            Failure::Refused(_) | Failure::Said(..) => Exit::REFUSED,
        }
    }
}

impl From<Misuse> for Failure {
    fn from(misuse: Misuse) -> Self {
        match misuse.meant {
            Some(meant) => Failure::Mistyped(misuse.what, meant),
            None => Failure::Usage(misuse.what),
        }
    }
}

impl From<Complaint> for Failure {
    fn from(complaint: Complaint) -> Self {
        Failure::Refused(complaint)
    }
}

/// A facet that the command requires: `cannot use processor sets: …`.
///
/// # Errors
/// [`Failure::Refused`] with the reason of its absence and a remedy.
pub fn facet<T>(noun: &str, facet: Result<T, Absent>) -> Result<T, Failure> {
    unless_absent(&format!("use {noun}"), facet)
}

/// Something that the machine may lack: `cannot watch processes: …`.
///
/// # Errors
/// [`Failure::Refused`] with the reason of its absence and a remedy.
pub fn unless_absent<T>(what: &str, result: Result<T, Absent>) -> Result<T, Failure> {
    result.map_err(|Absent { why, what_would_help }| {
        Failure::Refused(Complaint { what: what.to_owned(), reason: why, hint: what_would_help })
    })
}

/// Data that the command requires: `cannot read CPUs: …`.
///
/// # Errors
/// [`Failure::Refused`] with the machine's reason.
pub fn read<T>(noun: &str, result: Result<T, Refusal>) -> Result<T, Failure> {
    result.map_err(|r| Failure::Refused(Complaint::refused(&format!("read {noun}"), |_| None, &r)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{CpuId, PsetId};

    fn names(subject: &Subject) -> Option<String> {
        match subject {
            Subject::Processor(cpu) => Some(format!("assign processor {cpu}")),
            _ => None,
        }
    }

    #[test]
    fn the_subject_finds_its_place_in_the_sentence() {
        let said = |subject, reason| {
            Complaint::refused("create processor set", names, &Refusal::new(subject, reason)).to_string()
        };
        assert_eq!(
            said(Subject::Processor(CpuId(7)), Reason::LastOfDefault),
            "cannot assign processor 7: it is the last one in the default set"
        );
        assert_eq!(
            said(Subject::Operation, Reason::NotPermitted),
            "cannot create processor set: permission denied"
        );
        assert_eq!(
            said(Subject::Pset(PsetId(3)), Reason::NoSuchPset),
            "cannot create processor set: processor set 3: there is no such processor set"
        );
    }

    #[test]
    fn a_command_knows_its_letters_better_than_the_machine_and_the_machine_everything_else() {
        let hint = |reason| Complaint::refused("x", names, &Refusal::operation(reason).hint("ask Kim")).hint;
        assert_eq!(hint(Reason::NeedsForce).as_deref(), Some("add -F to force the change"));
        assert_eq!(hint(Reason::NotPermitted).as_deref(), Some("ask Kim"));
        let bare = Complaint::refused("x", names, &Refusal::operation(Reason::NotPermitted)).hint;
        assert_eq!(bare.as_deref(), Some("this needs the rights of the superuser"));
    }

    #[test]
    fn the_worse_of_two_ends_counts() {
        assert_eq!(Exit::DONE.and(Exit::REFUSED), Exit::REFUSED);
        assert_eq!(Exit::USAGE.and(Exit::REFUSED), Exit::USAGE);
    }
}
