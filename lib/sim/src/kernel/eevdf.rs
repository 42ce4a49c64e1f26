//! Time sharing as in Linux: EEVDF, earliest eligible virtual deadline first.
//!
//! Sources: Stoica and Abdel-Wahab, *Earliest Eligible Virtual Deadline First* (1995), and the kernel's
//! `Documentation/scheduler/sched-eevdf.rst`. Threads of the class TS follow these rules on machines with the tunable
//! `eevdf_slice_ns`. Other classes and higher priorities keep their own rules.
//!
//! # Rules
//!
//! * Each thread has a *virtual time*: its run time in nanoseconds, times 1,024, divided by its weight. The weight is
//!   1,024 × 1.25^-nice.
//! * The virtual time of a CPU is the weighted mean of its threads' virtual times. A thread is *eligible* if its own is not
//!   larger. The difference is its *lag*: the time that it is owed.
//! * A request is a slice. Its *deadline* is the virtual time at which the slice is used up. Each used-up slice moves it on.
//! * A CPU runs the eligible thread with the earliest deadline. A running thread keeps its CPU until its slice is used up.
//!   Earlier it yields only to a better thread that wakes up, and only if it is no longer eligible. Slices end at clock ticks.
//! * A sleeping thread keeps its lag, at most two slices. Negative lag shrinks as other threads run.
//! * A new thread starts with half a slice.
//! * A waking thread goes to its last CPU if that is idle, else to an idle CPU of the same lgroup (which models the last-level
//!   cache). If none is idle, it goes to its last CPU or to its waker's, whichever has fewer threads. A new thread goes to an idle CPU, else to its
//!   creator's. It leaves its creator's CPU only if that was busy lately and its average load exceeds the least by a sixth of a thread.
//! * A CPU without threads steals one ([`super::choose_cpu`]). There the tunable `nosteal_nsec` is Linux's migration cost.
//!   A busy CPU balances every 16 ms times the number of CPUs, less a tick. It takes one thread from a CPU with more threads, both
//!   now and on recent average. So a short burst of a daemon moves no thread.
//!
//! # Fidelity
//!
//! Exact by these rules: order, shares, lag, deadlines. Approximate: CPUs are balanced by numbers of threads. As in the kernel,
//! their average decays by half in 32 ms; but weights and failed attempts do not count. Groups of threads (cgroups, autogroups)
//! have no weights of their own. Slices cannot be set per thread.

use super::class::{Class, End};
use super::class_state::{ClassState, EevdfState, TS_ENTRY};
use super::ids::{CpuIndex, ThreadId};
use super::state::Kernel;
use super::sys::SYS;
use super::thread::RunState;
use millpond_model::ClassParams;

/// The weight of a thread at nice 0.
const UNIT: i64 = 1_024;
/// The global priority of all time-sharing threads: one value, because it does not decide the order among them.
const LEVEL: i16 = TS_ENTRY as i16;
/// User priorities per step of nice: -60 to 60 correspond to nice 20 to -20.
const UPRI_FOR_NICE: i8 = 3;
/// Balancing interval of a busy CPU, in milliseconds per CPU of the machine.
const BALANCE_MS: u64 = 16;
/// Time constant of a CPU's average load, equivalent to a half-life of 32 ms.
const AVERAGE_NS: u64 = 46_000_000;
/// Minimum load of the other CPU for balancing, in percent of this CPU's load.
const MORE_LOADED: u64 = 117;
/// Minimum average load of a busy CPU, in thousandths of a thread: where 117 % of it is a whole thread.
const BUSY: u64 = 100_000u64.div_ceil(MORE_LOADED);
/// Minimum difference of load at which a new thread leaves its creator's CPU, in thousandths of a thread: 17 %.
const FAR_LESS: u64 = 10 * (MORE_LOADED - 100);
/// Default slice, in nanoseconds.
const SLICE_NS: u64 = 3_000_000;

pub(super) const EEVDF: Class = Class {
    enter: |_, params| ClassState::Eevdf(entry(params)),
    set_params: |kernel, thread, params| {
        kernel.eevdf_charge(thread);
        store(&mut kernel.t(thread).class, params);
    },
    store,
    unset: ClassParams::Ts { uprilim: 0, upri: 0 },
    params: |state| {
        let EevdfState { uprilim, upri, .. } = *of(state);
        ClassParams::Ts { uprilim, upri }
    },
    priority: |_| Some(LEVEL),
    tick: Kernel::eevdf_tick,
    preempt: |kernel, thread| {
        kernel.eevdf_charge(thread);
        kernel.enqueue(thread, End::Back);
    },
    sleep: Kernel::eevdf_sleep,
    wakeup: Kernel::eevdf_wakeup,
    yield_cpu: |kernel, thread| {
        kernel.eevdf_charge(thread);
        let slice = kernel.request(thread);
        kernel.eevdf(thread).deadline += slice;
    },
    fork: |kernel, parent| {
        let EevdfState { upri, uprilim, .. } = *of(&kernel.thread(parent).class);
        ClassState::Eevdf(EevdfState { upri, uprilim, ..EevdfState::default() })
    },
    ..SYS
};

fn of(state: &ClassState) -> &EevdfState {
    match state {
        ClassState::Eevdf(state) => state,
        other => unreachable!("a thread of {other:?} in the rules of EEVDF"),
    }
}

fn entry(params: ClassParams) -> EevdfState {
    let ClassParams::Ts { upri, uprilim } = params else {
        unreachable!("parameters {params} in the rules of EEVDF")
    };
    EevdfState { upri, uprilim, ..EevdfState::default() }
}

fn store(state: &mut ClassState, params: ClassParams) {
    let ClassState::Eevdf(state) = state else { return };
    let EevdfState { upri, uprilim, .. } = entry(params);
    (state.upri, state.uprilim) = (upri, uprilim);
}

/// The weight of a thread with this user priority: a factor of 1.25 per step of nice.
#[expect(clippy::cast_possible_truncation, reason = "15 to 88,818")]
fn weight(upri: i8) -> i64 {
    let nice = -(upri / UPRI_FOR_NICE).clamp(-19, 20);
    (1_024.0 * 1.25f64.powi(-i32::from(nice))).round() as i64
}

impl Kernel {
    fn eevdf(&mut self, thread: ThreadId) -> &mut EevdfState {
        match &mut self.threads[thread].class {
            ClassState::Eevdf(state) => state,
            other => unreachable!("a thread of {other:?} in the rules of EEVDF"),
        }
    }

    #[inline]
    fn eevdf_of(&self, thread: ThreadId) -> Option<&EevdfState> {
        match &self.threads[thread].class {
            ClassState::Eevdf(state) => Some(state),
            _ => None,
        }
    }

    /// A slice of the thread in its virtual time.
    fn request(&self, thread: ThreadId) -> i64 {
        let slice = self.tunables.eevdf_slice_ns.unwrap_or(SLICE_NS);
        i64::try_from(slice).unwrap_or(i64::MAX) * UNIT / weight(of(&self.thread(thread).class).upri)
    }

    /// Updates a thread's virtual time. `true`: its slice is used up, and it has a new deadline.
    fn eevdf_charge(&mut self, thread: ThreadId) -> bool {
        if let RunState::Running = self.thread(thread).state {
            let cpu = self.thread(thread).cpu;
            self.account(cpu);
        }
        if !of(&self.thread(thread).class).placed {
            // It was in another class before.
            let cpu = self.thread(thread).cpu;
            self.eevdf_place(thread, cpu, 0);
        }
        let t = self.thread(thread);
        let used = t.user + t.sys;
        let request = self.request(thread);
        let state = self.eevdf(thread);
        let passed = i64::try_from(used - state.charged.min(used)).unwrap_or(i64::MAX);
        state.charged = used;
        state.vruntime += passed * UNIT / weight(state.upri);
        let is_used_up = state.vruntime >= state.deadline;
        if is_used_up {
            state.deadline = state.vruntime + request;
        }
        is_used_up
    }

    /// The time-sharing threads of a CPU, running and waiting, with their states.
    fn sharers(&self, cpu: CpuIndex) -> impl Iterator<Item = (ThreadId, &EevdfState)> {
        let on = self.cpus[cpu].running.into_iter().chain(self.cpus[cpu].pinned.iter().copied());
        let waiting = self.queues[cpu].threads_at(&self.threads, LEVEL);
        let known = on.chain(waiting).filter_map(|thread| Some((thread, self.eevdf_of(thread)?)));
        known.filter(|(_, state)| state.placed)
    }

    /// The virtual time of a CPU; the last one while it has no threads.
    fn virtual_time(&self, cpu: CpuIndex) -> i64 {
        let (mut weights, mut sum) = (0i64, 0i128);
        for (_, state) in self.sharers(cpu) {
            let weight = weight(state.upri);
            weights += weight;
            sum += i128::from(state.vruntime) * i128::from(weight);
        }
        match weights {
            0 => self.cpus[cpu].virtual_time,
            weights => i64::try_from(sum.div_euclid(i128::from(weights))).unwrap_or(i64::MAX),
        }
    }

    /// Sets the virtual time of a thread that comes to a CPU, so that it has this lag there.
    fn eevdf_place(&mut self, thread: ThreadId, cpu: CpuIndex, lag: i64) {
        let now = self.virtual_time(cpu);
        self.cpus[cpu].virtual_time = now;
        let t = self.thread(thread);
        let (used, request) = (t.user + t.sys, self.request(thread));
        let own = weight(of(&t.class).upri);
        let others: i64 =
            self.sharers(cpu).filter(|(id, _)| *id != thread).map(|(_, s)| weight(s.upri)).sum();
        // The thread itself shifts the mean, the less the lighter it is.
        let inflated = if others > 0 { lag.saturating_mul(others + own) / others } else { 0 };
        let state = self.eevdf(thread);
        state.vruntime = now.saturating_sub(inflated);
        state.deadline = state.vruntime + if state.placed { request } else { request / 2 };
        (state.charged, state.placed) = (used, true);
    }

    /// The lag of a thread on a CPU: by how much its virtual time is behind.
    fn lag(&self, thread: ThreadId, cpu: CpuIndex) -> i64 {
        self.virtual_time(cpu) - of(&self.thread(thread).class).vruntime
    }

    /// Moves a thread to another CPU with its lag. A thread from another class has none.
    #[inline]
    pub(super) fn eevdf_move(&mut self, thread: ThreadId, to: CpuIndex) {
        let from = self.thread(thread).cpu;
        let Some(state) = self.eevdf_of(thread) else { return };
        if !state.placed {
            self.eevdf_place(thread, to, 0);
        } else if from != to {
            let lag = self.lag(thread, from);
            self.eevdf_place(thread, to, lag);
        }
    }

    /// The CPU where a thread of these rules waits: its present one, if allowed. `None` for a thread of other rules.
    #[inline]
    pub(super) fn eevdf_home(&self, thread: ThreadId) -> Option<CpuIndex> {
        self.eevdf_of(thread)?;
        let cpu = self.thread(thread).cpu;
        Some(if self.may_run(thread, cpu) { cpu } else { self.least_shared(thread) })
    }

    /// The thread to run next: the eligible one with the earliest deadline. `first` is the head of the queue.
    #[inline]
    pub(super) fn eevdf_best(&self, cpu: CpuIndex, first: ThreadId) -> ThreadId {
        if self.eevdf_of(first).is_none() {
            return first;
        }
        let now = self.virtual_time(cpu);
        let waiting = self.queues[cpu].threads_at(&self.threads, LEVEL);
        let known = waiting.filter_map(|thread| Some((thread, self.eevdf_of(thread)?)));
        let eligible = known.filter(|(_, state)| state.vruntime <= now);
        let earliest = eligible.min_by_key(|(thread, state)| (state.deadline, *thread));
        earliest.map_or(first, |(thread, _)| thread)
    }

    /// A clock tick found the thread on a CPU.
    fn eevdf_tick(&mut self, thread: ThreadId) {
        let used_up = self.eevdf_charge(thread);
        let cpu = self.thread(thread).cpu;
        self.cpus[cpu].virtual_time = self.virtual_time(cpu);
        self.average_load(cpu);
        self.eevdf_balance(cpu, thread);
        let waits = self.queues[cpu].best;
        if waits > LEVEL || (used_up && waits == LEVEL) {
            self.surrender(thread);
        }
    }

    /// The thread goes to sleep and keeps its lag.
    fn eevdf_sleep(&mut self, thread: ThreadId) {
        self.eevdf_charge(thread);
        let cpu = self.thread(thread).cpu;
        let now = self.virtual_time(cpu);
        self.cpus[cpu].virtual_time = now;
        let most = 2 * self.request(thread);
        let state = self.eevdf(thread);
        state.lag = (now - state.vruntime).clamp(-most, most);
    }

    /// A thread that is stopped by a cap keeps its lag too.
    pub(super) fn eevdf_park(&mut self, thread: ThreadId) {
        if self.eevdf_of(thread).is_some() {
            self.eevdf_sleep(thread);
        }
    }

    /// The thread becomes runnable.
    fn eevdf_wakeup(&mut self, thread: ThreadId) {
        let (last, is_new) = (self.thread(thread).cpu, !of(&self.thread(thread).class).placed);
        let state = *of(&self.thread(thread).class);
        let lag = match state.lag {
            // Negative lag has shrunk by as much as the CPU's time has advanced.
            lag if lag < 0 => (self.virtual_time(last) - state.vruntime).clamp(lag, 0),
            lag => lag,
        };
        let cpu = if is_new { self.eevdf_place_of_new(thread) } else { self.eevdf_choice(thread) };
        if let Some(running) = self.cpus[cpu].running.filter(|running| self.eevdf_of(*running).is_some()) {
            self.eevdf_charge(running);
        }
        self.eevdf_place(thread, cpu, lag);
        self.t(thread).cpu = cpu;
        self.enqueue(thread, End::Back);
        self.eevdf_preempt(cpu, thread);
    }

    /// A waking thread preempts the running one if that is no longer eligible and no waiting thread is better.
    fn eevdf_preempt(&mut self, cpu: CpuIndex, thread: ThreadId) {
        let Some(running) = self.cpus[cpu].running else { return };
        let Some(state) = self.eevdf_of(running) else { return };
        let is_eligible = state.vruntime <= self.virtual_time(cpu);
        if !is_eligible && self.eevdf_best(cpu, thread) == thread {
            self.surrender(running);
        }
    }

    /// Number of threads that run and wait on a CPU.
    fn shared_by(&self, cpu: CpuIndex) -> u32 {
        self.queues[cpu].len() + u32::from(self.cpus[cpu].running.is_some())
    }

    /// Whether nothing runs or waits there.
    fn is_free(&self, cpu: CpuIndex) -> bool {
        self.shared_by(cpu) == 0
    }

    /// The CPU for a waking thread.
    fn eevdf_choice(&self, thread: ThreadId) -> CpuIndex {
        let t = self.thread(thread);
        if let Some(bound) = t.bound {
            return bound;
        }
        let last = t.cpu;
        if !self.may_run(thread, last) {
            return self.least_shared(thread);
        }
        // A thread that a cap stopped stays on its CPU.
        if self.is_free(last) || t.state == RunState::Capped {
            return last;
        }
        let (part, near) = (&self.parts[t.part].cpus, &self.index.rings[self.cpus[last].lgroup as usize][0]);
        let idle = part.iter().find(|cpu| near.contains(*cpu) && self.is_free(*cpu));
        let waker = self.at.filter(|cpu| self.may_run(thread, *cpu));
        let less = |cpu: &CpuIndex| self.shared_by(*cpu) < self.shared_by(last);
        idle.or_else(|| waker.filter(less)).unwrap_or(last)
    }

    /// The CPU for a new thread.
    fn eevdf_place_of_new(&self, thread: ThreadId) -> CpuIndex {
        let t = self.thread(thread);
        if let Some(bound) = t.bound {
            return bound;
        }
        let part = &self.parts[t.part].cpus;
        let starter = self.at.filter(|cpu| self.may_run(thread, *cpu));
        let Some(starter) = starter.filter(|_| !part.iter().any(|cpu| self.is_free(cpu))) else {
            return self.least_shared(thread);
        };
        let load = |cpu: CpuIndex| self.cpus[cpu].average_load;
        let least = part.iter().min_by_key(|cpu| load(*cpu)).unwrap_or(starter);
        let is_less = load(starter) >= BUSY && load(least) + FAR_LESS <= load(starter);
        if is_less { least } else { starter }
    }

    /// The CPU of a thread's partition with the fewest threads.
    fn least_shared(&self, thread: ThreadId) -> CpuIndex {
        let t = self.thread(thread);
        let part = &self.parts[t.part].cpus;
        let free = part.iter().min_by_key(|cpu| (self.shared_by(*cpu), *cpu != t.cpu));
        t.bound.or(free).unwrap_or(t.cpu)
    }

    /// Adds a tick's sample to the average load of a CPU.
    fn average_load(&mut self, cpu: CpuIndex) {
        let (now, tick) = (1_000 * u64::from(self.shared_by(cpu)), self.tick().min(AVERAGE_NS));
        let average = &mut self.cpus[cpu].average_load;
        *average = (*average * (AVERAGE_NS - tick) + now * tick) / AVERAGE_NS;
    }

    /// Balances a busy CPU from time to time: takes a thread from the CPU with the most.
    fn eevdf_balance(&mut self, cpu: CpuIndex, thread: ThreadId) {
        let cpus = self.cpus.len() as u64;
        // One tick less, as in the kernel, so that the balancing of different domains does not coincide.
        let every = (BALANCE_MS * cpus * 1_000_000 / self.tick()).saturating_sub(1).max(1);
        // Each CPU at its own time.
        let turn = u64::from(cpu.0) * every / cpus;
        if !(self.lbolt() + turn).is_multiple_of(every) {
            return;
        }
        let own = self.shared_by(cpu);
        let part = &self.parts[self.thread(thread).part].cpus;
        let load = |cpu: CpuIndex| self.cpus[cpu].average_load;
        let busiest = part.iter().max_by_key(|other| (load(*other), std::cmp::Reverse(*other)));
        let is_more =
            |other: &CpuIndex| self.shared_by(*other) > own && load(*other) * 100 > load(cpu) * MORE_LOADED;
        let Some(from) = busiest.filter(is_more) else { return };
        let cold = |id: &ThreadId| {
            let t = self.thread(*id);
            t.bound.is_none()
                && self.may_run(*id, cpu)
                && self.now - t.queued_at >= self.tunables.nosteal_nsec
                && self.eevdf_of(*id).is_some()
        };
        let taken = self.queues[from].threads_at(&self.threads, LEVEL).find(cold);
        if let Some(taken) = taken {
            self.eevdf_move(taken, cpu);
            self.dequeue(taken);
            self.t(taken).cpu = cpu;
            self.enqueue(taken, End::Back);
        }
    }

    /// Whether a CPU must choose among threads of these rules.
    #[inline]
    pub(super) fn is_eevdf(&self, best: i16) -> bool {
        best == LEVEL && self.tunables.eevdf_slice_ns.is_some()
    }
}
