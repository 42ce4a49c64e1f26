//! The interactive screen: frames, keys, and the commands that keys start.

use super::options::Options;
use super::player::Player;
use crate::command::{Command, dispatch};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, read};
use millpond_collect::Collector;
use millpond_model::{Nanos, Pid, printable};
use millpond_screen::{Action, Screen, Terminal, Watched, colour};
use millpond_session::{Output, Session, Stopwatch, reason, stop_on_signal};
use millpond_store::Recording;
use std::ffi::OsString;
use std::sync::atomic::Ordering;

/// The interval of checks for a signal.
const LOOK: Nanos = Nanos::from_millis(200);

/// The shortest interval between two drawings, whatever the sampling interval is.
const DRAWN_EVERY: Nanos = Nanos::from_millis(100);

pub fn run(
    options: &Options,
    session: &Session,
    collector: &mut Collector<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let stop = stop_on_signal();
    let simulation = session.simulation();
    let mut screen = begin(options, watched(session), ctx);
    let mut terminal = Terminal::enter().map_err(gone)?;
    let watch = Stopwatch::start();
    let interval = options.repetition.interval.max(DRAWN_EVERY);
    screen.push(read("the machine", collector.frame())?);
    let mut due = watch.elapsed() + if simulation.is_some() { Nanos(0) } else { interval.min(LOOK) };
    loop {
        terminal.draw(&mut screen).map_err(gone)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::DONE);
        }
        if let Some(event) = terminal.event((due - watch.elapsed()).min(LOOK)).map_err(gone)? {
            match screen.event(&event) {
                Action::None => {}
                Action::Quit => return Ok(Exit::DONE),
                // A live screen has no recorded moments.
                Action::Go(_) => {}
                Action::Plan(words) => {
                    let (mut lines, goes) = command(&words, session, ctx);
                    lines.extend(not_given_back(&lines));
                    if are_mixed(&lines) {
                        lines.push("its threads differ now: u makes them alike".to_owned());
                    }
                    screen.planned(lines, goes, class_before(&words, session));
                }
                Action::Run(words) => {
                    let (lines, is_done) = command(&words, session, ctx);
                    screen.done(lines, is_done);
                    collector.forget_slow();
                }
            }
        }
        let pace = screen.pace();
        let is_due = watch.elapsed() >= due && !pace.is_paused;
        if !is_due && !pace.wants_step {
            if pace.is_paused {
                due = watch.elapsed() + LOOK;
            }
            continue;
        }
        if let Some(simulation) = simulation {
            let times = if pace.wants_step { 1 } else { u64::from(pace.speed) };
            let _ = simulation.run_for(Nanos(options.repetition.interval.0.saturating_mul(times)));
        }
        screen.push(read("the machine", collector.frame())?);
        due = watch.elapsed() + interval;
    }
}

/// The kind of machine, for the screen.
pub fn watched(session: &Session) -> Watched {
    if session.simulation().is_some() { Watched::Simulated } else { Watched::Real }
}

/// A screen with the colours of the terminal.
fn begin(options: &Options, watched: Watched, ctx: &mut Ctx<'_>) -> Screen {
    let variable = |name: &str| std::env::var(name).ok();
    let depth = colour::Depth::of(
        variable("NO_COLOR").as_deref(),
        variable("TERM").as_deref(),
        variable("COLORTERM").as_deref(),
    );
    let mut screen = Screen::new(depth, watched);
    screen.begin(options.view.clone(), options.filter.clone(), options.order);
    ctx.out.flush();
    screen
}

#[expect(clippy::needless_pass_by_value, reason = "as errors are mapped")]
fn gone(error: std::io::Error) -> Failure {
    Failure::from(Complaint::new("use the terminal", reason(&error)))
}

/// Shows a recording on the screen.
pub fn replay(options: &Options, recording: &Recording, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let stop = stop_on_signal();
    let mut screen = begin(options, Watched::Recorded, ctx);
    let mut player = Player::open(recording, options.at.as_deref(), &mut screen, ctx.zone())?;
    let mut terminal = Terminal::enter().map_err(gone)?;
    let watch = Stopwatch::start();
    let mut drawn = watch.elapsed();
    loop {
        if let Some(why) = player.damaged() {
            screen.pause(format!("a part cannot be read: {}", printable(&why)));
        }
        terminal.draw(&mut screen).map_err(gone)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Exit::DONE);
        }
        let pace = screen.pace();
        // At the end of the recording it waits for keys only.
        let speed = u64::from(pace.speed.max(1));
        let wait = player.until_next().map_or(LOOK, |time| Nanos(time.0 / speed)).max(DRAWN_EVERY);
        let due = drawn + wait;
        if let Some(event) = terminal.event((due - watch.elapsed()).min(LOOK)).map_err(gone)? {
            match screen.event(&event) {
                Action::Quit => return Ok(Exit::DONE),
                Action::Go(seconds) => player.go(seconds, &mut screen),
                // A recording cannot be changed.
                Action::None | Action::Plan(_) | Action::Run(_) => {}
            }
        }
        let pace = screen.pace();
        let now = watch.elapsed();
        if pace.wants_step {
            if !player.step(&mut screen) {
                screen.pause(END.to_owned());
            }
            drawn = now;
        } else if pace.is_paused {
            drawn = now;
        } else if now >= due {
            if !player.step_for(Nanos(wait.0.saturating_mul(speed)), &mut screen) {
                screen.pause(END.to_owned());
            }
            drawn = now;
        }
    }
}

/// The message at the end of a recording.
const END: &str = "the recording ends here; [ goes back a minute, { an hour";

/// The command that restores the current class and parameters of a process, if `words` change them.
fn class_before(words: &[String], session: &Session) -> Option<Vec<String>> {
    let pid = words.last().filter(|_| words.first().is_some_and(|name| name == "priocntl"))?;
    let number = Pid(pid.parse().ok()?);
    let all = session.machine().dispatcher().ok()?.scheduled().ok()?;
    let params = all.iter().find(|process| process.pid == number)?.params;
    let back = ["priocntl", "-s", "--as", &params.to_string(), "-i", "pid", pid];
    Some(back.map(str::to_owned).to_vec())
}

/// The warning about a kernel policy that `u` cannot restore, because no class represents it exactly.
fn not_given_back(lines: &[String]) -> Option<String> {
    let before = |line: &String| {
        let policy = line.strip_prefix("policy:")?.split_once(": ")?.1.split_once(" -> ")?.0;
        let (name, level) = policy.split_once(' ')?;
        let is_high = level.parse::<u8>().is_ok_and(|level| level > LEVELS);
        (name == "batch" || (["fifo", "rr"].contains(&name) && is_high)).then(|| policy.to_owned())
    };
    let policy = lines.iter().find_map(before)?;
    Some(format!("its policy is {policy} now, and u gives back the nearest: priocntl knows no other"))
}

/// The number of real-time priorities of class RT.
const LEVELS: u8 = 60;

/// Whether the threads in a plan have different classes or parameters before the change. Lines of the plan are, for
/// example, `lwp/300/1/class: TS 0 0 -> RT 5 10 0` and `policy:…: other 0 -> rr 6`.
fn are_mixed(lines: &[String]) -> bool {
    let of_class = lines.iter().filter(|line| line.starts_with("policy:") || line.contains("/class: "));
    let mut before = of_class.filter_map(|line| Some(line.split_once(" -> ")?.0.split_once(": ")?.1));
    before.next().is_some_and(|first| before.any(|other| other != first))
}

/// Runs a command. Returns the lines of its output, and whether it succeeded.
fn command(words: &[String], session: &Session, ctx: &Ctx<'_>) -> (Vec<String>, bool) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let commands = ctx.commands();
    let Some(command) = words.first().and_then(|name| Command::named(name, commands)) else {
        return (vec!["there is no such command".to_owned()], false);
    };
    let rest: Vec<OsString> = words[1..].iter().map(OsString::from).collect();
    let mut inner = Ctx::new(Output::to(&mut out), Output::to(&mut err)).with_session(session);
    inner.use_commands(commands);
    inner.prog = command.spec.prog();
    let exit = dispatch(command, &rest, &mut inner);
    let _ = inner.out.finish();
    inner.err.flush();
    drop(inner);
    let lines = |bytes: &[u8]| {
        String::from_utf8_lossy(bytes).lines().map(|line| printable(line).into_owned()).collect::<Vec<_>>()
    };
    let mut told = lines(&out);
    told.extend(lines(&err));
    (told, exit == Exit::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_shows_whether_threads_differ() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let alike = "lwp/300/1/class: TS 0 0 -> FX 0 0 20\nlwp/300/2/class: TS 0 0 -> FX 0 0 20";
        assert!(!are_mixed(&lines(alike)));
        assert!(are_mixed(&lines(&alike.replacen("TS 0 0", "RT 5 10 0", 1))));
        let real = "policy:7/7@60: other 0 -> rr 6\npolicy:7/8@60: fifo 1 -> rr 6";
        assert!(are_mixed(&lines(real)));
        assert!(!are_mixed(&lines("cpuset.cpus: 0-1 -> 0\ncpuset.mems: 0 -> 1")), "no class");
        assert_eq!(not_given_back(&lines(alike)), None);
        assert_eq!(not_given_back(&lines("policy:7/7@60: other 0 -> rr 6")), None);
        for policy in ["batch 0", "fifo 99"] {
            let said =
                format!("its policy is {policy} now, and u gives back the nearest: priocntl knows no other");
            assert_eq!(not_given_back(&lines(&format!("policy:7/7@60: {policy} -> rr 6"))), Some(said));
        }
    }
}
