//! One boot: writes the image, starts the emulator, receives the results, and enforces the deadlines.

use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cache::Cache;
use crate::capability::{self, Unavailable};
use crate::case::{Case, CaseError};
use crate::frames::{Frame, read_frame};
use crate::guest::{BOOT_LIMIT, Guest};
use crate::image::{ImageError, unpack_files};
use crate::report::{CaseResult, Report, Verdict, log_of};

/// Multiplier of all deadlines: `MILLPOND_VM_TIMEOUT_SCALE=10` for very slow hosts.
const SCALE: &str = "MILLPOND_VM_TIMEOUT_SCALE";

/// The default multiplier. Limits of cases are set for two otherwise idle CPUs. Together with four busy loops, an emulator gets a
/// third of their time. Deadlines only end guests that hang; they do not limit the speed of a case.
const USUAL_SCALE: f64 = 3.0;

/// Additional time after a case's limit, for the guest to kill it, restore the machine and send the results.
const GRACE: Duration = Duration::from_secs(120);

/// How a boot can fail. `log` is the console output.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// This machine lacks a prerequisite.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The guest's image cannot be created.
    #[error(transparent)]
    Image(ImageError),
    /// The case is invalid.
    #[error(transparent)]
    Case(CaseError),
    /// The emulator cannot be started, or its output cannot be read.
    #[error("cannot run the emulator")]
    Emulator(#[source] io::Error),
    /// The emulator or the kernel ended before process 1 sent a frame.
    #[error("cannot boot the guest: {emulator}\n{log}")]
    NoBoot {
        /// The emulator's messages.
        emulator: String,
        /// The console output.
        log: String,
    },
    /// The guest cannot be set up as requested.
    #[error("cannot set up the guest: {why}")]
    Refused {
        /// The reason, from the guest.
        why: String,
    },
    /// The kernel panicked.
    #[error("cannot go on {stage}: the kernel panicked\n{log}")]
    Panic {
        /// The stage of the guest.
        stage: String,
        /// The console output.
        log: String,
    },
    /// The guest did not complete a stage in time.
    #[error("cannot go on {stage}: no news for {limit_s} s\n{log}")]
    Timeout {
        /// The stage of the guest.
        stage: String,
        /// The scaled deadline.
        limit_s: u64,
        /// The console output.
        log: String,
    },
    /// The emulator ended early without a kernel panic.
    #[error("cannot go on {stage}: the emulator ended: {emulator}\n{log}")]
    Died {
        /// The stage of the guest.
        stage: String,
        /// The emulator's messages.
        emulator: String,
        /// The console output.
        log: String,
    },
}

/// Why receiving ended.
enum End {
    Done,
    Refused(String),
    Silence,
    Timeout { limit: Duration },
}

/// The results received so far.
struct Heard {
    cases: Vec<CaseResult>,
    dmesg: Option<String>,
    boot_time: Option<Duration>,
    /// The running case.
    current: Option<CaseResult>,
}

pub(crate) fn boot(guest: &Guest, cases: &[Case], cache: &Cache) -> Result<Report, VmError> {
    capability::available()?;
    let qemu = capability::qemu()?;
    let accel = guest.chosen_accel(std::env::var("MILLPOND_VM_ACCEL").ok().as_deref())?;
    let scale = scale_from(std::env::var(SCALE).ok().as_deref())?;
    let start = Instant::now();
    let place = tempfile::tempdir().map_err(VmError::Emulator)?;
    let (initrd, console, errors) =
        (place.path().join("initrd"), place.path().join("console"), place.path().join("errors"));
    write_image(guest, cases, scale, cache, &initrd)?;
    let image_time = start.elapsed();

    let stderr = fs::File::create(&errors).map_err(VmError::Emulator)?;
    let mut command = Command::new(qemu);
    command.args(guest.arguments(&initrd, &console, accel));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let mut emulator = Emulator::start(&mut command).map_err(VmError::Emulator)?;
    let frames = listen(emulator.0.stdout.take());
    let mut heard = Heard { cases: Vec::new(), dmesg: None, boot_time: None, current: None };
    let limits = Limits { boot: BOOT_LIMIT.mul_f64(scale), cases, scale };
    let end = follow(&frames, &limits, &mut heard);
    emulator.end();

    let log = read_lossy(&console);
    let stage = match (&heard.current, &heard.boot_time) {
        (Some(case), _) => format!("in case {}", case.name),
        (None, Some(_)) => format!("after {} of {} cases", heard.cases.len(), cases.len()),
        (None, None) => "booting".to_owned(),
    };
    let trouble = match end {
        End::Done => None,
        End::Refused(why) => return Err(VmError::Refused { why }),
        End::Timeout { limit } => {
            Some(VmError::Timeout { stage, limit_s: limit.as_secs(), log: log.clone() })
        }
        End::Silence if log.contains("Kernel panic") => Some(VmError::Panic { stage, log: log.clone() }),
        End::Silence if heard.boot_time.is_none() => {
            Some(VmError::NoBoot { emulator: read_lossy(&errors), log: log.clone() })
        }
        End::Silence => Some(VmError::Died { stage, emulator: read_lossy(&errors), log: log.clone() }),
    };
    match (trouble, heard.boot_time) {
        (Some(trouble), None) => Err(trouble),
        (trouble, boot_time) => {
            let boot_time = boot_time.unwrap_or_default();
            let kernel_log = heard.dmesg.take().unwrap_or(log);
            let cases = in_order(cases, heard, &kernel_log);
            Ok(Report { cases, trouble, kernel_log, image_time, boot_time, total_time: start.elapsed() })
        }
    }
}

fn write_image(
    guest: &Guest,
    cases: &[Case],
    scale: f64,
    cache: &Cache,
    initrd: &Path,
) -> Result<(), VmError> {
    let image = guest.whole_image(cases, scale, cache)?;
    let file = fs::File::create(initrd).map_err(|e| VmError::Image(ImageError::Write(e)))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    image.write(&mut out).map_err(VmError::Image)?;
    out.flush().map_err(|e| VmError::Image(ImageError::Write(e)))
}

/// The emulator's process. Dropping it kills the process.
struct Emulator(Child);

impl Emulator {
    /// Starts the emulator so that it ends with the calling thread, even if that is killed. Otherwise a guest that hangs would
    /// run forever.
    fn start(command: &mut Command) -> io::Result<Self> {
        use std::os::unix::process::CommandExt as _;
        let die_with_us =
            || Ok(rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?);
        // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe functions may be called. It
        // makes one system call (prctl), takes no lock and allocates nothing.
        unsafe { command.pre_exec(die_with_us) };
        command.spawn().map(Self)
    }

    /// Kills the emulator. After the guest's last frame nothing else is needed, and waiting for its power-off costs a second.
    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads frames in a separate thread, so that the receiver can use deadlines. The thread ends with the emulator.
fn listen(stdout: Option<ChildStdout>) -> Receiver<Frame> {
    let (send, receive) = channel();
    thread::spawn(move || {
        let Some(stdout) = stdout else { return };
        let mut from = BufReader::new(stdout);
        // An incomplete frame means that the emulator ended. The console has the reason.
        while let Ok(Some(frame)) = read_frame(&mut from) {
            if send.send(frame).is_err() {
                break;
            }
        }
        // Read the rest, so that the emulator does not block.
        let _ = io::copy(&mut from.by_ref(), &mut io::sink());
    });
    receive
}

/// Deadlines of a boot.
struct Limits<'a> {
    boot: Duration,
    cases: &'a [Case],
    scale: f64,
}

impl Limits<'_> {
    /// The deadline of the stage that began with the last frame.
    fn now(&self, heard: &Heard) -> Duration {
        if heard.boot_time.is_none() {
            return self.boot;
        }
        let running = heard.current.as_ref().and_then(|c| self.cases.iter().find(|case| case.name == c.name));
        running.map_or(GRACE, |case| case.limit + GRACE).mul_f64(self.scale)
    }
}

fn follow(frames: &Receiver<Frame>, limits: &Limits<'_>, heard: &mut Heard) -> End {
    let start = Instant::now();
    loop {
        let limit = limits.now(heard);
        let frame = match frames.recv_timeout(limit) {
            Ok(frame) => frame,
            Err(RecvTimeoutError::Timeout) => return End::Timeout { limit },
            Err(RecvTimeoutError::Disconnected) => return End::Silence,
        };
        match frame.kind.as_str() {
            "ready" => heard.boot_time = Some(start.elapsed()),
            "refused" => return End::Refused(frame.text().trim_end().to_owned()),
            "dmesg" => heard.dmesg = Some(frame.text()),
            "done" => return End::Done,
            "begin" => heard.current = Some(CaseResult::lost(&frame.name)),
            "end" => {
                if let Some(mut case) = heard.current.take() {
                    finish(&mut case, &frame);
                    heard.cases.push(case);
                }
            }
            _ => {
                if let Some(case) = &mut heard.current {
                    add(case, &frame);
                }
            }
        }
    }
}

/// Stores a frame of a case in its result.
fn add(case: &mut CaseResult, frame: &Frame) {
    match frame.kind.as_str() {
        "stdout" => case.stdout = frame.text(),
        "stderr" => case.stderr = frame.text(),
        "left" => case.left = frame.text().lines().map(str::to_owned).collect(),
        "verdict" => case.verdict = verdict_of(&frame.text()),
        "files" => {
            // An invalid archive leads to missing files, which the case's check reports.
            case.files = unpack_files(&frame.body).unwrap_or_default();
        }
        _ => {}
    }
}

/// The verdict of a case from its own text, by the first word. An empty text means passed, unless the shell's status differs.
fn verdict_of(said: &str) -> Verdict {
    let said = said.trim_end();
    if said.starts_with("timed-out") {
        Verdict::TimedOut
    } else if let Some(why) = said.strip_prefix("failed ") {
        Verdict::Failed(why.to_owned())
    } else if let Some(why) = said.strip_prefix("skipped ") {
        Verdict::Skipped(why.to_owned())
    } else {
        Verdict::Passed
    }
}

fn finish(case: &mut CaseResult, end: &Frame) {
    case.status = end.value("status").and_then(|v| v.parse().ok());
    case.guest_ms = end.value("guest_ms").and_then(|v| v.parse().ok()).unwrap_or(0);
    if matches!(case.verdict, Verdict::Passed | Verdict::Lost) {
        case.verdict = match case.status {
            Some(0) => Verdict::Passed,
            Some(status) => Verdict::Failed(format!("its shell ended with status {status}")),
            None => Verdict::Failed("it has no exit status".to_owned()),
        };
    }
}

/// One result per requested case: received, partly received, or lost.
fn in_order(asked: &[Case], heard: Heard, kernel_log: &str) -> Vec<CaseResult> {
    let mut known: Vec<CaseResult> = heard.cases;
    known.extend(heard.current.map(|half| CaseResult { verdict: Verdict::Lost, ..half }));
    let mut known = known.into_iter().peekable();
    asked
        .iter()
        .map(|case| {
            let result =
                known.next_if(|r| r.name == case.name).unwrap_or_else(|| CaseResult::lost(&case.name));
            let verdict = match result.verdict {
                Verdict::Passed if case.must_leave_nothing && !result.left.is_empty() => {
                    Verdict::Failed(format!("it left behind: {}", result.left.join("; ")))
                }
                other => other,
            };
            CaseResult { verdict, kernel_log: log_of(kernel_log, &case.name), ..result }
        })
        .collect()
}

fn scale_from(text: Option<&str>) -> Result<f64, Unavailable> {
    let Some(text) = text.filter(|t| !t.is_empty()) else { return Ok(USUAL_SCALE) };
    text.parse().ok().filter(|scale| (0.01..=1000.0).contains(scale)).ok_or_else(|| {
        Unavailable::new(format!("{SCALE} is {text:?}"), format!("set {SCALE} to a number from 0.01 to 1000"))
    })
}

fn read_lossy(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: &str, name: &str, body: &str) -> Frame {
        Frame { kind: kind.into(), name: name.into(), body: body.into() }
    }

    /// Processes a complete list of frames for cases a and b.
    fn replay(frames: &[Frame]) -> (End, Heard) {
        let (send, receive) = channel();
        for frame in frames {
            send.send(frame.clone()).unwrap();
        }
        drop(send);
        let cases = [Case::new("a", "").unwrap(), Case::new("b", "").unwrap()];
        let limits = Limits { boot: Duration::from_secs(9), cases: &cases, scale: 1.0 };
        let mut heard = Heard { cases: Vec::new(), dmesg: None, boot_time: None, current: None };
        (follow(&receive, &limits, &mut heard), heard)
    }

    fn results(heard: Heard) -> Vec<(String, Verdict)> {
        let cases = [Case::new("a", "").unwrap(), Case::new("b", "").unwrap()];
        in_order(&cases, heard, "").into_iter().map(|r| (r.name, r.verdict)).collect()
    }

    #[test]
    fn a_case_that_says_nothing_passes_by_its_status() {
        let (end, heard) = replay(&[
            frame("ready", "-", ""),
            frame("begin", "a", ""),
            frame("verdict", "a", ""),
            frame("end", "a", "status 0\nguest_ms 70\n"),
            frame("begin", "b", ""),
            frame("verdict", "b", ""),
            frame("end", "b", "status 2\nguest_ms 1\n"),
            frame("done", "-", ""),
        ]);
        assert!(matches!(end, End::Done));
        assert_eq!(heard.cases[0].guest_ms, 70);
        let why = "its shell ended with status 2".to_owned();
        assert_eq!(results(heard), [("a".into(), Verdict::Passed), ("b".into(), Verdict::Failed(why))]);
    }

    #[test]
    fn a_failure_wins_over_a_good_status() {
        assert_eq!(
            verdict_of("failed want 1\nfailed later\n"),
            Verdict::Failed("want 1\nfailed later".into())
        );
        assert_eq!(verdict_of("skipped no cards\n"), Verdict::Skipped("no cards".into()));
        assert_eq!(verdict_of("timed-out\n"), Verdict::TimedOut);
    }

    #[test]
    fn what_must_leave_nothing_fails_when_it_does() {
        let (_, heard) = replay(&[
            frame("ready", "-", ""),
            frame("begin", "a", ""),
            frame("left", "a", "cpu 3 off-line\n"),
            frame("end", "a", "status 0\n"),
        ]);
        let case = Case::new("a", "# leaves: nothing\n").unwrap();
        let verdict = in_order(&[case], heard, "").remove(0).verdict;
        assert_eq!(verdict, Verdict::Failed("it left behind: cpu 3 off-line".into()));
    }

    #[test]
    fn a_guest_that_dies_keeps_what_it_told_and_loses_the_rest() {
        let (end, heard) = replay(&[
            frame("ready", "-", ""),
            frame("begin", "a", ""),
            frame("end", "a", "status 0\n"),
            frame("begin", "b", ""),
            frame("stdout", "b", "so far\n"),
        ]);
        assert!(matches!(end, End::Silence));
        assert_eq!(heard.current.as_ref().unwrap().stdout, "so far\n");
        assert_eq!(results(heard), [("a".into(), Verdict::Passed), ("b".into(), Verdict::Lost)]);
    }

    #[test]
    fn a_guest_that_cannot_be_set_up_says_why() {
        let (end, _) = replay(&[frame("refused", "-", "this kernel mounts no cgroup v1 cpuset\n")]);
        assert!(matches!(end, End::Refused(why) if why == "this kernel mounts no cgroup v1 cpuset"));
    }

    #[test]
    fn a_scale_is_a_sensible_number() {
        assert_eq!(scale_from(None), Ok(3.0));
        assert_eq!(scale_from(Some("2.5")), Ok(2.5));
        for bad in ["0", "-1", "x", "inf", "NaN"] {
            assert!(scale_from(Some(bad)).is_err(), "{bad}");
        }
    }
}
