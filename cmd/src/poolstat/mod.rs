//! Shows size, use and load of pools, and with `--why` the decisions of `poold`.
//!
//! ```text
//! $ poolstat 5 2
//!                               pset
//!  id pool                 size used load
//!   0 pool_default            4 0.00 1.20
//!   1 pool_web                3 0.00 14.6
//!                               pset
//!  id pool                 size used load
//!   0 pool_default            4 0.61 1.20
//!   1 pool_web                3 2.85 14.6
//! ```
//!
//! Without an interval there is one report. With one, reports go on until you interrupt them or COUNT is reached. An
//! interval is in seconds and may have a fraction. `<<State change>>` before a table says that pools, sets or their
//! CPUs changed.
//!
//! # Fields
//!
//! ```text
//! id, pool     number and name of the pool
//! type         pset
//! rid, rset    number and name of its set; -1 is the default set
//! min, max     least and greatest number of CPUs; from 1000 on in thousands (K), millions (M), …
//! size         number of CPUs that are on-line
//! used         mean number of busy CPUs in the interval, without CPUs that came or went. 0.00 in the first report;
//!              with -r a dash in a report after a change
//! load         number of running and runnable threads at the moment of the report, where Solaris has a mean over a
//!              minute; 0.00 where the machine does not say
//! ```
//!
//! A holder that uses up its CPU cap in a tenth of the periods or more is named in a warning: its threads wait although its
//! pool has idle CPUs. `--caps` has the figures.
//!
//! # Decisions
//!
//! ```text
//! $ poolstat --why 1
//! Nov 20 08:14:03, over 0.050 s: moved 2 from pset_default to web
//!     because  web 1 -> 2 (1.0 of 1 used, 1.0 more wanted); pset_default 3 -> 2 (0.0 of 3 used)
//!     worth    0.9985 s of CPU time
//!     or       nothing, worth 0.0000: to do nothing wins nothing
//!     lacking  1.0 before, 0.0 expected, 0.0 found 1.000 s later
//!     done     1 of 1 in 0.0 ms
//! ```
//!
//! Decisions are listed oldest first. `worth` is the policy's estimate. `or` is a rejected alternative with its reason.
//! `lacking` is how many more CPUs the threads would have used. `advice` says that other pools would suit the loads
//! better.
//!
//! A decision is recorded when the next one is made, because its effect is known then. `poold` records those that move
//! a CPU or have a new reason; `poold --record` records all. A simulated machine has the record of its shell's `poold`
//! (`svcadm`).
//!
//! # JSON
//!
//! With `--why`, one line per decision as recorded, for `millpond replay`. Otherwise one object per report, on a line
//! of its own, with the schema docs/reference/json/poolstat.json.

mod options;
mod rows;
mod why;

use crate::caps::{Caps, CapsReport};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, facet, read};
use crate::interval::{Repetition, Rounds};
use crate::json::{self, Describe};
use crate::pools;
use crate::recordings;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Misused, Operands, Parsed, Spec, ValueKind};
use millpond_formats::pools::poolstat::{STATE_CHANGE, default_table, table};
use millpond_formats::print_iso;
use millpond_machine::{Counters, Machine};
use millpond_model::pools::PoolsState;
use millpond_model::{ControlHolder, Nanos, Sample};
use millpond_observe::digits::thousandths;
use millpond_session::{Session, stop_on_signal};
use options::Options;
use rows::{Measured, is_changed, rows};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// What `--json` prints; the decisions of `--why` are lines of a log.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Report<'_>>()];

/// A report.
#[derive(Serialize, JsonSchema)]
struct Report<'r> {
    /// As ISO 8601.
    time: String,
    /// Null in the first report.
    #[serde(serialize_with = "thousandths")]
    interval_s: Option<f64>,
    /// Whether pools, sets or their CPUs changed since the report before.
    changed: bool,
    pools: Vec<Pool<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caps: Option<&'r CapsReport>,
}

/// A pool and its set.
#[derive(Serialize, JsonSchema)]
struct Pool<'r> {
    id: i64,
    pool: &'r str,
    /// The type of the resource: always `pset`.
    r#type: &'static str,
    /// The number of the set; -1 for the default one.
    rid: i64,
    /// Its name.
    rset: &'r str,
    min: u64,
    max: u64,
    /// How many CPUs it has.
    size: u64,
    /// How many of them were busy; null in the first report, and where it is not known.
    #[serde(serialize_with = "thousandths")]
    used: Option<f64>,
    /// How many threads ran or wanted to, on average.
    #[serde(serialize_with = "thousandths")]
    load: f64,
}

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "poolstat",
        applet: true,
        summary: "show size, use and load of pools, and the decisions of poold",
        group: Group::Divide,
        forms: &[
            "[-p pool-list] [-r rset-list] [-T d|u] [--from recording [--at moment]] [interval [count]]",
            "[-p pool-list] [-o format -r rset-list] [-T d|u] [--from recording [--at moment]] [interval [count]]",
            "--why [-p pool-list] [count]",
        ],
        flags: &[
            Flag::letter(
                'p',
                "only these pools, by name or number, in this order, separated by blanks or commas",
            )
            .value("pool", ValueKind::Pool),
            Flag::letter('r', "show resources: all, or pset, the only type").value("types", ValueKind::Text),
            Flag::letter('o', "with -r: these fields, in this order; may be repeated")
                .value("fields", ValueKind::Text),
            Flag::letter(
                'T',
                "before each report, print the time: u as seconds since 1970, d as `date` does",
            )
            .value("u", ValueKind::Text),
            recordings::FROM.conflicts(&["why", "caps"]),
            recordings::AT,
            Flag::long(
                "caps",
                "list groups with shares or a cap, and the time that the cap cost them (see prstat)",
            ),
            Flag::long(
                "why",
                "show the latest decisions of poold (COUNT, 10); with -p those that could move a CPU of these pools",
            ),
        ],
        misused: Misused::Solaris,
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[
            Example { words: "5", what: "show each pool's size and use every 5 seconds" },
            Example { words: "--why", what: "show the latest decisions of poold, and their reasons" },
        ],
        status: &[INTERRUPTED, ("1", "the machine or a pool cannot be read"), MISUSED],
        see_also: &["poolcfg(8)", "prstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// What was seen at a moment.
struct Seen {
    state: PoolsState,
    sample: Sample,
    /// What caps took away since the report before, where that was asked for.
    caps: Option<CapsReport>,
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    if parsed.long("why") {
        return why::run(parsed, ctx);
    }
    let options = Options::of(parsed)?;
    let session = recordings::reading(parsed, ctx)?;
    let machine = session.machine();
    let counters = facet("counters", machine.counters())?;
    let clock = machine.clock();
    let once = Repetition { interval: Nanos(0), count: Some(1) };
    let rounds = Rounds::begin(options.repetition.unwrap_or(once), clock, stop_on_signal());
    let mut rounds = rounds.behind_first(clock.now());
    let mut caps = options.caps.then(Caps::default);
    let mut throttling = Throttling::default();
    pools::enabled_in_copy(&session)?;
    if !options.caps {
        throttling.warn(machine, ctx);
    }
    let mut before = look(machine, counters, caps.as_mut())?;
    report(&before, None, false, &options, &session, ctx)?;
    while rounds.wait(ctx) {
        let now = look(machine, counters, caps.as_mut())?;
        if options.fields.is_some() && !options.json {
            ctx.out.line("");
        }
        let changed = is_changed(&before.state, &now.state);
        report(&now, Some(&before), changed, &options, &session, ctx)?;
        if !options.caps {
            throttling.warn(machine, ctx);
        }
        before = now;
    }
    Ok(Exit::DONE)
}

/// Warns of holders that use up their caps: their pools look idle, and more CPUs do not help them.
#[derive(Default)]
struct Throttling {
    caps: Caps,
    known: BTreeSet<ControlHolder>,
}

impl Throttling {
    /// Says so once while it lasts.
    fn warn(&mut self, machine: &dyn Machine, ctx: &mut Ctx<'_>) {
        let throttled = self.caps.throttled(machine);
        for (_, sentence) in throttled.iter().filter(|(holder, _)| !self.known.contains(holder)) {
            ctx.warn(format_args!("{sentence}: more CPUs do not help it"));
        }
        self.known = throttled.into_iter().map(|(holder, _)| holder).collect();
    }
}

fn look(machine: &dyn Machine, counters: &dyn Counters, caps: Option<&mut Caps>) -> Result<Seen, Failure> {
    let state = pools::state_to_show(machine)?;
    let sample = read("counters", counters.since_boot())?;
    let caps = caps.map(|caps| caps.next(machine)).transpose()?;
    Ok(Seen { state, sample, caps })
}

fn report(
    now: &Seen,
    before: Option<&Seen>,
    changed: bool,
    options: &Options,
    session: &Session,
    ctx: &mut Ctx<'_>,
) -> Result<(), Failure> {
    let measured = match before {
        None => Measured::Nothing,
        Some(_) if changed && options.fields.is_some() => Measured::Unknown,
        Some(before) => Measured::Between(&before.sample, &now.sample),
    };
    let rows = rows(&now.state, &options.pools, &measured)?;
    if options.json {
        let elapsed = before.map(|before| Nanos(now.sample.at.0.saturating_sub(before.sample.at.0)));
        let pools = rows.iter().map(|row| Pool {
            id: row.pool_id,
            pool: &row.pool,
            r#type: "pset",
            rid: row.pset_id,
            rset: &row.pset,
            min: row.min,
            max: row.max,
            size: row.size,
            used: row.used.filter(|_| before.is_some()),
            load: row.load,
        });
        ctx.json(&Report {
            time: print_iso(now.sample.wall),
            interval_s: elapsed.map(Nanos::as_secs_f64),
            changed,
            pools: pools.collect(),
            caps: now.caps.as_ref(),
        });
        ctx.out.flush();
        return Ok(());
    }
    if let Some(stamp) = options.stamp {
        ctx.out.line(stamp.line(now.sample.wall, session.zone()));
    }
    if changed {
        ctx.out.line(STATE_CHANGE);
    }
    ctx.out.text(&match &options.fields {
        Some(fields) => table(fields, &rows),
        None => default_table(&rows),
    });
    if let Some(caps) = &now.caps {
        ctx.out.text(&caps.table());
    }
    ctx.out.flush();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::options::Options;
    use super::*;
    use millpond_model::pools::PoolsConf;
    use millpond_session::{MachineName, OpenOptions, Output};

    /// Two reports about a machine between which a processor changed sets.
    fn after_a_change(words: &[&str]) -> String {
        let machine = MachineName::Simulated("smartos-2".into());
        let session = Session::open(&OpenOptions { machine, ..OpenOptions::default() }).unwrap();
        let words: Vec<_> = words.iter().map(Into::into).collect();
        let options = Options::of(&millpond_cli::parse(&COMMAND.spec, &words).unwrap()).unwrap();
        let sample = session.machine().counters().unwrap().since_boot().unwrap();
        let conf =
            PoolsConf::fresh((0..2).map(|n| (millpond_model::CpuId(n), millpond_model::State::OnLine)));
        let state = PoolsState { conf, keep_others: false, zones: std::collections::BTreeMap::new() };
        let seen = Seen { state, sample, caps: None };
        let mut out = Vec::new();
        let mut ctx = Ctx::new(Output::to(&mut out), Output::to(std::io::sink()));
        report(&seen, Some(&seen), true, &options, &session, &mut ctx).unwrap();
        drop(ctx);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_change_stands_before_its_table_and_a_table_of_resources_has_dashes_then() {
        assert_eq!(
            after_a_change(&[]),
            "<<State change>>\n                              pset\n id pool                 size used load\n  0 pool_default            2 0.00 0.00\n"
        );
        assert_eq!(
            after_a_change(&["-T", "u", "-r", "pset", "-o", "pool,used"]),
            "1732090442\n<<State change>>\npool                 used\npool_default            -\n"
        );
        assert!(after_a_change(&["--json", "-r", "all"]).contains(r#""used":null"#));
        assert!(after_a_change(&["--json"]).starts_with(r#"{"changed":true,"#));
    }
}
