//! Commands that exist only in the shell.

use super::boot::{cat, echo, reboot, uptime};
use super::facts::{getconf, prtconf};
use super::programs::{SLICE, died, load, program, results, tell_ended};
use super::projects::{newtask, projadd, projdel, projects, projmod};
use super::services::{svcadm, svcs};
use super::shell::{Shell, Trouble, known, none};
use super::zones::{zlogin, zoneadm};
use crate::command::Command;
use crate::ctx::{Ctx, not_opened};
use millpond_cli::{help, nearest, units};
use millpond_model::{Nanos, Outcome, Pid, StuckThread};
use millpond_session::{Running, Workload, stop_on_signal};
use std::path::Path;
use std::sync::atomic::Ordering;

/// A command of the shell.
pub struct Own {
    name: &'static str,
    form: &'static str,
    summary: &'static str,
    run: fn(&mut Shell, &[String], &mut Ctx<'_>) -> Result<(), Trouble>,
}

const OWN: &[Own] = &[
    Own { name: "load", form: "WORKLOAD [OPTION ...]", summary: "start a workload as a process", run: load },
    Own { name: "ps", form: "[-e]", summary: "what was started, with its CPU time; -e: everything", run: ps },
    Own { name: "kill", form: "PID | %NAME ...", summary: "end a process, or all of a name", run: kill },
    Own {
        name: "run",
        form: "TIME | until idle",
        summary: "let 10s, 500ms, 20us pass; or until nothing is left to do",
        run,
    },
    Own {
        name: "results",
        form: "[TIME]",
        summary: "what programs achieved since they began, in their own units; or in a time that passes now",
        run: results,
    },
    Own { name: "time", form: "", summary: "the time since boot", run: time },
    Own { name: "save", form: "FILE", summary: "write the machine into a file", run: save },
    Own { name: "open", form: "FILE", summary: "go on with the machine in a file", run: open },
    Own {
        name: "svcadm",
        form: "enable|disable [-r] SERVICE ...",
        summary: "switch the services of the pools; -r: with what they need; refresh, restart",
        run: svcadm,
    },
    Own {
        name: "svcs",
        form: "[-a | SERVICE ... | -l SERVICE ... | -x [SERVICE ...]]",
        summary: "these services and their states; -a with times, -l at length, -x why one does not run",
        run: svcs,
    },
    Own {
        name: "uptime",
        form: "",
        summary: "how long the machine is up, and averages of load",
        run: uptime,
    },
    Own {
        name: "zoneadm",
        form: "list [-cvp] | -z ZONE boot | halt | shutdown | reboot",
        summary: "zones and their numbers; boot: what a zone holds begins to execute; halt: it ends",
        run: zoneadm,
    },
    Own {
        name: "zlogin",
        form: "ZONE WORKLOAD [OPTION ...]",
        summary: "start a workload in a zone",
        run: zlogin,
    },
    Own {
        name: "projects",
        form: "[-l [PROJECT ...]]",
        summary: "the superuser's projects; -l: all, with what they are configured with",
        run: projects,
    },
    Own {
        name: "projadd",
        form: "[-p NUMBER] [-K ATTRIBUTE] ... NAME",
        summary: "add a project; -K 'project.cpu-shares=(privileged,20,none)'",
        run: projadd,
    },
    Own { name: "projmod", form: "-K ATTRIBUTE ... NAME", summary: "configure a project", run: projmod },
    Own { name: "projdel", form: "NAME", summary: "remove a project", run: projdel },
    Own {
        name: "newtask",
        form: "[-p PROJECT] WORKLOAD [OPTION ...] | -p PROJECT -c PID",
        summary: "start a workload in a project, or move a process there",
        run: newtask,
    },
    Own { name: "echo", form: "[WORD ...]", summary: "a line, for >> /etc/system", run: echo },
    Own { name: "cat", form: "FILE ...", summary: "files of the simulated machine", run: cat },
    Own {
        name: "getconf",
        form: "_NPROCESSORS_CONF | _NPROCESSORS_ONLN",
        summary: "how many CPUs there are, or are on-line; behind zlogin those of the zone",
        run: getconf,
    },
    Own { name: "prtconf", form: "[-m]", summary: "the size of memory", run: prtconf },
    Own { name: "reboot", form: "", summary: "boot the machine again", run: reboot },
    Own {
        name: "help",
        form: "[COMMAND | WORKLOAD]",
        summary: "this list, or more about one of it",
        run: show_help,
    },
];

/// Solaris commands that the shell lacks, and its commands for the same purpose.
const INSTEAD: [(&[&str], &str); 9] = [
    (
        &["dtrace"],
        "occupancy -z ZONE 1 5 or occupancy PID 1 5 shows where programs run, intrstat 1 5 interrupts, prstat -mL 1 5 states of threads",
    ),
    (&["pmap"], "lgrpinfo --pages PID shows where the memory of a process lies"),
    (&["vmstat", "sar", "kstat", "iostat"], "mpstat 1 5 shows each CPU, poolstat each pool"),
    (&["lockstat", "plockstat"], "prstat -mL 1 5 shows the time of threads in LCK, diagnose why they wait"),
    (&["ptree", "pstack", "pargs"], "ps -e lists the processes"),
    (&["prtdiag"], "psrinfo -pv lists the chips, prtconf the size of memory"),
    (&["busstat", "trapstat"], "cpustat -h lists the events that are counted"),
    (&["nice", "renice"], "priocntl changes classes and priorities"),
    (&["svccfg"], "svcadm enables services, svcs -l shows one"),
];

/// The most threads that are named individually.
const NAMED_MAX: usize = 8;

impl Own {
    /// The command with this name.
    pub fn named(name: &str) -> Option<&'static Own> {
        OWN.iter().find(|own| own.name == name)
    }

    /// Runs the command with the words after its name. For an invalid command line the usage is the remedy.
    pub fn run(&self, shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
        (self.run)(shell, words, ctx).map_err(|trouble| match trouble.is_misuse {
            true => trouble.remedy(format!("usage: {}", self.usage())),
            false => trouble,
        })
    }

    fn usage(&self) -> String {
        format!("{} {}", self.name, self.form).trim_end().to_owned()
    }
}

/// The names of all shell commands.
pub fn names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|own| own.name).chain(["quit"])
}

/// Whether the shell or the machine has a command with this name.
pub fn has(name: &str, ctx: &Ctx<'_>) -> bool {
    Own::named(name).is_some() || known(name.rsplit('/').next().unwrap_or_default(), ctx).is_some()
}

/// Runs a command of the shell or of the machine, or a workload. `false` if it failed, which is reported.
pub fn run_words(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<bool, Trouble> {
    let name = words.first().map(String::as_str).unwrap_or_default();
    match Own::named(name) {
        Some(own) => own.run(shell, &words[1..], ctx).map(|()| true),
        None if !has(name, ctx) => match Workload::named(name) {
            Some(_) => program(shell, words, ctx).map(|()| true),
            None => Err(unknown(name, ctx)),
        },
        None => shell.command(words, ctx),
    }
}

/// The error about an unknown command, with the nearest known one.
fn unknown(word: &str, ctx: &Ctx<'_>) -> Trouble {
    let trouble = Trouble::new(0, format!("there is no command `{word}`"));
    let last = word.rsplit('/').next().unwrap_or(word);
    if let Some((_, instead)) = INSTEAD.iter().find(|(names, _)| names.contains(&last)) {
        return trouble.remedy(*instead);
    }
    let commands = ctx.commands().iter().map(|command| &command.spec).filter(|spec| spec.in_shell);
    match nearest(word, commands.map(|spec| spec.name).chain(names())) {
        Some(name) => trouble.remedy(format!("{name} is one; help lists them all")),
        None => trouble.remedy("help lists them"),
    }
}

fn ps(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let all = match words {
        [] => false,
        [word] if word == "-e" => true,
        _ => return Err(Trouble::misuse(1, format!("ps does not take `{}`", words[0]))),
    };
    ctx.out.line(format_args!("{:>6} {:>4} {:>3} {:>6} {:>11} NAME", "PID", "THR", "CLS", "SET", "TIME"));
    for p in shell.simulated()?.processes().iter().filter(|p| all || p.executes) {
        ctx.out.line(row(p));
    }
    Ok(())
}

fn row(p: &Running) -> String {
    let set = |set: &millpond_model::PsetId| if set.is_default() { "-".to_owned() } else { set.to_string() };
    let sets: Vec<String> = p.sets.iter().map(set).collect();
    let (sets, millis) = (sets.join(","), p.time.0 / 1_000_000);
    let time = format!("{}.{:03}", millis / 1000, millis % 1000);
    format!("{:>6} {:>4} {:>3} {sets:>6} {time:>11} {}", p.pid, p.threads, p.class.word(), p.name)
}

fn kill(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let done = kill_each(shell, words);
    tell_ended(shell.simulated()?, ctx);
    done
}

fn kill_each(shell: &Shell, words: &[String]) -> Result<(), Trouble> {
    if words.is_empty() {
        return Err(Trouble::misuse(1, "kill needs a process"));
    }
    let simulation = shell.simulated()?;
    for (word, at) in words.iter().zip(1..) {
        let refuse = |pid: Pid, why: &dyn std::fmt::Display| {
            Trouble::new(at, format!("cannot kill process {pid}: {why}")).remedy("ps lists the processes")
        };
        match word.strip_prefix('%') {
            Some(name) => {
                let named = simulation.processes().into_iter().filter(|p| p.executes && p.name == name);
                let pids: Vec<Pid> = named.map(|p| p.pid).collect();
                if pids.is_empty() {
                    let what =
                        format!("cannot kill %{name}: nothing of that name was started, or it has ended");
                    return Err(Trouble::new(at, what).remedy("ps lists the processes"));
                }
                for pid in pids {
                    simulation.kill(pid).map_err(|why| refuse(pid, &why))?;
                }
            }
            None => {
                let pid: Pid = word.parse().map_err(|_| {
                    Trouble::misuse(at, format!("`{word}` is no process number, and no name without a %"))
                })?;
                simulation.kill(pid).map_err(|why| refuse(pid, &why))?;
            }
        }
    }
    Ok(())
}

/// Parses `10s`, `1.5s` or `500ms`; a number alone is in seconds. More than a year is refused as a mistake.
fn duration(text: &str) -> Option<Nanos> {
    units::seconds(text).filter(|time| time.0 <= 31_536_000_000_000_000)
}

/// Parses the time operand of a command.
pub fn time_to_pass(text: &str) -> Result<Nanos, Trouble> {
    duration(text).ok_or_else(|| {
        Trouble::new(1, format!("`{text}` is no time to run for"))
            .remedy("a number with s, ms, us, min or h behind it, up to a year: 10s, 500ms")
    })
}

fn run(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let time = match texts[..] {
        ["until", "idle"] => None,
        [] => return Err(Trouble::misuse(1, "run needs a time")),
        ["until", ..] => return Err(Trouble::misuse(2, "run goes on until idle, or for a time")),
        [text] => Some(time_to_pass(text)?),
        _ => return Err(Trouble::misuse(2, format!("run does not take `{}`", texts[1]))),
    };
    let done = pass(shell, time);
    tell_ended(shell.simulated()?, ctx);
    done
}

/// Advances the time by this much, or until the machine is idle.
pub fn pass(shell: &Shell, time: Option<Nanos>) -> Result<(), Trouble> {
    let simulation = shell.simulated()?;
    let stop = stop_on_signal();
    let mut left = time;
    loop {
        let slice = left.map_or(SLICE, |left| left.min(SLICE));
        let outcome =
            if time.is_some() { simulation.run_for(slice) } else { simulation.run_until_idle(slice) };
        match outcome {
            Outcome::Due => {}
            Outcome::Idle => return Ok(()),
            Outcome::Halted(halt) => return Err(died(&halt)),
            Outcome::Deadlock(waiting) => return Err(deadlock(&waiting)),
            Outcome::Endless(endless) => {
                let names: Vec<String> =
                    endless.iter().map(|e| format!("{} (process {})", e.name, e.pid)).collect();
                let what = format!("it will never be idle: {} has no end", shortened(&names));
                let remedy = format!("run for a time, or kill {}", endless[0].pid);
                return Err(Trouble::new(1, what).remedy(remedy));
            }
        }
        if let Some(rest) = left {
            left = Some(Nanos(rest.0 - slice.0));
        }
        if left == Some(Nanos(0)) {
            break;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Trouble::new(0, "interrupted").remedy("time says how far it came"));
        }
    }
    let waiting = simulation.waiting_for_ever();
    if waiting.is_empty() { Ok(()) } else { Err(deadlock(&waiting)) }
}

fn shortened(names: &[String]) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let named = names[..names.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

fn deadlock(waiting: &[StuckThread]) -> Trouble {
    let (meeting, asleep): (Vec<&StuckThread>, Vec<&StuckThread>) =
        waiting.iter().partition(|thread| thread.at_barrier);
    let name = |w: &&StuckThread| format!("{} of {} at {}", w.lwp, w.name, w.at);
    let clause = |verb: &str, waiting: &[&StuckThread]| {
        let names: Vec<String> = waiting.iter().map(name).collect();
        (!names.is_empty()).then(|| format!("{verb} thread {}", shortened(&names)))
    };
    let clauses: Vec<String> =
        [clause("wake", &asleep), clause("meet", &meeting)].into_iter().flatten().collect();
    let what = format!("deadlock: no thread is left that would {}", clauses.join(", or "));
    let remedy = waiting.first().map(|w| format!("kill {}", w.lwp.pid)).unwrap_or_default();
    Trouble::new(0, what).remedy(remedy)
}

fn time(shell: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    none("time", words)?;
    let now = shell.session.machine().clock().now().0;
    ctx.out.line(format_args!("{}.{:09} s since boot", now / 1_000_000_000, now % 1_000_000_000));
    Ok(())
}

fn file<'w>(name: &str, words: &'w [String]) -> Result<&'w Path, Trouble> {
    match words {
        [file] if !file.is_empty() => Ok(Path::new(file)),
        [] | [_] => Err(Trouble::misuse(1, format!("{name} needs a file"))),
        _ => Err(Trouble::misuse(2, format!("{name} takes one file"))),
    }
}

fn save(shell: &mut Shell, words: &[String], _: &mut Ctx<'_>) -> Result<(), Trouble> {
    let path = file("save", words)?;
    let refuse = |error| Trouble::new(1, format!("cannot save the machine into {}: {error}", path.display()));
    shell
        .session
        .save_as(path)
        .map_err(|error| refuse(error).remedy("the machine goes on; name another file"))
}

fn open(shell: &mut Shell, words: &[String], _: &mut Ctx<'_>) -> Result<(), Trouble> {
    let path = file("open", words)?;
    shell.dismiss();
    shell.session.go_on_with(path).map_err(|error| {
        let trouble = Trouble::from(not_opened(&error));
        Trouble { word: 1, ..trouble.remedy("save writes such files; this machine goes on") }
    })
}

fn show_help(_: &mut Shell, words: &[String], ctx: &mut Ctx<'_>) -> Result<(), Trouble> {
    let Some(name) = words.first() else {
        let text = overview(ctx);
        ctx.out.text(&text);
        return Ok(());
    };
    if let Some(extra) = words.get(1) {
        return Err(Trouble::misuse(2, format!("help takes one name, and was given `{extra}` too")));
    }
    let command =
        known(name, ctx).or_else(|| Command::named("sim", ctx.commands()).filter(|_| name == "sim"));
    let text = if let Some(own) = Own::named(name) {
        format!("{}\n    {}\n", own.usage(), own.summary)
    } else if let Some(command) = command {
        help::manual(&command.spec)
    } else if let Some(workload) = Workload::named(name) {
        workload.help()
    } else {
        return Err(
            Trouble::new(1, format!("there is no command or workload `{name}`")).remedy("help lists them")
        );
    };
    ctx.out.text(&text);
    Ok(())
}

fn overview(ctx: &Ctx<'_>) -> String {
    let mut text = String::from("The machine's commands (help COMMAND shows a manual):\n");
    for Command { spec, .. } in ctx.commands().iter().filter(|command| command.spec.in_shell) {
        text += &format!("  {:<10} {}\n", spec.name, spec.summary);
    }
    text += "The shell's commands:\n";
    for own in OWN {
        text += &format!("  {:<42} {}\n", own.usage(), own.summary);
    }
    text += &format!("  {:<42} {}\n", "quit", "leave");
    text += "Workloads, by their names, for load, and behind -e of psrset, pbind, poolbind and priocntl (help WORKLOAD says more):\n";
    for workload in Workload::all() {
        text += &format!("  {}\n", workload.usage());
    }
    text + "help sim is the manual of the shell.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_model::{Lwp, LwpId};
    use millpond_session::Output;

    #[test]
    fn a_wrong_word_is_told_with_the_nearest_command() {
        let mut ctx = Ctx::new(Output::to(std::io::sink()), Output::to(std::io::sink()));
        ctx.use_commands(crate::COMMANDS);
        let remedy = |word| unknown(word, &ctx).remedy;
        assert_eq!(remedy("psrst").as_deref(), Some("psrset is one; help lists them all"));
        assert_eq!(
            remedy("/usr/sbin/dtrace").as_deref(),
            Some(
                "occupancy -z ZONE 1 5 or occupancy PID 1 5 shows where programs run, intrstat 1 5 interrupts, prstat -mL 1 5 states of threads"
            )
        );
        assert_eq!(remedy("frobnicate").as_deref(), Some("help lists them"));
    }

    #[test]
    fn a_deadlock_names_threads_and_what_they_wait_for() {
        let waits = |pid, name: &str, at: &str, at_barrier| {
            let lwp = Lwp { pid: Pid(pid), lwp: LwpId(1) };
            StuckThread { lwp, name: name.to_owned(), at: at.to_owned(), at_barrier }
        };
        let barrier = |pid| waits(pid, "cg", "barrier 3 (2 of 4 are there)", true);
        let said = |waiting: &[StuckThread]| {
            let trouble = deadlock(waiting);
            (trouble.what, trouble.remedy.unwrap_or_default())
        };
        let expected = |what: &str, remedy: &str| (what.to_owned(), remedy.to_owned());
        let channel = waits(300, "build", "channel 0", false);
        assert_eq!(
            said(std::slice::from_ref(&channel)),
            expected(
                "deadlock: no thread is left that would wake thread 300/1 of build at channel 0",
                "kill 300"
            )
        );
        assert_eq!(
            said(&[barrier(301), barrier(302)]),
            expected(
                "deadlock: no thread is left that would meet thread 301/1 of cg at barrier 3 (2 of 4 are there), \
                 302/1 of cg at barrier 3 (2 of 4 are there)",
                "kill 301"
            )
        );
        assert_eq!(
            said(&[channel, barrier(301)]),
            expected(
                "deadlock: no thread is left that would wake thread 300/1 of build at channel 0, \
                 or meet thread 301/1 of cg at barrier 3 (2 of 4 are there)",
                "kill 300"
            )
        );
    }

    #[test]
    fn many_threads_are_not_all_named() {
        let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        assert_eq!(shortened(&names), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
        assert_eq!(shortened(&names[..2]), "0, 1");
    }
}
