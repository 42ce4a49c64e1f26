//! The affinity mask of a thread: all that a program knows of its processor set.

use super::files;
use super::outcome::{Refusal, check, errno};
use std::fmt;
use std::io;
use std::str::FromStr;

/// A set of CPUs by number. Text form: a list like `2-3,6`.
#[derive(Clone, PartialEq, Eq)]
pub struct CpuMask(Box<[u64; CpuMask::WORDS]>);

impl CpuMask {
    /// Number of possible CPUs: the maximum that a kernel is built for.
    pub const LIMIT: usize = 8192;

    const WORDS: usize = CpuMask::LIMIT / 64;

    /// An empty mask.
    #[must_use]
    pub fn new() -> CpuMask {
        CpuMask(Box::new([0; CpuMask::WORDS]))
    }

    /// From memory in the form of a `cpu_set_t`, a bit for each CPU. `None`: a bit at or above [`LIMIT`](CpuMask::LIMIT) is set.
    pub(crate) fn from_words(words: impl IntoIterator<Item = u64>) -> Option<CpuMask> {
        let mut mask = CpuMask::new();
        for (at, word) in words.into_iter().enumerate() {
            match mask.0.get_mut(at) {
                Some(place) => *place = word,
                None if word != 0 => return None,
                None => {}
            }
        }
        Some(mask)
    }

    /// Adds a CPU. False: the number is invalid.
    #[must_use]
    pub fn add(&mut self, cpu: usize) -> bool {
        let word = self.0.get_mut(cpu / 64);
        word.map(|word| *word |= 1 << (cpu % 64)).is_some()
    }

    /// Whether it contains a CPU.
    #[must_use]
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word & 1 << (cpu % 64) != 0)
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Its CPU numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..CpuMask::LIMIT).filter(|cpu| self.contains(*cpu))
    }

    /// The CPUs of `self` that are not in `other`.
    fn without(&self, other: &CpuMask) -> CpuMask {
        CpuMask(Box::new(std::array::from_fn(|at| self.0[at] & !other.0[at])))
    }
}

impl Default for CpuMask {
    fn default() -> CpuMask {
        CpuMask::new()
    }
}

/// As a list: `2-3,6`.
impl fmt::Display for CpuMask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut comma, mut at) = ("", 0);
        while let Some(first) = (at..CpuMask::LIMIT).find(|cpu| self.contains(*cpu)) {
            at = (first..CpuMask::LIMIT).find(|cpu| !self.contains(*cpu)).unwrap_or(CpuMask::LIMIT);
            match at - 1 {
                last if last == first => write!(out, "{comma}{first}")?,
                last => write!(out, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuMask {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CpuMask({self})")
    }
}

/// An invalid list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuListError(String);

impl fmt::Display for CpuListError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "cannot read the CPU list {:?}: numbers below {} and ranges of them, like 2-3,6",
            self.0,
            CpuMask::LIMIT
        )
    }
}

impl std::error::Error for CpuListError {}

impl FromStr for CpuMask {
    type Err = CpuListError;

    fn from_str(list: &str) -> Result<CpuMask, CpuListError> {
        parse(list).ok_or_else(|| CpuListError(list.to_owned()))
    }
}

fn parse(list: &str) -> Option<CpuMask> {
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<usize>().ok().filter(|cpu| digits && *cpu < CpuMask::LIMIT)
    };
    let mut mask = CpuMask::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || !(first..=last).all(|cpu| mask.add(cpu)) {
            return None;
        }
    }
    Some(mask)
}

pub(super) fn current() -> io::Result<CpuMask> {
    let mut mask = CpuMask::new();
    // SAFETY: it writes at most the size of the mask.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&*mask.0), mask.0.as_mut_ptr().cast()) })?;
    Ok(mask)
}

fn set(mask: &CpuMask) -> io::Result<()> {
    // SAFETY: it reads at most the size of the mask.
    check(unsafe { libc::sched_setaffinity(0, size_of_val(&*mask.0), mask.0.as_ptr().cast()) })
}

/// Sets the calling thread's affinity to exactly these CPUs, and returns the previous mask.
pub(super) fn enter(wanted: &CpuMask) -> Result<CpuMask, Refusal> {
    let asking = |error: &io::Error| Refusal::system("ask for the CPUs of the thread", error);
    if wanted.is_empty() {
        return Err(Refusal::new(
            libc::EINVAL,
            "cannot run on no CPU: name one at least, in a list like 2-3,6",
        ));
    }
    let before = current().map_err(|error| asking(&error))?;
    set(wanted).map_err(|error| refused(wanted, &CpuMask::new(), &error))?;
    // The kernel silently drops CPUs outside the cpuset.
    let had = current().map_err(|error| asking(&error))?;
    if had == *wanted {
        return Ok(before);
    }
    leave(&before)?;
    Err(refused(wanted, &had, &io::Error::from_raw_os_error(libc::EINVAL)))
}

pub(super) fn leave(before: &CpuMask) -> Result<(), Refusal> {
    set(before).map_err(|error| refused(before, &CpuMask::new(), &error))
}

fn refused(wanted: &CpuMask, had: &CpuMask, error: &io::Error) -> Refusal {
    let online = files::online().and_then(|text| parse(&text));
    reason(wanted, had, online.as_ref(), error)
}

fn reason(wanted: &CpuMask, had: &CpuMask, online: Option<&CpuMask>, error: &io::Error) -> Refusal {
    let (missing, number) = (wanted.without(had), errno(error));
    let absent = online.map_or_else(CpuMask::new, |online| missing.without(online));
    let said = match number {
        libc::EBUSY => {
            "a deadline thread runs on all CPUs of its set; leave the class first (chrt --other)".to_owned()
        }
        libc::EINVAL if !absent.is_empty() => {
            format!("not there, or off-line: {absent}; name others (/sys/devices/system/cpu/online)")
        }
        libc::EINVAL => {
            format!("not in the cpuset of this process: {missing}; name others, or move it (cpuset.cpus)")
        }
        _ => error.to_string(),
    };
    Refusal::new(number, format!("cannot run on CPUs {wanted}: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(list: &str) -> CpuMask {
        list.parse().unwrap()
    }

    #[test]
    fn lists_are_read_and_written() {
        for (list, written) in
            [("2-3,6", "2-3,6"), ("6,2,3", "2-3,6"), ("0", "0"), ("8191\n", "8191"), ("63-64", "63-64")]
        {
            assert_eq!(mask(list).to_string(), written);
        }
        assert_eq!(mask("2-3,6").iter().collect::<Vec<_>>(), [2, 3, 6]);
        assert_eq!(mask("0-8191").to_string(), "0-8191");
        assert!(mask("64").contains(64) && !mask("64").contains(0) && !mask("64").contains(9000));
        assert_eq!(CpuMask::new().to_string(), "");
    }

    #[test]
    fn what_is_no_list_is_told() {
        for list in
            ["", ",", "3-2", "1-", "-1", "a", "+1", "8192", "1,,2", "0x1", "1 2", "99999999999999999999"]
        {
            assert_eq!(list.parse::<CpuMask>(), Err(CpuListError(list.into())), "{list}");
        }
        assert_eq!(
            "3-2".parse::<CpuMask>().unwrap_err().to_string(),
            "cannot read the CPU list \"3-2\": numbers below 8192 and ranges of them, like 2-3,6"
        );
    }

    #[test]
    fn memory_of_any_length_is_a_mask() {
        assert_eq!(CpuMask::from_words([0b1100, 1]), Some(mask("2-3,64")));
        assert_eq!(CpuMask::from_words([0; 200]), Some(CpuMask::new()));
        assert_eq!(CpuMask::from_words([1; 200]), None);
    }

    #[test]
    fn a_refusal_names_the_cpus_that_are_missing_and_why() {
        let invalid = io::Error::from_raw_os_error(libc::EINVAL);
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        let online = mask("0-3");
        let said = |had: CpuMask, error| reason(&mask("2-5"), &had, Some(&online), error).reason;
        assert_eq!(
            said(mask("2-3"), &invalid),
            "cannot run on CPUs 2-5: not there, or off-line: 4-5; name others (/sys/devices/system/cpu/online)"
        );
        assert_eq!(
            reason(&mask("2-3"), &mask("2"), Some(&online), &invalid).reason,
            "cannot run on CPUs 2-3: not in the cpuset of this process: 3; name others, or move it (cpuset.cpus)"
        );
        assert_eq!(
            said(CpuMask::new(), &busy),
            "cannot run on CPUs 2-5: a deadline thread runs on all CPUs of its set; leave the class first (chrt --other)"
        );
    }
}
