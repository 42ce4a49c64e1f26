//! A recording as demand by pool, and its replay on a simulated machine.

use millpond_machine::facets::{CensusOptions, Member};
use millpond_machine::{Machine, Writer};
use millpond_model::pools::{PoolsConf, PoolsState};
use millpond_model::{Nanos, PsetId, Topology};
use millpond_planner::{Frame, demand, policy};
use millpond_pools::{DemandPlayer, Manager, PoolError, Rhythm, Seen, Unserved, dynamic, instantiate};
use millpond_session::Session;
use std::collections::{BTreeMap, BTreeSet};

/// The totals of a pool over the whole time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Sum {
    /// The integral of the number of CPUs of its set, in CPU seconds.
    pub cpu_seconds: f64,
    /// The time that its threads waited because its set had too few CPUs, summed over threads, in seconds.
    pub waited: f64,
    /// The time in seconds in which its demand is known, because its set had unused CPUs.
    pub known: f64,
}

/// A period of constant demand.
#[derive(Debug, Clone)]
struct Step {
    elapsed: Nanos,
    /// The demand by pool.
    seen: BTreeMap<String, Seen>,
}

/// The recorded day.
#[derive(Debug, Default)]
pub(super) struct Day {
    /// The machine at the first sample.
    begin: Option<(Topology, PoolsState)>,
    steps: Vec<Step>,
    sums: BTreeMap<String, Sum>,
    shared: BTreeSet<String>,
    /// The set of each CPU at the last sample.
    places: BTreeMap<millpond_model::CpuId, String>,
    moved: u64,
}

impl Day {
    /// Adds a sample: the demand of the sets in the interval before it.
    pub fn look(&mut self, machine: &dyn Machine, frame: &Frame) -> Result<(), String> {
        let state = dynamic::read(machine).map_err(|error| error.to_string())?;
        let seconds = frame.elapsed.as_secs_f64();
        let threads = threads_by_set(machine)?;
        let mut seen = BTreeMap::new();
        for set in &frame.sets {
            let Some(need) = demand(set, frame.elapsed) else { continue };
            let conf = state.conf.pset(&set.name);
            let pools: Vec<&str> = state
                .conf
                .pools
                .iter()
                .filter(|pool| conf.is_some_and(|conf| pool.pset == conf.ref_id))
                .map(|pool| pool.name.as_str())
                .collect();
            let part = 1.0 / real(pools.len().max(1));
            let size = real(set.size());
            // Waits in a set with unused CPUs are not a lack of CPUs.
            let (waiting, lacking) = ((need.wanted - need.used).max(0.0), (need.wanted - size).max(0.0));
            let most = threads.as_ref().map_or(f64::INFINITY, |threads| {
                threads.get(&set.id).map_or(0.0, |count| f64::from(*count)).max(need.wanted)
            });
            for pool in &pools {
                let of = Seen { used: need.used * part, waiting: waiting * part, threads: most * part };
                seen.insert((*pool).to_owned(), of);
                let sum = self.sums.entry((*pool).to_owned()).or_default();
                sum.cpu_seconds += size * seconds;
                sum.waited += lacking * part * seconds;
                sum.known += if need.is_saturated && waiting > 0.0 { 0.0 } else { seconds };
            }
            if pools.len() > 1 {
                self.shared.extend(pools.into_iter().map(str::to_owned));
            }
        }
        let places: BTreeMap<_, _> = frame
            .sets
            .iter()
            .flat_map(|set| set.cpus.iter().map(move |cpu| (cpu, set.name.clone())))
            .collect();
        let is_other = |(cpu, set): &(&millpond_model::CpuId, &String)| {
            self.places.get(*cpu).is_some_and(|before| before != *set)
        };
        self.moved += places.iter().filter(is_other).count() as u64;
        self.places = places;
        self.steps.push(Step { elapsed: frame.elapsed, seen });
        if self.begin.is_none() {
            let processors = machine.processors().map_err(|absent| absent.why)?;
            let topology = processors.topology().map_err(|refusal| refusal.to_string())?;
            self.begin = Some((topology, state));
        }
        Ok(())
    }

    pub fn looks(&self) -> usize {
        self.steps.len()
    }

    pub fn elapsed(&self) -> Nanos {
        self.steps.iter().fold(Nanos(0), |sum, step| sum + step.elapsed)
    }

    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.sums.keys().map(String::as_str)
    }

    pub fn pool(&self, name: &str) -> Option<Sum> {
        self.sums.get(name).copied()
    }

    pub fn moved(&self) -> u64 {
        self.moved
    }

    pub fn shared(&self) -> Vec<&str> {
        self.shared.iter().map(String::as_str).collect()
    }
}

fn real(count: impl TryInto<u32>) -> f64 {
    f64::from(count.try_into().unwrap_or(u32::MAX))
}

/// The number of threads of each set. `None` if the recording does not contain it.
fn threads_by_set(machine: &dyn Machine) -> Result<Option<BTreeMap<PsetId, u32>>, String> {
    let Ok(census) = machine.census() else { return Ok(None) };
    let options = CensusOptions { places: true, ..CensusOptions::default() };
    let roster = census.list(options).map_err(|refusal| refusal.to_string())?;
    let mut threads = BTreeMap::new();
    for process in &roster.processes {
        *threads.entry(process.standing.set).or_default() += process.threads;
    }
    Ok((!threads.is_empty()).then_some(threads))
}

/// The result of a replay.
#[derive(Debug, Default)]
pub(super) struct Played {
    sums: BTreeMap<String, Sum>,
    pub moved: u64,
    /// Pools with demand whose set had no CPU, so that no process could be put there.
    pub empty: BTreeSet<String>,
}

impl Played {
    pub fn pools(&self) -> impl Iterator<Item = &str> {
        self.sums.keys().map(String::as_str)
    }

    pub fn pool(&self, name: &str) -> Option<Sum> {
        self.sums.get(name).copied()
    }

    /// Adds the set sizes of a period that has passed.
    fn book(&mut self, state: &PoolsState, passed: Nanos) {
        for pool in &state.conf.pools {
            let size = state.conf.pset_of(pool).map_or(0, millpond_model::pools::PsetNode::size);
            self.sums.entry(pool.name.clone()).or_default().cpu_seconds += real(size) * passed.as_secs_f64();
        }
    }
}

/// Replays the day with `conf` or the recorded configuration, and with a policy of poold or without one.
pub(super) fn play(
    day: &Day,
    conf: Option<&PoolsConf>,
    name: Option<&str>,
    unserved: Unserved,
) -> Result<Played, String> {
    let said = |error: PoolError| match &error.hint {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    };
    let (topology, begin) = day.begin.as_ref().ok_or("nothing was recorded")?;
    let session = Session::twin(topology.clone());
    let machine = session.machine();
    let simulation = session.simulation().ok_or("it is no simulated machine")?;
    let writer = Writer::open(machine).map_err(|refusal| refusal.to_string())?;
    dynamic::enable(&writer, machine, begin.keep_others).map_err(said)?;
    // The recorded processes do not exist on the twin, so nothing is bound.
    let recorded = PoolsState { zones: BTreeMap::new(), ..begin.clone() };
    dynamic::commit(&writer, machine, Some(recorded)).map_err(said)?;
    if let Some(conf) = conf {
        let state = dynamic::read(machine).map_err(said)?;
        let to = instantiate(conf, &state).map_err(said)?;
        dynamic::commit(&writer, machine, Some(to)).map_err(said)?;
    }
    let state = dynamic::read(machine).map_err(said)?;
    let mut played = Played::default();
    // A set counts as used only if it contains a process. A set without CPUs cannot contain any.
    for pool in state.conf.pools.iter().filter(|pool| !pool.is_default) {
        let Some(id) = pool.id else { continue };
        if state.conf.pset_of(pool).is_some_and(|set| set.size() == 0) {
            if day.steps.iter().any(|step| step.seen.get(&pool.name).is_some_and(Seen::is_demand)) {
                played.empty.insert(pool.name.clone());
            }
            continue;
        }
        let member = Member::Process(simulation.start_sleeper(&pool.name));
        dynamic::bind(&writer, machine, &member, id).map_err(said)?;
    }
    drop(writer);
    let clock = machine.clock();
    let mut player = DemandPlayer::begin(machine, unserved);
    let managed = name.map(|name| {
        let policy = policy(name).ok_or("there is no such policy")?;
        Ok::<_, String>((Manager::new(policy), Rhythm::of(name, state.conf.system.monitor_interval)))
    });
    let mut managed = managed.transpose()?;
    for step in &day.steps {
        player.follow(&step.seen, step.elapsed).map_err(|refusal| refusal.to_string())?;
        let (mut at, end) = (clock.now(), clock.now() + step.elapsed);
        match &mut managed {
            Some((manager, rhythm)) => {
                let mut before = dynamic::read(machine).map_err(said)?;
                let mut moved = 0;
                let turned = player.manage(manager, *rhythm, end, &mut |turn| {
                    if let (millpond_pools::Done::Moved(_), Some(decision)) = (&turn.done, &turn.decision) {
                        moved += decision.plan.moves.len() as u64;
                        let now = clock.now();
                        played.book(&before, now - at);
                        at = now;
                        if let Ok(state) = dynamic::read(machine) {
                            before = state;
                        }
                    }
                });
                turned.map_err(said)?;
                played.moved += moved;
            }
            None => clock.sleep_until(end),
        }
        let state = dynamic::read(machine).map_err(said)?;
        played.book(&state, clock.now() - at);
    }
    player.pass().map_err(|refusal| refusal.to_string())?;
    for (pool, served) in player.served() {
        played.sums.entry(pool.clone()).or_default().waited = served.waited;
    }
    Ok(played)
}
