//! The demo: two programs that share this machine, in four arms.
//!
//! # Claim
//!
//! Threads that spin for each other need CPUs of their own. Two such programs on all CPUs of a machine slow each other down many
//! times, because each wait for a thread that is not running lasts for time slices. Caps on their CPU time do not help: the problem is
//! where threads run, not how much time they have. Separated, each on half of the machine, each is about as fast as
//! alone there. Published: about 80 Mop/s per program mixed, about 1,000 separated, on a machine of two CPUs.
//!
//! # Arms
//!
//! ```text
//!   alone      one job in a set of its own, with no other job              k threads on k CPUs
//!   fighting   both jobs on all CPUs                                       n threads each on n
//!   capped     the same, each limited to the time of k CPUs                n threads each on n
//!   pools      each job in a pool with k CPUs                              k threads each on k
//!   alone      once more, so that a drift of the machine shows
//! ```
//!
//! With two CPUs k is 1: the pool of one job gets a set, and the pool of the other has the default set with the remaining
//! CPU. With more CPUs, both get sets of equal size, at opposite ends of the topology, and the default set keeps at least one
//! CPU. Pools are enabled with *keep others*: no other thread is evicted, slowed or moved. Where pools are impossible, jobs
//! are kept *apart* by sets. Where pools or sets are already in use, the demo refuses to run.
//!
//! In each arm the programs are started, and bound or capped while they are single-threaded. Then they initialize, and begin
//! together. They run until they are ended, and each reports its own Mop/s since its beginning. Samples meanwhile show
//! where they run.
//!
//! # The story
//!
//! Then both run in pools as malleable programs (`story`): one stops, and the other's pool grows; it starts again, and they share.
//!
//! # Result
//!
//! The speed-up is the sum of Mop/s in pools divided by that in the arm *fighting*. *Of alone* is the slower job in pools divided by the mean
//! of both runs alone. On a machine with one CPU the demo is impossible, and says so.

mod arms;
mod homes;
mod outcome;
mod report;
mod story;
mod watch;

pub use homes::{Home, plan_homes};
pub use outcome::{Moved, Phase, Story};
pub use report::{Act, Arm, ArmKind, Demo, JobResult, Seen, SpeedUp};

use crate::Failure;
use crate::ground::{self, Facts};
use crate::{pools, remains};
use millpond_machine::Absent;
use millpond_model::CpuId;
use millpond_session::{Kind, Session};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use arms::Stage;

/// Options of the demo.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// The program with the command `load cg`: this one.
    pub program: &'a Path,
    /// Set to request a stop.
    pub stop: &'a AtomicBool,
    /// The arms, in order.
    pub acts: &'a [Act],
    /// Run time of both jobs together, in each arm.
    pub together_seconds: u64,
    /// Run time of one job alone, each time.
    pub alone_seconds: u64,
    /// Length of each of the three phases of the story; 0 leaves it out.
    pub phase_seconds: u64,
}

impl<'a> Options<'a> {
    /// The default times: less than a minute in total.
    #[must_use]
    pub fn new(program: &'a Path, stop: &'a AtomicBool) -> Self {
        Options { program, stop, acts: &ACTS, together_seconds: 8, alone_seconds: 4, phase_seconds: 5 }
    }

    /// Total run time of the jobs.
    #[must_use]
    pub fn total_seconds(&self) -> u64 {
        let of = |act: &Act| match act.kind {
            ArmKind::Alone => self.alone_seconds,
            _ => self.together_seconds,
        };
        self.acts.iter().map(of).sum::<u64>() + 3 * self.phase_seconds
    }
}

/// The jobs, in one line.
pub const JOBS: &str =
    "a and b, NPB CG class S, whose threads spin for each other; one thread per CPU they may use";

/// Progress of the demo.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The facts about the machine are known.
    Machine(&'a Facts),
    /// An arm or the story begins; its description.
    Begin(&'a str),
    /// An arm is finished, or was left out.
    Done(&'a Arm),
    /// The story is finished, or was left out.
    Story(&'a Story),
    /// A note for the user.
    Note(&'a str),
}

/// The default arms.
const ACTS: [Act; 5] = [
    Act::spinning(ArmKind::Alone),
    Act::spinning(ArmKind::Fighting),
    Act::spinning(ArmKind::Capped),
    Act::spinning(ArmKind::Pools),
    Act::spinning(ArmKind::Alone),
];

/// The same arm, adapted to machines without pools.
fn possible(act: Act, pools: &Result<(), Absent>) -> Act {
    match act.kind {
        ArmKind::Pools if pools.is_err() => Act { kind: ArmKind::Apart, ..act },
        _ => act,
    }
}

/// The machine, and the description of each arm. Starts and changes nothing.
///
/// # Errors
/// [`Failure`] when the demo is impossible here.
pub fn outline(session: &Session, options: &Options<'_>) -> Result<(Facts, Vec<String>), Failure> {
    let (facts, free) = look(session)?;
    let pools = pools::are_free(session.machine())?;
    let homes = homes(&free)?;
    let sentence = |act: &Act| arms::sentence(possible(*act, &pools), &homes, &free);
    let mut sentences: Vec<String> = options.acts.iter().map(sentence).collect();
    if options.phase_seconds > 0 && pools.is_ok() {
        sentences.push(story::SENTENCE.to_owned());
    }
    Ok((facts, sentences))
}

/// Runs the demo.
///
/// # Errors
/// [`Failure`]; all changes are undone.
pub fn run(
    session: &Session,
    options: &Options<'_>,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Demo, Failure> {
    remains::put_back(session, &mut |note| tell(Event::Note(note)))?;
    let (facts, free) = look(session)?;
    let pools = pools::are_free(session.machine())?;
    tell(Event::Machine(&facts));
    let homes = homes(&free)?;
    let mut stage = Stage { session, options, homes, free, pools, tell };
    let mut arms = Vec::new();
    for act in options.acts {
        let act = possible(*act, &stage.pools);
        arms.push(stage.play(act)?);
    }
    let story = if options.phase_seconds > 0 { Some(stage.tell_story()?) } else { None };
    Ok(Demo::new(facts, arms, story))
}

fn look(session: &Session) -> Result<(Facts, Vec<CpuId>), Failure> {
    if session.kind() != Kind::Real {
        let why = format!("machine {} runs no programs of ours", session.machine().name());
        return Err(Failure::NotHere(Absent::because(why)));
    }
    ground::read(session)
}

fn homes(free: &[CpuId]) -> Result<[Home; 2], Failure> {
    plan_homes(free).ok_or_else(|| {
        let why = format!("there is nothing to share out: it may use {} of this machine's CPUs", free.len());
        let help = "run it on a machine with two CPUs or more, or give some back: psrset -d";
        Failure::NotHere(Absent::with_help(why, help))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_session::OpenOptions;

    #[test]
    fn a_simulated_machine_runs_no_demo() {
        let options = OpenOptions { machine: "t2000".parse().unwrap(), ..OpenOptions::default() };
        let session = Session::open(&options).unwrap();
        let (stop, program) = (AtomicBool::new(false), Path::new("millpond"));
        let failure = outline(&session, &Options::new(program, &stop)).unwrap_err();
        assert_eq!(failure.to_string(), "machine t2000 runs no programs of ours");
    }

    #[test]
    fn what_would_be_done_is_told_without_doing_it() {
        let two = [CpuId(0), CpuId(1)];
        let homes = homes(&two).unwrap();
        let told: Vec<String> = ACTS.into_iter().map(|act| arms::sentence(act, &homes, &two)).collect();
        let expected = [
            "alone: a in a set of its own (CPU 1)",
            "fighting: a and b on all of them (CPUs 0-1)",
            "capped: the same, each job limited to 100 % of one CPU's time",
            "pools: a in a pool with a set of its own (CPU 1), b in a pool with the default set (CPU 0)",
            "alone: a in a set of its own (CPU 1)",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn one_processor_is_not_enough() {
        let failure = super::homes(&[CpuId(0)]).unwrap_err();
        assert_eq!(failure.to_string(), "there is nothing to share out: it may use 1 of this machine's CPUs");
        assert!(failure.hint().is_some());
    }
}
