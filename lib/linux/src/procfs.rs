//! The data that we read about processes and threads.

use crate::knob::TaskId;
use crate::{Os, affinity, is_gone};
use millpond_machine::{Reason, Refusal, Subject};
use millpond_model::{CpuSet, Pid, printable};
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

const PF_EXITING: u64 = 0x0000_0004;
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

/// The data of a thread from `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Short name.
    pub comm: String,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Whether the kernel refuses to change its affinity.
    pub pinned: bool,
    /// Start time in clock ticks since boot.
    pub start: u64,
    /// Scheduling policy.
    pub policy: u64,
    /// Nice value, -20 to 19.
    pub nice: i64,
    /// Priority under SCHED_FIFO and SCHED_RR, 1 to 99; else 0.
    pub priority: u64,
    /// Parent process id.
    pub ppid: Option<u32>,
    /// Process group id.
    pub pgid: Option<u32>,
    /// Session id.
    pub sid: Option<u32>,
    /// Whether it is a zombie.
    pub dead: bool,
    /// Whether it is exiting: it runs no user code any more, and cannot be moved.
    pub exiting: bool,
}

/// Number of the `stat` field with the state.
pub(crate) const STATE: usize = 3;
/// Number of the field with the parent.
pub(crate) const PARENT: usize = 4;
/// Number of the field with the last CPU.
pub(crate) const PROCESSOR: usize = 39;

/// A field of a `stat` file by its number in proc_pid_stat(5), from 3. Field 2 is the name, which may contain anything, so the
/// fields are counted from its end.
pub(crate) fn stat_field(text: &str, number: usize) -> Option<&str> {
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(number.checked_sub(STATE)?)
}

/// The name in a `stat` file, unescaped.
pub(crate) fn raw_comm(text: &str) -> Option<&str> {
    Some(text.rsplit_once(')')?.0.split_once('(')?.1)
}

/// Parses the text of a `stat` file. The name may contain blanks and parentheses, so the fields are counted
/// from the last `)`.
#[must_use]
pub fn parse_stat(text: &str) -> Option<Stat> {
    let (head, tail) = text.rsplit_once(')')?;
    let comm = printable(head.split_once('(')?.1).into_owned();
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let number = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok());
    let id = |n: usize| number(n).and_then(|id| u32::try_from(id).ok());
    let flags = number(6)?;
    let kernel = flags & PF_KTHREAD != 0;
    // The thread that creates the others (kthreadd) has no parent and no flag for this. The kernel keeps it in the root.
    let maker = kernel && number(1) == Some(0);
    Some(Stat {
        comm,
        kernel,
        pinned: maker || flags & PF_NO_SETAFFINITY != 0,
        start: number(19)?,
        policy: number(38).unwrap_or(0),
        nice: fields.get(16).and_then(|f| f.parse().ok()).unwrap_or(0),
        priority: number(37).unwrap_or(0),
        ppid: id(1),
        pgid: id(2),
        sid: id(3),
        dead: matches!(fields.first(), Some(&"Z" | &"X")),
        exiting: flags & PF_EXITING != 0,
    })
}

/// The largest number of cached threads; then the cache is cleared.
const PROCESSES_MAX: usize = 4096;

impl Os {
    fn task_dir(&self, pid: u32, tid: Option<u32>) -> PathBuf {
        let dir = self.root.proc.join(pid.to_string());
        match tid {
            None => dir,
            Some(tid) => dir.join("task").join(tid.to_string()),
        }
    }

    /// The `stat` file of a process or thread. For `/proc/PID/stat` the kernel sums up all threads of the process, so reading it
    /// for each thread has quadratic cost. No sums are needed here.
    fn stat_file(&self, pid: u32, tid: Option<u32>) -> PathBuf {
        let tid = if self.root.is_live() { tid.or(Some(pid)) } else { tid };
        self.task_dir(pid, tid).join("stat")
    }

    /// The `stat` of a process, or of one of its threads. `None` when it does not exist.
    ///
    /// # Errors
    /// Other errors of reading it.
    pub fn stat(&self, pid: u32, tid: Option<u32>) -> io::Result<Option<Stat>> {
        let text = self.root.read_value(&self.stat_file(pid, tid))?;
        Ok(text.and_then(|text| parse_stat(&text)))
    }

    /// All process ids, ascending.
    ///
    /// # Errors
    /// When procfs cannot be read.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        let mut pids: Vec<u32> =
            self.root.names(&self.root.proc)?.iter().filter_map(|n| n.parse().ok()).collect();
        pids.sort_unstable();
        Ok(pids)
    }

    /// The threads of a process, ascending. Empty when it does not exist.
    ///
    /// # Errors
    /// When procfs cannot be read.
    pub fn tids(&self, pid: u32) -> io::Result<Vec<u32>> {
        let names = self.root.names(&self.task_dir(pid, None).join("task"))?;
        let mut tids: Vec<u32> = names.iter().filter_map(|n| n.parse().ok()).collect();
        tids.sort_unstable();
        Ok(tids)
    }

    /// The threads in each cgroup of the cpuset hierarchy. May include threads that end during the call.
    ///
    /// # Errors
    /// When the hierarchy cannot be read.
    pub fn threads_by_group(&self) -> io::Result<Vec<(String, Vec<u32>)>> {
        let mut found = Vec::new();
        let mut left = vec!["/".to_owned()];
        while let Some(path) = left.pop() {
            let Some(dir) = self.hierarchy.dir(&path) else { break };
            // A cgroup that is removed meanwhile lists nothing.
            let text = self.root.read(&dir.join(self.threads_file()))?.unwrap_or_default();
            found
                .push((path.clone(), text.split_ascii_whitespace().filter_map(|t| t.parse().ok()).collect()));
            let above = path.trim_end_matches('/');
            left.extend(self.root.dirs(&dir)?.into_iter().map(|name| format!("{above}/{name}")));
        }
        Ok(found)
    }

    /// Whether a thread may have an affinity mask of a single CPU, or one of `lists`. `false` only if the kernel shows at once
    /// that it has not.
    #[must_use]
    pub fn may_be_bound(&self, tid: u32, lists: &BTreeSet<CpuSet>) -> bool {
        let may = |mask: CpuSet| mask.len() == 1 || lists.contains(&mask);
        // Most threads with a single CPU are kernel threads.
        let is_bound = |tid| affinity::get(tid, self.width()).is_ok_and(may) && !affinity::has_no_memory(tid);
        !self.root.is_live() || is_bound(tid)
    }

    /// The process that a thread belongs to.
    ///
    /// # Errors
    /// When procfs cannot be read.
    pub fn process_of(&self, tid: u32) -> io::Result<Option<u32>> {
        let status = self.root.read_value(&self.root.proc.join(tid.to_string()).join("status"))?;
        Ok(status
            .and_then(|text| text.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())))
    }

    /// The process of the thread with this start time. It never changes.
    pub(crate) fn process_of_started(&self, tid: u32, start: u64) -> Option<u32> {
        let known = self.processes.borrow().get(&(tid, start)).copied();
        if known.is_some() {
            return known;
        }
        let pid = self.process_of(tid).ok().flatten()?;
        self.remember_process(tid, start, pid);
        Some(pid)
    }

    fn remember_process(&self, tid: u32, start: u64, pid: u32) {
        let mut processes = self.processes.borrow_mut();
        if processes.len() >= PROCESSES_MAX {
            processes.clear();
        }
        processes.insert((tid, start), pid);
    }

    /// The effective user and group id of a process.
    #[must_use]
    pub fn owner_of(&self, pid: u32) -> (Option<u32>, Option<u32>) {
        let text =
            self.root.read(&self.task_dir(pid, None).join("status")).ok().flatten().unwrap_or_default();
        let effective = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(key))?;
            line.split_ascii_whitespace().nth(1)?.parse().ok()
        };
        (effective("Uid:"), effective("Gid:"))
    }

    /// Whether we may change the affinity of a process: it is ours, or we are root.
    #[must_use]
    pub fn may_control(&self, pid: u32) -> bool {
        use std::os::unix::fs::MetadataExt;
        let us = rustix::process::geteuid().as_raw();
        let owner = std::fs::metadata(self.task_dir(pid, None)).map(|m| m.uid());
        !self.root.is_live() || us == 0 || owner.is_ok_and(|owner| owner == us)
    }

    /// The parent of a process; `None` when it does not exist.
    #[must_use]
    pub fn parent_of(&self, pid: u32) -> Option<u32> {
        let text = self.root.read(&self.task_dir(pid, None).join("stat")).ok()??;
        stat_field(&text, PARENT)?.parse().ok()
    }

    /// The cgroup of a process or thread in the cpuset hierarchy.
    ///
    /// # Errors
    /// When procfs cannot be read.
    pub fn place(&self, pid: u32, tid: Option<u32>) -> io::Result<Option<String>> {
        let Some(text) = self.root.read_value(&self.task_dir(pid, tid).join("cgroup"))? else {
            return Ok(None);
        };
        Ok(self.hierarchy.find(&text))
    }

    /// Identifies a process, or one of its threads, by id and start time.
    ///
    /// # Errors
    /// [`Refusal`] when it does not exist, or is a kernel thread.
    pub fn identify(&self, pid: Pid, tid: Option<u32>) -> Result<(TaskId, Stat), Refusal> {
        let gone = || {
            let reason = if tid.is_some() { Reason::NoSuchLwp } else { Reason::NoSuchProcess };
            Refusal::new(Subject::Process(pid), reason)
        };
        let stat = match self.stat(pid.0, tid) {
            Ok(Some(stat)) if !stat.dead => stat,
            Ok(_) => return Err(gone()),
            Err(error) if is_gone(&error) => return Err(gone()),
            Err(error) => {
                return Err(Refusal::new(Subject::Process(pid), Reason::Machine(error.to_string())));
            }
        };
        if let Some(tid) = tid {
            // It was found below this process.
            self.remember_process(tid, stat.start, pid.0);
        }
        Ok((TaskId { pid: pid.0, tid, start: stat.start }, stat))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use proptest::prelude::*;

    #[test]
    fn the_stat_of_a_process_is_read_where_no_threads_are_added_up() {
        let os = Os::new(Root::live(PathBuf::from("/nowhere")));
        let own = std::process::id();
        assert_eq!(os.stat_file(own, None), PathBuf::from(format!("/proc/{own}/task/{own}/stat")));
        let here = os.stat(own, None).unwrap().unwrap();
        let other = std::thread::spawn(move || {
            // A thread can be found by its id alone, as the task lists of version 1 contain it.
            let tid = u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let os = Os::new(Root::live(PathBuf::from("/nowhere")));
            (os.stat(tid, None).unwrap().unwrap(), os.stat(own, Some(tid)).unwrap().unwrap())
        });
        let (by_number, of_process) = other.join().unwrap();
        assert_eq!(by_number, of_process);
        assert!(by_number.start >= here.start);
    }

    #[test]
    fn a_thread_without_memory_is_the_kernels_or_has_ended() {
        let os = Os::new(Root::live(PathBuf::from("/nowhere")));
        assert!(!affinity::has_no_memory(std::process::id()));
        for pid in os.pids().unwrap().into_iter().filter(|pid| affinity::has_no_memory(*pid)) {
            let stat = os.stat(pid, None).unwrap();
            assert!(
                stat.as_ref().is_none_or(|stat| stat.kernel || stat.exiting || stat.dead),
                "{pid}: {stat:?}"
            );
        }
    }

    #[test]
    fn a_thread_on_its_way_out_says_so_in_its_flags() {
        let line = |flags: u64| format!("7 (a) S 9) R 1 7 9 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 3");
        let is_exiting = |text: &str| parse_stat(text).is_some_and(|stat| stat.exiting);
        assert!(is_exiting(&line(0x40_0004)) && is_exiting(&line(4)));
        assert!(!is_exiting(&line(0x40_0000)) && !is_exiting(&line(0)) && !is_exiting("7 (a) R"));
    }

    #[test]
    fn a_name_may_hold_blanks_and_parentheses() {
        let text = "7 (a) b (c)) S 1 7 9 0 -1 4194560 1 0 0 0 5 6 0 0 15 -5 1 0 8123 100 10 \
                    18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 40 6 0 0 0";
        let stat = parse_stat(text).unwrap();
        assert_eq!(stat.comm, "a) b (c)");
        assert_eq!(stat.start, 8123);
        assert_eq!((stat.policy, stat.nice, stat.priority), (6, -5, 40));
        assert_eq!((stat.ppid, stat.pgid, stat.sid), (Some(1), Some(7), Some(9)));
        assert!(!stat.kernel && !stat.pinned && !stat.dead);
    }

    #[test]
    fn flags_tell_kernel_threads_that_may_not_be_moved() {
        let line = |flags: u64| format!("9 (k) I 2 0 0 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 3");
        let stat = parse_stat(&line(PF_KTHREAD | PF_NO_SETAFFINITY)).unwrap();
        assert!(stat.kernel && stat.pinned);
        let stat = parse_stat(&line(PF_KTHREAD)).unwrap();
        assert!(stat.kernel && !stat.pinned);
        let maker = format!("2 (kthreadd) S 0 0 0 0 -1 {PF_KTHREAD} 0 0 0 0 0 0 0 0 20 0 1 0 3");
        assert!(parse_stat(&maker).unwrap().pinned);
    }

    #[test]
    fn fuzz_stat_of_a_thread() {
        let seeds = [
            "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 8123 100 10 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 6 0 0 0",
            "2 (kthreadd) S 0 0 0 0 -1 2097216 0 0 0 0 0 0 0 0 20 0 1 0 3",
        ];
        millpond_fuzz::check_text("linux-task-stat", &seeds, |text| {
            if let Some(stat) = parse_stat(text) {
                assert!(!stat.comm.contains(char::is_control), "{stat:?}");
                assert!(text.contains(&format!("({})", raw_comm(text).unwrap())), "{stat:?}");
            }
        });
    }

    proptest! {
        #[test]
        fn parsing_any_text_never_panics(text in "[0-9a-z() -]{0,60}") {
            let _ = parse_stat(&text);
        }
    }
}
