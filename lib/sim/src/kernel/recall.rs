//! Settings and saved kernels. A kernel's copy of its machine's tables is saved only with the tables. [`Kernel::forget`] removes the copy
//! before saving, and [`Kernel::recall`] restores it after loading. Neither moves a thread.

use super::affinity::LgroupAffinities;
use super::classes::{table, unset};
use super::dispatch_tables;
use super::ids::{CpuIndex, Id};
use super::partition::DEFAULT;
use super::settings::{HolderSettings, Settings, ThreadSettings};
use super::state::{Kernel, Layout, Tunables, levels};
use super::thread::{Origin, RunState};
use std::sync::Arc;

/// The data of a kernel that comes from its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recalled {
    /// Topology and hardware.
    pub layout: Layout,
    /// Boot-time tunables.
    pub tunables: Tunables,
    /// Settings by commands.
    pub settings: Settings,
}

impl Kernel {
    /// Removes the copy of the settings before saving. `settings` are the present ones.
    pub fn forget(&mut self, settings: &Settings) {
        for cpu in &mut self.cpus {
            (cpu.part, cpu.lgroup, cpu.core) = (DEFAULT, 0, 0);
        }
        self.levels.clear();
        self.parts.clear();
        self.tunables = Tunables::default();
        self.tables = dispatch_tables::standard();
        (self.clock_cpu, self.capped) = (CpuIndex(0), false);
        for t in &settings.threads {
            let class = unset(t.class.class());
            let affinities = LgroupAffinities::default();
            let unset = ThreadSettings { part: DEFAULT, bound: None, affinities, class, holder: None, ..*t };
            self.put_thread(&unset);
        }
        self.put_network(None);
        for holder in &settings.holders {
            self.put_controls(HolderSettings { shares: None, cap: None, ..*holder });
        }
    }

    /// Restores the removed data. [`Kernel::check`] finds data of another machine.
    pub fn recall(&mut self, what: &Recalled) {
        let Recalled { layout, tunables, settings } = what;
        for (cpu, place) in self.cpus.iter_mut().zip(&layout.cpus) {
            (cpu.lgroup, cpu.core) = *place;
        }
        self.levels = layout.distances.iter().map(|row| levels(row)).collect();
        self.tunables = tunables.clone();
        self.tables = Arc::clone(&settings.dispatch);
        self.clock_cpu = settings.clock;
        let parts = self.queues.len().saturating_sub(self.cpus.len());
        self.share_out(&settings.arrangement, parts.max(settings.arrangement.parts.len()));
        for (part, memory) in self.parts.iter_mut().zip(&settings.memory) {
            part.memory.clone_from(memory);
        }
        settings.threads.iter().for_each(|t| self.put_thread(t));
        self.put_network(Some(settings.network));
        settings.holders.iter().for_each(|holder| self.put_controls(*holder));
        self.capped = self.holders.iter().any(|holder| holder.cap.is_some());
    }

    fn put_thread(&mut self, settings: &ThreadSettings) {
        let Some(t) = self.threads.get_mut(settings.thread.place()) else { return };
        (t.part, t.bound, t.affinities) = (settings.part, settings.bound, settings.affinities);
        t.holder = settings.holder;
        let class = table(&t.class);
        if class.unset.class() == unset(settings.class.class()).class() {
            (class.store)(&mut t.class, settings.class);
        }
    }

    fn put_network(&mut self, cpu: Option<CpuIndex>) {
        let of_network = self.threads.iter_mut().filter(|t| t.origin == Origin::Network);
        of_network.filter(|t| t.state != RunState::Gone).for_each(|t| t.bound = cpu);
    }

    fn put_controls(&mut self, settings: HolderSettings) {
        let Some(holder) = self.holders.get_mut(settings.holder.place()) else { return };
        holder.shares = settings.shares;
        if let Some(cap) = &mut holder.cap {
            cap.percent = settings.cap.unwrap_or(0);
        }
    }
}
