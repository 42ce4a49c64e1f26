//! The dispatcher facet: tables and classes as they are set. Where each thread stands in the dispatcher is no part of it.

use crate::machine::SimMachine;
use millpond_machine::facets::{ProcessIds, Reclassed, Scheduled};
use millpond_machine::{Absent, Change, Dispatcher, Reason, Refusal, Subject};
use millpond_model::{
    CLASSES, Class, ClassParams, ClassRequest, ClassTable, DispatchTables, FssQuantum, Lwp, Pid, Quantum,
    QuantumTable, TsRow, TsTable, most_favoured,
};
use std::fmt;
use std::str::FromStr;

/// Which table. That of TS is that of IA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableName {
    /// Of TS and IA.
    Ts,
    /// Of RT.
    Rt,
    /// Of FX.
    Fx,
    /// Of FSS: one slice.
    Fss,
}

impl TableName {
    /// The name of a table.
    #[must_use]
    pub fn of(table: &ClassTable) -> Self {
        match table {
            ClassTable::Ts(_) => TableName::Ts,
            ClassTable::Rt(_) => TableName::Rt,
            ClassTable::Fx(_) => TableName::Fx,
            ClassTable::Fss(_) => TableName::Fss,
        }
    }

    fn class(self) -> Class {
        match self {
            TableName::Ts => Class::Ts,
            TableName::Rt => Class::Rt,
            TableName::Fx => Class::Fx,
            TableName::Fss => Class::Fss,
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.class().fmt(f)
    }
}

impl FromStr for TableName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let names = [TableName::Ts, TableName::Rt, TableName::Fx, TableName::Fss];
        names.into_iter().find(|name| name.class().word() == text).ok_or(())
    }
}

/// The rows of a table as knobs have them.
pub(crate) fn row_values(table: &ClassTable) -> Vec<String> {
    match table {
        ClassTable::Ts(table) => table.rows().iter().map(ts_value).collect(),
        ClassTable::Rt(table) | ClassTable::Fx(table) => table.rows().iter().map(quantum_value).collect(),
        ClassTable::Fss(quantum) => vec![quantum.ticks().to_string()],
    }
}

fn ts_value(row: &TsRow) -> String {
    let TsRow { quantum, tqexp, slpret, maxwait, lwait } = row;
    format!("{quantum} {tqexp} {slpret} {maxwait} {lwait}")
}

fn quantum_value(quantum: &Quantum) -> String {
    match quantum {
        Quantum::Ticks(ticks) => ticks.to_string(),
        Quantum::Infinite => "infinite".to_owned(),
    }
}

/// One row; `None` where the table has no such level.
pub(crate) fn read_row(tables: &DispatchTables, table: TableName, level: u8) -> Option<String> {
    let at = usize::from(level);
    match table {
        TableName::Ts => tables.ts.rows().get(at).map(ts_value),
        TableName::Rt => tables.rt.rows().get(at).map(quantum_value),
        TableName::Fx => tables.fx.rows().get(at).map(quantum_value),
        TableName::Fss => (at == 0).then(|| tables.fss.ticks().to_string()),
    }
}

/// Sets one row; `None` where the table has no such level, or takes no such row.
pub(crate) fn write_row(tables: &mut DispatchTables, table: TableName, level: u8, value: &str) -> Option<()> {
    let at = usize::from(level);
    match table {
        TableName::Ts => {
            let words: Vec<&str> = value.split(' ').collect();
            let [quantum, tqexp, slpret, maxwait, lwait] = words[..] else { return None };
            let row = TsRow {
                quantum: quantum.parse().ok()?,
                tqexp: tqexp.parse().ok()?,
                slpret: slpret.parse().ok()?,
                maxwait: maxwait.parse().ok()?,
                lwait: lwait.parse().ok()?,
            };
            let mut rows = tables.ts.rows().to_vec();
            *rows.get_mut(at)? = row;
            tables.ts = TsTable::new(rows).ok()?;
        }
        TableName::Rt => tables.rt = with_quantum(&tables.rt, at, value)?,
        TableName::Fx => tables.fx = with_quantum(&tables.fx, at, value)?,
        TableName::Fss if at == 0 => tables.fss = FssQuantum::new(value.parse().ok()?).ok()?,
        TableName::Fss => return None,
    }
    Some(())
}

fn with_quantum(table: &QuantumTable, at: usize, value: &str) -> Option<QuantumTable> {
    let mut rows = table.rows().to_vec();
    *rows.get_mut(at)? = match value {
        "infinite" => Quantum::Infinite,
        ticks => Quantum::Ticks(ticks.parse().ok()?),
    };
    QuantumTable::new(rows).ok()
}

impl Dispatcher for SimMachine {
    fn classes(&self) -> Vec<Class> {
        CLASSES.to_vec()
    }

    fn made_by(&self) -> String {
        "simulated: classes and tables are exact".to_owned()
    }

    fn ticks_per_second(&self) -> u32 {
        self.view(|s| s.tunables.hz)
    }

    fn tables(&self) -> Result<DispatchTables, Refusal> {
        Ok(self.view(|s| s.tables.dispatch.clone()))
    }

    fn live(&self) -> Result<(), Absent> {
        Ok(())
    }

    fn default_class(&self) -> Result<Option<Class>, Refusal> {
        Ok(self.view(|s| s.tables.default_class))
    }

    fn scheduled(&self) -> Result<Vec<Scheduled>, Refusal> {
        Ok(self.view(|s| {
            let one = |(pid, p): (&Pid, &crate::tables::ProcessRecord)| {
                let ids = ProcessIds {
                    uid: Some(0),
                    gid: Some(0),
                    zoneid: s.zone_id(&p.zone),
                    projid: Some(p.project),
                    ..ProcessIds::default()
                };
                let params = most_favoured(p.lwps.values().map(|lwp| lwp.class))?;
                Some(Scheduled { pid: *pid, kernel: p.kernel, params, ids })
            };
            s.tables.processes.iter().filter_map(one).collect()
        }))
    }

    fn prepare_set_table(&self, table: ClassTable) -> Result<Change<()>, Refusal> {
        let mut draft = self.draft();
        draft.set_table(&table)?;
        Ok(draft.finish(format!("replace the dispatch table of {}", TableName::of(&table)), ()))
    }

    fn prepare_default_class(&self, class: Class) -> Result<Change<Option<Class>>, Refusal> {
        let mut draft = self.draft();
        let before = draft.tables.default_class;
        draft.set_default_class(class)?;
        Ok(draft.finish(format!("make {class} the default class"), before))
    }

    fn prepare_class(&self, pid: Pid, request: &ClassRequest) -> Result<Change<Reclassed>, Refusal> {
        let mut draft = self.draft();
        let refuse = |reason| Refusal::new(Subject::Process(pid), reason);
        let process = draft.tables.processes.get(&pid).ok_or_else(|| refuse(Reason::NoSuchProcess))?;
        if process.kernel {
            return Err(refuse(Reason::KernelThread));
        }
        let now: Vec<(Lwp, ClassParams)> =
            process.lwps.iter().map(|(lwp, r)| (Lwp { pid, lwp: *lwp }, r.class)).collect();
        let mut after = Vec::new();
        let mut clamped = None;
        for (lwp, class) in &now {
            let (params, over) = request
                .apply(*class, &draft.tables.dispatch)
                .map_err(|error| refuse(Reason::Machine(error.to_string())))?;
            draft.reclass(*lwp, &params)?;
            after.push(params);
            clamped = clamped.or(over);
        }
        let stands = |threads: Vec<ClassParams>| most_favoured(threads).unwrap_or_default();
        let from = stands(now.into_iter().map(|(_, class)| class).collect());
        let outcome = Reclassed { pid, from, to: stands(after), clamped };
        Ok(draft.finish(format!("put process {pid} into class {}", request.class()), outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_formats::dispadmin::default_tables;
    use millpond_machine::Writer;
    use millpond_model::LwpId;

    fn rt(pri: i32) -> ClassRequest {
        ClassRequest::Rt { pri: Some(pri), quantum: None, tqsig: None }
    }

    #[test]
    fn a_child_has_the_class_of_the_thread_that_divided() {
        let machine = SimMachine::named("t2000").unwrap();
        let writer = Writer::open(&machine).unwrap();
        let done = writer.commit(machine.prepare_class(Pid(204), &rt(10)).unwrap()).unwrap();
        assert_eq!(done.outcome.from.to_string(), "TS 0 0");
        assert_eq!(done.outcome.to.to_string(), "RT 10 80 0");
        let child = machine.fork(Lwp { pid: Pid(204), lwp: LwpId(2) }).unwrap();
        let found = machine.scheduled().unwrap().into_iter().find(|s| s.pid == child);
        assert_eq!(found.map(|s| s.params.to_string()).as_deref(), Some("RT 10 80 0"));
    }

    #[test]
    fn only_rows_that_differ_are_written_and_they_survive_being_saved() {
        let machine = SimMachine::named("t2000").unwrap();
        let mut table = machine.tables().unwrap();
        let mut rows = table.rt.rows().to_vec();
        rows[59] = Quantum::Infinite;
        table.rt = QuantumTable::new(rows).unwrap();
        let change = machine.prepare_set_table(ClassTable::Rt(table.rt.clone())).unwrap();
        let steps: Vec<String> = change.steps.iter().map(ToString::to_string).collect();
        assert_eq!(steps, ["dispatch/RT/59: 10 -> infinite"]);
        Writer::open(&machine).unwrap().commit(change).unwrap();
        assert_eq!(SimMachine::load(&machine.save()).unwrap().tables().unwrap(), table);
        let back = machine.prepare_set_table(ClassTable::Rt(default_tables(false).rt)).unwrap();
        assert_eq!(back.steps.len(), 1);
    }

    #[test]
    fn the_kernel_s_own_threads_stay_in_their_class() {
        let machine = SimMachine::named("t2000").unwrap();
        let refused = |pid| machine.prepare_class(Pid(pid), &rt(10)).unwrap_err().to_string();
        assert_eq!(refused(3), "process 3: it is a kernel thread");
        assert_eq!(refused(9), "process 9: there is no such process");
        let far = machine.prepare_class(Pid(204), &rt(60)).unwrap_err();
        assert_eq!(far.to_string(), "process 204: RT has priorities 0 to 59, not 60");
    }
}
