//! A build: compilers that come and go, each reading a source file and writing an object file.
//!
//! # Theory
//!
//! The load of a build differs from computing: processes are forked and executed, files are created, read, written and removed, and memory is
//! touched for the first time, several times a second. Each job writes its own source file, compiles it, checks for an object file, and repeats.
//! Without a C compiler, a shell sorts the same source: that also executes two processes and two programs per file, but computes less.

use crate::Error;
use crate::clock::{STOP_POLL, SetOnDrop, supervise};
use crate::cpus::allowed_cpu_count;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Functions per source file: a compiler takes about a tenth of a second for them.
const FUNCTIONS: u32 = 60;
/// Maximum number of existing directories to skip.
const ATTEMPTS: u32 = 16;
/// The command without a compiler.
const SORTS: &str = "sort \"$1\" | uniq -c >\"$2\"";

/// The parameters of a build.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildSpec {
    /// Files compiled in parallel; by default the number of CPUs that the calling thread may use.
    pub jobs: Option<NonZeroU32>,
    /// Run time; by default until stopped.
    pub duration: Option<Duration>,
    /// The compiler; by default `cc`, if it is on the search path.
    pub compiler: Option<PathBuf>,
}

/// An event during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum BuildEvent {
    /// All jobs have been started.
    Started {
        /// The number of jobs.
        jobs: u32,
    },
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BuildResult {
    /// Files compiled at a time.
    pub jobs: u32,
    /// Compiled files.
    pub files: u64,
    /// The program that compiled them: the compiler, or `sh`.
    pub compiler: String,
    /// From the start of the first job to the end of the last one.
    pub seconds: f64,
    /// Whether the stop flag ended it.
    pub stopped: bool,
}

impl BuildResult {
    /// The report: `37 files in 5.012 s by cc, 2 at once: 7.4 a second`
    pub fn report(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
        let rate = if self.seconds > 0.0 { self.files as f64 / self.seconds } else { 0.0 };
        let BuildResult { jobs, files, compiler, seconds, .. } = self;
        format!("{files} files in {seconds:.3} s by {compiler}, {jobs} at once: {rate:.1} a second\n")
    }
}

/// Runs the build.
///
/// # Errors
///
/// [`Error::BuildFile`], [`Error::StartCompiler`], [`Error::CompilerFailed`]. In every case all processes and files are removed.
pub fn run(
    spec: &BuildSpec,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(BuildEvent),
) -> Result<BuildResult, Error> {
    let jobs = match spec.jobs {
        Some(jobs) => jobs.get(),
        None => u32::try_from(allowed_cpu_count()?).unwrap_or(u32::MAX),
    };
    let compiler = spec.compiler.clone().or_else(|| on_path("cc"));
    let dir = Scratch::make()?;
    let (is_over, files) = (AtomicBool::new(false), AtomicU64::new(0));
    let started = Instant::now();
    let (stopped, outcomes) = thread::scope(|scope| {
        let over = SetOnDrop(&is_over);
        let (alive, ended) = channel::<()>();
        let job = |number: u32| {
            let (alive, compiler, dir) = (alive.clone(), compiler.as_deref(), &dir.0);
            let (is_over, files) = (&is_over, &files);
            let work = move || {
                let outcome = compile_on(number, compiler, dir, is_over, files);
                // An error of one job ends the others.
                if outcome.is_err() {
                    is_over.store(true, Ordering::Relaxed);
                }
                drop(alive);
                outcome
            };
            let started = thread::Builder::new().name(format!("build-{number}")).spawn_scoped(scope, work);
            started.map_err(|source| Error::StartThread { index: number, of: jobs, source })
        };
        // If a job cannot be started, the others are stopped.
        let crew = (0..jobs).map(job).collect::<Result<Vec<_>, Error>>()?;
        drop(alive);
        on_event(BuildEvent::Started { jobs });
        let mut look = |seconds: f64| {
            if spec.duration.is_some_and(|duration| seconds >= duration.as_secs_f64()) {
                is_over.store(true, Ordering::Relaxed);
            }
        };
        let every = spec.duration.map(|duration| duration.min(STOP_POLL));
        let stopped = supervise(&ended, started, every, stop, &is_over, &mut look);
        drop(over);
        let outcomes: Vec<_> = crew.into_iter().filter_map(|job| job.join().ok()).collect();
        Ok::<_, Error>((stopped, outcomes))
    })?;
    outcomes.into_iter().collect::<Result<Vec<()>, Error>>()?;
    let name =
        compiler.as_deref().and_then(Path::file_name).map_or("sh".into(), |name| name.to_string_lossy());
    Ok(BuildResult {
        jobs,
        files: files.into_inner(),
        compiler: name.into_owned(),
        seconds: started.elapsed().as_secs_f64(),
        stopped,
    })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// A directory that is removed with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn path(pid: u32, attempt: u32) -> PathBuf {
        std::env::temp_dir().join(format!("millpond-build.{pid}.{attempt}"))
    }

    fn make() -> Result<Scratch, Error> {
        let mut attempt = 0;
        loop {
            let dir = Scratch::path(std::process::id(), attempt);
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => return Ok(Scratch(dir)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < ATTEMPTS => {
                    attempt += 1
                }
                Err(source) => return Err(Error::BuildFile { path: dir, source }),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Removes the files of a build in another process that was killed. Only directories of the caller's user are removed.
pub fn remove_files_of(pid: u32) {
    let ours = |dir: &Path| {
        fs::symlink_metadata(dir).is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
    };
    for dir in (0..=ATTEMPTS).map(|attempt| Scratch::path(pid, attempt)).filter(|dir| ours(dir)) {
        let _ = fs::remove_dir_all(dir);
    }
}

/// A C source file, different each time.
fn source(file: u64) -> String {
    let mut text = String::new();
    for n in 0..FUNCTIONS {
        let _ = writeln!(
            text,
            "unsigned f{n}(unsigned a, unsigned *b, unsigned c) {{\n  unsigned s = {file}u + {n}u;\n  for (unsigned i = 0; i < c; i++) {{\n    \
             if (b[i] % {divisor}u == a) s += b[i] * i; else s ^= b[i] >> (i % 7);\n    b[i] = s + a * {n}u;\n  }}\n  return s;\n}}",
            divisor = n + 2
        );
    }
    text
}

/// Compiles until the end of the run.
fn compile_on(
    job: u32,
    compiler: Option<&Path>,
    dir: &Path,
    is_over: &AtomicBool,
    files: &AtomicU64,
) -> Result<(), Error> {
    let (from, to) = (dir.join(format!("{job}.c")), dir.join(format!("{job}.o")));
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        |source| Error::BuildFile { path, source }
    };
    while !is_over.load(Ordering::Relaxed) {
        let number = files.load(Ordering::Relaxed);
        fs::write(&from, source(number)).map_err(failed(&from))?;
        let mut command = match compiler {
            Some(compiler) => Command::new(compiler),
            None => Command::new("sh"),
        };
        match compiler {
            Some(_) => command.args(["-O2", "-c"]).arg(&from).arg("-o").arg(&to),
            None => command.args(["-c", SORTS, "sh"]).args([&from, &to]),
        };
        if !one(command, is_over)? {
            return Ok(());
        }
        fs::metadata(&to).map_err(failed(&to))?;
        fs::remove_file(&to).map_err(failed(&to))?;
        files.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs one compiler to its end, or until the end of the run; returns whether it ended by itself.
fn one(mut command: Command, is_over: &AtomicBool) -> Result<bool, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let cannot = |source: io::Error| Error::StartCompiler { name: name.clone(), source };
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec one system call is made.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    let mut child = command.spawn().map_err(cannot)?;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(cannot)? {
            break status;
        }
        if is_over.load(Ordering::Relaxed) {
            let _ = child.kill();
            let _ = child.wait();
            return Ok(false);
        }
        wait(&child).map_err(cannot)?;
    };
    if status.success() {
        return Ok(true);
    }
    Err(Error::CompilerFailed { name, status: status.to_string() })
}

/// Waits for its end, at most for the polling interval of the stop flag.
fn wait(child: &Child) -> io::Result<()> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::NotFound)?;
    let fd = pidfd_open(pid, PidfdFlags::empty())?;
    let longest = Timespec { tv_sec: 0, tv_nsec: STOP_POLL.subsec_nanos().into() };
    match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&longest)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(jobs: u32) -> BuildSpec {
        BuildSpec { jobs: NonZeroU32::new(jobs), ..BuildSpec::default() }
    }

    fn left() -> usize {
        let own = format!("millpond-build.{}.", std::process::id());
        let names = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&own)).count()
    }

    /// One test, because several would see each other's files.
    #[test]
    fn files_are_compiled_until_it_is_over_and_nothing_is_left() {
        let spec = BuildSpec {
            duration: Some(Duration::from_millis(300)),
            compiler: Some("true".into()),
            ..jobs(1)
        };
        let error = run(&spec, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::BuildFile { .. }), "there was no object: {error}");

        let spec = BuildSpec { compiler: Some("false".into()), ..jobs(2) };
        let error = run(&spec, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "cannot compile with false: exit status: 1");

        let spec = BuildSpec { compiler: Some("no-such-compiler".into()), ..jobs(2) };
        let error = run(&spec, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "cannot start no-such-compiler");

        let mut events = Vec::new();
        let spec = BuildSpec { duration: Some(Duration::from_millis(10)), ..jobs(2) };
        let result = run(&spec, &AtomicBool::new(false), &mut |event| events.push(event)).unwrap();
        assert_eq!(events, [BuildEvent::Started { jobs: 2 }]);
        assert!(!result.stopped && result.seconds >= 0.01, "{result:?}");

        let stop = AtomicBool::new(false);
        let result = run(&jobs(1), &stop, &mut |_| stop.store(true, Ordering::Relaxed)).unwrap();
        assert!(result.stopped);
        assert_eq!(left(), 0);

        // A killed build leaves its files to the process that started it.
        let killed = Scratch::path(std::process::id(), 0);
        fs::create_dir(&killed).unwrap();
        fs::write(killed.join("0.c"), "").unwrap();
        assert_eq!(left(), 1);
        remove_files_of(std::process::id());
        assert_eq!(left(), 0);
    }

    #[test]
    fn a_source_is_compiled_by_whatever_is_there() {
        let dir = tempfile_dir();
        for compiler in [on_path("cc"), None] {
            let (over, files) = (AtomicBool::new(false), AtomicU64::new(0));
            thread::scope(|scope| {
                let job = scope.spawn(|| compile_on(0, compiler.as_deref(), &dir.0, &over, &files));
                while files.load(Ordering::Relaxed) == 0 && !job.is_finished() {
                    thread::yield_now();
                }
                over.store(true, Ordering::Relaxed);
                job.join().unwrap().unwrap();
            });
            assert!(files.into_inner() > 0, "{compiler:?}");
        }
    }

    /// A directory for the test, with a name that no run uses.
    fn tempfile_dir() -> Scratch {
        let dir = std::env::temp_dir().join(format!("millpond-compiles.{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Scratch(dir)
    }

    #[test]
    fn a_report_has_its_rate() {
        let result = BuildResult { jobs: 2, files: 37, compiler: "cc".into(), seconds: 5.0, stopped: false };
        assert_eq!(result.report(), "37 files in 5.000 s by cc, 2 at once: 7.4 a second\n");
    }
}
