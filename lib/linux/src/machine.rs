//! The machine: its facets and its knobs.

use crate::classes::Live;
use crate::clock::LinuxClock;
use crate::files::{Replacing, replace_file};
use crate::hierarchy::{Hierarchy, lists_cpuset};
use crate::interrupt_names::{UNUSED, device_name};
use crate::knob::{ControlFile, CpusetFile, LinuxKnob, list_value, node_list};
use crate::messages;
use crate::names;
use crate::notices::{self, PublishedNotices};
use crate::os::{NO_ROOM, knob_error};
use crate::plan::{Wanted, plan};
use crate::shared_reads::SharedReads;
use crate::state_dir::make_state_dir;
use crate::steering::{self, Steering};
use crate::view::is_within;
use crate::{Os, Root, is_gone};
use millpond_machine::{
    Absent, Clock, Guard, Journal, Knob, KnobError, Knobs, Machine, Reason, Refusal, Step, Value, Writing,
};
use millpond_model::{CpuSet, KernelFeature, NodeSet, ShelterItem};
use rustix::fs::{Mode, OFlags, openat};
use std::cell::{OnceCell, RefCell};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Number of checks whether an interrupt has taken its list. An unused interrupt may never do so, and there may be many of these.
const LOOKS_UNUSED: u32 = 5;

/// The same for a used interrupt. It takes the list as soon as the CPU that moves it runs, which may be a virtual CPU that waits
/// for a real one.
const LOOKS_USED: u32 = 60;

/// Delay after the first check; it grows with each check.
const BETWEEN_LOOKS: Duration = Duration::from_micros(500);

/// Somewhat more descriptors than one undo step opens at a time.
const SPARE: usize = 8;

/// A Linux machine under a root.
pub struct LinuxMachine {
    pub(crate) os: Os,
    pub(crate) journal: Box<dyn Journal>,
    clock: LinuxClock,
    cgroups: bool,
    boot: OnceCell<String>,
    pub(crate) shared_reads: SharedReads,
    told: RefCell<PublishedNotices>,
    /// The scheduler of the classes, as last opened.
    pub(crate) live: RefCell<Option<Rc<Live>>>,
    /// Descriptors reserved for undo.
    spare: RefCell<Vec<OwnedFd>>,
}

impl LinuxMachine {
    /// Opens the machine under `root`. `journal` has its unfinished operations and baselines.
    #[must_use]
    pub fn open(root: Root, journal: Box<dyn Journal>) -> Self {
        let clock = LinuxClock::new(&root);
        let os = Os::new(root);
        let cgroups = os.may_write_groups().is_ok();
        let shared_reads = SharedReads::of(os.seen_records.clone());
        LinuxMachine {
            os,
            journal,
            clock,
            cgroups,
            boot: OnceCell::new(),
            shared_reads,
            told: RefCell::default(),
            live: RefCell::default(),
            spare: RefCell::default(),
        }
    }

    /// Access to the machine's files.
    #[must_use]
    pub fn os(&self) -> &Os {
        &self.os
    }

    /// Whether sets can be enforced by cgroups, and not only by masks.
    pub(crate) fn has_cgroups(&self) -> bool {
        self.cgroups
    }

    fn write_file(&self, file: &ControlFile, value: Option<&Value>) -> Result<(), KnobError> {
        let path = self.os.control_path(file)?;
        let _busy = match file {
            ControlFile::Cpuset(group, CpusetFile::Partition) => self.busy(group, value.map(String::as_str)),
            _ => None,
        };
        let written = self.os.write(&path, &file.text_of(value, self.os.width()));
        written.map_err(|error| {
            if steering::is_final(&error) {
                self.os.remember_refusal(file);
            }
            self.explain_busy(file, steering::explain(file, error))
        })?;
        // An unused interrupt may accept a list and keep its old one. If a daemon places interrupts, it may have moved this one
        // already.
        if file.is_irq() && !self.os.is_balanced() && !self.has_taken(file, value)? {
            self.os.remember_refusal(file);
            // An interrupt that its driver freed while a new list was pending shows that list until the last CPU of it goes
            // off-line. After that, it shows the list that was written last. So write the list that is shown.
            if let Ok(shown) = self.read_file(file) {
                let _ = self.os.write(&path, &file.text_of(shown.as_ref(), self.os.width()));
            }
            return Err(KnobError::Refused(
                "it cannot be moved: it accepts the change and stays where it is".into(),
            ));
        }
        // The kernel accepts an impossible partition and then declares it invalid, so read it back.
        if let ControlFile::Cpuset(group, CpusetFile::Partition) = file {
            let is = self.read_file(file)?;
            if is.as_ref() != value {
                let is = is.unwrap_or_else(|| "member".into());
                let _ = self.os.write(&path, "member");
                return Err(messages::partition_refused(group, &is));
            }
        }
        Ok(())
    }

    /// Clears a cgroup's CPU list. Before 7.0 the kernel refuses this while the cgroup or its children have processes. For a
    /// foreign cgroup, a list of all CPUs is written instead, which is equivalent.
    fn take_list_away(&self, group: &str, file: &ControlFile) -> Result<(), KnobError> {
        let result = self.ending(group, || self.write_file(file, None));
        match result {
            Err(KnobError::Refused(why))
                if why == NO_ROOM && !self.os.hierarchy.is_v1() && names::owner(group).is_none() =>
            {
                let every = self.os.cpu_list("possible")?;
                self.write_file(file, list_value(&every).as_ref())
            }
            result => result,
        }
    }

    /// Clears a cgroup's list of memory nodes. Where the kernel refuses this because of processes, a list of all nodes is
    /// written, which is equivalent.
    fn take_nodes_away(&self, group: &str, file: &ControlFile) -> Result<(), KnobError> {
        match self.ending(group, || self.write_file(file, None)) {
            Err(KnobError::Refused(why)) if why == NO_ROOM && !self.os.hierarchy.is_v1() => {
                self.write_file(file, node_list(&self.os.memory_nodes()).as_ref())
            }
            result => result,
        }
    }

    pub(crate) fn read_file(&self, file: &ControlFile) -> Result<Option<Value>, KnobError> {
        let text = self.os.root.read_value(&self.os.control_path(file)?).map_err(knob_error)?;
        let value = text.and_then(|text| file.value_of(text.trim_end()));
        let is_nodes = matches!(file, ControlFile::Cpuset(_, CpusetFile::Mems));
        Ok(if is_nodes { self.os.limit_of_nodes(value) } else { value })
    }

    /// Whether an accepted list is in effect. An interrupt that is being moved shows its old list for a moment.
    fn has_taken(&self, file: &ControlFile, value: Option<&Value>) -> Result<bool, KnobError> {
        let is_used = match file {
            ControlFile::IrqAffinity(irq) => device_name(&self.os.root, *irq) != UNUSED,
            _ => false,
        };
        for look in 0..if is_used { LOOKS_USED } else { LOOKS_UNUSED } {
            if look > 0 {
                std::thread::sleep(BETWEEN_LOOKS * look);
            }
            if self.read_file(file)?.as_ref() == value {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reserves descriptors that undo releases, so that a change that fails for lack of descriptors can be undone.
    fn keep_spare(&self) -> std::io::Result<()> {
        let mut spare = self.spare.borrow_mut();
        while spare.len() < SPARE {
            let again =
                spare.first().map(|first| openat(first, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()));
            spare.push(match again {
                Some(again) => again?,
                None => fs::File::open(&self.os.root.state)?.into(),
            });
        }
        Ok(())
    }

    /// Removes temporary files of records, left by killed writers. Only the lock holder may do this.
    fn remove_drafts(&self, dir: &Path) {
        for name in self.os.root.names(dir).unwrap_or_default().iter().filter(|name| name.starts_with('.')) {
            let _ = fs::remove_file(dir.join(name));
        }
    }

    fn controller(&self, path: &str) -> Result<Option<Value>, KnobError> {
        let file = self.os.group(path)?.join("cgroup.subtree_control");
        let text = self.os.root.read_value(&file).map_err(knob_error)?.unwrap_or_default();
        Ok(lists_cpuset(&text).then(|| "on".to_owned()))
    }

    /// The object that a writer locks. For root it is a single file for all state directories, which no other user can open. The
    /// changes of other users are in state directories that only that user can open.
    pub(crate) fn locked_place(&self) -> PathBuf {
        let root = &self.os.root;
        if !(root.is_live() && rustix::process::geteuid().is_root()) {
            return root.state.clone();
        }
        let usual = root.run.join("millpond");
        // The writer has created and checked its state directory.
        let is_made = usual == root.state && usual.is_dir() || make_state_dir(&usual).is_ok();
        let dir = if is_made { &usual } else { &root.state };
        dir.join("writer.lock")
    }
}

impl Knobs for LinuxMachine {
    fn read(&self, knob: &Knob) -> Result<Option<Value>, KnobError> {
        match LinuxKnob::parse(knob)? {
            LinuxKnob::Cgroup(path) => Ok(self.os.group(&path)?.is_dir().then(|| "present".to_owned())),
            LinuxKnob::File(file) => self.read_file(&file),
            LinuxKnob::CpusetController(path) => self.controller(&path),
            LinuxKnob::Label(path, label) => self.os.label(&path, label.name()),
            LinuxKnob::CgroupOf(task) => match self.os.stat(task.pid, task.tid).map_err(knob_error)? {
                Some(stat) if stat.start == task.start => {
                    self.os.place(task.pid, task.tid).map_err(knob_error)
                }
                _ => Err(KnobError::Gone),
            },
            LinuxKnob::Affinity(task) => self.mask_value(task).map(Some),
            LinuxKnob::KernelThread(task) => self.kernel_thread_value(task).map(Some),
            LinuxKnob::Policy(task) => self.policy(task).map(|policy| Some(policy.to_string())),
            LinuxKnob::ClassOf(task) => self.class_value(task),
            LinuxKnob::DispatchTable(class) => self.table_value(class),
            LinuxKnob::Slice(path) => Ok(self.os.group(&path)?.is_dir().then(|| "present".to_owned())),
            LinuxKnob::AllowedCpus(path) => Ok(self.os.allowed_cpus(&path)?.map(|cpus| cpus.to_string())),
            LinuxKnob::AllowedMemoryNodes(path) => {
                self.read_file(&ControlFile::Cpuset(path, CpusetFile::Mems))
            }
            LinuxKnob::Weight(path) => self.os.weight(&path),
            LinuxKnob::Quota(path) => self.os.quota(&path),
            LinuxKnob::CpuController(path) => self.os.cpu_controller(&path),
            LinuxKnob::CpuCgroup(path) => self.os.cpu_group(&path),
            LinuxKnob::CpuCgroupOf(task) => self.os.still(task).and_then(|()| self.os.cpu_place(task.pid)),
            LinuxKnob::MemoryOf(task) => self.os.still(task).map(|()| None),
            LinuxKnob::UnitSlice(unit) => self.os.persistent_slice(&unit),
            LinuxKnob::CacheGroup(name) => {
                Ok(self.os.cache_group(&name).is_dir().then(|| "present".to_owned()))
            }
            LinuxKnob::IrqbalanceBanned => self.os.left_alone().map(|cpus| list_value(&cpus)),
            LinuxKnob::OsnoiseSetting(name) => self.os.osnoise(&name),
            LinuxKnob::TraceInstance(instance) => self.os.tracer(&instance),
            LinuxKnob::Record(name) => self.os.root.read(&self.os.record_file(&name)).map_err(knob_error),
        }
    }

    fn write(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
        self.shared_reads.forget();
        let written = self.write_knob(knob, value);
        self.shared_reads.forget_as_writer();
        written
    }

    fn settle(&self) -> Result<Vec<Step>, Refusal> {
        // Threads fork while others are moved, so a writer reads again each time.
        self.shared_reads.forget_as_writer();
        self.settling().inspect_err(|_| self.shared_reads.forget_as_writer())
    }

    fn stale(&self) -> Vec<Step> {
        // The same reading serves the stale and the remaining steps.
        let steps = self.stale_steps();
        self.shared_reads.forget_as_writer();
        steps
    }

    fn publish(&self) -> Vec<String> {
        // The journal has changed.
        self.shared_reads.forget_as_writer();
        let notes = if self.is_published() { Vec::new() } else { notices::publish(&self.os) };
        self.shared_reads.forget_as_writer();
        notes
    }

    fn is_published(&self) -> bool {
        let Ok(online) = self.online_now() else { return false };
        let told = &mut self.told.borrow_mut();
        let seen = self
            .shared_reads
            .of_view(|v| notices::is_published(&self.os, v.recorded.as_ref(), &online, told));
        let of = |state: Option<millpond_model::pools::PoolsState>| {
            notices::is_published(&self.os, state.as_ref(), &online, told)
        };
        seen.unwrap_or_else(|| self.recorded().is_ok_and(of))
    }

    fn shared_reads(&self) -> Option<Box<dyn Guard>> {
        Some(self.shared_reads.begin())
    }

    fn called(&self, knob: &Knob) -> String {
        messages::called(&self.os, knob)
    }

    fn lock(&self) -> Result<Box<dyn Guard>, Refusal> {
        // The contents of the directory are trusted and restored, so no other user may have written them.
        make_state_dir(&self.os.root.state).map_err(|e| state_refused(&e))?;
        self.os.root.check_state().map_err(|e| state_refused(&e))?;
        let held = self.lock_dir(&self.locked_place())?;
        self.keep_spare().map_err(|e| Refusal::operation(Reason::Machine(e.to_string())))?;
        Ok(self.shared_reads.begin_writing(held))
    }

    fn undoing(&self) {
        self.spare.borrow_mut().clear();
    }

    fn writing(&self) -> Writing {
        self.writing_in(&self.locked_place())
    }

    fn boot_id(&self) -> String {
        let read = || {
            let file = self.os.root.proc.join("sys/kernel/random/boot_id");
            self.os.root.read_value(&file).ok().flatten().unwrap_or_default()
        };
        // On the live root the boot id cannot change while this process runs. A captured machine can be replaced by one of
        // another boot.
        if self.os.root.is_live() { self.boot.get_or_init(read).clone() } else { read() }
    }
}

impl LinuxMachine {
    fn write_knob(&self, knob: &Knob, value: Option<&Value>) -> Result<(), KnobError> {
        match LinuxKnob::parse(knob)? {
            LinuxKnob::Cgroup(path) => match value {
                Some(_) => self.os.make_group(&path),
                None => match self.ending(&path, || self.os.remove_group(&path)) {
                    Err(KnobError::Gone) => Ok(()),
                    result => result,
                },
            },
            LinuxKnob::File(ref file @ ControlFile::Cpuset(ref group, CpusetFile::Mems))
                if value.is_none() =>
            {
                self.take_nodes_away(group, file)
            }
            LinuxKnob::File(ref file @ ControlFile::Cpuset(ref group, CpusetFile::Cpus))
                if value.is_none() =>
            {
                self.take_list_away(group, file)
            }
            // A schema is removed with its group. The kernel accepts no empty one.
            LinuxKnob::File(ControlFile::Schema(..)) if value.is_none() => Ok(()),
            LinuxKnob::File(file) => self.write_file(&file, value),
            LinuxKnob::CpusetController(path) => {
                let file = self.os.group(&path)?.join("cgroup.subtree_control");
                self.os.write(&file, if value.is_some() { "+cpuset" } else { "-cpuset" })
            }
            LinuxKnob::Label(path, label) => {
                self.os.set_label(&path, label.name(), value.map(String::as_str))
            }
            LinuxKnob::Slice(path) if value.is_some() => self.os.make_unit(&path),
            LinuxKnob::Slice(path) => self.os.remove_unit(&path),
            LinuxKnob::AllowedCpus(path) => {
                let cpus: Option<CpuSet> = match value {
                    Some(text) => Some(text.parse().map_err(|_| KnobError::Unknown(knob.0.clone()))?),
                    None => None,
                };
                self.os.allow_cpus(&path, cpus.as_ref())
            }
            LinuxKnob::AllowedMemoryNodes(path) => {
                let nodes = value.map(|text| text.parse::<NodeSet>()).transpose();
                let nodes = nodes.map_err(|_| KnobError::Unknown(knob.0.clone()))?;
                self.os.allow_memory(&path, nodes.as_ref())
            }
            LinuxKnob::Weight(path) => self.os.set_weight(&path, value.map(String::as_str)),
            LinuxKnob::Quota(path) => self.os.set_quota(&path, value.map(String::as_str)),
            LinuxKnob::CpuController(path) => self.os.set_cpu_controller(&path, value.is_some()),
            LinuxKnob::CpuCgroup(path) if value.is_some() => self.os.make_cpu_group(&path),
            LinuxKnob::CpuCgroup(path) => self.os.remove_cpu_group(&path),
            LinuxKnob::CpuCgroupOf(task) => self.os.set_cpu_place(task, value.map_or("/", |v| v)),
            LinuxKnob::CacheGroup(name) => self.os.set_cache_group(&name, value.is_some()),
            LinuxKnob::MemoryOf(task) => match value.map(|text| text.parse::<NodeSet>()) {
                Some(nodes) => {
                    let nodes = nodes.map_err(|_| KnobError::Unknown(knob.0.clone()))?;
                    self.os.move_pages(task, &nodes)
                }
                // Moved memory is not moved back, because its original nodes are not recorded.
                None => Ok(()),
            },
            LinuxKnob::UnitSlice(unit) => self.os.set_persistent_slice(&unit, value.map(String::as_str)),
            LinuxKnob::CgroupOf(task) if self.os.systemd && task.tid.is_none() => {
                self.os.place_by_systemd(task, value.map_or("/", |v| v))
            }
            LinuxKnob::CgroupOf(task) => {
                let result = self.os.attach(task, value.map_or("/", |v| v));
                result.map_err(|error| self.explain_busy_task(task, error))
            }
            LinuxKnob::Affinity(task) | LinuxKnob::KernelThread(task) => {
                let mask = match value.map(String::as_str) {
                    None | Some("all") => None,
                    Some(text) => Some(text.parse().map_err(|_| KnobError::Unknown(knob.0.clone()))?),
                };
                let result = self.os.set_mask(task, mask.as_ref());
                result.map_err(|error| self.explain_busy_task(task, error))
            }
            LinuxKnob::Policy(task) => {
                let unknown = || KnobError::Unknown(knob.0.clone());
                let to = value.and_then(|text| text.parse().ok()).ok_or_else(unknown)?;
                self.set_policy(task, to)
            }
            LinuxKnob::ClassOf(task) => {
                let unknown = |_| KnobError::Unknown(knob.0.clone());
                self.set_class(task, value.map(|text| text.parse().map_err(unknown)).transpose()?)
            }
            LinuxKnob::DispatchTable(class) => match value {
                Some(text) => self.set_table(class, text),
                None => Err(KnobError::Unknown(knob.0.clone())),
            },
            LinuxKnob::IrqbalanceBanned => {
                let cpus = value.map_or(Ok(CpuSet::new()), |list| list.parse());
                self.os.leave_alone(&cpus.map_err(|_| KnobError::Unknown(knob.0.clone()))?)
            }
            LinuxKnob::OsnoiseSetting(name) => self.os.set_osnoise(&name, value.map_or("", |v| v)),
            LinuxKnob::TraceInstance(instance) if value.is_some() => self.os.begin_tracer(&instance),
            LinuxKnob::TraceInstance(instance) => self.os.end_tracer(&instance),
            LinuxKnob::Record(name) => {
                let file = self.os.record_file(&name);
                let dir = file.parent().unwrap_or(&file);
                let result = match value {
                    None => match fs::remove_file(&file) {
                        Err(error) if is_gone(&error) => Ok(()),
                        result => {
                            self.remove_drafts(dir);
                            // Removes the directory after the last record. While it has others, this fails.
                            let _ = fs::remove_dir(dir);
                            result
                        }
                    },
                    Some(value) => fs::create_dir_all(dir)
                        .and_then(|()| replace_file(&file, value.as_bytes(), state_file())),
                };
                result.map_err(knob_error)
            }
        }
    }

    fn settling(&self) -> Result<Vec<Step>, Refusal> {
        let mut steps = Vec::new();
        let mut moves_kernel_threads = false;
        let mut sets = None;
        if self.has_cgroups() {
            let (view, live) = self.live_sets()?;
            sets = Some(live.clone());
            steps = self.noting_masks(&view, &[], plan(&view, &Wanted::of(&view, live, Vec::new())))?;
            if are_remains(&steps) {
                steps.clear();
            }
            moves_kernel_threads = self.move_kernel_threads(&view, &steps);
            steps.extend(view.steps_of_left());
        }
        steps.extend(Steering::of(self).steps(&self.shielded()?)?);
        if let Some(sets) = sets {
            let sheltering = self.sheltering(&sets)?;
            // Changes to kernel threads by earlier steps are seen at the next call. Until then their original masks stay
            // recorded.
            let waits = |item: ShelterItem| moves_kernel_threads && item == ShelterItem::KernelThreads;
            steps.extend(sheltering.into_iter().filter(|(item, _)| !waits(*item)).map(|(_, step)| step));
        }
        steps.extend(self.settle_masks());
        steps.extend(self.settle_controls()?);
        steps.extend(self.damaged_record());
        self.os.check_records().map(|()| steps)
    }
}

/// Options for files of the state directory: members of pools and listings of other users read them.
fn state_file() -> Replacing {
    Replacing { mode: Some(0o644), is_of_boot: true, ..Replacing::default() }
}

fn state_refused(error: &std::io::Error) -> Refusal {
    let refusal = Refusal::operation(Reason::Journal(error.to_string()));
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            refusal.hint("name a directory of your own with MILLPOND_STATE")
        }
        _ => refusal,
    }
}

/// Whether the only steps are removals of leaves whose last task has ended. This is not an inconsistency; the next change does
/// it.
fn are_remains(steps: &[Step]) -> bool {
    let leaves: Vec<String> = steps
        .iter()
        .filter(|s| s.after.is_none())
        .filter_map(|s| match LinuxKnob::parse(&s.knob) {
            Ok(LinuxKnob::Cgroup(path)) => Some(path),
            _ => None,
        })
        .filter(|path| path.rsplit_once('/').is_some_and(|(above, _)| names::owner(above).is_some()))
        .collect();
    let concerns = |knob: &Knob, leaf: &str| match LinuxKnob::parse(knob) {
        Ok(LinuxKnob::Cgroup(path) | LinuxKnob::CpusetController(path) | LinuxKnob::Label(path, _)) => {
            path == leaf
        }
        Ok(LinuxKnob::File(file)) => file.cgroup().is_some_and(|group| is_within(group, leaf)),
        _ => false,
    };
    steps.iter().all(|s| leaves.iter().any(|leaf| concerns(&s.knob, leaf)))
}

impl Machine for LinuxMachine {
    fn name(&self) -> &'static str {
        "real"
    }

    fn clock(&self) -> &dyn Clock {
        &self.clock
    }

    fn journal(&self) -> &dyn Journal {
        self.journal.as_ref()
    }

    fn kernel_features(&self) -> Vec<KernelFeature> {
        self.os.features()
    }

    millpond_machine::facets! { self:
        processors, Processors => Ok(self);
        psets, Psets => Ok(self);
        fences, Fences => self.cgroups_or_absent().map(|()| self as _);
        threads, Threads => Ok(self);
        zones, Zones => self.cgroups_or_absent().map(|()| self as _);
        pools, Pools => self.cgroups_or_absent().map(|()| self as _);
        interrupts, Interrupts => Ok(self);
        counters, Counters => Ok(self);
        sampler, Sampler => Ok(self);
        accounting, Accounting => Ok(self);
        dispatcher, Dispatcher => Ok(self);
        lgroups, Lgroups => Ok(self);
        hardware_counters, HardwareCounters => {
            self.os.root.running(|| Absent::because("it is a captured machine, where nothing goes on"))?;
            Ok(self)
        };
        latency, LatencyProbe => {
            self.os.root.running(|| Absent::because("a captured machine runs no threads"))?;
            Ok(self)
        };
        disturbances, Disturbances => Ok(self);
        census, Census => Ok(self);
        controls, Controls => {
            match &self.os.cpu {
                Ok(_) => Ok(self),
                Err(absent) => Err(absent.clone()),
            }
        };
        images, Images => {
            let why = "a captured machine has files, and no memory of its processes";
            self.os.root.running(|| Absent::because(why))?;
            Ok(self)
        };
    }
}

impl LinuxMachine {
    fn cgroups_or_absent(&self) -> Result<(), Absent> {
        match &self.os.hierarchy {
            Hierarchy::None(absent) => Err(absent.clone()),
            _ => Ok(()),
        }
    }
}
