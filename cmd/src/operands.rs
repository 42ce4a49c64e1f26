//! Operands of commands: parses words as CPUs, sets and processes, all of them before the first operation.

use crate::failure::{Complaint, Failure, facet, read};
use millpond_formats::{CpuOperand, Target, parse_cpus};
use millpond_machine::{Machine, Reason};
use millpond_model::{CpuId, CpuSet, PsetId};

/// Parses words as CPUs.
///
/// # Errors
/// [`Failure::Operand`] with the word and the position of the error.
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

/// Parses a word as one CPU.
///
/// # Errors
/// [`Failure::Operand`] with the word.
pub fn cpu(word: &str) -> Result<CpuId, Failure> {
    word.parse().map_err(|error| Failure::Operand(format!("cannot read `{word}` as a CPU: {error}")))
}

/// Parses a word as the number of a set.
///
/// # Errors
/// [`Failure::Operand`] with the word.
pub fn set(word: &str) -> Result<PsetId, Failure> {
    word.parse()
        .map_err(|error| Failure::Operand(format!("cannot read `{word}` as a processor set: {error}")))
}

/// Parses words as numbers of sets.
///
/// # Errors
/// [`Failure::Operand`] with the word.
pub fn sets(words: &[String]) -> Result<Vec<PsetId>, Failure> {
    words.iter().map(|word| set(word)).collect()
}

/// Parses words as processes and threads.
///
/// # Errors
/// [`Failure::Operand`] with the word and the position of the error.
pub fn targets(words: &[String]) -> Result<Vec<Target>, Failure> {
    let target = |word: &String| {
        word.parse().map_err(|error| Failure::Operand(format!("cannot read `{word}` as a process: {error}")))
    };
    words.iter().map(target).collect()
}

/// The CPUs of the machine, including off-line ones.
///
/// # Errors
/// [`Failure::Refused`] if the machine cannot be read.
pub fn present(machine: &dyn Machine) -> Result<CpuSet, Failure> {
    let states = read("processors", facet("processors", machine.processors())?.states())?;
    Ok(states.iter().map(|s| s.cpu).collect())
}

/// A CPU of an operand, or the complaint about the operand.
pub type Expanded = Result<CpuId, Complaint>;

/// The CPUs of operands, in order. A number is that CPU, whether it exists or not. A range is its existing CPUs, and
/// a complaint if there are none. `phrase` makes the text of the failed action from a noun such as `processors 8-9`.
/// The machine is read only if there is a range.
///
/// # Errors
/// [`Failure::Refused`] if the machine cannot be read.
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

/// The reason for an unknown CPU, with the text of the machine.
#[must_use]
pub fn no_such_processor(present: &CpuSet) -> String {
    Reason::NoSuchProcessor { present: present.clone() }.to_string()
}
