//! The waits that count as LCK: by address and by kind, and those that are priority inversions.

use super::gather::part;
use millpond_machine::Machine;
use millpond_model::{
    Causes, FutexFacts, FutexOperation, LockPlace, Lwp, LwpId, Microstate, Nanos, Pid, Roster, ThreadEntry,
    Wait, WaitFacts, WaitKind,
};
use millpond_observe::Picture;
use millpond_observe::diagnosis::{caused_since, is_inverted};
use millpond_observe::waits::{Split, classify};
use std::collections::{BTreeMap, BTreeSet};

/// A lock for which threads waited.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// The process and the address.
    pub at: (Pid, u64),
    /// The kind of lock.
    pub kind: WaitKind,
    /// The mapping of the address, if it is known.
    pub place: Option<LockPlace>,
    /// The thread of the process that held the lock when the last wait began, if it is known.
    pub holder: Option<LwpId>,
    /// The share of the lock time.
    pub share: f64,
}

/// A priority inversion: a thread that waits for a less urgent one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inversion {
    /// The mutex.
    pub address: u64,
    /// The thread that waits for it, and its priority.
    pub waiter: (Lwp, i16),
    /// The thread that holds it, and its priority.
    pub holder: (Lwp, i16),
    /// The part of the holder's time in which it waited for a CPU.
    pub latency: f64,
}

/// The waits of an interval.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    /// The time asleep for a disk.
    pub disk: Nanos,
    /// Waits of all threads of a process, by address.
    by_address: BTreeMap<(Pid, u64), Wait>,
    /// Waits of each thread.
    by_thread: BTreeMap<(Lwp, u64), Wait>,
}

impl Waits {
    /// The waits between two samples. All waits of a new thread count. `None` if the machine does not report waits.
    pub fn between(before: &Roster, after: &Roster, pids: &BTreeSet<Pid>) -> Option<Waits> {
        let known: BTreeMap<_, _> =
            before.threads.iter().filter_map(|t| Some(((t.lwp, t.began), t.causes.as_ref()?))).collect();
        let mut waits: Option<Waits> = None;
        for thread in after.threads.iter().filter(|thread| pids.contains(&thread.lwp.pid)) {
            let Some(now) = &thread.causes else { continue };
            let none = Causes::default();
            let since = caused_since(now, known.get(&(thread.lwp, thread.began)).copied().unwrap_or(&none));
            waits.get_or_insert_default().add(thread.lwp, since);
        }
        waits
    }

    fn add(&mut self, lwp: Lwp, causes: Causes) {
        self.disk = self.disk + causes.disk;
        for (address, wait) in causes.waits {
            let sum = self.by_address.entry((lwp.pid, address));
            sum.and_modify(|sum| *sum = sum.joined(&wait)).or_insert(wait);
            self.by_thread.insert((lwp, address), wait);
        }
    }

    /// Splits the lock time by kind of lock.
    pub fn split(&self, lock_time: Nanos) -> Split {
        // Address 0 stands for several unknown futex words, about which nothing is known together.
        let is_known =
            |(at, wait): &(&(Pid, u64), &Wait)| at.1 != 0 || matches!(wait.facts, WaitFacts::Told(_));
        Split::of(lock_time, self.by_address.iter().filter(is_known).map(|(_, wait)| wait))
    }

    /// The locks with their places, the most expensive first.
    pub fn locks(&self, machine: &dyn Machine, lock_time: Nanos) -> Vec<Lock> {
        let census = machine.census().ok();
        let lock = |(at, wait): (&(Pid, u64), &Wait)| Lock {
            at: *at,
            kind: classify(&wait.facts),
            place: census.and_then(|census| census.lock_place(at.0, at.1)),
            holder: holder(wait),
            share: part(wait.time, lock_time),
        };
        let mut locks: Vec<Lock> = self.by_address.iter().filter(|(at, _)| at.1 != 0).map(lock).collect();
        locks.sort_by(|a, b| b.share.total_cmp(&a.share));
        locks
    }

    /// The part of the waits for contended mutexes that are priority inversions, and the longest one.
    pub fn inverted(&self, picture: &Picture) -> (f64, Option<Inversion>) {
        let (mut all, mut inverted) = (Nanos(0), Nanos(0));
        let mut dearest: Option<(Nanos, Inversion)> = None;
        for ((lwp, address), wait) in &self.by_thread {
            let sum = self.by_address.get(&(lwp.pid, *address)).unwrap_or(wait);
            if classify(&sum.facts) != WaitKind::Mutex {
                continue;
            }
            all = all + wait.time;
            if let Some(found) = inversion(*lwp, *address, wait, picture) {
                inverted = inverted + wait.time;
                if dearest.is_none_or(|(time, _)| wait.time > time) {
                    dearest = Some((wait.time, found));
                }
            }
        }
        (part(inverted, all), dearest.map(|(_, inversion)| inversion))
    }
}

fn holder(wait: &Wait) -> Option<LwpId> {
    match wait.facts {
        WaitFacts::Futex(facts) => facts.holder,
        WaitFacts::Told(_) => None,
    }
}

fn inversion(lwp: Lwp, address: u64, wait: &Wait, picture: &Picture) -> Option<Inversion> {
    // The mutex inherits priorities: the kernel gives its holder the priority of the waiter.
    if matches!(wait.facts, WaitFacts::Futex(FutexFacts { operation: FutexOperation::LockPi, .. })) {
        return None;
    }
    let find = |lwp: Lwp| {
        let mut threads = picture.roster.threads.iter().zip(&picture.thread_spent);
        threads.find(|(thread, _)| thread.lwp == lwp)
    };
    let (waiter, _) = find(lwp)?;
    let (holder, spent) = find(Lwp { pid: lwp.pid, lwp: holder(wait)? })?;
    let latency = part(spent.times[Microstate::Latency.index()]?, spent.total());
    let priority = |thread: &ThreadEntry| thread.standing.priority;
    is_inverted(priority(waiter), priority(holder), latency).then(|| Inversion {
        address,
        waiter: (lwp, priority(waiter)),
        holder: (holder.lwp, priority(holder)),
        latency,
    })
}

/// The part of the waits for contended mutexes that were for mutexes of the memory allocator. `None` without any such
/// wait.
pub fn allocator(locks: &[Lock]) -> Option<f64> {
    let mutexes = || locks.iter().filter(|lock| lock.kind == WaitKind::Mutex);
    let all: f64 = mutexes().map(|lock| lock.share).sum();
    let of_allocator = |lock: &&Lock| lock.place.as_ref().is_some_and(|place| place.of_allocator);
    (all > 0.0).then(|| mutexes().filter(of_allocator).map(|lock| lock.share).sum::<f64>() / all)
}
