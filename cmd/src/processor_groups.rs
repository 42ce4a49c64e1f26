//! Common code of `pginfo` and `pgstat`: the groups of a machine, and their selection.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::operands;
use millpond_cli::Parsed;
use millpond_formats::CpuOperand;
use millpond_formats::pg::{PgRange, parse_pgs};
use millpond_machine::Machine;
use millpond_model::{CpuSet, PgId, ProcessorGroup, ProcessorGroups};
use std::collections::BTreeSet;

/// The processor groups and CPUs of a machine.
pub struct Hardware {
    /// The groups.
    pub groups: ProcessorGroups,
    /// All CPUs, including off-line ones.
    pub present: CpuSet,
    /// The on-line CPUs.
    pub on_line: CpuSet,
}

impl Hardware {
    /// Reads the machine. Warns about groups without a place in the tree.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the machine cannot be read.
    pub fn read(machine: &dyn Machine, ctx: &mut Ctx<'_>) -> Result<Hardware, Failure> {
        let processors = facet("processors", machine.processors())?;
        let topology = read("processors", processors.topology())?;
        let states = read("processors", processors.states())?;
        let on_line = states.iter().filter(|status| status.state.runs_threads()).map(|s| s.cpu).collect();
        let groups = ProcessorGroups::new(&topology);
        for (relationship, cpus) in groups.left_out() {
            ctx.warn(format_args!(
                "{relationship} of CPUs {cpus} is left out: it overlaps with other groups"
            ));
        }
        Ok(Hardware { groups, present: topology.cpus(), on_line })
    }
}

/// The selected groups: those that are named or have a named CPU, and whose relationship is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pgs: Vec<PgRange>,
    cpus: Vec<CpuOperand>,
    only: Vec<String>,
    never: Vec<String>,
}

impl Choice {
    /// Parses `-c`, `-r` and `-R`, and words that name groups.
    ///
    /// # Errors
    /// [`Failure::Operand`] with the word and the position of the error.
    pub fn of(parsed: &Parsed, words: &[String]) -> Result<Choice, Failure> {
        let mut pgs = Vec::new();
        for word in words {
            let named = parse_pgs(word).map_err(|error| {
                Failure::Operand(format!("cannot read `{word}` as processor groups: {error}"))
            })?;
            pgs.extend(named);
        }
        let names = |letter| -> Result<Vec<String>, Failure> {
            let words: Vec<String> = parsed.values(letter).iter().map(|text| text.to_lowercase()).collect();
            let names: Vec<String> =
                words.iter().flat_map(|word| word.split(',')).map(str::to_owned).collect();
            if names.iter().any(String::is_empty) {
                return Err(Failure::Operand(format!(
                    "-{letter} takes a part of a relationship's name, such as cache; pginfo -s lists them"
                )));
            }
            Ok(names)
        };
        Ok(Choice { pgs, cpus: operands::cpus(&parsed.values('c'))?, only: names('r')?, never: names('R')? })
    }

    /// The numbers of the selected groups. Each word without a match is reported and sets `exit`; the other words
    /// count.
    ///
    /// # Errors
    /// [`Failure::Refused`] if no group is selected.
    pub fn resolve(
        &self,
        hardware: &Hardware,
        ctx: &mut Ctx<'_>,
        exit: &mut Exit,
    ) -> Result<BTreeSet<PgId>, Failure> {
        let groups = hardware.groups.groups();
        let mut complain = |what: String, why: String, hint: &str, ctx: &mut Ctx<'_>| {
            ctx.complain(&Complaint::new(format!("show {what}"), why).hint(hint));
            *exit = Exit::REFUSED;
        };
        let last = groups.iter().map(|group| group.id).max().unwrap_or(PgId(0));
        for range in self.pgs.iter().filter(|range| range.first > last) {
            let there_are = if last == PgId(0) { "0 alone".to_owned() } else { format!("0-{last}") };
            let why = format!("there is no such processor group (this machine has {there_are})");
            complain(range.to_string(), why, "pginfo -T shows them", ctx);
        }
        let mut cpus = CpuSet::new();
        for operand in &self.cpus {
            let known: Vec<_> = operand.expand(&hardware.present).unwrap_or_default();
            let known: Vec<_> = known.into_iter().filter(|cpu| hardware.present.contains(*cpu)).collect();
            if known.is_empty() {
                let noun = if matches!(operand, CpuOperand::One(_)) { "CPU" } else { "CPUs" };
                let why = operands::no_such_processor(&hardware.present);
                complain(format!("the groups of {noun} {operand}"), why, "psrinfo lists the CPUs", ctx);
            }
            known.into_iter().for_each(|cpu| {
                cpus.insert(cpu);
            });
        }
        let is_meant = |group: &&ProcessorGroup| {
            let named = self.pgs.iter().any(|range| range.first <= group.id && group.id <= range.last);
            let has_cpu = !group.cpus.is_disjoint(&cpus);
            let name = group.relationship.to_string().to_lowercase();
            (self.pgs.is_empty() || named)
                && (self.cpus.is_empty() || has_cpu)
                && (self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str())))
                && !self.never.iter().any(|part| name.contains(part.as_str()))
        };
        let meant: BTreeSet<PgId> = groups.iter().filter(is_meant).map(|group| group.id).collect();
        if meant.is_empty() && *exit == Exit::DONE {
            let complaint = Complaint::new("show processor groups", "no group is like that");
            return Err(complaint.hint("pginfo -s lists the relationships, pginfo -T the groups").into());
        }
        Ok(meant)
    }
}
