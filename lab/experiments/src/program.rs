//! A load in a process of its own, which initializes, begins and ends on command.
//!
//! Commands are lines to its standard input: initialize, begin; the end of the input ends the load. Its reports are JSON
//! objects on its standard output, one per line. See `millpond load --on-input --events`.

use crate::Failure;
use millpond_model::Pid;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Polling interval of the stop flag while waiting for a program.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Timeout for a program's end, in polling intervals: on a machine where it hardly runs, an iteration takes
/// seconds.
const LOOKS_MAX: u32 = 600;

/// A running load.
pub(crate) struct Program {
    /// Its name in messages.
    pub name: String,
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Option<thread::JoinHandle<String>>,
}

impl Program {
    /// Starts `program load WORDS`, which then waits for the first command: single-threaded, so that it can be bound.
    pub fn start(name: &str, program: &Path, words: &[&str]) -> Result<Program, Failure> {
        let mut command = Command::new(program);
        command.arg("load").args(words).args(["--json", "--events", "--on-input"]);
        Program::spawn(name, &mut command)
    }

    fn spawn(name: &str, command: &mut Command) -> Result<Program, Failure> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.map_err(|error| failed(name, &millpond_session::reason(&error)))?;
        let (sender, lines) = mpsc::channel();
        let (input, output, error) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on, dropping it ends the child.
        let mut program = Program { name: name.to_owned(), child, input, lines, complaints: None };
        let no_thread = |error: io::Error| {
            let why = millpond_session::reason(&error);
            failed(name, &format!("no thread can be started that reads its output: {why}"))
        };
        if let Some(output) = output {
            let read = move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            };
            thread::Builder::new().name("events".to_owned()).spawn(read).map_err(no_thread)?;
        }
        if let Some(mut pipe) = error {
            let read = move || {
                let mut text = String::new();
                let _ = pipe.read_to_string(&mut text);
                text
            };
            let started = thread::Builder::new().name("complaints".to_owned()).spawn(read);
            program.complaints = Some(started.map_err(no_thread)?);
        }
        Ok(program)
    }

    /// Its pid.
    pub fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    /// Sends the next command: initialize, or begin.
    pub fn go(&mut self) -> Result<(), Failure> {
        let written = self.input.as_mut().map(|input| input.write_all(b"go\n").and_then(|()| input.flush()));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.ended_early()),
        }
    }

    /// Waits until it reports `event`.
    pub fn wait_for(&mut self, event: &str, stop: &AtomicBool) -> Result<Value, Failure> {
        self.wait_until(stop, |value| value["event"] == event)
    }

    /// Its reports since the last call, without waiting.
    pub fn told(&mut self) -> impl Iterator<Item = Value> {
        self.lines.try_iter().filter_map(|line| serde_json::from_str(&line).ok())
    }

    /// Ends it, by closing its input.
    pub fn finish(&mut self) {
        self.input = None;
    }

    /// Waits for its result.
    pub fn result(&mut self, stop: &AtomicBool) -> Result<Value, Failure> {
        let mut value = self.wait_until(stop, |value| value.get("result").is_some())?;
        Ok(value["result"].take())
    }

    fn wait_until(&mut self, stop: &AtomicBool, is_it: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
        let mut looks = 0;
        loop {
            match self.lines.recv_timeout(LOOK_EVERY) {
                Ok(line) => match serde_json::from_str::<Value>(&line) {
                    Ok(value) if is_it(&value) => return Ok(value),
                    Ok(_) => {}
                    Err(_) => return Err(failed(&self.name, &format!("it said `{line}`"))),
                },
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended_early()),
                Err(RecvTimeoutError::Timeout) => looks += 1,
            }
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
            if looks >= LOOKS_MAX {
                return Err(failed(&self.name, "it does not answer"));
            }
        }
    }

    /// The reason why it ended early, from its own error output.
    fn ended_early(&mut self) -> Failure {
        let _ = self.child.kill();
        let status = self.child.wait().map(|status| status.to_string()).unwrap_or_default();
        let said = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        match said.lines().next() {
            Some(line) => failed(&self.name, line),
            None => failed(&self.name, &format!("it ended early ({status})")),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn failed(program: &str, why: &str) -> Failure {
    Failure::Program { program: program.to_owned(), why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fake load: a shell script that follows the same protocol.
    fn start(script: &str) -> Program {
        Program::spawn("a", Command::new("sh").args(["-c", script])).unwrap()
    }

    static NEVER: AtomicBool = AtomicBool::new(false);
    static ASKED: AtomicBool = AtomicBool::new(true);

    #[test]
    fn a_program_gets_ready_begins_and_ends_when_it_is_told() {
        let script = r#"read go; echo '{"event":"ready"}'; read go; echo '{"event":"started"}'
            read end; echo '{"load":"cg","result":{"mops_total":7.5}}'"#;
        let mut program = start(script);
        program.go().unwrap();
        program.wait_for("ready", &NEVER).unwrap();
        program.go().unwrap();
        program.wait_for("started", &NEVER).unwrap();
        program.finish();
        assert_eq!(program.result(&NEVER).unwrap()["mops_total"], 7.5);
    }

    #[test]
    fn a_program_that_ends_early_says_why() {
        let mut program = start("echo 'millpond load: cannot start thread 1 of 2: no' >&2; exit 1");
        let failure = program.wait_for("ready", &NEVER).unwrap_err();
        assert_eq!(failure.to_string(), "cannot run a: millpond load: cannot start thread 1 of 2: no");
        let mut program = start("exit 3");
        let failure = program.result(&NEVER).unwrap_err();
        assert_eq!(failure.to_string(), "cannot run a: it ended early (exit status: 3)");
    }

    #[test]
    fn who_waits_can_be_stopped() {
        let mut program = start("read end");
        assert!(matches!(program.wait_for("ready", &ASKED), Err(Failure::Stopped)));
    }

    #[test]
    fn what_is_no_json_is_told() {
        let mut program = start("echo hello; read end");
        assert_eq!(program.result(&NEVER).unwrap_err().to_string(), "cannot run a: it said `hello`");
    }
}
