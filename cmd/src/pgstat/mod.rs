//! Shows the utilization of processor groups: CPUs that share a pipeline, a cache, a chip or a NUMA node.
//!
//! ```text
//! $ pgstat 1 2
//! PG  RELATIONSHIP           HW    SW  CPUS
//!  0  System                  - 12.5%  0-7
//!  3   Data_Pipe_to_memory    - 12.5%  0-7
//!  2    L2_Cache              - 12.5%  0-7
//!  1     Integer_Pipeline     -   25%  0-3
//!  4     Integer_Pipeline     -    0%  4-7
//! ```
//!
//! Busy CPUs of one group compete for what it shares. `pginfo` describes the groups.
//!
//! Without an interval there is one report, about one second. With an interval reports go on until you interrupt them,
//! or COUNT is reached. An interval is in seconds and may have a fraction (`0.5`).
//!
//! # Columns
//!
//! ```text
//! PG    the number of the group
//! HW    the used part of the hardware's capacity: always a dash
//! SW    the busy part of its CPUs' time, in user mode and in the kernel, without steal and disk waits
//! CPUS  its on-line CPUs
//! ```
//!
//! SW comes from the same counters as usr and sys of `mpstat`: on Linux from `/proc/stat`. Most kernels sample it in
//! ticks of 4 or 10 ms, so short intervals are coarse. Reading it interrupts no CPU.
//!
//! HW is unknown because neither Linux nor hardware counters tell the capacity of a pipeline or a cache. `cpustat`
//! counts instructions, cycles and misses.
//!
//! # Changes
//!
//! These lines before a report list CPUs that came or went in the interval. The report is about CPUs that were on-line
//! at both ends.
//!
//! ```text
//! <<processors added: 1, 3>>
//! <<processors removed: 1, 3>>
//! ```
//!
//! # Recordings
//!
//! `--from` shows the groups of a recording of `millpond record` in place of the machine. Cores and NUMA nodes are
//! recorded, caches and chips are not: a chip is taken to be a node, and groups may have other numbers than live ones.
//!
//! # JSON
//!
//! One object per report, and with `-A` one more at the end. A dash is null. The schema is `docs/reference/json/pgstat.json`.

mod options;
mod report;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::interval::{Repetition, Rounds};
use crate::json::{self, Describe};
use crate::processor_groups::Hardware;
use crate::recordings;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind, help};
use millpond_machine::facets::WatchOptions;
use millpond_machine::{Absent, Machine};
use millpond_model::Nanos;
use millpond_observe::{Rates, Scope, changes};
use millpond_session::stop_on_signal;
use options::Options;
use report::{Document, Reports, Totals};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Document<'_>>(), json::of::<Totals>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "pgstat",
        applet: true,
        summary: "show the utilization of CPUs that share pipelines, caches, chips",
        group: Group::Slow,
        forms: &[
            "[-A] [-C] [-p] [-s key | -S key] [-t number] [-T u | d] [-v] [-r string] [-R string] [-P pg ...] [-c processor_id ...] \
         [--from recording [--at moment]] [interval [count]]",
            "-h",
        ],
        flags: &[
            Flag::letter('A', "print a summary at the end: minimum, mean and maximum of all intervals"),
            Flag::letter('c', "only groups with one of these CPUs (`0-3,8`)").value("cpus", ValueKind::Text),
            Flag::letter('C', "print a row for each CPU, below its innermost group"),
            Flag::letter('h', "print the usage"),
            Flag::letter('p', "mark groups with exactly the CPUs of a core, a chip or the system"),
            Flag::letter('P', "only these groups (`0,3-5`)").value("pgs", ValueKind::Text),
            Flag::letter(
                'r',
                "only groups whose relationship contains one of these strings (l1,l2), in any case",
            )
            .value("string", ValueKind::Text),
            Flag::letter('R', "only groups whose relationship contains none of these strings")
                .value("string", ValueKind::Text),
            Flag::letter('s', "sort descending by this key").value("key", ValueKind::Text).conflicts(&["S"]),
            Flag::letter('S', "sort ascending by this key").value("key", ValueKind::Text),
            Flag::letter('t', "only the first NUMBER groups, after sorting").value("number", ValueKind::Text),
            Flag::letter(
                'T',
                "before each report, print the time: u as seconds since 1970, d as `date` does",
            )
            .value("u", ValueKind::Text),
            Flag::letter('v', "also show user, kernel and idle time"),
            recordings::FROM,
            recordings::AT,
        ],
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[Example {
            words: "1 5",
            what: "show the utilization of each processor group, five times",
        }],
        status: &[
            INTERRUPTED,
            (
                "1",
                "a named group or CPU does not exist (the others are shown), none is left, or the machine cannot be watched",
            ),
            MISUSED,
        ],
        see_also: &["pginfo(1)", "mpstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// One report about a second, where no interval is given.
const ONCE: Repetition = Repetition { interval: Nanos(1_000_000_000), count: Some(1) };

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.has('h') {
        ctx.out.text(&help::usage(&COMMAND.spec));
        return Ok(Exit::DONE);
    }
    let options = Options::of(parsed)?;
    let repetition = options.repetition.unwrap_or(ONCE);
    let session = recordings::reading(parsed, ctx)?;
    let machine = session.machine();
    let hardware = Hardware::read(machine, ctx)?;
    let mut exit = Exit::DONE;
    let meant = options.choice.resolve(&hardware, ctx, &mut exit)?;
    if meant.is_empty() {
        return Ok(exit);
    }
    let counters = facet("counters", machine.counters())?;
    let watch = counters.watch(WatchOptions { times_only: true, ..WatchOptions::default() });
    let mut watch = watch.map_err(|Absent { why, .. }| {
        let complaint = Complaint::new("watch processor groups", why);
        complaint.hint("pginfo shows them without their utilization; mpstat shows figures since boot")
    })?;
    let mut reports = Reports::new(&options, &hardware.groups, &meant, session.zone());
    let mut before = read("counters", watch.sample())?;
    let mut rounds = Rounds::begin(repetition, machine.clock(), stop_on_signal());
    let why = no_hardware_figure(machine);
    while rounds.wait(ctx) {
        let after = read("counters", watch.sample())?;
        let frame = Rates::between(&before, &after);
        let changes = changes(&before, &after, Scope::Processors);
        ctx.out.text(&reports.draw(&frame, &changes, &why));
        ctx.out.flush();
        if reports.is_first() && !options.json {
            ctx.hint(&format!("HW is a dash: {why}"));
        }
        before = after;
    }
    if options.summary {
        ctx.out.text(&reports.summary());
    }
    Ok(exit)
}

/// Why no report has figures of the hardware.
fn no_hardware_figure(machine: &dyn Machine) -> String {
    match machine.hardware_counters().and_then(|counters| counters.hardware()) {
        Err(Absent { why, .. }) => why,
        Ok(()) => "counters do not tell how much the hardware can do; cpustat counts what it does".to_owned(),
    }
}
