//! Shows where programs run: for each processor, the percent of samples in which a thread of the program was
//! found on it.
//!
//! A program is a process, or all processes of a name, with everything that descends from them. 100 means that
//! one of its threads was on the processor all the time.
//!
//! ```text
//! $ millpond occupancy cg.1,cg.2 1 2
//! ```
//!
//! ```text
//! $ millpond occupancy 4711 4712
//! PROGRAM               0     1   all
//! 4711               51.2  47.9  99.1
//! 4712               48.1  51.0  99.1
//! PROGRAM               0     1   all
//! 4711               96.3   0.0  96.3
//! 4712                0.0  95.8  95.8
//! ```
//!
//! # Operands
//!
//! A word is a process number, a name (as `ps -o comm` shows it), or several of them with commas between, which
//! then are one program. The last one or two words are interval and count if they are numbers and another word
//! stands before them; so several numbers of processes go with an interval behind them (`4711 4712 1`) or with
//! commas. The interval is a second if none is given, and may have a fraction. Reports end with the count, with
//! the last of the programs, or when you interrupt them.
//!
//! # Options
//!
//! ```text
//! --frequency HZ   samples a second, 4997 if not given: an odd number stays out of step with clocks
//! ```
//!
//! # Columns
//!
//! A column per processor that is active, and the sum. On a machine of more than 32 processors only those on
//! which one of the programs was seen in the interval. Lost samples are told on standard error.
//!
//! # What watching does
//!
//! Each processor that is not idle is interrupted as many times a second as there are samples: about one percent
//! of its time. Processors that are fenced or sheltered from interrupts are sampled only if one of the programs
//! may run there.
//!
//! # JSON
//!
//! ```text
//! {"interval_s":1.0,"samples_full":4997,"lost":0,
//!  "programs":[{"program":"4711","pids":[4711],
//!               "processors":[{"cpu":0,"samples":2558,"percent":51.2},{"cpu":1,"samples":2394,"percent":47.9}]}]}
//! ```
//!
//! # Status
//!
//! 0 (also when interrupted), or 1 when a program does not exist or the machine cannot be sampled, or 2 for what
//! makes no sense.

mod programs;
mod table;

use crate::args::Parsed;
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::interval::{Cadence, Repetition};
use millpond_machine::Absent;
use millpond_model::{CpuId, Nanos, Pid};
use millpond_session::stop_on_signal;
use programs::Operands;
use std::sync::atomic::Ordering;
use table::Tables;

/// Samples a second unless asked otherwise: a prime, out of step with every clock of the kernel.
const FREQUENCY_HZ: u64 = 4997;
/// More would be mostly sampling.
const FREQUENCY_HZ_MAX: u64 = 50_000;

pub(crate) const COMMAND: Command = Command {
    name: "occupancy",
    applet: false,
    summary: "show on which processors programs run",
    usage: &["[--frequency hz] pid | name ... [interval [count]]"],
    letters: "",
    longs: &["frequency:"],
    source: include_str!("mod.rs"),
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let operands = Operands::parse(&parsed.words())?;
    let frequency_hz = frequency(parsed)?;
    let second = Repetition { interval: Nanos::from_secs(1), count: None };
    let repetition = operands.repetition.unwrap_or(second);
    if repetition.count == Some(0) {
        return Ok(Exit::DONE);
    }
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let sampler = facet("samples", machine.sampler())?;
    let processes = read("processes", facet("processes", machine.threads())?.processes())?;
    let programs = operands.resolve(&processes)?;
    let pids: Vec<Pid> = programs.iter().flat_map(|p| p.pids.iter().copied()).collect();
    let stop = stop_on_signal();
    let watch = sampler.watch(&pids, frequency_hz);
    let mut watch = watch.map_err(|Absent { why, what_would_help }| Complaint {
        what: "sample processors".to_owned(),
        reason: why,
        hint: what_would_help,
    })?;
    let clock = machine.clock();
    let mut cadence = Cadence::begin(repetition, clock.now());
    let mut tables = Tables::default();
    let mut left = repetition.count;
    while left != Some(0) && !ctx.out.is_closed() {
        clock.sleep_until(cadence.next(clock.now()));
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let residence = read("samples", watch.collect())?;
        if parsed.common.json {
            ctx.json(&table::json(&programs, &residence));
        } else {
            let active: Vec<CpuId> = read("processors", facet("processors", machine.processors())?.states())?
                .into_iter()
                .filter(|status| status.state.runs_threads())
                .map(|status| status.cpu)
                .collect();
            ctx.out.text(&tables.draw(&programs, &residence, &active));
        }
        ctx.out.flush();
        if residence.lost > 0 {
            ctx.warn(format_args!("{} samples were lost", residence.lost));
        }
        if residence.alive.is_empty() {
            break;
        }
        left = left.map(|left| left - 1);
    }
    Ok(Exit::DONE)
}

fn frequency(parsed: &Parsed) -> Result<u64, Failure> {
    let Some(text) = parsed.long_value("frequency") else { return Ok(FREQUENCY_HZ) };
    let value = text.parse().ok().filter(|hz| (1..=FREQUENCY_HZ_MAX).contains(hz));
    value.ok_or_else(|| {
        Failure::Operand(format!("`{text}` is not a frequency (1 to {FREQUENCY_HZ_MAX} samples a second)"))
    })
}
