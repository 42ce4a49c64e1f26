//! Programs that run beside a measurement: each leads its own group of processes, so that a terminal's signals reach us alone, and ends
//! with us, also when we are killed.

use crate::filters::drained;
use crate::output::reason;
use crate::process::own_program;
use millpond_model::{CpuId, CpuSet, Nanos, PsetId};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::{CStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// Where processes are told of.
const PROC: &str = "/proc";
/// How the kernel weighs a session beside others, and the least of it: where sessions are weighed the class says something within its session only.
const SESSION_WEIGHT: (&CStr, &[u8]) = (c"/proc/self/autogroup", b"19");

/// Such a program. What is left of its group is killed when the value is dropped.
#[derive(Debug)]
pub struct Beside {
    child: Child,
    said: Option<JoinHandle<Vec<u8>>>,
    complained: Option<JoinHandle<Vec<u8>>>,
    below: bool,
    ended: bool,
}

/// What came of one that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Came {
    /// Its standard output, where that was wanted.
    pub said: String,
    /// Why it did not end well, in its own last words or the system's; `None` for status 0.
    pub failed: Option<String>,
}

/// The file of a program on the search path; `None` where there is none.
#[must_use]
pub fn program_on_path(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("PATH")?;
    std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(|path| path.is_file())
}

impl Beside {
    /// Starts a program in a set, as `psrset -e` does, in the words of the very program that runs. What it prints is kept. It is killed when we are.
    ///
    /// # Errors
    /// The system's reason, in words.
    pub fn in_set(set: PsetId, words: &[OsString]) -> Result<Beside, String> {
        let mut command = Command::new(own_program()?);
        command.args(["psrset", "-e"]).arg(set.to_string()).args(words).stdout(Stdio::piped());
        start(command, libc::SIGKILL, None)
    }

    /// Starts our own program with these words on these processors, in the class below all others (`SCHED_IDLE`) and in a session of the least weight: it
    /// has what nobody else wants, or nearly. What it prints is lost. It is asked to end when we are killed.
    ///
    /// # Errors
    /// The system's reason, in words.
    pub fn below_others(cpus: &CpuSet, words: &[OsString]) -> Result<Beside, String> {
        let mut command = Command::new(own_program()?);
        command.args(words).stdout(Stdio::null());
        start(command, libc::SIGTERM, Some(cpus))
    }

    /// To end takes processor time, too. Where sessions are not weighed there is no such file.
    fn weigh_as_others(&self) {
        if self.below {
            let _ = std::fs::write(Path::new(PROC).join(self.child.id().to_string()).join("autogroup"), "0");
        }
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Asks it to end.
    pub fn ask_to_end(&self) {
        if let (false, Some(group)) = (self.ended, self.group()) {
            self.weigh_as_others();
            let _ = kill_process_group(group, Signal::TERM);
        }
    }

    /// Whether it ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        // Its number stays its own, and that of its group, until its status is taken.
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let gone = |group| !matches!(waitid(WaitId::Pid(group), look), Ok(None) | Err(Errno::INTR));
        self.ended || self.group().is_none_or(gone)
    }

    /// What came of it; to be asked once it has ended, otherwise this ends it. Who is left of its group is ended in any case.
    pub fn came(&mut self) -> Came {
        self.end_group();
        let status = self.child.wait();
        self.ended = true;
        let text = |pipe: Option<JoinHandle<Vec<u8>>>| {
            let bytes = pipe.and_then(|pipe| pipe.join().ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (said, complained) = (text(self.said.take()), text(self.complained.take()));
        let failed = match status {
            Ok(status) if status.success() => None,
            Ok(status) => Some(complained.lines().next_back().map_or_else(
                || match status.signal() {
                    Some(signal) => format!("signal {signal} ended it"),
                    None => format!("it ended with status {}", status.code().unwrap_or(0)),
                },
                str::to_owned,
            )),
            Err(error) => Some(reason(&error)),
        };
        Came { said, failed }
    }

    /// The processor time that it and everybody in its group have had, those included who ended and were waited for.
    #[must_use]
    pub fn used(&self) -> Nanos {
        let group = self.child.id();
        let Ok(entries) = std::fs::read_dir(PROC) else { return Nanos(0) };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        Nanos(pids.filter_map(|pid| used_in(Path::new(PROC), pid, group)).sum())
    }

    fn end_group(&self) {
        if let (false, Some(group)) = (self.ended, self.group()) {
            self.weigh_as_others();
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.end_group();
        let _ = self.child.wait();
    }
}

fn start(mut command: Command, last: libc::c_int, below_on: Option<&CpuSet>) -> Result<Beside, String> {
    let mask = below_on.map(mask);
    let below = mask.is_some();
    // SAFETY: asks for a number.
    let parent = unsafe { libc::getpid() };
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    if !below {
        command.process_group(0);
    }
    // SAFETY: between fork and exec nothing but system calls is made, on memory that was there before.
    unsafe { command.pre_exec(move || prepare(parent, last, mask.as_ref())) };
    let child = command.spawn().map_err(|error| reason(&error))?;
    // From here on dropping it ends the child.
    let mut started = Beside { child, said: None, complained: None, below, ended: false };
    started.said = started.child.stdout.take().map(drained).transpose()?;
    started.complained = started.child.stderr.take().map(drained).transpose()?;
    Ok(started)
}

fn mask(cpus: &CpuSet) -> libc::cpu_set_t {
    // SAFETY: a set of zeros is an empty one.
    let mut mask: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for CpuId(cpu) in cpus.iter().filter(|cpu| cpu.0 < libc::CPU_SETSIZE.unsigned_abs()) {
        // SAFETY: the number is below the size of the set.
        unsafe { libc::CPU_SET(cpu as usize, &mut mask) };
    }
    mask
}

/// In the child, before it becomes the program.
fn prepare(parent: libc::pid_t, last: libc::c_int, mask: Option<&libc::cpu_set_t>) -> io::Result<()> {
    // SAFETY: system calls with plain numbers, and with memory that lives through them; parameters of zeros are those of this class.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, last);
        if libc::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let Some(mask) = mask else { return Ok(()) };
        libc::setsid();
        let weight = libc::open(SESSION_WEIGHT.0.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if weight >= 0 {
            libc::write(weight, SESSION_WEIGHT.1.as_ptr().cast(), SESSION_WEIGHT.1.len());
        }
        let below: libc::sched_param = std::mem::zeroed();
        if libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), mask) != 0
            || libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const below) != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The processor time of a process of that group, with that of its children that it waited for, in nanoseconds.
fn used_in(proc: &Path, pid: u32, group: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    let (in_group, waited_for) = group_and_children(&stat)?;
    (in_group == group).then(|| clock_of(pid).unwrap_or(0).saturating_add(waited_for))
}

/// The group of a process, and the processor time of children that it waited for, in nanoseconds: fields 5, 16 and 17 of its `stat`.
fn group_and_children(stat: &str) -> Option<(u32, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let group = fields.nth(2)?.parse().ok()?;
    let ticks = |text: Option<&str>| text?.parse::<u64>().ok();
    let children = ticks(fields.nth(10))?.checked_add(ticks(fields.next())?)?;
    // SAFETY: asks for a number.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.unsigned_abs().max(1);
    Some((group, children.saturating_mul(1_000_000_000 / hertz)))
}

/// The processor time of a process itself, in nanoseconds.
fn clock_of(pid: u32) -> Option<u64> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write to memory of this function.
    let read = unsafe {
        libc::clock_getcpuclockid(i32::try_from(pid).ok()?, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    read.then(|| time.tv_sec.unsigned_abs().saturating_mul(1_000_000_000) + time.tv_nsec.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    fn shell(script: &str, below_on: Option<&CpuSet>) -> Beside {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        start(command, libc::SIGKILL, below_on).unwrap()
    }

    fn ended(beside: &mut Beside) -> Came {
        while !beside.has_ended() {
            thread::yield_now();
        }
        beside.came()
    }

    #[test]
    fn what_it_printed_and_how_it_ended_is_kept() {
        let came = ended(&mut shell("echo 1 2", None));
        assert_eq!(came, Came { said: "1 2\n".into(), failed: None });
        assert_eq!(ended(&mut shell("echo a >&2; echo no >&2; exit 3", None)).failed.unwrap(), "no");
        assert_eq!(ended(&mut shell("exit 3", None)).failed.unwrap(), "it ended with status 3");
        assert_eq!(ended(&mut shell("kill -9 $$", None)).failed.unwrap(), "signal 9 ended it");
    }

    #[test]
    fn one_that_does_not_end_is_ended_with_its_children() {
        let mut beside = shell("sleep 1000 & echo $!; wait", None);
        beside.ask_to_end();
        assert_eq!(ended(&mut beside).failed.unwrap(), "signal 15 ended it");
        let mut beside = shell("trap '' TERM; while :; do :; done", None);
        while beside.used() == Nanos(0) {
            thread::yield_now();
        }
        assert_eq!(beside.came().failed.unwrap(), "signal 9 ended it");
    }

    #[test]
    fn below_others_means_the_lowest_class_on_those_processors() {
        let said = std::fs::read_to_string("/proc/self/status").unwrap();
        let allowed = said.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let first: CpuSet = allowed.trim().parse::<CpuSet>().unwrap().iter().take(1).collect();
        let script = "grep Cpus_allowed_list: /proc/self/status; set -- $(cat /proc/self/stat); echo $5 $$ ${41} $(cat /proc/self/autogroup 2>/dev/null)";
        let said = ended(&mut shell(script, Some(&first))).said;
        let (list, rest) = said.trim().split_once('\n').unwrap();
        assert_eq!(list.split_whitespace().nth(1).unwrap().parse::<CpuSet>().unwrap(), first);
        let words: Vec<&str> = rest.split_whitespace().collect();
        assert_eq!(words[0], words[1], "it leads its group");
        assert_eq!(words[2], libc::SCHED_IDLE.to_string());
        // Where the kernel weighs sessions at all.
        assert!(words.len() == 3 || words[3..].join(" ").ends_with("nice 19"), "{words:?}");
    }

    #[test]
    fn children_that_were_waited_for_count() {
        let stat = "7 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 30 20 39 19 1 0 8";
        // SAFETY: asks for a number.
        let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.unsigned_abs();
        assert_eq!(group_and_children(stat), Some((42, 50 * (1_000_000_000 / hertz))));
        assert_eq!(group_and_children("7 (a) S 1"), None);
    }

    #[test]
    fn a_program_is_found_where_shells_find_it() {
        assert!(program_on_path("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(program_on_path("no-such-program-at-all"), None);
    }
}
