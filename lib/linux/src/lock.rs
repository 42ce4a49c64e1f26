//! The writer lock: writers wait in order, as long as the holder makes progress.
//!
//! The kernel keeps waiting processes in a queue, so a separate thread waits in a blocking call. No process polls, and none is
//! overtaken for long. Meanwhile the holder is checked at growing intervals, so that hundreds of waiting writers leave the CPUs
//! to it. While it works, or passes the lock on, the wait continues. A holder without progress is reported with its process id
//! and its current operation.

use crate::LinuxMachine;
use crate::lock_file::{has_name, open_lock_file};
use crate::os::knob_error;
use millpond_machine::{Guard, Holder, Reason, Refusal, Subject, Writing};
use millpond_model::Pid;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, major, minor};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Longest time without progress of the holder.
const STILL_MAX: Duration = Duration::from_secs(20);
/// Longest total wait. Hundreds of writers have had their turn by then.
const WAIT_MAX: Duration = Duration::from_secs(600);
/// Time until the first check of the holder; it doubles with each check.
const LOOK: Duration = Duration::from_millis(250);
/// Longest time between checks.
const LOOK_MAX: Duration = Duration::from_secs(4);

/// The lock. It is released when this value is dropped, and when the process ends.
struct Lock {
    _fd: OwnedFd,
}

impl Guard for Lock {}

/// Observed state of the holder. Two equal values mean that it made no progress in between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sign {
    /// Its process id, if known.
    pid: Option<u32>,
    /// CPU time of its process.
    used: Option<String>,
    /// Its current operation, and the number of steps.
    doing: Option<(String, usize)>,
}

impl Sign {
    fn holder(self) -> Option<Holder> {
        Some(Holder { pid: Pid(self.pid?), what: self.doing.map(|(what, _)| what) })
    }
}

/// State of a wait.
#[derive(Debug, Clone)]
struct Patience {
    still_max: Duration,
    wait_max: Duration,
    still: Duration,
    waited: Duration,
    last: Sign,
}

impl Patience {
    fn new(still_max: Duration, wait_max: Duration) -> Self {
        let (still, waited, last) = Default::default();
        Patience { still_max, wait_max, still, waited, last }
    }

    /// Whether to continue waiting, `passed` after the last check.
    fn goes_on(&mut self, sign: Sign, passed: Duration) -> bool {
        self.waited += passed;
        self.still = if sign == self.last { self.still + passed } else { Duration::ZERO };
        self.last = sign;
        self.still < self.still_max && self.waited < self.wait_max
    }
}

impl LinuxMachine {
    /// Locks a directory, or a lock file, for this writer.
    ///
    /// # Errors
    /// [`Reason::Busy`] when the holder makes no progress, and when the directory cannot be locked at all.
    pub(crate) fn lock_dir(&self, dir: &Path) -> Result<Box<dyn Guard>, Refusal> {
        self.lock_patiently(dir, Patience::new(STILL_MAX, WAIT_MAX))
    }

    fn lock_patiently(&self, dir: &Path, mut patience: Patience) -> Result<Box<dyn Guard>, Refusal> {
        let cannot = |error: rustix::io::Errno| {
            knob_error(error.into()).into_refusal(Subject::Operation, &dir.display().to_string())
        };
        let mut fd = open(dir, true).map_err(cannot)?;
        loop {
            match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_named(&fd, dir) => return Ok(Box::new(Lock { _fd: fd })),
                // The file was removed while we opened it. Use the next one of that name.
                Ok(()) => fd = open(dir, true).map_err(cannot)?,
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                    fd = self.waited_for(fd, &mut patience, cannot)?;
                }
                Err(error) => return Err(cannot(error)),
            }
        }
    }

    /// Waits for the lock in order. Returns the locked file.
    fn waited_for(
        &self,
        fd: OwnedFd,
        patience: &mut Patience,
        cannot: impl Fn(rustix::io::Errno) -> Refusal,
    ) -> Result<OwnedFd, Refusal> {
        let looked = fd.try_clone().map_err(|e| Refusal::operation(Reason::Machine(e.to_string())))?;
        let turn = queue(fd)?;
        let mut look = LOOK.min(patience.still_max);
        loop {
            match turn.recv_timeout(look) {
                Ok(locked) => return locked.map_err(cannot),
                Err(RecvTimeoutError::Timeout) => {
                    let sign = self.sign_of(looked.as_fd());
                    if !patience.goes_on(sign.clone(), look) {
                        return Err(given_up(sign.holder()));
                    }
                    look = (look * 2).min(LOOK_MAX);
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Refusal::operation(Reason::Machine("waiting for the lock ended".into())));
                }
            }
        }
    }

    /// Whether a writer holds the lock of a directory. Several processes can check at once, because they share the lock. A new
    /// writer waits in the kernel's queue as long as the result lives.
    pub(crate) fn writing_in(&self, dir: &Path) -> Writing {
        let Ok(fd) = open(dir, false) else { return Writing::Unknown };
        match flock(&fd, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Writing::Nobody(Box::new(Lock { _fd: fd })),
            Err(rustix::io::Errno::WOULDBLOCK) => Writing::Now,
            Err(_) => Writing::Unknown,
        }
    }

    /// The observed state of the lock holder.
    fn sign_of(&self, dir: BorrowedFd<'_>) -> Sign {
        let root = &self.os.root;
        let locks = root.read(&root.proc.join("locks")).ok().flatten().unwrap_or_default();
        let pid = fstat(dir).ok().and_then(|stat| {
            holder_in(
                &locks,
                &format!("{:02x}:{:02x}:{}", major(stat.st_dev), minor(stat.st_dev), stat.st_ino),
            )
        });
        let used = pid.and_then(|pid| root.read(&root.proc.join(format!("{pid}/stat"))).ok()?);
        let running = self.journal.unfinished().ok().flatten();
        let running = running.filter(|o| pid.is_none_or(|pid| o.pid == Pid(pid)));
        let pid = pid.or(running.as_ref().map(|o| o.pid.0));
        Sign { pid, used, doing: running.map(|o| (o.what, o.steps.len())) }
    }
}

/// Opens the object to lock: a directory that only its owner can open, or a lock file. A mere check creates no file.
fn open(place: &Path, makes: bool) -> Result<OwnedFd, rustix::io::Errno> {
    if place.is_dir() {
        return rustix::fs::open(place, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    }
    if !makes && !place.exists() {
        return Err(rustix::io::Errno::NOENT);
    }
    let file = open_lock_file(place)
        .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::ACCESS))?;
    Ok(file.into())
}

/// Whether the locked object still has its name.
fn is_named(fd: &OwnedFd, place: &Path) -> bool {
    fd.try_clone().is_ok_and(|fd| has_name(&File::from(fd), place)) || place.is_dir()
}

/// Waits on a separate thread. If the caller has given up, the lock is released at once.
fn queue(fd: OwnedFd) -> Result<Receiver<Result<OwnedFd, rustix::io::Errno>>, Refusal> {
    let (tell, turn) = channel();
    let wait = move || {
        let result = loop {
            match flock(&fd, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                result => break result,
            }
        };
        // If the receiver is gone, this drops the lock.
        let _ = tell.send(result.map(|()| fd));
    };
    let started = std::thread::Builder::new().name("lock".into()).spawn(wait);
    started
        .map_err(|e| Refusal::operation(Reason::Machine(format!("there is no thread to wait on: {e}"))))?;
    Ok(turn)
}

fn given_up(holder: Option<Holder>) -> Refusal {
    let hint = holder.as_ref().map_or_else(
        || "wait for it, or look for a stopped millpond process".to_owned(),
        |h| format!("wait for it; if process {} hangs, end it: what it began is put back", h.pid),
    );
    Refusal::operation(Reason::Busy(holder)).hint(hint)
}

/// The process that holds the lock of a file, from the text of `/proc/locks`: `4: FLOCK  ADVISORY  WRITE 812 00:1a:1 0 EOF`.
/// Lines of waiting processes have an arrow in front. Shared holders have `READ`; one is returned if no process holds the lock
/// exclusively. A holder in another container has no process id here.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    let holder = |kind: &str| {
        locks.lines().find_map(|line| match *line.split_ascii_whitespace().collect::<Vec<_>>().as_slice() {
            [_, "FLOCK", _, how, pid, at, ..] if how == kind && at == file => {
                pid.parse().ok().filter(|pid| *pid > 0)
            }
            _ => None,
        })
    };
    holder("WRITE").or_else(|| holder("READ"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use millpond_machine::{Journal, MemoryJournal};

    const STEP: Duration = Duration::from_secs(1);

    fn sign(pid: u32, used: &str) -> Sign {
        Sign { pid: Some(pid), used: Some(used.into()), doing: None }
    }

    #[test]
    fn waiting_goes_on_while_holders_change_or_work_and_ends_when_one_lies_still() {
        let mut patience = Patience::new(STEP * 10, STEP * 1000);
        for n in 0..300 {
            assert!(patience.goes_on(sign(n / 5, "0"), STEP), "holder {n} has had its turn");
        }
        for used in 0..300 {
            assert!(patience.goes_on(sign(7, &used.to_string()), STEP), "it works");
        }
        let still = (0..20).take_while(|_| patience.goes_on(sign(7, "299"), STEP)).count();
        assert_eq!(still, 9);
        let mut patience = Patience::new(STEP * 10, STEP * 100);
        assert_eq!((0..).take_while(|n| patience.goes_on(sign(*n, "0"), STEP)).count(), 99, "not for ever");
    }

    #[test]
    fn the_kernel_tells_who_holds_a_lock_and_who_only_waits() {
        let locks = "1: FLOCK  ADVISORY  WRITE 812 00:1a:1 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 9 00:1a:1 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 7 00:1a:2 0 EOF\n3: FLOCK  ADVISORY  WRITE 0 00:1a:3 0 EOF\n";
        assert_eq!(holder_in(locks, "00:1a:1"), Some(812));
        assert_eq!(holder_in(locks, "00:1a:2"), None);
        assert_eq!(holder_in(locks, "00:1a:3"), None, "it is in another container");
        let shared = "1: FLOCK  ADVISORY  READ 8 00:1a:1 0 EOF\n";
        assert_eq!(holder_in(shared, "00:1a:1"), Some(8), "one that shares it keeps writers out as well");
        let both = format!("{shared}2: FLOCK  ADVISORY  WRITE 812 00:1a:1 0 EOF\n");
        assert_eq!(holder_in(&both, "00:1a:1"), Some(812));
    }

    fn machine(dir: &Path) -> LinuxMachine {
        let journal = MemoryJournal::default();
        journal.begin("create processor set 1", "boot", &[]).unwrap();
        LinuxMachine::open(Root::captured(dir), Box::new(journal))
    }

    #[test]
    fn who_is_given_up_is_told_by_number_and_work() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path());
        let held = machine.lock_dir(dir.path()).unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        let said = || {
            let refused = machine.lock_patiently(dir.path(), Patience::new(Duration::from_millis(1), STEP));
            refused.err().unwrap().reason.to_string()
        };
        // A journal in memory has no writer process: it reports 0.
        assert_eq!(said(), "another change is under way (process 0: create processor set 1)");
        std::os::unix::fs::symlink("/proc/locks", dir.path().join("proc/locks")).unwrap();
        let own = std::process::id();
        assert_eq!(said(), format!("another change is under way (process {own})"));
        drop(held);
        machine.lock_dir(dir.path()).unwrap();
    }

    #[test]
    fn who_looks_sees_a_writer_and_holds_none_up_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let machine = machine(dir.path());
        let is_nobody = || matches!(machine.writing_in(dir.path()), Writing::Nobody(_));
        assert!(is_nobody());
        let held = machine.lock_dir(dir.path()).unwrap();
        assert!(matches!(machine.writing_in(dir.path()), Writing::Now));
        drop(held);
        // A child that another test starts keeps our lock until it calls exec.
        let look = |_| {
            std::thread::sleep(Duration::from_millis(1));
            Some(machine.writing_in(dir.path())).filter(|looks| matches!(looks, Writing::Nobody(_)))
        };
        let looks = (0..20_000).find_map(look).unwrap();
        assert!(is_nobody(), "several look at once");
        std::thread::scope(|scope| {
            let writes = scope.spawn(|| drop(self::machine(dir.path()).lock_dir(dir.path()).unwrap()));
            drop(looks);
            writes.join().unwrap();
        });
        assert!(matches!(machine.writing_in(&dir.path().join("none")), Writing::Unknown));
    }

    #[test]
    fn no_lock_of_another_user_stops_a_writer() {
        let name = "no_lock_of_another_user_stops_a_writer";
        let dir = tempfile::tempdir().unwrap();
        if !rustix::process::geteuid().is_root() {
            println!("skipped: {name}: what a user locks is a directory of its own");
            return;
        }
        let mut root = Root::captured(dir.path());
        root.live = true;
        let machine = LinuxMachine::open(root, Box::new(MemoryJournal::default()));
        let place = machine.locked_place();
        assert_eq!(place, dir.path().join("run/millpond/writer.lock"));
        drop(millpond_machine::Knobs::lock(&machine).unwrap());
        use std::os::unix::fs::MetadataExt;
        assert_eq!(std::fs::metadata(&place).unwrap().mode() & 0o777, 0o600, "no other user can open it");
        // Writers do not use objects that every user can open and lock.
        for open in [dir.path().join("run/millpond"), dir.path().join("state"), dir.path().join("cgroup")] {
            std::fs::create_dir_all(&open).unwrap();
            let held = rustix::fs::open(&open, OFlags::RDONLY, Mode::empty()).unwrap();
            flock(&held, FlockOperation::LockShared).unwrap();
            // A child that another test starts keeps our lock until it calls exec: some ms, far more under valgrind.
            let patience = Patience::new(Duration::from_secs(20), Duration::from_secs(20));
            drop(machine.lock_patiently(&machine.locked_place(), patience).unwrap());
        }
        // A file that was removed while locked is no lock any more.
        let held = machine.lock_dir(&place).unwrap();
        std::fs::remove_file(&place).unwrap();
        drop(machine.lock_dir(&place).unwrap());
        drop(held);
    }

    #[test]
    fn everybody_gets_a_turn() {
        let dir = tempfile::tempdir().unwrap();
        let holders = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let machine = machine(dir.path());
                    for _ in 0..50 {
                        let held = machine.lock_dir(dir.path()).unwrap();
                        let before = holders.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert_eq!(before, 0, "two hold it at once");
                        holders.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(held);
                    }
                });
            }
        });
    }
}
