//! Conversion of thread data from either source into entries of the facet.

use crate::census::details::Places;
use millpond_model::{
    Causes, Class, CpuId, Doing, Lwp, LwpId, MICROSTATES, Microstate, Named, Nanos, Pid, ProcessEntry, Spent,
    Standing, ThreadEntry,
};

/// Flag of kernel threads.
const PF_KTHREAD: u32 = 0x0020_0000;

const POLICY_IDLE: u32 = 5;
const POLICY_DEADLINE: u32 = 6;

/// Static priority of nice 0 (`NICE_TO_PRIO(0)`).
const NOT_NICE: i32 = 120;
/// Kernel priorities below this one are real-time (`MAX_RT_PRIO`).
const REAL_TIME: i32 = 100;
/// Highest level of class RT.
const RT_LAST: i32 = 59;

/// Resolution of thread start times in `/proc`. Two readings of one thread agree to this precision.
pub(super) const BEGAN_NS: u64 = 10_000_000;

/// Raw data of a thread, or of a whole process where only processes are listed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    /// Process id.
    pub(super) pid: u32,
    /// Thread id.
    pub(super) tid: u32,
    /// Session id.
    pub(super) session: u32,
    /// Short name (`comm`).
    pub(super) name: String,
    /// Kernel flags (`PF_*`).
    pub(super) flags: u32,
    /// Current activity.
    pub(super) doing: Doing,
    /// Last CPU.
    pub(super) cpu: u32,
    /// Kernel priority: below 0 for deadline threads, below 100 for real-time threads.
    pub(super) prio: i32,
    /// Nice value.
    pub(super) nice: i32,
    /// Scheduling policy.
    pub(super) policy: u32,
    /// Class and level, if the scheduler of the classes schedules the thread.
    pub(super) level: Option<(Class, i16)>,
    /// Start time, on the monotonic clock.
    pub(super) began: Nanos,
    /// CPU time.
    pub(super) time: Nanos,
    /// CPU time of ended threads of the process; only on the first thread.
    pub(super) ended: Nanos,
    /// Real and effective user id.
    pub(super) users: (u32, u32),
    /// Number of threads that this entry represents.
    pub(super) threads: u32,
    /// Time by microstate.
    pub(super) spent: Option<Spent>,
    /// Causes of its waits, where they are recorded.
    pub(super) causes: Option<Causes>,
}

impl Seen {
    /// Whether it is a kernel thread.
    pub(super) fn is_kernel(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    fn class(&self) -> Class {
        if let Some((class, _)) = self.level {
            return class;
        }
        match () {
            () if self.is_kernel() => Class::Sys,
            () if self.prio < REAL_TIME && self.policy != 0 => Class::Rt,
            () if self.policy == POLICY_IDLE => Class::Fx,
            () => Class::Ts,
        }
    }

    fn standing(&self, places: &Places) -> Standing {
        let class = self.class();
        let lwp = (self.pid, self.tid);
        let nice = i8::try_from(self.nice).ok();
        Standing {
            doing: self.doing,
            class,
            priority: priority(self),
            nice: nice.filter(|_| {
                matches!(class, Class::Ts | Class::Ia | Class::Fx) && self.doing != Doing::Zombie
            }),
            cpu: Some(CpuId(self.cpu)),
            home: places.home(CpuId(self.cpu)),
            set: places.set_of(lwp),
        }
    }

    /// Converts to an entry of a thread.
    pub(super) fn thread(&self, places: &Places) -> ThreadEntry {
        ThreadEntry {
            lwp: Lwp { pid: Pid(self.pid), lwp: LwpId(self.tid) },
            name: self.name.clone(),
            began: self.began,
            standing: self.standing(places),
            time: self.time,
            spent: self.spent,
            causes: self.causes.clone(),
        }
    }
}

fn priority(seen: &Seen) -> i16 {
    if let Some((_, level)) = seen.level {
        return level;
    }
    let points = match seen.prio {
        prio if prio < 0 || seen.policy == POLICY_DEADLINE => 100 + RT_LAST,
        prio if prio < REAL_TIME => 100 + (REAL_TIME - 2 - prio).clamp(0, RT_LAST),
        // Saturating arithmetic: values from a BPF program are untrusted.
        _ if seen.is_kernel() => 60i32.saturating_sub(seen.nice.min(0)),
        _ if seen.policy == POLICY_IDLE => 0,
        prio => (29 - prio.saturating_sub(NOT_NICE).saturating_mul(3) / 2).clamp(0, 59),
    };
    i16::try_from(points).unwrap_or(0)
}

/// Entries of the processes of `seen`, which is in ascending order.
pub(super) fn processes(seen: &[Seen], places: &Places) -> Vec<ProcessEntry> {
    seen.chunk_by(|a, b| a.pid == b.pid).filter_map(|threads| process(threads, places)).collect()
}

fn process(threads: &[Seen], places: &Places) -> Option<ProcessEntry> {
    let first = threads.iter().find(|seen| seen.tid == seen.pid).or_else(|| threads.first())?;
    let own = places.of(first.pid);
    let project = match first {
        first if first.is_kernel() => (0, "system"),
        first if first.users.0 == 0 => (1, "user.root"),
        _ => (3, "default"),
    };
    Some(ProcessEntry {
        pid: Pid(first.pid),
        name: first.name.clone(),
        began: first.began,
        standing: Standing::of_process(threads.iter().map(|seen| seen.standing(places)))?,
        time: threads.iter().fold(first.ended, |sum, seen| sum + seen.time),
        threads: threads.iter().map(|seen| seen.threads).sum(),
        euid: first.users.1,
        uid: first.users.0,
        size: own.and_then(|own| own.size),
        rss: own.and_then(|own| own.rss),
        zone: own.map_or_else(|| Named { id: 0, name: "global".into() }, |own| own.zone.clone()),
        task: first.session,
        project: Named { id: project.0, name: project.1.to_owned() },
    })
}

/// Per-thread figures that the kernel keeps without BPF programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Time since the thread began.
    pub(super) age: Nanos,
    /// CPU time, exact.
    pub(super) time: Nanos,
    /// User and system time, sampled by clock ticks.
    pub(super) ticks: [u64; 2],
    /// Time waited for a CPU.
    pub(super) waited: Nanos,
    /// Voluntary context switches.
    pub(super) voluntary: Option<u64>,
    /// Involuntary context switches.
    pub(super) involuntary: Option<u64>,
}

impl Kept {
    /// Converts to microstates. The remaining time is sleep.
    pub(super) fn spent(&self) -> Spent {
        let [user, system] = self.ticks.map(u128::from);
        let share = |part: u128, all: u128| u128::from(self.time.0) * part / all;
        let user = if user + system == 0 { u128::from(self.time.0) } else { share(user, user + system) };
        let user = Nanos(u64::try_from(user).unwrap_or(u64::MAX));
        let mut times = [None; MICROSTATES.len()];
        times[Microstate::User.index()] = Some(user);
        times[Microstate::System.index()] = Some(self.time - user);
        times[Microstate::Latency.index()] = Some(self.waited);
        times[Microstate::Sleep.index()] = Some(self.age - self.time - self.waited);
        Spent { times, voluntary: self.voluntary, involuntary: self.involuntary, ..Spent::default() }
    }
}

#[cfg(test)]
pub(in crate::census) mod tests {
    use super::*;

    pub(in crate::census) fn seen(pid: u32, tid: u32) -> Seen {
        Seen {
            pid,
            tid,
            session: 7,
            name: "x".into(),
            flags: 0,
            doing: Doing::Asleep,
            cpu: 0,
            prio: 120,
            nice: 0,
            policy: 0,
            level: None,
            began: Nanos(0),
            time: Nanos(5),
            ended: Nanos(0),
            users: (0, 0),
            threads: 1,
            spent: None,
            causes: None,
        }
    }

    #[test]
    fn priorities_have_the_places_of_their_classes() {
        let of = |flags, policy, prio, nice| {
            let seen = Seen { flags, policy, prio, nice, ..seen(1, 1) };
            (seen.class().word(), priority(&seen))
        };
        assert_eq!(of(0, 0, 120, 0), ("TS", 29));
        assert_eq!(of(0, 0, 100, -20), ("TS", 59));
        assert_eq!(of(0, 0, 139, 19), ("TS", 1));
        assert_eq!(of(0, POLICY_IDLE, 120, 0), ("FX", 0));
        assert_eq!(of(PF_KTHREAD, 0, 120, 0), ("SYS", 60));
        assert_eq!(of(PF_KTHREAD, 0, 100, -20), ("SYS", 80));
        // SCHED_FIFO 1, 50 and 99, and SCHED_DEADLINE.
        assert_eq!(of(0, 1, 98, 0), ("RT", 100));
        assert_eq!(of(0, 1, 49, 0), ("RT", 149));
        assert_eq!(of(0, 1, 0, 0), ("RT", 159));
        assert_eq!(of(0, POLICY_DEADLINE, -1, 0), ("RT", 159));
        // Values that are not valid priorities.
        assert_eq!((of(0, 0, i32::MAX, 0), of(PF_KTHREAD, 0, 120, i32::MIN)), (("TS", 0), ("SYS", 0)));
    }

    #[test]
    fn what_the_scheduler_of_the_classes_has_goes_before_the_policy() {
        let seen = Seen { policy: 7, nice: 5, level: Some((Class::Ia, 59)), ..seen(1, 1) };
        let standing = seen.standing(&Places::default());
        assert_eq!((standing.class, standing.priority, standing.nice), (Class::Ia, 59, Some(5)));
    }

    #[test]
    fn a_process_is_the_sum_of_its_threads_and_of_those_that_ended() {
        let runs = Seen { doing: Doing::OnCpu(CpuId(1)), name: "y".into(), ..seen(3, 4) };
        let first = Seen { ended: Nanos(100), ..seen(3, 3) };
        let found = processes(&[seen(2, 2), first, runs], &Places::default());
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].pid, found[1].threads, found[1].time), (Pid(3), 2, Nanos(110)));
        assert_eq!((found[1].name.as_str(), found[1].standing.doing), ("x", Doing::OnCpu(CpuId(1))));
    }

    #[test]
    fn what_is_kept_adds_up_to_the_age() {
        let kept = Kept {
            age: Nanos(100),
            time: Nanos(40),
            ticks: [3, 1],
            waited: Nanos(20),
            voluntary: Some(1),
            involuntary: None,
        };
        let spent = kept.spent();
        let time = |state: Microstate| spent.times[state.index()];
        assert_eq!((time(Microstate::User), time(Microstate::System)), (Some(Nanos(30)), Some(Nanos(10))));
        assert_eq!((time(Microstate::Latency), time(Microstate::Sleep)), (Some(Nanos(20)), Some(Nanos(40))));
        assert_eq!((time(Microstate::Lock), spent.calls, spent.total()), (None, None, Nanos(100)));
        let young = Kept { ticks: [0, 0], ..kept }.spent();
        assert_eq!(young.times[0], Some(Nanos(40)));
    }
}
