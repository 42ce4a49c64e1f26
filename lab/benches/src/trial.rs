//! Common parts of all goals: starting programs, reading clocks, and errors.

use crate::line::{Goal, Line};
use millpond_model::Nanos;
use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The cgroup v2 mount of a guest, which no other program uses.
pub const CGROUP: &str = "/sys/fs/cgroup";

/// The reason why a goal could not be measured.
pub type Trouble = String;

/// The options of the run.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The binary under test.
    pub millpond: PathBuf,
    /// This program, for guests.
    pub own: PathBuf,
    /// Number of pairs.
    pub pairs: usize,
    /// A temporary directory.
    pub scratch: PathBuf,
    /// The kernel of virtual machines, to select one of a group's.
    pub kernel: Option<String>,
    /// The directory for pictures, if requested.
    pub pictures: Option<PathBuf>,
}

impl Bench {
    /// Writes a picture as `NAME.svg`, if pictures are requested. An error becomes a line.
    pub fn draw(&self, name: &str, picture: impl FnOnce() -> String, lines: &mut Vec<Line>) {
        let Some(path) = self.pictures.as_ref().map(|dir| dir.join(format!("{name}.svg"))) else { return };
        if let Err(why) = told(&format!("write {}", path.display()), fs::write(&path, picture())) {
            lines.push(Line::unresolvable(&format!("the picture {name}"), "-", Goal::None, why));
        }
    }

    /// A Millpond command, with a state directory of its own and empty input.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.millpond);
        command.args(words).env("MILLPOND_STATE", self.scratch.join("state")).stdin(Stdio::null());
        command
    }
}

/// Milliseconds since a time.
#[must_use]
pub fn ms(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

/// Adds the operation's name to an error.
///
/// # Errors
/// The name with the reason.
pub fn told<T, E: Display>(what: &str, result: Result<T, E>) -> Result<T, Trouble> {
    result.map_err(|error| format!("cannot {what}: {error}"))
}

/// A program on the search path.
///
/// # Errors
/// The program does not exist.
pub fn find_program(name: &str) -> Result<PathBuf, Trouble> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("there is no {name} here"))
}

/// Runs a command to its end, discards its output, and returns the milliseconds since before its start.
///
/// # Errors
/// The command could not be started, or failed: with the first line of its error output.
pub fn run_ms(command: &mut Command) -> Result<f64, Trouble> {
    let name = command.get_program().to_string_lossy().into_owned();
    let begin = Instant::now();
    let mut child =
        told(&format!("start {name}"), command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn())?;
    let status = told(&format!("wait for {name}"), child.wait())?;
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    if status.success() {
        return Ok(ms);
    }
    let mut said = String::new();
    if let Some(pipe) = &mut child.stderr {
        let _ = pipe.read_to_string(&mut said);
    }
    Err(format!("{name} failed ({status}): {}", said.lines().next().unwrap_or("it said nothing")))
}

/// A program that runs in parallel, and is killed when this is dropped.
pub struct Beside {
    child: Child,
    /// The program's pid, where `child` only holds its terminal.
    pid: u32,
}

/// The terminal size of a program that needs a terminal.
const SIZE: &str = "stty rows 50 cols 160";

impl Beside {
    /// Starts the program, and discards its output.
    ///
    /// # Errors
    /// The program could not be started.
    pub fn start(command: &mut Command) -> Result<Beside, Trouble> {
        let name = command.get_program().to_string_lossy().into_owned();
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        told(&format!("start {name}"), quiet.spawn()).map(|child| Beside { pid: child.id(), child })
    }

    /// Starts the program on a terminal of 160 columns and 50 lines, created by script(1), and discards its output. `words` are a shell command.
    ///
    /// # Errors
    /// The program could not be started, or ended at once.
    pub fn on_terminal(words: &str) -> Result<Beside, Trouble> {
        let line = format!("{SIZE}; exec {words}");
        let mut script = Command::new(find_program("script")?);
        let mut holder =
            Beside::start(script.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm-256color"))?;
        sleep(Duration::from_millis(500));
        let path = format!("/proc/{pid}/task/{pid}/children", pid = holder.pid);
        let children = told("read the children of script", fs::read_to_string(path))?;
        let pid = children.split_ascii_whitespace().next().and_then(|pid| pid.parse().ok());
        holder.pid = pid.ok_or_else(|| format!("{words} ended at once"))?;
        Ok(holder)
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Its CPU time, all threads together.
    ///
    /// # Errors
    /// The program has ended.
    pub fn cpu_time(&self) -> Result<Nanos, Trouble> {
        cpu_time_of(self.pid())
    }
}

/// CPU time of all threads of a process.
///
/// # Errors
/// The process has ended.
pub fn cpu_time_of(pid: u32) -> Result<Nanos, Trouble> {
    // This file is exact, while `/proc/PID/stat` has ticks. It excludes threads that have ended.
    let mut total = 0_u64;
    let tasks = told("read its threads", fs::read_dir(format!("/proc/{pid}/task")))?;
    for task in tasks.flatten() {
        let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        total += text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    if total == 0 { Err(format!("process {pid} is gone")) } else { Ok(Nanos(total)) }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compiles the bare peer, statically.
///
/// # Errors
/// There is no compiler, or no static C library.
pub fn build_bare(scratch: &Path) -> Result<PathBuf, Trouble> {
    let (source, program) = (scratch.join("bare.c"), scratch.join("bare"));
    told("write the bare peer", fs::write(&source, include_str!("../peer/bare.c")))?;
    run_ms(Command::new("cc").args(["-O2", "-static", "-o"]).arg(&program).arg(&source))?;
    Ok(program)
}
