//! Shows device interrupts per second on each CPU, and the percent of its time that their handlers take.
//!
//! ```text
//! $ intrstat 5 1
//!
//!       device |      cpu0 %tim      cpu1 %tim
//! -------------+------------------------------
//!    e1000g#0 |       102  0.4         0  0.0
//! ```
//!
//! There is a row for each device that interrupted a CPU since the command began. More than four CPUs are shown in
//! blocks. The interval is 1 second if not given. Without a count, reports go on until you interrupt them.
//!
//! On Linux, a device is named as in `/proc/interrupts` (`virtio1-req.0`). A name of letters and a number is shown as
//! driver and instance (`e1000g#0`).
//!
//! On Linux a BPF program measures the time of handlers. It excludes softirqs, which `millpond quiet` shows. Without
//! BPF the percentage is a dash.
//!
//! # JSON
//!
//! An object for each report; `docs/reference/json/intrstat.json` is its schema.

mod table;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read, unless_absent};
use crate::interval::{Repetition, Rounds};
use crate::json::{self, Describe};
use crate::operands::{self, expand};
use crate::recordings;
use crate::stamp::Stamp;
use jiff::tz::TimeZone;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_machine::Machine;
use millpond_machine::facets::{Job, WatchedJob};
use millpond_model::{CpuSet, Nanos, WallTime};
use millpond_session::stop_on_signal;
use table::{Document, Reading, Report};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Document<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "intrstat",
        applet: true,
        summary: "show device interrupts per second on each CPU, and their time",
        group: Group::Noise,
        forms: &[
            "[-C psrset | -c cpulist] [-x opt[=val]] [-T d | u] [--by-counts] [--from recording [--at moment]] [interval [count]]",
        ],
        flags: &[
            Flag::letter('C', "only the CPUs of one set").value("set", ValueKind::Pset).conflicts(&["c"]),
            Flag::letter('c', "only these CPUs (0-3,8)").value("list", ValueKind::Text),
            Flag::letter('x', "a DTrace option; has no effect but a message")
                .value("opt[=val]", ValueKind::Text),
            Flag::letter(
                'T',
                "before each report, print the time: u as seconds since 1970, d as `date` does",
            )
            .value("u", ValueKind::Text),
            recordings::FROM.conflicts(&["by-counts"]),
            recordings::AT,
            Flag::long("by-counts", "use no BPF: read the counts of /proc, without times"),
        ],
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[Example { words: "1", what: "show the interrupts of each device by CPU, every second" }],
        status: &[INTERRUPTED, ("1", "interrupts cannot be watched"), MISUSED],
        see_also: &["mpstat(1)", "psradm(8)", "millpond-quiet(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let stamp = Stamp::parse(parsed, 'T')?;
    let second = Repetition { interval: Nanos::from_secs(1), count: None };
    let repetition = Repetition::parse(&parsed.words())?.unwrap_or(second);
    let session = recordings::reading(parsed, ctx)?;
    let machine = session.machine();
    let cpus = processors(parsed, machine)?;
    for option in parsed.values('x') {
        ctx.warn(format_args!("-x {option} has no effect: there is no DTrace here"));
    }
    let what = WatchedJob {
        cpus: cpus.clone(),
        job: Job::default(),
        worth_telling: Nanos(u64::MAX),
        by_counts: parsed.long("by-counts"),
    };
    let watch = facet("disturbances", machine.disturbances())?.watch(&what);
    let mut watch = unless_absent("watch interrupts", watch)?;
    let clock = machine.clock();
    let mut before = Reading::of(&read("interrupts", watch.collect())?);
    let mut rounds = Rounds::begin(repetition, clock, stop_on_signal());
    while rounds.wait(ctx) {
        let after = Reading::of(&read("interrupts", watch.collect())?);
        let report = Report::between(&before, &after, &cpus);
        show(&report, parsed.common.json, stamp, clock.wall(), session.zone(), ctx);
        before = after;
    }
    Ok(Exit::DONE)
}

fn show(
    report: &Report,
    json: bool,
    stamp: Option<Stamp>,
    wall: WallTime,
    zone: &TimeZone,
    ctx: &mut Ctx<'_>,
) {
    if json {
        ctx.json(&report.document(wall));
    } else {
        if let Some(stamp) = stamp {
            ctx.out.line(stamp.line(wall, zone));
        }
        ctx.out.text(&report.text());
    }
    ctx.out.flush();
}

/// The processors that are shown: on-line ones.
fn processors(parsed: &Parsed, machine: &dyn Machine) -> Result<CpuSet, Failure> {
    let processors = facet("processors", machine.processors())?;
    let states = read("processors", processors.states())?;
    let reserved = read("processors", processors.reserved())?.partitions;
    let online: CpuSet =
        states.iter().filter(|status| status.state.runs_threads()).map(|status| status.cpu).collect();
    let (what, named) = if let Some(set) = parsed.value('C') {
        let set = operands::set(&set)?;
        let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
        let what = format!("show processor set {set}");
        let members = if set.is_default() {
            let others: CpuSet = sets.iter().flat_map(|set| set.members.iter().copied()).collect();
            &online - &(&others | &reserved)
        } else {
            let Some(found) = sets.iter().find(|found| found.id == set) else {
                let complaint = Complaint::new(what, "there is no such processor set");
                return Err(complaint.hint("psrset -i lists the sets that exist").into());
            };
            found.cpus()
        };
        (what, members)
    } else if let Some(list) = parsed.value('c') {
        let named = expand(&operands::cpus(&[list])?, machine, |what| format!("show {what}"))?;
        let cpus = named.into_iter().collect::<Result<CpuSet, Complaint>>()?;
        let present: CpuSet = states.iter().map(|status| status.cpu).collect();
        if let Some(cpu) = cpus.iter().find(|cpu| !present.contains(*cpu)) {
            let why = operands::no_such_processor(&present);
            return Err(Complaint::new(format!("show CPU {cpu}"), why).into());
        }
        ("show these CPUs".to_owned(), cpus)
    } else {
        return Ok(online);
    };
    let shown = &named & &online;
    if shown.is_empty() { Err(Complaint::new(what, "none of its CPUs is on-line").into()) } else { Ok(shown) }
}
