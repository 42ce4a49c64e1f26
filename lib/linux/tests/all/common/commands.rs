//! Operations as in the commands, on a synthetic machine.

use millpond_machine::facets::CreateOptions;
use millpond_machine::{Machine, Refusal, Writer};
use millpond_model::{CpuId, Pid, PsetId};

pub const EXCLUSIVE: CreateOptions = CreateOptions { keep_others: false };
pub const SHARED: CreateOptions = CreateOptions { keep_others: true };

/// CPU ids from numbers.
pub fn cpus(list: &[u32]) -> Vec<CpuId> {
    list.iter().copied().map(CpuId).collect()
}

/// Creates a set.
pub fn create(machine: &dyn Machine, list: &[u32], options: CreateOptions) -> Result<PsetId, Refusal> {
    let writer = Writer::open(machine)?;
    let change = machine.psets()?.prepare_create(&cpus(list), options, false)?;
    writer.commit(change).map(|c| c.outcome.0)
}

/// Destroys a set.
pub fn destroy(machine: &dyn Machine, set: u32) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    writer.commit(machine.psets()?.prepare_destroy(PsetId(set))?).map(|_| ())
}

/// Binds a process to a set; `None` unbinds it.
pub fn bind(machine: &dyn Machine, pid: u32, set: Option<u32>) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    let change = machine.threads()?.prepare_bind_set(Pid(pid), None, set.map(PsetId))?;
    writer.commit(change).map(|_| ())
}

/// Binds a process to a CPU; `None` unbinds it.
pub fn bind_cpu(machine: &dyn Machine, pid: u32, cpu: Option<u32>) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    let change =
        machine.threads()?.prepare_bind_cpus(Pid(pid), None, &cpu.map(CpuId).into_iter().collect())?;
    writer.commit(change).map(|_| ())
}

/// Binds a process to several CPUs; an empty list unbinds it.
pub fn bind_cpus(machine: &dyn Machine, pid: u32, list: &[u32]) -> Result<(), Refusal> {
    let writer = Writer::open(machine)?;
    let to = cpus(list).into_iter().collect();
    writer.commit(machine.threads()?.prepare_bind_cpus(Pid(pid), None, &to)?).map(|_| ())
}
