//! Checks which features this machine supports, whether Millpond's state on it is correct, and its real-time settings.
//!
//! It lists
//!
//! - each facet (processor sets, zones, …): present, or absent with the reason and a remedy
//! - kernel features that matter to Millpond, with the first release that has each, and the file that shows it (or the
//!   release). An absent feature is no fault
//! - processor sets with their modes and whatever violates them, and interrupts that cannot leave no-intr CPUs
//! - why the journal cannot be written, with a remedy: its file system is read-only or full
//! - the change that a killed command left unfinished. The next command that changes the machine undoes it, too
//! - kernel settings that delay real-time threads: preemption, threaded interrupts, throttling (since 6.12 the fair
//!   server), `nohz_full`, `rcu_nocbs`, frequency governor and idle states, with remedies. They are no fault.
//!   `not told` is unknown
//!
//! # JSON
//!
//! ```text
//! {"facets":[{"name":"processor sets","present":true},
//!            {"name":"zones","present":false,"what_would_help":null,"why":"…"}],
//!  "features":[{"known_by":"cpuset.cpus.exclusive","name":"remote partitions","present":true,"since":"6.7"}],
//!  "journal":"/run/millpond/journal","machine":"real",
//!  "real_time":{"ready":false,"settings":[{"effect":"delays","is":"no CPU","name":"nohz_full","remedy":"boot with …"}]},
//!  "repair":{"abandoned":["…"],"forgotten":["…"],"settled":["…"],"unfinished":{"findings":[{"finding":"put back","knob":"…"}],"what":"…"}},
//!  "sets":[{"breaches":[],"id":1,"mode":"own","processors":[1]}],"staying":["interrupt 25 (req.0) stays on 1: …"],
//!  "unfinished":null,"unsettled":[]}
//! ```
//!
//! `journal_fault` exists only if the journal cannot be written, `repair` with `--repair` only; its `unfinished` is null if nothing was undone. `forgotten` lists records of
//! threads, processes and cgroups that have ended, which the next change removes as well.

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, read};
use crate::readiness::Readiness;
use millpond_cli::{Example, Flag, Group, MISUSED, Parsed, Spec};
use millpond_machine::{Absent, Finding, Machine, PutBack, Repair, Writer};
use millpond_model::{KernelFeature, Pset, printable};
use millpond_session::{JournalFault, Session};
use serde_json::{Value, json};

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "doctor",
        summary: "check what the machine supports and whether its state is correct; repair it",
        section: 8,
        group: Group::Diagnose,
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
type Facet = (&'static str, Result<(), Absent>);

fn facets(machine: &dyn Machine) -> Vec<Facet> {
    vec![
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
    ]
}

/// What was found.
struct Diagnosis {
    facets: Vec<Facet>,
    sets: Vec<Pset>,
    unfinished: Option<String>,
    /// Why no change can be journalled.
    journal_fault: Option<JournalFault>,
    /// What the machine's sets want and it does not do, one step a line.
    unsettled: Vec<String>,
    /// What comes to sheltered processors and cannot be moved. Nothing is out of order with that.
    staying: Vec<String>,
}

impl Diagnosis {
    fn of(session: &Session) -> Result<Diagnosis, Failure> {
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
        Ok(Diagnosis {
            facets: facets(machine),
            sets,
            unfinished: unfinished.map(|u| u.operation.what),
            journal_fault: session.journal_fault(),
            unsettled: settle.iter().map(ToString::to_string).collect(),
            staying: match machine.interrupts() {
                Ok(interrupts) => read("interrupts", interrupts.staying())?,
                Err(_) => Vec::new(),
            },
        })
    }

    fn in_order(&self) -> bool {
        let breached = self.sets.iter().any(|set| !set.breaches.is_empty());
        self.unfinished.is_none() && self.journal_fault.is_none() && self.unsettled.is_empty() && !breached
    }

    fn print(&self, session: &Session, ctx: &mut Ctx<'_>) {
        ctx.out.line(format_args!("machine {}", session.machine().name()));
        for (name, facet) in &self.facets {
            match facet {
                Ok(()) => ctx.out.line(format_args!("  {name:<14}  present")),
                Err(absent) => {
                    ctx.out.line(format_args!("  {name:<14}  absent: {}", printable(&absent.why)));
                    if let Some(help) = &absent.what_would_help {
                        ctx.out.line(format_args!("  {:<14}  hint: {}", "", printable(help)));
                    }
                }
            }
        }
        let features = session.machine().kernel_features();
        if !features.is_empty() {
            ctx.out.line("kernel features");
        }
        for KernelFeature { name, present, since, known_by } in features {
            let has = if present { "present" } else { "absent" };
            ctx.out.line(format_args!("  {name:<25}  {has:<7}  since Linux {since}, known by {known_by}"));
        }
        Readiness::of(session.machine()).print(ctx);
        if let Some(path) = session.journal_path() {
            ctx.out.line(format_args!("journal {}", path.display()));
        }
        if self.sets.is_empty() {
            ctx.out.line("no processor sets");
        }
        for set in &self.sets {
            let cpus = set.cpus();
            let members = match cpus.len() {
                0 => "empty".to_owned(),
                1 => format!("processor {cpus}"),
                _ => format!("processors {cpus}"),
            };
            ctx.out.line(format_args!("processor set {}: {members}, mode {}", set.id, set.mode));
            for breach in &set.breaches {
                ctx.out.line(format_args!("  breach: {}", printable(breach)));
            }
        }
        for line in &self.staying {
            ctx.out.line(printable(line));
        }
        for step in &self.unsettled {
            ctx.out.line(format_args!("not as the sets want it: {}", printable(step)));
        }
        if let Some(what) = &self.unfinished {
            ctx.out.line(format_args!("begun and not finished: {}", printable(what)));
        }
        if let Some(fault) = self.journal_fault {
            ctx.out.line(format_args!("the journal cannot be written: {fault}"));
            ctx.hint(fault.remedy());
        } else if self.in_order() {
            ctx.out.line("all is in order");
        } else {
            ctx.hint("millpond doctor --repair");
        }
    }

    fn json(&self, session: &Session) -> Value {
        let facet = |(name, facet): &Facet| match facet {
            Ok(()) => json!({ "name": name, "present": true }),
            Err(Absent { why, what_would_help }) => {
                json!({ "name": name, "present": false, "why": why, "what_would_help": what_would_help })
            }
        };
        let set = |set: &Pset| json!({ "id": set.id, "mode": set.mode, "processors": set.members, "breaches": set.breaches });
        let mut document = json!({
            "machine": session.machine().name(),
            "facets": self.facets.iter().map(facet).collect::<Vec<_>>(),
            "features": session.machine().kernel_features(),
            "sets": self.sets.iter().map(set).collect::<Vec<_>>(),
            "journal": session.journal_path(),
            "real_time": Readiness::of(session.machine()).json(),
            "unfinished": self.unfinished,
            "unsettled": self.unsettled,
            "staying": self.staying,
        });
        if let Some(fault) = self.journal_fault {
            document["journal_fault"] = fault.to_string().into();
        }
        document
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
    let diagnosis = Diagnosis::of(&session)?;
    let mut exit = if diagnosis.in_order() { Exit::DONE } else { Exit::REFUSED };
    if let Some(repaired) = &repaired
        && repaired.left_something()
    {
        exit = Exit::REFUSED;
    }
    if parsed.common.json {
        let mut document = diagnosis.json(&session);
        if let Some(repaired) = &repaired {
            document["repair"] = repaired.json();
        }
        ctx.json(&document);
    } else {
        if let Some(repaired) = &repaired {
            repaired.print(ctx);
        }
        diagnosis.print(&session, ctx);
    }
    Ok(exit)
}

/// Mends a journal that cannot be understood.
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

/// What `--repair` did.
struct Repaired {
    repair: Option<Repair>,
    /// What killed processes had for themselves.
    abandoned: Vec<PutBack>,
    settled: Vec<String>,
    /// What was still kept of things that have ended.
    forgotten: Vec<String>,
}

/// Becomes the writer, which puts back what was not finished and what killed processes had for themselves, and settles the machine.
fn repair(machine: &dyn Machine) -> Result<Repaired, Failure> {
    let refused = |refusal| Failure::Refused(Complaint::refused("repair the machine", |_| None, &refusal));
    let writer = Writer::open(machine).map_err(refused)?;
    let repair = writer.repaired().cloned();
    let abandoned = machine.latency().map(|probe| writer.put_back_abandoned(probe)).unwrap_or_default();
    let wanted = machine.settle().map_err(refused)?;
    let forgotten = machine.stale().iter().map(|step| machine.called(&step.knob)).collect();
    writer.settle().map_err(refused)?;
    let settled = wanted.iter().map(ToString::to_string).collect();
    Ok(Repaired { repair, abandoned, settled, forgotten })
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
    fn left_something(&self) -> bool {
        let left = |f: &Finding| matches!(f, Finding::Refused(_) | Finding::Foreign { .. });
        let resists = self.abandoned.iter().any(|found| found.result.is_err());
        resists || self.repair.iter().flat_map(|r| &r.findings).any(|(_, finding)| left(finding))
    }

    fn print(&self, ctx: &mut Ctx<'_>) {
        match &self.repair {
            None => ctx.out.line("nothing was unfinished"),
            Some(repair) => {
                ctx.out.line(repair);
                for (knob, finding) in &repair.findings {
                    ctx.out.line(format_args!("  {knob}: {}", word(finding)));
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

    fn json(&self) -> Value {
        let finding = |(knob, finding): &(_, Finding)| json!({ "knob": knob, "finding": word(finding) });
        let repair = self.repair.as_ref().map(|r| {
            let findings: Vec<_> = r.findings.iter().map(finding).collect();
            json!({ "what": r.what, "findings": findings })
        });
        let abandoned: Vec<String> = self.abandoned.iter().map(ToString::to_string).collect();
        json!({
            "unfinished": repair,
            "abandoned": abandoned,
            "settled": self.settled,
            "forgotten": self.forgotten,
        })
    }
}
