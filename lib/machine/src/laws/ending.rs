//! The end of a script: everything is undone, and the machine is as before.

use super::change::attempt;
use super::law::Law;
use super::observed::Observed;
use super::operation::Operation;
use super::script::{Notes, Player, Stop};
use super::subject::{Subject, Times};
use millpond_model::{ClassTable, ControlHolder, ControlSetting, CpuId, CpuSet, Pid, State};

/// Cleans up after a broken script as far as possible, so that the next script starts on a clean machine.
pub fn clear_up<S: Subject + ?Sized>(subject: &mut S, notes: &Notes) {
    for pid in &notes.processes {
        // Failures here follow from the broken law that is being reported.
        let _ = subject.exit(*pid);
    }
    if let (Some(first), Ok(seen)) = (&notes.first, Observed::of(subject)) {
        for operation in way_back(first, &seen, &[]) {
            let _ = attempt(subject.machine(), &operation);
        }
    }
}

/// The changes that lead back to the first situation: bindings to CPUs, sets, tables, states. Bindings to sets end with the sets, classes
/// with their processes.
fn way_back(first: &Observed, seen: &Observed, ours: &[Pid]) -> Vec<Operation> {
    let bound = seen.threads.values().filter(|t| !t.cpus.is_empty() && ours.contains(&t.lwp.pid));
    let unbind =
        bound.map(|t| Operation::BindCpu { pid: t.lwp.pid, lwps: Some(vec![t.lwp.lwp]), to: CpuSet::new() });
    let sets = seen.sets.iter().filter(|s| first.set(s.id).is_none());
    let destroy = sets.map(|s| Operation::Destroy { set: s.id });
    let state = |cpu: CpuId, to| Operation::State { cpus: vec![cpu], to, forced: true };
    let was = |cpu: &CpuId| first.processors.get(cpu).map(|p| p.state);
    let changed = seen.processors.values().filter(|p| was(&p.cpu).is_some_and(|was| was != p.state));
    let changed: Vec<CpuId> = changed.map(|p| p.cpu).collect();
    // On-line first, so that the last CPU in a state is never asked to leave it.
    let start = changed.iter().map(|cpu| state(*cpu, State::OnLine));
    let restore = changed.iter().filter_map(|cpu| Some(state(*cpu, was(cpu)?)));
    let tables = first.tables.iter().zip(&seen.tables).flat_map(|(was, is)| {
        let ts = (was.ts != is.ts).then(|| ClassTable::Ts(was.ts.clone()));
        let rt = (was.rt != is.rt).then(|| ClassTable::Rt(was.rt.clone()));
        let fx = (was.fx != is.fx).then(|| ClassTable::Fx(was.fx.clone()));
        let fss = (was.fss != is.fss).then_some(ClassTable::Fss(was.fss));
        [ts, rt, fx, fss].into_iter().flatten()
    });
    // Controls of processes end with the processes.
    let standing = seen.controls.iter().filter(|(holder, _)| !matches!(holder, ControlHolder::Process(_)));
    let controls = standing.flat_map(|(holder, (shares, cap))| {
        let (first_shares, first_cap) = first.controls.get(holder).copied().unwrap_or_default();
        let shares = (*shares != first_shares).then_some(ControlSetting::CpuShares(first_shares));
        let cap = (*cap != first_cap).then_some(ControlSetting::CpuCap(first_cap));
        [shares, cap].into_iter().flatten().map(|to| Operation::Control { holder: holder.clone(), to })
    });
    let tables = tables.map(|table| Operation::Table { table });
    unbind.chain(destroy).chain(controls).chain(tables).chain(start).chain(restore).collect()
}

impl<S: Subject + ?Sized> Player<'_, S> {
    /// Undoes everything, and checks that the machine is as at the beginning.
    pub fn tear_down(&mut self, first: &Observed, plain: &str) -> Result<(), Stop> {
        self.say("the end:".into());
        for operation in way_back(first, &self.seen, &self.notes.processes) {
            let made = self.plain(&operation)?;
            let how = || format!("refused: {operation}");
            self.notes.bench.ask(Law::TearDownRestores, made, how);
        }
        for pid in std::mem::take(&mut self.notes.processes) {
            self.subject.exit(pid)?;
        }
        let now = self.subject.snapshot(Times::LeftOut)?;
        let left = format!("{:?}", self.subject.machine().journal().baselines());
        let bench = &mut self.notes.bench;
        bench.same(Law::TearDownForgets, "baselines", &format!("{:?}", first.baselines), &left);
        bench.same(Law::TearDownRestores, "the machine", plain, &now);
        Ok(bench.verdict()?)
    }
}
