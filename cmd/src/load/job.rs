//! Common code of loads: description, start and report.

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

/// A load: its options, and the function that runs it.
pub(super) struct Load {
    pub(super) spec: Spec,
    pub(super) run: fn(&Parsed, &Job, &mut Ctx<'_>) -> Result<Exit, Failure>,
}

impl Load {
    /// The name after `load`.
    pub(super) fn name(&self) -> &'static str {
        self.spec.name.trim_start_matches("load ")
    }
}

/// An event before the result (`--events`).
#[derive(Serialize, JsonSchema)]
pub(super) struct Event<E> {
    load: &'static str,
    #[serde(flatten)]
    event: E,
}

/// A phase of every load.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Phase {
    /// It is prepared, and waits for the start line.
    Ready,
    /// The measured time has begun.
    Started,
}

/// The last line of a load.
#[derive(Serialize, JsonSchema)]
pub(super) struct Finished<R> {
    load: &'static str,
    result: R,
}

/// The options of every load.
pub(super) const SHARED: &[Flag] = &[
    Flag::long(
        "on-input",
        "prepare at the first line of standard input, begin at the second, end when the input ends",
    ),
    Flag::long("events", "with --json: print events before the result, one object per line"),
];

/// The settings and channels of a running load.
pub(super) struct Job {
    pub(super) name: &'static str,
    pub(super) json: bool,
    pub(super) events: bool,
    pub(super) stop: &'static AtomicBool,
    /// A message for each line of standard input after the first one, if input controls the start.
    pub(super) lines: Option<Receiver<()>>,
}

/// Waits for the first line of standard input, then reads the others in a thread. `None` if the input ends without a
/// line. A later end of the input stops the load. No thread starts before the first line, so a process that binds
/// this one before then binds all of its threads.
///
/// # Errors
/// The system error if the thread cannot be started.
pub(super) fn follow_input(stop: &'static AtomicBool) -> io::Result<Option<Receiver<()>>> {
    let mut line = String::new();
    let mut next = move || io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0);
    if !next() {
        return Ok(None);
    }
    let (sender, lines) = mpsc::channel();
    let follow = move || {
        while next() {
            // The receiver no longer exists when the load has started.
            let _ = sender.send(());
        }
        stop.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("input".to_owned()).spawn(follow)?;
    Ok(Some(lines))
}

impl Job {
    /// Called by a load that is ready. Waits for the line that starts it, if input controls the start.
    pub(super) fn wait_to_begin(&self) {
        if let Some(lines) = &self.lines {
            // At the end of the input instead, the reader has stopped the load or is about to.
            let _ = lines.recv();
        }
    }

    /// Stops the load when its output is closed.
    pub(super) fn mind_reader(&self, ctx: &mut Ctx<'_>) {
        ctx.out.flush();
        if ctx.out.is_closed() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Prints an event, if events are requested.
    pub(super) fn event(&self, ctx: &mut Ctx<'_>, event: impl Serialize) {
        if self.events {
            ctx.json(&Event { load: self.name, event });
            self.mind_reader(ctx);
        }
    }

    /// Prints text for people.
    pub(super) fn text(&self, ctx: &mut Ctx<'_>, text: &str) {
        if !self.json {
            ctx.out.text(text);
            self.mind_reader(ctx);
        }
    }

    /// Prints the result.
    pub(super) fn result(&self, ctx: &mut Ctx<'_>, text: &str, result: &impl Serialize) {
        self.text(ctx, text);
        if self.json {
            ctx.json(&Finished { load: self.name, result });
        }
    }

    /// The failure of a load that cannot run.
    pub(super) fn failed(&self, error: &Error) -> Failure {
        let mut causes = Vec::new();
        let mut cause = std::error::Error::source(error);
        while let Some(next) = cause {
            causes.push(next.to_string());
            cause = next.source();
        }
        // The error is a whole sentence. Without a cause, its second half is the reason.
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
