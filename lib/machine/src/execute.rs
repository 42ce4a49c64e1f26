//! The executor: applies prepared changes, all or nothing, and repairs the unfinished operation of a killed writer.
//!
//! It makes no decisions. The steps and their order come from the facet that prepared them.

use crate::{
    Change, Guard, Journal, JournalError, Knob, KnobError, Machine, Reason, Refusal, Step, Subject, Value,
};
use std::fmt;

/// The maximum number of settle rounds after a change. Each round handles the threads that were created during the previous one; against a
/// fork bomb more rounds do not help.
const SETTLE_ROUNDS_MAX: usize = 32;

/// The only writer of a machine. While it exists no other program can change the machine through this interface.
pub struct Writer<'m> {
    machine: &'m dyn Machine,
    repaired: Option<Repair>,
    _guard: Box<dyn Guard>,
}

/// An applied change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed<T> {
    /// The new state.
    pub outcome: T,
    /// Notes for the user: those of the preparation, and refused steps that were tolerated.
    pub notes: Vec<String>,
    /// The number of applied steps.
    pub steps: usize,
}

/// The repair of an operation that its writer did not finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// A description of the operation.
    pub what: String,
    /// One finding per knob, in the order of restoration.
    pub findings: Vec<(Knob, Finding)>,
}

/// The result of the repair of one knob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It had not been changed yet.
    Untouched,
    /// It was restored.
    PutBack,
    /// Its owner no longer exists.
    Gone,
    /// Another program has changed it since; it was left unchanged.
    Foreign {
        /// Its present value.
        is: Option<Value>,
    },
    /// It could not be restored.
    Refused(String),
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |want: fn(&Finding) -> bool| self.findings.iter().filter(|(_, x)| want(x)).count();
        write!(f, "an unfinished change was put back: {}", self.what)?;
        let foreign = count(|x| matches!(x, Finding::Foreign { .. }));
        if foreign > 0 {
            write!(f, "; {foreign} of its knobs were changed by another program and left alone")?;
        }
        let refused = count(|x| matches!(x, Finding::Refused(_)));
        if refused > 0 {
            write!(f, "; {refused} of its knobs could not be put back")?;
        }
        Ok(())
    }
}

impl<'m> Writer<'m> {
    /// Becomes the writer: takes the lock, and undoes an unfinished operation of an earlier writer.
    ///
    /// # Errors
    /// [`Refusal`] if the lock or the journal is not available.
    pub fn open(machine: &'m dyn Machine) -> Result<Self, Refusal> {
        let guard = machine.lock()?;
        let repaired = repair(machine)?;
        let writer = Writer { machine, repaired, _guard: guard };
        if writer.repaired.is_some() {
            // Settling restores values that a kernel does not restore itself (masks, before Linux 6.2). If it fails here, the
            // next change settles again.
            let _ = writer.settle();
        }
        // If publishing fails here, the next change publishes again and reports the failure.
        let _ = machine.publish();
        Ok(writer)
    }

    /// The repair at the opening of the writer, if any.
    #[must_use]
    pub fn repaired(&self) -> Option<&Repair> {
        self.repaired.as_ref()
    }

    /// Applies a prepared change, and further steps until the machine is settled.
    ///
    /// # Errors
    /// The [`Refusal`] of the first failed step, after everything was undone. Its hint names the knobs that could not be restored.
    pub fn commit<T>(&self, change: Change<T>) -> Result<Committed<T>, Refusal> {
        let journal = self.machine.journal();
        let mut notes = change.notes;
        journal.moment("begin");
        journal.begin(&change.what, &self.machine.boot_id(), &change.steps).map_err(cannot_journal)?;
        journal.moment("intended");
        let mut applied = Vec::new();
        let result = self.run(change.steps, &mut applied, &mut notes);
        match result {
            Ok(()) => {
                journal.moment("applied");
                if let Err(error) = journal.commit() {
                    let refusal = self.put_back(&applied, cannot_journal(error));
                    // An abort needs no disk space, so it can succeed after a failed commit. If it fails too, the next writer finds all
                    // knobs at their former values.
                    let _ = journal.abort();
                    return Err(refusal);
                }
                journal.moment("committed");
                notes.extend(self.machine.publish());
                Ok(Committed { outcome: change.outcome, notes, steps: applied.len() })
            }
            Err(refusal) => {
                let refusal = self.put_back(&applied, refusal);
                journal.moment("undone");
                journal.abort().map_err(cannot_journal)?;
                Err(refusal)
            }
        }
    }

    /// Settles the machine: restores the requested state of its live sets.
    ///
    /// # Errors
    /// See [`Writer::commit`].
    pub fn settle(&self) -> Result<Committed<()>, Refusal> {
        let steps = to_do(self.machine)?;
        if steps.is_empty() {
            return Ok(Committed { outcome: (), notes: self.machine.publish(), steps: 0 });
        }
        self.commit(Change::new("bring the machine to what its sets want", steps, ()))
    }

    fn run(&self, first: Vec<Step>, applied: &mut Vec<Step>, notes: &mut Vec<String>) -> Result<(), Refusal> {
        let journal = self.machine.journal();
        let mut steps = first;
        let mut tolerated: Vec<Knob> = Vec::new();
        for round in 0.. {
            for step in steps {
                let done = self.apply(&step, notes).inspect_err(|_| {
                    // A failed step may be half applied: a cgroup without its files. Undoing checks the actual state.
                    applied.push(step.clone());
                })?;
                if done {
                    applied.push(step);
                } else {
                    journal.refused(&step.knob).map_err(cannot_journal)?;
                    tolerated.push(step.knob);
                }
                journal.moment(&format!("step-{}", applied.len()));
            }
            steps = to_do(self.machine)?;
            steps.retain(|s| !tolerated.contains(&s.knob));
            if steps.is_empty() {
                return Ok(());
            }
            journal.extend(&steps).map_err(cannot_journal)?;
            if round == SETTLE_ROUNDS_MAX {
                let step = steps.swap_remove(0);
                let what = self.machine.called(&step.knob);
                applied.push(step.clone());
                // If the value is correct right after the write, another program had changed it before.
                let is_kept = self.apply(&step, notes)?
                    && self.machine.read(&step.knob).is_ok_and(|value| value == step.after);
                let why = format!("it is still not settled after {SETTLE_ROUNDS_MAX} rounds: {what}");
                return Err(Refusal::operation(Reason::Machine(why)).hint(if is_kept {
                    "another program keeps changing it: stop it, or try again"
                } else {
                    "the kernel does not keep what is written there: report it with a capture (millpond capture)"
                }));
            }
        }
        Ok(())
    }

    /// Applies one step. `false` if it was refused and may be.
    fn apply(&self, step: &Step, notes: &mut Vec<String>) -> Result<bool, Refusal> {
        if step.is_note() || step.falls {
            return Ok(true);
        }
        match self.machine.write(&step.knob, step.after.as_ref()) {
            Ok(()) => Ok(true),
            Err(KnobError::Gone) if step.may_refuse => Ok(false),
            Err(error) if step.may_refuse => {
                notes.push(error.note(&self.machine.called(&step.knob)));
                Ok(false)
            }
            Err(error) => Err(error.into_refusal(Subject::Operation, &self.machine.called(&step.knob))),
        }
    }

    /// Undoes steps, newest first, and returns the refusal of the whole operation. Its hint names the knobs that could not be restored.
    fn put_back(&self, applied: &[Step], refusal: Refusal) -> Refusal {
        self.machine.undoing();
        let stays = |(knob, finding): (Knob, Finding)| match finding {
            Finding::Refused(why) => Some(format!("{}: {why}", self.machine.called(&knob))),
            _ => None,
        };
        let left: Vec<String> = put_back_all(&self.machine, applied).into_iter().filter_map(stays).collect();
        if left.is_empty() { refusal } else { refusal.hint(format!("not put back: {}", left.join("; "))) }
    }
}

/// Steps that a writer applies in addition to a change: settling, and forgetting ended objects.
fn to_do(machine: &dyn Machine) -> Result<Vec<Step>, Refusal> {
    let mut steps = machine.settle()?;
    steps.extend(machine.stale());
    Ok(steps)
}

/// Whether a writer without a change would have nothing to do: no unfinished operation, the machine is settled, and no
/// notice is due. Only reads, and blocks no writer.
///
/// # Errors
/// [`Refusal`] if the machine or its journal cannot be read.
pub fn is_at_rest(machine: &dyn Machine) -> Result<bool, Refusal> {
    let unfinished = machine.journal().unfinished().map_err(cannot_journal)?;
    Ok(unfinished.is_none() && to_do(machine)?.is_empty() && machine.is_published())
}

fn cannot_journal(error: JournalError) -> Refusal {
    match error {
        JournalError::NoSpace(why) => Refusal::operation(Reason::Journal(why))
            .hint("nothing was changed; free some space and try again"),
        JournalError::Unwritable(why) => Refusal::operation(Reason::Journal(why))
            .hint("nothing was changed; check the file system of the state directory"),
        JournalError::Damaged(why) => {
            Refusal::operation(Reason::Machine(format!("the journal cannot be read: {why}")))
                .hint("nothing was changed; millpond doctor --repair keeps what can be understood of it")
        }
    }
}

/// Undoes an unfinished operation: newest step first, each only if the knob still has one of the values in the journal. The caller holds
/// the lock.
///
/// # Errors
/// [`Refusal`] if the journal cannot be read or written.
pub fn repair(machine: &dyn Machine) -> Result<Option<Repair>, Refusal> {
    let journal: &dyn Journal = machine.journal();
    journal.forget_other_boots(&machine.boot_id()).map_err(cannot_journal)?;
    let Some(operation) = journal.unfinished().map_err(cannot_journal)? else { return Ok(None) };
    let findings = put_back_all(&machine, &operation.steps);
    journal.abort().map_err(cannot_journal)?;
    Ok(Some(Repair { what: operation.what, findings }))
}

/// Reading and writing of knobs while steps are undone.
trait Knobs {
    fn value(&self, knob: &Knob) -> Result<Option<Value>, KnobError>;
    fn give(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError>;
}

impl Knobs for &dyn Machine {
    fn value(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
        self.read(knob)
    }

    fn give(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
        self.write(knob, value)
    }
}

/// Undoes steps, newest first. Returns the result for each knob.
fn put_back_all(knobs: &dyn Knobs, steps: &[Step]) -> Vec<(Knob, Finding)> {
    let is_named = |knob: &Knob, is: &Option<Value>| {
        steps.iter().any(|s| s.knob == *knob && (s.before == *is || s.after == *is))
    };
    let finding = |(at, step): (usize, &Step)| {
        let is_first = !steps[..at].iter().any(|before| before.knob == step.knob);
        match put_back_one(knobs, step) {
            // The value belongs to another step of the same knob. An older step restores it. The oldest step writes it itself, because a
            // newer one may have failed: a mask stays narrow while a partition exists.
            Finding::Foreign { is } if is_named(&step.knob, &is) && is_first => write_back(knobs, step),
            Finding::Foreign { is } if is_named(&step.knob, &is) => Finding::Untouched,
            Finding::Refused(_) if !is_first => Finding::Untouched,
            finding => finding,
        }
    };
    steps.iter().enumerate().rev().map(|(at, step)| (step.knob.clone(), finding((at, step)))).collect()
}

fn put_back_one(knobs: &dyn Knobs, step: &Step) -> Finding {
    if step.is_note() {
        return Finding::Untouched;
    }
    let is = match knobs.value(&step.knob) {
        Ok(value) => value,
        Err(KnobError::Gone) => return Finding::Gone,
        Err(error) => return Finding::Refused(error.to_string()),
    };
    if is == step.before {
        return Finding::Untouched;
    }
    if is != step.after {
        return if is.is_none() { Finding::Gone } else { Finding::Foreign { is } };
    }
    write_back(knobs, step)
}

fn write_back(knobs: &dyn Knobs, step: &Step) -> Finding {
    match knobs.give(&step.knob, step.before.as_ref()) {
        Ok(()) => Finding::PutBack,
        Err(KnobError::Gone) => Finding::Gone,
        Err(error) => Finding::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    /// A kernel (Linux 7.2) that narrows a mask while a partition exists, and leaves it narrow afterwards.
    #[derive(Default)]
    struct Kernel(RefCell<BTreeMap<String, String>>);

    impl Knobs for Kernel {
        fn value(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
            Ok(self.0.borrow().get(&knob.0).cloned())
        }

        fn give(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
            let has_partition = self.0.borrow().contains_key("partition");
            let narrowed = |value: &Value| if has_partition { "0".to_owned() } else { value.clone() };
            match value {
                Some(value) => drop(self.0.borrow_mut().insert(knob.0.clone(), narrowed(value))),
                None => drop(self.0.borrow_mut().remove(&knob.0)),
            }
            Ok(())
        }
    }

    fn step(knob: &str, before: Option<&str>, after: Option<&str>) -> Step {
        Step::new(Knob(knob.to_owned()), before.map(str::to_owned), after.map(str::to_owned))
    }

    #[test]
    fn a_mask_that_stays_narrow_while_a_partition_stands_is_put_back_by_the_oldest_step() {
        let steps = [
            step("mask", Some("0-3"), Some("all")).falling(),
            step("partition", None, Some("root")),
            step("mask", Some("0-3"), Some("0")),
        ];
        let kernel = Kernel::default();
        let has = [("mask", "0"), ("partition", "root")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        kernel.0.replace(BTreeMap::from(has));
        let findings: Vec<Finding> = put_back_all(&kernel, &steps).into_iter().map(|(_, f)| f).collect();
        assert_eq!(findings, [Finding::PutBack, Finding::PutBack, Finding::PutBack]);
        assert_eq!(kernel.0.take(), BTreeMap::from([("mask".to_owned(), "0-3".to_owned())]));
    }

    #[test]
    fn what_somebody_else_wrote_stays() {
        let steps = [step("mask", Some("0-3"), Some("0"))];
        let kernel = Kernel::default();
        kernel.0.borrow_mut().insert("mask".to_owned(), "5".to_owned());
        let findings: Vec<Finding> = put_back_all(&kernel, &steps).into_iter().map(|(_, f)| f).collect();
        assert_eq!(findings, [Finding::Foreign { is: Some("5".to_owned()) }]);
        assert_eq!(kernel.0.borrow()["mask"], "5");
    }
}
