//! What was seen of threads, by either source, as entries of a roster.

use crate::census::details::Places;
use millpond_model::{
    Causes, Class, CpuId, Doing, Lwp, LwpId, MICROSTATES, Microstate, Named, Nanos, Pid, ProcessEntry, Spent,
    Standing, ThreadEntry,
};

/// Threads of the kernel have this flag.
const PF_KTHREAD: u32 = 0x0020_0000;

const POLICY_IDLE: u32 = 5;
const POLICY_DEADLINE: u32 = 6;

/// The kernel's number for how nice nobody is.
const NOT_NICE: i32 = 120;
/// The kernel's priorities below this one are real-time ones.
const REAL_TIME: i32 = 100;
/// Levels of RT.
const RT_LAST: i32 = 59;

/// The precision with which `/proc` tells when a thread began: what two looks at the same thread agree in.
pub(super) const BEGAN_NS: u64 = 10_000_000;

/// A thread, or a whole process where only processes are looked at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    /// The process.
    pub(super) pid: u32,
    /// The thread.
    pub(super) tid: u32,
    /// Its session.
    pub(super) session: u32,
    /// Its short name.
    pub(super) name: String,
    /// The kernel's flags.
    pub(super) flags: u32,
    /// What it does.
    pub(super) doing: Doing,
    /// The CPU that it was on last.
    pub(super) cpu: u32,
    /// The kernel's priority: below 0 for a deadline, below 100 for real time.
    pub(super) prio: i32,
    /// How nice it is.
    pub(super) nice: i32,
    /// The scheduling policy.
    pub(super) policy: u32,
    /// Its class and level, where the scheduler of the classes schedules it.
    pub(super) level: Option<(Class, i16)>,
    /// When it began, on the monotonic clock.
    pub(super) began: Nanos,
    /// CPU time.
    pub(super) time: Nanos,
    /// That of the threads of the process that ended; with the first thread only.
    pub(super) ended: Nanos,
    /// The real user and the effective one.
    pub(super) users: (u32, u32),
    /// How many threads this stands for.
    pub(super) threads: u32,
    /// Where its time went.
    pub(super) spent: Option<Spent>,
    /// What its waits were for, where that is kept.
    pub(super) causes: Option<Causes>,
}

impl Seen {
    /// Whether it is a part of the kernel.
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

    /// As a thread.
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
        // What a program in the kernel tells may be anything.
        _ if seen.is_kernel() => 60i32.saturating_sub(seen.nice.min(0)),
        _ if seen.policy == POLICY_IDLE => 0,
        prio => (29 - prio.saturating_sub(NOT_NICE).saturating_mul(3) / 2).clamp(0, 59),
    };
    i16::try_from(points).unwrap_or(0)
}

/// The processes of threads that are ascending.
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

/// What the kernel keeps by itself about a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// How old it is.
    pub(super) age: Nanos,
    /// CPU time, which is exact.
    pub(super) time: Nanos,
    /// In user mode and in the kernel, as clock ticks found it.
    pub(super) ticks: [u64; 2],
    /// How long it waited for a CPU.
    pub(super) waited: Nanos,
    /// Switches of its own will.
    pub(super) voluntary: Option<u64>,
    /// Other switches.
    pub(super) involuntary: Option<u64>,
}

impl Kept {
    /// As microstates: sleep is what remains.
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
        // SCHED_FIFO 1, 50 and 99, and a promise.
        assert_eq!(of(0, 1, 98, 0), ("RT", 100));
        assert_eq!(of(0, 1, 49, 0), ("RT", 149));
        assert_eq!(of(0, 1, 0, 0), ("RT", 159));
        assert_eq!(of(0, POLICY_DEADLINE, -1, 0), ("RT", 159));
        // MappedWords that are no priority at all.
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
