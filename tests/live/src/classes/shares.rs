//! CPU shares of processes that only compute, on one CPU, compared with the simulator's.

use crate::Outcome;
use crate::actor::Actor;
use crate::stage::{Stage, wish};
use millpond_bpf::classes::Wish;
use millpond_model::{ClassParams, DispatchTables, Quantum, TsRow, TsTable};
use millpond_rules::Class;
use millpond_sim::kernel::{Kernel, Layout, Program, Start, Tunables};
use std::thread::sleep;
use std::time::Duration;

/// Seconds per measurement.
pub const SECONDS: u64 = 40;
/// Warm-up in seconds.
const BEFORE: u64 = 4;
/// Tolerance of a share in percentage points.
const NEAR: f64 = 2.0;
/// Ticks per second in the simulator, and the ticks that a slice is longer there than in the table. On a kernel other threads run as well,
/// so five slices of 200 ms do not end together with the second. In the simulator they would, and a second would never lift a thread in the
/// middle of its slice. The exact difference has little effect: with 1 to 5 ms no share changes by two points.
const HZ: u32 = 1_000;
const LONGER: u32 = 2;

struct Scenario {
    name: &'static str,
    extended: bool,
    change: fn(usize, &mut TsRow),
    /// Classes with parameters, in their text form: `TS 0 -60`.
    who: &'static [&'static str],
}

fn as_it_is(_: usize, _: &mut TsRow) {}

/// A table in which neither waits nor seconds lift a thread.
fn no_lift(level: usize, row: &mut TsRow) {
    let level = u8::try_from(level).unwrap_or_default();
    (row.lwait, row.slpret) = (level, level);
}

const SCENARIOS: [Scenario; 8] = [
    Scenario { name: "standard table", extended: false, change: as_it_is, who: &["TS 0 0", "FX 0 0 20"] },
    Scenario { name: "standard table", extended: false, change: as_it_is, who: &["TS 0 0", "TS 0 -60"] },
    Scenario { name: "extended table", extended: true, change: as_it_is, who: &["TS 0 0", "FX 0 0 20"] },
    Scenario { name: "extended table", extended: true, change: as_it_is, who: &["TS 0 0", "TS 0 -60"] },
    Scenario {
        name: "a table without lifts",
        extended: false,
        change: no_lift,
        who: &["TS 0 0", "FX 0 0 20"],
    },
    Scenario {
        name: "standard table",
        extended: false,
        change: as_it_is,
        who: &["TS 0 0", "TS 0 0", "TS 0 0", "FX 0 0 20"],
    },
    Scenario { name: "extended table", extended: true, change: as_it_is, who: &["TS 0 0", "TS 0 -30"] },
    Scenario {
        name: "standard table",
        extended: false,
        change: as_it_is,
        who: &["IA 0 0 foreground", "TS 0 0"],
    },
];

/// Runs all scenarios in order, each for `seconds`.
pub fn all(seconds: u64) -> impl Iterator<Item = (String, Outcome)> {
    let stage = Stage::new();
    SCENARIOS.into_iter().map(move |scenario| {
        let outcome = match &stage {
            Ok(stage) => one(stage, &scenario, seconds),
            Err(why) => Err(why.clone()),
        };
        (format!("{}, {}", scenario.name, scenario.who.join(" + ")), outcome)
    })
}

fn one(stage: &Stage, scenario: &Scenario, seconds: u64) -> Outcome {
    let tables = Stage::table(scenario.extended, scenario.change)?;
    let params: Vec<ClassParams> = scenario
        .who
        .iter()
        .map(|who| who.parse().map_err(|_| format!("{who} is no class with parameters")))
        .collect::<Result<_, _>>()?;
    let expected = percent(&sorted(&params, simulated(tables, &params, seconds)?));
    let got = percent(&sorted(&params, measured(stage, &params, seconds)?));
    let said =
        |shares: &[f64]| shares.iter().map(|share| format!("{share:.1}")).collect::<Vec<_>>().join("/");
    let both = format!("{} %, simulator {}", said(&got), said(&expected));
    if expected.iter().zip(&got).any(|(expected, got)| (expected - got).abs() > NEAR) {
        return Err(both);
    }
    // Within a class, a process with a higher user priority gets no less.
    let upri = |params: &ClassParams| match *params {
        ClassParams::Ts { upri, .. } => Some(upri),
        _ => None,
    };
    let is_monotone = params.iter().zip(&got).all(|(high, more)| {
        params
            .iter()
            .zip(&got)
            .all(|(low, less)| upri(high) <= upri(low) || upri(low).is_none() || less - more < NEAR)
    });
    if is_monotone { Ok(both) } else { Err(format!("{both}: a lower user priority gets more")) }
}

/// Sorts the times of processes with equal parameters: which of them runs first is random.
fn sorted(params: &[ClassParams], mut times: Vec<u64>) -> Vec<u64> {
    let mut from = 0;
    for equals in params.chunk_by(|a, b| a == b) {
        times[from..from + equals.len()].sort_unstable();
        from += equals.len();
    }
    times
}

/// Converts a slice from ticks of 10 ms to the simulator's ticks.
fn longer(ticks: u32) -> u32 {
    ticks * (HZ / 100) + LONGER
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds of minutes")]
fn percent(times: &[u64]) -> Vec<f64> {
    let all: u64 = times.iter().sum();
    times.iter().map(|time| *time as f64 * 100.0 / all.max(1) as f64).collect()
}

fn simulated(mut tables: DispatchTables, params: &[ClassParams], seconds: u64) -> Result<Vec<u64>, String> {
    const SECOND: u64 = 1_000_000_000;
    let rows = tables.ts.rows().iter().map(|row| TsRow { quantum: longer(row.quantum), ..*row });
    tables.ts = TsTable::new(rows.collect()).map_err(|error| error.to_string())?;
    let mut kernel = Kernel::new(&Layout::flat(1), tables, Tunables { hz: HZ, ..Tunables::default() });
    let threads: Vec<_> = params
        .iter()
        .map(|params| {
            let mut params = *params;
            if let ClassParams::Fx { quantum: Quantum::Ticks(ticks), .. } = &mut params {
                *ticks = longer(*ticks);
            }
            let class = kernel.entry(params);
            kernel.start(Start::new(class, Program::hog()))
        })
        .collect();
    let ran =
        |kernel: &Kernel| threads.iter().map(|thread| kernel.thread(*thread).user).collect::<Vec<u64>>();
    kernel.run_until(BEFORE * SECOND).map_err(|halt| format!("{halt:?}"))?;
    let before = ran(&kernel);
    kernel.run_until((BEFORE + seconds) * SECOND).map_err(|halt| format!("{halt:?}"))?;
    Ok(ran(&kernel).iter().zip(before).map(|(now, before)| now - before).collect())
}

fn wish_of(params: &ClassParams) -> Result<Wish, String> {
    Ok(match *params {
        ClassParams::Ts { uprilim, upri } => wish(Class::Ts, uprilim, upri),
        ClassParams::Ia { uprilim, upri, foreground } => {
            Wish { foreground, ..wish(Class::Ia, uprilim, upri) }
        }
        ClassParams::Fx { uprilim, upri, quantum: Quantum::Ticks(ticks) } => {
            Wish { quantum: i64::from(ticks) * 10_000_000, ..wish(Class::Fx, uprilim, upri) }
        }
        other => return Err(format!("{other} is not of the scheduler")),
    })
}

fn measured(stage: &Stage, params: &[ClassParams], seconds: u64) -> Result<Vec<u64>, String> {
    let actors: Vec<Actor> =
        params.iter().map(|params| stage.ready("spin", wish_of(params)?)).collect::<Result<_, _>>()?;
    stage.after_beat()?;
    actors.iter().for_each(Actor::go);
    sleep(Duration::from_secs(BEFORE));
    let before: Vec<u64> = actors.iter().map(Actor::ran).collect();
    sleep(Duration::from_secs(seconds));
    Ok(actors.iter().zip(before).map(|(actor, before)| actor.ran() - before).collect())
}
