//! Binds processes and threads to CPUs (sets their affinity), and shows such bindings.
//!
//! ```text
//! $ pbind -b 2 204
//! process id 204: was not bound, now 2
//! $ pbind -c 1-3,5 204
//! process id 204: was 2, now 1-3,5
//! $ pbind -q 204
//! process id 204: 1-3,5
//! ```
//!
//! A bound thread runs on its CPUs only. Other threads may run there, too; a processor set (`psrset`) keeps them away.
//! The CPUs must be on-line or no-intr, and in the set of the thread. Children and new threads inherit the binding, and
//! it survives exec.
//!
//! A CPU with bound threads does not go off-line and does not change sets, except by force (`psradm -F`, `psrset -F`),
//! which ends the bindings.
//!
//! # Operands
//!
//! A process is a process number. A slash and numbers select threads: `204/3`, `204/1-4`, `204/-4` (up to 4), `204/4-`
//! (from 4 on), or a list. On Linux a thread has its kernel thread number.
//!
//! On a simulated machine the command of `-e` is a workload (`millpond sim`).
//!
//! # Linux
//!
//! A binding is an affinity mask. A mask of one CPU is always a binding, whichever program set it. A mask of several is
//! a binding if `pbind -c` set it. Threads and children that inherited it count while that thread lives.
//!
//! # JSON
//!
//! ```text
//! -q, -Q: {"bindings":[{"lwp":null,"pid":204,"processor":2}]}
//!         with several, "processor":[1,2,3,5]
//! changes: {"changes":[{"bound":"processor","from":null,"lwp":null,"pid":204,"to":2}],"notes":[],
//!           "refused":[{"hint":null,"reason":"there is no such process","what":"bind process 9 to processor 2"}]}
//! --dry-run: {"dry_run":true,"notes":[],"operations":[{"steps":[…],"what":"…"}],"refused":[]}
//! ```

use crate::bindings::{self, Bindings, CpuBinding, Cpus, Rebound};
use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::json::{self, Describe};
use crate::operands;
use crate::start::{Start, Started};
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_formats::CpuOperand;
use millpond_machine::Machine;
use millpond_model::{CpuId, CpuSet};
use schemars::JsonSchema;
use serde::Serialize;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] =
    &[json::of::<Bindings<CpuBinding>>(), json::of::<Changes<'_, Done>>(), json::of::<DryRun<'_>>()];

/// A change by `pbind`.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "for the schema: bindings and starts report the structs themselves")]
enum Done {
    Bound(Rebound<Cpus>),
    Started(Started),
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "pbind",
        applet: true,
        summary: "bind processes and threads to CPUs",
        section: 8,
        group: Group::Isolate,
        forms: &[
            "-b processor pid[/lwps] ...",
            "-c processors pid[/lwps] ...",
            "-u pid[/lwps] ...",
            "-U [processor ...]",
            "[-q] [pid[/lwps] ...]",
            "-Q [processor ...]",
            "-e processors command [argument ...]",
        ],
        flags: &[
            Flag::letter('b', "bind to one CPU").value("cpu", ValueKind::Cpus),
            Flag::letter('c', "bind to one or more CPUs, such as 1-3,5").value("cpus", ValueKind::Cpus),
            Flag::letter('e', "run a command, bound to these CPUs")
                .value("cpus", ValueKind::Cpus)
                .operands("", &[ValueKind::Program]),
            Flag::letter(
                'q',
                "show the binding of each; without operands, of all that are bound (the default)",
            ),
            Flag::letter('Q', "show all threads that are bound, or those bound to these CPUs"),
            Flag::letter('u', "unbind"),
            Flag::letter('U', "unbind all threads that are bound, or those bound to these CPUs"),
        ],
        in_shell: true,
        operands: Operands { shown: "pid[/lwps] ...", kinds: &[ValueKind::Process] },
        examples: &[
            Example { words: "-b 2 204", what: "bind process 204 to CPU 2" },
            Example { words: "-c 1-3,5 204", what: "bind process 204 to four CPUs" },
            Example { words: "-u 204", what: "unbind it" },
            Example { words: "-e 2 ./trader", what: "run a program on CPU 2" },
        ],
        status: &[
            ("0", "everything was done"),
            ("1", "something was refused; what could be done was done"),
            MISUSED,
            ("other", "with -e: the exit status of the command"),
        ],
        see_also: &["psrset(8)", "psrinfo(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let mut letters: Vec<char> = parsed.letters().collect();
    letters.dedup();
    if letters.len() > 1 {
        return Err(Failure::Usage("options -b, -c, -e, -q, -Q, -u and -U are mutually exclusive".into()));
    }
    let words = parsed.words();
    let to = Place::of(parsed)?;
    match letters.first() {
        Some('b' | 'c' | 'u') if words.is_empty() => {
            Err(Failure::Usage("must specify at least one pid".into()))
        }
        Some('e') if words.is_empty() => Err(Failure::Usage("must specify command".into())),
        Some('b' | 'c' | 'u') => {
            let targets = operands::targets(&words)?;
            let session = ctx.changing(&parsed.common)?;
            let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
            match to.on(session.machine())? {
                Ok(to) => bindings::bind(session.machine(), &targets, to.as_ref(), &mut changer, ctx)?,
                Err(complaint) => changer.refuse(ctx, complaint),
            }
            Ok(changer.finish(ctx))
        }
        Some('e') => {
            let understood = |session: &_| Start::of(session, &parsed.operands);
            let (session, start) = ctx.changing_once(&parsed.common, understood)?;
            let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
            match to.on(session.machine())? {
                Ok(to) => bindings::execute(&session, &start, to.as_ref(), changer, ctx),
                Err(complaint) => {
                    changer.refuse(ctx, complaint);
                    Ok(changer.finish(ctx))
                }
            }
        }
        Some('U') => {
            let operands = operands::cpus(&words)?;
            let session = ctx.changing(&parsed.common)?;
            let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
            let (from, unknown) = existing(&operands, session.machine(), "unbind from")?;
            unknown.into_iter().for_each(|complaint| changer.refuse(ctx, complaint));
            bindings::unbind_all::<CpuSet>(session.machine(), from.as_deref(), &mut changer, ctx)?;
            Ok(changer.finish(ctx))
        }
        Some('Q') => {
            let operands = operands::cpus(&words)?;
            let session = ctx.reading(&parsed.common)?;
            let (of, unknown) = existing(&operands, session.machine(), "query")?;
            unknown.iter().for_each(|complaint| ctx.complain(complaint));
            bindings::query_lwps::<CpuSet>(session.machine(), of.as_deref(), parsed.common.json, ctx)?;
            Ok(if unknown.is_empty() { Exit::DONE } else { Exit::REFUSED })
        }
        _ => {
            let targets = operands::targets(&words)?;
            let session = ctx.reading(&parsed.common)?;
            bindings::query::<CpuSet>(session.machine(), &targets, parsed.common.json, ctx)
        }
    }
}

/// The CPUs of `-b`, `-c` and `-e`.
struct Place(Vec<CpuOperand>);

impl Place {
    fn of(parsed: &Parsed) -> Result<Place, Failure> {
        if let Some(word) = parsed.value('b') {
            return match (operands::cpu(&word), operands::cpus(std::slice::from_ref(&word))) {
                (Ok(cpu), _) => Ok(Place(vec![CpuOperand::One(cpu)])),
                (Err(_), Ok(several)) if !several.is_empty() => Err(Failure::Operand(format!(
                    "-b binds to one processor, not to `{word}`: -c binds to several"
                ))),
                (Err(error), _) => Err(error),
            };
        }
        let list = parsed.value('c').or_else(|| parsed.value('e'));
        list.map_or(Ok(Place(Vec::new())), |word| operands::cpus(&[word]).map(Place))
    }

    /// The CPUs on a machine. `None` if the processes are to be unbound.
    fn on(&self, machine: &dyn Machine) -> Result<Result<Option<CpuSet>, Complaint>, Failure> {
        let expanded = operands::expand(&self.0, machine, |noun| format!("bind to {noun}"))?;
        let cpus: Result<CpuSet, Complaint> = expanded.into_iter().collect();
        Ok(cpus.map(|cpus| Some(cpus).filter(|cpus| !cpus.is_empty())))
    }
}

/// The named CPUs that exist (`None` if no CPU is named), and a complaint for each that does not exist.
fn existing(
    operands: &[CpuOperand],
    machine: &dyn Machine,
    verb: &str,
) -> Result<(Option<Vec<CpuId>>, Vec<Complaint>), Failure> {
    if operands.is_empty() {
        return Ok((None, Vec::new()));
    }
    let present = operands::present(machine)?;
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for one in operands::expand(operands, machine, |noun| format!("{verb} {noun}"))? {
        match one {
            Ok(cpu) if present.contains(cpu) => known.push(cpu),
            Ok(cpu) => {
                let reason = operands::no_such_processor(&present);
                unknown.push(Complaint::new(format!("{verb} processor {cpu}"), reason));
            }
            Err(complaint) => unknown.push(complaint),
        }
    }
    Ok((Some(known), unknown))
}
