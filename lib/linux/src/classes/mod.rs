//! The class scheduler: the values that commands read and change.
//!
//! The scheduler (`lib/bpf`, program `classes`) belongs to the process that loaded it, `millpond schedd`. Its maps are pinned in a directory of
//! the BPF file system, where commands open them. No decision of the scheduler waits for a process. The directory outlives the scheduler, so that the
//! next one has the same tables and the same classes of threads. The kernel shows which scheduler is loaded (`/sys/kernel/sched_ext`).

mod asked;
mod captured;
mod outlook;
mod places;
mod scheduler;
mod tables;

use crate::LinuxMachine;
use crate::dispatcher::Reclassing;
use crate::knob::{LinuxKnob, TaskId};
use crate::policy::Policy;
use crate::state_dir::check_state_dir;
use asked::Asked;
use captured::Captured;
use millpond_bpf::Refused;
use millpond_bpf::classes::{BEAT, Control, LEVEL_FIGURES, SUMS, ThreadState, Wish};
use millpond_formats::dispadmin::default_tables;
use millpond_machine::facets::{LevelCounts, SchedulerCounts};
use millpond_machine::{Absent, KnobError, Reason, Refusal, Step, Value};
use millpond_model::{Class, ClassParams, ClassRequest, DispatchTables, Nanos, Quantum};
use millpond_rules as rules;
use std::path::PathBuf;
use std::rc::Rc;

/// The name of our scheduler in `/sys/kernel/sched_ext/root/ops`.
const NAME: &str = "millpond";
/// The directory of its maps, below `/sys`. If the BPF file system is mounted without a mode, any user can create it.
const MAPS: &str = "fs/bpf/millpond";
/// The remedy for a directory that another user has created.
const UNTRUSTED_HELP: &str = "remove it, and start millpond schedd again";

/// Figures of its timer, in the order of [`BEAT`]: updates (one a second), chunks of these updates, the longest chunk in nanoseconds, and threads
/// that were moved in a queue.
const BEATS: [&str; BEAT.len()] = ["beats", "beat_chunks", "beat_chunk_max_ns", "beat_moved"];

/// The loaded scheduler.
#[derive(Debug)]
pub(crate) struct Live {
    control: Box<dyn Asked>,
    /// It schedules all threads but those of RT and DEADLINE, not only those with the policy SCHED_EXT.
    whole: bool,
    /// The kernel's count of schedulers since boot: it identifies this one.
    number: Option<String>,
}

impl LinuxMachine {
    fn maps_dir(&self) -> PathBuf {
        self.os.root.sys.join(MAPS)
    }

    fn sched_ext(&self, file: &str) -> Option<String> {
        let path = self.os.root.sys.join("kernel/sched_ext").join(file);
        self.os.root.read_value(&path).ok().flatten().map(|text| text.trim().to_owned())
    }

    /// The loaded sched_ext scheduler, ours or another one: `ext millpond, whole`.
    pub(crate) fn loaded_sched_ext(&self) -> Option<String> {
        self.sched_ext("state").filter(|state| state == "enabled")?;
        let name = self.sched_ext("root/ops")?;
        let which = if self.schedules_all() { "whole" } else { "partial" };
        Some(format!("ext {}, {which}", millpond_model::printable(&name)))
    }

    fn schedules_all(&self) -> bool {
        self.sched_ext("switch_all").is_some_and(|text| text == "1")
    }

    /// The class scheduler. Its maps are opened once, and again after another one has replaced it.
    ///
    /// # Errors
    /// [`Absent`] when it is not loaded, or its maps cannot be opened.
    pub(crate) fn live_classes(&self) -> Result<Rc<Live>, Absent> {
        let Some(state) = self.sched_ext("state") else {
            return Err(Absent::with_help(
                "this kernel schedules by rules of its own, not by dispatch tables",
                "a kernel with sched_ext (CONFIG_SCHED_CLASS_EXT, from 6.17 on) runs them: millpond schedd; on a simulated machine they are live: --machine t2000",
            ));
        };
        if state != "enabled" {
            return Err(Absent::with_help(
                "this kernel schedules by rules of its own, not by dispatch tables",
                "this kernel has sched_ext: start the scheduler of the classes with millpond schedd",
            ));
        }
        let number = self.sched_ext("enable_seq");
        let opened = self.live.borrow().clone();
        if let Some(live) = opened.filter(|live| number.is_some() && live.number == number) {
            return Ok(live);
        }
        let name = self.sched_ext("root/ops").unwrap_or_default();
        if name != NAME {
            let name = millpond_model::printable(&name);
            return Err(Absent::with_help(
                format!("the scheduler {name} is loaded, which does not run by dispatch tables"),
                format!("stop {name}, then start millpond schedd"),
            ));
        }
        let control = self.asked()?;
        let live = Rc::new(Live { control, whole: self.schedules_all(), number });
        *self.live.borrow_mut() = Some(Rc::clone(&live));
        Ok(live)
    }

    fn asked(&self) -> Result<Box<dyn Asked>, Absent> {
        if !self.os.root.is_live() {
            let captured = Captured::at(&self.os.root, self.maps_dir());
            let absent = || Absent::because("the scheduler of a captured machine cannot be asked");
            return Ok(Box::new(captured.ok_or_else(absent)?));
        }
        let dir = self.maps_dir();
        check_state_dir(&dir).map_err(|why| Absent::with_help(why.to_string(), UNTRUSTED_HELP))?;
        let control = Control::at(&dir).map_err(|refused| match refused {
            Refused::NotPermitted => {
                Absent::with_help("its scheduler answers the superuser only", "run this as root")
            }
            refused => Absent::because(format!("its scheduler cannot be asked: {refused}")),
        })?;
        // schedd loads its scheduler before it replaces the pins of the previous one.
        if control.ending().is_some() {
            return Err(Absent::with_help("its scheduler is being started", "run this again in a second"));
        }
        Ok(Box::new(control))
    }

    pub(crate) fn class_value(&self, task: TaskId) -> Result<Option<Value>, KnobError> {
        let policy = self.policy(task)?;
        let live = self.live_classes().map_err(|_| KnobError::Gone)?;
        if !live.schedules(policy) {
            return Ok(None);
        }
        Ok(live.params(task.leader()).map_err(knob_error)?.map(|params| params.to_string()))
    }

    pub(crate) fn set_class(&self, task: TaskId, params: Option<ClassParams>) -> Result<(), KnobError> {
        self.os.still(task)?;
        // Without a scheduler nothing is to be restored: threads have their default class.
        let live = self.live_classes().map_err(|_| KnobError::Gone)?;
        let Some(params) = params else {
            live.control.forget(task.leader());
            return Ok(());
        };
        let wish = wish_of(params).ok_or_else(|| KnobError::Unknown(params.to_string()))?;
        match live.control.set_thread(task.leader(), task.start, wish) {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(KnobError::Gone),
            Err(refused) => Err(knob_error(refused)),
        }
    }

    pub(crate) fn table_value(&self, class: Class) -> Result<Option<Value>, KnobError> {
        let live = self.live_classes().map_err(|_| KnobError::Gone)?;
        Ok(tables::text(class, &live.tables()))
    }

    pub(crate) fn set_table(&self, class: Class, text: &str) -> Result<(), KnobError> {
        let unknown = || KnobError::Unknown(text.to_owned());
        let live = self.live_classes().map_err(|_| KnobError::Gone)?;
        let all = tables::with(live.tables(), class, text).ok_or_else(unknown)?;
        live.control.set_tables(&tables::to_words(&all)).map_err(knob_error)
    }
}

impl Live {
    /// Whether it schedules threads with a policy.
    pub(crate) fn schedules(&self, policy: Policy) -> bool {
        match policy {
            Policy::Ext(_) => true,
            Policy::Other(_) | Policy::Batch(_) | Policy::Idle(_) => self.whole,
            Policy::Fifo(_) | Policy::Rr(_) | Policy::Deadline => false,
        }
    }

    /// The policy that a thread needs to be scheduled by it.
    fn policy_for(&self, now: Policy) -> Policy {
        let nice = match now {
            Policy::Other(nice) | Policy::Batch(nice) | Policy::Idle(nice) | Policy::Ext(nice) => nice,
            Policy::Fifo(_) | Policy::Rr(_) | Policy::Deadline => 0,
        };
        if self.whole { Policy::Other(nice) } else { Policy::Ext(nice) }
    }

    /// The result of a request for TS, IA or FX for a thread with a policy. If the scheduler does not schedule that policy, the thread gets one that
    /// it does.
    ///
    /// # Errors
    /// [`Reason`]: a value that is invalid for the class, or the query fails.
    pub(crate) fn reclass(
        &self,
        task: TaskId,
        policy: Policy,
        before: ClassParams,
        request: &ClassRequest,
    ) -> Result<Reclassing, Reason> {
        if policy == Policy::Deadline {
            return Err(Reason::Absent(Absent::because("the kernel has promised it time (SCHED_DEADLINE)")));
        }
        // SCHED_IDLE is below all levels, regardless of the requested class.
        let is_ours = self.schedules(policy) && !matches!(policy, Policy::Idle(_));
        let now = if is_ours { self.params(task.leader()).map_err(reason)? } else { None };
        let before = now.unwrap_or(before);
        let applied = request.apply(before, &self.tables());
        let (after, clamped) = applied.map_err(|error| Reason::Machine(error.to_string()))?;
        let mut steps = Vec::new();
        if now != Some(after) {
            if !is_ours {
                let (was, is) = (policy.to_string(), self.policy_for(policy).to_string());
                steps.push(Step::new(LinuxKnob::Policy(task).knob(), Some(was), Some(is)));
            }
            let was = now.map(|params| params.to_string());
            steps.push(Step::new(LinuxKnob::ClassOf(task).knob(), was, Some(after.to_string())));
        }
        Ok(Reclassing { from: before, to: after, steps, note: None, clamped })
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Which threads it schedules.
    pub(crate) fn which(&self) -> &'static str {
        which(self.whole)
    }

    /// The valid tables. The table of RT is the Solaris default: the kernel itself schedules RT.
    pub(crate) fn tables(&self) -> DispatchTables {
        tables::from_words(&self.control.tables()).unwrap_or_else(|| default_tables(false))
    }

    /// A table in the format of the journal.
    pub(crate) fn table_text(&self, class: Class, tables: &DispatchTables) -> Option<Value> {
        tables::text(class, tables)
    }

    /// The class of a thread, with its parameters; `None` when the thread does not exist.
    pub(crate) fn params(&self, tid: u32) -> Result<Option<ClassParams>, Refused> {
        Ok(self.control.thread(tid)?.map(|state| params_of(&state)))
    }

    /// The class of a thread and its level, as Solaris shows them; `None` for one that it does not schedule.
    pub(crate) fn standing(&self, tid: u32, policy: u32) -> Option<(Class, i16)> {
        // Neither nice nor the priority decides which threads it schedules.
        Policy::of(policy.into(), 0, 1).filter(|policy| self.schedules(*policy))?;
        let state = self.control.thread(tid).ok()??;
        Some((params_of(&state).class(), i16::try_from(state.pri).unwrap_or_default().max(0)))
    }

    /// Its counters.
    pub(crate) fn counts(&self) -> SchedulerCounts {
        let level = |level: i8| {
            let figures: [u64; LEVEL_FIGURES.len()] =
                std::array::from_fn(|figure| self.control.level(level, figure));
            let [ran, begun, waited, waited_max, expired, boosted, surrendered, rescued] = figures;
            let counts = LevelCounts {
                level,
                ran: Nanos(ran),
                begun,
                waited: Nanos(waited),
                waited_max: Nanos(waited_max),
                expired,
                boosted,
                surrendered,
                rescued,
            };
            figures.iter().any(|figure| *figure > 0).then_some(counts)
        };
        let sums = SUMS.iter().enumerate().map(|(at, name)| (*name, self.control.sum(at)));
        let beats = BEATS.iter().enumerate().map(|(at, name)| (*name, self.control.beat(at)));
        SchedulerCounts { levels: (-1..=99).filter_map(level).collect(), sums: sums.chain(beats).collect() }
    }
}

fn which(whole: bool) -> &'static str {
    if whole { "all threads but those in RT" } else { "threads that are put into a class" }
}

/// Class and parameters of a thread in the scheduler. SCHED_IDLE is shown as FX 0 with an infinite slice, as without the scheduler.
fn params_of(state: &ThreadState) -> ClassParams {
    let part = |value: i64| i8::try_from(value).unwrap_or_default();
    let (uprilim, upri) = (part(state.uprilim), part(state.upri));
    let class = i32::try_from(state.class).ok().and_then(rules::Class::of_number);
    match class {
        Some(rules::Class::Ts) => ClassParams::Ts { uprilim, upri },
        Some(rules::Class::Ia) => ClassParams::Ia { uprilim, upri, foreground: state.boost > 0 },
        Some(rules::Class::Fx) => ClassParams::Fx { uprilim, upri, quantum: tables::quantum(state.quantum) },
        Some(rules::Class::Idle) => ClassParams::Fx { uprilim: 0, upri: 0, quantum: Quantum::Infinite },
        Some(rules::Class::Sys) | None => ClassParams::Sys,
    }
}

/// The wish for these parameters; `None` for a class that the scheduler does not have.
fn wish_of(params: ClassParams) -> Option<Wish> {
    let wish = |class: rules::Class, uprilim, upri, foreground, quantum| {
        Some(Wish { class: u8::try_from(class as i32).ok()?, uprilim, upri, foreground, quantum })
    };
    match params {
        ClassParams::Ts { uprilim, upri } => wish(rules::Class::Ts, uprilim, upri, false, 0),
        ClassParams::Ia { uprilim, upri, foreground } => wish(rules::Class::Ia, uprilim, upri, foreground, 0),
        ClassParams::Fx { uprilim, upri, quantum } => {
            wish(rules::Class::Fx, uprilim, upri, false, tables::nanoseconds(quantum))
        }
        ClassParams::Sys | ClassParams::Rt { .. } | ClassParams::Fss { .. } => None,
    }
}

fn knob_error(refused: Refused) -> KnobError {
    match refused {
        Refused::NotPermitted => KnobError::NotPermitted,
        other => KnobError::Refused(other.to_string()),
    }
}

fn reason(refused: Refused) -> Reason {
    match refused {
        Refused::NotPermitted => Reason::NotPermitted,
        other => Reason::Machine(other.to_string()),
    }
}

fn refusal(refused: Refused) -> Refusal {
    Refusal::operation(reason(refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(class: u64, boost: i64, quantum: i64) -> ThreadState {
        ThreadState {
            class,
            pri: 0,
            cpupri: 0,
            upri: 5,
            uprilim: 10,
            boost,
            timeleft: 0,
            quantum,
            dispwait: 0,
            ran_ns: 0,
            on_cpu: None,
            queue: 0,
        }
    }

    #[test]
    fn classes_of_the_scheduler_have_solaris_words() {
        let shown = |class, boost, quantum| params_of(&state(class, boost, quantum)).to_string();
        assert_eq!(shown(0, 0, 0), "SYS");
        assert_eq!(shown(1, 0, 0), "TS 10 5");
        assert_eq!(shown(4, 10, 0), "IA 10 5 foreground");
        assert_eq!(shown(4, -10, 0), "IA 10 5 background");
        assert_eq!(shown(2, 0, 200_000_000), "FX 10 5 20");
        assert_eq!(shown(2, 0, i64::MAX), "FX 10 5 infinite");
        assert_eq!(shown(5, 0, 0), "FX 0 0 infinite");
    }

    #[test]
    fn a_wish_is_for_a_class_that_runs_by_tables() {
        let wish = |text: &str| wish_of(text.parse().unwrap());
        let fx = wish("FX 10 5 20").unwrap();
        assert_eq!((fx.class, fx.uprilim, fx.upri, fx.quantum), (2, 10, 5, 200_000_000));
        assert!(wish("IA 0 0 foreground").unwrap().foreground);
        assert!(wish("RT 10 8 0").is_none() && wish("SYS").is_none() && wish("FSS 0 0").is_none());
    }
}
