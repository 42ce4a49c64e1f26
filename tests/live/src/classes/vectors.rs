//! The vectors of the reference's classes (§3.11) as experiments: processes on a machine with one CPU, and what the scheduler says of them.
//!
//! They are of Solaris' rules: `millpond schedd --parity 0`.
//!
//! Not here: V4 for a process that runs alone for ever and V5 with its 32,001 seconds are held against shorter tables; V10 (a thread that ran in the same tick goes to the
//! front) is a difference that the guide names; V12 and V14 to V16 are of RT and of the kernel's own choice; V17 to V20 are of files.

use crate::Outcome;
use crate::actor::{Actor, ran};
use crate::stage::{Stage, fx, until, wish};
use millpond_rules::Class;
use std::thread::sleep;
use std::time::Duration;

/// What a figure of time may be off: a tick of the kernel at each end, and what the observer takes.
const NEAR: u64 = 10_000_000;
const TICK: u64 = 10_000_000;

type Vector = (&'static str, fn(&Stage) -> Outcome);

const VECTORS: [Vector; 11] = [
    ("V1, a hog sinks to the bottom of the standard table", v1),
    ("V2, and of the extended table", v2),
    ("V3, a second lifts a hog, which sinks again", v3),
    ("V4, the extended table never lifts one that runs, and lifts one that waits after three seconds", v4),
    ("V5, one that waits at the top stays for as long as maxwait of its level says", v5),
    ("V6, nice is three points of user priority each", v6),
    ("V7, slices are those of the system's part, waits those of the sum", v7),
    ("V8, the foreground is worth 10, the background costs 10", v8),
    ("V9, one that is preempted goes on with the rest of its slice", v9),
    ("V11, the parent pays for its child, which runs first", v11),
    ("V13, in FX the child runs first, and the parent keeps its level", v13),
];

/// All of them, one after the other.
pub fn all() -> impl Iterator<Item = (String, Outcome)> {
    let stage = Stage::new();
    VECTORS.into_iter().map(move |(name, vector)| {
        let outcome = match &stage {
            Ok(stage) => vector(stage),
            Err(why) => Err(why.clone()),
        };
        (name.to_owned(), outcome)
    })
}

fn hog(stage: &Stage, upri: i8) -> Result<Actor, String> {
    stage.ready("spin", wish(Class::Ts, upri.max(0), upri))
}

fn shown(walked: &[(i64, u64)]) -> String {
    walked
        .iter()
        .map(|(level, ran)| format!("{level} for {} ms", ran / 1_000_000))
        .collect::<Vec<_>>()
        .join(", ")
}

/// The walk must have these levels, each for so many ticks; the last one for any time.
fn is_walk(walked: &[(i64, u64)], expected: &[(i64, u64)]) -> Outcome {
    let last = expected.len().saturating_sub(1);
    let near = |at: usize| match (walked.get(at), expected.get(at)) {
        (Some((level, ran)), Some((wanted, ticks))) => {
            level == wanted && (at == last || ran.abs_diff(ticks * TICK) <= NEAR)
        }
        _ => false,
    };
    let is_so = walked.len() == expected.len() && (0..expected.len()).all(near);
    let said = shown(walked);
    if is_so { Ok(said) } else { Err(format!("it went through {said}, not {expected:?} (ticks of 10 ms)")) }
}

fn is(what: &str, expected: i64, got: i64) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{what} is {got}, not {expected}")) }
}

fn v1(stage: &Stage) -> Outcome {
    Stage::table(false, |_, _| ())?;
    let hog = hog(stage, 0)?;
    stage.after_beat()?;
    hog.go();
    is_walk(&stage.walk(&hog, Duration::from_millis(600))?, &[(29, 12), (19, 16), (9, 20), (0, 12)])
}

fn v2(stage: &Stage) -> Outcome {
    Stage::table(true, |_, _| ())?;
    let hog = hog(stage, 0)?;
    hog.go();
    let expected = [(29, 36), (19, 38), (9, 38), (4, 38), (2, 38), (1, 38), (0, 14)];
    is_walk(&stage.walk(&hog, Duration::from_millis(2400))?, &expected)
}

fn v3(stage: &Stage) -> Outcome {
    Stage::table(false, |_, _| ())?;
    let hog = hog(stage, 0)?;
    stage.after_beat()?;
    hog.go();
    stage.after_beat()?;
    until("it is lifted", || stage.state(hog.pid).is_ok_and(|state| state.cpupri == 50))?;
    is_walk(
        &stage.walk(&hog, Duration::from_millis(500))?,
        &[(50, 4), (40, 4), (30, 8), (20, 12), (10, 16), (0, 6)],
    )
}

fn v4(stage: &Stage) -> Outcome {
    Stage::table(true, |_, _| ())?;
    let hog = hog(stage, 0)?;
    hog.go();
    until("it is at the bottom", || stage.state(hog.pid).is_ok_and(|state| state.cpupri == 0))?;
    is_walk(&stage.walk(&hog, Duration::from_secs(4))?, &[(0, 400)])?;
    // From now on it waits.
    let better = stage.ready("spin", fx(30, Duration::from_millis(100)))?;
    stage.after_beat()?;
    better.go();
    sleep(Duration::from_millis(20));
    // Seconds since its slice began; one may have passed while it ran.
    let counted = stage.state(hog.pid)?.dispwait;
    let last = stage.beats() + 3 - counted.min(1);
    until("seconds passed", || stage.beats() + 1 >= last)?;
    sleep(Duration::from_millis(20));
    is("its level after two seconds", 0, stage.state(hog.pid)?.cpupri)?;
    until("another second passed", || stage.beats() >= last)?;
    sleep(Duration::from_millis(20));
    is("its level after three seconds", 40, stage.state(hog.pid)?.cpupri)?;
    Ok(format!("at 0 for 4 s of running; with {counted} counted it waits, after 2 s at 0, after 3 s at 40"))
}

fn v5(stage: &Stage) -> Outcome {
    // V5 has 32,000 here, which is nine hours.
    let tables = Stage::table(false, |level, row| {
        if level == 59 {
            row.maxwait = 3;
        }
    })?;
    let top = hog(stage, 60)?;
    let better = stage.ready("spin", fx(60, Duration::from_millis(100)))?;
    better.go();
    stage.after_beat()?;
    top.go();
    let mut said = Vec::new();
    for waited in 1..=3 {
        stage.after_beat()?;
        sleep(Duration::from_millis(20));
        let state = stage.state(top.pid)?;
        is("its level", 59, state.pri)?;
        is("the system's part", 29, state.cpupri)?;
        is("the seconds that it counts", waited, i64::try_from(state.dispwait).unwrap_or_default())?;
        said.push(state.dispwait.to_string());
    }
    stage.after_beat()?;
    sleep(Duration::from_millis(20));
    let state = stage.state(top.pid)?;
    is("the system's part after the fourth second", tables.ts.rows()[29].lwait.into(), state.cpupri)?;
    is("what it counts then", 0, i64::try_from(state.dispwait).unwrap_or_default())?;
    Ok(format!("it counts {}, then 0 at {}", said.join(", "), state.cpupri))
}

fn v6(stage: &Stage) -> Outcome {
    Stage::table(false, |_, _| ())?;
    let hog = hog(stage, 0)?;
    hog.go();
    let mut said = Vec::new();
    for (nice, upri) in [(10, -30), (-20, 60), (19, -57)] {
        hog.nice(nice);
        until("nice is heard", || stage.state(hog.pid).is_ok_and(|s| s.upri == upri && s.uprilim == upri))?;
        said.push(format!("nice {nice} is {upri}"));
    }
    Ok(said.join(", "))
}

fn v7(stage: &Stage) -> Outcome {
    Stage::table(false, |_, _| ())?;
    let hog = hog(stage, 20)?;
    stage.after_beat()?;
    hog.go();
    stage.after_beat()?;
    until("it is lifted", || stage.state(hog.pid).is_ok_and(|state| state.cpupri == 50))?;
    let at = stage.state(hog.pid)?;
    is("its level with 50 and 20", 59, at.pri)?;
    let walked = stage.walk(&hog, Duration::from_millis(60))?;
    is_walk(&walked, &[(50, 4), (40, 2)])?;
    Ok(format!("level 59, {}", shown(&walked)))
}

fn v8(stage: &Stage) -> Outcome {
    Stage::table(false, |level, row| {
        if level == 29 {
            row.tqexp = 5;
        }
    })?;
    let one = stage.ready("spin", wish(Class::Ia, 0, 0))?;
    stage.after_beat()?;
    one.go();
    until("it has run a slice", || stage.state(one.pid).is_ok_and(|state| state.cpupri == 5))?;
    is("its level in the foreground with 5", 15, stage.state(one.pid)?.pri)?;
    stage.want(&one, millpond_bpf::classes::Wish { foreground: false, ..wish(Class::Ia, 0, 0) })?;
    until("it is in the background", || stage.state(one.pid).is_ok_and(|state| state.boost == -10))?;
    is("its level in the background with 5", 0, stage.state(one.pid)?.pri)?;
    stage.want(&one, wish(Class::Ia, 0, 0))?;
    stage.after_beat()?;
    until("it is lifted", || stage.state(one.pid).is_ok_and(|state| state.cpupri == 50))?;
    is("its level in the foreground with 50", 59, stage.state(one.pid)?.pri)?;
    Ok("5 is 15 and 0, 50 is 59".to_owned())
}

fn v9(stage: &Stage) -> Outcome {
    Stage::table(false, |_, _| ())?;
    let slice = Duration::from_millis(100);
    let (first, second) = (stage.ready("spin", fx(10, slice))?, stage.ready("spin", fx(10, slice))?);
    let better = stage.ready("spin", fx(20, slice))?;
    first.go();
    until("it has a full slice", || stage.state(first.pid).is_ok_and(|state| state.timeleft > 90_000_000))?;
    second.go();
    until("it has 30 ms left", || stage.state(first.pid).is_ok_and(|state| state.timeleft < 32_000_000))?;
    let begun = second.ran();
    better.go();
    sleep(Duration::from_millis(20));
    let left = stage.state(first.pid)?.timeleft;
    let ran = first.ran();
    better.stop()?;
    if !(20_000_000..=32_000_000).contains(&left) {
        return Err(format!("{left} ns of its slice are left while another one runs"));
    }
    until("the second one runs", || second.ran() > begun + 2_000_000)?;
    let went_on = first.ran() - ran;
    if went_on.abs_diff(left.unsigned_abs()) > NEAR {
        return Err(format!("it went on for {went_on} ns, not for the {left} ns that were left"));
    }
    Ok(format!("{} ms were left, and it went on for {} ms", left / 1_000_000, went_on / 1_000_000))
}

/// A process has a child; gives the child once both are known to the scheduler.
fn forks(parent: &Actor) -> Result<u32, String> {
    parent.signal(libc::SIGUSR1);
    until("there is a child", || parent.only_child().is_some())?;
    parent.only_child().ok_or_else(|| "the child is gone".to_owned())
}

fn v11(stage: &Stage) -> Outcome {
    Stage::table(false, |_, _| ())?;
    let parent = stage.ready("fork", wish(Class::Ts, 0, 0))?;
    stage.after_beat()?;
    parent.go();
    stage.after_beat()?;
    until("it is lifted", || stage.state(parent.pid).is_ok_and(|state| state.cpupri == 50))?;
    let child = forks(&parent)?;
    let paid = parent.ran();
    sleep(Duration::from_millis(16));
    let (old, new) = (stage.state(parent.pid)?, stage.state(child)?);
    is("the parent's level", 40, old.pri)?;
    is("the child's level", 50, new.pri)?;
    let first = ran(child);
    if first < 8_000_000 || parent.ran() > paid + 4_000_000 {
        return Err(format!("the child ran {first} ns, the parent went on for {} ns", parent.ran() - paid));
    }
    if old.timeleft.unsigned_abs().abs_diff(40_000_000) > NEAR {
        return Err(format!("the parent has {} ns of a slice of 40 ms", old.timeleft));
    }
    Ok(format!("parent 40 with {} ms of its slice, child 50, which ran first", old.timeleft / 1_000_000))
}

fn v13(stage: &Stage) -> Outcome {
    let parent = stage.ready("fork", fx(10, Duration::from_millis(100)))?;
    parent.go();
    sleep(Duration::from_millis(20));
    let child = forks(&parent)?;
    let paid = parent.ran();
    sleep(Duration::from_millis(40));
    let (old, new) = (stage.state(parent.pid)?, stage.state(child)?);
    is("the parent's level", 10, old.pri)?;
    is("the child's level", 10, new.pri)?;
    let first = ran(child);
    if first < 24_000_000 || parent.ran() > paid + 4_000_000 {
        return Err(format!("the child ran {first} ns, the parent went on for {} ns", parent.ran() - paid));
    }
    Ok("both at 10, the child ran first".to_owned())
}
