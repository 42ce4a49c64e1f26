//! A report as JSON.

use super::options::Microstates;
use super::report::{Reports, Shown, figures};
use millpond_formats::{print_iso, prstat as listing};
use millpond_model::{MICROSTATES, Pid};
use millpond_observe::Picture;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

impl Reports<'_> {
    /// A report: the same lines as the tables have, in the same order.
    pub fn json(&self, picture: &Picture, members: Option<&BTreeSet<Pid>>) -> Value {
        let lines = self.lines(picture, members);
        let mut report = Map::new();
        report.insert("time".into(), json!(print_iso(picture.roster.wall)));
        report.insert("interval_s".into(), json!(picture.elapsed.map(|e| rounded(e.as_secs_f64()))));
        if self.options.processes {
            let noun = if self.options.threads { "threads" } else { "processes" };
            let shown: Vec<Value> =
                lines.iter().take(self.options.lines.0).map(|line| self.line_json(line)).collect();
            report.insert(noun.into(), json!(shown));
        }
        if let Some(grouping) = self.options.grouping {
            let row = |row: &listing::GroupRow| {
                let mut value = json!({
                    "id": row.id, "name": row.name, "processes": row.processes, "size_kib": row.size,
                    "rss_kib": row.rss, "memory_pct": row.memory.map(rounded), "time_s": row.seconds,
                    "cpu_pct": rounded(row.cpu),
                });
                if let Some((shares, cap)) = row.controls {
                    (value["shares"], value["cap_pct"]) = (json!(shares), json!(cap));
                }
                value
            };
            let groups: Vec<Value> = self.groups(&lines, grouping, picture).iter().map(row).collect();
            report.insert("groups".into(), json!(groups));
        }
        report.insert("load".into(), json!(picture.roster.load));
        report.insert("missing".into(), json!(picture.roster.missing));
        Value::Object(report)
    }

    fn line_json(&self, shown: &Shown<'_>) -> Value {
        let (process, standing) = (shown.process, shown.standing());
        let mut line = Map::new();
        let mut put = |key: &str, value: Value| line.insert(key.to_owned(), value);
        put("pid", json!(process.pid));
        match shown.thread {
            Some(thread) => {
                put("lwp", json!(thread.lwp.lwp));
                put("thread", json!(thread.name));
            }
            None => {
                put("lwps", json!(process.threads));
            }
        }
        put("name", json!(process.name));
        put("user", json!(self.user(process.euid)));
        put("size_kib", json!(process.size));
        put("rss_kib", json!(process.rss));
        put("state", json!(listing::state(standing.doing).trim_end()));
        put("class", json!(standing.class.word()));
        put("pri", json!(standing.priority));
        put("nice", json!(standing.nice));
        put("cpu", json!(standing.cpu));
        put("lgrp", json!(standing.home));
        put("set", json!(standing.set));
        put("zone", json!(process.zone.name));
        put("task", json!(process.task));
        put("project", json!(process.project.name));
        put("time_s", json!(rounded(shown.time().as_secs_f64())));
        put("cpu_pct", json!(rounded(shown.cpu)));
        if let Some(depth) = self.options.microstates {
            let (parts, counts) = figures(shown.spent, depth);
            for (state, part) in MICROSTATES.iter().zip(parts) {
                put(&state.word().to_lowercase(), json!(part.map(rounded)));
            }
            for (word, count) in ["vcx", "icx", "scl", "sig"].iter().zip(counts) {
                put(word, json!(count));
            }
            if depth == Microstates::All {
                put("stopped_s", json!(rounded(shown.spent.stopped.as_secs_f64())));
            }
        }
        Value::Object(line)
    }
}

/// Three decimals are more than the figures are good for.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
