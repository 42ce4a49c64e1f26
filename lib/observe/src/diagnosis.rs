//! A verdict, top down: what keeps a program from computing, with the figure that says so.
//!
//! The method is the one by which an application on two large machines was understood (experiment E5): look where the time of its threads
//! went; if they wait for CPUs or for a contended mutex, that is the answer; if they compute in user mode, look how many cycles
//! an instruction takes; if that is many, it is memory, and the question is how far away that is. Each step is taken only when the one
//! before has not explained the time.
//!
//! Idle time is no loss: a service sleeps until a request comes, a worker waits at a condition variable until there is work. So parts are of the time in
//! which threads *want to run*: they run, they are runnable, they wait for a page or for a contended mutex. What is part of no thread's work, as a wait
//! for a disk, is given in threads: how many do it at a time, on average. Parts of all time would shrink with each idle thread of a pool.
//!
//! Which waits are for a mutex, [`waits`](crate::waits) decides.

use crate::census::both;
use crate::waits::Split;
use millpond_model::{Causes, Microstate, Nanos, Spent, Wait};
use std::collections::BTreeMap;

/// The sum of what several threads spent.
#[must_use]
pub fn together<'a>(threads: impl IntoIterator<Item = &'a Spent>) -> Spent {
    threads.into_iter().fold(Spent::default(), |sum, thread| both(&sum, thread))
}

/// What waits were for between two looks at a thread: times are those of the interval, facts those of the later look. Nothing goes back; an address
/// that was forgotten meanwhile and remembered again counts from there.
#[must_use]
pub fn caused_since(now: &Causes, before: &Causes) -> Causes {
    let since = |(at, wait): (&u64, &Wait)| {
        let known = before.waits.get(at).map(|known| known.time).filter(|known| *known <= wait.time);
        (*at, Wait { time: wait.time - known.unwrap_or(Nanos(0)), facts: wait.facts })
    };
    let waits: BTreeMap<u64, Wait> =
        now.waits.iter().map(since).filter(|(_, wait)| wait.time > Nanos(0)).collect();
    Causes { disk: now.disk - before.disk, waits }
}

/// Whether a mutex holds a thread back for the sake of less urgent ones: its holder has a lower priority (less is lower) and is kept from its CPU for this
/// part of the time, so that whatever runs there instead delays both.
#[must_use]
pub fn is_inverted(waiter: i16, holder: i16, holder_latency: f64) -> bool {
    holder < waiter && holder_latency >= WORTH_A_WORD
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
    /// Waiting for a contended mutex. This and the next four are LCK.
    pub mutex: Option<f64>,
    /// Waiting for other threads at a barrier.
    pub barrier: Option<f64>,
    /// Waiting for what other threads have and use, at a semaphore or a condition that serves as a lock.
    pub resource: Option<f64>,
    /// Waiting for an event of the program: a condition, a semaphore, the end of a thread.
    pub event: Option<f64>,
    /// Waiting for a mutex or for an event: which of them is not known.
    pub undecided: Option<f64>,
    /// Asleep (SLP).
    pub sleep: f64,
    /// Runnable, waiting for a CPU (LAT).
    pub latency: Option<f64>,
}

impl Shares {
    /// Of what threads spent in an interval. Time in which they were stopped is no part of it. Without a split of the time for locks that is undecided.
    #[must_use]
    pub fn of(spent: &Spent, split: Option<&Split>) -> Shares {
        let times = spent.times.map(|time| time.map(Nanos::as_secs_f64));
        let all: f64 = times.iter().flatten().sum();
        let share = |time: f64| if all > 0.0 { time / all } else { 0.0 };
        let part = |state: Microstate| times[state.index()].map(share);
        let sum = |a: Option<f64>, b: Option<f64>| Some(a? + b.unwrap_or(0.0));
        let whole = part(Microstate::Lock);
        let of_split = |time: fn(&Split) -> Nanos| {
            whole.map(|_| split.map_or(0.0, |split| share(time(split).as_secs_f64())))
        };
        Shares {
            user: part(Microstate::User).unwrap_or(0.0),
            system: part(Microstate::System).unwrap_or(0.0) + part(Microstate::Trap).unwrap_or(0.0),
            fault: sum(part(Microstate::DataFault), part(Microstate::TextFault)),
            mutex: of_split(|split| split.mutex),
            barrier: of_split(|split| split.barrier),
            resource: of_split(|split| split.resource),
            event: of_split(|split| split.condition + split.join),
            undecided: split.map_or(whole, |_| of_split(|split| split.unknown)),
            sleep: part(Microstate::Sleep).unwrap_or(0.0),
            latency: part(Microstate::Latency),
        }
    }

    /// The part of the time in which threads wanted to run: they ran, were runnable, or waited for a page or a contended mutex.
    #[must_use]
    pub fn wanted(&self) -> f64 {
        [self.fault, self.mutex, self.latency]
            .into_iter()
            .flatten()
            .fold(self.user + self.system, |a, b| a + b)
    }

    /// The part of the time in which threads had nothing to do, or waited for a device.
    #[must_use]
    pub fn idle(&self) -> f64 {
        self.sleep + self.event.unwrap_or(0.0)
    }
}

/// What is known of a program over an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Evidence {
    /// Where the time of its threads went.
    pub shares: Shares,
    /// The part of the time that threads want to run in which a CPU cap kept them from a CPU.
    pub capped: Option<f64>,
    /// How many threads it had at a time, on average.
    pub threads: f64,
    /// System calls a second of its CPU time.
    pub calls_per_s: Option<f64>,
    /// Cycles for an instruction in user mode.
    pub cpi: Option<f64>,
    /// The part of its pages that lie in memory of other lgroups than its CPUs; `None` where there is one lgroup or it is not known.
    pub remote: Option<f64>,
    /// The part of the time asleep in which threads waited for a disk.
    pub disk: Option<f64>,
    /// The part of the waits for contended mutexes that were for the allocator's.
    pub allocator: Option<f64>,
    /// The part of the waits for contended mutexes that [`is_inverted`].
    pub inverted: f64,
}

impl Evidence {
    /// How many threads wanted to run at a time, on average.
    #[must_use]
    pub fn wanted_threads(&self) -> f64 {
        self.threads * self.shares.wanted()
    }
}

/// What keeps a program from computing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Finding {
    /// A CPU cap kept its threads from a CPU, for this part of the time that they wanted to run.
    Capped(f64),
    /// Its threads were runnable and had no CPU for another reason, for this part.
    WaitsForCpu(f64),
    /// They waited for contended mutexes, for this part.
    LockBound(f64),
    /// This part of these waits was for holders of lower priority that were kept from their CPU.
    PriorityInversion(f64),
    /// This part of these waits was for the memory allocator.
    AllocatorContention(f64),
    /// They waited for pages, for this part.
    Faults(f64),
    /// So many threads at a time waited for a disk.
    Disk(f64),
    /// So many threads at a time waited for others at a barrier.
    Barrier(f64),
    /// So many threads at a time waited for what others had and used, at a semaphore or a condition that serves as a lock.
    Resource(f64),
    /// So many threads at a time waited for a mutex or for an event: which of them is not known.
    Undecided(f64),
    /// They compute in the kernel more than in user mode, for this part; with so many calls a second.
    InTheKernel(f64, Option<f64>),
    /// An instruction takes so many cycles: it waits for memory.
    MemoryLatency(f64),
    /// This part of its pages is far away.
    RemoteMemory(f64),
    /// It computes, for this part of the time that it wants to run, and an instruction takes so many cycles.
    Computes(f64, Option<f64>),
    /// It has nothing to do: idle for this part of all time.
    Idle(f64),
}

/// From this part on a wait is worth a word; and from so many threads at a time on.
pub const WORTH_A_WORD: f64 = 0.10;
/// Waits for pages are dearer than others: they end with a disk.
pub const WORTH_A_WORD_FAULT: f64 = 0.05;
/// From so many cycles for an instruction on, a program waits for memory. In E5 a loop that computes takes 1.08, one that reads memory at
/// random 6.04, and the application that memory slows 2.0 to 4.2.
pub const CPI_OF_MEMORY: f64 = 2.0;
/// From this part of far pages on, distance is named.
pub const WORTH_A_WORD_REMOTE: f64 = 0.20;
/// A program of which fewer threads than this want to run at a time has nothing to do.
pub const IDLE_BELOW: f64 = 0.05;

/// The verdict: what explains the time, the dearest first; then what remains to be said of the time in which it computes.
#[must_use]
pub fn diagnose(evidence: &Evidence) -> Vec<Finding> {
    let Evidence { shares, threads, .. } = evidence;
    let (wanted, wanted_threads) = (shares.wanted(), evidence.wanted_threads());
    // Each with its weight: how many threads at a time it keeps from running.
    let mut findings = Vec::new();
    let in_threads = [
        (evidence.disk.map(|part| part * shares.sleep), Finding::Disk as fn(f64) -> Finding),
        (shares.barrier, Finding::Barrier),
        (shares.resource, Finding::Resource),
        (shares.undecided, Finding::Undecided),
    ];
    for (share, finding) in in_threads {
        let at_a_time = share.unwrap_or(0.0) * threads;
        findings.extend((at_a_time >= WORTH_A_WORD).then(|| (at_a_time, finding(at_a_time))));
    }
    if wanted_threads < IDLE_BELOW {
        if findings.is_empty() {
            findings.push((0.0, Finding::Idle(shares.idle())));
        }
        return ordered(findings);
    }
    let of_wanted = |share: Option<f64>| share.unwrap_or(0.0) / wanted;
    let capped = evidence.capped.unwrap_or(0.0);
    let parts = [
        (capped, WORTH_A_WORD, Finding::Capped as fn(f64) -> Finding),
        // More CPUs do not shorten the wait for a cap.
        (of_wanted(shares.latency) - capped, WORTH_A_WORD, Finding::WaitsForCpu),
        (of_wanted(shares.mutex), WORTH_A_WORD, Finding::LockBound),
        (of_wanted(shares.fault), WORTH_A_WORD_FAULT, Finding::Faults),
    ];
    for (part, least, finding) in parts {
        findings.extend((part >= least).then(|| (part * wanted_threads, finding(part))));
    }
    let mut findings = ordered(findings);
    if let Some(place) = findings.iter().position(|found| matches!(found, Finding::LockBound(_))) {
        let inverted =
            (evidence.inverted >= WORTH_A_WORD).then_some(Finding::PriorityInversion(evidence.inverted));
        let allocator = evidence.allocator.filter(|part| *part >= WORTH_A_WORD);
        let of_locks = inverted.into_iter().chain(allocator.map(Finding::AllocatorContention));
        findings.splice(place + 1..place + 1, of_locks.collect::<Vec<_>>());
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
    use millpond_model::{WaitFacts, WaitKind};
    use proptest::prelude::*;

    /// Parts of the time of one thread: of LCK that for mutexes.
    fn shares(user: f64, system: f64, mutex: f64, sleep: f64, latency: f64) -> Shares {
        Shares {
            user,
            system,
            fault: Some(0.0),
            mutex: Some(mutex),
            barrier: Some(0.0),
            resource: Some(0.0),
            event: Some(0.0),
            undecided: Some(0.0),
            sleep,
            latency: Some(latency),
        }
    }

    fn of(shares: Shares) -> Evidence {
        Evidence { shares, threads: 1.0, ..Evidence::default() }
    }

    fn about(found: &[Finding], expected: &[Finding]) {
        let text = |findings: &[Finding]| {
            let rounded = |f: &Finding| match *f {
                Finding::WaitsForCpu(p) => format!("cpu {p:.2}"),
                Finding::LockBound(p) => format!("mutex {p:.2}"),
                Finding::Computes(p, None) => format!("computes {p:.2}"),
                Finding::Disk(p) => format!("disk {p:.2}"),
                other => format!("{other:?}"),
            };
            findings.iter().map(rounded).collect::<Vec<_>>()
        };
        assert_eq!(text(found), text(expected));
    }

    #[test]
    fn shares_are_of_the_time_that_was_not_stopped() {
        let mut spent = Spent { stopped: Nanos(1_000), ..Spent::default() };
        for (state, time) in [(Microstate::User, 30), (Microstate::DataFault, 10), (Microstate::Sleep, 60)] {
            spent.times[state.index()] = Some(Nanos(time));
        }
        let twice = together([&spent, &spent]);
        assert_eq!(twice.times[Microstate::User.index()], Some(Nanos(60)));
        let shares = Shares::of(&twice, None);
        assert_eq!((shares.user, shares.fault, shares.sleep), (0.3, Some(0.1), 0.6));
        assert_eq!((shares.mutex, shares.undecided, shares.latency), (None, None, None));
        assert_eq!(Shares::of(&Spent::default(), None), Shares::default());
    }

    #[test]
    fn time_for_locks_is_split_and_undecided_without_a_split() {
        let mut spent = Spent::default();
        for (state, time) in [(Microstate::User, 20), (Microstate::Lock, 80)] {
            spent.times[state.index()] = Some(Nanos(time));
        }
        let split = Split {
            mutex: Nanos(10),
            condition: Nanos(50),
            join: Nanos(15),
            unknown: Nanos(5),
            ..Split::default()
        };
        let shares = Shares::of(&spent, Some(&split));
        assert_eq!((shares.mutex, shares.barrier), (Some(0.1), Some(0.0)));
        assert_eq!((shares.event, shares.undecided), (Some(0.65), Some(0.05)));
        assert!((shares.wanted() - 0.3).abs() < 1e-9);
        let shares = Shares::of(&spent, None);
        assert_eq!((shares.mutex, shares.event, shares.undecided), (Some(0.0), Some(0.0), Some(0.8)));
    }

    #[test]
    fn causes_are_those_of_the_interval() {
        let causes = |disk: u64, waits: &[(u64, u64)]| Causes {
            disk: Nanos(disk),
            waits: waits
                .iter()
                .map(|(at, time)| (*at, Wait { time: Nanos(*time), facts: WaitFacts::Told(WaitKind::Mutex) }))
                .collect(),
        };
        let before = causes(5, &[(0x10, 7), (0x20, 9), (0x30, 50)]);
        let now = causes(8, &[(0x10, 7), (0x20, 10), (0x30, 4), (0x40, 6)]);
        assert_eq!(caused_since(&now, &before), causes(3, &[(0x20, 1), (0x30, 4), (0x40, 6)]));
    }

    #[test]
    fn two_that_compute_on_one_cpu_wait_for_it() {
        assert_eq!(
            diagnose(&of(shares(0.5, 0.0, 0.0, 0.0, 0.5))),
            [Finding::WaitsForCpu(0.5), Finding::Computes(0.5, None)]
        );
    }

    #[test]
    fn a_thread_pool_of_which_one_computes_on_a_loaded_machine_waits_for_a_cpu() {
        // Eight at a condition variable, one in a join, one that wants to run: it waits 65 % of its time for a CPU.
        let pool = Shares { event: Some(0.9), ..shares(0.035, 0.0, 0.0, 0.0, 0.065) };
        let evidence = Evidence { threads: 10.0, ..of(pool) };
        assert!((evidence.wanted_threads() - 1.0).abs() < 1e-9);
        about(&diagnose(&evidence), &[Finding::WaitsForCpu(0.65), Finding::Computes(0.35, None)]);
    }

    #[test]
    fn idle_threads_of_a_pool_hide_nothing() {
        // One of two hundred computes: half a percent of all time.
        let pool = Shares { event: Some(0.995), ..shares(0.005, 0.0, 0.0, 0.0, 0.0) };
        about(&diagnose(&Evidence { threads: 200.0, ..of(pool) }), &[Finding::Computes(1.0, None)]);
        // One of two hundred waits for a disk.
        let pool = Shares { event: Some(0.995), ..shares(0.0, 0.0, 0.0, 0.005, 0.0) };
        let evidence = Evidence { threads: 200.0, disk: Some(1.0), ..of(pool) };
        about(&diagnose(&evidence), &[Finding::Disk(1.0)]);
    }

    #[test]
    fn a_pool_in_which_all_wait_for_work_is_idle() {
        let pool = Shares { event: Some(0.75), ..shares(0.0, 0.0, 0.0, 0.25, 0.0) };
        assert_eq!(diagnose(&Evidence { threads: 8.0, ..of(pool) }), [Finding::Idle(1.0)]);
    }

    #[test]
    fn a_contended_mutex_is_named_though_others_are_idle() {
        let pool = Shares { event: Some(0.6), ..shares(0.1, 0.0, 0.3, 0.0, 0.0) };
        let evidence = Evidence { threads: 10.0, ..of(pool) };
        about(&diagnose(&evidence), &[Finding::LockBound(0.75), Finding::Computes(0.25, None)]);
    }

    #[test]
    fn a_barrier_and_what_is_undecided_are_said_in_threads() {
        let evidence = Evidence {
            threads: 4.0,
            ..of(Shares { barrier: Some(0.5), undecided: Some(0.25), ..shares(0.25, 0.0, 0.0, 0.0, 0.0) })
        };
        assert_eq!(
            diagnose(&evidence),
            [Finding::Barrier(2.0), Finding::Undecided(1.0), Finding::Computes(1.0, None)]
        );
        // No thread runs: it may be a deadlock, which is not called idle.
        let stands = Evidence { threads: 2.0, ..of(Shares { undecided: Some(1.0), ..Shares::default() }) };
        assert_eq!(diagnose(&stands), [Finding::Undecided(2.0)]);
    }

    #[test]
    fn a_mutex_whose_holder_has_no_cpu_inverts_priorities() {
        assert!(is_inverted(101, 0, 0.9));
        assert!(!is_inverted(101, 101, 0.9) && !is_inverted(0, 101, 0.9));
        // The holder runs: that is a long critical section.
        assert!(!is_inverted(101, 0, 0.05));
        let evidence = Evidence { threads: 2.0, inverted: 1.0, ..of(shares(0.1, 0.0, 0.5, 0.0, 0.4)) };
        assert_eq!(
            diagnose(&evidence),
            [
                Finding::LockBound(0.5),
                Finding::PriorityInversion(1.0),
                Finding::WaitsForCpu(0.4),
                Finding::Computes(0.1, None)
            ]
        );
    }

    #[test]
    fn a_wait_for_a_cap_is_no_wait_for_a_cpu() {
        // One thread with a cap of 20 % of a CPU.
        let capped = Evidence { capped: Some(0.8), ..of(shares(0.2, 0.0, 0.0, 0.0, 0.8)) };
        about(&diagnose(&capped), &[Finding::Capped(0.8), Finding::Computes(0.2, None)]);
        // What the cap does not explain remains.
        let both = Evidence { capped: Some(0.3), ..of(shares(0.2, 0.0, 0.0, 0.0, 0.8)) };
        about(
            &diagnose(&both),
            &[Finding::WaitsForCpu(0.5), Finding::Capped(0.3), Finding::Computes(0.2, None)],
        );
    }

    #[test]
    fn the_dearest_stands_first_and_sleep_is_no_loss() {
        // Of the 0.4 that it wanted, 0.2 were mutexes and 0.1 CPUs.
        let evidence = Evidence { allocator: Some(0.75), ..of(shares(0.1, 0.0, 0.2, 0.6, 0.1)) };
        let found = diagnose(&evidence);
        about(
            &found,
            &[
                Finding::LockBound(0.5),
                Finding::AllocatorContention(0.75),
                Finding::WaitsForCpu(0.25),
                Finding::Computes(0.25, None),
            ],
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
    fn a_program_that_calls_all_the_time_is_in_the_kernel() {
        let evidence = Evidence { calls_per_s: Some(1e6), ..of(shares(0.2, 0.6, 0.0, 0.2, 0.0)) };
        assert!(
            matches!(diagnose(&evidence)[..], [Finding::InTheKernel(part, Some(_))] if (part - 0.75).abs() < 1e-9)
        );
    }

    #[test]
    fn a_program_that_sleeps_has_nothing_to_do_or_waits_for_a_disk() {
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
                user: part(0), system: part(1), fault: Some(part(2)), mutex: Some(part(3)), sleep: part(4), latency: Some(part(5)),
                ..Shares::default()
            };
            let found = diagnose(&Evidence { cpi, remote, ..of(shares) });
            prop_assert!(!found.is_empty());
            for finding in found {
                if let Finding::WaitsForCpu(p) | Finding::LockBound(p) | Finding::Faults(p) | Finding::Computes(p, _)
                    | Finding::Idle(p) | Finding::RemoteMemory(p) | Finding::InTheKernel(p, _) = finding
                {
                    prop_assert!((0.0..=1.0 + 1e-9).contains(&p), "{finding:?}");
                }
            }
        }
    }
}
