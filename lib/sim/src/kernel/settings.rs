//! What the tables of a machine say, as far as the kernel is concerned. The kernel keeps it in its own form, for speed: it is made from the
//! tables alone, nothing is read back, and it is not saved ([`super::recall`]).

use super::affinity::LgroupAffinities;
use super::ids::{CpuIndex, HolderIndex, PartitionId, Table, ThreadId};
use super::partition::Arrangement;
use super::state::Kernel;
use millpond_model::{ClassParams, DispatchTables};
use std::sync::Arc;

/// The settings of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// What holds it, for [`Kernel::recall`].
    pub holder: Option<HolderIndex>,
}

/// Shares and cap of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderSettings {
    /// The holder.
    pub holder: HolderIndex,
    /// Its shares; none for the default.
    pub shares: Option<u32>,
    /// Its cap in percent of one CPU, if it has one.
    pub cap: Option<u32>,
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The dispatch tables.
    pub dispatch: Arc<DispatchTables>,
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
    /// The holders that have a place in the tables.
    pub holders: Vec<HolderSettings>,
}

impl Kernel {
    /// Makes the kernel's form of the settings anew, but for those of holders. Threads that are where they may not be go elsewhere at once.
    pub fn apply(&mut self, settings: &Settings) {
        if self.tables == settings.dispatch {
            self.tables = Arc::clone(&settings.dispatch);
        } else {
            self.set_tables(Arc::clone(&settings.dispatch));
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

    /// The same for those of holders.
    pub fn apply_controls(&mut self, settings: &Settings) {
        for holder in &settings.holders {
            self.set_shares(holder.holder, holder.shares);
            self.set_cap(holder.holder, holder.cap);
        }
    }
}
