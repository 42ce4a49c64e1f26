//! What changes seldom and is read every few seconds: sets, pools, states of CPUs, interrupts, fences, decisions of poold; and places and
//! sizes of processes, which take files of each.

use millpond_machine::facets::{Controlled, Interrupt, throttled_between};
use millpond_model::pools::{Objectives, PoolsState, UNBOUNDED};
use millpond_model::{
    CpuId, Fence, Lwp, Nanos, Pid, PoolId, ProcessEntry, Pset, PsetId, Roster, State, Topology,
};
use millpond_observe::catalogue::{Entity, cpu, decision, fence, interrupt, pool, pset};
use millpond_observe::{Frame, Row};
use millpond_planner::{Decision, read_log};
use millpond_session::Session;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

/// So many decisions are shown.
const DECISIONS_MAX: usize = 50;

/// The daemon that decides.
const WHO: &str = "poold";

#[derive(Default)]
pub(crate) struct Slow {
    at: Option<Nanos>,
    pub missing: Vec<String>,
    pub scheduler: Option<String>,
    sets: Vec<Pset>,
    pools: Option<PoolsState>,
    members: BTreeMap<PoolId, u64>,
    states: BTreeMap<CpuId, State>,
    topology: Option<Topology>,
    interrupts: Vec<Interrupt>,
    fences: Vec<Fence>,
    decisions: Vec<Decision>,
    /// Shares and caps with what they took away so far.
    controls: Vec<Controlled>,
    /// What was throttled since the look before.
    pub throttled: Option<String>,
    /// The set of each thread that was there.
    threads: HashMap<(Lwp, Nanos), PsetId>,
    processes: HashMap<(Pid, Nanos), Placed>,
}

/// Where a process is, and what it has in memory.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub set: PsetId,
    pub zone: String,
    /// KiB.
    pub size: Option<u64>,
    /// KiB.
    pub rss: Option<u64>,
}

impl Slow {
    pub fn is_older_than(&self, now: Nanos, age: Nanos) -> bool {
        self.at.is_none_or(|at| now - at >= age)
    }

    /// Reads everything. What cannot be read is told in `missing`; what a machine does not have is no news.
    ///
    /// `roster`: with places and sizes, as far as these are wanted. `before`: the look before.
    pub fn read(session: &Session, roster: Option<&Roster>, before: &Slow) -> Slow {
        let machine = session.machine();
        let mut missing = Vec::new();
        let mut told = Told(&mut missing);
        let placed = |p: &ProcessEntry| {
            let placed = Placed { set: p.standing.set, zone: p.zone.name.clone(), size: p.size, rss: p.rss };
            ((p.pid, p.began), placed)
        };
        let threads = roster.map(|roster| roster.threads.as_slice()).unwrap_or_default();
        let processes = roster.map(|roster| roster.processes.as_slice()).unwrap_or_default();
        let sets =
            machine.psets().ok().and_then(|f| told.known("processor sets", f.list())).unwrap_or_default();
        let pools = machine.pools().ok();
        let members = pools.and_then(|f| told.known("members of pools", f.members())).unwrap_or_default();
        let mut by_pool: BTreeMap<PoolId, u64> = BTreeMap::new();
        members.values().for_each(|pool| *by_pool.entry(*pool).or_default() += 1);
        let processors = machine.processors().ok();
        let states = processors.and_then(|f| told.known("states of CPUs", f.states())).unwrap_or_default();
        let interrupts = machine.interrupts().ok();
        let controls =
            machine.controls().ok().and_then(|f| told.known("CPU caps", f.list())).unwrap_or_default();
        let recorded = told.known("the record of poold", session.recorded(WHO));
        Slow {
            at: Some(machine.clock().now()),
            scheduler: machine.dispatcher().ok().and_then(|f| f.loaded_scheduler()),
            sets,
            pools: pools.and_then(|f| told.known("pools", f.state())).flatten(),
            members: by_pool,
            states: states.iter().map(|status| (status.cpu, status.state)).collect(),
            topology: processors.and_then(|f| told.known("the topology", f.topology())),
            interrupts: interrupts.and_then(|f| told.known("interrupts", f.list())).unwrap_or_default(),
            fences: machine.fences().ok().and_then(|f| told.known("fences", f.list())).unwrap_or_default(),
            decisions: decisions(
                recorded.and_then(|found| found.lines).unwrap_or_default().into_iter().map(|l| l.text),
            ),
            throttled: throttled(&before.controls, &controls),
            controls,
            threads: threads.iter().map(|t| ((t.lwp, t.began), t.standing.set)).collect(),
            processes: processes.iter().map(placed).collect(),
            missing,
        }
    }

    /// Where a process was found; nothing is known of one that is new.
    pub fn process(&self, pid: Pid, began: Nanos) -> Option<&Placed> {
        self.processes.get(&(pid, began))
    }

    /// The set of a thread; of one that is new that of its process, if that is known.
    pub fn thread_set(&self, lwp: Lwp, began: Nanos, process_began: Option<Nanos>) -> Option<PsetId> {
        let own = self.threads.get(&(lwp, began)).copied();
        own.or_else(|| self.process(lwp.pid, process_began?).map(|placed| placed.set))
    }

    /// What is known of a set beside its figures.
    pub fn describe(&self, row: Row, set: PsetId) -> Row {
        let node =
            self.pools.as_ref().and_then(|state| state.conf.psets.iter().find(|node| node.id == Some(set)));
        let fence = self.fences.iter().find(|fence| fence.set == set);
        let mode = self.sets.iter().find(|one| one.id == set).map(|one| one.mode.word());
        let name = node.map(|node| node.name.as_str()).or(fence.map(|fence| fence.fencing.name.as_str()));
        row.with(pset::NAME, name)
            .with(pset::MODE, mode)
            .with(pset::MIN, node.map(|node| node.min))
            .with(pset::MAX, node.map(|node| node.max).filter(|max| *max < UNBOUNDED))
            .with(pset::OBJECTIVES, node.and_then(|node| objectives(node.objectives.as_ref())))
    }

    /// What poold strives for everywhere.
    pub fn objectives(&self) -> Option<&str> {
        self.pools.as_ref().and_then(|state| objectives(state.conf.system.objectives.as_ref()))
    }

    /// A property of the whole configuration, one that is a text.
    pub fn system_property(&self, name: &str) -> Option<&str> {
        self.pools.as_ref().and_then(|state| state.conf.system.user.string(name))
    }

    /// What is known of a CPU beside its figures.
    pub fn locate(&self, row: Row, id: CpuId) -> Row {
        let place = self.topology.as_ref().and_then(|topology| topology.processor(id));
        row.with(cpu::STATE, self.states.get(&id).map(|state| state.to_string()))
            .with(cpu::CORE, place.map(|p| p.core.0))
            .with(cpu::NODE, place.map(|p| p.lgroup.0))
    }

    /// Fills in the tables that are slow as a whole.
    pub fn fill(&self, frame: &mut Frame) {
        let at = self.at.unwrap_or(frame.at).min(frame.at);
        let pools = self.pools.as_ref().map(|state| self.pool_rows(state)).unwrap_or_default();
        frame.set_rows_read_at(Entity::Pool, at, pools);
        frame.set_rows_read_at(Entity::Interrupt, at, self.interrupts.iter().map(interrupt_row).collect());
        frame.set_rows_read_at(Entity::Fence, at, self.fences.iter().map(fence_row).collect());
        frame.set_rows_read_at(Entity::Decision, at, self.decisions.iter().map(decision_row).collect());
    }

    fn pool_rows(&self, state: &PoolsState) -> Vec<Row> {
        let sets = state.sets();
        let mut pools: Vec<_> = state.conf.pools.iter().filter_map(|pool| Some((pool.id?, pool))).collect();
        pools.sort_by_key(|(id, _)| *id);
        let row = |(id, node): (PoolId, &millpond_model::pools::PoolNode)| {
            #[expect(clippy::cast_precision_loss, reason = "importances are small")]
            let importance = node.importance as f64;
            let members = (id != PoolId::DEFAULT).then(|| self.members.get(&id).copied().unwrap_or(0));
            Row::of(Entity::Pool)
                .with(pool::ID, id.0)
                .with(pool::NAME, node.name.as_str())
                .with(pool::SET, sets.get(&id).map(|set| set.0))
                .with(pool::IMPORTANCE, importance)
                .with(pool::SCHEDULER, node.scheduler.as_ref().map(ToString::to_string))
                .with(pool::MEMBERS, members)
        };
        pools.into_iter().map(row).collect()
    }
}

/// `zone web (cap 50 %), process 204 (cap 20 %)`: without counts, so that it changes only when something else is throttled.
fn throttled(before: &[Controlled], now: &[Controlled]) -> Option<String> {
    let capped = throttled_between(before, now).into_iter().filter_map(|(holder, _)| {
        let cap = now.iter().find(|one| one.holder == holder)?.cap?;
        Some(format!("{holder} (cap {cap} %)"))
    });
    let names: Vec<String> = capped.collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// As they were written, where there are any.
fn objectives(objectives: Option<&Objectives>) -> Option<&str> {
    objectives.map(|objectives| objectives.text.as_str()).filter(|text| !text.is_empty())
}

/// Where what could not be read is told.
struct Told<'m>(&'m mut Vec<String>);

impl Told<'_> {
    fn known<T, E: Display>(&mut self, what: &str, read: Result<T, E>) -> Option<T> {
        read.map_err(|why| self.0.push(format!("{what}: {why}"))).ok()
    }
}

/// The latest decisions, newest first, of lines that are newest first. A line that is none is passed over: `poolstat --why` tells of it.
fn decisions(lines: impl Iterator<Item = String>) -> Vec<Decision> {
    lines.filter_map(|line| read_log(&line).0.pop()).take(DECISIONS_MAX).collect()
}

fn interrupt_row(one: &Interrupt) -> Row {
    Row::of(Entity::Interrupt)
        .with(interrupt::ID, one.id.as_str())
        .with(interrupt::NAME, one.name.as_str())
        .with(interrupt::KIND, one.kind.to_string())
        .with(interrupt::ALLOWED, one.allowed.to_string())
        .with(interrupt::EFFECTIVE, one.effective.as_ref().map(ToString::to_string))
        .with(interrupt::FIXED, one.fixed.as_deref())
        .with(interrupt::COUNT, one.count)
}

fn fence_row(one: &Fence) -> Row {
    let proof = one.fencing.proof.as_ref().map(|proof| {
        let verdict = match proof.outcome {
            millpond_model::ProofOutcome::Kept => "kept",
            millpond_model::ProofOutcome::Broken => "broken",
            millpond_model::ProofOutcome::Unknown => "cannot tell",
        };
        format!("{} {verdict}", proof.limit)
    });
    Row::of(Entity::Fence)
        .with(fence::NAME, one.fencing.name.as_str())
        .with(fence::SET, one.set.0)
        .with(fence::PROFILE, one.fencing.profile.as_str())
        .with(fence::CPUS, one.cpus.to_string())
        .with(fence::LEAKS, (!one.breaches.is_empty()).then(|| one.breaches.join("; ")))
        .with(fence::PROOF, proof)
}

fn decision_row(one: &Decision) -> Row {
    let planned = one.plan.moves.len();
    let done = one.outcome.as_ref().map(|outcome| format!("{} of {planned}", outcome.moved));
    Row::of(Entity::Decision)
        .with(decision::AT, one.frame.at)
        .with(decision::MOVES, one.frame.told(&one.plan.moves))
        .with(decision::REASON, one.plan.reason.as_str())
        .with(decision::DONE, done.filter(|_| planned > 0))
}
