//! Checks which features this machine supports, whether Millpond's state on it is correct, and its real-time settings.
//!
//! It lists
//!
//! - each facet (processor sets, zones, …): present, or absent with the reason and a remedy
//! - kernel features that matter to Millpond, with the first release that has each, and the file that shows it (or the
//!   release). An absent feature is not a fault
//! - processor sets with their modes and violations (with cgroup version 1 also processes that the kernel moved out
//!   because all CPUs of their set were off-line; `--repair` moves them back), and interrupts that cannot leave no-intr
//!   CPUs
//! - why the journal cannot be written, with a remedy: its file system is read-only or full
//! - the change that a killed command left unfinished. The next command that changes the machine undoes it, too
//! - kernel settings that delay real-time threads: preemption, threaded interrupts, throttling (since 6.12 the fair
//!   server), `nohz_full`, `rcu_nocbs`, frequency governor and idle states, with remedies. These are not faults.
//!   Unknown ones are shown as `not told`
//! - checks for the class scheduler (`millpond schedd`): sched_ext, another scheduler, `isolcpus=`; weights of cgroups,
//!   which have no effect on threads that it schedules; idle cgroups, which have one from Linux 6.19 on; caps of
//!   cgroups; before Linux 7.0, real-time threads that never sleep, because of which the kernel ends it. These are not
//!   faults, either
//!
//! # JSON
//!
//! The schema is docs/reference/json/doctor.json. `class_scheduler` exists only on real machines, `journal_fault` only if
//! the journal cannot be written, `repair` only with `--repair`.

mod class_scheduler;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, read};
use crate::json::{self, Describe};
use crate::readiness::{self, Readiness};
use class_scheduler::ClassScheduler;
use millpond_cli::{Example, Flag, Group, MISUSED, Parsed, Spec};
use millpond_machine::{Absent, Finding, Knob, Machine, Writer};
use millpond_model::{CpuId, CpuSet, KernelFeature, Pset, PsetId, PsetMode, printable};
use millpond_session::{JournalFault, KUBELET_DIR, Kind, Session, static_cpu_manager};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Diagnosis>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "doctor",
        summary: "check what the machine supports and whether its state is correct; repair it",
        section: 8,
        group: Group::Machine,
        forms: &["[--repair]"],
        flags: &[Flag::long(
            "repair",
            "undo unfinished changes and those of killed processes, and make the machine match its sets",
        )],
        in_shell: true,
        examples: &[
            Example { words: "", what: "check the machine and Millpond's records" },
            Example { words: "--repair", what: "undo what a killed command left behind" },
        ],
        status: &[
            ("0", "everything is in order; an absent feature is no fault"),
            ("1", "a change is unfinished, a set is violated, or the repair failed"),
            MISUSED,
        ],
        see_also: &["psrset(8)", "millpond-posix(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// One ability of a machine.
#[derive(Serialize, JsonSchema)]
struct Facet {
    name: &'static str,
    present: bool,
    #[serde(flatten)]
    absent: Option<Absent>,
}

fn facets(machine: &dyn Machine) -> Vec<Facet> {
    let all = [
        ("processors", machine.processors().map(drop)),
        ("processor sets", machine.psets().map(drop)),
        ("bindings", machine.threads().map(drop)),
        ("zones", machine.zones().map(drop)),
        ("pools", machine.pools().map(drop)),
        ("interrupts", machine.interrupts().map(drop)),
        ("counters", machine.counters().map(drop)),
        ("cpu counters", machine.hardware_counters().and_then(|counters| counters.hardware())),
        ("sampling", machine.sampler().map(drop)),
        ("lgroups", machine.lgroups().map(drop)),
        ("disturbances", machine.disturbances().map(drop)),
        ("microstates", machine.census().map(drop)),
        ("memory images", machine.images().map(drop)),
        ("cpu controls", machine.controls().map(drop)),
        ("classes", machine.dispatcher().map(drop)),
        ("latency probes", machine.latency().map(drop)),
        ("live tables", machine.dispatcher().and_then(|dispatcher| dispatcher.live())),
    ];
    let facet =
        |(name, found): (_, Result<(), Absent>)| Facet { name, present: found.is_ok(), absent: found.err() };
    all.into_iter().map(facet).collect()
}

/// What was found.
#[derive(Serialize, JsonSchema)]
struct Diagnosis {
    machine: String,
    facets: Vec<Facet>,
    /// Kernel features that Millpond uses.
    features: Vec<KernelFeature>,
    /// Null if the settings are unknown.
    #[serde(serialize_with = "readiness::serialize")]
    #[schemars(with = "Option<Readiness>")]
    real_time: Result<Readiness, Absent>,
    /// Checks for the class scheduler; only on real machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    class_scheduler: Option<ClassScheduler>,
    /// The file of the journal; null for a machine that has none.
    journal: Option<PathBuf>,
    /// Why the journal cannot be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    journal_fault: Option<String>,
    #[serde(skip)]
    journal_remedy: Option<&'static str>,
    sets: Vec<CheckedSet>,
    /// The unfinished change.
    unfinished: Option<String>,
    /// Deviations of the machine from its sets, one step per line.
    unsettled: Vec<String>,
    /// Interrupts that cannot leave no-intr CPUs. These are not faults.
    staying: Vec<String>,
    /// The file that shows that the kubelet assigns CPUs to containers itself; only if it does. This is not a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    static_cpu_manager: Option<PathBuf>,
    /// What `--repair` did.
    #[serde(skip_serializing_if = "Option::is_none")]
    repair: Option<Repaired>,
}

#[derive(Serialize, JsonSchema)]
struct CheckedSet {
    id: PsetId,
    mode: PsetMode,
    /// Its CPUs in order of arrival.
    processors: Vec<CpuId>,
    /// Violations of its exclusiveness.
    breaches: Vec<String>,
}

impl From<Pset> for CheckedSet {
    fn from(Pset { id, mode, members, breaches, .. }: Pset) -> CheckedSet {
        CheckedSet { id, mode, processors: members, breaches }
    }
}

impl Diagnosis {
    fn of(session: &Session, repair: Option<Repaired>) -> Result<Diagnosis, Failure> {
        let machine = session.machine();
        let sets = match machine.psets() {
            Ok(psets) => read("processor sets", psets.list())?,
            Err(_) => Vec::new(),
        };
        let unfinished = session.unfinished().map_err(|error| {
            let complaint = Complaint::new("read the journal", error.to_string());
            complaint.hint("millpond doctor --repair keeps what can be understood of it")
        })?;
        let settle = read("what the sets want", machine.settle())?;
        let fault = session.journal_fault();
        Ok(Diagnosis {
            machine: machine.name().to_owned(),
            facets: facets(machine),
            features: machine.kernel_features(),
            real_time: Readiness::of(machine),
            class_scheduler: ClassScheduler::of(machine).ok(),
            journal: session.journal_path().map(Into::into),
            journal_fault: fault.map(|fault| fault.to_string()),
            journal_remedy: fault.map(JournalFault::remedy),
            sets: sets.into_iter().map(CheckedSet::from).collect(),
            unfinished: unfinished.map(|u| u.operation.what),
            unsettled: settle.iter().map(ToString::to_string).collect(),
            staying: match machine.interrupts() {
                Ok(interrupts) => read("interrupts", interrupts.staying())?,
                Err(_) => Vec::new(),
            },
            static_cpu_manager: (session.kind() == Kind::Real)
                .then(|| static_cpu_manager(Path::new(KUBELET_DIR)))
                .flatten(),
            repair,
        })
    }

    fn in_order(&self) -> bool {
        let breached = self.sets.iter().any(|set| !set.breaches.is_empty());
        self.unfinished.is_none() && self.journal_fault.is_none() && self.unsettled.is_empty() && !breached
    }

    fn print(&self, ctx: &mut Ctx<'_>) {
        if let Some(repair) = &self.repair {
            repair.print(ctx);
        }
        ctx.out.line(format_args!("machine {}", self.machine));
        for Facet { name, absent, .. } in &self.facets {
            match absent {
                None => ctx.out.line(format_args!("  {name:<14}  present")),
                Some(absent) => {
                    ctx.out.line(format_args!("  {name:<14}  absent: {}", printable(&absent.why)));
                    if let Some(help) = &absent.what_would_help {
                        ctx.out.line(format_args!("  {:<14}  hint: {}", "", printable(help)));
                    }
                }
            }
        }
        if !self.features.is_empty() {
            ctx.out.line("kernel features");
        }
        for KernelFeature { name, present, since, known_by } in &self.features {
            let has = if *present { "present" } else { "absent" };
            let since = if since.is_empty() {
                "in no release yet".to_owned()
            } else {
                format!("since Linux {since}")
            };
            ctx.out.line(format_args!("  {name:<25}  {has:<7}  {since}, known by {known_by}"));
        }
        readiness::print(&self.real_time, ctx);
        if let Some(scheduler) = &self.class_scheduler {
            scheduler.print(ctx);
        }
        if let Some(path) = &self.journal {
            ctx.out.line(format_args!("journal {}", path.display()));
        }
        if self.sets.is_empty() {
            ctx.out.line("no processor sets");
        }
        for set in &self.sets {
            let cpus: CpuSet = set.processors.iter().copied().collect();
            let members = if cpus.is_empty() { "empty".to_owned() } else { cpus.named() };
            ctx.out.line(format_args!("processor set {}: {members}, mode {}", set.id, set.mode));
            for breach in &set.breaches {
                ctx.out.line(format_args!("  breach: {}", printable(breach)));
            }
        }
        for line in &self.staying {
            ctx.out.line(printable(line));
        }
        if let Some(file) = &self.static_cpu_manager {
            let file = file.display();
            ctx.out.line(format_args!(
                "the kubelet's CPU manager has the policy static ({file}): millpond node does not run beside it"
            ));
        }
        for step in &self.unsettled {
            ctx.out.line(format_args!("not as the sets want it: {}", printable(step)));
        }
        if let Some(what) = &self.unfinished {
            ctx.out.line(format_args!("begun and not finished: {}", printable(what)));
        }
        if let Some(fault) = &self.journal_fault {
            ctx.out.line(format_args!("the journal cannot be written: {fault}"));
            self.journal_remedy.into_iter().for_each(|remedy| ctx.hint(remedy));
        } else if self.in_order() {
            ctx.out.line("all is in order");
        } else {
            ctx.hint("millpond doctor --repair");
        }
    }
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if !parsed.operands.is_empty() {
        return Err(Failure::Usage("doctor takes no operands".into()));
    }
    let session = ctx.held(&parsed.common)?;
    let repairs = parsed.long("repair") && !parsed.common.dry_run;
    if repairs {
        salvage(&session, ctx)?;
    }
    let repaired = if repairs { Some(repair(session.machine())?) } else { None };
    let diagnosis = Diagnosis::of(&session, repaired)?;
    let left_something = diagnosis.repair.as_ref().is_some_and(|repair| repair.left_something);
    if parsed.common.json {
        ctx.json(&diagnosis);
    } else {
        diagnosis.print(ctx);
    }
    Ok(if diagnosis.in_order() && !left_something { Exit::DONE } else { Exit::REFUSED })
}

/// Repairs a journal that cannot be parsed.
fn salvage(session: &Session, ctx: &mut Ctx<'_>) -> Result<(), Failure> {
    let salvaged = session.salvage_journal();
    let kept = salvaged
        .map_err(|refusal| Failure::Refused(Complaint::refused("mend the journal", |_| None, &refusal)))?;
    if let Some(kept) = kept {
        let kept = kept.display();
        ctx.warn(format_args!(
            "the journal was damaged: what could be understood stays; {kept} is as it was"
        ));
    }
    Ok(())
}

#[derive(Serialize, JsonSchema)]
struct Repaired {
    /// The change that was undone, if one was unfinished.
    unfinished: Option<Undone>,
    /// Resources that killed processes had reserved.
    abandoned: Vec<String>,
    settled: Vec<String>,
    /// Records of threads, processes and cgroups that have ended. The next change removes them as well.
    forgotten: Vec<String>,
    #[serde(skip)]
    left_something: bool,
}

/// A change that was undone.
#[derive(Serialize, JsonSchema)]
struct Undone {
    what: String,
    #[serde(skip)]
    sentence: String,
    findings: Vec<UndoneKnob>,
}

#[derive(Serialize, JsonSchema)]
struct UndoneKnob {
    knob: Knob,
    finding: String,
}

/// Opens the writer, which undoes the unfinished change. Then releases the resources of killed processes, and settles the machine.
fn repair(machine: &dyn Machine) -> Result<Repaired, Failure> {
    let refused = |refusal| Failure::Refused(Complaint::refused("repair the machine", |_| None, &refusal));
    let writer = Writer::open(machine).map_err(refused)?;
    let repair = writer.repaired();
    let abandoned = machine.latency().map(|probe| writer.put_back_abandoned(probe)).unwrap_or_default();
    let wanted = machine.settle().map_err(refused)?;
    let forgotten = machine.stale().iter().map(|step| machine.called(&step.knob)).collect();
    writer.settle().map_err(refused)?;
    let left = |finding: &Finding| matches!(finding, Finding::Refused(_) | Finding::Foreign { .. });
    let unfinished = repair.map(|repair| Undone {
        what: repair.what.clone(),
        sentence: repair.to_string(),
        findings: repair
            .findings
            .iter()
            .map(|(knob, finding)| UndoneKnob { knob: knob.clone(), finding: word(finding) })
            .collect(),
    });
    Ok(Repaired {
        unfinished,
        left_something: abandoned.iter().any(|found| found.result.is_err())
            || repair.iter().flat_map(|repair| &repair.findings).any(|(_, finding)| left(finding)),
        abandoned: abandoned.iter().map(ToString::to_string).collect(),
        settled: wanted.iter().map(ToString::to_string).collect(),
        forgotten,
    })
}

fn word(finding: &Finding) -> String {
    match finding {
        Finding::Untouched => "was not touched yet".into(),
        Finding::PutBack => "put back".into(),
        Finding::Gone => "its owner is gone".into(),
        Finding::Foreign { is } => {
            let is = is.as_deref().unwrap_or("absent");
            format!("left alone: another writer made it `{is}`")
        }
        Finding::Refused(why) => format!("cannot be put back: {why}"),
    }
}

impl Repaired {
    fn print(&self, ctx: &mut Ctx<'_>) {
        match &self.unfinished {
            None => ctx.out.line("nothing was unfinished"),
            Some(undone) => {
                ctx.out.line(&undone.sentence);
                for UndoneKnob { knob, finding } in &undone.findings {
                    ctx.out.line(format_args!("  {knob}: {finding}"));
                }
            }
        }
        self.abandoned.iter().for_each(|found| ctx.out.line(found));
        for step in &self.settled {
            ctx.out.line(format_args!("brought to what the sets want: {step}"));
        }
        for what in &self.forgotten {
            ctx.out.line(format_args!("forgotten, because it has ended: {what}"));
        }
    }
}
