//! Programs: workloads started by name, in the background or in the foreground, and their reports.
//!
//! A program in the foreground lets time pass until it has ended. One that never ends by itself runs in the background, because the shell
//! would otherwise block forever.

use super::own::pass;
use super::shell::{Shell, Trouble, workload};
use crate::ctx::Ctx;
use crate::start::started;
use millpond_model::{Nanos, Outcome};
use millpond_session::{Achieved, Simulation, stop_on_signal};
use std::sync::atomic::Ordering;

/// The simulated time between two checks for an interrupt by the user.
pub const SLICE: Nanos = Nanos::from_secs(1);
/// The longest time that a program stays in the foreground. Other threads may keep it from running.
const PATIENCE: Nanos = Nanos::from_secs(3_600);

/// `load WORKLOAD [OPTION ...]`: starts a workload in the background.
pub fn load(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let load = workload("load", words, 1, ctx)?;
    let pid = shell.simulated()?.start(&load);
    ctx.out.line(started(&load.name, pid));
    Ok(())
}

/// Runs a program by its name. It runs in the foreground unless the line ends in `&`.
pub fn program(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let name = words.first().map(String::as_str).unwrap_or_default();
    let load = workload(name, words, 0, ctx)?;
    let simulation = shell.simulated()?;
    let pid = simulation.start(&load);
    ctx.out.line(started(&load.name, pid));
    if shell.in_background {
        return Ok(());
    }
    let stop = stop_on_signal();
    let begun = shell.session.machine().clock().now();
    let passed = || shell.session.machine().clock().now() - begun;
    loop {
        let stays = if simulation.is_endless(pid) {
            Some("never ends by itself")
        } else if passed() >= PATIENCE {
            Some("has not ended within an hour")
        } else {
            None
        };
        if let Some(why) = stays {
            load.name.clone_into(&mut ctx.prog);
            ctx.warn(format_args!("it {why}: it runs in the background"));
            ctx.hint(&format!("run TIME lets time pass, results shows what it achieves, kill {pid} ends it"));
            return Ok(());
        }
        if simulation.run_until_ended(pid, SLICE) {
            tell_ended(simulation, ctx);
            return Ok(());
        }
        if let Outcome::Halted(halt) = simulation.run_for(Nanos(0)) {
            return Err(died(&halt));
        }
        if stop.load(Ordering::Relaxed) {
            // As on any terminal, the interrupt ends the program. It reports its progress.
            let _ = simulation.kill(pid);
            tell_ended(simulation, ctx);
            return Err(Trouble::new(0, "interrupted").remedy("an & at the end starts it in the background"));
        }
    }
}

/// The error about a halted machine. It can only be replaced by a saved state.
pub fn died(halt: &str) -> Trouble {
    Trouble::new(0, format!("the machine died: {halt}")).remedy("open goes back to a machine that was saved")
}

/// Prints the reports of programs that have ended.
pub fn tell_ended(simulation: Simulation<'_>, ctx: &mut Ctx<'_>) {
    for one in simulation.take_ended() {
        ctx.out.line(format_args!("{}, process id {}: {}", one.name(), one.pid(), one.report()));
    }
}

/// `results`: the results of programs since their start; `results TIME`: those of the next TIME, which passes now.
pub fn results(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let before = match words {
        [] => Vec::new(),
        [time] => {
            let before = shell.simulated()?.achievements();
            pass(shell, Some(super::own::time_to_pass(time)?))?;
            before
        }
        _ => return Err(Trouble::misuse(2, format!("results does not take `{}`", words[1]))),
    };
    ctx.out.line(format_args!("{:>6} {:>12} {:<16} RESULT", "PID", "SECONDS", "NAME"));
    for one in shell.simulated()?.achievements() {
        let one =
            before.iter().find(|b| b.pid() == one.pid()).map_or(one.clone(), |before| one.since(before));
        ctx.out.line(row(&one));
    }
    Ok(())
}

fn row(one: &Achieved) -> String {
    let figure = one.figure().unwrap_or_else(|| "at its end".to_owned());
    format!("{:>6} {:>12.3} {:<16} {figure}", one.pid(), one.time().as_secs_f64(), one.name())
}
