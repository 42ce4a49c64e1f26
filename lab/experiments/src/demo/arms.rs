//! The arms: programs are started, placed, begun together, watched and ended; then all changes are undone.

use super::homes::Home;
use super::watch::Watch;
use super::{Act, Arm, ArmKind, Event, JobResult, Options};
use crate::Failure;
use crate::pools::{MadePools, own_set};
use crate::program::Program;
use crate::sets::{self, KEEP_OTHERS, MadeSet};
use millpond_machine::Absent;
use millpond_model::{CpuId, CpuSet, Nanos, Pid, PsetId};
use millpond_session::{Cap, Session};
use millpond_workloads::cg::{CgResult, Verification};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longer than any arm: the jobs are ended explicitly.
pub(super) const JOB_WORDS: [&str; 5] = ["cg", "--class", "S", "--seconds", "3600"];

/// Common data of all arms.
pub(super) struct Stage<'a, 't> {
    pub session: &'a Session,
    pub options: &'a Options<'a>,
    pub homes: [Home; 2],
    pub free: Vec<CpuId>,
    /// Whether pools can be created; otherwise jobs are separated by sets.
    pub pools: Result<(), Absent>,
    pub tell: &'t mut dyn FnMut(Event<'_>),
}

/// The placement of an arm's programs. Fields are dropped in this order: a set is removed after its programs.
#[derive(Default)]
struct Placed<'m> {
    programs: Vec<Program>,
    caps: Vec<Cap<'m>>,
    sets: Vec<MadeSet<'m>>,
    pools: Option<MadePools<'m>>,
}

impl<'a> Stage<'a, '_> {
    /// Runs one arm and undoes its changes.
    pub fn play(&mut self, act: Act) -> Result<Arm, Failure> {
        let sentence = sentence(act, &self.homes, &self.free);
        (self.tell)(Event::Begin(&sentence));
        let arm = match self.place(act)? {
            Ok(placed) => self.perform(act, sentence, placed)?,
            Err(absent) => Arm::left_out(act, sentence, &absent),
        };
        (self.tell)(Event::Done(&arm));
        Ok(arm)
    }

    /// Starts and places the programs of an arm; or the reason why the arm is impossible here.
    fn place(&mut self, act: Act) -> Result<Result<Placed<'a>, Absent>, Failure> {
        let mut placed = Placed::default();
        for name in act.kind.jobs() {
            let words = [&JOB_WORDS[..], &["--barrier", act.barrier()]].concat();
            placed.programs.push(Program::start(&format!("job {name}"), self.options.program, &words)?);
        }
        let pids: Vec<Pid> = placed.programs.iter().map(Program::pid).collect();
        match act.kind {
            ArmKind::Fighting => {}
            ArmKind::Capped => {
                for pid in pids {
                    match self.session.cap(pid, cap_percent(&self.homes)) {
                        Ok(cap) => placed.caps.push(cap),
                        Err(absent) => return Ok(Err(absent)),
                    }
                }
            }
            ArmKind::Alone | ArmKind::Pools if self.pools.is_ok() => {
                let names = act.kind.jobs();
                let pools = self.make_pools(names, 1)?;
                for (pid, name) in pids.into_iter().zip(names) {
                    pools.bind(pid, name)?;
                }
                placed.pools = Some(pools);
            }
            ArmKind::Pools => return Ok(self.pools.clone().map(|()| placed)),
            ArmKind::Alone | ArmKind::Apart => {
                for (pid, home) in pids.into_iter().zip(self.homes.clone()) {
                    let set = match home {
                        Home::Default(_) => PsetId::DEFAULT,
                        Home::Set(cpus) => {
                            let note = &mut |note: &str| (self.tell)(Event::Note(note));
                            let made = MadeSet::make(self.session.machine(), &cpus, KEEP_OTHERS, note)?;
                            let id = made.id();
                            placed.sets.push(made);
                            id
                        }
                    };
                    sets::bind(self.session.machine(), pid, set, &mut |note| (self.tell)(Event::Note(note)))?;
                }
            }
        }
        Ok(Ok(placed))
    }

    /// A pool for each of these jobs, as published: one has a set of its own (with more than two CPUs, each), the other has the
    /// default set. A set of its own keeps at least `min` CPUs.
    pub(super) fn make_pools(&self, names: &[&str], min: u64) -> Result<MadePools<'a>, Failure> {
        MadePools::make(self.session.machine(), true, |editor| {
            for (name, home) in names.iter().zip(&self.homes) {
                match home {
                    Home::Set(cpus) => own_set(editor, name, cpus, min)?,
                    Home::Default(_) => editor.create_pool(name)?,
                }
            }
            Ok(())
        })
    }

    /// Runs the placed programs, and removes the placement.
    fn perform(&mut self, act: Act, sentence: String, mut placed: Placed<'a>) -> Result<Arm, Failure> {
        let stop = self.options.stop;
        let programs = &mut placed.programs;
        for program in programs.iter_mut() {
            program.go()?;
        }
        let mut threads = Vec::new();
        for program in programs.iter_mut() {
            let ready = program.wait_for("ready", stop)?;
            threads.push(ready["threads"].as_u64().unwrap_or(0));
        }
        let mut watch = Watch::begin(self.session.machine(), programs);
        for program in programs.iter_mut() {
            program.go()?;
        }
        for program in programs.iter_mut() {
            program.wait_for("started", stop)?;
        }
        let is_alone = act.kind == ArmKind::Alone;
        let seconds = if is_alone { self.options.alone_seconds } else { self.options.together_seconds };
        self.wait(seconds, &mut watch)?;
        programs.iter_mut().for_each(Program::finish);
        let mut jobs = Vec::new();
        for ((program, threads), name) in programs.iter_mut().zip(threads).zip(act.kind.jobs()) {
            let result = cg_result(program, stop)?;
            let seen = watch.of(program.pid());
            jobs.push(JobResult {
                name: (*name).to_owned(),
                threads,
                mops: result.mops_total,
                iterations: result.iterations,
                verified: (result.verification != Verification::NotReached).then(|| result.is_verified()),
                seen,
            });
        }
        let unseen = watch.unseen();
        drop(watch);
        placed.programs.clear();
        placed.caps.clear();
        for set in placed.sets.drain(..) {
            set.end()?;
        }
        if let Some(pools) = placed.pools.take() {
            pools.end()?;
        }
        Ok(Arm { kind: act.kind, blocks: act.blocks, sentence, jobs, left_out: None, unseen })
    }

    /// Lets the programs run, and samples each second where they ran.
    fn wait(&mut self, seconds: u64, watch: &mut Watch<'_>) -> Result<(), Failure> {
        let clock = self.session.machine().clock();
        watch.restart();
        let start = clock.now();
        for second in 1..=seconds {
            let deadline = start + Nanos::from_secs(second);
            while clock.now() < deadline {
                clock.sleep_until(deadline);
                if self.options.stop.load(Ordering::Relaxed) {
                    return Err(Failure::Stopped);
                }
            }
            watch.collect();
        }
        Ok(())
    }
}

/// The description of an arm.
pub(super) fn sentence(act: Act, homes: &[Home; 2], free: &[CpuId]) -> String {
    let all: CpuSet = free.iter().copied().collect();
    let [a, b] = homes;
    let text = match act.kind {
        ArmKind::Alone => format!("alone: a in a set of its own ({})", a.cpus().named()),
        ArmKind::Fighting => format!("fighting: a and b on all of them ({})", all.named()),
        ArmKind::Capped => {
            format!("capped: the same, each job limited to {} % of one CPU's time", cap_percent(homes))
        }
        ArmKind::Pools => {
            let b_set = if matches!(b, Home::Set(_)) { "another" } else { "the default set" };
            let (a, b) = (a.cpus().named(), b.cpus().named());
            format!("pools: a in a pool with a set of its own ({a}), b in a pool with {b_set} ({b})")
        }
        ArmKind::Apart => {
            let b_home = match b {
                Home::Set(_) => format!("b in another ({})", b.cpus().named()),
                Home::Default(_) => format!("b on what is left ({})", b.cpus().named()),
            };
            format!("apart: a in a set of its own ({}), {b_home}", a.cpus().named())
        }
    };
    if act.blocks { format!("{text}; threads block at barriers") } else { text }
}

/// A cap equivalent to the CPUs of a home.
fn cap_percent(homes: &[Home; 2]) -> u32 {
    u32::try_from(homes[0].cpus().len()).unwrap_or(u32::MAX / 100) * 100
}

pub(super) fn cg_result(program: &mut Program, stop: &AtomicBool) -> Result<CgResult, Failure> {
    let value = program.result(stop)?;
    serde_json::from_value(value)
        .map_err(|error| Failure::Program { program: program.name.clone(), why: error.to_string() })
}
