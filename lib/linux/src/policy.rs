//! Scheduling policies of threads, each with its parameter.
//!
//! | value | the kernel's policy |
//! |---|---|
//! | `other -3` | SCHED_OTHER, with the nice value |
//! | `batch 0`, `idle 0`, `ext 0` | SCHED_BATCH, SCHED_IDLE, SCHED_EXT, likewise |
//! | `fifo 50`, `rr 11` | SCHED_FIFO, SCHED_RR, with the priority, 1 to 99 |
//! | `deadline 0` | SCHED_DEADLINE, which is never set here |

use std::fmt;
use std::io;
use std::str::FromStr;

const OTHER: u32 = 0;
const FIFO: u32 = 1;
const RR: u32 = 2;
const BATCH: u32 = 3;
const IDLE: u32 = 5;
const DEADLINE: u32 = 6;
const EXT: u32 = 7;

const POLICIES: [(u32, &str); 7] = [
    (OTHER, "other"),
    (FIFO, "fifo"),
    (RR, "rr"),
    (BATCH, "batch"),
    (IDLE, "idle"),
    (DEADLINE, "deadline"),
    (EXT, "ext"),
];

/// A scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// SCHED_OTHER: weighted, with the nice value, -20 to 19.
    Other(i8),
    /// SCHED_FIFO: priority, 1 to 99, without slices.
    Fifo(u8),
    /// SCHED_RR: priority, 1 to 99, with slices.
    Rr(u8),
    /// SCHED_BATCH: as SCHED_OTHER, with longer runs.
    Batch(i8),
    /// SCHED_IDLE: only on otherwise idle CPUs.
    Idle(i8),
    /// SCHED_DEADLINE: reserved bandwidth, before all others.
    Deadline,
    /// SCHED_EXT: by a loaded BPF scheduler.
    Ext(i8),
}

impl Policy {
    /// Converts the kernel's numbers. `None` for an unknown policy.
    #[must_use]
    pub fn of(policy: u64, nice: i64, priority: u64) -> Option<Policy> {
        let nice = i8::try_from(nice.clamp(-20, 19)).ok()?;
        let priority = u8::try_from(priority).ok().filter(|p| (1..=99).contains(p));
        Some(match u32::try_from(policy).ok()? {
            OTHER => Policy::Other(nice),
            FIFO => Policy::Fifo(priority?),
            RR => Policy::Rr(priority?),
            BATCH => Policy::Batch(nice),
            IDLE => Policy::Idle(nice),
            DEADLINE => Policy::Deadline,
            EXT => Policy::Ext(nice),
            _ => return None,
        })
    }

    /// The kernel's numbers: policy, nice value, priority.
    #[must_use]
    pub fn numbers(self) -> (u32, i8, u8) {
        match self {
            Policy::Other(nice) => (OTHER, nice, 0),
            Policy::Fifo(priority) => (FIFO, 0, priority),
            Policy::Rr(priority) => (RR, 0, priority),
            Policy::Batch(nice) => (BATCH, nice, 0),
            Policy::Idle(nice) => (IDLE, nice, 0),
            Policy::Deadline => (DEADLINE, 0, 0),
            Policy::Ext(nice) => (EXT, nice, 0),
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (policy, nice, priority) = self.numbers();
        let word = POLICIES.iter().find(|(number, _)| *number == policy).map_or("", |(_, word)| word);
        match self {
            Policy::Fifo(_) | Policy::Rr(_) => write!(f, "{word} {priority}"),
            _ => write!(f, "{word} {nice}"),
        }
    }
}

impl FromStr for Policy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (word, number) = text.split_once(' ').ok_or(())?;
        let (policy, _) = POLICIES.iter().find(|(_, known)| *known == word).ok_or(())?;
        let number: i8 = number.parse().map_err(|_| ())?;
        let parsed =
            Policy::of((*policy).into(), number.into(), u64::from(number.unsigned_abs())).ok_or(())?;
        if parsed.to_string() == text { Ok(parsed) } else { Err(()) }
    }
}

/// The first version of the kernel's `sched_attr`, which every kernel supports.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = 48;

/// Sets the policy of a thread. Keeps its other scheduling attributes (slice, whether children inherit).
///
/// # Errors
/// As `sched_setattr`.
pub(crate) fn set(tid: u32, policy: Policy) -> io::Result<()> {
    let tid = i32::try_from(tid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let mut attributes = Attributes { size: SIZE, ..Attributes::default() };
    // SAFETY: the kernel writes at most `SIZE` bytes into `attributes`, which is that long and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attributes, SIZE, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let (number, nice, priority) = policy.numbers();
    // The kernel fills in the size that it knows, and refuses deadline parameters with other policies.
    attributes.size = SIZE;
    (attributes.deadline, attributes.period) = (0, 0);
    let by_weight = matches!(number, OTHER | BATCH);
    if !by_weight || attributes.policy == DEADLINE {
        attributes.runtime = 0;
    }
    (attributes.policy, attributes.nice, attributes.priority) = (number, nice.into(), priority.into());
    // SAFETY: the kernel reads `size` bytes from `attributes` and keeps no pointer.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_structure_is_as_long_as_the_kernel_s_first() {
        assert_eq!(size_of::<Attributes>(), SIZE as usize);
    }

    #[test]
    fn a_thread_of_ours_gets_another_policy_and_the_kernel_shows_it() {
        let changed = std::thread::spawn(|| {
            let tid = u32::try_from(rustix::thread::gettid().as_raw_pid()).unwrap();
            set(tid, Policy::Batch(19)).unwrap();
            let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
            let stat = crate::procfs::parse_stat(&text).unwrap();
            Policy::of(stat.policy, stat.nice, stat.priority)
        });
        assert_eq!(changed.join().unwrap(), Some(Policy::Batch(19)));
        assert!(set(4_194_305, Policy::Other(0)).is_err(), "there is no such thread");
    }

    #[test]
    fn values_have_one_spelling() {
        for good in ["other -3", "batch 0", "idle 19", "ext 0", "fifo 50", "rr 99", "deadline 0"] {
            assert_eq!(good.parse::<Policy>().map(|p| p.to_string()), Ok(good.into()));
        }
        for bad in ["", "other", "other 20", "other +1", "rr 0", "fifo 100", "fifo -5", "deadline 1", "rt 1"]
        {
            assert_eq!(bad.parse::<Policy>(), Err(()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn numbers_of_the_kernel_survive(policy in 0u64..9, nice in -20i64..20, priority in 0u64..100) {
            if let Some(known) = Policy::of(policy, nice, priority) {
                let (p, n, r) = known.numbers();
                prop_assert_eq!(Policy::of(p.into(), n.into(), r.into()), Some(known));
                prop_assert_eq!(known.to_string().parse(), Ok(known));
            }
        }
    }
}
