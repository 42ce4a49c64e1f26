//! Time between the changes: programs run, processes start and end.

use super::effects::Newborn;
use super::law::Law;
use super::observed::Observed;
use super::operation::Situation;
use super::script::{Notes, Player, Stop};
use super::subject::Subject;
use crate::facets::{Method, Residence};
use millpond_model::{ControlHolder, CpuId, Lwp, Nanos, Pid, Sample, Ticks};
use std::collections::BTreeMap;

/// The time before a change of state: times of states are in seconds.
pub const A_SECOND: Nanos = Nanos(1_000_000_000);

/// Run times of programs are measured to the nanosecond.
const MEASURED: Method = Method::MeasureOrSample(4_997);

/// The time accounts of each CPU when it was last on-line.
#[derive(Debug, Default)]
pub struct Books(BTreeMap<CpuId, (Nanos, Ticks)>);

fn busy(ticks: &Ticks) -> u64 {
    ticks.user.0 + ticks.sys.0
}

fn total(ticks: &Ticks) -> u64 {
    busy(ticks) + ticks.wait.0 + ticks.idle.0 + ticks.steal.0
}

impl<S: Subject + ?Sized> Player<'_, S> {
    /// Lets time pass. If programs run, checks what they did, and that they did nothing else.
    pub fn pass(&mut self, time: Nanos) -> Result<(), Stop> {
        let machine = self.subject.machine();
        let until = machine.clock().now() + time;
        if !self.runs {
            machine.clock().sleep_until(until);
            return Ok(());
        }
        let say = |refusal: crate::Refusal| refusal.to_string();
        let counters = machine.counters().map_err(|absent| absent.to_string())?;
        let first = counters.since_boot().map_err(say)?;
        if self.abilities.controls {
            self.caps.follow(machine)?;
        }
        let pids: Vec<Pid> = self.seen.processes().into_iter().collect();
        let residence = {
            let sampler = machine.sampler().map_err(|absent| absent.to_string())?;
            let mut watch = sampler.watch(&pids, MEASURED).map_err(|absent| absent.to_string())?;
            machine.clock().sleep_until(until);
            watch.collect().map_err(say)?
        };
        let second = counters.since_boot().map_err(say)?;
        if self.abilities.controls {
            self.caps.ask(self.subject.machine(), &mut self.notes.bench)?;
        }
        let elapsed = Nanos(second.at.0.saturating_sub(first.at.0));
        self.notes.bench.idle(&first, &second, elapsed, self.abilities.tick);
        self.residence(&residence);
        self.books(&first, &second, &residence);
        let before = self.seen.clone();
        self.look()?;
        let wall = self.subject.machine().clock().wall();
        let Notes { bench, .. } = &mut *self.notes;
        // States do not change by themselves.
        bench.since(&before, &self.seen, (wall, wall), false);
        self.generations(&before);
        Ok(self.notes.bench.verdict()?)
    }

    /// Checks where programs ran. Bindings and states did not change in the meantime.
    fn residence(&mut self, residence: &Residence) {
        let (seen, bench) = (&self.seen, &mut self.notes.bench);
        let active = seen.active();
        for sighting in residence.sightings.iter().filter(|s| s.time.0 > 0) {
            let (cpu, pid) = (sighting.cpu, sighting.pid);
            let how = || format!("process {pid} ran on CPU {cpu}, in service are {active}");
            bench.ask(Law::StoppedRunsNothing, active.contains(cpu), how);
            let reach = seen.reach(pid);
            bench.ask(Law::RunsWhereAllowed, reach.contains(cpu), || {
                format!("process {pid} ran on CPU {cpu}, and was allowed on {reach}")
            });
        }
    }

    /// Checks that all time of a CPU is accounted for, even if it was off-line in between, and that it was at least as busy as the
    /// programs observed on it.
    fn books(&mut self, first: &Sample, second: &Sample, residence: &Residence) {
        let bench = &mut self.notes.bench;
        for is in &second.cpus {
            let cpu = is.cpu;
            if let Some((at, was)) = self.books.0.insert(cpu, (second.at, is.ticks)) {
                let (passed, booked) = (second.at.0 - at.0, total(&is.ticks).saturating_sub(total(&was)));
                bench.ask(Law::BooksBalance, booked == passed, || {
                    format!("CPU {cpu} has {booked} ns in its books, and {passed} ns passed")
                });
            }
            let Some(was) = first.cpus.iter().find(|c| c.cpu == cpu) else { continue };
            let busy = busy(&is.ticks).saturating_sub(busy(&was.ticks));
            let here = residence.sightings.iter().filter(|s| s.cpu == cpu);
            let seen: u64 = here.map(|s| s.time.0).sum();
            bench.ask(Law::BooksBalance, seen <= busy, || {
                format!("programs ran for {seen} ns on CPU {cpu}, which was busy for {busy} ns")
            });
        }
    }

    /// Processes started in the meantime have the class and bindings of their parents, and belong to the script like these.
    fn generations(&mut self, before: &Observed) {
        let (was, is) = (before.processes(), self.seen.processes());
        let Notes { bench, processes, .. } = &mut *self.notes;
        let ended = processes.iter().filter(|pid| !is.contains(pid)).count();
        bench.tally.ended += ended as u64;
        processes.retain(|pid| is.contains(pid));
        for child in is.difference(&was) {
            let Some(parent) = self.subject.parent(*child) else { continue };
            bench.tally.born += 1;
            processes.push(*child);
            bench.newborn(&Newborn { before, after: &self.seen, parent, child: *child });
        }
    }

    /// After a process or thread started or ended, or time passed: checks that everything else is unchanged.
    pub fn look(&mut self) -> Result<(), Stop> {
        let after = Observed::of(self.subject)?;
        let Notes { bench, processes, .. } = &mut *self.notes;
        let in_both = |lwp: &Lwp| self.seen.threads.contains_key(lwp) && after.threads.contains_key(lwp);
        let alive = |pid: &Pid| self.seen.classes.contains_key(pid) && after.classes.contains_key(pid);
        let situation = |seen: &Observed| {
            let mut situation = Situation::of(seen, |pid| processes.contains(&pid));
            situation.threads.retain(|lwp, _| in_both(lwp));
            situation.classes.retain(|pid, _| alive(pid));
            situation
                .controls
                .retain(|holder, _| !matches!(holder, ControlHolder::Process(pid) if !alive(pid)));
            situation
        };
        let (wanted, is) = (situation(&self.seen), situation(&after));
        if wanted == is {
            bench.ask(Law::NothingElseChanges, true, String::new);
        } else {
            let text = |situation: &Situation| format!("{situation:?}");
            bench.same(Law::NothingElseChanges, "all others", &text(&wanted), &text(&is));
        }
        bench.situation(self.subject, &after, &self.abilities, processes);
        self.seen = after;
        Ok(())
    }
}
