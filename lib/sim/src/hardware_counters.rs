//! The hardware counters facet: cycles and instructions, by CPU and by thread. The kernel counts all the time; starting a set only stores
//! the present values.

use crate::kernel::Executed;
use crate::machine::SimMachine;
use crate::state::{Note, SimState};
use crate::workloads::Load;
use millpond_machine::facets::{
    CpuCounting, CpuReading, EventKind, EventList, Follow, Happening, Interface, LwpCounting, LwpReading,
    Tracked, Tracking, Wanted,
};
use millpond_machine::{Absent, Clock, HardwareCounters, Reason, Refusal, Subject};
use millpond_model::{Counted, CpuId, Lwp, Nanos, Pid};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Every counter can count both events.
const BOTH: u32 = 0b11;
/// Femtoseconds per nanosecond.
const FS: u128 = 1_000_000;

const GENERIC: [&str; 4] = ["PAPI_tot_cyc", "PAPI_tot_ins", "cycles", "instructions"];
const PLATFORM: [&str; 2] = ["Cycle_cnt", "Instr_cnt"];

fn counts_cycles(event: &str) -> bool {
    matches!(event, "PAPI_tot_cyc" | "cycles" | "Cycle_cnt")
}

impl HardwareCounters for SimMachine {
    fn hardware(&self) -> Result<(), Absent> {
        Ok(())
    }

    fn interface(&self) -> Interface {
        let list = |kind, names: &[&str]| EventList {
            kind,
            counters: BOTH,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        Interface {
            name: format!("machine {}, simulated", self.view(|s| s.name.clone())),
            events: vec![list(EventKind::Generic, &GENERIC), list(EventKind::Platform, &PLATFORM)],
            attributes: vec!["nouser".to_owned(), "sys".to_owned()],
            reference: "A simulated machine counts what its model executes: see the ledger of the simulator."
                .to_owned(),
            cpu_tick: Some("%tick".to_owned()),
            lwp_tick: Some("%tick".to_owned()),
        }
    }

    fn capable(&self, event: &str) -> Option<u32> {
        GENERIC.iter().chain(&PLATFORM).any(|known| *known == event).then_some(BOTH)
    }

    fn count_cpus(&self, cpus: &[CpuId], sets: &[Vec<Wanted>]) -> Result<Box<dyn CpuCounting + '_>, Refusal> {
        for cpu in cpus {
            if let Some(why) = self.view(|s| unreadable(s, *cpu)) {
                return Err(Refusal::new(Subject::Processor(*cpu), Reason::Machine(why)));
            }
        }
        let from = vec![Executed::default(); cpus.len()];
        Ok(Box::new(Cpus {
            machine: self,
            cpus: cpus.to_vec(),
            sets: sets.to_vec(),
            set: 0,
            started: Nanos(0),
            from,
            lost: BTreeMap::new(),
        }))
    }

    fn count_lwps(&self, lwps: &[Lwp], set: &[Wanted]) -> Result<Box<dyn LwpCounting + '_>, Refusal> {
        let from = self.view(|s| {
            let lives = |lwp: &&Lwp| s.tables.lwp(**lwp).is_some();
            lwps.iter().filter(lives).map(|lwp| (*lwp, of_lwp(s, *lwp))).collect()
        });
        Ok(Box::new(Lwps { machine: self, set: set.to_vec(), from }))
    }

    fn track(
        &self,
        whose: &Tracked,
        sets: &[Vec<Wanted>],
        follow: Follow,
    ) -> Result<Box<dyn Tracking + '_>, Refusal> {
        let pid = match whose {
            Tracked::Process(pid) => *pid,
            Tracked::Program(words) => {
                let words: Vec<String> = words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
                let refuse = |error: millpond_model::WorkloadError| {
                    Refusal::operation(Reason::NotStarted(error.what)).hint(error.remedy)
                };
                self.start_load(&Load::parse(&words).map_err(refuse)?)
            }
        };
        let lwps = self.view(|s| s.tables.processes.get(&pid).map(|p| p.lwps.keys().copied().collect()));
        let lwps: Vec<_> = lwps.ok_or(Refusal::new(Subject::Process(pid), Reason::NoSuchProcess))?;
        self.edit(|s| s.notes = Some(Vec::new()));
        let mut tracked = Threads {
            machine: self,
            pid,
            sets: sets.to_vec(),
            set: 0,
            follow,
            from: BTreeMap::new(),
            told: VecDeque::new(),
        };
        for lwp in lwps {
            tracked.begin(Lwp { pid, lwp }, matches!(whose, Tracked::Process(_)));
        }
        Ok(Box::new(tracked))
    }
}

/// The reason why a CPU's counters cannot be read.
fn unreadable(state: &SimState, cpu: CpuId) -> Option<String> {
    match state.tables.processors.get(&cpu) {
        None => Some("there is no such CPU".to_owned()),
        Some(record) if !record.state.runs_threads() => Some(format!("it is {}", record.state)),
        Some(_) => None,
    }
}

/// CPU time and instructions of a CPU since boot.
fn of_cpu(state: &SimState, cpu: CpuId) -> Executed {
    let at = state.topology.processors().iter().position(|p| p.id == cpu);
    let cpu = at.and_then(|at| state.kernel.cpus().get(at));
    cpu.map_or_else(Executed::default, |cpu| Executed {
        user: cpu.user,
        sys: cpu.sys,
        instructions: cpu.instructions,
        user_instructions: cpu.user_instructions,
    })
}

/// CPU time and instructions of a thread since it began. A thread that sleeps for ever has none.
fn of_lwp(state: &SimState, lwp: Lwp) -> Executed {
    let thread = state.threads.iter().find(|(_, other)| **other == lwp).map(|(thread, _)| *thread);
    thread.map_or_else(Executed::default, |thread| state.kernel.thread(thread).executed())
}

fn cycles(nanos: u64, cycle_fs: u64) -> u64 {
    u64::try_from(u128::from(nanos) * FS / u128::from(cycle_fs.max(1))).unwrap_or(u64::MAX)
}

/// The counters of a set between two readings.
fn values(set: &[Wanted], from: Executed, to: Executed, cycle_fs: u64) -> Vec<u64> {
    let one = |wanted: &Wanted| {
        let (user, sys) = if counts_cycles(&wanted.event) {
            (cycles(to.user - from.user, cycle_fs), cycles(to.sys - from.sys, cycle_fs))
        } else {
            let user = to.user_instructions - from.user_instructions;
            (user, to.instructions - from.instructions - user)
        };
        u64::from(wanted.user) * user + u64::from(wanted.sys) * sys
    };
    set.iter().map(one).collect()
}

struct Cpus<'a> {
    machine: &'a SimMachine,
    cpus: Vec<CpuId>,
    sets: Vec<Vec<Wanted>>,
    set: usize,
    started: Nanos,
    /// The readings at the start of the set.
    from: Vec<Executed>,
    lost: BTreeMap<CpuId, String>,
}

impl CpuCounting for Cpus<'_> {
    fn start(&mut self, set: usize) -> Result<(), Refusal> {
        self.set = set;
        self.started = self.machine.now();
        self.from = self.machine.view(|s| self.cpus.iter().map(|cpu| of_cpu(s, *cpu)).collect());
        Ok(())
    }

    fn read(&mut self) -> Vec<CpuReading> {
        let at = self.machine.now();
        let passed = at - self.started;
        let set = self.sets.get(self.set).map_or(&[][..], Vec::as_slice);
        let lost = &mut self.lost;
        let one = |state: &SimState, cpu: CpuId, from: Executed| {
            if let Some(why) = unreadable(state, cpu) {
                lost.entry(cpu).or_insert(why);
            }
            let cycle_fs = state.kernel.hardware().cycle_fs;
            let counted = match lost.get(&cpu) {
                Some(why) => Err(why.clone()),
                None => Ok(Counted {
                    values: values(set, from, of_cpu(state, cpu), cycle_fs),
                    wanted: passed,
                    counting: passed,
                }),
            };
            CpuReading { cpu, at, tick: cycles(at.0, cycle_fs), counted }
        };
        let (cpus, from) = (&self.cpus, &self.from);
        self.machine.view(|s| {
            let mut one = one;
            cpus.iter().zip(from).map(|(cpu, from)| one(s, *cpu, *from)).collect()
        })
    }
}

/// A thread's counters between two readings.
fn lwp_reading(machine: &SimMachine, lwp: Lwp, set: &[Wanted], from: Executed, to: Executed) -> LwpReading {
    let cycle_fs = machine.view(|s| s.kernel.hardware().cycle_fs);
    let ran = (to.user - from.user) + (to.sys - from.sys);
    let counted =
        Counted { values: values(set, from, to, cycle_fs), wanted: Nanos(ran), counting: Nanos(ran) };
    LwpReading { lwp, tick: cycles(ran, cycle_fs), counted }
}

/// Counted threads that are not followed, with their earlier readings.
struct Lwps<'a> {
    machine: &'a SimMachine,
    set: Vec<Wanted>,
    from: Vec<(Lwp, Executed)>,
}

impl LwpCounting for Lwps<'_> {
    fn read(&mut self) -> Vec<LwpReading> {
        let lives = |lwp: Lwp| self.machine.view(|s| s.tables.lwp(lwp).is_some());
        let now = |lwp: Lwp| self.machine.view(|s| of_lwp(s, lwp));
        let there = self.from.iter().filter(|(lwp, _)| lives(*lwp));
        there.map(|(lwp, from)| lwp_reading(self.machine, *lwp, &self.set, *from, now(*lwp))).collect()
    }
}

struct Threads<'a> {
    machine: &'a SimMachine,
    pid: Pid,
    sets: Vec<Vec<Wanted>>,
    set: usize,
    follow: Follow,
    /// Followed threads, with their readings at the start of the set.
    from: BTreeMap<Lwp, Executed>,
    told: VecDeque<Happening>,
}

impl Threads<'_> {
    /// Follows a thread: from now on if it ran before, else from its beginning.
    fn begin(&mut self, lwp: Lwp, ran_before: bool) {
        let from = if ran_before { self.machine.view(|s| of_lwp(s, lwp)) } else { Executed::default() };
        self.from.insert(lwp, from);
        self.told.push_back(Happening::Began { lwp, created: false });
    }

    fn reading(&self, lwp: Lwp, from: Executed, to: Executed) -> LwpReading {
        let set = self.sets.get(self.set).map_or(&[][..], Vec::as_slice);
        lwp_reading(self.machine, lwp, set, from, to)
    }

    /// Converts the machine's notes to events.
    fn hear(&mut self) {
        let notes = self.machine.edit(|s| s.notes.replace(Vec::new())).unwrap_or_default();
        for note in notes {
            match note {
                Note::Born { parent, child } if self.from.contains_key(&parent) => {
                    self.told.push_back(Happening::Forked { lwp: parent, child });
                    if self.follow.forks {
                        // A grandchild that ended at once is already gone.
                        self.begin(Lwp { pid: child, lwp: millpond_model::LwpId(1) }, false);
                    }
                }
                Note::Ended { lwp, executed } => {
                    let Some(from) = self.from.remove(&lwp) else { continue };
                    self.told.push_back(Happening::Ended(self.reading(lwp, from, executed)));
                    if !self.from.keys().any(|other| other.pid == lwp.pid) {
                        self.told.push_back(Happening::Exited { pid: lwp.pid });
                    }
                }
                Note::Born { .. } => {}
            }
        }
    }

    /// Reports the end of threads that never ran: they are only in the tables and end without a note.
    fn bury(&mut self) {
        let lives = |lwp: &Lwp| self.machine.view(|s| s.tables.lwp(*lwp).is_some());
        let gone: Vec<Lwp> = self.from.keys().filter(|lwp| !lives(lwp)).copied().collect();
        let mut pids = BTreeSet::new();
        for lwp in gone {
            let Some(from) = self.from.remove(&lwp) else { continue };
            self.told.push_back(Happening::Ended(self.reading(lwp, from, from)));
            pids.insert(lwp.pid);
        }
        for pid in pids {
            if !self.from.keys().any(|other| other.pid == pid) {
                self.told.push_back(Happening::Exited { pid });
            }
        }
    }
}

impl Tracking for Threads<'_> {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn next(&mut self, deadline: Nanos) -> Result<Happening, Refusal> {
        loop {
            if let Some(told) = self.told.pop_front() {
                return Ok(told);
            }
            self.hear();
            self.bury();
            if !self.told.is_empty() {
                continue;
            }
            if self.from.is_empty() {
                return Ok(Happening::Over);
            }
            if self.machine.now() >= deadline {
                return Ok(Happening::Due);
            }
            self.machine.pass_until_noted(deadline);
        }
    }

    fn start(&mut self, set: usize) -> Result<(), Refusal> {
        self.set = set;
        self.machine.view(|s| {
            for (lwp, from) in &mut self.from {
                *from = of_lwp(s, *lwp);
            }
        });
        Ok(())
    }

    fn read(&mut self) -> Vec<LwpReading> {
        let now = |lwp: Lwp| self.machine.view(|s| of_lwp(s, lwp));
        self.from.iter().map(|(lwp, from)| self.reading(*lwp, *from, now(*lwp))).collect()
    }
}

impl Drop for Threads<'_> {
    fn drop(&mut self) {
        self.machine.edit(|s| s.notes = None);
    }
}
