//! Binds processes and threads to a processor, and shows such bindings.
//!
//! A thread that is bound to a processor runs there and nowhere else; others may run there too (to keep them
//! away, make a processor set: `psrset`). The processor must be on-line or no-intr, and in the set that the
//! thread is in. Children and new threads inherit the binding, and it survives exec. It keeps the processor
//! from going off-line and from changing sets, unless by force (`psradm -F`, `psrset -F`), which ends it.
//!
//! A process is named by its number; some of its threads by their numbers after a slash: `204/3`, `204/1-4`,
//! `204/-4` (up to 4), `204/4-` (from 4 on), and lists of these separated by commas. On a Linux machine the
//! number of a thread is its kernel thread number.
//!
//! # Options
//!
//! ```text
//! -b PROCESSOR PID[/LWPS] ...      bind
//! -u PID[/LWPS] ...                unbind
//! -U [PROCESSOR ...]               unbind all threads that are bound (to one of these)
//! -q [PID[/LWPS] ...]              show the binding of each; without operands, all that are bound (the default)
//! -Q [PROCESSOR ...]               show all threads that are bound (to one of these)
//! -e PROCESSOR COMMAND [ARG ...]   bind this process, then become COMMAND
//! ```
//!
//! On a simulated machine COMMAND is a workload (`millpond sim` lists them), which becomes a process there.
//!
//! ```text
//! $ pbind -b 2 204
//! process id 204: was not bound, now 2
//! $ pbind -q 204
//! process id 204: 2
//! ```
//!
//! # JSON
//!
//! ```text
//! -q, -Q: {"bindings":[{"lwp":null,"pid":204,"processor":2}]}
//! changes: {"changes":[{"bound":"processor","from":null,"lwp":null,"pid":204,"to":2}],"notes":[],
//!           "refused":[{"hint":null,"reason":"there is no such process","what":"bind process 9 to processor 2"}]}
//! --dry-run: {"dry_run":true,"notes":[],"operations":[{"steps":[…],"what":"…"}],"refused":[]}
//! ```
//!
//! # Status
//!
//! 0, or 1 when something was refused (what could be done was done), or 2 for what makes no sense (nothing was
//! done). With `-e` it is that of COMMAND.

use crate::args::Parsed;
use crate::bindings;
use crate::change::Changer;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::operands;
use crate::start::Start;
use millpond_formats::CpuOperand;
use millpond_machine::Machine;
use millpond_model::CpuId;

pub(crate) const COMMAND: Command = Command {
    name: "pbind",
    applet: true,
    summary: "bind processes and threads to a processor",
    usage: &[
        "-b processor pid[/lwps] ...",
        "-u pid[/lwps] ...",
        "-U [processor ...]",
        "[-q] [pid[/lwps] ...]",
        "-Q [processor ...]",
        "-e processor command [argument ...]",
    ],
    letters: "b:e:qQuU",
    longs: &[],
    source: include_str!("mod.rs"),
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let mut letters: Vec<char> = parsed.letters().collect();
    letters.dedup();
    if letters.len() > 1 {
        return Err(Failure::Usage("options -b, -e, -q, -Q, -u and -U are mutually exclusive".into()));
    }
    let words = parsed.words();
    let processor = parsed.value('b').or_else(|| parsed.value('e'));
    let processor = processor.map(|word| operands::cpu(&word)).transpose()?;
    match letters.first() {
        Some('b' | 'u') if words.is_empty() => Err(Failure::Usage("must specify at least one pid".into())),
        Some('e') if words.is_empty() => Err(Failure::Usage("must specify command".into())),
        Some('b' | 'u') => {
            let targets = operands::targets(&words)?;
            let session = ctx.changing(&parsed.common)?;
            let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
            bindings::bind(session.machine(), &targets, processor, &mut changer, ctx)?;
            Ok(changer.finish(ctx))
        }
        Some('e') => {
            let understood = |session: &_| Start::of(session, &parsed.operands);
            let (session, start) = ctx.changing_once(&parsed.common, understood)?;
            let changer = Changer::open(session.machine(), &parsed.common, ctx)?;
            bindings::execute(&session, &start, processor, changer, ctx)
        }
        Some('U') => {
            let operands = operands::cpus(&words)?;
            let session = ctx.changing(&parsed.common)?;
            let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
            let (from, unknown) = existing(&operands, session.machine(), "unbind from")?;
            unknown.into_iter().for_each(|complaint| changer.refuse(ctx, complaint));
            bindings::unbind_all(session.machine(), from.as_deref(), &mut changer, ctx)?;
            Ok(changer.finish(ctx))
        }
        Some('Q') => {
            let operands = operands::cpus(&words)?;
            let session = ctx.reading(&parsed.common)?;
            let (of, unknown) = existing(&operands, session.machine(), "query")?;
            unknown.iter().for_each(|complaint| ctx.complain(complaint));
            bindings::query_lwps(session.machine(), of.as_deref(), parsed.common.json, ctx)?;
            Ok(if unknown.is_empty() { Exit::DONE } else { Exit::REFUSED })
        }
        _ => {
            let targets = operands::targets(&words)?;
            let session = ctx.reading(&parsed.common)?;
            bindings::query::<CpuId>(session.machine(), &targets, parsed.common.json, ctx)
        }
    }
}

/// The processors that are named and exist, none when none is named; and a complaint for each that does not
/// exist.
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
