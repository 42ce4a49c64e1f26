//! The dispatcher facet: dispatch tables and classes as set. The position of threads in queues is not part of it.

use crate::knob_values::TableName;
use crate::machine::SimMachine;
use millpond_machine::facets::{ProcessIds, Reclassed, Scheduled};
use millpond_machine::{Absent, Change, Dispatcher, Reason, Refusal, Subject};
use millpond_model::{
    CLASSES, Class, ClassParams, ClassRequest, ClassTable, DispatchTables, Lwp, Pid, most_favoured,
};

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
        Ok(self.view(|s| s.tables.dispatch.as_ref().clone()))
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
        let mut builder = self.builder();
        builder.set_table(&table)?;
        Ok(builder.finish(format!("replace the dispatch table of {}", TableName::of(&table)), ()))
    }

    fn prepare_default_class(&self, class: Class) -> Result<Change<Option<Class>>, Refusal> {
        let mut builder = self.builder();
        let before = builder.tables.default_class;
        builder.set_default_class(class)?;
        Ok(builder.finish(format!("make {class} the default class"), before))
    }

    fn prepare_class(&self, pid: Pid, request: &ClassRequest) -> Result<Change<Reclassed>, Refusal> {
        let mut builder = self.builder();
        let refuse = |reason| Refusal::new(Subject::Process(pid), reason);
        let process = builder.tables.processes.get(&pid).ok_or_else(|| refuse(Reason::NoSuchProcess))?;
        if process.kernel {
            return Err(refuse(Reason::KernelThread));
        }
        let now: Vec<(Lwp, ClassParams)> =
            process.lwps.iter().map(|(lwp, r)| (Lwp { pid, lwp: *lwp }, r.class)).collect();
        let mut after = Vec::new();
        let mut clamped = None;
        for (lwp, class) in &now {
            let (params, over) = request
                .apply(*class, &builder.tables.dispatch)
                .map_err(|error| refuse(Reason::Machine(error.to_string())))?;
            builder.reclass(*lwp, &params)?;
            after.push(params);
            clamped = clamped.or(over);
        }
        let stands = |threads: Vec<ClassParams>| most_favoured(threads).unwrap_or_default();
        let from = stands(now.into_iter().map(|(_, class)| class).collect());
        let outcome = Reclassed { pid, from, to: stands(after), clamped };
        Ok(builder.finish(format!("put process {pid} into class {}", request.class()), outcome))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_formats::dispadmin::default_tables;
    use millpond_machine::Writer;
    use millpond_model::{LwpId, Quantum, QuantumTable};

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
