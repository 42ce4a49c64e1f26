//! `--pages`: the local and remote memory of processes, relative to the CPUs that they may use.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::{lgroups, operands};
use millpond_cli::Parsed;
use millpond_machine::{Machine, Refusal, Subject};
use millpond_model::{CpuSet, GroupId, LgroupTree, Pid, PsetId};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// `--pages`.
#[derive(Serialize, JsonSchema)]
pub struct Processes {
    processes: Vec<Process>,
}

#[derive(Serialize, JsonSchema)]
struct Process {
    pid: Pid,
    #[serde(flatten)]
    memory: Memory,
}

/// Local and remote memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
struct Memory {
    /// All resident memory.
    memory_kib: u64,
    /// In an lgroup with a CPU on which one of the threads may run.
    local_kib: u64,
    remote_kib: u64,
    /// In KiB, by lgroup.
    lgroups: BTreeMap<GroupId, u64>,
}

impl Memory {
    fn line(&self, title: impl Display) -> String {
        let Memory { memory_kib: memory, local_kib: local, remote_kib: remote, lgroups } = self;
        #[allow(clippy::cast_precision_loss)] // a decimal is shown
        let percent = *remote as f64 * 100.0 / *memory as f64;
        let percent = if *memory == 0 { "-".to_owned() } else { format!("{percent:.1}") };
        let by: Vec<String> = lgroups.iter().map(|(id, kib)| format!("{id}:{kib}")).collect();
        let text = format!("{title:>8} {memory:>10} {local:>10} {remote:>10} {percent:>7}  {}", by.join(" "));
        text.trim_end().to_owned()
    }
}

pub(super) fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.letters().next().is_some() || !parsed.long("pages") {
        return Err(Failure::Usage(
            "--pages and --set go with no letter, and --set only with --pages".into(),
        ));
    }
    let set = parsed.long_value("set").map(|word| operands::set(&word)).transpose()?;
    let parse = |word: &String| {
        word.parse::<Pid>().map_err(|e| Failure::Operand(format!("cannot read `{word}` as a process: {e}")))
    };
    let mut pids: BTreeSet<Pid> = parsed.words().iter().map(parse).collect::<Result<_, _>>()?;
    if pids.is_empty() && set.is_none() {
        return Err(Failure::Usage("must specify at least one pid, or --set".into()));
    }
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    pids.extend(set.map(|set| members(machine, set)).transpose()?.into_iter().flatten());
    let tree = lgroups::tree(lgroups::lgroups(machine)?)?;
    let mut exit = Exit::DONE;
    let mut processes = Vec::new();
    for pid in pids {
        match memory(machine, &tree, pid) {
            Ok(memory) => processes.push(Process { pid, memory }),
            Err(refusal) => {
                let main = format!("show the memory of process {pid}");
                let names = |subject: &Subject| (*subject == Subject::Process(pid)).then(|| main.clone());
                ctx.complain(&Complaint::refused(&main, names, &refusal));
                exit = Exit::REFUSED;
            }
        }
    }
    show(processes, parsed.common.json, ctx);
    Ok(exit)
}

fn show(processes: Vec<Process>, json: bool, ctx: &mut Ctx<'_>) {
    if json {
        return ctx.json(&Processes { processes });
    }
    if processes.is_empty() {
        return;
    }
    ctx.out.line("     PID     MEMORY      LOCAL     REMOTE REMOTE%  BY LGROUP");
    processes.iter().for_each(|process| ctx.out.line(process.memory.line(process.pid.0)));
    if processes.len() > 1 {
        let mut total = Memory::default();
        for Process { memory, .. } in &processes {
            total.memory_kib += memory.memory_kib;
            total.local_kib += memory.local_kib;
            total.remote_kib += memory.remote_kib;
            memory.lgroups.iter().for_each(|(id, kib)| *total.lgroups.entry(*id).or_default() += kib);
        }
        ctx.out.line(total.line("total"));
    }
}

/// The processes with a thread that is bound to a set.
fn members(machine: &dyn Machine, set: PsetId) -> Result<BTreeSet<Pid>, Failure> {
    let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
    if !sets.iter().any(|s| s.id == set) {
        let complaint = Complaint::new(format!("show processor set {set}"), "there is no such processor set");
        return Err(complaint.hint("psrset -i lists the sets that exist").into());
    }
    let bound = read("bindings", facet("bindings", machine.threads())?.bound())?;
    Ok(bound.iter().filter(|thread| thread.set == set).map(|thread| thread.lwp.pid).collect())
}

fn memory(machine: &dyn Machine, tree: &LgroupTree, pid: Pid) -> Result<Memory, Refusal> {
    let (lgroups, threads) = (machine.lgroups()?, machine.threads()?);
    let pages = lgroups.pages(pid)?;
    let allowed = threads.lwps(pid)?.iter().fold(CpuSet::new(), |all, thread| &all | &thread.allowed);
    let near: BTreeSet<_> =
        lgroups.nodes()?.into_iter().filter(|n| !n.cpus.is_disjoint(&allowed)).map(|n| n.node).collect();
    let mut memory = Memory::default();
    for (node, kib) in pages.into_iter().filter(|(_, kib)| *kib > 0) {
        memory.memory_kib += kib;
        *(if near.contains(&node) { &mut memory.local_kib } else { &mut memory.remote_kib }) += kib;
        if let Some(leaf) = tree.leaf_of(node) {
            *memory.lgroups.entry(leaf).or_default() += kib;
        }
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_share_unless_there_is_nothing() {
        let lgroups = BTreeMap::from([(GroupId(1), 10), (GroupId(2), 30)]);
        let memory = Memory { memory_kib: 40, local_kib: 10, remote_kib: 30, lgroups };
        assert_eq!(memory.line(204), "     204         40         10         30    75.0  1:10 2:30");
        assert_eq!(Memory::default().line("total"), "   total          0          0          0       -");
    }
}
