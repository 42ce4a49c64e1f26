//! Shows and sets the scheduling class and priority of processes, and starts commands in a class.
//!
//! ```text
//! $ priocntl -s -c RT -p 10 204
//! $ priocntl -d 204
//! REAL TIME PROCESSES:
//!     PID   RTPRI       TQNTM    TQSIG
//!     204      10         800        0
//! ```
//!
//! A process in TS, IA or FX has a user priority and a limit for it: -60 to 60, in FX 0 to 60. A process in RT has a
//! priority of 0 to 59. Processes in RT and FX have a time slice each. Children and new threads inherit all of this.
//!
//! Parameters that are not named keep their values. In a new class, the limit is 0, the priority is the limit, and the
//! slice is that of the dispatch table (`dispadmin`).
//!
//! # Operands
//!
//! Operands are ids of the type of `-i`; without `-i` they are process ids. Without operands this command itself is
//! selected. Kernel threads are never selected. init is changed only by `-i pid 1`.
//!
//! On a simulated machine the command of `-e` is a workload (`millpond sim`). Without `-c` it starts in TS.
//!
//! # Options of the classes
//!
//! ```text
//! TS  -m LIMIT  -p PRIORITY
//! IA  -m LIMIT  -p PRIORITY  -t MODE             1: foreground, 0: background
//! FX  -m LIMIT  -p PRIORITY  -t SLICE  -r RES    in units of 1/RES second; without -r milliseconds
//! RT  -p PRIORITY  -t SLICE  -r RES  -q SIGNAL   sent when a slice is used up; 0 for none
//! ```
//!
//! # Linux
//!
//! While `millpond schedd` runs, TS, IA and FX have all their levels, limits and slices. RT is the kernel's own.
//! Without schedd, and for RT, classes map to the kernel's policies:
//!
//! ```text
//! RT  SCHED_RR: level 0 is priority 1 of the kernel, level 59 is 60 and above. SCHED_FIFO has the slice RT_TQINF.
//!     SCHED_DEADLINE is shown as level 59
//! TS  SCHED_OTHER and SCHED_BATCH: 3 points of user priority are 1 of nice; the limit is shown as the priority
//! FX  SCHED_IDLE, with limit 0 and priority 0 only. Both must be named: -c FX -m 0 -p 0
//! ```
//!
//! A process in SCHED_IDLE runs while its CPU has nothing else to run, and otherwise gets a small share of the time
//! (docs/explanation/latstat.md). IA, limits, slices and slice signals do not exist there and are refused.
//!
//! # JSON
//!
//! Slices are in ticks. The schema is docs/reference/json/priocntl.json.

mod choice;
mod options;

use crate::change::{Changer, Changes, DryRun};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::dispadmin::{Classes, note, read_class};
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::json::{self, Describe};
use crate::start::{Start, Started};
use choice::Choice;
use millpond_cli::{Example, Flag, Group, Misused, Parsed, Spec, ValueKind};
use millpond_formats::priocntl::{heading, listing, row};
use millpond_machine::facets::Scheduled;
use millpond_machine::{Dispatcher, Reason, Refusal, Subject};
use millpond_model::{CLASSES, Class, ClassParams, ClassRequest, Pid, Quantum};
use millpond_session::{Kind, own_pid};
use options::Options;
use schemars::JsonSchema;
use serde::Serialize;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[
    json::of::<Classes>(),
    json::of::<Processes>(),
    json::of::<Changes<'_, Done>>(),
    json::of::<DryRun<'_>>(),
];

/// `-d`.
#[derive(Serialize, JsonSchema)]
struct Processes {
    processes: Vec<Params>,
}

/// A process with the parameters of its class.
#[derive(Serialize, JsonSchema)]
struct Params {
    pid: Pid,
    class: Class,
    /// TS, IA, FX and FSS: the limit of the user priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    uprilim: Option<i8>,
    /// The user priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    upri: Option<i8>,
    /// IA: whether it is in the foreground.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreground: Option<bool>,
    /// RT: the priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    pri: Option<i8>,
    /// FX and RT: the slice.
    #[serde(skip_serializing_if = "Option::is_none")]
    quantum: Option<Quantum>,
    /// RT: the signal at the end of a slice; 0 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    tqsig: Option<u8>,
}

/// A change.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Done {
    Changed {
        pid: Pid,
        from: Params,
        to: Params,
    },
    #[expect(dead_code, reason = "for the schema: -e reports the struct itself")]
    Started(Started),
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "priocntl",
        applet: true,
        summary: "show and set the scheduling class and priority of processes",
        section: 8,
        group: Group::Classes,
        forms: &[
            "-l",
            "-d [-i idtype] [idlist]",
            "-s [-c class] [c.s.o.] [-i idtype] [idlist]",
            "-e [-c class] [c.s.o.] command [argument(s)]",
        ],
        flags: &[
            Flag::letter('l', "list the scheduling classes"),
            Flag::letter('d', "show the class and parameters of processes"),
            Flag::letter('s', "change processes; without -c all must be in one class, in which they stay"),
            Flag::letter('e', "run a command in the class; without -c in the class of this command")
                .operands("", &[ValueKind::Program]),
            Flag::letter('c', "the scheduling class").value("class", ValueKind::Class),
            Flag::letter(
                'i',
                "type of the ids: pid, ppid, pgid, sid, class, uid, gid, projid, taskid, zoneid, all",
            )
            .value(
                "type",
                ValueKind::Word(&[
                    "pid", "ppid", "pgid", "sid", "class", "uid", "gid", "projid", "taskid", "zoneid", "all",
                ]),
            ),
            Flag::letter('m', "limit of the user priority (TS, IA, FX)").value("priority", ValueKind::Text),
            Flag::letter('p', "user priority (TS, IA, FX) or priority (RT)")
                .value("priority", ValueKind::Text),
            Flag::letter('t', "time slice (FX, RT); 1 for the foreground, 0 for the background (IA)")
                .value("quantum", ValueKind::Text),
            Flag::letter('r', "unit of -t: a second divided by this").value("resolution", ValueKind::Text),
            Flag::long(
                "as",
                "with -s: the class with all its parameters, as plans print them: \"RT 10 infinite 0\"",
            )
            .value("parameters", ValueKind::Text)
            .conflicts(&["c", "m", "p", "t", "r", "q", "l", "d", "e"]),
            Flag::letter('q', "signal that is sent when a slice is used up (RT)")
                .value("signal", ValueKind::Text),
        ],
        misused: Misused::SolarisRefusal,
        in_shell: true,
        examples: &[
            Example { words: "-l", what: "list the scheduling classes" },
            Example { words: "-d -i pid 204", what: "show the class and priority of process 204" },
            Example { words: "-e -c FX -m 0 -p 0 make -j", what: "run a build when CPUs are idle" },
        ],
        status: &[
            ("0", "done"),
            ("1", "everything else, as on Solaris"),
            ("other", "with -e: the exit status of the command"),
        ],
        see_also: &["dispadmin(8)", "schedd(8)", "prstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let misuse = |why: &str| Err(Failure::Usage(why.to_owned()));
    let asked: Vec<char> = "ldse".chars().filter(|letter| parsed.has(*letter)).collect();
    let options = Options::of(parsed);
    let class = parsed.value('c').map(|word| read_class(&word)).transpose()?;
    match asked[..] {
        ['l'] if parsed.operands.is_empty() && !parsed.has('i') && !parsed.has('c') && options.is_empty() => {
            list(parsed, ctx)
        }
        ['l'] => misuse("-l stands alone"),
        ['d'] if class.is_some() || !options.is_empty() => misuse("-d takes -i and ids, and nothing else"),
        ['d'] => show(&Choice::read(parsed, ctx)?, parsed, ctx),
        ['s'] => set(class, &options, &Choice::read(parsed, ctx)?, parsed, ctx),
        ['e'] if parsed.has('i') => misuse("-i does not go with -e"),
        ['e'] if parsed.operands.is_empty() => misuse("-e needs a command"),
        ['e'] => execute(class, &options, parsed, ctx),
        [] => misuse("one of -l, -d, -s and -e is needed"),
        _ => misuse("-l, -d, -s and -e exclude each other"),
    }
}

fn list(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let classes = dispatcher.classes();
    if parsed.common.json {
        ctx.json(&Classes { classes, made_by: None });
    } else {
        ctx.out.text(&listing(&classes));
        label(dispatcher, ctx);
    }
    Ok(Exit::DONE)
}

/// Explains the classes of the machine, if they are not the real Solaris classes.
fn label(dispatcher: &dyn Dispatcher, ctx: &mut Ctx<'_>) {
    if dispatcher.live().is_err() {
        note(&dispatcher.made_by(), ctx);
    }
}

fn not_found(why: Option<String>) -> Failure {
    Failure::Said("Process(es) not found.".into(), why)
}

fn show(choice: &Choice, parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let session = ctx.reading(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let all = read("processes", dispatcher.scheduled())?;
    let chosen = choice.among(&all, session.kind()).map_err(not_found)?;
    let hz = dispatcher.ticks_per_second();
    if parsed.common.json {
        let processes = chosen.iter().map(|s| Params::new(s.pid, s.params)).collect();
        ctx.json(&Processes { processes });
        return Ok(Exit::DONE);
    }
    for class in CLASSES {
        let of_class: Vec<&Scheduled> =
            chosen.iter().filter(|s| s.params.class() == class).copied().collect();
        if !of_class.is_empty() {
            ctx.out.text(heading(class));
        }
        of_class.iter().for_each(|s| ctx.out.line(row(s.pid, &s.params, hz)));
    }
    label(dispatcher, ctx);
    Ok(Exit::DONE)
}

fn set(
    class: Option<Class>,
    options: &Options,
    choice: &Choice,
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let session = ctx.changing(&parsed.common)?;
    let dispatcher = facet("scheduling classes", session.machine().dispatcher())?;
    let all = read("processes", dispatcher.scheduled())?;
    let chosen: Vec<&Scheduled> = choice.among(&all, session.kind()).map_err(not_found)?;
    let chosen: Vec<&Scheduled> =
        chosen.into_iter().filter(|s| s.pid != Pid(1) || choice.names(Pid(1))).collect();
    let Some(first) = chosen.first() else {
        return Err(not_found(Some("init is changed only by -i pid 1".into())));
    };
    let whole = parsed.long_value("as").map(|text| options::whole(&text)).transpose()?;
    let class = match class.or(whole.map(|request| request.class())) {
        Some(class) => class,
        None if chosen.iter().all(|s| s.params.class() == first.params.class()) => first.params.class(),
        None => {
            let hint = "choose those of one class, or name the class that all should have: -c CLASS";
            return Err(Failure::Said(
                "Specified processes from different classes.".into(),
                Some(hint.into()),
            ));
        }
    };
    let request = match whole {
        Some(whole) => whole,
        None => options.request(class, dispatcher.ticks_per_second())?,
    };
    let mut changer = Changer::open(session.machine(), &parsed.common, ctx)?;
    let mut denied = false;
    for process in chosen {
        denied |= !change(dispatcher, process.pid, &request, &mut changer, ctx);
    }
    let exit = changer.finish(ctx);
    Ok(if denied { exit.and(Exit::REFUSED) } else { exit })
}

/// Changes one process. `false` if it was refused, which is reported.
fn change(
    dispatcher: &dyn Dispatcher,
    pid: Pid,
    request: &ClassRequest,
    changer: &mut Changer<'_>,
    ctx: &mut Ctx<'_>,
) -> bool {
    let made = dispatcher.prepare_class(pid, request).and_then(|change| changer.make(ctx, change));
    match made {
        Ok(Some(done)) => {
            if let Some(over) = done.clamped {
                let (asked, limit) = (over.asked, over.limit);
                ctx.warn(format_args!(
                    "Specified user priority {asked} exceeds limit {limit}; set to {limit} (pid {pid})"
                ));
                ctx.hint("-m raises the limit");
            }
            let (from, to) = (Params::new(pid, done.from), Params::new(pid, done.to));
            changer.report(ctx, None, Done::Changed { pid, from, to });
            true
        }
        Ok(None) => true,
        Err(refusal) => {
            // If the process exits during the change, the machine may only report the failed operation.
            let gone = || dispatcher.scheduled().is_ok_and(|all| all.iter().all(|s| s.pid != pid));
            let refusal = match &refusal.reason {
                Reason::Machine(_) if gone() => Refusal::new(Subject::Process(pid), Reason::ExitedMeanwhile),
                _ => refusal,
            };
            let main = format!("put process {pid} into class {}", request.class());
            let same = |subject: &Subject| (*subject == Subject::Process(pid)).then(|| main.clone());
            let complaint = Complaint::refused(&main, same, &refusal);
            if refusal.reason == Reason::NotPermitted {
                ctx.warn(format_args!("Permissions error encountered on pid {pid}."));
                complaint.hint.iter().for_each(|hint| ctx.hint(hint));
                changer.remember_refusal(complaint);
            } else {
                changer.refuse(ctx, complaint);
            }
            false
        }
    }
}

fn execute(
    class: Option<Class>,
    options: &Options,
    parsed: &Parsed,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let understood = |session: &_| Start::of(session, &parsed.operands);
    let (session, start) = ctx.changing_once(&parsed.common, understood)?;
    let machine = session.machine();
    let dispatcher = facet("scheduling classes", machine.dispatcher())?;
    let class = match class {
        Some(class) => class,
        // The class of a shell on a simulated machine.
        None if session.kind() == Kind::Simulated => Class::Ts,
        None => {
            let all = read("processes", dispatcher.scheduled())?;
            let own = all.iter().find(|s| s.pid == own_pid()).ok_or_else(|| not_found(None))?;
            own.params.class()
        }
    };
    let request = options.request(class, dispatcher.ticks_per_second())?;
    let mut changer = Changer::open(machine, &parsed.common, ctx)?;
    let begun = start.begin(&session);
    let done = change(dispatcher, begun.pid, &request, &mut changer, ctx);
    start.end(begun, done && !parsed.common.dry_run, changer, ctx)
}

impl Params {
    fn new(pid: Pid, params: ClassParams) -> Params {
        let [uprilim, upri, pri] = [None; 3];
        let (class, foreground, quantum, tqsig) = (params.class(), None, None, None);
        let none = Params { pid, class, uprilim, upri, foreground, pri, quantum, tqsig };
        match params {
            ClassParams::Sys => none,
            ClassParams::Ts { uprilim, upri } | ClassParams::Fss { uprilim, upri } => {
                Params { uprilim: Some(uprilim), upri: Some(upri), ..none }
            }
            ClassParams::Ia { uprilim, upri, foreground } => {
                Params { uprilim: Some(uprilim), upri: Some(upri), foreground: Some(foreground), ..none }
            }
            ClassParams::Fx { uprilim, upri, quantum } => {
                Params { uprilim: Some(uprilim), upri: Some(upri), quantum: Some(quantum), ..none }
            }
            ClassParams::Rt { pri, quantum, tqsig } => {
                Params { pri: Some(pri), quantum: Some(quantum), tqsig: Some(tqsig), ..none }
            }
        }
    }
}
