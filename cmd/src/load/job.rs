//! How a load is described, is started, and reports.

use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use millpond_cli::{Flag, Parsed, Spec};
use millpond_workloads::Error;
use schemars::JsonSchema;
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;

/// One load: its options, and what runs it.
pub(super) struct Load {
    pub(super) spec: Spec,
    pub(super) run: fn(&Parsed, &Job, &mut Ctx<'_>) -> Result<Exit, Failure>,
}

impl Load {
    /// Its name behind `load`.
    pub(super) fn name(&self) -> &'static str {
        self.spec.name.trim_start_matches("load ")
    }
}

/// What happens before the result (`--events`).
#[derive(Serialize, JsonSchema)]
pub(super) struct Event<E> {
    load: &'static str,
    #[serde(flatten)]
    event: E,
}

/// What happens to each load.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Phase {
    /// It is prepared, and begins at the word.
    Ready,
    /// The clock runs.
    Started,
}

/// The last line of a load.
#[derive(Serialize, JsonSchema)]
pub(super) struct Finished<R> {
    load: &'static str,
    result: R,
}

/// Options of every load.
pub(super) const SHARED: &[Flag] = &[
    Flag::long(
        "on-input",
        "prepare at the first line of standard input, begin at the second, end when the input ends",
    ),
    Flag::long("events", "with --json: print events before the result, one object per line"),
];

/// How a load is run and reports.
pub(super) struct Job {
    pub(super) name: &'static str,
    pub(super) json: bool,
    pub(super) events: bool,
    pub(super) stop: &'static AtomicBool,
    /// A message for each line of standard input after the first, where they say when to begin.
    pub(super) lines: Option<Receiver<()>>,
}

/// Waits for the first line of standard input, then follows the others; none when it ended without one. Its end, later,
/// stops the load. No thread is started before the line came: a process that binds this one before then binds all of it.
///
/// # Errors
/// The system's reason why no thread was started.
pub(super) fn follow_input(stop: &'static AtomicBool) -> io::Result<Option<Receiver<()>>> {
    let mut line = String::new();
    let mut next = move || io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0);
    if !next() {
        return Ok(None);
    }
    let (sender, lines) = mpsc::channel();
    let follow = move || {
        while next() {
            // The receiver is gone once the load has begun.
            let _ = sender.send(());
        }
        stop.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("input".to_owned()).spawn(follow)?;
    Ok(Some(lines))
}

impl Job {
    /// Called by a load that is ready: waits for the word to begin, if there will be one.
    pub(super) fn wait_to_begin(&self) {
        if let Some(lines) = &self.lines {
            // An end of input instead has stopped the load, or is about to.
            let _ = lines.recv();
        }
    }

    /// Stops the load when its output is no longer read.
    pub(super) fn mind_reader(&self, ctx: &mut Ctx<'_>) {
        ctx.out.flush();
        if ctx.out.is_closed() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Tells what happens, if that is wanted.
    pub(super) fn event(&self, ctx: &mut Ctx<'_>, event: impl Serialize) {
        if self.events {
            ctx.json(&Event { load: self.name, event });
            self.mind_reader(ctx);
        }
    }

    /// Tells a line or more for people.
    pub(super) fn text(&self, ctx: &mut Ctx<'_>, text: &str) {
        if !self.json {
            ctx.out.text(text);
            self.mind_reader(ctx);
        }
    }

    /// Tells what came of it.
    pub(super) fn result(&self, ctx: &mut Ctx<'_>, text: &str, result: &impl Serialize) {
        self.text(ctx, text);
        if self.json {
            ctx.json(&Finished { load: self.name, result });
        }
    }

    /// What a load says when it cannot run.
    pub(super) fn failed(&self, error: &Error) -> Failure {
        let mut causes = Vec::new();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            causes.push(next.to_string());
            cause = next.source();
        }
        // The error is a whole sentence of its own; without a cause its second half is the reason.
        let text = error.to_string();
        let text = text.strip_prefix("cannot ").unwrap_or(&text);
        let complaint = match (causes.is_empty(), text.split_once(": ")) {
            (false, _) => Complaint::new(text, causes.join(": ")),
            (true, Some((what, why))) => Complaint::new(what, why),
            (true, None) => Complaint::new(format!("run load {}", self.name), text),
        };
        Complaint { hint: error.hint(), ..complaint }.into()
    }
}
