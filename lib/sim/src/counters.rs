//! The counters facet: the figures of `mpstat`. The kernel counts all the time, so reading costs the machine nothing.

use crate::kernel::Cpu;
use crate::machine::SimMachine;
use crate::state::SimState;
use crate::tables::ProcessorRecord;
use millpond_machine::facets::{CounterWatch, WatchOptions};
use millpond_machine::{Absent, Counters, Refusal};
use millpond_model::{CpuId, CpuSample, Nanos, Sample, Ticks};

impl Counters for SimMachine {
    fn since_boot(&self) -> Result<Sample, Refusal> {
        Ok(self.view(sample))
    }

    fn watch(&self, _options: WatchOptions) -> Result<Box<dyn CounterWatch + '_>, Absent> {
        Ok(Box::new(Watch(self)))
    }
}

struct Watch<'a>(&'a SimMachine);

impl CounterWatch for Watch<'_> {
    fn sample(&mut self) -> Result<Sample, Refusal> {
        self.0.since_boot()
    }

    fn explain(&self) -> Vec<String> {
        vec!["all columns are counted by the simulated machine itself; watching costs it nothing".into()]
    }
}

fn sample(state: &SimState) -> Sample {
    let known = state.topology.processors().iter().zip(state.kernel.cpus());
    let cpus = known.filter_map(|(p, cpu)| Some((p.id, state.tables.processors.get(&p.id)?, cpu)));
    let active = cpus.filter(|(_, record, _)| record.state.runs_threads());
    let cpu = |(id, record, cpu): (CpuId, &ProcessorRecord, &Cpu)| CpuSample {
        cpu: id,
        set: record.set,
        events: cpu.events.map(Some),
        ticks: Ticks {
            user: Nanos(cpu.user),
            sys: Nanos(cpu.sys),
            wait: Nanos(0),
            idle: Nanos(cpu.idle),
            steal: Nanos(0),
        },
    };
    Sample {
        at: state.now(),
        wall: state.wall(),
        cpus: active.map(cpu).collect(),
        sets: state.tables.sets.keys().copied().collect(),
        missing: Vec::new(),
    }
}
