//! Sets the state of CPUs: on-line, off-line, no-intr (no device interrupts), spare or faulted.
//!
//! ```text
//! $ psradm -v -i 2-3
//! processor 2 set to no-intr.
//! processor 3 already no-intr.
//! ```
//!
//! Operands are CPU numbers, ranges (`0-3`; numbers that do not exist are skipped) and lists (`0-3,8`). Each CPU is an
//! operation of its own, as on Solaris: a refused one keeps its state and makes the status 1, and the others are
//! changed.
//!
//! # Refusals
//!
//! Three CPUs keep their state: the last on-line CPU of the machine, the last one of its set, and the last one that
//! takes interrupts. A CPU with bound threads goes off-line only with `-F`.
//!
//! Interrupts that cannot move from a no-intr CPU are listed on standard error. This is not an error.
//!
//! # Dry runs
//!
//! Accepted CPUs are one change; each is checked as if those before it were done. A failure of that change restores all
//! of them. `--dry-run` shows this change. With `-v` it also shows interrupt masks that are only remembered, because
//! other programs change them when a CPU stops or starts. In JSON these steps have equal `before` and `after`.
//!
//! # JSON
//!
//! ```text
//! {"changes":[{"from":"on-line","processor":2,"to":"no-intr"}],"notes":[],
//!  "refused":[{"hint":null,"reason":"it is the last one on-line","what":"take processor 0 off-line"}]}
//! --dry-run: {"dry_run":true,"notes":[],"operations":[{"steps":[…],"what":"…"}],"refused":[]}
//! ```

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::json::{self, Describe};
use crate::operands::{self, Expanded};
use millpond_cli::{Example, Flag, Group, Operands, Parsed, Spec, ValueKind};
use millpond_formats::psradm as listing;
use millpond_machine::facets::StateChange;
use millpond_machine::{Processors, Subject};
use millpond_model::{CpuId, CpuSet, State};

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "psradm",
        applet: true,
        summary: "set CPUs on-line, off-line or no-intr",
        section: 8,
        group: Group::Isolate,
        forms: &[
            "[-F] -f | -n | -i | -s [-v] processor ...",
            "[-F] -a -f | -n | -i | -s [-v]",
            "-F [-v] processor ...",
            "-aS [-v]",
        ],
        flags: &[
            Flag::letter('a', "all CPUs"),
            Flag::letter('f', "off-line: runs nothing. It stays in its processor set, and returns to it"),
            Flag::letter(
                'F',
                "force: unbind threads that are bound to the CPU, and let a faulted one leave its state; alone: faulted",
            ),
            Flag::letter('i', "no-intr: runs threads; device interrupts are moved to other CPUs"),
            Flag::letter('n', "on-line: runs threads and takes interrupts"),
            Flag::letter('s', "spare: off-line, for management software to bring back when it is needed"),
            Flag::letter(
                'S',
                "with -a: keep only the first CPU of each core on-line, and disable the others",
            ),
            Flag::letter('v', "print each change"),
        ],
        in_shell: true,
        operands: Operands { shown: "cpu ...", kinds: &[ValueKind::Cpus] },
        examples: &[
            Example { words: "-i 2-5", what: "keep interrupts of devices off CPUs 2 to 5" },
            Example { words: "-f 3", what: "take CPU 3 off-line" },
            Example { words: "-n 2-5", what: "let CPUs 2 to 5 run threads and take interrupts again" },
        ],
        see_also: &["psrinfo(1)", "psrset(8)", "intrstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let usage = |why: &str| Err(Failure::Usage(why.to_owned()));
    if parsed.has('S') && !parsed.has('a') {
        return usage("-S must be used with -a");
    }
    let to = wanted(parsed)?;
    if parsed.has('a') != parsed.operands.is_empty() {
        return usage(if parsed.has('a') {
            "cannot specify processors with -a"
        } else {
            "must specify at least one processor"
        });
    }
    let operands = operands::cpus(&parsed.words())?;
    let session = ctx.changing(&parsed.common)?;
    let machine = session.machine();
    let processors = facet("processors", machine.processors())?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?.showing_notes(parsed.has('v'));
    let job = Job { processors, to, forced: parsed.has('F'), verbose: parsed.has('v') };
    if to == State::Disabled {
        job.disable_siblings(&mut changer, ctx)?;
    } else if parsed.has('a') {
        job.change_each(operands::present(machine)?.iter().map(Ok).collect(), &mut changer, ctx);
    } else {
        let expanded = operands::expand(&operands, machine, |noun| phrase(noun, to))?;
        job.change_each(expanded, &mut changer, ctx);
    }
    Ok(changer.finish(ctx))
}

/// The state that the options name.
fn wanted(parsed: &Parsed) -> Result<State, Failure> {
    let letters = [
        ('f', State::OffLine),
        ('n', State::OnLine),
        ('i', State::NoIntr),
        ('s', State::Spare),
        ('S', State::Disabled),
    ];
    let mut asked = letters.iter().filter(|(letter, _)| parsed.has(*letter)).map(|(_, state)| *state);
    match (asked.next(), asked.next()) {
        (Some(State::Disabled), _) | (_, Some(State::Disabled))
            if parsed.letters().any(|l| !"aSv".contains(l)) =>
        {
            Err(Failure::Usage("-S can only be used with -a and -v".into()))
        }
        (Some(state), None) => Ok(state),
        (Some(_), Some(_)) => Err(Failure::Usage("options -f, -n, -i, and -s are mutually exclusive".into())),
        (None, _) if parsed.has('F') => Ok(State::Faulted),
        (None, _) => Err(Failure::Usage("option -f, -n, -s or -i must be specified".into())),
    }
}

/// The action, for messages: `take processor 3 off-line`.
pub(crate) fn phrase(noun: &str, to: State) -> String {
    match to {
        State::OnLine => format!("bring {noun} on-line"),
        State::OffLine => format!("take {noun} off-line"),
        State::NoIntr => format!("set {noun} to no-intr"),
        State::Disabled => format!("disable {noun}"),
        other => format!("mark {noun} {other}"),
    }
}

struct Job<'m> {
    processors: &'m dyn Processors,
    to: State,
    forced: bool,
    verbose: bool,
}

impl Job<'_> {
    /// Each operand is an operation of its own, but all of them are one change of the machine, so that the machine is
    /// read once. If the change fails while it is made, it is undone as a whole, and each operand is tried alone.
    fn change_each(&self, operands: Vec<Expanded>, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) {
        let cpus: Vec<CpuId> = operands.iter().flatten().copied().collect();
        let judged = match cpus.as_slice() {
            [] | [_] => None,
            cpus => self.processors.prepare_each_state(cpus, self.to, self.forced).ok(),
        };
        let Some(change) = judged else { return self.change_one_by_one(operands, changer, ctx) };
        let refused = change.outcome.clone();
        let is_any_allowed = refused.iter().any(Result::is_ok);
        // In a dry run, there is no report about accepted operations.
        let done = match is_any_allowed.then(|| changer.make(ctx, change)) {
            Some(Err(_)) => return self.change_one_by_one(operands, changer, ctx),
            Some(Ok(done)) => done.is_some(),
            None => false,
        };
        let mut judged = refused.into_iter();
        for operand in operands {
            match operand {
                Err(complaint) => changer.refuse(ctx, complaint),
                Ok(cpu) => match judged.next() {
                    Some(Ok(change)) if done => report(change, self.verbose, changer, ctx),
                    Some(Err(refusal)) => {
                        let main = phrase(&format!("processor {cpu}"), self.to);
                        changer.refuse(ctx, Complaint::refused(&main, |of| self.called(of), &refusal));
                    }
                    _ => {}
                },
            }
        }
    }

    fn change_one_by_one(&self, operands: Vec<Expanded>, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) {
        for operand in operands {
            match operand {
                Ok(cpu) => self.change(cpu, changer, ctx),
                Err(complaint) => changer.refuse(ctx, complaint),
            }
        }
    }

    /// The action on a CPU, for messages.
    fn called(&self, subject: &Subject) -> Option<String> {
        match subject {
            Subject::Processor(cpu) => Some(phrase(&format!("processor {cpu}"), self.to)),
            _ => None,
        }
    }

    /// Changes one CPU.
    fn change(&self, cpu: CpuId, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) {
        let main = phrase(&format!("processor {cpu}"), self.to);
        let prepared = self.processors.prepare_state(cpu, self.to, self.forced);
        if let Some(done) = changer.attempt(ctx, &main, |of| self.called(of), prepared) {
            report(done, self.verbose, changer, ctx);
        }
    }

    /// `-aS`: disables all siblings, or none.
    fn disable_siblings(&self, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
        let topology = read("processors", self.processors.topology())?;
        let spared: CpuSet = topology.cores().iter().filter_map(|core| core.cpus.lowest()).collect();
        let siblings: Vec<CpuId> = (&topology.cpus() - &spared).iter().collect();
        let main = "disable simultaneous multi-threading";
        let prepared = self.processors.prepare_states(&siblings, State::Disabled, true);
        for done in changer.attempt(ctx, main, |of| self.called(of), prepared).unwrap_or_default() {
            report(done, self.verbose, changer, ctx);
        }
        Ok(())
    }
}

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Changes<'_, StateChange>>(), json::of::<DryRun<'_>>()];

fn report(done: StateChange, verbose: bool, changer: &mut Changer<'_>, ctx: &mut Ctx<'_>) {
    let StateChange { cpu, from, to } = done;
    let line = if from == to { listing::already(cpu, to) } else { listing::changed(cpu, to) };
    changer.report(ctx, verbose.then_some(line), done);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(text: &str) -> Result<State, String> {
        let words: Vec<_> = text.split_whitespace().map(Into::into).collect();
        wanted(&millpond_cli::parse(&COMMAND.spec, &words).unwrap()).map_err(|f| match f {
            Failure::Usage(why) => why,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn each_letter_asks_for_a_state() {
        for (text, state) in [
            ("-f 1", State::OffLine),
            ("-n 1", State::OnLine),
            ("-i 1", State::NoIntr),
            ("-s 1", State::Spare),
            ("-F 1", State::Faulted),
            ("-F -f 1", State::OffLine),
            ("-aS", State::Disabled),
            ("-aSv", State::Disabled),
        ] {
            assert_eq!(letters(text), Ok(state), "{text}");
        }
    }

    #[test]
    fn letters_that_contradict_each_other_are_refused() {
        let exclusive = Err("options -f, -n, -i, and -s are mutually exclusive".to_owned());
        assert_eq!(letters("-f -n 1"), exclusive);
        assert_eq!(letters("-is 1"), exclusive);
        assert_eq!(letters("-v 1"), Err("option -f, -n, -s or -i must be specified".to_owned()));
        assert_eq!(letters("-aSf"), Err("-S can only be used with -a and -v".to_owned()));
    }
}
