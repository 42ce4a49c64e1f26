//! The Threads facet: bindings to sets by cgroup, bindings to CPUs by affinity mask.

use crate::LinuxMachine;
use crate::knob::{LinuxKnob, TaskId};
use crate::masks::ALL;
use crate::names;
use crate::os::knob_error;
use crate::plan::{Destination, Wanted, plan};
use crate::procfs::Stat;
use millpond_machine::facets::{Launch, LwpStatus, Process, Program, Rebinding};
use millpond_machine::{Change, Knob, KnobError, Psets, Reason, Refusal, Step, Subject, Threads, Value};
use millpond_model::{CpuId, CpuSet, Lwp, LwpId, Pid, Pset, PsetId};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

/// Number of attempts to read the cgroup of a live task from `/proc`, and the increase of the delay between them.
const PLACE_LOOKS: u32 = 5;
const PLACE_WAIT: Duration = Duration::from_millis(1);

impl LinuxMachine {
    /// The value of a mask knob. The kernel does not distinguish "no mask" from "a mask of the whole cpuset". A mask equal
    /// to the cpuset counts as none, except for our own binding to all CPUs of a cpuset.
    pub(crate) fn mask_value(&self, task: TaskId) -> Result<Value, KnobError> {
        let mask = self.os.mask(task)?;
        let ours = (mask.len() == 1 || self.bound_to(task).is_some()) && self.is_ours(task);
        let is_all = !ours && mask == self.cpuset_of(task)?;
        let offline = self.os.offline().unwrap_or_default();
        if offline.is_empty() || ours {
            return Ok(if is_all { ALL.to_owned() } else { mask.to_string() });
        }
        // Only in the root cgroup a mask has CPUs that are off-line.
        let hidden = &self.os.whole_mask(task, &offline)? & &offline;
        // A thread that was created while masks lack such a CPU lacks it, too.
        if is_all && (hidden == offline || self.narrows_masks() || !self.is_in_root(task)) {
            return Ok(ALL.to_owned());
        }
        if !is_all && hidden.is_empty() {
            return Ok(mask.to_string());
        }
        // Last, because it reads every group: those in partitions do not count.
        let free = self.free_offline();
        let hidden = &hidden & &free;
        Ok(if is_all && hidden == free { ALL.to_owned() } else { (&mask | &hidden).to_string() })
    }

    pub(crate) fn cpuset_of(&self, task: TaskId) -> Result<CpuSet, KnobError> {
        match self.os.place(task.pid, Some(task.leader())).map_err(knob_error)? {
            Some(place) => self.os.effective(&place),
            None => self.os.online(),
        }
    }

    /// The threads of a process that a request selects, identified.
    pub(crate) fn selected(&self, pid: Pid, lwps: Option<&[LwpId]>) -> Result<Vec<(TaskId, Stat)>, Refusal> {
        let (_, leader) = self.os.identify(pid, None)?;
        if leader.kernel {
            return Err(Refusal::new(Subject::Process(pid), Reason::KernelThread));
        }
        if !self.os.may_control(pid.0) {
            return Err(Refusal::new(Subject::Process(pid), Reason::NotPermitted)
                .hint("it belongs to another user: ask an administrator"));
        }
        let machine_error = |e: std::io::Error| crate::view::about(pid.0, Reason::Machine(e.to_string()));
        let tids = self.os.tids(pid.0).map_err(machine_error)?;
        let wanted: Vec<u32> = match lwps {
            None => tids,
            Some(lwps) => {
                let missing = lwps.iter().find(|l| !tids.contains(&l.0));
                if let Some(lwp) = missing {
                    let subject = Subject::Thread(Lwp { pid, lwp: *lwp });
                    return Err(Refusal::new(subject, Reason::NoSuchLwp));
                }
                lwps.iter().map(|l| l.0).collect()
            }
        };
        let mut tasks = Vec::new();
        for tid in wanted {
            match self.os.identify(pid, Some(tid)) {
                Ok(found) => tasks.push(found),
                // A thread that ends during the request is not an error.
                Err(refusal) if lwps.is_none() && refusal.reason == Reason::NoSuchLwp => {}
                Err(refusal) => return Err(refusal),
            }
        }
        if tasks.is_empty() {
            return Err(Refusal::new(Subject::Process(pid), Reason::ExitedMeanwhile));
        }
        Ok(tasks)
    }

    /// The cgroup of a task. Occasionally `/proc` does not report the cgroup of a live task (observed on an emulated Linux 6.17,
    /// for one in a hundred programs started into a set while other programs fork continuously). Then it is read again.
    fn place_of(&self, task: TaskId) -> Result<String, Refusal> {
        let about = |reason| crate::view::about(task.pid, reason);
        for look in 0..PLACE_LOOKS {
            thread::sleep(PLACE_WAIT * look);
            let at = self.os.place(task.pid, Some(task.leader()));
            match at.map_err(|error| about(Reason::Machine(error.to_string())))? {
                Some(at) => return Ok(at),
                None if self.os.still(task).is_err() => break,
                None => {}
            }
        }
        Err(about(Reason::ExitedMeanwhile))
    }

    /// The moves of a whole process: thread by thread if its threads are in several cgroups, as is possible on version 1.
    pub(crate) fn whole_process(
        &self,
        pid: Pid,
        tasks: &[(TaskId, Stat)],
        v1: bool,
        to: Destination,
    ) -> Result<Vec<(TaskId, String, Destination)>, Refusal> {
        let each: Vec<(TaskId, String, Destination)> =
            tasks.iter().map(|(t, _)| Ok((*t, self.place_of(*t)?, to))).collect::<Result<_, Refusal>>()?;
        if v1 && each.iter().any(|(_, at, _)| *at != each[0].1) {
            return Ok(each);
        }
        if let Some((leader, at, _)) = each.into_iter().find(|(task, _, _)| task.tid == Some(pid.0)) {
            return Ok(vec![(TaskId { tid: None, ..leader }, at, to)]);
        }
        let (whole, _) = self.os.identify(pid, None)?;
        Ok(vec![(whole, self.place_of(whole)?, to)])
    }

    /// Whether no thread is bound to a CPU outside a set, regardless of the origin of the binding.
    pub(crate) fn stays_inside(
        &self,
        pid: Pid,
        tasks: &[(TaskId, Stat)],
        inside: &dyn Fn(&CpuId) -> bool,
        set: PsetId,
    ) -> Result<(), Refusal> {
        let lists = self.bound_lists();
        let candidates = tasks.iter().filter(|(task, _)| self.os.may_be_bound(task.leader(), &lists));
        let bound = candidates.filter_map(|(task, _)| self.status(*task).ok()).map(|status| status.cpus);
        match bound.into_iter().find_map(|cpus| cpus.iter().find(|cpu| !inside(cpu))) {
            None => Ok(()),
            Some(cpu) => {
                let refusal = Refusal::new(Subject::Process(pid), Reason::BoundElsewhere { cpu, set });
                Err(refusal.hint(format!("unbind it first (pbind -u {pid})")))
            }
        }
    }

    /// The threads that are bound to CPUs by any program. Excludes this process, whose binding ends with the command.
    pub(crate) fn bound_to_processors(&self) -> Result<Vec<LwpStatus>, Refusal> {
        let own = self.os.root.own_pid().map(Pid);
        let bound = self.bound()?.into_iter();
        let own_one = |t: &LwpStatus| Some(t.lwp.pid) == own;
        Ok(bound.filter(|t| !t.cpus.is_empty()).filter(|t| !own_one(t)).collect())
    }

    /// Whether a mask of one CPU is a binding. It is one if the thread's set has more CPUs, whichever program set the mask,
    /// because other observers see the same. A wider foreign mask that sets reduce to one CPU is indistinguishable from a
    /// binding.
    fn is_binding(&self, task: TaskId) -> Result<bool, KnobError> {
        // In a set of one CPU all threads have such a mask, so only our own binding counts. A binding that a child inherited
        // becomes visible when the set grows.
        if !self.has_cgroups() {
            return Ok(self.cpus_without_rights(task)?.len() > 1);
        }
        Ok(self.is_ours(task) || self.cpuset_of(task)?.len() > 1)
    }

    /// Whether a mask of several CPUs was inherited from a thread that we bound to them. Only if the cpuset has more CPUs.
    fn is_heir(&self, task: TaskId, mask: &CpuSet) -> Result<bool, KnobError> {
        Ok(self.bound_lists().contains(mask) && *mask != self.cpuset_of(task)?)
    }

    /// Records bindings that would become invisible because their set is reduced to one CPU: inherited ones and foreign ones.
    /// Recorded bindings stay visible. Bindings to a CPU that leaves end.
    pub(crate) fn adopted(
        &self,
        left_with_one: &BTreeSet<PsetId>,
        bound: &[LwpStatus],
        leaving: &CpuSet,
    ) -> Vec<Step> {
        let mut notes = Vec::new();
        let stays = |t: &&LwpStatus| t.cpus.is_disjoint(leaving);
        for thread in bound.iter().filter(|t| left_with_one.contains(&t.set)).filter(stays) {
            let Ok((task, _)) = self.os.identify(thread.lwp.pid, Some(thread.lwp.lwp.0)) else { continue };
            let knob = LinuxKnob::Affinity(task).knob();
            notes.extend(self.remember_binding(task, &thread.cpus));
            notes.extend(self.note_of_freedom(&knob));
        }
        notes
    }

    /// The status of a thread that is bound to a CPU or a set, by its id alone; `None` if it is not bound.
    fn bound_thread(&self, tid: u32) -> Option<LwpStatus> {
        // `/proc/TID` exists for every thread.
        let stat = self.os.stat(tid, None).ok()??;
        let pid = if stat.kernel { None } else { self.os.process_of(tid).ok()? };
        let status = self.status(TaskId { pid: pid?, tid: Some(tid), start: stat.start }).ok()?;
        is_bound(&status).then_some(status)
    }

    fn check_active(&self, cpu: CpuId) -> Result<(), Refusal> {
        let states = self.states_now()?;
        let refuse = |reason| Err(Refusal::new(Subject::Processor(cpu), reason));
        match states.get(&cpu) {
            None => refuse(Reason::NoSuchProcessor { present: states.keys().copied().collect() }),
            Some(state) if !state.runs_threads() => refuse(Reason::NotActive(*state)),
            Some(_) => Ok(()),
        }
    }

    /// Records that a thread had no binding, unless something is recorded already.
    fn note_of_freedom(&self, knob: &Knob) -> Option<Step> {
        let all = Some(ALL.to_owned());
        let is_known = self.journal.baseline(knob).is_some();
        (!is_known).then(|| Step::new(knob.clone(), all.clone(), all).keeping())
    }

    /// The steps that bind a thread to CPUs, or unbind it.
    fn rebinding_steps(
        &self,
        task: TaskId,
        status: &LwpStatus,
        set: Option<&Pset>,
        to: &CpuSet,
    ) -> Result<Vec<Step>, KnobError> {
        let knob = LinuxKnob::Affinity(task).knob();
        let before = self.mask_value(task)?;
        let mut steps = self.remember_binding(task, to);
        if !to.is_empty() {
            let after = to.to_string();
            if !status.cpus.is_empty() {
                // The thread has an inherited or foreign binding. Unbinding must lead to no binding, and not to that one.
                steps.extend(self.note_of_freedom(&knob));
            }
            if before != after || to.len() > 1 {
                // An equal foreign mask is restored by unbinding.
                steps.push(Step::new(knob, Some(before), Some(after)).keeping());
            }
            return Ok(steps);
        }
        if status.cpus.is_empty() {
            return Ok(steps);
        }
        if self.is_cooperative(status.set) {
            // Restore the mask of the set's members. The original mask stays recorded.
            steps.push(Step::new(knob, Some(before), set.map(|s| s.cpus().to_string())));
            return Ok(steps);
        }
        let original = self.journal.baseline(&knob).flatten().unwrap_or_else(|| ALL.to_owned());
        let whole = self.is_whole(&original, &self.cpuset_of(task)?);
        if !whole {
            // Until the whole process is unbound, the recorded state is no binding.
            steps.extend(self.note_of_freedom(&knob));
        }
        let step = Step::new(knob, Some(before), Some(original));
        steps.push(if whole { step.releasing() } else { step.keeping() });
        Ok(steps)
    }

    pub(crate) fn status(&self, task: TaskId) -> Result<LwpStatus, KnobError> {
        let place = self.os.place(task.pid, Some(task.leader())).map_err(knob_error)?;
        let set = if self.has_cgroups() {
            place.as_deref().and_then(names::owner).unwrap_or(PsetId::DEFAULT)
        } else {
            self.set_without_rights(task.pid, place.as_deref())
        };
        let allowed = self.os.mask(task)?;
        let bound = match allowed.len() {
            1 => self.is_binding(task)?,
            _ => self.bound_to(task).is_some() || self.is_heir(task, &allowed)?,
        };
        let cpus = if bound { allowed.clone() } else { CpuSet::new() };
        let lwp = Lwp { pid: Pid(task.pid), lwp: LwpId(task.leader()) };
        Ok(LwpStatus { lwp, set, cpus, allowed })
    }
}

fn is_bound(thread: &LwpStatus) -> bool {
    !thread.cpus.is_empty() || !thread.set.is_default()
}

/// One line of the outcome: for the process as a whole if all its threads were selected.
fn rebindings<T: Clone>(
    pid: Pid,
    whole: bool,
    from: &[(TaskId, Option<T>)],
    to: Option<T>,
) -> Vec<Rebinding<T>> {
    if whole {
        // As on Solaris, any bound thread represents the process.
        let from = from.iter().find_map(|(_, f)| f.clone());
        return vec![Rebinding { pid, lwp: None, from, to }];
    }
    let one = |(task, from): &(TaskId, Option<T>)| Rebinding {
        pid,
        lwp: Some(LwpId(task.leader())),
        from: from.clone(),
        to: to.clone(),
    };
    from.iter().map(one).collect()
}

impl Threads for LinuxMachine {
    fn processes(&self) -> Result<Vec<Process>, Refusal> {
        let machine = |e: std::io::Error| Refusal::operation(Reason::Machine(e.to_string()));
        let mut processes = Vec::new();
        for pid in self.os.pids().map_err(machine)? {
            if let Ok(Some(stat)) = self.os.stat(pid, None) {
                processes.push(Process { pid: Pid(pid), name: stat.comm, kernel: stat.kernel });
            }
        }
        Ok(processes)
    }

    fn lwps(&self, pid: Pid) -> Result<Vec<LwpStatus>, Refusal> {
        let (_, leader) = self.os.identify(pid, None)?;
        let machine = |e: std::io::Error| crate::view::about(pid.0, Reason::Machine(e.to_string()));
        let mut lwps = Vec::new();
        for tid in self.os.tids(pid.0).map_err(machine)? {
            let Ok((task, _)) = self.os.identify(pid, Some(tid)) else { continue };
            match self.status(task) {
                Ok(status) => lwps.push(status),
                Err(KnobError::Gone) => {}
                Err(error) => {
                    let what = crate::messages::called(&self.os, &LinuxKnob::Affinity(task).knob());
                    return Err(error.into_refusal(Subject::Process(pid), &what));
                }
            }
        }
        if leader.kernel {
            lwps.iter_mut().for_each(|l| l.cpus = CpuSet::new());
        }
        Ok(lwps)
    }

    fn bound(&self) -> Result<Vec<LwpStatus>, Refusal> {
        let mut bound = Vec::new();
        if self.has_cgroups() {
            // The cgroups list all threads. A thread can only be bound if it is in one of our cgroups, or has a mask of one CPU
            // or one of our recorded lists.
            let lists = self.bound_lists();
            let machine = |e: std::io::Error| Refusal::operation(Reason::Machine(e.to_string()));
            for (path, tids) in self.os.threads_by_group().map_err(machine)? {
                let in_set = names::owner(&path).is_some_and(|set| !set.is_default());
                let candidates = tids.into_iter().filter(|tid| in_set || self.os.may_be_bound(*tid, &lists));
                bound.extend(candidates.filter_map(|tid| self.bound_thread(tid)));
            }
            bound.sort_by_key(|l| l.lwp);
            return Ok(bound);
        }
        for process in self.processes()?.into_iter().filter(|p| !p.kernel) {
            // A thread that ends meanwhile is not bound.
            let Ok(lwps) = self.lwps(process.pid) else { continue };
            bound.extend(lwps.into_iter().filter(is_bound));
        }
        Ok(bound)
    }

    fn prepare_bind_set(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: Option<PsetId>,
    ) -> Result<Change<Vec<Rebinding<PsetId>>>, Refusal> {
        self.sets_are_free()?;
        let tasks = self.selected(pid, lwps)?;
        if !self.has_cgroups() && !to.is_some_and(PsetId::is_default) {
            return self.cooperative_bind(pid, lwps.is_none(), to);
        }
        let (view, sets) = self.live_sets()?;
        let place = |task: TaskId| self.place_of(task);
        let set_of = |at: &str| names::owner(at).filter(|s| !s.is_default());
        let mut from = Vec::new();
        for (task, _) in &tasks {
            from.push((*task, set_of(&place(*task)?)));
        }
        let stays_inside =
            |inside: &dyn Fn(&CpuId) -> bool, set: PsetId| self.stays_inside(pid, &tasks, inside, set);
        let destination = match to {
            None => {
                let in_no_set = |cpu: &CpuId| sets.values().all(|label| !label.members.contains(cpu));
                stays_inside(&in_no_set, PsetId::DEFAULT)?;
                Destination::Home
            }
            Some(set) if set.is_default() => {
                return Err(Refusal::new(Subject::Process(pid), Reason::DefaultPset)
                    .hint(format!("unbind it to return it there (psrset -u {pid})")));
            }
            Some(set) => {
                let Some(label) = sets.get(&set) else {
                    return Err(Refusal::new(Subject::Process(pid), Reason::NoSuchPset)
                        .hint("psrset -i lists the sets"));
                };
                if (&label.cpus() & &view.online).is_empty() {
                    return Err(Refusal::new(Subject::Process(pid), Reason::EmptyPset(set))
                        .hint(format!("assign a CPU first (psrset -a {set} …)")));
                }
                stays_inside(&|cpu: &CpuId| label.members.contains(cpu), set)?;
                Destination::Set(set)
            }
        };
        let mut moves = Vec::new();
        if lwps.is_none() {
            moves = self.whole_process(pid, &tasks, view.v1, destination)?;
        }
        if moves.is_empty() {
            if !view.v1 && from.iter().any(|(_, f)| *f != to) {
                let lwp = tasks[0].0.leader();
                let at = from[0].1.unwrap_or(PsetId::DEFAULT);
                let subject = Subject::Thread(Lwp { pid, lwp: LwpId(lwp) });
                return Err(Refusal::new(subject, Reason::ProcessInPset(at)).hint("bind the process"));
            }
            for (task, _) in &tasks {
                moves.push((*task, place(*task)?, destination));
            }
        }
        let mut steps = self.noting_masks(&view, &[], plan(&view, &Wanted::of(&view, sets, moves)))?;
        if to.is_none() {
            // A task that left its set without a command stays in its current cgroup.
            let left = view.left.iter().filter(|left| left.task.pid == pid.0);
            steps.extend(left.filter_map(|left| self.record_of_member(left.task, None)));
        }
        let outcome = rebindings(pid, lwps.is_none(), &from, to);
        let what = match to {
            Some(set) => format!("bind process {pid} to set {set}"),
            None => format!("unbind process {pid} from its set"),
        };
        Ok(Change::new(what, steps, outcome))
    }

    fn prepare_start_in_default(&self, pid: Pid) -> Result<Change<()>, Refusal> {
        if !self.has_cgroups() {
            // Without rights, a process avoids the sets through its own mask.
            return Ok(self.cooperative_bind(pid, true, None)?.map(|_| ()));
        }
        let (whole, stat) = self.os.identify(pid, None)?;
        if stat.kernel {
            return Err(Refusal::new(Subject::Process(pid), Reason::KernelThread));
        }
        let at = self.place_of(whole)?;
        let (view, sets) = self.live_sets()?;
        let moves = vec![(whole, at, Destination::Default)];
        let steps = self.noting_masks(&view, &[], plan(&view, &Wanted::of(&view, sets, moves)))?;
        Ok(Change::new(format!("start process {pid} in the default set"), steps, ()))
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal> {
        self.launch_program(launch)
    }

    fn prepare_bind_cpus(
        &self,
        pid: Pid,
        lwps: Option<&[LwpId]>,
        to: &CpuSet,
    ) -> Result<Change<Vec<Rebinding<CpuSet>>>, Refusal> {
        let tasks = self.selected(pid, lwps)?;
        to.iter().try_for_each(|cpu| self.check_active(cpu))?;
        let sets = Psets::list(self)?;
        let mut from = Vec::new();
        let mut steps = Vec::new();
        for (task, _) in &tasks {
            let gone = |_| Refusal::new(Subject::Process(pid), Reason::ExitedMeanwhile);
            let status = self.status(*task).map_err(gone)?;
            for cpu in to.iter() {
                let of = sets.iter().find(|s| s.members.contains(&cpu)).map_or(PsetId::DEFAULT, |s| s.id);
                if of != status.set {
                    let reason = Reason::ProcessorInOtherPset { cpu, of, thread: status.set };
                    return Err(Refusal::new(Subject::Process(pid), reason));
                }
            }
            let set = sets.iter().find(|s| s.id == status.set);
            steps.extend(self.rebinding_steps(*task, &status, set, to).map_err(gone)?);
            from.push((*task, Some(status.cpus).filter(|cpus| !cpus.is_empty())));
        }
        if lwps.is_none() {
            steps.iter_mut().for_each(|s| s.may_refuse |= tasks.len() > 1);
        }
        let bound = Some(to.clone()).filter(|to| !to.is_empty());
        let what = match &bound {
            Some(to) => format!("bind process {pid} to CPUs {to}"),
            None => format!("unbind process {pid} from its CPUs"),
        };
        let outcome = rebindings(pid, lwps.is_none(), &from, bound);
        Ok(Change::new(what, steps, outcome))
    }
}
