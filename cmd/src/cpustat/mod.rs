//! Counts hardware events on each CPU, such as cycles, instructions and cache misses.
//!
//! ```text
//! $ cpustat -nc pic0=Cycle_cnt,pic1=Instr_cnt 10 1
//!  10.000   0  tick 3600000003 3333333336
//!  10.000   1 total 3600000003 3333333336
//! ```
//!
//! Each `-c` is an event set, with one event per counter. Several sets take turns, one per interval. The last line of
//! each set is the sum; its second column is the number of CPUs.
//!
//! It counts on the on-line CPUs of the processor set that this command runs in. The default interval is 5 seconds; it
//! may have a fraction. Without a count, it continues until you interrupt it.
//!
//! # Events
//!
//! ```text
//! pic0=EVENT     count it in that counter; EVENT alone takes the next one that can
//! sys, sys0      count in the kernel as well: all counters, or this one
//! nouser         do not count in user mode
//! ```
//!
//! `-h` lists the names. On Linux these are the names of Solaris (Cycle_cnt, Instr_cnt), PAPI (PAPI_tot_cyc) and perf
//! (cycles, cache-misses), events of the CPU's driver, and codes (r3c, 0x3c). Software events (context-switches,
//! page-faults) need no hardware.
//!
//! When other programs use the counters, too, the kernel multiplexes them. Counts are then scaled, and marked
//! `# scaled: counted 53% of the time`. Counters that never counted have no figures, and the exit status is 1. A CPU
//! that goes off-line is reported and left out from then on.
//!
//! # JSON
//!
//! One object per line of output; `event` is its kind. The schema is `docs/reference/json/cpustat.json`.
//!
//! A recording has the objects of kind `tick`. Its first object describes the recording:
//!
//! ```text
//! {"format":1,"interval_s":10.0,"machine":"u2i","recording":"cpustat","time":"2024-11-20T08:14:02Z"}
//! ```

mod options;
mod places;
mod report;
mod watch;

use crate::command::Command;
use crate::counting::{begin, cannot_count};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet};
use crate::json::{self, Describe};
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Parsed, Spec, ValueKind};
use millpond_observe::recording::Event;
use millpond_session::{create_output, stop_on_signal};
use options::Options;
use places::Places;
use report::Report;
use watch::Watcher;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Event<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "cpustat",
        applet: true,
        summary: "count hardware events on each CPU: cycles, instructions, misses",
        group: Group::Slow,
        forms: &[
            "-c spec [-c spec]... [-p period] [-T u|d] [-sntD] [--all] [--cpi] [--record \
                 file] [interval [count]]",
            "-h",
        ],
        flags: &[
            Flag::letter('c', "an event set").value("spec", ValueKind::Text),
            Flag::letter(
                'p',
                "with several sets: the length of a cycle through all of them, the rest of it idle",
            )
            .value("seconds", ValueKind::Time),
            Flag::letter(
                'T',
                "before each sample, print the time: u as seconds since 1970, d as `date` does",
            )
            .value("u", ValueKind::Text),
            Flag::letter('s', "leave out idle loops; has no effect, because an idle CPU counts nothing"),
            Flag::letter('n', "print no header"),
            Flag::letter('t', "also show the register that counts cycles at a constant rate"),
            Flag::letter('D', "name the call that failed"),
            Flag::letter('h', "list the events of this machine"),
            Flag::long("all", "all on-line CPUs, in any set"),
            Flag::long(
                "cpi",
                "show cycles per instruction, and their distribution at the end; without -c, count cycles and instructions",
            ),
            Flag::long("record", "write each line to a file as JSON, for millpond compare")
                .value("file", ValueKind::File),
        ],
        in_shell: true,
        examples: &[
            Example { words: "--cpi 1 5", what: "show cycles per instruction of each CPU" },
            Example { words: "-h", what: "list the events of this machine" },
        ],
        status: &[INTERRUPTED, ("1", "an event cannot be counted"), MISUSED],
        see_also: &["cputrack(1)", "millpond-compare(1)", "mpstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// The events of `--cpi` without other events.
const CPI: &str = "pic0=Cycle_cnt,pic1=Instr_cnt";

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let counters = facet("counters of the hardware", machine.hardware_counters())?;
    let texts =
        if options.specs.is_empty() && options.cpi { vec![CPI.to_owned()] } else { options.specs.clone() };
    let Some((sets, interface)) = begin(counters, &texts, options.lists, ctx)? else { return Ok(Exit::DONE) };
    if options.cpi
        && let Some(set) = (0..sets.len()).find(|set| sets.cpi_counters(*set).is_none())
    {
        let text = &sets.0[set].text;
        return Err(Failure::Operand(format!(
            "--cpi needs cycles and instructions in each set; `{text}` has not both"
        )));
    }
    let tick = if options.tick { interface.cpu_tick } else { None };
    if options.tick && tick.is_none() {
        let complaint =
            Complaint::new("show the register of cycles", "programs may not read it on this machine");
        return Err(complaint.into());
    }
    let places = Places::of(&session, options.all)?;
    let counting = counters.count_cpus(&places.cpus(), &sets.wanted());
    let counting = counting.map_err(|refusal| cannot_count(&refusal, "count_cpus", options.debug))?;
    let record = match &options.record {
        Some(file) => {
            let cannot = |why: String| Complaint::new(format!("write recording {}", file.display()), why);
            Some(create_output(file).map_err(cannot)?)
        }
        None => None,
    };
    let mut layout = sets.layout(tick);
    layout.cpi = options.cpi;
    let clock = machine.clock();
    let mut report = Report::new(&options, sets, layout, places, session.zone(), record);
    report.begin(machine.name(), clock.wall(), ctx);
    let watcher = Watcher { counting, clock, stop: stop_on_signal(), options: &options, report };
    watcher.run(ctx)
}
