//! Operands as commands use them: words to processors, sets and processes, all of them before anything is
//! done.

use crate::failure::{Complaint, Failure, facet, read};
use millpond_formats::{CpuOperand, Target, parse_cpus};
use millpond_machine::{Machine, Reason};
use millpond_model::{CpuId, CpuSet, PsetId};

/// Understands words as processors.
///
/// # Errors
/// [`Failure::Operand`] with the word and the place in it.
pub fn cpus(words: &[String]) -> Result<Vec<CpuOperand>, Failure> {
    let mut operands = Vec::new();
    for word in words {
        let parsed = parse_cpus(word).map_err(|error| match word.starts_with('-') {
            true => Failure::Usage(format!("options stand before the CPUs: {word}")),
            false => Failure::Operand(format!("cannot read `{word}` as CPUs: {error}")),
        })?;
        operands.extend(parsed);
    }
    Ok(operands)
}

/// Understands a word as one processor.
///
/// # Errors
/// [`Failure::Operand`] with the word.
pub fn cpu(word: &str) -> Result<CpuId, Failure> {
    word.parse().map_err(|error| Failure::Operand(format!("cannot read `{word}` as a CPU: {error}")))
}

/// Understands a word as the number of a set.
///
/// # Errors
/// [`Failure::Operand`] with the word.
pub fn set(word: &str) -> Result<PsetId, Failure> {
    word.parse()
        .map_err(|error| Failure::Operand(format!("cannot read `{word}` as a processor set: {error}")))
}

/// Understands words as numbers of sets.
///
/// # Errors
/// [`Failure::Operand`] with the word.
pub fn sets(words: &[String]) -> Result<Vec<PsetId>, Failure> {
    words.iter().map(|word| set(word)).collect()
}

/// Understands words as processes and threads.
///
/// # Errors
/// [`Failure::Operand`] with the word and the place in it.
pub fn targets(words: &[String]) -> Result<Vec<Target>, Failure> {
    let target = |word: &String| {
        word.parse().map_err(|error| Failure::Operand(format!("cannot read `{word}` as a process: {error}")))
    };
    words.iter().map(target).collect()
}

/// The processors of the machine, off-line ones included.
///
/// # Errors
/// [`Failure::Refused`] when the machine cannot be read.
pub fn present(machine: &dyn Machine) -> Result<CpuSet, Failure> {
    let states = read("processors", facet("processors", machine.processors())?.states())?;
    Ok(states.iter().map(|s| s.cpu).collect())
}

/// What an operand stands for on a machine.
pub type Expanded = Result<CpuId, Complaint>;

/// The processors that operands stand for, in order. A number stands for itself, whether the machine has it
/// or not; a range for those that exist, and is a complaint where none does. `phrase` says what was to be done
/// with the noun (`processors 8-9`) that it is given. The machine is asked only when there is a range.
///
/// # Errors
/// [`Failure::Refused`] when the machine cannot be read.
pub fn expand(
    operands: &[CpuOperand],
    machine: &dyn Machine,
    phrase: impl Fn(&str) -> String,
) -> Result<Vec<Expanded>, Failure> {
    let ranges = operands.iter().any(|o| matches!(o, CpuOperand::Range { .. }));
    let present = if ranges { present(machine)? } else { CpuSet::new() };
    let mut expanded = Vec::new();
    for operand in operands {
        match operand.expand(&present) {
            Some(cpus) => expanded.extend(cpus.into_iter().map(Ok)),
            None => {
                let what = phrase(&format!("processors {operand}"));
                let why = format!("there are no such CPUs (this machine has {present})");
                expanded.push(Err(Complaint::new(what, why)));
            }
        }
    }
    Ok(expanded)
}

/// The reason why a processor is unknown, in the machine's own words.
#[must_use]
pub fn no_such_processor(present: &CpuSet) -> String {
    Reason::NoSuchProcessor { present: present.clone() }.to_string()
}
