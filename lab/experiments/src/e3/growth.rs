//! Growth of one job's pool when the other job stops, and shrinking when it starts again, under a policy of poold.
//!
//! Both jobs begin with a pool of half of the CPUs; the pool of the continuing job has the default set. An empty set may be left without
//! CPUs; before its job starts again it gets one. The programs are malleable: each always runs as many threads as its pool has CPUs,
//! also when it starts again. If a policy does not lead to equal shares then, the job starts once more with its original number of
//! threads. A policy only sees use and waiting, not the computation. So in the hour that a slow policy takes, the programs just compute
//! (`spin`); the other arms measure the speed of the real job for each number of CPUs.

use crate::Failure;
use crate::pools::{MadePools, own_set};
use crate::published::{Bench, Findings, Lab, real};
use millpond_machine::facets::UsageWatch;
use millpond_model::pools::DEFAULT_PSET;
use millpond_model::{Nanos, Pid};
use millpond_planner::policy;
use millpond_pools::Manager;
use millpond_report::{Cell, Table};

/// The pool of the continuing job; it has the default set.
const STAYS: &str = "zone1";
/// The pool of the job that stops and starts again; its set has the same name.
const STOPS: &str = "zone2";

/// Measured: the CPUs of the continuing job's pool, and how long its change takes.
pub(super) const SIZE: &str = "size of the pool";
pub(super) const UNTIL: &str = "until sizes are final";

/// Timeout.
const MOST: Nanos = Nanos::from_secs(3600);

/// Seconds that both jobs run before the first stop.
const BEFORE: u64 = 8;

/// The interval of a policy: the default of Solaris' daemon, and that of poold while threads wait.
fn interval(name: &str) -> Nanos {
    if name == "solaris" { Nanos::from_secs(15) } else { Nanos::from_millis(100) }
}

/// Both jobs on a machine with pools.
struct Stage<'a, 'l> {
    lab: &'a Lab<'l>,
    bench: &'a Bench,
    pools: MadePools<'a>,
    manager: Manager,
    interval: Nanos,
    /// The continuing program and the stopping one, with their numbers of threads.
    jobs: [Option<(Pid, u64)>; 2],
    /// Sizes of the continuing job's pool, by seconds since the phase began.
    sizes: Vec<(f64, u64)>,
    began: Nanos,
}

/// Runs one policy, and adds the results.
pub(super) fn play(lab: &Lab<'_>, bench: &Bench, name: &str, findings: &mut Findings) -> Result<(), Failure> {
    let unknown = || Failure::Machine(format!("there is no policy {name}"));
    let manager = Manager::new(policy(name).ok_or_else(unknown)?);
    let cpus = bench.cpus();
    let total = cpus.len() as u64;
    let half = total / 2;
    // Nearly the whole machine.
    let most = if total > 2 { total - 1 } else { total };
    let pools = MadePools::make(bench.machine(), false, |editor| {
        own_set(editor, STOPS, &cpus[cpus.len() - cpus.len() / 2..], 0)?;
        editor.create_pool(STAYS)
    })?;
    let began = bench.machine().clock().now();
    let (interval, jobs, sizes) = (interval(name), [None, None], Vec::new());
    let mut stage = Stage { lab, bench, pools, manager, interval, jobs, sizes, began };
    let accounting = bench.machine().accounting().map_err(Failure::NotHere)?;
    let mut watch = accounting.watch().map_err(Failure::NotHere)?;
    stage.start(0)?;
    stage.start(1)?;
    stage.turns(watch.as_mut(), BEFORE)?;
    let with_threads = format!("it starts again with {half} threads");
    let mut is_shared = false;
    let phases = [("one stops", Some("stop")), ("it starts again", Some("start")), (&*with_threads, None)];
    for (phase, line) in phases {
        if is_shared {
            break;
        }
        let variant = format!("{name}: {phase}");
        stage.make_way()?;
        stage.begin()?;
        let time = match phase {
            "one stops" => stage.until(watch.as_mut(), |size| size >= most)?,
            _ => {
                let threads = if phase == with_threads { Some(half) } else { None };
                stage.start_again(threads)?;
                stage.until(watch.as_mut(), |size| size.abs_diff(half) <= 1)?
            }
        };
        is_shared = phase != "one stops" && time.is_some();
        let mut table = Table::of(&[], &["seconds", "processors"]).and_words(&[""]);
        for (at, size) in &stage.sizes {
            let bar = "#".repeat(usize::try_from(size.div_ceil(total.div_ceil(BAR).max(1))).unwrap_or(0));
            table.row([Cell::Real(*at, 1), Cell::Count(*size), bar.into()]);
            if let Some(line) = line {
                let variant = format!("{variant}, after {at:.1} s");
                findings.point_at(SIZE, &variant, &format!("{name}: {line}"), *at, real(*size));
            }
        }
        findings.tables.push((format!("{SIZE}, policy {variant}"), table));
        match time {
            Some(time) => findings.point(UNTIL, &variant, time.as_secs_f64()),
            None => findings.notes.push(format!(
                "{variant}: after {} s sizes were not those of before, but {}",
                MOST.as_secs_f64(),
                stage.sizes.last().map_or(0, |(_, size)| *size)
            )),
        }
    }
    stage.pools.end()
}

/// Maximum length of a bar.
const BAR: u64 = 32;

impl Stage<'_, '_> {
    /// Ends the stopping job.
    fn make_way(&mut self) -> Result<(), Failure> {
        self.jobs[1].take().map_or(Ok(()), |(pid, _)| self.bench.kill(pid))
    }

    /// Starts the job again, with this many threads, or as many as its pool has CPUs.
    fn start_again(&mut self, threads: Option<u64>) -> Result<(), Failure> {
        if self.pools.size(STOPS)? == 0 {
            self.pools.edit(|editor| editor.transfer(1, DEFAULT_PSET, STOPS))?;
        }
        self.start(1)?;
        if let (Some(threads), Some((pid, _))) = (threads, self.jobs[1]) {
            self.bench.kill(pid)?;
            let pid = self.bench.start(&format!("spin -t {threads}"), "global")?;
            self.pools.bind(pid, STOPS)?;
            self.jobs[1] = None;
        }
        Ok(())
    }

    /// Begins a phase.
    fn begin(&mut self) -> Result<(), Failure> {
        self.began = self.bench.machine().clock().now();
        self.sizes = vec![(0.0, self.pools.size(STAYS)?)];
        Ok(())
    }

    /// Starts a job with as many threads as its pool has CPUs.
    fn start(&mut self, job: usize) -> Result<(), Failure> {
        let pool = [STAYS, STOPS][job];
        let threads = self.pools.size(pool)?;
        let pid = self.bench.start(&format!("spin -t {threads}"), "global")?;
        self.pools.bind(pid, pool)?;
        self.jobs[job] = Some((pid, threads));
        Ok(())
    }

    /// Runs this many intervals.
    fn turns(&mut self, watch: &mut dyn UsageWatch, turns: u64) -> Result<(), Failure> {
        for _ in 0..turns {
            self.turn(watch)?;
            self.lab.pass(self.bench, self.interval)?;
        }
        Ok(())
    }

    /// Runs intervals until the size is as wanted; returns how long that took. `None` on a timeout.
    fn until(
        &mut self,
        watch: &mut dyn UsageWatch,
        is_final: impl Fn(u64) -> bool,
    ) -> Result<Option<Nanos>, Failure> {
        loop {
            self.lab.pass(self.bench, self.interval)?;
            let passed = Nanos(self.bench.machine().clock().now().0 - self.began.0);
            if is_final(self.turn(watch)?) {
                return Ok(Some(passed));
            }
            if passed > MOST {
                return Ok(None);
            }
        }
    }

    /// Runs one interval; programs follow the sizes of their pools. Returns the size of the continuing job's pool.
    fn turn(&mut self, watch: &mut dyn UsageWatch) -> Result<u64, Failure> {
        self.manager.turn(self.bench.machine(), watch).map_err(Failure::pools("manage pools"))?;
        for job in 0..self.jobs.len() {
            let size = self.pools.size([STAYS, STOPS][job])?;
            if let Some((pid, threads)) = self.jobs[job]
                && threads != size
            {
                self.bench.kill(pid)?;
                self.start(job)?;
            }
        }
        let size = self.pools.size(STAYS)?;
        let at = Nanos(self.bench.machine().clock().now().0 - self.began.0).as_secs_f64();
        if self.sizes.last().map(|(_, last)| *last) != Some(size) {
            self.sizes.push((at, size));
        }
        Ok(size)
    }
}
