//! The kernel's copy of the machine's tables, in its own form, for speed. It is computed from the tables alone, never read back, and not
//! saved ([`super::recall`]).

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
    /// The CPU that it is bound to.
    pub bound: Option<CpuIndex>,
    /// The lgroups that it prefers.
    pub affinities: LgroupAffinities,
    /// Its class and parameters.
    pub class: ClassParams,
    /// Its holder, for [`Kernel::recall`].
    pub holder: Option<HolderIndex>,
}

/// Shares and cap of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderSettings {
    /// The holder.
    pub holder: HolderIndex,
    /// Its shares; `None` for the default.
    pub shares: Option<u32>,
    /// Its cap in percent of one CPU.
    pub cap: Option<u32>,
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The dispatch tables.
    pub dispatch: Arc<DispatchTables>,
    /// The distribution of CPUs over partitions.
    pub arrangement: Arrangement,
    /// The lgroups of each partition's memory; empty for all.
    pub memory: Table<PartitionId, Vec<u32>>,
    /// The CPU of network interrupts.
    pub network: CpuIndex,
    /// The CPU of clock interrupts.
    pub clock: CpuIndex,
    /// The threads that execute, ascending.
    pub threads: Vec<ThreadSettings>,
    /// The holders that are in the tables.
    pub holders: Vec<HolderSettings>,
}

impl Kernel {
    /// Applies the settings, except those of holders. Threads that may no longer be where they are move at once.
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

    /// Applies the settings of holders.
    pub fn apply_controls(&mut self, settings: &Settings) {
        for holder in &settings.holders {
            self.set_shares(holder.holder, holder.shares);
            self.set_cap(holder.holder, holder.cap);
        }
    }
}
