//! A simulated machine as a subject of the laws, alone or behind a defect.

use millpond_machine::Machine;
use millpond_machine::laws::{Abilities, Load, Subject, Times};
use millpond_model::{Lwp, LwpId, Pid, WallTime};
use millpond_sim::kernel::{Action, Kernel, Program, Waiting};
use millpond_sim::tables::ProcessRecord;
use millpond_sim::{SimMachine, workloads};

/// A simulated machine, or a wrapper around one.
pub trait OnSim: Machine {
    /// The simulated machine.
    fn sim(&self) -> &SimMachine;
    /// Forks; returns the child. A defect may forget the inheritance.
    fn fork(&self, parent: Lwp) -> Option<Pid> {
        self.sim().fork(parent)
    }
    /// Checks its consistency. A defective machine may be inconsistent.
    fn sound(&self) -> Result<(), String>;
}

impl OnSim for SimMachine {
    fn sim(&self) -> &SimMachine {
        self
    }
    fn sound(&self) -> Result<(), String> {
        self.view(|s| s.check())
    }
}

/// The subject.
pub struct SimSubject<M: OnSim>(pub M);

impl<M: OnSim> SimSubject<M> {
    /// The first existing thread.
    fn first(&self, pid: Pid) -> Lwp {
        let first = |p: &ProcessRecord| p.lwps.keys().next().copied();
        let lwp = self.0.sim().view(|s| s.tables.processes.get(&pid).and_then(first));
        Lwp { pid, lwp: lwp.unwrap_or(LwpId(1)) }
    }
}

/// Parameters of the named workload of a load, if it has one.
fn words(load: Load) -> Option<&'static str> {
    Some(match load {
        Load::Spin => "spin -t 2",
        Load::Burst => "spin -t 2 --for 40",
        Load::Nap => "nap -t 2 --run 3 --sleep 7",
        Load::Fork => "fork --every 40 --life 2",
        Load::Build => "build -j 2 --files 6",
        Load::Pingpong | Load::Meet => return None,
    })
}

/// Pairs that alternate a hundred times for 5 µs, and end.
fn pingpong(kernel: &mut Kernel) -> Vec<Program> {
    let (ping, pong) = (kernel.channel(), kernel.channel());
    let rounds = |turn: [Action; 3]| Program::once(turn.iter().cycle().take(300).cloned().collect());
    let first = [Action::User(5_000), Action::Post(ping), Action::Wait(pong)];
    let second = [Action::Wait(ping), Action::User(5_000), Action::Post(pong)];
    vec![rounds(first), rounds(second)]
}

/// Three threads that compute for 3 ms and meet, spinning, and asleep at the end of each round.
fn meet(kernel: &mut Kernel) -> Vec<Program> {
    let barrier = kernel.barrier(3);
    let turn =
        [Waiting::Spin, Waiting::Block].map(|how| [Action::User(3_000_000), Action::Meet(barrier, how)]);
    vec![Program::repeat(turn.concat()); 3]
}

impl<M: OnSim> Subject for SimSubject<M> {
    fn machine(&self) -> &dyn Machine {
        &self.0
    }

    fn abilities(&self) -> Abilities {
        Abilities::all(&self.0.sim().view(|s| s.topology.cpus()))
    }

    fn snapshot(&self, times: Times) -> Result<String, String> {
        self.0.sound()?;
        let sim = self.0.sim();
        let mut tables = sim.view(|s| s.tables.clone());
        tables.next_pid = Pid(u32::MAX);
        if times == Times::LeftOut {
            tables.processors.values_mut().for_each(|p| p.since = WallTime(0));
        }
        let rest = sim.view(|s| format!("{:?} {:?}", s.devices, s.zones));
        let tables = serde_json::to_string(&tables).map_err(|error| error.to_string())?;
        Ok(format!("{rest} {tables}"))
    }

    fn spawn(&mut self) -> Result<Pid, String> {
        Ok(self.0.sim().spawn("subject", 1))
    }

    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String> {
        self.0.sim().add_thread(self.first(pid)).ok_or_else(|| format!("no process {pid}"))
    }

    fn fork(&mut self, parent: Pid) -> Result<Pid, String> {
        self.0.fork(self.first(parent)).ok_or_else(|| format!("no process {parent}"))
    }

    fn start(&mut self, load: Load) -> Result<Pid, String> {
        let sim = self.0.sim();
        if let Some(words) = words(load) {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let load = workloads::Load::parse(&words).map_err(|error| error.to_string())?;
            return Ok(sim.start_load(&load));
        }
        let programs = if load == Load::Meet { meet } else { pingpong };
        Ok(sim.edit(|s| {
            let programs = programs(&mut s.kernel);
            s.start("subject", programs)
        }))
    }

    fn contender(&mut self, project: &str, threads: u32) -> Result<Pid, String> {
        let words = ["spin".to_owned(), "-t".to_owned(), threads.to_string()];
        let load = workloads::Load::parse(&words).map_err(|error| error.to_string())?;
        let pid = self.0.sim().start_load(&load);
        self.0.sim().edit(|s| s.enter_project(pid, project)).map_err(|error| error.to_string())?;
        Ok(pid)
    }

    fn parent(&self, pid: Pid) -> Option<Pid> {
        self.0.sim().view(|s| s.tables.processes.get(&pid)?.parent)
    }

    fn exit(&mut self, pid: Pid) -> Result<(), String> {
        if self.0.sim().exit(pid) { Ok(()) } else { Err(format!("no process {pid}")) }
    }
}
