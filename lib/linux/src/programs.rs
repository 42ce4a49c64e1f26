//! Launches programs as children. A child is forked, waits until it is bound, and then calls exec.
//!
//! ```text
//!   parent   fork ──────────── bind it (journalled) ── open the gate ──────── read the error, if any
//!   child      └─ set up ── wait at the gate ──────────────────┴── execvp ── write the error
//! ```
//!
//! Between fork and exec the child allocates nothing and takes no lock, because another thread of the parent may have held it.

use crate::messages::reason;
use crate::procfs::stat_field;
use crate::{LinuxMachine, Os};
use millpond_machine::facets::{Launch, LaunchMode, Program, ProgramExit};
use millpond_machine::{Reason, Refusal, bind_at_start};
use millpond_model::{Nanos, Pid};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid as Number, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::thread::JoinHandle;

/// The autogroup file of a process, and the lowest weight. With autogroups, scheduling policies only have an effect within their
/// session.
const SESSION_WEIGHT: (&CStr, &[u8]) = (c"/proc/self/autogroup", b"19");
/// Base of the exit status of a program that was ended by a signal, as in shells.
const BY_SIGNAL: i32 = 128;
/// The `stat` fields with the process group, and with the ticks of reaped children.
const GROUP: usize = 5;
const CHILDREN: [usize; 2] = [16, 17];

/// Parameters of a child. All of them are allocated before the fork.
struct Orders<'a> {
    mode: &'a LaunchMode,
    /// Terminated by a null pointer.
    argv: Vec<*const libc::c_char>,
    /// Descriptors for standard input, output and error; -1 to keep the parent's.
    stdio: [libc::c_int; 3],
    /// The pipe on which the child waits: read end, and the parent's end.
    gate: [libc::c_int; 2],
    /// The descriptor to which an error number is written.
    errors: libc::c_int,
    parent: libc::pid_t,
    mask: Vec<u64>,
}

/// A started program.
struct Started<'m> {
    os: &'m Os,
    child: Number,
    pid: Pid,
    mode: LaunchMode,
    notes: Vec<String>,
    output: Option<JoinHandle<Vec<u8>>>,
    messages: Option<JoinHandle<Vec<u8>>>,
    exit: Option<ProgramExit>,
}

fn refused(error: impl Into<io::Error>) -> Refusal {
    Refusal::operation(Reason::Machine(reason(&error.into())))
}

impl LinuxMachine {
    pub(crate) fn launch_program(&self, launch: &Launch<'_>) -> Result<Box<dyn Program + '_>, Refusal> {
        let captured =
            || Refusal::operation(Reason::Machine("nothing can be started on a captured machine".to_owned()));
        self.os.root.running(captured)?;
        let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(refused);
        let ((wait, gate), (errors, error)) = (pipe()?, pipe()?);
        let (mut started, ends) = fork(&self.os, launch, [&wait, &gate], &error)?;
        drop((wait, error, ends));
        if let LaunchMode::Foreground(set) | LaunchMode::Captured(set) = launch.mode {
            // Dropping the program ends it.
            started.notes = bind_at_start(self, started.pid, set)?;
        }
        let mut number = [0; 4];
        let _ = File::from(gate).write_all(b"!");
        match File::from(errors).read_exact(&mut number) {
            Ok(()) => {
                started.exit();
                Err(refused(io::Error::from_raw_os_error(i32::from_ne_bytes(number))))
            }
            Err(_) => Ok(Box::new(started)),
        }
    }
}

/// Reads everything, so that the program never blocks on its output.
fn drained(from: OwnedFd) -> io::Result<JoinHandle<Vec<u8>>> {
    let read = move || {
        let mut bytes = Vec::new();
        // A read error ends the output.
        let _ = File::from(from).read_to_end(&mut bytes);
        bytes
    };
    std::thread::Builder::new().name("reader".to_owned()).spawn(read)
}

/// Forks the child, which waits at the gate. Also returns our ends of its pipes.
fn fork<'m>(
    os: &'m Os,
    launch: &Launch<'_>,
    gate: [&OwnedFd; 2],
    errors: &OwnedFd,
) -> Result<(Started<'m>, Vec<OwnedFd>), Refusal> {
    let words = launch.words.iter().map(|word| CString::new(word.as_bytes()));
    let words: Vec<CString> = words.collect::<Result<_, _>>().map_err(refused)?;
    let null =
        || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from).map_err(refused);
    let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(refused);
    let (ends, read) = match launch.mode {
        LaunchMode::Foreground(_) => (Vec::new(), [None, None]),
        LaunchMode::Captured(_) => {
            let ((out, output), (messages, errors)) = (pipe()?, pipe()?);
            (vec![null()?, output, errors], [Some(out), Some(messages)])
        }
        LaunchMode::Background(_) => {
            let (messages, errors) = pipe()?;
            (vec![null()?, null()?, errors], [None, Some(messages)])
        }
    };
    let mut stdio = [-1; 3];
    stdio.iter_mut().zip(&ends).for_each(|(fd, end)| *fd = end.as_raw_fd());
    let orders = Orders {
        mode: &launch.mode,
        argv: words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect(),
        stdio,
        gate: gate.map(AsRawFd::as_raw_fd),
        errors: errors.as_raw_fd(),
        // SAFETY: only returns a number.
        parent: unsafe { libc::getpid() },
        mask: match &launch.mode {
            LaunchMode::Background(cpus) => cpus.to_words(),
            _ => Vec::new(),
        },
    };
    // SAFETY: the child only makes system calls, works on existing memory, and ends without returning.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        run(&orders);
    }
    let child = Number::from_raw(forked.max(0)).ok_or_else(|| refused(io::Error::last_os_error()))?;
    let (mode, pid) = (launch.mode.clone(), Pid(forked.unsigned_abs()));
    // From here on, dropping it ends the child.
    let mut started =
        Started { os, child, pid, mode, notes: Vec::new(), output: None, messages: None, exit: None };
    let [output, messages] = read;
    started.output = output.map(drained).transpose().map_err(refused)?;
    started.messages = messages.map(drained).transpose().map_err(refused)?;
    Ok((started, ends))
}

/// The code of the child. Never returns.
fn run(orders: &Orders<'_>) -> ! {
    // SAFETY: system calls with plain numbers, and with memory that outlives them. The strings and their list are terminated as
    // `execvp` requires.
    unsafe {
        if set_up(orders).is_ok() {
            libc::execvp(orders.argv[0], orders.argv.as_ptr());
        }
        let number = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
        libc::write(orders.errors, number.as_ptr().cast(), number.len());
        libc::_exit(127)
    }
}

/// Sets up the child for its mode, and waits at the gate. `Err` leaves the reason in `errno`.
///
/// # Safety
/// Only in a child before exec, with open descriptors.
unsafe fn set_up(orders: &Orders<'_>) -> Result<(), ()> {
    // SAFETY: system calls with plain numbers and with memory of this function or of `orders`. A signal set is filled before it
    // is used, and zeroed parameters are valid for this class.
    unsafe {
        let done = |result: libc::c_int| if result < 0 { Err(()) } else { Ok(()) };
        libc::close(orders.gate[1]);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        match orders.mode {
            LaunchMode::Foreground(_) => {}
            LaunchMode::Captured(_) => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::setpgid(0, 0);
            }
            LaunchMode::Background(_) => {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                libc::setsid();
                let weight = libc::open(SESSION_WEIGHT.0.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
                if weight >= 0 {
                    libc::write(weight, SESSION_WEIGHT.1.as_ptr().cast(), SESSION_WEIGHT.1.len());
                }
                let (mask, parameters) = (&orders.mask, std::mem::zeroed::<libc::sched_param>());
                if libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len() * 8, mask.as_ptr()) < 0 {
                    return Err(());
                }
                done(libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters))?;
            }
        }
        if libc::getppid() != orders.parent {
            libc::_exit(0);
        }
        for (to, from) in (0..).zip(orders.stdio).filter(|(_, from)| *from >= 0) {
            done(libc::dup2(from, to))?;
        }
        let mut byte = 0u8;
        // Without a byte the parent has given up.
        while libc::read(orders.gate[0], (&raw mut byte).cast(), 1) != 1 {
            if io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                libc::_exit(0);
            }
        }
    }
    Ok(())
}

impl Started<'_> {
    fn leads_group(&self) -> bool {
        !matches!(self.mode, LaunchMode::Foreground(_))
    }

    /// Sends a signal to the program, or to its process group if it leads one. Its process id is not reused until it is reaped.
    fn signal(&self, signal: Signal) {
        if self.exit.is_some() {
            return;
        }
        if matches!(self.mode, LaunchMode::Background(_)) {
            // Exiting needs CPU time, too. Without autogroups this file does not exist.
            let _ = std::fs::write(self.os.root.proc.join(format!("{}/autogroup", self.pid)), "0");
        }
        let _ = if self.leads_group() {
            kill_process_group(self.child, signal)
        } else {
            kill_process(self.child, signal)
        };
    }

    fn wait(&mut self) -> ProgramExit {
        let status = loop {
            match waitpid(Some(self.child), WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                result => break result,
            }
        };
        let text = |pipe: Option<JoinHandle<Vec<u8>>>| {
            let bytes = pipe.and_then(|pipe| pipe.join().ok()).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (output, messages) = (text(self.output.take()), text(self.messages.take()));
        let last = messages.lines().next_back();
        let (code, words) = match status.map(|found| found.map(|(_, status)| status)) {
            Ok(Some(status)) => match (status.terminating_signal(), status.exit_status()) {
                (Some(signal), _) => (BY_SIGNAL + signal, format!("signal {signal} ended it")),
                (None, code) => (code.unwrap_or(0), format!("it ended with status {}", code.unwrap_or(0))),
            },
            // Another wait reaped it, so it has ended.
            _ => (0, String::new()),
        };
        let failure = (code != 0).then(|| last.map_or(words, str::to_owned));
        ProgramExit { status: u8::try_from(code).unwrap_or(u8::MAX), output, failure }
    }

    /// The CPU time of a process of our group and its reaped children.
    fn time_in_group(&self, pid: u32) -> Option<u64> {
        let text = self.os.root.read_value(&self.os.root.proc.join(format!("{pid}/stat"))).ok()??;
        let (group, children) = group_and_children(&text)?;
        (group == self.pid.0).then(|| clock_of(pid).unwrap_or(0).saturating_add(children))
    }
}

impl Program for Started<'_> {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }

    fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.exit.is_some() || !matches!(waitid(WaitId::Pid(self.child), look), Ok(None) | Err(Errno::INTR))
    }

    fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    fn exit(&mut self) -> ProgramExit {
        if self.leads_group() || !self.has_ended() {
            self.signal(Signal::KILL);
        }
        if self.exit.is_none() {
            self.exit = Some(self.wait());
        }
        self.exit.clone().unwrap_or_default()
    }

    fn cpu_time(&self) -> Nanos {
        let pids = self.os.pids().unwrap_or_default();
        Nanos(pids.into_iter().filter_map(|pid| self.time_in_group(pid)).sum())
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        if self.leads_group() {
            self.exit();
        } else if !self.has_ended() {
            self.terminate();
        }
    }
}

/// The process group of a process, and the CPU time of its reaped children, in nanoseconds.
fn group_and_children(stat: &str) -> Option<(u32, u64)> {
    let group = stat_field(stat, GROUP)?.parse().ok()?;
    let [user, system] = CHILDREN.map(|field| stat_field(stat, field)?.parse::<u64>().ok());
    // SAFETY: only returns a number.
    let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.unsigned_abs().max(1);
    Some((group, user?.checked_add(system?)?.saturating_mul(1_000_000_000 / hertz)))
}

/// The CPU time of a process itself, in nanoseconds.
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
    use crate::Root;
    use millpond_machine::{Machine, MemoryJournal};
    use millpond_model::CpuSet;
    use std::ffi::OsString;

    fn machine() -> (tempfile::TempDir, LinuxMachine) {
        let state = tempfile::tempdir().unwrap();
        let root = Root::live(state.path().to_path_buf());
        (state, LinuxMachine::open(root, Box::new(MemoryJournal::default())))
    }

    /// The CPUs that this test may use.
    fn allowed() -> CpuSet {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        list.trim().parse().unwrap()
    }

    /// Starts a shell script and keeps its standard error output.
    fn shell<'m>(machine: &'m LinuxMachine, script: &str, cpus: CpuSet) -> Box<dyn Program + 'm> {
        let words = ["sh", "-c", script].map(OsString::from);
        let launch = Launch { words: &words, mode: LaunchMode::Background(cpus) };
        machine.threads().unwrap().launch(&launch).unwrap()
    }

    fn ended(program: &mut dyn Program) -> ProgramExit {
        while !program.has_ended() {
            std::thread::yield_now();
        }
        program.exit()
    }

    fn failure(machine: &LinuxMachine, script: &str) -> Option<String> {
        ended(&mut *shell(machine, script, allowed())).failure
    }

    #[test]
    fn how_it_ended_is_told_in_its_own_last_line_or_by_its_status() {
        let (_state, machine) = machine();
        assert_eq!(failure(&machine, "echo a >&2"), None);
        assert_eq!(failure(&machine, "echo a >&2; echo no >&2; exit 3").unwrap(), "no");
        assert_eq!(failure(&machine, "exit 3").unwrap(), "it ended with status 3");
        assert_eq!(failure(&machine, "kill -9 $$").unwrap(), "signal 9 ended it");
        assert_eq!(ended(&mut *shell(&machine, "exit 3", allowed())).status, 3);
        assert_eq!(ended(&mut *shell(&machine, "kill -9 $$", allowed())).status, 137);
    }

    #[test]
    fn one_that_does_not_end_is_ended_with_its_children() {
        let (_state, machine) = machine();
        let mut program = shell(&machine, "sleep 1000 & wait", allowed());
        program.terminate();
        assert_eq!(ended(&mut *program).failure.unwrap(), "signal 15 ended it");
        let mut program = shell(&machine, "trap '' TERM; while :; do :; done", allowed());
        while program.cpu_time() == Nanos(0) {
            std::thread::yield_now();
        }
        assert_eq!(program.exit().failure.unwrap(), "signal 9 ended it");
    }

    #[test]
    fn a_program_that_does_not_exist_is_refused_in_words() {
        let (_state, machine) = machine();
        let words = [OsString::from("/nonexistent/program")];
        let launch = Launch { words: &words, mode: LaunchMode::Background(allowed()) };
        let refusal = machine.threads().unwrap().launch(&launch).err().unwrap();
        assert_eq!(refusal.reason.to_string(), "No such file or directory");
    }

    #[test]
    fn the_background_is_the_lowest_class_on_those_cpus() {
        let (_state, machine) = machine();
        let first: CpuSet = allowed().iter().take(1).collect();
        let script = "exec >&2; set -- $(grep Cpus_allowed_list: /proc/self/status) $(cat /proc/self/stat) - $$ \
                      $(cat /proc/self/autogroup 2>/dev/null); echo $2 $7 ${43} \"$@\"";
        let mut program = shell(&machine, &format!("{script}; exit 1"), first.clone());
        let said = ended(&mut *program).failure.unwrap();
        let words: Vec<&str> = said.split_whitespace().collect();
        assert_eq!(words[0].parse::<CpuSet>().unwrap(), first);
        let own = words.iter().rposition(|word| *word == "-").unwrap() + 1;
        assert_eq!(words[1], words[own], "it leads its group");
        assert_eq!(words[2], libc::SCHED_IDLE.to_string());
        // Only on kernels with autogroups.
        let rest = &words[own + 1..];
        assert!(rest.is_empty() || rest.join(" ").ends_with("nice 19"), "{rest:?}");
    }

    #[test]
    fn children_that_were_waited_for_count() {
        let stat = "7 (a) b) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 30 20 39 19 1 0 8";
        // SAFETY: only returns a number.
        let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.unsigned_abs();
        assert_eq!(group_and_children(stat), Some((42, 50 * (1_000_000_000 / hertz))));
        assert_eq!(group_and_children("7 (a) S 1"), None);
    }
}
