//! `--pages`: how much of the memory of processes is near the processors that they may use.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::{lgroups, operands};
use millpond_cli::Parsed;
use millpond_machine::{Machine, Refusal, Subject};
use millpond_model::{CpuSet, GroupId, LgroupTree, Pid, PsetId};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The memory of a process, in KiB.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    pid: Option<Pid>,
    local: u64,
    remote: u64,
    by_lgroup: BTreeMap<GroupId, u64>,
}

impl Row {
    fn memory(&self) -> u64 {
        self.local + self.remote
    }

    fn text(&self) -> String {
        #[allow(clippy::cast_precision_loss)] // a decimal is shown
        let percent = |part: u64| part as f64 * 100.0 / self.memory() as f64;
        let percent =
            if self.memory() == 0 { "-".to_owned() } else { format!("{:.1}", percent(self.remote)) };
        let by: Vec<String> = self.by_lgroup.iter().map(|(id, kib)| format!("{id}:{kib}")).collect();
        let pid = self.pid.map_or("total".to_owned(), |pid| pid.to_string());
        let (memory, local, remote) = (self.memory(), self.local, self.remote);
        let text = format!("{pid:>8} {memory:>10} {local:>10} {remote:>10} {percent:>7}  {}", by.join(" "));
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
    let mut rows = Vec::new();
    for pid in pids {
        match row(machine, &tree, pid) {
            Ok(row) => rows.push(row),
            Err(refusal) => {
                let main = format!("show the memory of process {pid}");
                let names = |subject: &Subject| (*subject == Subject::Process(pid)).then(|| main.clone());
                ctx.complain(&Complaint::refused(&main, names, &refusal));
                exit = Exit::REFUSED;
            }
        }
    }
    show(&rows, parsed.common.json, ctx);
    Ok(exit)
}

fn show(rows: &[Row], json: bool, ctx: &mut Ctx<'_>) {
    if json {
        let one = |row: &Row| {
            json!({
                "pid": row.pid, "memory_kib": row.memory(), "local_kib": row.local, "remote_kib": row.remote,
                "lgroups": row.by_lgroup,
            })
        };
        ctx.json(&json!({ "processes": rows.iter().map(one).collect::<Vec<_>>() }));
        return;
    }
    if rows.is_empty() {
        return;
    }
    ctx.out.line("     PID     MEMORY      LOCAL     REMOTE REMOTE%  BY LGROUP");
    rows.iter().for_each(|row| ctx.out.line(row.text()));
    if rows.len() > 1 {
        let mut total = Row::default();
        for row in rows {
            (total.local, total.remote) = (total.local + row.local, total.remote + row.remote);
            row.by_lgroup.iter().for_each(|(id, kib)| *total.by_lgroup.entry(*id).or_default() += kib);
        }
        ctx.out.line(total.text());
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

fn row(machine: &dyn Machine, tree: &LgroupTree, pid: Pid) -> Result<Row, Refusal> {
    let (lgroups, threads) = (machine.lgroups()?, machine.threads()?);
    let pages = lgroups.pages(pid)?;
    let allowed = threads.lwps(pid)?.iter().fold(CpuSet::new(), |all, thread| &all | &thread.allowed);
    let near: BTreeSet<_> =
        lgroups.nodes()?.into_iter().filter(|n| !n.cpus.is_disjoint(&allowed)).map(|n| n.node).collect();
    let mut row = Row { pid: Some(pid), ..Row::default() };
    for (node, kib) in pages.into_iter().filter(|(_, kib)| *kib > 0) {
        if near.contains(&node) {
            row.local += kib;
        } else {
            row.remote += kib;
        }
        if let Some(leaf) = tree.leaf_of(node) {
            *row.by_lgroup.entry(leaf).or_default() += kib;
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_share_unless_there_is_nothing() {
        let by_lgroup = BTreeMap::from([(GroupId(1), 10), (GroupId(2), 30)]);
        let row = Row { pid: Some(Pid(204)), local: 10, remote: 30, by_lgroup };
        assert_eq!(row.text(), "     204         40         10         30    75.0  1:10 2:30");
        assert_eq!(Row::default().text(), "   total          0          0          0       -");
    }
}
