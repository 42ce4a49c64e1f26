//! The Dispatcher facet: scheduling classes on top of the kernel's own policies.
//!
//! | class | mapping |
//! |---|---|
//! | SYS | kernel threads |
//! | RT | SCHED_RR and SCHED_FIFO (infinite slice); level 0 is kernel priority 1, level 59 is 60 and above; SCHED_DEADLINE is level 59 |
//! | TS | SCHED_OTHER, SCHED_BATCH, SCHED_EXT: three points of user priority per nice level; the limit shows as the priority itself |
//! | FX | SCHED_IDLE, only with limit 0 and priority 0: runs only on otherwise idle CPUs. Other priorities and slices are not available |
//! | IA, FSS | not available |
//!
//! While the scheduler of the classes is loaded (`classes`, `millpond schedd`), TS, IA and FX of the threads that it schedules
//! work as on Solaris, with limits, levels and slices. SCHED_IDLE still shows as FX 0 with an infinite slice. RT is always the
//! kernel's.
//!
//! Without it, the dispatch tables have no effect: they are the default tables of Solaris and cannot be changed.
//! [`Dispatcher::live`] reports this, and what would make them effective.

use crate::LinuxMachine;
use crate::classes::Live;
use crate::knob::{LinuxKnob, TaskId};
use crate::os::knob_error;
use crate::policy::Policy;
use crate::procfs::Stat;
use millpond_formats::dispadmin::{HZ_DEFAULT, default_tables};
use millpond_machine::facets::{
    ClassScheduler, ProcessIds, Reclassed, Scheduled, SchedulerCheck, SchedulerCounts, SchedulerOptions,
};
use millpond_machine::{Absent, Change, Dispatcher, KnobError, Reason, Refusal, Step, Subject};
use millpond_model::{
    Clamped, Class, ClassParams, ClassRequest, ClassTable, DispatchTables, Pid, Quantum, most_favoured,
    nice_of_upri, upri_of_nice,
};

/// Highest level of RT.
const RT_LAST: u8 = 59;
/// The slice of SCHED_RR in milliseconds, where the kernel does not report it.
const RR_SLICE_MS: u32 = 100;

impl LinuxMachine {
    /// The scheduling policy of a thread.
    pub(crate) fn policy(&self, task: TaskId) -> Result<Policy, KnobError> {
        let stat = self.os.stat(task.pid, task.tid).map_err(knob_error)?;
        let stat = stat.filter(|stat| stat.start == task.start && !stat.dead).ok_or(KnobError::Gone)?;
        let unknown =
            || KnobError::Refused(format!("the kernel has a policy {} that is unknown here", stat.policy));
        self.policy_of(task, &stat).ok_or_else(unknown)
    }

    /// The policy of a thread with a known `stat`; `None` for an unknown policy.
    pub(crate) fn policy_of(&self, task: TaskId, stat: &Stat) -> Option<Policy> {
        let kept = self.os.fs.kept_policy(&self.os, task);
        kept.or_else(|| Policy::of(stat.policy, stat.nice, stat.priority))
    }

    /// Sets the scheduling policy of a thread.
    pub(crate) fn set_policy(&self, task: TaskId, to: Policy) -> Result<(), KnobError> {
        self.os.still(task)?;
        self.os.fs.set_policy(&self.os, task, to)
    }

    /// The slice of SCHED_RR, which is the same for all threads, in ticks of the tables.
    pub(crate) fn slice_of_rr(&self) -> Quantum {
        let file = self.os.root.proc.join("sys/kernel/sched_rr_timeslice_ms");
        let text = self.os.root.read_value(&file).ok().flatten().unwrap_or_default();
        let ms = text.trim().parse().ok().filter(|ms| (1..=1_000_000).contains(ms)).unwrap_or(RR_SLICE_MS);
        Quantum::Ticks((ms * HZ_DEFAULT).div_ceil(1000))
    }

    /// The class of every thread of a process, first thread first.
    fn classes_of(&self, pid: u32, rr: Quantum, live: Option<&Live>) -> Vec<ClassParams> {
        let tids = self.os.tids(pid).unwrap_or_default();
        let stats = tids.into_iter().filter_map(|tid| {
            let stat = self.os.stat(pid, Some(tid)).ok()??;
            let task = TaskId { pid, tid: Some(tid), start: stat.start };
            let policy = self.policy_of(task, &stat)?;
            let by_tables = live.filter(|live| live.schedules(policy));
            by_tables
                .and_then(|live| live.params(task.leader()).ok().flatten())
                .or_else(|| Some(class_of(policy, rr)))
        });
        stats.collect()
    }

    fn scheduled_one(&self, pid: u32, rr: Quantum, live: Option<&Live>) -> Option<Scheduled> {
        let stat = self.os.stat(pid, None).ok()??;
        if stat.dead {
            return None;
        }
        let threads = if stat.kernel { vec![ClassParams::Sys] } else { self.classes_of(pid, rr, live) };
        let params = most_favoured(threads)?;
        let (uid, gid) = self.os.owner_of(pid);
        let ids =
            ProcessIds { ppid: stat.ppid, pgid: stat.pgid, sid: stat.sid, uid, gid, ..ProcessIds::default() };
        Some(Scheduled { pid: Pid(pid), kernel: stat.kernel, params, ids })
    }

    fn no_class(&self, pid: Pid, class: Class) -> Refusal {
        let why = format!("this kernel has nothing that is like class {class}");
        let help = self.live().err().and_then(|absent| absent.what_would_help).unwrap_or_default();
        let absent = Absent::with_help(why, format!("use TS or RT; {help}"));
        Refusal::new(Subject::Process(pid), Reason::Absent(absent))
    }
}

/// The class for a policy. `rr` is the slice of SCHED_RR.
pub(crate) fn class_of(policy: Policy, rr: Quantum) -> ClassParams {
    let ts = |upri| ClassParams::Ts { uprilim: upri, upri };
    let rt = |priority: u8, quantum| {
        let pri = i8::try_from(priority.saturating_sub(1).min(RT_LAST)).unwrap_or_default();
        ClassParams::Rt { pri, quantum, tqsig: 0 }
    };
    match policy {
        Policy::Other(nice) | Policy::Batch(nice) | Policy::Ext(nice) => ts(upri_of_nice(nice)),
        Policy::Idle(_) => ClassParams::Fx { uprilim: 0, upri: 0, quantum: Quantum::Infinite },
        Policy::Fifo(priority) => rt(priority, Quantum::Infinite),
        Policy::Rr(priority) => rt(priority, rr),
        Policy::Deadline => rt(RT_LAST + 1, Quantum::Infinite),
    }
}

/// The effect of a request on a thread.
#[derive(Debug)]
pub(crate) struct Reclassing {
    /// Current class.
    pub(crate) from: ClassParams,
    /// New class.
    pub(crate) to: ClassParams,
    /// The steps to it.
    pub(crate) steps: Vec<Step>,
    /// A note for the user.
    pub(crate) note: Option<String>,
    /// A requested priority above the limit.
    pub(crate) clamped: Option<Clamped>,
}

/// The effect of a request on a thread under the kernel's own policies.
fn reclass(
    task: TaskId,
    now: Policy,
    before: ClassParams,
    request: &ClassRequest,
    rr: Quantum,
) -> Result<Reclassing, Reason> {
    // Check the range of the class. There is no limit that could be exceeded.
    request.apply(before, &default_tables(false)).map_err(|error| Reason::Machine(error.to_string()))?;
    let (after, note) = policy_for(request, now, rr).map_err(Reason::Absent)?;
    let step = || Step::new(LinuxKnob::Policy(task).knob(), Some(now.to_string()), Some(after.to_string()));
    let steps = (now != after).then(step).into_iter().collect();
    Ok(Reclassing { from: before, to: class_of(after, rr), steps, note, clamped: None })
}

/// The new policy for a thread with policy `now`, and a note for the user.
///
/// # Errors
/// Why the kernel has no such policy.
fn policy_for(request: &ClassRequest, now: Policy, rr: Quantum) -> Result<(Policy, Option<String>), Absent> {
    if now == Policy::Deadline {
        return Err(Absent::because("the kernel has promised it time (SCHED_DEADLINE)"));
    }
    match *request {
        // The limit shown is the priority.
        ClassRequest::Ts { uprilim: Some(limit), upri } if upri != Some(limit) => {
            Err(Absent::with_help("this kernel keeps no limit beside the priority", "leave out -m"))
        }
        ClassRequest::Ts { upri: Some(asked), .. } => {
            let nice = nice_of_upri(i8::try_from(asked.clamp(-60, 60)).unwrap_or_default());
            let got = upri_of_nice(nice);
            let note = (i32::from(got) != asked).then(|| {
                format!("user priority {asked} becomes {got}: this kernel has steps of 3, from -57 to 60")
            });
            let to = if let Policy::Batch(_) = now { Policy::Batch(nice) } else { Policy::Other(nice) };
            Ok((to, note))
        }
        ClassRequest::Ts { .. } if class_of(now, Quantum::Infinite).class() == Class::Ts => Ok((now, None)),
        ClassRequest::Ts { .. } => Ok((Policy::Other(0), None)),
        ClassRequest::Rt { quantum: Some(slice @ Quantum::Ticks(_)), .. } if slice != rr => {
            Err(Absent::with_help(
                "this kernel has one slice for all threads of class RT",
                "leave out -t; the slice is that of sysctl kernel.sched_rr_timeslice_ms",
            ))
        }
        ClassRequest::Rt { tqsig: Some(1..), .. } => {
            Err(Absent::with_help("this kernel sends no signal at the end of a slice", "leave out -q"))
        }
        ClassRequest::Rt { pri, quantum, .. } => {
            let (was, has_no_slice) = match now {
                Policy::Fifo(was) => (was, true),
                Policy::Rr(was) => (was, false),
                _ => (1, false),
            };
            let asked = |pri: i32| u8::try_from(pri.clamp(0, RT_LAST.into())).unwrap_or_default() + 1;
            let level = pri.map_or(was, asked);
            let is_fifo = quantum.map_or(has_no_slice, |quantum| quantum == Quantum::Infinite);
            Ok((if is_fifo { Policy::Fifo(level) } else { Policy::Rr(level) }, None))
        }
        ClassRequest::Fx { quantum: Some(Quantum::Ticks(_)), .. } => {
            Err(Absent::with_help("SCHED_IDLE, which is FX here, has no slice of its own", "leave out -t"))
        }
        ClassRequest::Fx { uprilim, upri, .. } => idle_for(uprilim, upri, now).map(|idle| (idle, None)),
        ClassRequest::Ia { .. } | ClassRequest::Fss { .. } => Err(Absent::because("there is no such class")),
    }
}

/// FX maps to SCHED_IDLE with limit 0 and priority 0. Both must be given explicitly, because otherwise a pool with class FX would
/// starve its members.
fn idle_for(uprilim: Option<i32>, upri: Option<i32>, now: Policy) -> Result<Policy, Absent> {
    let is_zero = |value: Option<i32>| value.is_none_or(|value| value <= 0);
    let is_named = uprilim.is_some() && upri.is_some();
    match now {
        _ if !is_zero(uprilim) || !is_zero(upri) => Err(Absent::with_help(
            "this kernel has class FX at limit 0 and priority 0 alone, as SCHED_IDLE",
            "use -m 0 -p 0, or TS or RT",
        )),
        Policy::Idle(_) => Ok(now),
        Policy::Other(nice) | Policy::Batch(nice) | Policy::Ext(nice) if is_named => Ok(Policy::Idle(nice)),
        _ if is_named => Ok(Policy::Idle(0)),
        _ => Err(Absent::with_help(
            "this kernel has class FX as SCHED_IDLE alone, which gets a CPU only while nothing else wants it",
            "if that is meant, name limit and priority: -m 0 -p 0",
        )),
    }
}

impl Dispatcher for LinuxMachine {
    fn classes(&self) -> Vec<Class> {
        let mut classes = vec![Class::Sys, Class::Ts, Class::Fx, Class::Rt];
        if self.live_classes().is_ok() {
            classes.push(Class::Ia);
        }
        classes
    }

    fn made_by(&self) -> String {
        if let Ok(live) = self.live_classes() {
            let others = match live.is_whole() {
                true => "",
                false => "; the others run before them, by the kernel's own rules",
            };
            return format!(
                "TS, IA and FX run by dispatch tables, under sched_ext: {}{others}. RT is the kernel's SCHED_RR and SCHED_FIFO; \
                 SCHED_IDLE is below all levels, and shows as FX 0 with an infinite slice",
                live.which()
            );
        }
        "RT is the kernel's SCHED_RR and SCHED_FIFO, TS is nice; FX at limit 0 and priority 0 is SCHED_IDLE, and has no other levels; \
         SCHED_DEADLINE shows as RT 59; there is no IA"
            .to_owned()
    }

    fn ticks_per_second(&self) -> u32 {
        HZ_DEFAULT
    }

    fn tables(&self) -> Result<DispatchTables, Refusal> {
        Ok(self.live_classes().map_or_else(|_| default_tables(false), |live| live.tables()))
    }

    fn live(&self) -> Result<(), Absent> {
        self.live_classes().map(drop)
    }

    fn default_class(&self) -> Result<Option<Class>, Refusal> {
        Ok(None)
    }

    fn scheduled(&self) -> Result<Vec<Scheduled>, Refusal> {
        let (rr, live) = (self.slice_of_rr(), self.live_classes().ok());
        let machine = |e: std::io::Error| Refusal::operation(Reason::Machine(e.to_string()));
        let pids = self.os.pids().map_err(machine)?;
        Ok(pids.into_iter().filter_map(|pid| self.scheduled_one(pid, rr, live.as_deref())).collect())
    }

    fn prepare_set_table(&self, table: ClassTable) -> Result<Change<()>, Refusal> {
        let live = self.live_classes()?;
        let mut tables = live.tables();
        let class = match &table {
            ClassTable::Ts(_) => Class::Ts,
            ClassTable::Fx(_) => Class::Fx,
            ClassTable::Rt(_) => {
                let why = "threads of RT have one slice here, that of the kernel's SCHED_RR";
                return Err(Absent::with_help(why, "sysctl kernel.sched_rr_timeslice_ms changes it").into());
            }
            ClassTable::Fss(_) => return Err(Absent::because("there is no class FSS here").into()),
        };
        let from = live.table_text(class, &tables);
        tables.set(table);
        let to = live.table_text(class, &tables);
        let knob = LinuxKnob::DispatchTable(class).knob();
        let steps = if from == to { Vec::new() } else { vec![Step::new(knob, from, to)] };
        Ok(Change::new(format!("replace the dispatch table of {class}"), steps, ()))
    }

    fn start_scheduler(&self, options: &SchedulerOptions) -> Result<Box<dyn ClassScheduler + '_>, Refusal> {
        self.start_classes(options)
    }

    fn loaded_scheduler(&self) -> Option<String> {
        self.loaded_sched_ext()
    }

    fn scheduler_checks(&self) -> Result<Vec<SchedulerCheck>, Absent> {
        Ok(self.class_scheduler_checks())
    }

    fn scheduler_counts(&self) -> Result<SchedulerCounts, Absent> {
        Ok(self.live_classes()?.counts())
    }

    fn prepare_default_class(&self, _: Class) -> Result<Change<Option<Class>>, Refusal> {
        let why = "everything starts in the class of its parent here";
        Err(Absent::with_help(why, "start it with priocntl -e -c CLASS").into())
    }

    fn prepare_class(&self, pid: Pid, request: &ClassRequest) -> Result<Change<Reclassed>, Refusal> {
        let class = request.class();
        let tasks = self.selected(pid, None)?;
        let live = self.live_classes().ok().filter(|_| matches!(class, Class::Ts | Class::Ia | Class::Fx));
        if live.is_none() && matches!(class, Class::Ia | Class::Fss) {
            return Err(self.no_class(pid, class));
        }
        let rr = self.slice_of_rr();
        let mut threads = Vec::new();
        for (task, _) in tasks {
            let policy = match self.policy(task) {
                // A thread that ends during the request is not an error.
                Err(KnobError::Gone) => continue,
                policy => policy.map_err(|e| e.into_refusal(Subject::Process(pid), "its class"))?,
            };
            let before = class_of(policy, rr);
            let thread = match &live {
                Some(live) => live.reclass(task, policy, before, request),
                None => reclass(task, policy, before, request, rr),
            };
            threads.push(thread.map_err(|reason| Refusal::new(Subject::Process(pid), reason))?);
        }
        let from = most_favoured(threads.iter().map(|thread| thread.from));
        let to = most_favoured(threads.iter().map(|thread| thread.to));
        let (Some(from), Some(to)) = (from, to) else {
            return Err(Refusal::new(Subject::Process(pid), Reason::ExitedMeanwhile));
        };
        let clamped = threads.iter().find_map(|thread| thread.clamped);
        let (mut steps, mut notes) = (Vec::new(), Vec::new());
        for thread in threads {
            steps.extend(thread.steps);
            notes.extend(thread.note.filter(|note| !notes.contains(note)));
        }
        let outcome = Reclassed { pid, from, to, clamped };
        Ok(Change { notes, ..Change::new(format!("put process {pid} into class {class}"), steps, outcome) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RR: Quantum = Quantum::Ticks(10);

    fn shown(policy: &str) -> String {
        class_of(policy.parse().unwrap(), RR).to_string()
    }

    fn ts(uprilim: Option<i32>, upri: Option<i32>) -> ClassRequest {
        ClassRequest::Ts { uprilim, upri }
    }

    fn rt(pri: Option<i32>) -> ClassRequest {
        ClassRequest::Rt { pri, quantum: None, tqsig: None }
    }

    fn fx(uprilim: Option<i32>, upri: Option<i32>) -> ClassRequest {
        ClassRequest::Fx { uprilim, upri, quantum: None }
    }

    fn becomes(request: ClassRequest, now: &str) -> String {
        policy_for(&request, now.parse().unwrap(), RR).unwrap().0.to_string()
    }

    #[test]
    fn each_policy_shows_as_the_class_that_is_nearest() {
        assert_eq!(shown("other 0"), "TS 0 0");
        assert_eq!(shown("batch 10"), "TS -30 -30");
        assert_eq!(shown("other -20"), "TS 60 60");
        assert_eq!(shown("idle 0"), "FX 0 0 infinite");
        assert_eq!(shown("rr 1"), "RT 0 10 0");
        assert_eq!(shown("fifo 60"), "RT 59 infinite 0");
        assert_eq!(shown("fifo 99"), "RT 59 infinite 0");
        assert_eq!(shown("deadline 0"), "RT 59 infinite 0");
    }

    #[test]
    fn what_is_not_named_stays_and_what_is_entered_has_its_default() {
        assert_eq!(becomes(ts(None, None), "batch 5"), "batch 5");
        assert_eq!(becomes(ts(None, None), "idle 0"), "other 0");
        assert_eq!(becomes(ts(None, None), "rr 5"), "other 0");
        assert_eq!(becomes(ts(None, Some(-30)), "idle 0"), "other 10");
        assert_eq!(becomes(ts(None, Some(-30)), "batch 0"), "batch 10");
        assert_eq!(becomes(rt(None), "other 5"), "rr 1");
        assert_eq!(becomes(rt(None), "fifo 50"), "fifo 50");
        assert_eq!(becomes(rt(Some(59)), "fifo 50"), "fifo 60");
        assert_eq!(becomes(rt(Some(10)), "idle 0"), "rr 11");
        assert_eq!(becomes(fx(Some(0), Some(0)), "other 10"), "idle 10");
        assert_eq!(becomes(fx(Some(0), Some(0)), "rr 5"), "idle 0");
        assert_eq!(becomes(fx(None, None), "idle 3"), "idle 3");
    }

    #[test]
    fn what_is_shown_can_be_asked_for() {
        let rt = |pri, quantum| ClassRequest::Rt { pri: Some(pri), quantum: Some(quantum), tqsig: Some(0) };
        for now in ["other 0", "rr 3", "fifo 9", "idle 0", "batch 3"] {
            assert_eq!(becomes(ts(Some(-30), Some(-30)), now).split(' ').nth(1), Some("10"), "{now}");
            assert_eq!(becomes(rt(4, Quantum::Infinite), now), "fifo 5");
            assert_eq!(becomes(rt(4, RR), now), "rr 5");
            let idle = ClassRequest::Fx { uprilim: Some(0), upri: Some(0), quantum: Some(Quantum::Infinite) };
            assert!(becomes(idle, now).starts_with("idle "), "{now}");
        }
    }

    #[test]
    fn what_the_kernel_does_not_have_is_refused_and_what_it_rounds_is_told() {
        let refused = |request, now: &str| policy_for(&request, now.parse().unwrap(), RR).unwrap_err().why;
        assert_eq!(refused(ts(Some(0), None), "other 0"), "this kernel keeps no limit beside the priority");
        assert_eq!(refused(rt(None), "deadline 0"), "the kernel has promised it time (SCHED_DEADLINE)");
        let slice = ClassRequest::Rt { pri: None, quantum: Some(Quantum::Ticks(7)), tqsig: None };
        assert_eq!(refused(slice, "rr 1"), "this kernel has one slice for all threads of class RT");
        let signal = ClassRequest::Rt { pri: None, quantum: None, tqsig: Some(9) };
        assert_eq!(refused(signal, "rr 1"), "this kernel sends no signal at the end of a slice");
        let levels = "this kernel has class FX at limit 0 and priority 0 alone, as SCHED_IDLE";
        assert_eq!(refused(fx(Some(60), Some(0)), "other 0"), levels);
        assert_eq!(refused(fx(None, Some(1)), "idle 0"), levels);
        let bare =
            "this kernel has class FX as SCHED_IDLE alone, which gets a CPU only while nothing else wants it";
        assert_eq!(refused(fx(None, None), "other 0"), bare);
        assert_eq!(refused(fx(Some(0), None), "rr 1"), bare);
        let slice = ClassRequest::Fx { uprilim: Some(0), upri: Some(0), quantum: Some(RR) };
        assert_eq!(refused(slice, "other 0"), "SCHED_IDLE, which is FX here, has no slice of its own");
        let note = |upri| policy_for(&ts(None, Some(upri)), Policy::Other(0), RR).unwrap().1;
        assert_eq!(
            note(10).as_deref(),
            Some("user priority 10 becomes 9: this kernel has steps of 3, from -57 to 60")
        );
        assert_eq!(note(-30), None);
    }
}
