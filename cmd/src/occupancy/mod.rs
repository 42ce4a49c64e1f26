//! Shows on which CPUs a program runs: for each CPU the percent of time in which a thread of the program was running.
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
//! A program is a process number or a name (as `ps -o comm` shows it), with all descendants. Several joined by commas
//! count as one program. One or two numbers at the end are interval and count, if another operand precedes them:
//! `4711,4712 1`.
//!
//! The default interval is 1 second; it may have a fraction. Reports end after the count, with the last program, or
//! when you interrupt them.
//!
//! There is a column for each active CPU. On a machine with more than 32 CPUs, only CPUs on which a program ran have
//! one.
//!
//! # Accuracy
//!
//! A BPF program measures times at each context switch, which takes about 50 ns longer. Reading them interrupts no CPU.
//! Standard error says how often the kernel had no memory to follow a thread.
//!
//! Where the kernel refuses the program, and with `--frequency`, times are estimated from samples, and standard error
//! says why. Each CPU, idle or not, is interrupted 4997 times a second, or at the given rate: about 1 % of its time.
//! CPUs in exclusive sets and no-intr CPUs are sampled only if the program may run there.
//!
//! A percentage is of the samples of that CPU: 97 are accurate to 5 points, 4997 to 1. If a tenth is missing or a
//! sample was lost, standard error reports the number of samples and the length of the interval.
//!
//! # JSON
//!
//! An object for each report, with the CPUs on which a program ran. The schema is `docs/reference/json/occupancy.json`.

mod programs;
mod table;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, facet, read, unless_absent};
use crate::interval::{Repetition, Rounds};
use crate::json::{self, Describe};
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Parsed, Spec, ValueKind};
use millpond_machine::facets::{CensusOptions, Method, Samples};
use millpond_model::{CpuId, Nanos, Pid};
use millpond_session::stop_on_signal;
use programs::Operands;
use table::{Document, Tables};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Document<'_>>()];

/// The sampling rate if nothing can be measured: a prime, so that it does not resonate with a clock of the kernel.
const FREQUENCY_HZ: u64 = 4997;
/// A higher rate would spend most of the time on sampling.
const FREQUENCY_HZ_MAX: u64 = 50_000;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "occupancy",
        summary: "show on which CPUs a program runs, in percent of time",
        group: Group::Slow,
        forms: &[
            "[--frequency hz] pid | name ... [interval [count]]",
            "[--frequency hz] -z zone,... [interval [count]]",
        ],
        flags: &[
            Flag::letter(
                'z',
                "show all processes of these zones, by name or number",
            )
            .value("zone", ValueKind::Zone),
            Flag::long(
                "frequency",
                "take this many samples a second instead of measuring; odd numbers avoid lockstep with timers",
            )
            .value("hz", ValueKind::Text),
        ],
        in_shell: true,
        examples: &[
            Example { words: "java 1 5", what: "show on which CPUs the threads of java run, five times" },
            Example { words: "-z web 1", what: "show where the processes of a zone run" },
        ],
        status: &[
            INTERRUPTED,
            ("1", "a program does not exist, or the machine can neither be measured nor sampled"),
            MISUSED,
        ],
        see_also: &["mpstat(1)", "prstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let zones = parsed.values('z');
    let operands = match zones.is_empty() {
        true => Operands::parse(&parsed.words())?,
        false => Operands { programs: Vec::new(), repetition: Repetition::parse(&parsed.words())? },
    };
    let method = method(parsed)?;
    let second = Repetition { interval: Nanos::from_secs(1), count: None };
    let repetition = operands.repetition.unwrap_or(second);
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let sampler = facet("where programs run", machine.sampler())?;
    let programs = if zones.is_empty() {
        let processes = read("processes", facet("processes", machine.threads())?.processes())?;
        operands.resolve(&processes)?
    } else {
        let wanted = CensusOptions { places: true, ..CensusOptions::default() };
        let roster = read("processes", facet("processes", machine.census())?.list(wanted))?;
        programs::of_zones(&zones, &roster.processes)?
    };
    let pids: Vec<Pid> = programs.iter().flat_map(|p| p.pids.iter().copied()).collect();
    let mut watch = unless_absent("watch where programs run", sampler.watch(&pids, method))?;
    if let Some(why) = watch.why_sampled() {
        ctx.warn(format_args!("times are estimated from samples: {why}"));
    }
    let mut rounds = Rounds::begin(repetition, machine.clock(), stop_on_signal());
    let mut tables = Tables::default();
    while rounds.wait(ctx) {
        let residence = read("where programs run", watch.collect())?;
        if parsed.common.json {
            ctx.json(&Document::of(&programs, &residence));
        } else {
            let active: Vec<CpuId> = read("processors", facet("processors", machine.processors())?.states())?
                .into_iter()
                .filter(|status| status.state.runs_threads())
                .map(|status| status.cpu)
                .collect();
            ctx.out.text(&tables.draw(&programs, &residence, &active));
        }
        ctx.out.flush();
        if let Some(loss) = residence.samples.and_then(|samples| loss(samples, residence.elapsed)) {
            ctx.warn(format_args!("{loss}"));
        }
        if residence.unfollowed > 0 {
            let times = residence.unfollowed;
            ctx.warn(format_args!(
                "{times} times the kernel had no memory to follow a thread: its time is missing"
            ));
        }
        if residence.alive.is_empty() {
            break;
        }
    }
    Ok(Exit::DONE)
}

/// The message about missing samples. `None` if less than a tenth is missing and no sample was lost.
fn loss(samples: Samples, elapsed: Nanos) -> Option<String> {
    let Samples { wanted, taken, lost } = samples;
    let is_short = taken < wanted - wanted / 10;
    let lost = if lost > 0 { format!(", {lost} of them lost") } else { String::new() };
    (is_short || !lost.is_empty()).then(|| {
        format!(
            "{taken} of {wanted} samples were used in {:.3} s ({} missing{lost}): percentages are of those",
            elapsed.as_secs_f64(),
            wanted.saturating_sub(taken)
        )
    })
}

fn method(parsed: &Parsed) -> Result<Method, Failure> {
    let Some(text) = parsed.long_value("frequency") else { return Ok(Method::MeasureOrSample(FREQUENCY_HZ)) };
    let value = text.parse().ok().filter(|hz| (1..=FREQUENCY_HZ_MAX).contains(hz));
    value.map(Method::Sample).ok_or_else(|| {
        Failure::Operand(format!("`{text}` is not a frequency (1 to {FREQUENCY_HZ_MAX} samples a second)"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_samples_are_told_with_the_interval() {
        let of = |wanted, taken, lost| loss(Samples { wanted, taken, lost }, Nanos::from_millis(1_003));
        assert_eq!(of(1000, 995, 0), None);
        assert_eq!(of(1000, 1001, 0), None);
        assert_eq!(
            of(9994, 1020, 0).unwrap(),
            "1020 of 9994 samples were used in 1.003 s (8974 missing): percentages are of those"
        );
        assert_eq!(
            of(1000, 990, 10).unwrap(),
            "990 of 1000 samples were used in 1.003 s (10 missing, 10 of them lost): percentages are of those"
        );
    }
}
