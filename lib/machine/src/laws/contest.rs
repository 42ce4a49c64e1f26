//! Shares and caps over time: the CPU time of contending projects, and the usage under caps.

use super::bench::Bench;
use super::law::Law;
use super::operation::Operation;
use super::script::{Player, Stop};
use super::subject::Subject;
use crate::Machine;
use crate::facets::Method;
use millpond_model::{
    ClassRequest, ClassTable, ControlHolder, ControlSetting, CpuCap, CpuId, FssQuantum, Nanos, Pid, PsetId,
    Shares,
};
use std::collections::BTreeMap;

/// The time until usage follows shares, and 0.3 % of the usage of an earlier contest is left.
const SETTLED: Nanos = Nanos::from_secs(20);
/// The time over which shares are checked.
const ASKED: Nanos = Nanos::from_secs(10);
/// The tolerated error, as a fraction of the contended time. Two projects keep it with any number of threads; of three or more some miss by
/// up to 3 % in single intervals (`docs/explanation/shares.md`), because ranks change once a second.
const WITHIN: f64 = 0.02;

/// Usage under caps since the caps, or another control, last changed.
#[derive(Debug, Default)]
pub struct Caps(BTreeMap<ControlHolder, Used>);

#[derive(Debug, Clone, Copy)]
struct Used {
    cap: CpuCap,
    used: Nanos,
    at: Nanos,
}

impl Caps {
    /// Adds new caps.
    pub fn follow(&mut self, machine: &dyn Machine) -> Result<(), String> {
        let now = machine.clock().now();
        let listed = list(machine)?;
        self.0.retain(|holder, _| listed.contains_key(holder));
        for (holder, (cap, used)) in listed {
            self.0.entry(holder).or_insert(Used { cap, used, at: now });
        }
        Ok(())
    }

    /// Checks that the caps held since then, within one period and one tick of each CPU.
    pub fn ask(&mut self, machine: &dyn Machine, bench: &mut Bench) -> Result<(), String> {
        let now = machine.clock().now();
        let dispatcher = machine.dispatcher().map_err(|absent| absent.to_string())?;
        let states = machine.processors().map_err(|absent| absent.to_string())?.states();
        let processors = states.map_err(|refusal| refusal.to_string())?.len() as u64;
        let ticks = processors * (1_000_000_000 / u64::from(dispatcher.ticks_per_second()));
        for (holder, (cap, used)) in list(machine)? {
            let Some(since) = self.0.get(&holder).filter(|since| since.cap == cap) else { continue };
            let period = period(machine, &holder)?;
            let got = used.0.saturating_sub(since.used.0);
            let allowed = (now.0 - since.at.0 + period.0) * u64::from(cap.get()) / 100 + ticks;
            bench.ask(Law::CapsHold, got <= allowed, || {
                let over = Nanos(now.0 - since.at.0);
                format!(
                    "{holder} with a cap of {cap} % used {got} ns in {over}, and {allowed} ns are allowed"
                )
            });
        }
        Ok(())
    }
}

/// Holders with caps, and their usage.
fn list(machine: &dyn Machine) -> Result<BTreeMap<ControlHolder, (CpuCap, Nanos)>, String> {
    let facet = machine.controls().map_err(|absent| absent.to_string())?;
    let listed = facet.list().map_err(|refusal| refusal.to_string())?;
    Ok(listed.into_iter().filter_map(|one| Some((one.holder, (one.cap?, one.used?)))).collect())
}

fn period(machine: &dyn Machine, holder: &ControlHolder) -> Result<Nanos, String> {
    let facet = machine.controls().map_err(|absent| absent.to_string())?;
    let one = facet.controlled(holder).map_err(|refusal| refusal.to_string())?;
    Ok(one.throttled.map_or(Nanos(0), |throttled| throttled.period))
}

impl<S: Subject + ?Sized> Player<'_, S> {
    /// Projects contend for a CPU of their own, in slices of a tick. Afterwards everything but the time is restored.
    pub fn contend(&mut self, groups: &[(u8, u8)]) -> Result<(), Stop> {
        let capped = self.seen.controls.iter().any(|(holder, (shares, cap))| match holder {
            // A cap prevents a project from using its shares; with 0 shares it gets no CPU time.
            ControlHolder::Zone(_) | ControlHolder::Project(_) => {
                cap.is_some() || shares.is_some_and(|shares| shares.get() == 0)
            }
            ControlHolder::Process(_) => false,
        });
        let Some(cpu) =
            self.spare().filter(|_| !capped && self.abilities.controls && self.abilities.programs)
        else {
            return Ok(());
        };
        let exclusive = self.abilities.exclusive;
        if !self.plain(&Operation::Create { cpus: vec![cpu], shared: !exclusive, forced: false })? {
            return Ok(());
        }
        let Some(set) = self.seen.sets.last().map(|set| set.id) else { return Ok(()) };
        let table = self.seen.tables.as_ref().map(|tables| tables.fss);
        if let Ok(tick) = FssQuantum::new(1) {
            self.plain(&Operation::Table { table: ClassTable::Fss(tick) })?;
        }
        let projects =
            self.seen.controls.iter().filter(|(holder, _)| matches!(holder, ControlHolder::Project(_)));
        let projects: Vec<(ControlHolder, Option<Shares>)> =
            projects.map(|(holder, (shares, _))| (holder.clone(), *shares)).collect();
        let contenders = self.start_contenders(groups, &projects, set)?;
        self.did("contests");
        self.say(format!("{groups:?} contend for CPU {cpu}"));
        self.runs = true;
        self.pass(SETTLED)?;
        let got = self.times(&contenders)?;
        self.shared_out(groups, &got);
        for pid in contenders {
            self.subject.exit(pid)?;
            self.notes.processes.retain(|one| *one != pid);
        }
        self.look()?;
        for (holder, shares) in projects.iter().take(groups.len()) {
            self.plain(&Operation::Control {
                holder: holder.clone(),
                to: ControlSetting::CpuShares(*shares),
            })?;
        }
        if let Some(table) = table {
            self.plain(&Operation::Table { table: ClassTable::Fss(table) })?;
        }
        self.plain(&Operation::Destroy { set })?;
        Ok(())
    }

    /// A CPU that the default set can give up.
    fn spare(&self) -> Option<CpuId> {
        let active = self.seen.active_in(PsetId::DEFAULT);
        let is_free = |cpu: &CpuId| {
            self.abilities.processors.contains(cpu) && self.seen.bound_to_cpu(*cpu).next().is_none()
        };
        active.iter().filter(is_free).last().filter(|_| active.len() > 1)
    }

    /// A process for each group, in its project, class and set.
    fn start_contenders(
        &mut self,
        groups: &[(u8, u8)],
        projects: &[(ControlHolder, Option<Shares>)],
        set: PsetId,
    ) -> Result<Vec<Pid>, Stop> {
        let mut contenders = Vec::new();
        for ((shares, threads), (holder, _)) in groups.iter().zip(projects) {
            let ControlHolder::Project(project) = holder else { continue };
            let pid = self.subject.contender(project, u32::from(*threads).max(1))?;
            self.notes.processes.push(pid);
            contenders.push(pid);
            self.look()?;
            let shares = Shares::new(u32::from(*shares).max(1)).ok();
            let request = ClassRequest::Fss { uprilim: None, upri: None };
            self.plain(&Operation::Control {
                holder: holder.clone(),
                to: ControlSetting::CpuShares(shares),
            })?;
            self.plain(&Operation::Class { pid, request })?;
            self.plain(&Operation::BindSet { pid, lwps: None, to: Some(set) })?;
        }
        Ok(contenders)
    }

    /// The run time of each process while shares are checked.
    fn times(&mut self, pids: &[Pid]) -> Result<Vec<u64>, Stop> {
        let residence = {
            let machine = self.subject.machine();
            let sampler = machine.sampler().map_err(|absent| absent.to_string())?;
            let mut watch =
                sampler.watch(pids, Method::MeasureOrSample(4_997)).map_err(|absent| absent.to_string())?;
            machine.clock().sleep_until(machine.clock().now() + ASKED);
            watch.collect().map_err(|refusal| refusal.to_string())?
        };
        // Processes that started and ended in the meantime are handled as after any time.
        self.pass(Nanos(1))?;
        let of = |pid: &Pid| residence.sightings.iter().filter(|s| s.pid == *pid).map(|s| s.time.0).sum();
        Ok(pids.iter().map(of).collect())
    }

    fn shared_out(&mut self, groups: &[(u8, u8)], got: &[u64]) {
        let of = |shares: u8| f64::from(shares.max(1));
        let all: f64 = groups.iter().map(|(shares, _)| of(*shares)).sum();
        let contended = real(got.iter().sum());
        for ((shares, threads), got) in groups.iter().zip(got) {
            let (part, wanted) = (real(*got) / contended.max(1.0), of(*shares) / all);
            self.notes.bench.ask(Law::SharesAreKept, (part - wanted).abs() <= WITHIN, || {
                format!(
                    "{shares} shares of {all} with {threads} threads got {part:.4}, and {wanted:.4} is due"
                )
            });
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds in nanoseconds are exact")]
fn real(nanos: u64) -> f64 {
    nanos as f64
}
