//! The story: both jobs in pools; one stops, and the other's pool grows; it starts again, and they share.
//!
//! Both jobs are malleable: they run as many threads as their pools have CPUs, which they check after each iteration. The manager
//! of poold with the policy *millpond* moves CPUs; it is called ten times a second. A set may be left without CPUs
//! while no thread is in it (`pset.min` is 0). A job that comes back asks for one CPU (`pset.min` is 1).

use super::Event;
use super::arms::{JOB_WORDS, Stage, cg_result};
use super::outcome::{Moved, NAMES, Phase, Story};
use crate::Failure;
use crate::pools::{MadePools, put_min};
use crate::program::Program;
use crate::timeline::Sizes;
use millpond_machine::facets::UsageWatch;
use millpond_model::Nanos;
use millpond_planner::policy;
use millpond_pools::{Done, Manager};
use std::sync::atomic::Ordering;

/// The policy of poold.
const POLICY: &str = "millpond";

/// Interval of the manager.
const TURN: Nanos = Nanos::from_millis(100);

/// Timeout until a set has the CPU that its minimum asks for.
const FOR_MINIMUM: Nanos = Nanos::from_secs(10);

/// Seconds at the beginning of a phase that its speed excludes, because CPUs still move.
const SETTLING: f64 = 1.0;

/// The description of the story.
pub(super) const SENTENCE: &str = "resized: both in pools, with as many threads as CPUs; a stops, and starts again; poold's policy moves CPUs";

/// A job's reported iterations: end time and number of threads of each, in seconds since the story began.
#[derive(Debug, Default)]
struct Heard {
    began: f64,
    iterations: Vec<(f64, u64)>,
    /// Mop per iteration; known at the end.
    mop: f64,
}

impl Heard {
    fn hear(&mut self, program: &mut Program) {
        for event in program.told().filter(|event| event["event"] == "iteration") {
            if let (Some(seconds), Some(threads)) = (event["seconds"].as_f64(), event["threads"].as_u64()) {
                self.iterations.push((self.began + seconds, threads));
            }
        }
    }

    /// Mop/s between two times.
    fn speed(&self, from: f64, to: f64) -> Option<f64> {
        let count = self.iterations.iter().filter(|(at, _)| (from..to).contains(at)).count();
        let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
        Some(f64::from(count) * self.mop / (to - from))
    }

    /// Its number of threads at `until`, and when it first ran that many after `after`.
    fn threads(&self, after: f64, until: f64) -> Option<(u64, f64)> {
        let within = || self.iterations.iter().filter(|(at, _)| (after..until).contains(at));
        let last = within().next_back()?.1;
        let since = within().rev().take_while(|(_, threads)| *threads == last).last()?.0;
        Some((last, since))
    }
}

/// The running jobs and pools. Fields are dropped in this order: pools are removed after the programs in them.
struct Scene<'s, 'a, 't> {
    stage: &'s mut Stage<'a, 't>,
    jobs: [Option<Program>; 2],
    pools: MadePools<'a>,
    manager: Manager,
    watch: Box<dyn UsageWatch + 'a>,
    began: Nanos,
    sizes: Vec<Sizes>,
    heard: [Heard; 2],
}

impl<'a> Stage<'a, '_> {
    /// Plays the story.
    pub fn tell_story(&mut self) -> Result<Story, Failure> {
        (self.tell)(Event::Begin(SENTENCE));
        let story = match self.pools.clone() {
            Ok(()) => self.act_out()?,
            Err(absent) => Story::left_out(&absent.to_string()),
        };
        (self.tell)(Event::Story(&story));
        Ok(story)
    }

    fn act_out(&mut self) -> Result<Story, Failure> {
        let machine = self.session.machine();
        let watch = machine.accounting().and_then(|facet| facet.watch());
        let watch = match watch {
            Ok(watch) => watch,
            Err(absent) => return Ok(Story::left_out(&absent.to_string())),
        };
        let unknown = || Failure::Machine(format!("there is no policy {POLICY}"));
        let manager = Manager::new(policy(POLICY).ok_or_else(unknown)?);
        let seconds = self.options.phase_seconds;
        let pools = self.make_pools(&NAMES, 0)?;
        let began = machine.clock().now();
        let scene = Scene {
            stage: self,
            pools,
            manager,
            watch,
            began,
            sizes: Vec::new(),
            jobs: [None, None],
            heard: [Heard::default(), Heard::default()],
        };
        scene.play(seconds)
    }
}

impl Scene<'_, '_, '_> {
    fn play(mut self, seconds: u64) -> Result<Story, Failure> {
        let first = self.look()?;
        for job in 0..2 {
            self.start(job)?;
        }
        self.began = self.stage.session.machine().clock().now();
        self.begin(0)?;
        self.begin(1)?;
        let mut marks = vec![0.0];
        self.pass(seconds)?;
        let stopped = self.now();
        self.end(0)?;
        marks.push(stopped);
        self.pass(seconds)?;
        let grown = self.moved(stopped, |sizes, all| sizes[0] == 0 && sizes[1] == all);
        let a_first = std::mem::take(&mut self.heard[0]);
        let returned = self.now();
        marks.push(returned);
        self.pools.edit(|editor| put_min(editor, NAMES[0], 1))?;
        self.until_it_has_one()?;
        self.start(0)?;
        self.begin(0)?;
        self.pass(seconds)?;
        marks.push(self.now());
        let shared = self.moved(returned, |sizes, _| sizes == [first.a, first.b]);
        self.end(0)?;
        self.end(1)?;
        let [a, b] = self.heard;
        let speed = |heard: &Heard, phase: usize| heard.speed(marks[phase] + SETTLING, marks[phase + 1]);
        let phase = |name: &str, a: Option<&Heard>, phase: usize| Phase {
            name: name.to_owned(),
            a: a.and_then(|heard| speed(heard, phase)),
            b: speed(&b, phase),
        };
        let phases = vec![
            phase("both", Some(&a_first), 0),
            phase("a stopped", None, 1),
            phase("both again", Some(&a), 2),
        ];
        let with_threads = |mut moved: Moved, until: f64| {
            if let Some((threads, since)) = b.threads(moved.at, until) {
                (moved.threads, moved.threads_seconds) = (Some(threads), Some((since - moved.at).max(0.0)));
            }
            moved
        };
        let (stopped, returned) = (with_threads(grown, marks[2]), with_threads(shared, marks[3]));
        self.pools.end()?;
        Ok(Story {
            left_out: None,
            sizes: self.sizes,
            end: marks.last().copied(),
            phases,
            stopped: Some(stopped),
            returned: Some(returned),
        })
    }

    /// Seconds since the start.
    fn now(&self) -> f64 {
        Nanos(self.stage.session.machine().clock().now().0.saturating_sub(self.began.0)).as_secs_f64()
    }

    /// Records the sizes, if they changed.
    fn look(&mut self) -> Result<Sizes, Failure> {
        let seconds = self.now();
        let sizes = Sizes { seconds, a: self.pools.size(NAMES[0])?, b: self.pools.size(NAMES[1])? };
        if self.sizes.last().is_none_or(|last| (last.a, last.b) != (sizes.a, sizes.b)) {
            self.sizes.push(sizes);
        }
        Ok(sizes)
    }

    /// One run of the manager, and the jobs' reports.
    fn turn(&mut self) -> Result<Sizes, Failure> {
        let machine = self.stage.session.machine();
        let turn = self.manager.turn(machine, self.watch.as_mut()).map_err(Failure::pools("manage pools"))?;
        if let Done::Refused(error) = turn.done {
            (self.stage.tell)(Event::Note(&format!("CPUs were not moved: {error}")));
        }
        for (heard, job) in self.heard.iter_mut().zip(&mut self.jobs) {
            if let Some(program) = job {
                heard.hear(program);
            }
        }
        self.look()
    }

    /// Runs the manager for this many seconds.
    fn pass(&mut self, seconds: u64) -> Result<(), Failure> {
        let clock = self.stage.session.machine().clock();
        let end = clock.now() + Nanos::from_secs(seconds);
        while clock.now() < end {
            let next = clock.now() + TURN;
            self.turn()?;
            self.wait(next.min(end))?;
        }
        Ok(())
    }

    /// Runs the manager until the set of the returning job has a CPU.
    fn until_it_has_one(&mut self) -> Result<(), Failure> {
        let clock = self.stage.session.machine().clock();
        let end = clock.now() + FOR_MINIMUM;
        loop {
            let next = clock.now() + TURN;
            if self.turn()?.a > 0 {
                return Ok(());
            }
            if clock.now() >= end {
                return Err(Failure::Machine("no CPU came to the set of a".into()));
            }
            self.wait(next)?;
        }
    }

    fn wait(&self, until: Nanos) -> Result<(), Failure> {
        let clock = self.stage.session.machine().clock();
        while clock.now() < until {
            clock.sleep_until(until);
            if self.stage.options.stop.load(Ordering::Relaxed) {
                return Err(Failure::Stopped);
            }
        }
        if self.stage.options.stop.load(Ordering::Relaxed) { Err(Failure::Stopped) } else { Ok(()) }
    }

    /// Starts a job in its pool, and initializes it.
    fn start(&mut self, job: usize) -> Result<(), Failure> {
        let words = [&JOB_WORDS[..], &["--barrier", "spin", "--malleable"]].concat();
        let name = NAMES[job];
        let program = Program::start(&format!("job {name}"), self.stage.options.program, &words)?;
        let program = self.jobs[job].insert(program);
        self.pools.bind(program.pid(), name)?;
        program.go()?;
        program.wait_for("ready", self.stage.options.stop).map(drop)
    }

    /// Begins a job.
    fn begin(&mut self, job: usize) -> Result<(), Failure> {
        let Some(program) = &mut self.jobs[job] else { return Ok(()) };
        program.go()?;
        program.wait_for("started", self.stage.options.stop)?;
        self.heard[job] = Heard { began: self.now(), ..Heard::default() };
        Ok(())
    }

    /// Ends a job, and waits for its end.
    fn end(&mut self, job: usize) -> Result<(), Failure> {
        let Some(mut program) = self.jobs[job].take() else { return Ok(()) };
        self.heard[job].hear(&mut program);
        program.finish();
        let result = cg_result(&mut program, self.stage.options.stop)?;
        if let Some(count) = u32::try_from(result.iterations).ok().filter(|count| *count > 0) {
            self.heard[job].mop = result.mops_total * result.seconds / f64::from(count);
        }
        Ok(())
    }

    /// The change of sizes since `at`.
    fn moved(&self, at: f64, is_right: impl Fn([u64; 2], u64) -> bool) -> Moved {
        let last = self.sizes.last().copied().unwrap_or_default();
        let all = u64::try_from(self.stage.free.len()).unwrap_or(u64::MAX);
        Moved {
            at,
            sizes: [last.a, last.b],
            seconds: (last.seconds - at).max(0.0),
            threads: None,
            threads_seconds: None,
            is_right: is_right([last.a, last.b], all),
        }
    }
}
