//! Steering: moves interrupts, unbound workqueues and packet steering away from shielded CPUs.
//!
//! Each item has an original list (its baseline, once we have changed it). The wanted list is the original without the shielded
//! CPUs. If that is empty, it is all CPUs that are not shielded. Therefore the release of the last shield restores every list,
//! and a device that appears later is steered at the next check.

use crate::files::{Replacing, replace_file};
use crate::interrupt_names::{UNUSED, device_name, interrupt_counts};
use crate::knob::{ControlFile, LinuxKnob, PacketMask, list_value};
use crate::{LinuxMachine, Os};
use millpond_machine::facets::{Interrupt, InterruptKind};
use millpond_machine::{Interrupts, KnobError, Processors, Refusal, Step};
use millpond_model::CpuSet;
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The state of an interrupt that refused once and is not tried again.
const REFUSED: &str = "it refused to move";

/// The kernel's error for an interrupt that can never be moved.
const NOT_AT_ALL: &str = "Input/output error";

/// The record of items that were already reported to stay on shielded CPUs.
const TOLD: &str = "told";

/// An item that cannot be moved off a shielded CPU.
struct Staying {
    id: String,
    refused: bool,
    line: String,
}

/// An item that can be steered, with its knob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steered {
    pub knob: LinuxKnob,
    pub what: Interrupt,
}

/// The wanted list of an item.
#[must_use]
pub(crate) fn wanted(original: &CpuSet, shielded: &CpuSet, online: &CpuSet, kind: InterruptKind) -> CpuSet {
    let rest = original - shielded;
    let reachable = !(&rest & online).is_empty();
    match kind {
        // An empty mask means that packet steering is off. It stays off.
        InterruptKind::PacketSteering if original.is_empty() => CpuSet::new(),
        // A list of only off-line CPUs was not narrowed by us, so do not widen it.
        _ if reachable || (!original.is_empty() && original.is_disjoint(shielded)) => rest,
        _ => online - shielded,
    }
}

/// All items that can be steered, for one change. They are read on first use, and only once: a large machine has thousands of
/// interrupts with several files each.
pub(crate) struct Steering<'m> {
    machine: &'m LinuxMachine,
    things: OnceCell<Vec<Steered>>,
}

impl<'m> Steering<'m> {
    /// Reads nothing yet.
    pub(crate) fn of(machine: &'m LinuxMachine) -> Self {
        Steering { machine, things: OnceCell::new() }
    }

    fn things(&self) -> &[Steered] {
        self.things.get_or_init(|| self.machine.steered())
    }

    /// The steps that steer all items away from `shielded`, or back.
    pub(crate) fn steps(&self, shielded: &CpuSet) -> Result<Vec<Step>, Refusal> {
        let LinuxMachine { os, .. } = self.machine;
        let baselines = self.machine.baselines();
        let steering = baselines.keys().any(|k| match LinuxKnob::parse(k) {
            Ok(LinuxKnob::File(file)) => file.cgroup().is_none() && !file.is_shelter(),
            other => other == Ok(LinuxKnob::IrqbalanceBanned),
        });
        if shielded.is_empty() && !steering {
            return Ok(Vec::new());
        }
        let online = os.online().map_err(|e| {
            Refusal::operation(millpond_machine::Reason::Machine(format!("the on-line CPUs: {e}")))
        })?;
        // irqbalance first: it would undo the other steps.
        let mut steps: Vec<Step> = self.machine.balancer_step(shielded, &baselines).into_iter().collect();
        let is_balanced = os.is_balanced();
        for thing in self.things() {
            let knob = thing.knob.knob();
            let kept = baselines.get(&knob);
            // An interrupt that refused to move may have been moved when its CPU went off-line.
            let has_refused = thing.what.fixed.as_deref() == Some(REFUSED);
            if thing.what.fixed.is_some() && !(has_refused && kept.is_some()) {
                continue;
            }
            let original: CpuSet = match kept {
                Some(value) => value.as_deref().and_then(|v| v.parse().ok()).unwrap_or_default(),
                None => thing.what.allowed.clone(),
            };
            let want = wanted(&original, shielded, &online, thing.what.kind);
            if has_refused && want != original {
                continue;
            }
            let is_placed = is_balanced && thing.what.kind == InterruptKind::Device && want != original;
            if is_placed && !thing.what.allowed.is_empty() && thing.what.allowed.is_subset(&want) {
                // irqbalance chooses among the remaining CPUs.
                continue;
            }
            if want != thing.what.allowed {
                let step = Step::new(knob, list_value(&thing.what.allowed), list_value(&want)).tolerant();
                steps.push(if want == original { step.releasing() } else { step.keeping() });
            } else if want == original && kept.is_some() {
                steps.push(Step::new(knob, list_value(&want), list_value(&want)).releasing());
            }
        }
        Ok(steps)
    }

    /// The steps that record the list of every interrupt before a CPU stops or starts, because then other programs change lists:
    /// the kernel moves remaining interrupts off the CPU, and drivers of network cards redistribute theirs. Settling restores the
    /// lists where necessary and removes the records.
    pub(crate) fn lists_to_remember(&self) -> Vec<Step> {
        let baselines = self.machine.journal.baselines();
        let may_change = |thing: &&Steered| {
            let may_move = thing.what.fixed.as_deref().is_none_or(|why| why == REFUSED);
            may_move && thing.what.kind == InterruptKind::Device
        };
        let remember = |thing: &Steered| {
            let list = list_value(&thing.what.allowed);
            Step::new(thing.knob.knob(), list.clone(), list).keeping()
        };
        let steps = self.things().iter().filter(may_change).map(remember);
        steps.filter(|step| !baselines.contains_key(&step.knob)).collect()
    }

    /// Items that cannot be steered although they use, or could use, a CPU that is to be shielded: an id, whether the item
    /// refused (and was reported at that time), and a line with its name.
    fn staying(&self, shielded: &CpuSet) -> Vec<Staying> {
        if shielded.is_empty() {
            return Vec::new();
        }
        let reaches = |i: &Interrupt| !i.effective.as_ref().unwrap_or(&i.allowed).is_disjoint(shielded);
        self.things()
            .iter()
            .map(|s| &s.what)
            .filter(|i| i.name != UNUSED && reaches(i))
            .filter_map(|i| {
                let stays = i.effective.as_ref().unwrap_or(&i.allowed);
                let fixed = i.fixed.as_ref()?;
                Some(Staying {
                    line: format!("interrupt {} ({}) stays on {stays}: {fixed}", i.id, i.name),
                    refused: fixed == REFUSED,
                    id: i.id.clone(),
                })
            })
            .chain(self.machine.deaf_balancer().map(|line| Staying {
                id: "irqbalance".into(),
                refused: false,
                line,
            }))
            .collect()
    }

    /// Items that stay on CPUs to be shielded and were not reported yet, and the step that records the report. The record is
    /// removed when no CPU is shielded any more.
    pub(crate) fn news_of_staying(
        &self,
        list: &CpuSet,
        shielded: &CpuSet,
    ) -> Result<(Vec<String>, Option<Step>), Refusal> {
        let record = LinuxKnob::Record(TOLD.to_owned());
        let os = &self.machine.os;
        let before = os.record(TOLD);
        let mut told: BTreeSet<String> =
            before.iter().flat_map(|t| t.split_ascii_whitespace()).map(str::to_owned).collect();
        let is_first = self.machine.shielded()?.is_empty();
        let mut lines = Vec::new();
        for stays in self.staying(list) {
            if told.insert(stays.id) && (is_first || !stays.refused) {
                lines.push(stays.line);
            }
        }
        let after = told.into_iter().collect::<Vec<_>>().join(" ");
        let after = Some(after).filter(|t| !t.is_empty() && !shielded.is_empty());
        let step = (before != after).then(|| Step::new(record.knob(), before, after));
        Ok((lines, step))
    }
}

impl LinuxMachine {
    /// All items that can or could be steered.
    fn steered(&self) -> Vec<Steered> {
        let os = &self.os;
        let mut all = Vec::new();
        let irq = os.root.proc.join("irq");
        let mut numbers: Vec<u32> =
            os.root.names(&irq).unwrap_or_default().iter().filter_map(|n| n.parse().ok()).collect();
        numbers.sort_unstable();
        let refused = os.refused();
        for number in numbers {
            let dir = irq.join(number.to_string());
            let name = device_name(&os.root, number);
            let file = ControlFile::IrqAffinity(number);
            let Some(mut thing) = steered(os, file, InterruptKind::Device) else { continue };
            thing.what.id = number.to_string();
            thing.what.effective = list(os, &dir.join("effective_affinity_list"));
            thing.what.fixed = read_only(&dir.join("smp_affinity_list"))
                .or_else(|| refused.contains(&thing.knob.knob().0).then(|| REFUSED.to_owned()));
            thing.what.name = name;
            all.push(thing);
        }
        let default = steered(os, ControlFile::DefaultIrqAffinity, InterruptKind::Default);
        all.extend(default.map(|t| t.named("default")));
        let queues = "devices/virtual/workqueue";
        let unbound = steered(os, ControlFile::UnboundCpumask, InterruptKind::UnboundWork);
        all.extend(unbound.map(|t| t.named("unbound work")));
        for name in os.root.names(&os.root.sys.join(queues)).unwrap_or_default() {
            let file = ControlFile::WorkqueueCpumask(name.clone());
            let thing = steered(os, file, InterruptKind::UnboundWork);
            all.extend(thing.map(|t| t.named(&name)));
        }
        all.extend(packet_steering(os));
        all
    }
}

impl Os {
    fn refusals(&self) -> PathBuf {
        self.root.state.join("refused")
    }

    /// The knobs of interrupts that refused to move, in this boot. Until 6.11 there is no other way to recognise an interrupt
    /// that is bound to a CPU or managed by its driver.
    fn refused(&self) -> BTreeSet<String> {
        let known = self.root.read(&self.refusals()).ok().flatten().unwrap_or_default();
        known.lines().map(str::to_owned).collect()
    }

    /// Records that an interrupt refused. Errors are ignored: losing this record only costs another attempt.
    pub(crate) fn remember_refusal(&self, file: &ControlFile) {
        let knob = LinuxKnob::File(file.clone()).knob();
        let known = self.root.read(&self.refusals()).ok().flatten().unwrap_or_default();
        if file.is_irq() && known.lines().all(|line| line != knob.0) {
            let text = format!("{known}\n{knob}");
            let _ = replace_file(&self.refusals(), text.trim_start().as_bytes(), Replacing::default());
        }
    }
}

impl Steered {
    fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.what.id);
        name.clone_into(&mut self.what.name);
        self
    }
}

fn packet_steering(os: &Os) -> Vec<Steered> {
    let mut all = Vec::new();
    let net = os.root.sys.join("class/net");
    for interface in os.root.names(&net).unwrap_or_default() {
        let queues = net.join(&interface).join("queues");
        for queue in os.root.names(&queues).unwrap_or_default() {
            let mask = if queue.starts_with("rx") { PacketMask::Rps } else { PacketMask::Xps };
            let name = format!("{interface}/{queue}");
            let file = ControlFile::Packets { interface: interface.clone(), queue, mask };
            let thing = steered(os, file, InterruptKind::PacketSteering);
            // An empty mask means no packet steering.
            let thing = thing.filter(|t| !t.what.allowed.is_empty());
            all.extend(thing.map(|t| t.named(&name)));
        }
    }
    all
}

fn steered(os: &Os, file: ControlFile, kind: InterruptKind) -> Option<Steered> {
    // A queue without packet steering returns an error instead of a mask.
    let text = os.root.read(&os.control_path(&file).ok()?).ok().flatten()?;
    let allowed = file.value_of(text.trim_end()).and_then(|v| v.parse().ok()).unwrap_or_default();
    let what = Interrupt {
        id: String::new(),
        name: String::new(),
        kind,
        allowed,
        effective: None,
        fixed: None,
        count: None,
    };
    Some(Steered { knob: LinuxKnob::File(file), what })
}

/// Since 6.12 the file of a driver-managed interrupt has no write permission.
fn read_only(file: &Path) -> Option<String> {
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o222 == 0).then(|| "the kernel manages it".to_owned())
}

fn list(os: &Os, path: &Path) -> Option<CpuSet> {
    os.root.read(path).ok().flatten()?.parse().ok()
}

/// Whether an error means that an interrupt can never be moved, and not only at this moment.
pub(crate) fn is_final(error: &KnobError) -> bool {
    match error {
        KnobError::NotPermitted => true,
        KnobError::Refused(why) => why.contains(NOT_AT_ALL),
        _ => false,
    }
}

/// Explains an error of an interrupt's file.
pub(crate) fn explain(file: &ControlFile, error: KnobError) -> KnobError {
    if !matches!(file, ControlFile::IrqAffinity(_)) {
        return error;
    }
    match error {
        KnobError::NotPermitted => {
            KnobError::Refused("it cannot be moved: the kernel manages it, or it belongs to one CPU".into())
        }
        KnobError::Refused(why) if why.contains(NOT_AT_ALL) => {
            KnobError::Refused("it cannot be moved: the kernel manages it".into())
        }
        other => other,
    }
}

impl Interrupts for LinuxMachine {
    fn list(&self) -> Result<Vec<Interrupt>, Refusal> {
        let counts = interrupt_counts(&self.os.root).unwrap_or_default();
        let counts: HashMap<&str, u64> =
            counts.iter().map(|row| (row.label.as_str(), row.counts.values().sum())).collect();
        let counted = |mut what: Interrupt| {
            if what.kind == InterruptKind::Device {
                what.count = counts.get(what.id.as_str()).copied();
            }
            what
        };
        Ok(self.steered().into_iter().map(|s| counted(s.what)).collect())
    }

    fn staying(&self) -> Result<Vec<String>, Refusal> {
        let quiet: CpuSet = self
            .states()?
            .iter()
            .filter(|s| s.state.runs_threads() && !s.state.takes_interrupts())
            .map(|s| s.cpu)
            .collect();
        Ok(Steering::of(self).staying(&quiet).into_iter().map(|s| s.line).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::CpuId;
    use proptest::prelude::*;

    fn set() -> impl Strategy<Value = CpuSet> {
        proptest::collection::btree_set(0u32..8, 0..8).prop_map(|s| s.into_iter().map(CpuId).collect())
    }

    proptest! {
        #[test]
        fn nothing_reachable_is_ever_steered_to_a_shielded_cpu(original in set(), shielded in set()) {
            let online = CpuSet::first(8);
            prop_assume!(!online.is_subset(&shielded));
            let want = wanted(&original, &shielded, &online, InterruptKind::Device);
            prop_assert!(want.is_disjoint(&shielded));
            prop_assert!(!want.is_empty());
        }

        #[test]
        fn without_a_shield_everything_is_as_it_was(original in set()) {
            prop_assume!(!original.is_empty());
            let want = wanted(&original, &CpuSet::new(), &CpuSet::first(8), InterruptKind::Device);
            prop_assert_eq!(want, original);
        }
    }

    #[test]
    fn only_a_lasting_no_is_remembered() {
        use crate::os::{BUSY, knob_error};
        use std::io::Error;
        assert!(is_final(&knob_error(Error::from_raw_os_error(libc::EIO))));
        assert!(is_final(&knob_error(Error::from_raw_os_error(libc::EPERM))));
        for just_now in [libc::EBUSY, libc::ENOSPC, libc::EINVAL, libc::ENOENT] {
            assert!(!is_final(&knob_error(Error::from_raw_os_error(just_now))), "{just_now}");
        }
        assert!(!is_final(&KnobError::Refused(BUSY.into())));
    }

    #[test]
    fn packet_steering_that_is_off_stays_off() {
        let shielded = CpuSet::first(1);
        let want = wanted(&CpuSet::new(), &shielded, &CpuSet::first(4), InterruptKind::PacketSteering);
        assert!(want.is_empty());
    }
}
