//! How the pool of one job grows when the other job stops, and shrinks when it starts again, under a policy of poold.
//!
//! Both jobs begin with a pool of half of the processors; the second one's pool has the default set. The program is malleable: it
//! always runs as many threads as its pool has processors. What it computes makes no difference to a policy, which sees use and
//! waiting; so in the hour that a slow policy takes it only computes (`spin`), and how fast the real job is with so many processors is what
//! the other arms measure.

use crate::Failure;
use crate::published::{Bench, Findings, Lab, real};
use millpond_machine::facets::{Member, UsageWatch};
use millpond_machine::{Refusal, Writer};
use millpond_model::pools::{PoolsState, PropValue};
use millpond_model::{Nanos, Pid, PoolId};
use millpond_planner::policy;
use millpond_pools::{Editor, Element, Manager, Place, PoolError, dynamic};
use millpond_report::{Align, Cell, Table};

/// The pool of the job that goes on; its set has the same name.
const STAYS: &str = "zone1";
/// The pool of the job that stops and starts again; it has the default set.
const STOPS: &str = "zone2";

/// What is measured.
pub(super) const SIZE: &str = "processors of the pool that goes on";
pub(super) const UNTIL: &str = "until sizes are final";

/// When it is given up.
const MOST: Nanos = Nanos::from_secs(2 * 3600);

/// So long both jobs run before the first one stops.
const BEFORE: u64 = 8;

/// A policy and how often it is asked: the default interval of the daemon of Solaris, and what poold waits while threads wait.
fn interval(name: &str) -> Nanos {
    if name == "solaris" { Nanos::from_secs(15) } else { Nanos::from_millis(100) }
}

fn refused(what: &'static str) -> impl Fn(PoolError) -> Failure {
    move |error| {
        let why = error.hint.as_deref().map_or_else(|| error.to_string(), |hint| format!("{error}: {hint}"));
        Failure::Machine(format!("cannot {what}: {why}"))
    }
}

fn writer<'a>(bench: &'a Bench) -> Result<Writer<'a>, Failure> {
    let refused = |refusal: Refusal| Failure::Machine(format!("cannot change pools: {refusal}"));
    Writer::open(bench.machine()).map_err(refused)
}

/// Both jobs on a machine with pools.
struct Stage<'a, 'l> {
    lab: &'a Lab<'l>,
    bench: &'a Bench,
    manager: Manager,
    interval: Nanos,
    stays: Pid,
    sizes: Vec<(f64, u64)>,
    began: Nanos,
}

/// Plays it with one policy, and adds what came of it.
pub(super) fn play(lab: &Lab<'_>, bench: &Bench, name: &str, findings: &mut Findings) -> Result<(), Failure> {
    let unknown = || Failure::Machine(format!("there is no policy {name}"));
    let manager = Manager::new(policy(name).ok_or_else(unknown)?);
    let half = real_count(bench) / 2;
    set_up(bench, half)?;
    let stays = start(bench, half, PoolId(1))?;
    let stops = start(bench, half, PoolId(2))?;
    let began = bench.machine().clock().now();
    let mut stage = Stage { lab, bench, manager, interval: interval(name), stays, sizes: Vec::new(), began };
    let accounting = bench.machine().accounting().map_err(Failure::NotHere)?;
    let mut watch = accounting.watch().map_err(Failure::NotHere)?;
    stage.turns(watch.as_mut(), BEFORE)?;
    bench.kill(stops)?;
    let all = real_count(bench) - 1;
    let grown = stage.until(watch.as_mut(), |size| size == all)?;
    start(bench, half, PoolId(2))?;
    let shared = stage.until(watch.as_mut(), |size| size.abs_diff(half) <= 1)?;
    for (variant, time) in [("one stops", grown), ("it starts again", shared)] {
        let variant = format!("{name}: {variant}");
        match time {
            Some(time) => findings.point(UNTIL, &variant, time.as_secs_f64()),
            None => findings
                .notes
                .push(format!("{variant}: after {} s sizes were not those of before", MOST.as_secs_f64())),
        }
    }
    let mut table = Table::new(&[("seconds", Align::Right), ("processors", Align::Right)]);
    for (at, size) in &stage.sizes {
        table.row([Cell::Real(*at, 1), Cell::Count(*size)]);
        findings.point_at(SIZE, &format!("{name}: {at:.1} s"), name, *at, real(*size));
    }
    findings.tables.push((format!("{SIZE}, policy {name}"), table));
    Ok(())
}

fn real_count(bench: &Bench) -> u64 {
    bench.cpus().len() as u64
}

/// Two pools, one with a set of half of the processors.
fn set_up(bench: &Bench, half: u64) -> Result<(), Failure> {
    let writer = writer(bench)?;
    dynamic::enable(&writer, bench.machine(), false).map_err(refused("enable pools"))?;
    let state = dynamic::read(bench.machine()).map_err(refused("read pools"))?;
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    let set = Element::Pset(STAYS.into());
    let mut edit = || {
        editor.create_pset(STAYS)?;
        editor.put(&set, "pset.max", PropValue::Uint(real_count(bench)))?;
        editor.transfer(half, millpond_model::pools::DEFAULT_PSET, STAYS)?;
        editor.put(&set, "pset.min", PropValue::Uint(1))?;
        editor.create_pool(STAYS)?;
        editor.associate(STAYS, Some(STAYS))?;
        editor.create_pool(STOPS)
    };
    edit().map_err(refused("make pools"))?;
    let state = PoolsState { conf: editor.conf, ..state };
    dynamic::commit(&writer, bench.machine(), Some(state)).map_err(refused("make pools"))?;
    Ok(())
}

/// A job of so many threads in a pool.
fn start(bench: &Bench, threads: u64, pool: PoolId) -> Result<Pid, Failure> {
    let pid = bench.start(&format!("spin -t {threads}"), "global")?;
    dynamic::bind(&writer(bench)?, bench.machine(), &Member::Process(pid), pool)
        .map_err(refused("bind a job"))?;
    Ok(pid)
}

impl Stage<'_, '_> {
    /// So many turns.
    fn turns(&mut self, watch: &mut dyn UsageWatch, turns: u64) -> Result<(), Failure> {
        for _ in 0..turns {
            self.turn(watch)?;
            self.lab.pass(self.bench, self.interval)?;
        }
        Ok(())
    }

    /// Turns until the size is as wanted; how long that took. `None` when it did not come.
    fn until(
        &mut self,
        watch: &mut dyn UsageWatch,
        is_final: impl Fn(u64) -> bool,
    ) -> Result<Option<Nanos>, Failure> {
        let began = self.bench.machine().clock().now();
        loop {
            let now = self.bench.machine().clock().now();
            if is_final(self.turn(watch)?) {
                return Ok(Some(Nanos(now.0 - began.0)));
            }
            if now.0 - began.0 > MOST.0 {
                return Ok(None);
            }
            self.lab.pass(self.bench, self.interval)?;
        }
    }

    /// One turn; the program follows the size of its pool. Gives that.
    fn turn(&mut self, watch: &mut dyn UsageWatch) -> Result<u64, Failure> {
        self.manager.turn(self.bench.machine(), watch).map_err(refused("manage pools"))?;
        let state = dynamic::read(self.bench.machine()).map_err(refused("read pools"))?;
        let size = state.conf.pset(STAYS).map_or(0, millpond_model::pools::PsetNode::size);
        let at = self.bench.machine().clock().now().0 - self.began.0;
        if self.sizes.last().map(|(_, last)| *last) != Some(size) {
            if !self.sizes.is_empty() {
                self.bench.kill(self.stays)?;
                self.stays = start(self.bench, size, PoolId(1))?;
            }
            self.sizes.push((Nanos(at).as_secs_f64(), size));
        }
        Ok(size)
    }
}
