//! Writes a trace in the JSON Trace Event Format, which Perfetto and browser tools open.
//!
//! Source: the format's public description, "Trace Event Format": phases M (names), C (counters), X (complete slices), i (instants); times in
//! microseconds.

use super::walk::Walk;
use millpond_model::{Nanos, printable};
use millpond_observe::Row;
use millpond_observe::catalogue::{Entity, cpu, decision, latency, pset};
use millpond_session::Output;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The groups of tracks.
const SETS: u32 = 1;
const CPUS: u32 = 2;
const POOLD: u32 = 3;

/// The current set of a CPU, and the start of the stay in it.
type Stay = (String, f64);

pub fn write(walk: &mut Walk<'_>, out: &mut Output<'_>) {
    let mut trace = Trace { out, is_first: true };
    trace.out.line("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (pid, name) in [(SETS, "processor sets"), (CPUS, "CPUs"), (POOLD, "poold")] {
        trace
            .event(&json!({"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}));
    }
    let mut stays: BTreeMap<u32, Stay> = BTreeMap::new();
    let mut told: Option<f64> = None;
    let mut end = 0.0;
    while let Some(interval) = walk.next() {
        if trace.out.is_closed() {
            return;
        }
        let begin = micros(interval.at - interval.elapsed.unwrap_or_default());
        end = micros(interval.at);
        let names = names(interval.frame.rows(Entity::Pset));
        for row in interval.frame.rows(Entity::Pset) {
            let name = label(row.number(pset::ID), &names);
            for (what, field) in [("CPUs used", pset::BUSY), ("threads waiting", pset::WAITED)] {
                trace.counter(SETS, &format!("{name}: {what}"), begin, row.number(field));
            }
        }
        for row in interval.frame.rows(Entity::Latency) {
            let Some(waits) = row.histogram(latency::WAITS) else { continue };
            let name = label(row.number(latency::SET), &names);
            for (what, time) in [("p99", waits.quantile_s(0.99)), ("longest", waits.longest_s())] {
                let wait = format!("{name}: {} wait, {what}, us", row.text(latency::STAGE));
                trace.counter(SETS, &wait, begin, time.map(|time| time * 1e6));
            }
        }
        for row in interval.frame.rows(Entity::Cpu) {
            let Some(id) = row.number(cpu::ID).map(whole) else { continue };
            let used = row.number(cpu::USER).zip(row.number(cpu::SYSTEM)).map(|(user, system)| user + system);
            trace.counter(CPUS, &format!("CPU {id}: use"), begin, used);
            trace.stay(&mut stays, id, label(row.number(cpu::SET), &names), begin);
        }
        for row in interval.frame.rows(Entity::Decision) {
            let at = row.number(decision::AT);
            if at > told && at.is_some_and(|at| at * 1e6 >= begin) {
                trace.decision(row);
                told = at;
            }
        }
    }
    for (id, (set, since)) in stays {
        trace.slice(id, &set, since, end);
    }
    trace.out.line("\n]}");
}

struct Trace<'o, 'b> {
    out: &'o mut Output<'b>,
    is_first: bool,
}

impl Trace<'_, '_> {
    fn event(&mut self, event: &Value) {
        let comma = if self.is_first { "" } else { ",\n" };
        self.is_first = false;
        self.out.text(&format!("{comma}{event}"));
    }

    fn counter(&mut self, pid: u32, name: &str, at: f64, value: Option<f64>) {
        if let Some(value) = value {
            self.event(&json!({"ph": "C", "name": name, "pid": pid, "ts": at, "args": {"value": value}}));
        }
    }

    /// Ends the slice of a CPU whose set has changed, and begins another one.
    fn stay(&mut self, stays: &mut BTreeMap<u32, Stay>, id: u32, set: String, at: f64) {
        match stays.get_mut(&id) {
            None => {
                let name = format!("CPU {id}");
                self.event(&json!({"ph": "M", "name": "thread_name", "pid": CPUS, "tid": id, "args": {"name": name}}));
                let _ = stays.insert(id, (set, at));
            }
            Some((before, since)) if *before != set => {
                let (before, since) = (std::mem::replace(before, set), std::mem::replace(since, at));
                self.slice(id, &before, since, at);
            }
            Some(_) => {}
        }
    }

    fn slice(&mut self, id: u32, set: &str, since: f64, until: f64) {
        let event =
            json!({"ph": "X", "name": set, "pid": CPUS, "tid": id, "ts": since, "dur": until - since});
        self.event(&event);
    }

    fn decision(&mut self, row: &Row) {
        let name = row.text(decision::MOVES);
        let name = if name.is_empty() { "no move".into() } else { name };
        let at = row.number(decision::AT).unwrap_or_default() * 1e6;
        let args = json!({"reason": row.text(decision::REASON), "done": row.text(decision::DONE)});
        let event =
            json!({"ph": "i", "s": "p", "name": name, "pid": POOLD, "tid": 0, "ts": at, "args": args});
        self.event(&event);
    }
}

fn micros(time: Nanos) -> f64 {
    time.as_secs_f64() * 1e6
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "numbers of CPUs and sets")]
fn whole(number: f64) -> u32 {
    number as u32
}

/// The names of the named sets.
fn names(rows: &[Row]) -> BTreeMap<u32, String> {
    let named = rows.iter().filter_map(|row| {
        let name = row.text(pset::NAME);
        let id = row.number(pset::ID).map(whole)?;
        (!name.is_empty()).then(|| (id, printable(&name).into_owned()))
    });
    named.collect()
}

/// The label of a set: `set 3`, `set 3 web`.
fn label(id: Option<f64>, names: &BTreeMap<u32, String>) -> String {
    let Some(id) = id.map(whole) else { return "no set".into() };
    names.get(&id).map_or_else(|| format!("set {id}"), |name| format!("set {id} {name}"))
}
