//! Replays a recording under another pool configuration or another policy of `poold`, and estimates the waits.
//!
//! ```text
//! $ millpond whatif web.xml --recorded day
//! 60 looks in 60.000 s; web.xml, policy millpond
//! POOL             CPUS          WOULD     WAITED                WOULD   KNOWN
//! pool_default     3.00           1.00        0.0                  0.0   100 %
//! web              1.00           3.00       90.0                  0.0     0 %
//! CPUs moved: 0; would be 0
//! ```
//!
//! CPUS is the size of the pool's set, a mean over time. WAITED is the time in seconds that its threads waited because the
//! set had too few CPUs, summed over threads. The columns WOULD have the predictions. KNOWN is the part of the time in which
//! the set had free CPUs, so that demand is known. In the rest the set was fully busy, and the missing demand is estimated
//! from waits.
//!
//! Two numbers are two assumptions about threads that waited. In the first, each had a slice of work to do, a tenth of a
//! second, and then wanted no more. In the second, they continued to want CPUs for as long as they waited, like programs
//! that compute without end. A recording does not show which is true. These are estimates, not bounds: a service whose
//! threads need a millisecond each waits less than either.
//!
//! # The twin
//!
//! Pools have to be enabled (`pooladm -e`) while `millpond record` watches. The demand of a set is its CPU use, and the
//! waits of its threads while all of its CPUs were busy. It is replayed on a simulated machine with the recorded CPU
//! topology, in steps of `--every`, at least a second. The sets begin as they were recorded, then the file is committed as
//! `pooladm -c` does, and `poold` decides as it would have.
//!
//! Without a file the recorded configuration is kept: then only the policy differs. With `--policy none` sets keep
//! their sizes.
//!
//! Caches and migrations are not modelled, nor that a program starts more threads where it has more CPUs. Pools that
//! shared a set each get the same part of its demand.
//!
//! # JSON
//!
//! The schema is docs/reference/json/whatif.json.

mod twin;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::interval;
use crate::json::{self, Describe};
use crate::pools;
use crate::recordings;
use crate::replay::EVERY;
use crate::replay::recorded::look_through;
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_model::printable;
use millpond_planner::POLICIES;
use millpond_pools::Unserved;
use millpond_pools::script::Said;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use twin::{Day, Played, play};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Told<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "whatif",
        summary: "play a recorded day under another configuration of pools or another policy of poold",
        group: Group::Past,
        forms: &["[file] --recorded recording [--at moment] [--every time] [--policy name]"],
        flags: &[
            Flag::long("recorded", "the recording: a directory or file of millpond record")
                .value("recording", ValueKind::File),
            Flag::long("at", "begin at this moment of it: 09:41, 2026-11-27 09:41 or, before its end, -10m")
                .value("moment", ValueKind::Text),
            Flag::long("every", "demand stays the same for so long (1s)").value("time", ValueKind::Time),
            Flag::long("policy", "the policy of poold: millpond (the default), solaris, or none")
                .value("name", ValueKind::Text),
        ],
        permutes: true,
        operands: Operands { shown: "[file]", kinds: &[ValueKind::File] },
        examples: &[
            Example {
                words: "web.xml --recorded day",
                what: "show what would have waited less under the configuration web.xml",
            },
            Example {
                words: "--recorded day --policy none",
                what: "show what poold was worth: the same day with sets that keep their sizes",
            },
        ],
        status: &[("0", "done"), ("1", "the recording or the configuration cannot be used"), MISUSED],
        see_also: &["millpond-replay(1)", "millpond-record(1)", "pooladm(8)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

/// No policy: sets keep their sizes.
const NONE: &str = "none";

/// The predicted results, and the recorded ones.
#[derive(Serialize, JsonSchema)]
struct Told<'t> {
    /// The configuration file; null for the recorded configuration.
    file: Option<&'t str>,
    policy: &'t str,
    /// Steps with constant demand.
    looks: usize,
    elapsed_s: f64,
    pools: Vec<Row<'t>>,
    moved: u64,
    /// Moves if waiting threads go on to want CPUs, and if each has a slice of work.
    would_move: [u64; 2],
    /// Pools that got a part of the demand of a shared set.
    shared: Vec<&'t str>,
    /// Pools with demand whose set began without a CPU: nothing runs there until it gets one.
    empty: Vec<&'t str>,
}

/// A pool; null figures where it did not exist, or would not.
#[derive(Serialize, JsonSchema)]
struct Row<'t> {
    pool: &'t str,
    cpus: Option<f64>,
    /// If waiting threads go on to want CPUs, and if each has a slice of work.
    would_have_cpus: Option<[f64; 2]>,
    waited_s: Option<f64>,
    /// Waits, by the same two assumptions.
    would_wait_s: Option<[f64; 2]>,
    /// The part of the time, 0 to 1, in which its set had free CPUs, so that demand is known.
    known: Option<f64>,
}

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    recordings::alone(&parsed.common, "a recording")?;
    let words = parsed.words();
    let file = match words.as_slice() {
        [] => None,
        [file] => Some(file.as_str()),
        _ => return Err(Failure::Usage("one configuration at a time".into())),
    };
    let Some(path) = parsed.long_value("recorded") else {
        return Err(Failure::Usage("which recording? --recorded names it".into()));
    };
    let name = parsed.long_value("policy").unwrap_or_else(|| POLICIES[0].to_owned());
    if name != NONE && !POLICIES.contains(&name.as_str()) {
        let known = POLICIES.join(", ");
        return Err(Failure::Operand(format!("there is no policy `{name}`; there are {known} and {NONE}")));
    }
    let cannot = |why: &str| Complaint::new(format!("play {path}"), why);
    if !recordings::is_one(Path::new(&path)) && Path::new(&path).exists() {
        return Err(cannot("it is no recording").hint("millpond record makes one").into());
    }
    let conf = file.map(configuration).transpose()?;
    let every = parsed.long_value("every").map_or(Ok(EVERY), |text| interval::seconds(&text))?;
    if every < EVERY {
        return Err(Failure::Operand(
            "--every is a second or more: a recording has no more than that".into(),
        ));
    }
    let at = parsed.long_value("at");
    let mut day = Day::default();
    look_through("play", &path, (at.as_deref(), every), ctx, &mut |machine, decision| {
        day.look(machine, &decision.frame).map_err(|why| cannot(&why).into())
    })?;
    let policy = Some(name.as_str()).filter(|name| *name != NONE);
    let of = |unserved| play(&day, conf.as_ref(), policy, unserved).map_err(|why| cannot(&why));
    let played = [of(Unserved::Lost)?, of(Unserved::Kept)?];
    let told = told(&day, file, &name, &played);
    if parsed.common.json {
        ctx.json(&told);
    } else {
        ctx.out.text(&told.text());
    }
    Ok(Exit::DONE)
}

fn configuration(file: &str) -> Result<millpond_model::pools::PoolsConf, Failure> {
    let opening = format!("couldn't open configuration at '{file}'");
    let text = millpond_session::read_log(Path::new(file)).map_err(|text| {
        let why = if Path::new(file).exists() { Said { text, hint: None } } else { pools::no_file(file) };
        pools::said(&opening, why)
    })?;
    pools::parsed(file, &text).map_err(|why| pools::said(&opening, why))
}

fn told<'t>(day: &'t Day, file: Option<&'t str>, policy: &'t str, played: &'t [Played; 2]) -> Told<'t> {
    let seconds = day.elapsed().as_secs_f64();
    let mut names: Vec<&str> = day.pools().chain(played[0].pools()).collect();
    names.sort_unstable();
    names.dedup();
    let mean = |sum: f64| if seconds > 0.0 { sum / seconds } else { 0.0 };
    let row = |pool| {
        let (was, would) = (day.pool(pool), [played[0].pool(pool), played[1].pool(pool)]);
        Row {
            pool,
            cpus: was.map(|was| mean(was.cpu_seconds)),
            would_have_cpus: would[0].zip(would[1]).map(|(a, b)| [mean(a.cpu_seconds), mean(b.cpu_seconds)]),
            waited_s: was.map(|was| was.waited),
            would_wait_s: would[0].zip(would[1]).map(|(lost, kept)| [lost.waited, kept.waited]),
            known: was.map(|was| mean(was.known)),
        }
    };
    Told {
        file,
        policy,
        looks: day.looks(),
        elapsed_s: seconds,
        pools: names.into_iter().map(row).collect(),
        moved: day.moved(),
        would_move: [played[0].moved, played[1].moved],
        shared: day.shared(),
        empty: played[0].empty.iter().map(String::as_str).collect(),
    }
}

impl Told<'_> {
    fn text(&self) -> String {
        let looks = if self.looks == 1 { "1 look".to_owned() } else { format!("{} looks", self.looks) };
        let conf = self.file.map_or("the recorded configuration".into(), printable);
        let mut text = format!("{looks} in {:.3} s; {conf}, policy {}\n", self.elapsed_s, self.policy);
        let names: Vec<String> = self.pools.iter().map(|row| printable(row.pool).into_owned()).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("POOL".len());
        text += &format!(
            "{:width$} {:>8} {:>14} {:>10} {:>20} {:>7}\n",
            "POOL", "CPUS", "WOULD", "WAITED", "WOULD", "KNOWN"
        );
        let number =
            |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        let range = |ends: Option<[f64; 2]>, digits| ends.map_or("-".to_owned(), |ends| range(ends, digits));
        for (name, row) in names.iter().zip(&self.pools) {
            let (cpus, would_have) = (number(row.cpus, 2), range(row.would_have_cpus, 2));
            let (waited, would_wait) = (number(row.waited_s, 1), range(row.would_wait_s, 1));
            let known = row.known.map_or("-".to_owned(), |known| format!("{:.0} %", 100.0 * known));
            text += &format!(
                "{name:width$} {cpus:>8} {would_have:>14} {waited:>10} {would_wait:>20} {known:>7}\n"
            );
        }
        let [lost, kept] = self.would_move;
        let would =
            if lost == kept { lost.to_string() } else { format!("{}..{}", lost.min(kept), lost.max(kept)) };
        text += &format!("CPUs moved: {}; would be {would}\n", self.moved);
        if !self.empty.is_empty() {
            let empty: Vec<_> = self.empty.iter().map(|name| printable(name)).collect();
            text += &format!(
                "pools whose set began without a CPU, so that nothing could run there: {}\n",
                empty.join(", ")
            );
        }
        if !self.shared.is_empty() {
            let shared: Vec<_> = self.shared.iter().map(|name| printable(name)).collect();
            text +=
                &format!("pools of one set were given the same part of its demand: {}\n", shared.join(", "));
        }
        text
    }
}

/// The range of two values, or one value if both are equal.
fn range([a, b]: [f64; 2], digits: usize) -> String {
    let [least, most] = [a.min(b), a.max(b)].map(|value| format!("{value:.digits$}"));
    if least == most { least } else { format!("{least}..{most}") }
}

#[cfg(test)]
mod tests;
