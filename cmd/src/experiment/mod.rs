//! Runs a published experiment on this machine, and prints what we get beside what was published.
//!
//! # E1: processor sets and interrupts
//!
//! A two-way stream runs three times with mpstat beside it: with no set; outside a set of the first half of the
//! processors that is sheltered from interrupts; and inside it. Published was a machine of 32 processors with one
//! gigabit link (2006).
//!
//! On a machine that is not the experiment's own, interrupts stay where they are: the set pushes nobody out, and what
//! `psrset -f` would do is shown and not done. `--full` says that the machine is the experiment's own, and so does
//! `--nics`, since it takes network devices away from the system for the time of the run. Everything is put
//! back, also after an interrupt.
//!
//! # Options
//!
//! ```text
//! --seconds N    how long each phase is measured (10)
//! --nics A,B     stream between these two network devices, which must be joined outside; without it, over the loopback
//! --full         this machine is the experiment's own: make the set exclusive, and move interrupts
//! --svg          draw the stream's speed in each phase, in place of the text
//! ```
//!
//! With `--machine vm` you are told the command that boots a virtual machine with two network devices and runs it there.
//!
//! # JSON
//!
//! ```text
//! {"machine":{...},"set":"0-3","full":true,
//!  "phases":[{"sentence":"…","stream":{"out_flow":{"bytes":…,"seconds":…},...},
//!             "figures":{"out_mbits":812.0,"network":{"cpu":4,"intr":…,"ithr":…},"set":{"idl_least":99.9},...},
//!             "mpstat":"…","causes":[{"name":"eth0-rx","is_internal":false,"rate":0.0,"elsewhere":650.0}],
//!             "left_out":[]}],
//!  "published":[{"out_mbits":540.0,...}],"claims":{"in phase 3 it runs inside":true},
//!  "afterwards":{"same_states":true,"renewed":"0-3"}}
//! ```
//!
//! # Status
//!
//! 0, or 1 when it could not be done or was interrupted, or 2 for what makes no sense. That a figure is not as
//! published is no failure.

use crate::args::{self, Parsed};
use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure};
use crate::{demo, help};
use millpond_experiments::e1::{self, Event, Options, Published};
use millpond_session::{own_program, stop_on_signal};
use std::sync::atomic::Ordering;

pub(crate) const COMMAND: Command = Command {
    name: "experiment",
    applet: false,
    summary: "run a published experiment here, and compare",
    usage: &["e1 [--seconds N] [--nics A,B] [--full] [--svg]"],
    letters: "",
    longs: &[],
    source: include_str!("mod.rs"),
    run,
};

const LONGS: [&str; 4] = ["seconds:", "nics:", "full", "svg"];

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let Some((name, rest)) = parsed.operands.split_first() else {
        return Err(Failure::Usage("which experiment? known is e1".into()));
    };
    if name != "e1" {
        return Err(Failure::Usage(format!(
            "there is no experiment `{}`: known is e1",
            name.to_string_lossy()
        )));
    }
    let given = args::parse("", &LONGS, rest)?;
    if given.common.help {
        ctx.out.text(&help::manual(&COMMAND));
        return Ok(Exit::DONE);
    }
    if let Some(extra) = given.words().first() {
        return Err(Failure::Usage(format!("experiment e1 takes no operand, and was given `{extra}`")));
    }
    // Common options may stand on either side of the name.
    let mut common = given.common.clone();
    common.machine = common.machine.or_else(|| parsed.common.machine.clone());
    common.root = common.root.or_else(|| parsed.common.root.clone());
    common.json |= parsed.common.json;
    if common.dry_run || parsed.common.dry_run {
        return Err(Failure::Usage(
            "an experiment changes nothing that it does not put back: it has no --dry-run".into(),
        ));
    }
    if common.machine.as_deref() == Some("vm") {
        let complaint = Complaint::new(
            "run experiment e1 on machine vm",
            "virtual machines are booted from the source tree",
        );
        return Err(complaint
            .hint("there: cargo run --release -p millpond-vm --example e1 -- --seconds 10")
            .into());
    }
    let nics = given.long_value("nics");
    let nics = nics.as_deref().map(pair).transpose()?;
    let seconds = seconds(&given)?;
    let svg = given.long("svg");
    if common.json && svg {
        return Err(Failure::Usage("options --json and --svg are mutually exclusive".into()));
    }
    let session = ctx.changing(&common)?;
    let program = own_program().map_err(|why| Complaint::new("run experiment e1", why))?;
    let stop = stop_on_signal();
    let options =
        Options { program: &program, stop, seconds, nics, full: given.long("full") || nics.is_some() };
    let published = Published::read();
    let text = !common.json && !svg;
    let result = e1::run(&session, &options, &mut |event| {
        tell(event, text, &published, ctx);
        if ctx.out.is_closed() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let e1 = match result {
        // Nobody reads any more, which is no failure of ours.
        Err(millpond_experiments::Failure::Stopped) if ctx.out.is_closed() => return Ok(Exit::DONE),
        result => result.map_err(|failure| demo::failed("run experiment e1", failure))?,
    };
    if common.json {
        ctx.json(&e1.json(&published));
    } else if svg {
        ctx.out.text(&e1.svg());
    } else {
        ctx.out.text(&e1.summary(&published));
    }
    Ok(Exit::DONE)
}

/// `eth0,eth1`
fn pair(text: &str) -> Result<[&str; 2], Failure> {
    match text.split_once(',') {
        Some((near, far)) if !near.is_empty() && !far.is_empty() && near != far && !far.contains(',') => {
            Ok([near, far])
        }
        _ => Err(Failure::Operand(format!("cannot use --nics {text}: it is not of the form eth0,eth1"))),
    }
}

fn seconds(given: &Parsed) -> Result<u64, Failure> {
    let Some(text) = given.long_value("seconds") else { return Ok(10) };
    match text.parse::<u64>() {
        Ok(seconds) if (1..=3600).contains(&seconds) => Ok(seconds),
        _ => Err(Failure::Operand(format!("cannot use --seconds {text}: it is not within 1 and 3600"))),
    }
}

/// Tells people as it goes: on standard output where the text is what was asked for, else on standard error.
fn tell(event: Event<'_>, text: bool, published: &Published, ctx: &mut Ctx<'_>) {
    let told = match event {
        Event::Machine(facts, set) => format!("machine: {}\nthe set: processors {set}\n\n", facts.text()),
        Event::Begin(sentence) => format!("{sentence}\n"),
        Event::Done(number, phase) => {
            let figures = published.phases.get(number).cloned().unwrap_or_default();
            phase.text(&figures) + "\n"
        }
        Event::Note(note) => return ctx.warn(note),
    };
    if text {
        ctx.out.text(&told);
        ctx.out.flush();
    } else if !matches!(event, Event::Done(..)) {
        ctx.err.text(&told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use millpond_session::Output;
    use std::ffi::OsString;

    fn refused(words: &str) -> (Exit, String) {
        let words = ["millpond", "experiment"].into_iter().chain(words.split_whitespace());
        let words: Vec<OsString> = words.map(OsString::from).collect();
        let mut err = Vec::new();
        let exit = run(&words, &mut Ctx::new(Output::to(std::io::sink()), Output::to(&mut err)));
        (exit, String::from_utf8(err).unwrap().lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn what_makes_no_sense_is_refused_before_anything_runs() {
        for (words, why) in [
            ("", "which experiment? known is e1"),
            ("e9", "there is no experiment `e9`: known is e1"),
            ("e1 now", "experiment e1 takes no operand, and was given `now`"),
            ("e1 --seconds 0", "cannot use --seconds 0: it is not within 1 and 3600"),
            ("e1 --nics eth0", "cannot use --nics eth0: it is not of the form eth0,eth1"),
            ("e1 --nics eth0,eth0", "cannot use --nics eth0,eth0: it is not of the form eth0,eth1"),
        ] {
            assert_eq!(refused(words), (Exit::USAGE, format!("millpond experiment: {why}")), "{words}");
        }
    }

    #[test]
    fn a_machine_without_programs_of_ours_is_refused() {
        let (exit, why) = refused("e1 --machine vm");
        assert_eq!(exit, Exit::REFUSED);
        assert_eq!(
            why,
            "millpond experiment: cannot run experiment e1 on machine vm: virtual machines are booted from the source tree"
        );
    }
}
