//! Reaction time of a set to demand, in simulated time, which is independent of the host.
//!
//! Two pools of 8 on 64 CPUs; the rest is in the default pool. Then 48 threads become runnable in one of the two. The result
//! is the time until its set has 48 CPUs. Each trial starts at another time within the policy's interval.

use crate::line::{Goal, Line, Pairs};
use crate::stats::{median_of, ratios};
use crate::trial::{Bench, Trouble, told};
use millpond_machine::facets::Member;
use millpond_machine::{Accounting, Clock, Writer};
use millpond_model::pools::{PoolsState, PropValue};
use millpond_model::{Nanos, PoolId};
use millpond_planner::{POLICIES, policy};
use millpond_pools::{Done, Editor, Element, Manager, Place, Rhythm, dynamic};
use millpond_sim::SimMachine;
use millpond_sim::workloads::Load;

const NAME: &str = "pools: from 48 threads that want to run to 48 CPUs, from 8 (64 CPUs, simulated)";
/// The default of scx_layered's option -i.
const LAYERED: &str = "scx_layered publishes the interval at which it looks, 100 ms, and no time of reaction";
const MACHINE: &str = "t2-64";
const BEFORE: u64 = 8;
const WANTED: u64 = 48;
/// Timeout of the policy.
const PATIENCE: Nanos = Nanos::from_millis(4 * 3_600_000);
/// Quiet intervals before the demand.
const QUIET: u64 = 7;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut pairs = Pairs::default();
    for trial in 0..bench.pairs {
        let of = |name| reaction_ms(name, (trial, bench.pairs));
        match (of(POLICIES[0]), of(POLICIES[1])) {
            (Ok(ours), Ok(peer)) => pairs.push(ours, peer),
            (Err(why), _) | (_, Err(why)) => {
                return vec![Line::unresolvable(NAME, &peer(), Goal::None, why)];
            }
        }
    }
    let most = pairs.ours.iter().copied().fold(0.0, f64::max);
    let times = median_of(&ratios(&pairs.peer, &pairs.ours));
    let line = Line::of(&format!("{NAME}, policy {}", POLICIES[0]), &peer(), "ms", &pairs, Goal::None);
    vec![line.noting(format!("at most {most:.0} ms; {times:.0} times as soon; {LAYERED}"))]
}

fn peer() -> String {
    format!("policy {}", POLICIES[1])
}

fn pools(machine: &SimMachine) -> Result<(), Trouble> {
    let writer = told("change the simulated machine", Writer::open(machine))?;
    told("enable pools", dynamic::enable(&writer, machine, false))?;
    let state = told("read pools", dynamic::read(machine))?;
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    for name in ["a", "b"] {
        let set = Element::Pset(name.into());
        let mut edit = || {
            editor.create_pset(name)?;
            editor.put(&set, "pset.max", PropValue::Uint(64))?;
            editor.create_pool(name)?;
            editor.associate(name, Some(name))?;
            editor.transfer(BEFORE, "pset_default", name)?;
            editor.put(&set, "pset.min", PropValue::Uint(1))
        };
        told("make a pool", edit())?;
    }
    let state = PoolsState { conf: editor.conf, ..state };
    told("make pools", dynamic::commit(&writer, machine, Some(state))).map(drop)
}

/// Simulated milliseconds. `trial` of `trials` gives the time within the interval at which demand begins.
fn reaction_ms(name: &str, (trial, trials): (usize, usize)) -> Result<f64, Trouble> {
    let machine = told("make a simulated machine", SimMachine::named(MACHINE))?;
    pools(&machine)?;
    let rhythm = Rhythm::of(name, None);
    let part = rhythm.interval.0 / u64::try_from(trials.max(1)).unwrap_or(1);
    let quiet = rhythm.interval.0 * QUIET + part * u64::try_from(trial).unwrap_or(0) + part / 2;
    let demand = Nanos(machine.now().0 + quiet);
    let mut has_begun = false;
    let mut manager = Manager::new(policy(name).ok_or("there is no such policy")?);
    let mut watch = Accounting::watch(&machine).map_err(|absent| absent.why)?;
    loop {
        let began = machine.now();
        let turn = told("read the simulated machine", manager.turn(&machine, watch.as_mut()))?;
        if let Done::Refused(error) = &turn.done {
            return Err(format!("a move was refused: {error}"));
        }
        if size(&machine)? >= WANTED {
            return Ok(Nanos(machine.now().0 - demand.0).as_secs_f64() * 1e3);
        }
        if machine.now().0 > demand.0 + PATIENCE.0 {
            return Err(format!("after 4 hours the policy {name} has given it {}", size(&machine)?));
        }
        if !has_begun && began + rhythm.interval > demand {
            machine.sleep_until(demand);
            begin(&machine)?;
            has_begun = true;
        }
        let waited = manager.wait(rhythm, &machine, watch.as_mut(), (began, None));
        told("wait on the simulated machine", waited)?;
    }
}

fn begin(machine: &SimMachine) -> Result<(), Trouble> {
    let words = ["spin".to_owned(), "-t".to_owned(), WANTED.to_string()];
    let load = Load::parse(&words).map_err(|error| error.what)?;
    let pid = machine.start_load(&load);
    let writer = told("change the simulated machine", Writer::open(machine))?;
    told("bind the threads", dynamic::bind(&writer, machine, &Member::Process(pid), PoolId(1))).map(drop)
}

fn size(machine: &SimMachine) -> Result<u64, Trouble> {
    let state = told("read pools", dynamic::read(machine))?;
    state.conf.pset("a").map(|set| set.size()).ok_or_else(|| "the set is gone".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_that_reacts_at_once_does_so_within_its_interval() {
        // Two intervals of 50 ms after waiting is detected, and always less than a second.
        let ms = reaction_ms(POLICIES[0], (1, 4)).unwrap();
        assert!((50.0..1_000.0).contains(&ms), "{ms}");
    }
}
