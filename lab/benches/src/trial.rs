//! What all goals have in common: the programs they start, the clocks they read, and what can go wrong.

use crate::line::{Goal, Line};
use millpond_model::Nanos;
use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The cgroup v2 mount of a guest, which is ours alone.
pub const CGROUP: &str = "/sys/fs/cgroup";

/// Why a goal could not be measured.
pub type Trouble = String;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The binary under test.
    pub millpond: PathBuf,
    /// This program, for guests.
    pub own: PathBuf,
    /// How many pairs.
    pub pairs: usize,
    /// A directory that goes away.
    pub scratch: PathBuf,
    /// The kernel of virtual machines, where a group has several and one is wanted.
    pub kernel: Option<String>,
    /// The directory for pictures, where they are wanted.
    pub pictures: Option<PathBuf>,
}

impl Bench {
    /// Writes a picture as `NAME.svg` where pictures are wanted. What goes wrong becomes a line.
    pub fn draw(&self, name: &str, picture: impl FnOnce() -> String, lines: &mut Vec<Line>) {
        let Some(path) = self.pictures.as_ref().map(|dir| dir.join(format!("{name}.svg"))) else { return };
        if let Err(why) = told(&format!("write {}", path.display()), fs::write(&path, picture())) {
            lines.push(Line::unresolvable(&format!("the picture {name}"), "-", Goal::None, why));
        }
    }

    /// A command of ours, with a state directory of its own and nothing to read.
    #[must_use]
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.millpond);
        command.args(words).env("MILLPOND_STATE", self.scratch.join("state")).stdin(Stdio::null());
        command
    }
}

/// Milliseconds since then.
#[must_use]
pub fn ms(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}

/// Whether an operation worked, in words.
///
/// # Errors
/// Its name with the reason.
pub fn told<T, E: Display>(what: &str, result: Result<T, E>) -> Result<T, Trouble> {
    result.map_err(|error| format!("cannot {what}: {error}"))
}

/// The program of that name on the search path.
///
/// # Errors
/// That there is none.
pub fn find_program(name: &str) -> Result<PathBuf, Trouble> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| format!("there is no {name} here"))
}

/// Runs a command to its end with its output thrown away, and tells the milliseconds from before it was started.
///
/// # Errors
/// It could not be started, or failed: with the first line that it complained.
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

/// A program that runs beside us, and is gone when this is dropped.
pub struct Beside {
    child: Child,
    /// The program, where `child` only holds its terminal.
    pid: u32,
}

/// The terminal of a program that wants one.
const SIZE: &str = "stty rows 50 cols 160";

impl Beside {
    /// Starts it, with its output thrown away.
    ///
    /// # Errors
    /// It could not be started.
    pub fn start(command: &mut Command) -> Result<Beside, Trouble> {
        let name = command.get_program().to_string_lossy().into_owned();
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        told(&format!("start {name}"), quiet.spawn()).map(|child| Beside { pid: child.id(), child })
    }

    /// Starts it on a terminal of 160 columns and 50 lines, made by script(1), with what it draws thrown away. `words` are for a shell.
    ///
    /// # Errors
    /// It could not be started, or is gone at once.
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

    /// The CPU time that it has used, all threads together.
    ///
    /// # Errors
    /// It is gone.
    pub fn cpu_time(&self) -> Result<Nanos, Trouble> {
        cpu_time_of(self.pid())
    }
}

/// What the threads of a process have used, all together.
///
/// # Errors
/// It is gone.
pub fn cpu_time_of(pid: u32) -> Result<Nanos, Trouble> {
    // The kernel keeps this number exactly, where `/proc/PID/stat` has ticks. Of threads that ended it knows none.
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
