//! For each clause of the law, a mutation that the law detects: a baseline that is not stored, or a record that is lost.

use super::{Broken, WHOLE, World, run};
use millpond_linux::SetLabel;
use millpond_machine::{Baseline, Journal, JournalError, Knob, MemoryJournal, Operation, Step, Value};
use std::collections::BTreeMap;
use std::fs;

/// A journal that loses the baselines of some knobs.
struct Forgetful {
    inner: MemoryJournal,
    forgets: fn(&str) -> bool,
}

impl Forgetful {
    fn journal(forgets: fn(&str) -> bool) -> Box<dyn Journal> {
        Box::new(Forgetful { inner: MemoryJournal::default(), forgets })
    }

    fn kept(&self, steps: &[Step]) -> Vec<Step> {
        let mut steps = steps.to_vec();
        for step in steps.iter_mut().filter(|step| (self.forgets)(&step.knob.0)) {
            step.baseline = Baseline::Ours;
        }
        steps
    }
}

impl Journal for Forgetful {
    fn begin(&self, what: &str, boot: &str, steps: &[Step]) -> Result<(), JournalError> {
        self.inner.begin(what, boot, &self.kept(steps))
    }

    fn extend(&self, steps: &[Step]) -> Result<(), JournalError> {
        self.inner.extend(&self.kept(steps))
    }

    fn refused(&self, knob: &Knob) -> Result<(), JournalError> {
        self.inner.refused(knob)
    }

    fn commit(&self) -> Result<(), JournalError> {
        self.inner.commit()
    }

    fn abort(&self) -> Result<(), JournalError> {
        self.inner.abort()
    }

    fn unfinished(&self) -> Result<Option<Operation>, JournalError> {
        self.inner.unfinished()
    }

    fn baseline(&self, knob: &Knob) -> Option<Option<Value>> {
        self.inner.baseline(knob)
    }

    fn baselines(&self) -> BTreeMap<Knob, Option<Value>> {
        self.inner.baselines()
    }

    fn forget_other_boots(&self, boot: &str) -> Result<(), JournalError> {
        self.inner.forget_other_boots(boot)
    }

    fn moment(&self, name: &str) {
        self.inner.moment(name);
    }
}

/// This number of trees is enough to detect each of them.
const TREES: u64 = 400;

/// Checks that a mutant is detected, in the expected files.
fn finds(clause: &str, seen: &str, broken: &Broken) {
    let shown = (0..TREES).find_map(|number| run(number, broken).err());
    let shown = shown.unwrap_or_else(|| panic!("{clause}: {TREES} trees do not show it"));
    let differing = shown.lines().filter(|line| line.contains(" -> "));
    assert!(differing.into_iter().any(|line| line.contains(seen)), "{clause}: {shown}");
}

fn forgetting(clause: &str, seen: &str, journal: fn() -> Box<dyn Journal>) {
    finds(clause, seen, &Broken { journal, ..WHOLE });
}

#[test]
fn a_list_of_another_group_that_is_not_remembered_is_found() {
    forgetting("lists", "/cpuset.cpus:", || Forgetful::journal(|knob| knob.ends_with("/cpuset.cpus")));
}

#[test]
fn the_flag_of_a_partition_that_is_not_remembered_is_found() {
    forgetting("flags", "/cpuset.cpus.partition:", || {
        Forgetful::journal(|knob| knob.ends_with("/cpuset.cpus.partition"))
    });
}

#[test]
fn the_place_of_a_thread_that_is_not_remembered_is_found() {
    forgetting("places", "/cgroup:", || Forgetful::journal(|knob| knob.starts_with("place:")));
}

#[test]
fn the_mask_of_a_kernel_thread_that_is_not_remembered_is_found() {
    forgetting("kernel threads", "/mask:", || Forgetful::journal(|knob| knob.starts_with("kthread:")));
}

#[test]
fn the_mask_of_a_thread_that_is_not_remembered_is_found() {
    forgetting("masks", "/mask:", || Forgetful::journal(|knob| knob.starts_with("mask:")));
}

#[test]
fn the_list_of_an_interrupt_that_is_not_remembered_is_found() {
    forgetting("interrupts", "/smp_affinity_list:", || {
        Forgetful::journal(|knob| knob.ends_with("/smp_affinity_list"))
    });
}

#[test]
fn the_mask_of_workqueues_that_is_not_remembered_is_found() {
    forgetting("workqueues", "/workqueue/cpumask:", || {
        Forgetful::journal(|knob| knob.ends_with("/workqueue/cpumask"))
    });
}

#[test]
fn the_latency_of_a_cpu_that_is_not_remembered_is_found() {
    forgetting("settings", "/pm_qos_resume_latency_us:", || {
        Forgetful::journal(|knob| knob.ends_with("/pm_qos_resume_latency_us"))
    });
}

/// Removes from the label of the newest set the sets that its CPUs came from.
fn forget_former(world: &World) {
    let root = world.made.dir.path().join(world.made.group_root());
    let files = fs::read_dir(root).unwrap().flatten().map(|entry| entry.path().join(".label.set"));
    let labels = files.filter_map(|file| {
        let label: SetLabel = serde_json::from_str(&fs::read_to_string(&file).ok()?).unwrap();
        Some((file, label))
    });
    if let Some((file, mut label)) = labels.max_by_key(|(_, label)| label.serial) {
        label.former.clear();
        fs::write(&file, label.text()).unwrap();
    }
}

#[test]
fn a_cpu_that_does_not_return_to_the_set_that_it_came_from_is_found() {
    finds("former sets", "/.label.set:", &Broken { damage: forget_former, ..WHOLE });
}
