//! Plays a transcript and reports differences.

use crate::machine::Stage;
use crate::schemas;
use crate::script::{Line, parse};
use millpond_cmd::remedy::{Tried, commands, tried};
use millpond_cmd::{COMMANDS, Ctx, run};
use millpond_machine::{Guard, Journal, Knob, KnobError, Knobs, Machine, Step};
use millpond_model::{CpuId, Nanos, Pid, State};
use millpond_session::Output;
use millpond_sim::SimMachine;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

/// The result of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// Number of commands.
    pub commands: usize,
    /// The differences, as text; empty if there are none.
    pub differences: String,
}

/// Plays a transcript. `machines` is the directory of machine files.
///
/// # Errors
/// A sentence if the transcript is invalid.
pub fn play(text: &str, machines: &Path) -> Result<Played, String> {
    let lines = parse(text).map_err(|e| format!("line {}: {}", e.at, e.why))?;
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    let mut theatre = Theatre { machines: machines.to_path_buf(), stage: None, lock: None, scratch };
    let mut played = Played { commands: 0, differences: String::new() };
    for line in lines {
        match line {
            Line::Do { at, words } => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                theatre.perform(&words).map_err(|why| format!("line {at}: {why}"))?;
            }
            Line::Run { at, words, out, err, out_open, err_open, status } => {
                played.commands += 1;
                let mut got = theatre.run(&words);
                if let Some(why) = schemas::breach(&words, &got.out) {
                    let _ = writeln!(played.differences, "line {at}: $ {}: {why}", words.join(" "));
                }
                for why in theatre.refused_remedies(&words, &got) {
                    let _ = writeln!(played.differences, "line {at}: $ {}: {why}", words.join(" "));
                }
                let mut err_got = got.err.clone();
                if err_open {
                    err_got.truncate(err.len());
                }
                if out_open && got.out.len() > out.len() {
                    got.out.truncate(out.len());
                } else if out_open {
                    got.out.push("and no more".to_owned());
                }
                if (&got.out, &err_got, got.status) != (&out, &err, status) {
                    let command = words.join(" ");
                    let _ = writeln!(played.differences, "line {at}: $ {command}");
                    let _ = write!(played.differences, "expected:\n{}", show(&out, &err, status));
                    let _ = write!(played.differences, "got:\n{}", show(&got.out, &got.err, got.status));
                }
            }
        }
    }
    Ok(played)
}

fn show(out: &[String], err: &[String], status: u8) -> String {
    let out = out.iter().map(|l| format!("    {}\n", if l.is_empty() { "|" } else { l }));
    let err = err.iter().map(|l| format!("    ! {l}\n"));
    out.chain(err).chain([format!("    = {status}\n")]).collect()
}

struct Theatre {
    machines: std::path::PathBuf,
    stage: Option<Stage>,
    lock: Option<Box<dyn Guard>>,
    /// The directory for `TMP/`.
    scratch: tempfile::TempDir,
}

/// The prefixes of remedies.
const REMEDIES: [&str; 2] = ["hint: ", "may help: "];

/// The prefix for the transcript's own directory.
const SCRATCH: &str = "TMP/";

struct Got {
    out: Vec<String>,
    err: Vec<String>,
    status: u8,
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
}

impl Theatre {
    fn run(&self, words: &[String]) -> Got {
        let session = self.stage.as_ref().map(Stage::session);
        let words: Vec<OsString> = words.iter().map(|word| self.placed(word).into()).collect();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut ctx = Ctx::new(Output::to(&mut out), Output::to(&mut err));
        if let Some(session) = &session {
            ctx = ctx.with_session(session);
        }
        let status = run(&words, &mut ctx).0;
        drop(ctx);
        let here = format!("{}/", self.scratch.path().display());
        let named = |bytes: &[u8]| lines(bytes).iter().map(|line| line.replace(&here, SCRATCH)).collect();
        Got { out: named(&out), err: named(&err), status }
    }

    /// Remedies in the output of a command that the machine refuses, a sentence each.
    fn refused_remedies(&self, words: &[String], got: &Got) -> Vec<String> {
        let is_about_another =
            |word: &String| ["sim", "--machine", "--state", "--root", "--from"].contains(&word.as_str());
        let Some(stage) = self.stage.as_ref().filter(|_| !words.iter().any(is_about_another)) else {
            return Vec::new();
        };
        let session = stage.session();
        let lines = got.out.iter().chain(&got.err);
        let texts = lines
            .filter_map(|line| REMEDIES.iter().find_map(|mark| line.split_once(mark)).map(|(_, text)| text));
        let refused = |command: Vec<String>| match tried(&session, &command, COMMANDS) {
            Tried::Accepted => None,
            Tried::Refused(why, _) => Some(format!("the remedy `{}` is refused: {why}", command.join(" "))),
        };
        texts.flat_map(|text| commands(text, COMMANDS)).filter_map(refused).collect()
    }

    /// A word with `TMP/` expanded.
    fn placed(&self, word: &str) -> String {
        match word.strip_prefix(SCRATCH) {
            Some(name) => format!("{}/{name}", self.scratch.path().display()),
            None => word.to_owned(),
        }
    }

    fn perform(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["machine", name] => {
                self.set_up(SimMachine::named(name).map_err(|e| e.to_string())?);
                return Ok(());
            }
            ["machine-file", name] => {
                let path = self.machines.join(name);
                let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
                self.set_up(SimMachine::described(&text, name).map_err(|e| e.to_string())?);
                return Ok(());
            }
            ["unlock"] => {
                self.lock = None;
                return Ok(());
            }
            ["file", name, text @ ..] => {
                let text: String = text.iter().map(|line| format!("{line}\n")).collect();
                return std::fs::write(self.placed(name), text.trim_start_matches('\n'))
                    .map_err(|e| e.to_string());
            }
            _ => {}
        }
        let stage = self.stage.as_ref().ok_or("there is no machine yet")?;
        let sim = stage.sim();
        match words {
            ["wait", seconds] => {
                let until = sim.clock().now() + Nanos::from_secs(number(seconds)?);
                sim.clock().sleep_until(until);
            }
            ["fork", lwp] => {
                let (pid, lwp) = lwp.split_once('/').ok_or("fork takes PID/LWP")?;
                let lwp = millpond_model::Lwp { pid: id(pid)?, lwp: id(lwp)? };
                sim.fork(lwp).ok_or("there is no such thread")?;
            }
            ["exit", pid] => {
                if !sim.exit(id(pid)?) {
                    return Err("there is no such process".into());
                }
            }
            ["at", moment, "exit", pid] => {
                let pid: Pid = id(pid)?;
                stage.mischief.exits.replace(Some(((*moment).to_owned(), pid)));
            }
            ["off-line", cpu] => {
                let cpu: CpuId = id(cpu)?;
                sim.edit(|s| match s.tables.processors.get_mut(&cpu) {
                    Some(record) => {
                        record.state = State::OffLine;
                        Ok(())
                    }
                    None => Err("there is no such CPU"),
                })?;
            }
            ["meanwhile", "off-line", cpu] => stage.mischief.goes.set(Some(id(cpu)?)),
            ["counters", percent] => stage.mischief.counts.set(Some(number(percent)?)),
            ["lock"] => self.lock = Some(sim.lock().map_err(|e| e.to_string())?),
            ["journal", state] => stage.mischief.full.set(*state == "full"),
            ["writes", reason] => {
                let refuses = match *reason {
                    "allowed" => None,
                    "not-permitted" => Some(KnobError::NotPermitted),
                    "read-only" => Some(KnobError::ReadOnly),
                    "gone" => Some(KnobError::Gone),
                    _ => return Err(format!("writes are not refused for `{reason}`")),
                };
                stage.mischief.refuses.replace(refuses);
            }
            ["unfinished", rest @ ..] => unfinished(stage, &rest.join(" "))?,
            _ => return Err(format!("nobody knows how to {}", words.join(" "))),
        }
        Ok(())
    }

    fn set_up(&mut self, sim: SimMachine) {
        self.lock = None;
        self.stage = Some(Stage::new(sim));
    }
}

/// Parses `WHAT: KNOB A B`. Values must not contain blanks; an underscore represents one.
fn unfinished(stage: &Stage, text: &str) -> Result<(), String> {
    let (what, step) = text.split_once(": ").ok_or("unfinished takes WHAT: KNOB A B")?;
    let [knob, before, after] = step.split(' ').collect::<Vec<_>>()[..] else {
        return Err("unfinished takes WHAT: KNOB A B".into());
    };
    let value = |text: &str| (text != "-").then(|| text.replace('_', " "));
    let step = Step::new(Knob(knob.to_owned()), value(before), value(after));
    let journal: &dyn Journal = stage.journal();
    journal.begin(what, &stage.boot_id(), std::slice::from_ref(&step)).map_err(|e| e.to_string())?;
    stage.write(&step.knob, step.after.as_ref()).map_err(|e| e.to_string())
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn id<T: std::str::FromStr>(text: &str) -> Result<T, String>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|e: T::Err| e.to_string())
}
