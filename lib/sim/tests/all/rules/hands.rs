//! Helpers that change a simulated machine as commands do.

use millpond_machine::facets::{CreateOptions, Rebinding, StateChange};
use millpond_machine::{Change, Machine, Processors, Psets, Refusal, Threads, Writer};
use millpond_model::{CpuId, CpuSet, Lwp, LwpId, Move, Pid, PsetId, State};
use millpond_sim::SimMachine;

/// The machine.
pub struct Hands(pub SimMachine);

/// The outcome of a change, or its refusal.
pub type Answer<T> = Result<T, Refusal>;

impl Hands {
    /// Opens a named machine.
    pub fn on(name: &str) -> Self {
        Hands(SimMachine::named(name).expect("it comes with the program"))
    }

    fn make<T>(&self, prepare: impl FnOnce(&SimMachine) -> Answer<Change<T>>) -> Answer<T> {
        let writer = Writer::open(&self.0)?;
        Ok(writer.commit(prepare(&self.0)?)?.outcome)
    }

    /// `psrset -c`.
    pub fn create(&self, cpus: &[u32]) -> Answer<PsetId> {
        let options = CreateOptions::default();
        self.make(|m| m.prepare_create(&ids(cpus), options, false)).map(|(id, _)| id)
    }

    /// `psrset -a`, and `psrset -r` for set 0.
    pub fn assign(&self, set: u32, cpus: &[u32]) -> Answer<Vec<Move>> {
        self.make(|m| m.prepare_assign(PsetId(set), &ids(cpus), false))
    }

    /// The same with `-F`.
    pub fn force_assign(&self, set: u32, cpus: &[u32]) -> Answer<Vec<Move>> {
        self.make(|m| m.prepare_assign(PsetId(set), &ids(cpus), true))
    }

    /// `psrset -d`.
    pub fn destroy(&self, set: u32) -> Answer<()> {
        self.make(|m| m.prepare_destroy(PsetId(set)))
    }

    /// `psrset -b`, and `psrset -u` for none.
    pub fn bind_set(&self, pid: u32, set: Option<u32>) -> Answer<Vec<Rebinding<PsetId>>> {
        self.make(|m| m.prepare_bind_set(Pid(pid), None, set.map(PsetId)))
    }

    /// `psrset -b set pid/lwp`.
    pub fn bind_lwp_set(&self, pid: u32, lwp: u32, set: Option<u32>) -> Answer<Vec<Rebinding<PsetId>>> {
        self.make(|m| m.prepare_bind_set(Pid(pid), Some(&[LwpId(lwp)]), set.map(PsetId)))
    }

    /// `pbind -b`, and `pbind -u` for none.
    pub fn bind_cpu(&self, pid: u32, cpu: Option<u32>) -> Answer<Vec<Rebinding<CpuSet>>> {
        self.make(|m| m.prepare_bind_cpus(Pid(pid), None, &cpu.map(CpuId).into_iter().collect()))
    }

    /// `pbind -b cpu pid/lwp`.
    pub fn bind_lwp_cpu(&self, pid: u32, lwp: u32, cpu: Option<u32>) -> Answer<Vec<Rebinding<CpuSet>>> {
        self.make(|m| {
            m.prepare_bind_cpus(Pid(pid), Some(&[LwpId(lwp)]), &cpu.map(CpuId).into_iter().collect())
        })
    }

    /// `psradm`.
    pub fn state(&self, cpu: u32, to: State) -> Answer<StateChange> {
        self.make(|m| m.prepare_state(CpuId(cpu), to, false))
    }

    /// `psradm -F`.
    pub fn force_state(&self, cpu: u32, to: State) -> Answer<StateChange> {
        self.make(|m| m.prepare_state(CpuId(cpu), to, true))
    }

    /// `psrset -b -z`.
    pub fn bind_zone(&self, zone: &str, set: Option<u32>) -> Answer<PsetId> {
        let facet = Machine::zones(&self.0)?;
        self.make(|_| facet.prepare_bind(zone, set.map(PsetId))).map(|zone| zone.set)
    }

    /// The members of a set in order, as text.
    pub fn members(&self, set: u32) -> String {
        let members = self.0.view(|s| s.tables.members(PsetId(set)));
        members.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// A thread's bindings and allowed CPUs as text: `set 1, CPU none, 1-3`.
    pub fn thread(&self, pid: u32, lwp: u32) -> String {
        let lwps = self.0.lwps(Pid(pid)).expect("the process exists");
        let t = lwps.iter().find(|t| t.lwp == self::lwp(pid, lwp)).expect("the thread exists");
        let cpu = if t.cpus.is_empty() { "none".into() } else { t.cpus.to_string() };
        format!("set {}, processor {cpu}, {}", t.set, t.allowed)
    }

    /// The state of a CPU.
    pub fn state_of(&self, cpu: u32) -> State {
        let states = self.0.states().expect("they can be read");
        states.iter().find(|s| s.cpu == CpuId(cpu)).expect("the processor exists").state
    }
}

/// A thread.
pub fn lwp(pid: u32, lwp: u32) -> Lwp {
    Lwp { pid: Pid(pid), lwp: LwpId(lwp) }
}

/// The text of a refusal.
pub fn refusal<T: std::fmt::Debug>(answer: Answer<T>) -> String {
    answer.expect_err("it is refused").to_string()
}

fn ids(cpus: &[u32]) -> Vec<CpuId> {
    cpus.iter().copied().map(CpuId).collect()
}
