//! A long run of pools on a large machine: thirty pools with a daily demand cycle, sudden bursts, CPUs that fail and return, a daemon that
//! is killed and restarted, a machine that is saved and reloaded. The demand is played ([`millpond_pools::DemandPlayer`]); the manager, its
//! policy, the commits and the tables are the real ones.
//!
//! After each step, an hour of constant demand, the invariants of pools hold, and no pool lacks an idle CPU for long.
//! `MILLPOND_POOL_DAYS` is the number of days; the default is a few hours, and `soak` of the slow matrix runs a year.

use crate::random::{Dice, check_pools};
use millpond_machine::facets::Member;
use millpond_machine::{Clock, Processors, Writer};
use millpond_model::pools::{CpuNode, PoolsState, PropValue};
use millpond_model::{CpuId, Nanos, State};
use millpond_planner::policy;
use millpond_pools::{DemandPlayer, Editor, Element, Manager, Place, Rhythm, Served, Unserved, dynamic};
use millpond_sim::SimMachine;
use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::io::Write;

const POOLS: u32 = 30;
const CPUS: u32 = 1_024;
/// The duration of constant demand.
const STEP: Nanos = Nanos::from_secs(3_600);
const STEPS_A_DAY: u32 = 24;
/// The measuring interval of poold while no thread waits, in milliseconds.
const INTERVAL_MS: u64 = 600_000;
/// The allowed waiting of the threads of a pool in an hour with enough CPUs for all: a quarter of a thread on average, which is below
/// pressure, and a second of a burst of 300 threads.
const WAITED_S: f64 = 900.0 + 300.0;
/// The number of steps by default, on the first day.
const DEFAULT_STEPS: u32 = 4;

/// 1,024 CPUs in sixteen chips.
const MACHINE: &str = r#"{
  "name": "large", "about": "sixteen chips of eight cores with eight strands each",
  "chips": 16, "cores_per_chip": 8, "strands_per_core": 8,
  "numbering": "core-major",
  "processor": { "isa": "sparcv9", "clock_mhz": 1000, "fpu": "sparcv9", "implementation": "(chipid {chip})" },
  "core": { "cpi": 1.0, "exposed": 1.0 },
  "caches": [ { "level": 2, "kind": "unified", "size_kib": 4096, "shared_by": "chip" } ],
  "cache_cycles": 20,
  "memory": { "local_ns": 100 },
  "switch_ns": 3000,
  "devices": [ { "name": "nxge0", "processor": 0, "kind": "network" } ],
  "sources": {}
}"#;

fn name(pool: u32) -> String {
    format!("p{pool}")
}

/// Each pool has a sleeping process, so that it counts as used.
fn begin() -> SimMachine {
    let machine = SimMachine::described(MACHINE, "large").unwrap();
    let writer = Writer::open(&machine).unwrap();
    dynamic::enable(&writer, &machine, false).unwrap();
    let state = dynamic::read(&machine).unwrap();
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    for pool in 0..POOLS {
        let (name, set) = (name(pool), Element::Pset(name(pool)));
        editor.create_pset(&name).unwrap();
        editor.put(&set, "pset.max", PropValue::Uint(u64::from(CPUS))).unwrap();
        editor.create_pool(&name).unwrap();
        editor.associate(&name, Some(&name)).unwrap();
        editor.transfer(u64::from(CPUS / POOLS), "pset_default", &name).unwrap();
        editor.put(&set, "pset.min", PropValue::Uint(u64::from(1 + pool % 4))).unwrap();
    }
    let state = PoolsState { conf: editor.conf, ..state };
    dynamic::commit(&writer, &machine, Some(state)).unwrap();
    let pools = dynamic::read(&machine).unwrap().conf.pools;
    for pool in pools.iter().filter(|pool| !pool.is_default) {
        let pid = machine.spawn(&pool.name, 1);
        dynamic::bind(&writer, &machine, &Member::Process(pid), pool.id.unwrap()).unwrap();
    }
    drop(writer);
    machine
}

/// Demand of the pools in a step: each has its own amplitude and hour of the day, less on two days of seven; sometimes a pool has a burst.
fn wanted(step: u32, dice: &mut Dice) -> BTreeMap<String, f64> {
    let (day, hour) = (step / STEPS_A_DAY, f64::from(step % STEPS_A_DAY) / f64::from(STEPS_A_DAY));
    let week = if day % 7 >= 5 { 0.4 } else { 1.0 };
    let of = |pool: u32| {
        let height = 8.0 + f64::from(pool * 7 % 30);
        let wave = 1.0 + (TAU * (hour + f64::from(pool) / f64::from(POOLS))).sin();
        let burst = if dice.roll(200) == 0 { 150.0 } else { 0.0 };
        (name(pool), height * wave * week + burst)
    };
    (0..POOLS).map(of).collect()
}

#[derive(Debug, Default)]
struct Told {
    turns: u64,
    moved: u64,
    kills: u32,
    faults: u32,
    saves: u32,
    steps: u32,
    /// CPU seconds used, and thread seconds of waiting.
    used: f64,
    waited: f64,
}

struct Year {
    machine: SimMachine,
    dice: Dice,
    down: Vec<CpuId>,
    told: Told,
}

impl Year {
    /// A CPU fails or returns, by an operator command.
    fn fault(&mut self) {
        let (cpu, to) = match self.down.pop().filter(|_| self.dice.roll(2) == 0 || self.down.len() > 20) {
            Some(cpu) => (cpu, State::OnLine),
            None => {
                let cpu = CpuId(u32::try_from(self.dice.roll(u64::from(CPUS))).unwrap());
                (cpu, State::OffLine)
            }
        };
        let writer = Writer::open(&self.machine).unwrap();
        let is_done = Processors::prepare_state(&self.machine, cpu, to, false)
            .and_then(|change| writer.commit(change))
            .is_ok();
        drop(writer);
        if is_done && to == State::OffLine {
            self.down.push(cpu);
        }
        self.told.faults += u32::from(is_done);
    }

    fn day(&mut self, day: u32, steps: u32) {
        let rhythm = Rhythm::of("millpond", Some(INTERVAL_MS));
        let manager = || Manager::new(policy("millpond").unwrap());
        let mut managed = manager();
        for step in 0..steps {
            if self.dice.roll(20) == 0 {
                self.fault();
            }
            if self.dice.roll(100) == 0 {
                managed = manager();
                self.told.kills += 1;
            }
            let mut player = DemandPlayer::begin(&self.machine, Unserved::Lost);
            let wanted = wanted(day * STEPS_A_DAY + step, &mut self.dice);
            player.want(wanted.clone()).unwrap();
            // Earlier measurements belong to another demand.
            managed.look(&mut player).unwrap();
            let end = self.machine.now() + STEP;
            let told = &mut self.told;
            let turned = player.manage(&mut managed, rhythm, end, &mut |turn| {
                told.turns += 1;
                told.moved += turn.decision.as_ref().map_or(0, |decision| decision.plan.moves.len() as u64);
            });
            turned.unwrap();
            let sum = |of: fn(&Served) -> f64| player.served().values().map(of).sum::<f64>();
            (self.told.used, self.told.waited) =
                (self.told.used + sum(|served| served.used), self.told.waited + sum(|served| served.waited));
            let served = player.served().clone();
            check_pools(&self.machine, u64::from(CPUS), "a step");
            self.check_waiting(&wanted, &served);
            self.told.steps += 1;
        }
    }

    /// With enough CPUs for all, no pool lacks one for long: poold tries whether a set that uses all of its CPUs would use more, and
    /// notices at once if it took too many for that.
    fn check_waiting(&self, wanted: &BTreeMap<String, f64>, served: &BTreeMap<String, Served>) {
        let conf = dynamic::read(&self.machine).unwrap().conf;
        let runs = |cpu: &&CpuNode| cpu.state().is_none_or(State::runs_threads);
        let there = u32::try_from(conf.cpus().filter(runs).count()).unwrap();
        // No minimum is above four, and each pool may have a fraction of a CPU too much.
        let needed: f64 = wanted.values().map(|wanted| wanted.ceil().max(4.0)).sum();
        if needed + f64::from(POOLS) > f64::from(there) {
            return;
        }
        for (name, served) in served {
            let waited = served.waited;
            assert!(waited <= WAITED_S, "{name} waited for {waited} s, and {there} are there for {needed}");
        }
    }
}

#[test]
fn pools_of_a_large_machine_follow_their_demand_day_after_day() {
    let asked: Option<u32> = std::env::var("MILLPOND_POOL_DAYS").ok().and_then(|days| days.parse().ok());
    let mut year = Year { machine: begin(), dice: Dice::new(7), down: Vec::new(), told: Told::default() };
    let steps = asked.map_or(DEFAULT_STEPS, |_| STEPS_A_DAY);
    for day in 0..asked.unwrap_or(1) {
        year.day(day, steps);
        // It continues from the saved state.
        year.machine = SimMachine::load(&year.machine.save()).unwrap();
        year.told.saves += 1;
    }
    let told = &year.told;
    if asked.is_some() {
        let _ = writeln!(std::io::stdout().lock(), "figure: days of pools: {told:?}");
    }
    assert!(told.moved > 0 && told.turns > u64::from(told.steps), "{told:?}");
    assert!(
        told.waited < told.used / 50.0,
        "threads waited for more than a fiftieth of what was used: {told:?}"
    );
}
