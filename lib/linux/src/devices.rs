//! Locality of devices: nearby CPUs, and the CPUs that take their interrupts.

use crate::LinuxMachine;
use millpond_machine::facets::{DevicePlace, Interrupt};
use millpond_machine::{Interrupts, Reason, Refusal};
use millpond_model::{CpuSet, printable};
use std::path::{Path, PathBuf};

/// Directories below `/sys` where a name is searched.
const WHERE: [&str; 3] = ["class/net", "class/block", "bus/pci/devices"];

impl LinuxMachine {
    /// A network card, a disk or partition, or a PCI address. CPUs and interrupts are those of the nearest device above it that
    /// has them: a virtual card has none of its own, but its parent on the bus does.
    pub(crate) fn place_of_device(&self, name: &str) -> Result<DevicePlace, Refusal> {
        let is_name = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        let found = WHERE.iter().filter(|_| is_name).find_map(|place| self.directory_of(place, name));
        let Some(dir) = found else {
            return Err(Refusal::operation(Reason::NoSuchDevice { name: printable(name).into_owned() }));
        };
        let above = || dir.ancestors().take_while(|above| *above != self.os.root.sys);
        let read = |path: PathBuf| self.os.root.read_value(&path).ok().flatten();
        let near: Option<CpuSet> = above()
            .find_map(|dir| read(dir.join("local_cpulist"))?.parse().ok())
            .filter(|cpus: &CpuSet| !cpus.is_empty());
        let Some(near) = near else {
            return Err(Refusal::operation(Reason::DeviceNowhere { name: printable(name).into_owned() }));
        };
        let messages =
            |dir: &Path| self.os.root.names(&dir.join("msi_irqs")).ok().filter(|irqs| !irqs.is_empty());
        let line = |dir: &Path| read(dir.join("irq")).filter(|irq| irq != "0").map(|irq| vec![irq]);
        let irqs = above().find_map(|dir| messages(dir).or_else(|| line(dir))).unwrap_or_default();
        let listed = if irqs.is_empty() { Vec::new() } else { Interrupts::list(self)? };
        let goes_to = |thing: &Interrupt| thing.effective.clone().unwrap_or_else(|| thing.allowed.clone());
        let taken = listed.iter().filter(|thing| irqs.contains(&thing.id)).map(goes_to);
        Ok(DevicePlace { near, interrupts: taken.fold(CpuSet::new(), |all, cpus| &all | &cpus) })
    }

    /// The directory of a name, always below the root's `/sys`, wherever its links point.
    fn directory_of(&self, place: &str, name: &str) -> Option<PathBuf> {
        let sys = self.os.root.sys.canonicalize().ok()?;
        let dir = self.os.root.sys.join(place).join(name).canonicalize().ok()?;
        let below = dir.strip_prefix(sys).ok()?;
        Some(self.os.root.sys.join(below))
    }
}
