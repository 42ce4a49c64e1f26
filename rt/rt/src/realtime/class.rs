//! The scheduling class of a thread, by `sched_setattr`.

use super::outcome::{Refusal, check, errno};
use super::rights::{Capability, has, limit};
use libc::sched_attr;
use std::fmt;
use std::io;
use std::time::Duration;

/// A scheduling class with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulingClass {
    /// First in, first out: runs until it waits or a thread of higher priority preempts it.
    Fifo {
        /// 1 to 99; the highest wins.
        priority: u32,
    },
    /// As FIFO, with time slices among threads of one priority.
    RoundRobin {
        /// 1 to 99; the highest wins.
        priority: u32,
    },
    /// A runtime in each period, before a deadline: `runtime` <= `deadline` <= `period`. Preempts FIFO.
    Deadline {
        /// Worst-case run time in each period.
        runtime: Duration,
        /// Deadline for that run time, from the beginning of the period.
        deadline: Duration,
        /// Time from one beginning to the next.
        period: Duration,
    },
    /// Time-sharing, the class of usual threads.
    Other {
        /// -20 to 19; the lowest wins.
        nice: i32,
    },
}

impl fmt::Display for SchedulingClass {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SchedulingClass::Fifo { priority } => write!(out, "FIFO, priority {priority}"),
            SchedulingClass::RoundRobin { priority } => write!(out, "RR, priority {priority}"),
            SchedulingClass::Deadline { runtime, deadline, period } => {
                write!(out, "DEADLINE, {runtime:?} within {deadline:?} of each {period:?}")
            }
            SchedulingClass::Other { nice } => write!(out, "OTHER, nice {nice}"),
        }
    }
}

/// Scheduling attributes of a thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes(sched_attr);

/// Size of the structure in the first version of the call, which every kernel supports.
const SIZE: u32 = 48;
const _: () = assert!(size_of::<sched_attr>() == SIZE as usize);

/// Children begin in time-sharing. The flag of the thread is preserved.
const RESET_ON_FORK: u64 = 1;

impl Attributes {
    pub(super) fn current() -> io::Result<Attributes> {
        let mut attributes = empty();
        // SAFETY: it writes at most `SIZE` bytes.
        check(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, SIZE, 0) })?;
        Ok(Attributes(attributes))
    }

    fn set(&self) -> io::Result<()> {
        // SAFETY: it reads as many bytes as the record's size field says.
        check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const self.0, 0) })
    }

    /// Attributes that set a class; `None` for a time that does not fit in 64 bits.
    fn of(class: SchedulingClass, before: &Attributes) -> Option<Attributes> {
        let mut new = empty();
        new.sched_flags = before.0.sched_flags & RESET_ON_FORK;
        match class {
            SchedulingClass::Fifo { priority } => {
                (new.sched_policy, new.sched_priority) = (policy(libc::SCHED_FIFO), priority);
                new.sched_nice = before.0.sched_nice;
            }
            SchedulingClass::RoundRobin { priority } => {
                (new.sched_policy, new.sched_priority) = (policy(libc::SCHED_RR), priority);
                new.sched_nice = before.0.sched_nice;
            }
            SchedulingClass::Deadline { runtime, deadline, period } => {
                new.sched_policy = policy(libc::SCHED_DEADLINE);
                new.sched_runtime = u64::try_from(runtime.as_nanos()).ok()?;
                new.sched_deadline = u64::try_from(deadline.as_nanos()).ok()?;
                new.sched_period = u64::try_from(period.as_nanos()).ok()?;
            }
            SchedulingClass::Other { nice } => {
                (new.sched_policy, new.sched_nice) = (policy(libc::SCHED_OTHER), nice);
            }
        }
        Some(Attributes(new))
    }
}

fn empty() -> sched_attr {
    sched_attr {
        size: SIZE,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    }
}

fn policy(policy: libc::c_int) -> u32 {
    policy.cast_unsigned()
}

impl fmt::Display for Attributes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Attributes(sched_attr { sched_nice: nice, sched_priority: priority, .. }) = *self;
        let class = match self.0.sched_policy.cast_signed() {
            libc::SCHED_FIFO => SchedulingClass::Fifo { priority },
            libc::SCHED_RR => SchedulingClass::RoundRobin { priority },
            libc::SCHED_DEADLINE => SchedulingClass::Deadline {
                runtime: Duration::from_nanos(self.0.sched_runtime),
                deadline: Duration::from_nanos(self.0.sched_deadline),
                period: Duration::from_nanos(self.0.sched_period),
            },
            libc::SCHED_OTHER => SchedulingClass::Other { nice },
            libc::SCHED_BATCH => return write!(out, "BATCH, nice {nice}"),
            libc::SCHED_IDLE => return write!(out, "IDLE"),
            other => return write!(out, "policy {other}"),
        };
        write!(out, "{class}")
    }
}

/// The calling thread's class, as text.
pub(super) fn current() -> String {
    Attributes::current().map_or_else(|error| error.to_string(), |now| now.to_string())
}

/// Sets the calling thread's class, and returns the previous attributes.
pub(super) fn enter(class: SchedulingClass) -> Result<Attributes, Refusal> {
    let before =
        Attributes::current().map_err(|error| Refusal::system("ask for the class of the thread", &error))?;
    let invalid = io::Error::from_raw_os_error(libc::EINVAL);
    // The kernel would clamp the nice value.
    if matches!(class, SchedulingClass::Other { nice } if !(-20..=19).contains(&nice)) {
        return Err(refused(class, &invalid));
    }
    let new = Attributes::of(class, &before).ok_or_else(|| refused(class, &invalid))?;
    new.set().map_err(|error| refused(class, &error))?;
    Ok(before)
}

pub(super) fn leave(before: &Attributes) -> Result<(), Refusal> {
    before.set().map_err(|error| {
        Refusal::new(errno(&error), format!("cannot go back to {before}: {error}; it takes CAP_SYS_NICE"))
    })
}

/// A warning for a class that was entered.
pub(super) fn note(class: SchedulingClass) -> Option<String> {
    if !matches!(class, SchedulingClass::Fifo { .. } | SchedulingClass::RoundRobin { .. }) {
        return None;
    }
    let time = Duration::from_micros(limit(libc::RLIMIT_RTTIME)?);
    Some(format!("SIGXCPU comes when it runs for {time:?} and never waits: RLIMIT_RTTIME, LimitRTTIME="))
}

fn refused(class: SchedulingClass, error: &io::Error) -> Refusal {
    let caller = Caller {
        can_nice: has(Capability::SysNice),
        top: limit(libc::RLIMIT_RTPRIO),
        nice: limit(libc::RLIMIT_NICE),
    };
    Refusal::new(errno(error), format!("cannot enter {class}: {}", reason(class, error, caller)))
}

/// Rights of the caller that explain a refusal.
#[derive(Debug, Clone, Copy)]
struct Caller {
    can_nice: bool,
    /// The highest priority without CAP_SYS_NICE. `None`: no limit.
    top: Option<u64>,
    /// 20 less the lowest nice value without CAP_SYS_NICE. `None`: no limit.
    nice: Option<u64>,
}

fn reason(class: SchedulingClass, error: &io::Error, caller: Caller) -> String {
    use SchedulingClass::{Deadline, Fifo, Other, RoundRobin};
    match (errno(error), class) {
        (libc::EPERM, Deadline { .. }) if !caller.can_nice => {
            "it takes CAP_SYS_NICE (AmbientCapabilities=), and no limit stands for it".into()
        }
        (libc::EPERM, Deadline { .. }) => {
            "the thread's CPU mask is narrower than its cpuset: ask for no CPUs, or make them a partition \
             (cpuset.cpus.partition); or CAP_SYS_NICE is one of a user namespace, which does not count"
                .into()
        }
        (libc::EPERM, Fifo { priority } | RoundRobin { priority })
            if !caller.can_nice && caller.top.is_some_and(|top| top < u64::from(priority)) =>
        {
            format!(
                "the limit on real-time priorities is {}: raise it (ulimit -r, LimitRTPRIO=), or give CAP_SYS_NICE",
                caller.top.unwrap_or_default()
            )
        }
        (libc::EPERM, Fifo { .. } | RoundRobin { .. }) => {
            "its cgroup (version 1) has no time for real-time threads: write some to cpu.rt_runtime_us, or move it; \
             or CAP_SYS_NICE is one of a user namespace, which does not count"
                .into()
        }
        (libc::EPERM, Other { .. }) => {
            let lowest = 20 - i64::try_from(caller.nice.unwrap_or_default()).unwrap_or_default();
            format!(
                "the lowest nice value is {}: raise the limit (ulimit -e, LimitNICE=), or give CAP_SYS_NICE",
                lowest.min(19)
            )
        }
        (libc::EBUSY, _) => {
            "the deadline threads on these CPUs would have more time than there is for them \
             (kernel.sched_rt_runtime_us): ask for less, or end others"
                .into()
        }
        (libc::EINVAL, Deadline { .. }) => {
            "runtime must be 1024 ns at least, deadline no less than it, period no less than deadline \
             (kernel.sched_deadline_period_min_us and _max_us limit it)"
                .into()
        }
        (libc::EINVAL, Fifo { .. } | RoundRobin { .. }) => "priorities are 1 to 99".into(),
        (libc::EINVAL, Other { .. }) => "nice values are -20 to 19".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Caller = Caller { can_nice: false, top: Some(0), nice: Some(0) };
    const ROOT: Caller = Caller { can_nice: true, ..NOBODY };
    const FIFO: SchedulingClass = SchedulingClass::Fifo { priority: 80 };

    fn deadline() -> SchedulingClass {
        let [runtime, deadline, period] = [2, 5, 10].map(Duration::from_millis);
        SchedulingClass::Deadline { runtime, deadline, period }
    }

    #[test]
    fn classes_are_told_in_words() {
        assert_eq!(FIFO.to_string(), "FIFO, priority 80");
        assert_eq!(SchedulingClass::RoundRobin { priority: 1 }.to_string(), "RR, priority 1");
        assert_eq!(deadline().to_string(), "DEADLINE, 2ms within 5ms of each 10ms");
        assert_eq!(SchedulingClass::Other { nice: -5 }.to_string(), "OTHER, nice -5");
        for class in [FIFO, deadline()] {
            assert_eq!(Attributes::of(class, &Attributes(empty())).unwrap().to_string(), class.to_string());
        }
        let longer = Duration::MAX;
        let class = SchedulingClass::Deadline { runtime: longer, deadline: longer, period: longer };
        assert!(Attributes::of(class, &Attributes(empty())).is_none());
    }

    #[test]
    fn every_refusal_has_a_remedy() {
        let said = |class, errno, caller| reason(class, &io::Error::from_raw_os_error(errno), caller);
        let nice = SchedulingClass::Other { nice: -5 };
        for (said, remedy) in [
            (said(FIFO, libc::EPERM, NOBODY), "the limit on real-time priorities is 0: raise it (ulimit -r"),
            (said(FIFO, libc::EPERM, ROOT), "cpu.rt_runtime_us"),
            (said(FIFO, libc::EPERM, Caller { top: Some(90), ..NOBODY }), "cpu.rt_runtime_us"),
            (said(FIFO, libc::EINVAL, ROOT), "priorities are 1 to 99"),
            (said(deadline(), libc::EPERM, NOBODY), "it takes CAP_SYS_NICE"),
            (said(deadline(), libc::EPERM, ROOT), "ask for no CPUs"),
            (said(deadline(), libc::EBUSY, ROOT), "ask for less, or end others"),
            (said(deadline(), libc::EINVAL, ROOT), "runtime must be 1024 ns at least"),
            (said(nice, libc::EPERM, NOBODY), "the lowest nice value is 19: raise the limit (ulimit -e"),
            (said(nice, libc::EPERM, Caller { nice: Some(25), ..NOBODY }), "the lowest nice value is -5:"),
            (said(nice, libc::EINVAL, ROOT), "nice values are -20 to 19"),
            (said(nice, libc::ENOSYS, ROOT), "Function not implemented"),
        ] {
            assert!(said.contains(remedy), "{said}: {remedy}");
        }
    }
}
