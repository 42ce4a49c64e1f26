//! What the tables of a machine say, as far as the kernel is concerned. The kernel keeps a view of it, for speed: it is made from the
//! tables alone, and nothing is read back.

use super::affinity::LgroupAffinities;
use super::ids::{CpuIndex, PartitionId, Table, ThreadId};
use super::partition::Arrangement;
use super::state::Kernel;
use millpond_model::{ClassParams, DispatchTables};

/// The settings of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadSettings {
    /// The thread.
    pub thread: ThreadId,
    /// The partition that it may run in.
    pub part: PartitionId,
    /// The only CPU that it may run on, where it is bound to one.
    pub bound: Option<CpuIndex>,
    /// The lgroups that it prefers.
    pub affinities: LgroupAffinities,
    /// Its class and parameters.
    pub class: ClassParams,
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings<'a> {
    /// The dispatch tables.
    pub dispatch: &'a DispatchTables,
    /// How CPUs are shared out.
    pub arrangement: Arrangement,
    /// For each partition the lgroups that its memory comes from; all where there are none.
    pub memory: Table<PartitionId, Vec<u32>>,
    /// Where interrupts of the network arrive.
    pub network: CpuIndex,
    /// Where the clock's interrupts arrive.
    pub clock: CpuIndex,
    /// The threads that execute, ascending.
    pub threads: Vec<ThreadSettings>,
}

impl Kernel {
    /// Makes the view what the settings say. Threads that are where they may not be go elsewhere at once.
    pub fn apply(&mut self, settings: &Settings<'_>) {
        if self.tables != *settings.dispatch {
            self.set_tables(settings.dispatch.clone());
        }
        self.arrange(&settings.arrangement);
        self.route(settings.network, settings.clock);
        for part in self.parts.ids() {
            self.confine_memory(part, settings.memory.row(part).map_or(&[], Vec::as_slice));
        }
        for t in &settings.threads {
            self.confine(t.thread, t.part, t.bound);
            self.prefer(t.thread, t.affinities);
            self.set_params(t.thread, t.class);
        }
    }
}
