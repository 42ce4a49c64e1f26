//! A verdict, top down: what keeps a program from computing, with the figure that says so.
//!
//! The method is the one by which an application on two large machines was understood (experiment E5): look where the time of its threads
//! went; if they wait for processors or for each other, that is the answer; if they compute in user mode, look how many cycles
//! an instruction takes; if that is many, it is memory, and the question is how far away that is. Each step is taken only when the one
//! before has not explained the time.
//!
//! Time asleep is no loss by itself: a service sleeps while nobody asks. Hence all shares are of the time in which threads *wanted* to
//! go on: everything but sleep.

use crate::census::both;
use millpond_model::{Causes, Microstate, Nanos, Spent};
use std::collections::BTreeMap;

/// The sum of what several threads spent.
#[must_use]
pub fn together<'a>(threads: impl IntoIterator<Item = &'a Spent>) -> Spent {
    threads.into_iter().fold(Spent::default(), |sum, thread| both(&sum, thread))
}

/// What waits were for between two looks at a thread. Nothing goes back; a lock that was forgotten meanwhile and remembered again counts
/// from there.
#[must_use]
pub fn caused_since(now: &Causes, before: &Causes) -> Causes {
    let since = |(at, time): (&u64, &Nanos)| {
        let known = before.locks.get(at).filter(|known| *known <= time).copied().unwrap_or(Nanos(0));
        (*at, *time - known)
    };
    let locks: BTreeMap<u64, Nanos> =
        now.locks.iter().map(since).filter(|(_, time)| *time > Nanos(0)).collect();
    Causes { disk: now.disk - before.disk, locks }
}

/// Where the time of a program's threads went, in parts of one: all of them together are 1, or less where something cannot be told.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shares {
    /// Computing in user mode (USR).
    pub user: f64,
    /// Computing in the kernel (SYS).
    pub system: f64,
    /// Waiting for a page of text or data (TFL, DFL).
    pub fault: Option<f64>,
    /// Waiting for a lock of the program (LCK).
    pub lock: Option<f64>,
    /// Asleep (SLP).
    pub sleep: f64,
    /// Waiting for a processor (LAT).
    pub latency: Option<f64>,
}

impl Shares {
    /// Of what threads spent in an interval. Time in which they were stopped is no part of it.
    #[must_use]
    pub fn of(spent: &Spent) -> Shares {
        let times = spent.times.map(|time| time.map(Nanos::as_secs_f64));
        let all: f64 = times.iter().flatten().sum();
        let part =
            |state: Microstate| times[state.index()].map(|time| if all > 0.0 { time / all } else { 0.0 });
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b.unwrap_or(0.0));
        Shares {
            user: part(Microstate::User).unwrap_or(0.0),
            system: part(Microstate::System).unwrap_or(0.0) + part(Microstate::Trap).unwrap_or(0.0),
            fault: sum(part(Microstate::DataFault), part(Microstate::TextFault)),
            lock: part(Microstate::Lock),
            sleep: part(Microstate::Sleep).unwrap_or(0.0),
            latency: part(Microstate::Latency),
        }
    }

    /// The part of the time in which threads wanted to go on.
    #[must_use]
    pub fn wanted(&self) -> f64 {
        [self.fault, self.lock, self.latency]
            .into_iter()
            .flatten()
            .fold(self.user + self.system, |a, b| a + b)
    }
}

/// What is known of a program over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Where the time of its threads went.
    pub shares: Shares,
    /// System calls a second of its processor time.
    pub calls_per_s: Option<f64>,
    /// Cycles for an instruction in user mode.
    pub cpi: Option<f64>,
    /// The part of its pages that lie in memory of other lgroups than its processors; `None` where there is one lgroup or it is not known.
    pub remote: Option<f64>,
    /// The part of the time asleep in which threads waited for a disk.
    pub disk: Option<f64>,
    /// The part of the waits for locks that were for the allocator's.
    pub allocator: Option<f64>,
}

/// What keeps a program from computing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// Its threads could run and had no processor, for this part of the time that they wanted to go on.
    WaitsForProcessor(f64),
    /// They waited for locks of their program, for this part.
    LockBound(f64),
    /// Of these waits this part was for the allocator of memory.
    AllocatorContention(f64),
    /// They waited for pages, for this part.
    Faults(f64),
    /// Asleep, they waited for a disk, for this part of all time.
    Disk(f64),
    /// They compute in the kernel more than for themselves, for this part; with so many calls a second.
    InTheKernel(f64, Option<f64>),
    /// An instruction takes so many cycles: it waits for memory.
    MemoryLatency(f64),
    /// This part of its pages is far away.
    RemoteMemory(f64),
    /// It computes, for this part of the time that it wants to go on, and an instruction takes so many cycles.
    Computes(f64, Option<f64>),
    /// It has nothing to do: asleep for this part of all time.
    Idle(f64),
}

/// From this part on a wait is worth a word.
pub const WORTH_A_WORD: f64 = 0.10;
/// Waits for pages are dearer than others: they end with a disk.
pub const WORTH_A_WORD_FAULT: f64 = 0.05;
/// From so many cycles for an instruction on, a program waits for memory. In E5 a loop that computes takes 1.08, one that reads memory at
/// random 6.04, and the application that memory slows 2.0 to 4.2.
pub const CPI_OF_MEMORY: f64 = 2.0;
/// From this part of far pages on, distance is named.
pub const WORTH_A_WORD_REMOTE: f64 = 0.20;
/// Who wants to go on for less than this part of the time has nothing to do.
pub const IDLE_BELOW: f64 = 0.05;

/// The verdict: what explains the time, the dearest first; then what remains to be said of the time in which it computes.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let Evidence { shares, .. } = evidence;
    let wanted = shares.wanted();
    let mut findings = Vec::new();
    let disk = evidence.disk.map_or(0.0, |part| part * shares.sleep);
    if disk >= WORTH_A_WORD {
        findings.push((disk, Finding::Disk(disk)));
    }
    if wanted < IDLE_BELOW {
        if findings.is_empty() {
            findings.push((0.0, Finding::Idle(shares.sleep)));
        }
        return ordered(findings);
    }
    let part = |share: Option<f64>| share.unwrap_or(0.0) / wanted;
    let (latency, lock, fault) = (part(shares.latency), part(shares.lock), part(shares.fault));
    if latency >= WORTH_A_WORD {
        findings.push((latency, Finding::WaitsForProcessor(latency)));
    }
    if lock >= WORTH_A_WORD {
        findings.push((lock, Finding::LockBound(lock)));
    }
    if fault >= WORTH_A_WORD_FAULT {
        findings.push((fault, Finding::Faults(fault)));
    }
    let mut findings = ordered(findings);
    if let (true, Some(allocator)) = (lock >= WORTH_A_WORD, evidence.allocator)
        && allocator >= WORTH_A_WORD
        && let Some(place) = findings.iter().position(|found| matches!(found, Finding::LockBound(_)))
    {
        findings.insert(place + 1, Finding::AllocatorContention(allocator));
    }
    findings.extend(of_computing(evidence, (shares.user + shares.system) / wanted));
    findings
}

/// What the time says in which it computes: that is `part` of what it wanted.
fn of_computing(evidence: &Evidence, part: f64) -> Vec<Finding> {
    let Evidence { shares, calls_per_s, cpi, remote, .. } = *evidence;
    let computing = shares.user + shares.system;
    if computing <= 0.0 || part < WORTH_A_WORD {
        return Vec::new();
    }
    if shares.system > shares.user {
        return vec![Finding::InTheKernel(shares.system / computing, calls_per_s)];
    }
    let mut findings = Vec::new();
    match cpi {
        Some(cpi) if cpi >= CPI_OF_MEMORY => findings.push(Finding::MemoryLatency(cpi)),
        _ => findings.push(Finding::Computes(part, cpi)),
    }
    // Where cycles cannot be counted, distance is all that can be said of memory.
    let memory_may_matter = cpi.is_none_or(|cpi| cpi >= CPI_OF_MEMORY);
    findings.extend(
        remote.filter(|far| memory_may_matter && *far >= WORTH_A_WORD_REMOTE).map(Finding::RemoteMemory),
    );
    findings
}

fn ordered(mut findings: Vec<(f64, Finding)>) -> Vec<Finding> {
    findings.sort_by(|a, b| b.0.total_cmp(&a.0));
    findings.into_iter().map(|(_, finding)| finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(user: f64, system: f64, lock: f64, sleep: f64, latency: f64) -> Shares {
        Shares { user, system, fault: Some(0.0), lock: Some(lock), sleep, latency: Some(latency) }
    }

    fn of(shares: Shares) -> Evidence {
        Evidence { shares, ..Evidence::default() }
    }

    #[test]
    fn shares_are_of_the_time_that_was_not_stopped() {
        let mut spent = Spent { stopped: Nanos(1_000), ..Spent::default() };
        for (state, time) in [(Microstate::User, 30), (Microstate::DataFault, 10), (Microstate::Sleep, 60)] {
            spent.times[state.index()] = Some(Nanos(time));
        }
        let twice = together([&spent, &spent]);
        assert_eq!(twice.times[Microstate::User.index()], Some(Nanos(60)));
        let shares = Shares::of(&twice);
        assert_eq!((shares.user, shares.fault, shares.sleep), (0.3, Some(0.1), 0.6));
        assert_eq!((shares.lock, shares.latency), (None, None));
        assert_eq!(Shares::of(&Spent::default()), Shares::default());
    }

    #[test]
    fn causes_are_those_of_the_interval() {
        let causes = |disk: u64, locks: &[(u64, u64)]| Causes {
            disk: Nanos(disk),
            locks: locks.iter().map(|(at, time)| (*at, Nanos(*time))).collect(),
        };
        let before = causes(5, &[(0x10, 7), (0x20, 9), (0x30, 50)]);
        let now = causes(8, &[(0x10, 7), (0x20, 10), (0x30, 4), (0x40, 6)]);
        assert_eq!(caused_since(&now, &before), causes(3, &[(0x20, 1), (0x30, 4), (0x40, 6)]));
    }

    #[test]
    fn two_that_compute_on_one_processor_wait_for_it() {
        assert_eq!(
            diagnose(&of(shares(0.5, 0.0, 0.0, 0.0, 0.5))),
            [Finding::WaitsForProcessor(0.5), Finding::Computes(0.5, None)]
        );
    }

    #[test]
    fn the_dearest_stands_first_and_sleep_is_no_loss() {
        // Of the 0.4 that it wanted, 0.2 were locks and 0.1 processors.
        let evidence = Evidence { allocator: Some(0.75), ..of(shares(0.1, 0.0, 0.2, 0.6, 0.1)) };
        let found = diagnose(&evidence);
        assert!(
            matches!(
                found[..],
                [Finding::LockBound(l), Finding::AllocatorContention(a), Finding::WaitsForProcessor(w), Finding::Computes(c, None)]
                    if (l - 0.5).abs() < 1e-9 && (a - 0.75).abs() < 1e-9 && (w - 0.25).abs() < 1e-9 && (c - 0.25).abs() < 1e-9
            ),
            "{found:?}"
        );
    }

    #[test]
    fn the_application_of_e5_waits_for_memory_that_is_far_away() {
        let evidence =
            Evidence { cpi: Some(4.06), remote: Some(5.0 / 6.0), ..of(shares(0.98, 0.02, 0.0, 0.0, 0.0)) };
        assert_eq!(diagnose(&evidence), [Finding::MemoryLatency(4.06), Finding::RemoteMemory(5.0 / 6.0)]);
        // The loop of E5 does not, wherever its pages are.
        let evidence = Evidence { cpi: Some(1.08), remote: Some(0.9), ..of(shares(1.0, 0.0, 0.0, 0.0, 0.0)) };
        assert_eq!(diagnose(&evidence), [Finding::Computes(1.0, Some(1.08))]);
    }

    #[test]
    fn who_calls_all_the_time_is_in_the_kernel() {
        let evidence = Evidence { calls_per_s: Some(1e6), ..of(shares(0.2, 0.6, 0.0, 0.2, 0.0)) };
        assert!(
            matches!(diagnose(&evidence)[..], [Finding::InTheKernel(part, Some(_))] if (part - 0.75).abs() < 1e-9)
        );
    }

    #[test]
    fn who_sleeps_has_nothing_to_do_or_waits_for_a_disk() {
        assert_eq!(diagnose(&of(shares(0.01, 0.0, 0.0, 0.99, 0.0))), [Finding::Idle(0.99)]);
        let evidence = Evidence { disk: Some(0.5), ..of(shares(0.0, 0.01, 0.0, 0.98, 0.0)) };
        assert_eq!(diagnose(&evidence), [Finding::Disk(0.49)]);
    }

    #[test]
    fn what_cannot_be_told_is_not_guessed() {
        let shares = Shares { user: 0.5, system: 0.1, sleep: 0.4, ..Shares::default() };
        assert!(matches!(diagnose(&of(shares))[..], [Finding::Computes(part, None)] if part > 0.999));
    }

    proptest! {
        #[test]
        fn there_is_always_a_verdict_and_its_parts_are_parts(
            parts in prop::array::uniform6(0_u32..1000), cpi in prop::option::of(0.3_f64..20.0), remote in prop::option::of(0.0_f64..=1.0),
        ) {
            let sum: f64 = parts.iter().map(|&part| f64::from(part)).sum::<f64>().max(1.0);
            let part = |index: usize| f64::from(parts[index]) / sum;
            let shares = Shares {
                user: part(0), system: part(1), fault: Some(part(2)), lock: Some(part(3)), sleep: part(4), latency: Some(part(5)),
            };
            let found = diagnose(&Evidence { cpi, remote, ..of(shares) });
            prop_assert!(!found.is_empty());
            for finding in found {
                if let Finding::WaitsForProcessor(p) | Finding::LockBound(p) | Finding::Faults(p) | Finding::Computes(p, _)
                    | Finding::Idle(p) | Finding::RemoteMemory(p) | Finding::InTheKernel(p, _) = finding
                {
                    prop_assert!((0.0..=1.0 + 1e-9).contains(&p), "{finding:?}");
                }
            }
        }
    }
}
