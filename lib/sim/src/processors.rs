//! The CPUs facet.

use crate::change_builder::ChangeBuilder;
use crate::machine::{SimMachine, named_twice};
use millpond_machine::facets::{ProcessorStatus, Reserved, StateChange};
use millpond_machine::{Change, Processors, Refusal, Threads};
use millpond_model::{CpuId, CpuSet, State, Topology};

impl Processors for SimMachine {
    fn topology(&self) -> Result<Topology, Refusal> {
        Ok(self.view(|s| s.topology.clone()))
    }

    fn reserved(&self) -> Result<Reserved, Refusal> {
        let bound = Threads::bound(self)?;
        let bound = bound.iter().fold(CpuSet::new(), |all, thread| &all | &thread.cpus);
        Ok(Reserved { bound, ..Reserved::default() })
    }

    fn states(&self) -> Result<Vec<ProcessorStatus>, Refusal> {
        Ok(self.view(|s| {
            let status = |(cpu, p): (&CpuId, &crate::tables::ProcessorRecord)| ProcessorStatus {
                cpu: *cpu,
                state: p.state,
                since: p.since,
            };
            s.tables.processors.iter().map(status).collect()
        }))
    }

    fn prepare_state(&self, cpu: CpuId, to: State, forced: bool) -> Result<Change<StateChange>, Refusal> {
        let (mut builder, now) = self.view(|s| (ChangeBuilder::of(&s.tables), s.wall()));
        let outcome = builder.change_state(cpu, to, forced, now)?;
        Ok(builder.finish(format!("make CPU {cpu} {to}"), outcome))
    }

    fn prepare_states(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<StateChange>>, Refusal> {
        named_twice(cpus)?;
        let Change { what, steps, notes, outcome } = self.prepare_each_state(cpus, to, forced)?;
        Ok(Change { what, steps, notes, outcome: outcome.into_iter().collect::<Result<_, Refusal>>()? })
    }

    fn prepare_each_state(
        &self,
        cpus: &[CpuId],
        to: State,
        forced: bool,
    ) -> Result<Change<Vec<Result<StateChange, Refusal>>>, Refusal> {
        let (mut builder, now) = self.view(|s| (ChangeBuilder::of(&s.tables), s.wall()));
        // A refused change leaves the builder as it was.
        let outcome: Vec<_> = cpus.iter().map(|cpu| builder.change_state(*cpu, to, forced, now)).collect();
        let which: CpuSet = outcome.iter().flatten().map(|change| change.cpu).collect();
        Ok(builder.finish(format!("make CPUs {which} {to}"), outcome))
    }
}
