//! The census facet: processes and threads of a simulated machine, and their microstates. The kernel counts everything
//! all the time, so reading costs the machine nothing.
//!
//! Exact: user and system time; waiting for a CPU (also under an interrupt, and for a cap); sleep; switches and calls.
//! Sleep at a barrier counts as waiting for a lock. Traps, faults and signals are 0, because there are none. Sizes are unknown.

use crate::kernel::{CpuIndex, Id, ThreadId};
use crate::kernel::{RunState, Thread};
use crate::machine::SimMachine;
use crate::state::SimState;
use crate::tables::{LwpRecord, ProcessRecord};
use millpond_machine::facets::{CensusOptions, CensusWatch};
use millpond_machine::{Absent, Census, Refusal};
use millpond_model::{
    Causes, ClassParams, CpuId, Doing, LockPlace, Lwp, Microstate, Named, Nanos, Pid, ProcessEntry, Roster,
    Spent, Standing, ThreadEntry, Wait, WaitFacts, WaitKind, nice_of_upri,
};
use std::collections::BTreeMap;

/// Priority of a thread that has slept since boot.
const RESTED: i16 = 59;

/// Priority of a kernel thread that has slept since boot.
const SYS_RESTED: i16 = 60;

/// Global priority of RT level 0.
const RT_BASE: i16 = 100;

/// The pid of the first process that a user started.
const FIRST_STARTED: u32 = 300;

impl Census for SimMachine {
    fn list(&self, options: CensusOptions) -> Result<Roster, Refusal> {
        Ok(self.view(|state| roster(state, options)))
    }

    fn watch(&self, options: CensusOptions) -> Result<Box<dyn CensusWatch + '_>, Absent> {
        Ok(Box::new(Watch { machine: self, options }))
    }

    fn lock_place(&self, _: Pid, _: u64) -> Option<LockPlace> {
        None
    }

    fn users(&self) -> BTreeMap<u32, String> {
        BTreeMap::from([(0, "root".to_owned())])
    }
}

struct Watch<'a> {
    machine: &'a SimMachine,
    options: CensusOptions,
}

impl CensusWatch for Watch<'_> {
    fn sample(&mut self) -> Result<Roster, Refusal> {
        self.machine.list(self.options)
    }

    fn set_places(&mut self, places: bool, memory: bool) {
        (self.options.places, self.options.memory) = (places, memory);
    }

    fn explain(&self) -> Vec<String> {
        vec!["everything is counted by the simulated machine itself; watching costs it nothing".into()]
    }
}

fn roster(state: &SimState, options: CensusOptions) -> Roster {
    let numbers: BTreeMap<Lwp, ThreadId> =
        state.threads.iter().map(|(thread, lwp)| (*lwp, *thread)).collect();
    let mut roster = Roster {
        at: state.now(),
        wall: state.wall(),
        processors: u32::try_from(state.tables.where_cpu(|p| p.state.runs_threads()).len()).unwrap_or(0),
        load: Some(
            state.load.hundredths().map(|it| f64::from(u32::try_from(it).unwrap_or(u32::MAX)) / 100.0),
        ),
        waits: Some(
            state.kernel.waits().filter_map(|(cpu, waits)| Some((id_of(state, cpu)?, waits))).collect(),
        ),
        ..Roster::default()
    };
    for (pid, process) in &state.tables.processes {
        let threads: Vec<ThreadEntry> = process
            .lwps
            .iter()
            .map(|(id, record)| {
                let lwp = Lwp { pid: *pid, lwp: *id };
                let thread = numbers.get(&lwp).map(|number| state.kernel.thread(*number));
                entry(state, lwp, process, record, thread, options)
            })
            .collect();
        roster.processes.extend(process_entry(state, *pid, process, &threads));
        if options.lists_threads() {
            roster.threads.extend(threads);
        }
    }
    roster
}

fn process_entry(
    state: &SimState,
    pid: Pid,
    process: &ProcessRecord,
    threads: &[ThreadEntry],
) -> Option<ProcessEntry> {
    let zone = state.zone_id(&process.zone).map(|id| Named { id: u64::from(id), name: process.zone.clone() });
    let project = state.tables.projects.get(&process.project);
    let project = project.map(|p| Named { id: u64::from(process.project), name: p.name.clone() });
    Some(ProcessEntry {
        pid,
        name: process.name.clone(),
        began: threads.iter().map(|thread| thread.began).min()?,
        standing: Standing::of_process(threads.iter().map(|thread| thread.standing))?,
        time: threads.iter().fold(Nanos(0), |sum, thread| sum + thread.time),
        threads: u32::try_from(threads.len()).unwrap_or(u32::MAX),
        euid: 0,
        uid: 0,
        size: None,
        rss: None,
        zone: zone.unwrap_or_default(),
        task: task(state, pid),
        project: project.unwrap_or_default(),
    })
}

/// The oldest ancestor of a process, which identifies its task; 0 for system processes.
fn task(state: &SimState, pid: Pid) -> u32 {
    if pid.0 < FIRST_STARTED {
        return 0;
    }
    let parent = |pid: Pid| state.tables.processes.get(&pid).and_then(|process| process.parent);
    // Terminates: a parent has a smaller pid.
    std::iter::successors(Some(pid), |pid| parent(*pid)).last().map_or(0, |first| first.0)
}

fn entry(
    state: &SimState,
    lwp: Lwp,
    process: &ProcessRecord,
    record: &LwpRecord,
    thread: Option<&Thread>,
    options: CensusOptions,
) -> ThreadEntry {
    let (began, time) = thread.map_or((Nanos(0), Nanos(0)), |t| (Nanos(t.tally.born), Nanos(t.user + t.sys)));
    let params = record.class;
    let doing = thread.map_or(Doing::Asleep, |t| doing(state, t));
    let was_on = thread
        .and_then(|t| t.ran_on.or(Some(t.cpu).filter(|_| t.user + t.sys > 0)))
        .and_then(|cpu| id_of(state, cpu));
    let standing = Standing {
        doing,
        class: params.class(),
        priority: thread.map_or_else(|| rested(&params), Thread::effective),
        nice: nice(&params),
        // A thread that moved but has not yet run reports the new CPU.
        cpu: if let Doing::OnCpu(cpu) = doing { Some(cpu) } else { was_on },
        home: thread.and_then(|t| state.topology.lgroups().get(t.home as usize)).map(|l| l.id),
        set: record.set_id(),
    };
    let spent = spent(state, thread);
    let causes = options.causes.then(|| causes(state, thread));
    ThreadEntry { lwp, name: process.name.clone(), began, standing, time, spent: Some(spent), causes }
}

fn doing(state: &SimState, thread: &Thread) -> Doing {
    match thread.state {
        RunState::Running | RunState::Pinned => {
            id_of(state, thread.cpu).map_or(Doing::Runnable, Doing::OnCpu)
        }
        RunState::Queued(_) => Doing::Runnable,
        RunState::Capped => Doing::Capped,
        RunState::Asleep => Doing::Asleep,
        RunState::Gone => Doing::Zombie,
    }
}

fn id_of(state: &SimState, cpu: CpuIndex) -> Option<CpuId> {
    state.topology.processors().get(cpu.place()).map(|processor| processor.id)
}

fn rested(params: &ClassParams) -> i16 {
    match params {
        ClassParams::Sys => SYS_RESTED,
        ClassParams::Rt { pri, .. } => RT_BASE + i16::from(*pri),
        ClassParams::Fx { upri, .. } => i16::from(*upri),
        ClassParams::Ts { .. } | ClassParams::Ia { .. } | ClassParams::Fss { .. } => RESTED,
    }
}

fn nice(params: &ClassParams) -> Option<i8> {
    match params {
        ClassParams::Ts { upri, .. } | ClassParams::Ia { upri, .. } | ClassParams::Fss { upri, .. } => {
            Some(nice_of_upri(*upri))
        }
        ClassParams::Fx { .. } => Some(0),
        ClassParams::Rt { .. } | ClassParams::Sys => None,
    }
}

fn spent(state: &SimState, thread: Option<&Thread>) -> Spent {
    let now = state.kernel.now();
    let mut spent = Spent {
        times: [Some(Nanos(0)); 8],
        voluntary: Some(0),
        involuntary: Some(0),
        calls: Some(0),
        signals: Some(0),
        capped: Some(Nanos(0)),
        ..Spent::default()
    };
    let mut put = |which: Microstate, time: u64| spent.times[which.index()] = Some(Nanos(time));
    let Some(thread) = thread else {
        put(Microstate::Sleep, now);
        return spent;
    };
    let tally = &thread.tally;
    let (locked, slept) = asleep(now, thread);
    let age = now.saturating_sub(tally.born);
    put(Microstate::User, thread.user);
    put(Microstate::System, thread.sys);
    put(Microstate::Lock, locked);
    put(Microstate::Sleep, slept);
    put(Microstate::Latency, age.saturating_sub(thread.user + thread.sys + locked + slept));
    let since = if thread.state == RunState::Capped { now.saturating_sub(thread.queued_at) } else { 0 };
    spent.capped = Some(Nanos(tally.capped + since));
    spent.voluntary = Some(tally.voluntary);
    spent.involuntary = Some(tally.involuntary);
    spent.calls = Some(tally.calls);
    spent
}

/// How long a thread waited for locks, and how long it slept for other reasons, in nanoseconds.
fn asleep(now: u64, thread: &Thread) -> (u64, u64) {
    match thread.state {
        RunState::Asleep => thread.tally.asleep_at(now),
        _ => (thread.tally.locked, thread.tally.slept),
    }
}

/// All locks of the model are barriers, which have no addresses. No simulated thread waits for a disk.
fn causes(state: &SimState, thread: Option<&Thread>) -> Causes {
    let locked = thread.map_or(0, |thread| asleep(state.kernel.now(), thread).0);
    let wait = Wait { time: Nanos(locked), facts: WaitFacts::Told(WaitKind::Barrier) };
    Causes { disk: Nanos(0), waits: (locked > 0).then_some((0, wait)).into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_machine::Clock;
    use millpond_machine::facets::Depth;
    use millpond_model::MICROSTATES;

    fn after(machine: &str, load: &str, seconds: u64) -> Vec<ThreadEntry> {
        let machine = SimMachine::named(machine).unwrap();
        let words: Vec<String> = load.split(' ').map(str::to_owned).collect();
        machine.start_load(&crate::workloads::Load::parse(&words).unwrap());
        machine.sleep_until(Nanos::from_secs(seconds));
        let options = CensusOptions { depth: Depth::Measured, causes: true, ..CensusOptions::default() };
        let roster = machine.list(options).unwrap();
        assert_eq!(roster.processors, 4);
        roster.threads.into_iter().filter(|thread| thread.lwp.pid == Pid(300)).collect()
    }

    fn of(thread: &ThreadEntry, state: Microstate) -> u64 {
        thread.spent.unwrap().times[state.index()].unwrap().0
    }

    #[test]
    fn all_of_a_thread_s_age_is_somewhere() {
        for load in ["spin -t 6", "nap -t 3", "pingpong 4", "cg -t 6 --wait block", "cg -t 6"] {
            for thread in after("x4200", load, 3) {
                let age = 3_000_000_000 - thread.began.0;
                assert_eq!(thread.spent.unwrap().total(), Nanos(age), "{load}: {thread:?}");
            }
        }
    }

    #[test]
    fn every_wait_for_a_lock_is_told_to_be_at_a_barrier() {
        for (load, waits) in [("cg -t 6 --wait block", true), ("cg -t 6", false), ("nap -t 3", false)] {
            let mut any = false;
            for thread in after("x4200", load, 3) {
                let told = thread.causes.as_ref().unwrap().waits.values();
                let time: u64 = told
                    .map(|wait| {
                        assert_eq!(wait.facts, WaitFacts::Told(WaitKind::Barrier));
                        wait.time.0
                    })
                    .sum();
                assert_eq!(time, of(&thread, Microstate::Lock), "{load}");
                any |= time > 0;
            }
            assert_eq!(any, waits, "{load}");
        }
    }

    #[test]
    fn who_computes_is_in_user_mode_and_who_naps_sleeps_half_the_time() {
        let spinner = &after("x4200", "spin -t 1", 2)[0];
        assert_eq!(of(spinner, Microstate::User) + of(spinner, Microstate::System), 2_000_000_000);
        assert!(matches!(spinner.standing.doing, Doing::OnCpu(CpuId(_))));
        let napper = &after("x4200", "nap -t 1", 2)[0];
        let sleeps = of(napper, Microstate::Sleep);
        assert!((995_000_000..1_000_000_001).contains(&sleeps), "{sleeps}");
        assert_eq!(napper.spent.unwrap().voluntary, Some(100));
    }

    #[test]
    fn six_spinners_on_four_processors_wait_a_third_of_their_time_together() {
        let threads = after("x4200", "spin -t 6", 6);
        let waited: u64 = threads.iter().map(|thread| of(thread, Microstate::Latency)).sum();
        assert_eq!(waited, 12_000_000_000);
        assert_eq!(MICROSTATES.len(), threads[0].spent.unwrap().times.len());
    }
}
