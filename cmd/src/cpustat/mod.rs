//! Counts events of the hardware on each processor: cycles, instructions, misses.
//!
//! ```text
//! $ cpustat -nc pic0=Cycle_cnt,pic1=Instr_cnt 10 1
//!  10.000   0  tick 3600000003 3333333336
//!  10.000   1 total 3600000003 3333333336
//! ```
//!
//! Each -c is a set: an event for each counter, which are counted together. Several sets are counted in turn, one in each interval. The last
//! line has the sum over all processors and intervals, for each set; in its second column stands how many processors there were.
//!
//! The on-line processors of the set that this program runs in are counted. The interval is 5 seconds unless given, and may have a fraction;
//! without a count it goes on until you interrupt it.
//!
//! # Events
//!
//! ```text
//! pic0=EVENT     that counter; EVENT alone takes the next one that can
//! sys, sys0      count in the kernel too, all counters or this one
//! nouser         do not count user mode
//! ```
//!
//! -h lists the names. On Linux there are those of the examples of the manuals (Cycle_cnt, Instr_cnt), generic ones (PAPI_tot_cyc), those of perf
//! (cycles, cache-misses), those that the kernel lists for its processors, codes (r3c, 0x3c), and events that the kernel itself counts
//! (context-switches, page-faults), which need no hardware.
//!
//! # What is marked
//!
//! Where others use the counters too, the kernel lets them take turns: counts are then scaled, and the line ends in `# scaled: counted 53% of the
//! time`. A line whose counters never counted has no figures, and the status is 1. A processor that goes off-line is told of and counted no more.
//!
//! # JSON
//!
//! A line for each line. What is recorded begins with a line about the whole.
//!
//! ```text
//! {"counts":[{"count":3600000003,"event":"Cycle_cnt","pic":0},{"count":3333333336,"event":"Instr_cnt","pic":1}],"cpi":1.08,"cpu":0,
//!  "elapsed_s":10.0,"event":"tick","lgroup":0,"pset":0,"share":1.0,"spec":"pic0=Cycle_cnt,pic1=Instr_cnt","time_s":10.0}
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
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Parsed, Spec, ValueKind};
use millpond_session::{create_output, stop_on_signal};
use options::Options;
use places::Places;
use report::Report;
use watch::Watcher;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "cpustat",
        applet: true,
        summary: "count events of the hardware on each processor",
        group: Group::Watch,
        forms: &[
            "-c spec [-c spec]... [-p period] [-T u|d] [-sntD] [--all] [--cpi] [--record \
                 file] [interval [count]]",
            "-h",
        ],
        flags: &[
            Flag::letter('c', "a set of events").value("spec", ValueKind::Text),
            Flag::letter(
                'p',
                "with several sets: each cycle of them takes so long, and rests when all had \
                 their turn",
            )
            .value("seconds", ValueKind::Time),
            Flag::letter('T', "before each sample the time: in seconds since 1970, or as date shows it")
                .value("u", ValueKind::Text),
            Flag::letter(
                's',
                "keep idle loops out of the counts of the kernel: nothing to do here, an idle \
                 processor stands still and counts nothing",
            ),
            Flag::letter('n', "no head"),
            Flag::letter('t', "the register that counts cycles at a constant rate, too"),
            Flag::letter('D', "say which call failed"),
            Flag::letter('h', "what can be counted here"),
            Flag::long("all", "all on-line processors, whichever set they are in"),
            Flag::long(
                "cpi",
                "cycles for each instruction, and at the end how they are distributed; without \
                 -c it counts these two",
            ),
            Flag::long(
                "record",
                "writes each line to a file as JSON: millpond compare shows two such files \
                 beside one another",
            )
            .value("file", ValueKind::File),
        ],
        in_shell: true,
        examples: &[
            Example { words: "--cpi 1 5", what: "cycles for each instruction, by CPU" },
            Example { words: "-h", what: "list the events of this machine" },
        ],
        status: &[INTERRUPTED, ("1", "something cannot be counted"), MISUSED],
        see_also: &["cputrack(1)", "millpond-compare(1)", "mpstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// What is counted for `--cpi` alone.
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
