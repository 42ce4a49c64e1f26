//! A shell on a simulated machine: the same commands, one after the other, and time passes when you say so.
//!
//! A line is a command with its words; words with blanks stand in quotation marks, and `#` begins a comment. The
//! commands of the machine (`psrinfo`, `psradm`, `psrset`, `pbind`, `dispadmin`, `priocntl`, `prctl`, `zonecfg`, `pooladm`, `poolcfg`, `poolbind`, `poolstat`, `zones`, `lgrpinfo`, `plgrp`, `pginfo`, `pgstat`, `mpstat`,
//! `cpustat`, `cputrack`, `prstat`, `occupancy`, `intrstat`, `quiet`, `doctor`) are those of everywhere. `psrset -e`, `pbind -e`, `poolbind -e` and `priocntl -e` start workloads by their names. `help` lists
//! what belongs to the shell alone; `help COMMAND` and `help WORKLOAD` say more.
//!
//! Time stands still while commands are typed. It passes in `run`, and in commands that wait: `mpstat 1 5` is over at
//! once, and five seconds older. The same lines give the same text, always.
//!
//! ```text
//! load WORKLOAD [OPTION ...]   start a workload as a process
//! ps [-e]                      processes that were started, with their processor time; -e: all of them
//! kill PID | %NAME             end a process, or all of a name
//! run TIME                     let 10s, 500ms, 20us pass; a number without a unit is in seconds
//! run until idle               until nothing is left to do
//! time                         the time since boot
//! save FILE, open FILE         write the machine into a file; go on with the one in a file
//! svcadm enable|disable|refresh|restart SERVICE ...   svc:/system/pools:default and svc:/system/pools/dynamic:default
//! svcs [-a | SERVICE ...]      these services and their states; with times as Solaris shows them
//! uptime                       how long the machine is up, and averages of load
//! zoneadm list [-cv]           zones; zoneadm -z ZONE boot: what a zone holds begins to execute; -z ZONE halt: it ends
//! zlogin ZONE WORKLOAD ...     start a workload in a zone
//! projects [-l [PROJECT ...]]   the superuser's projects; -l: all, with what they are configured with
//! projadd [-p NUMBER] [-K ATTRIBUTE] NAME, projmod, projdel   project.cpu-shares=(privileged,20,none)
//! newtask -p PROJECT WORKLOAD ...   start a workload in a project; -p PROJECT -c PID moves a process
//! echo WORD ..., cat FILE      lines for a file of the simulated machine, and what it has
//! reboot                       boot the machine again
//! help [COMMAND | WORKLOAD]
//! quit
//! ```
//!
//! # Pipes and files
//!
//! The output of a command goes through programs of the machine at hand: `mpstat 1 5 | awk '$3 > 100' | head -3`. There are awk, cat, column, cut,
//! egrep, fgrep, grep, head, nawk, nl, paste, sed, sort, tail, tee, tr, uniq and wc; they are started as they are, without a shell, in the `C` locale. One that stops early
//! has not failed, and grep has not that found nothing. A script of the simulator is therefore to be trusted as a script of sh is: `awk` and `tee` can write files of the
//! machine at hand. Quotation marks and backslashes are as in sh; there are no variables and no patterns of files. `>` and `>>` write into `/etc/system` of the simulated machine, or to
//! `/dev/null`; `| tee FILE` writes a file at hand. An `&` at the end of a line has no effect: what is started runs beside the shell anyway.
//!
//! # Booting again
//!
//! `echo 'set ts_dispatch_extended=1' >> /etc/system` and `reboot`: from then on the dispatch table of large servers holds (`dispadmin -c TS -g`). Tunables are hz,
//! lgrp_mem_pset_aware, nosteal_nsec, rechoose_interval and ts_dispatch_extended; a line with another one is told and has no effect. Kept over a boot are files (`/etc/system`,
//! `/etc/pooladm.conf`), services that are enabled, the default class (`dispadmin -d`), projects with what `projadd -K` says, and what `zonecfg` says of zones.
//! What `prctl` set is gone, as are sets, bindings, states of processors, tables that `dispadmin -s` set and all that ran.
//!
//! # Services
//!
//! The service of the pools is `pooladm -e`, and `pooladm -c` if the machine has a file /etc/pooladm.conf, which lives inside of the machine; disabling it is
//! `pooladm -d`. The dynamic one is a `poold` that lives on the machine while the shell is open: as time passes it moves processors to where threads wait for
//! them, by the policy that the property system.poold.policy names (millpond as without, solaris). `poolstat --why` shows what it decided.
//!
//! ```text
//! $ millpond sim t2000
//! t2000> psrset -c 4-7
//! created processor set 1
//! processor 4: was not assigned, now 1
//! processor 5: was not assigned, now 1
//! processor 6: was not assigned, now 1
//! processor 7: was not assigned, now 1
//! t2000> psrset -e 1 nap -t 4
//! started nap: process id 300
//! t2000> run 10s
//! t2000> ps
//!    PID  THR CLS    SET        TIME NAME
//!    300    4  TS      1      20.000 nap
//! ```
//!
//! At a terminal there is a history (arrows, Ctrl-R) and Tab completes commands, workloads, processes and files.
//! Ctrl-C drops the line, or ends what runs; Ctrl-D leaves.
//!
//! # Machines of your own
//!
//! Where a machine's name stands, here and behind `--machine`, a machine file may stand: a name that ends in `.json` or has a
//! slash in it. What such a file says is in docs/explanation/simulator.md; mistakes in it are told as `FILE:LINE:COLUMN`.
//!
//! # Scripts
//!
//! `millpond sim t2000 FILE` runs the lines of a file; without FILE and a terminal, those of standard input. A line
//! that fails ends the script, and its place is told as `FILE:LINE:COLUMN`.
//!
//! # Options
//!
//! With `--state FILE` the machine is the one that the file keeps, and each line is kept there when it is done.

mod boot;
mod complete;
mod lines;
mod own;
mod pipe;
mod place;
mod poold;
mod projects;
mod services;
mod shell;
mod words;

use crate::command::Command;
use crate::ctx::{Ctx, not_opened};
use crate::failure::{Complaint, Exit, Failure};
use complete::Known;
use lines::{Goes, line};
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_session::{
    LineEditor, MachineName, OpenOptions, SIMULATED, Session, Typed, input_is_terminal, input_lines,
    is_machine_file, read_text,
};
use place::Place;
use shell::Shell;
use std::path::Path;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "sim",
        summary: "a shell on a simulated machine",
        group: Group::Simulate,
        forms: &["[--echo] [--keep-going] [--state file] machine [script]"],
        flags: &[
            Flag::long("echo", "show each line of a script behind the prompt, as a terminal would"),
            Flag::long("keep-going", "do not end a script at a line that fails"),
        ],
        operands: Operands { shown: "machine [script]", kinds: &[ValueKind::Machine] },
        examples: &[
            Example { words: "t2000", what: "a shell on a simulated machine of 32 CPUs" },
            Example { words: "t2000 day.sim", what: "run the lines of a file there" },
            Example { words: "--state mine.json t2000", what: "keep the machine in a file" },
        ],
        status: &[
            ("0", "the shell ended, or every line of the script was done"),
            ("1", "a line of the script failed"),
            MISUSED,
        ],
        see_also: &["millpond-experiment(1)", "millpond-load(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    // Options may stand behind the machine's name, too.
    let mut words = parsed.operands.clone();
    let mut sides = vec![parsed.clone()];
    let mut operands: Vec<String> = Vec::new();
    while let Some((first, rest)) = words.split_first() {
        operands.push(first.to_string_lossy().into_owned());
        let behind = millpond_cli::parse(&COMMAND.spec, rest)?;
        words.clone_from(&behind.operands);
        sides.push(behind);
    }
    let common = |pick: fn(&Parsed) -> Option<String>| sides.iter().find_map(pick);
    let machine = common(|p| p.common.machine.clone());
    let file = common(|p| p.common.state.as_ref().map(|path| path.to_string_lossy().into_owned()));
    let has = |long: &str| sides.iter().any(|p| p.long(long));
    if sides.iter().any(|p| p.common.help) {
        ctx.out.text(&millpond_cli::help::short(&COMMAND.spec));
        return Ok(Exit::DONE);
    }
    if sides.iter().any(|p| p.common.root.is_some() || p.common.json || p.common.dry_run) {
        return Err(Failure::Usage(
            "--root, --json and --dry-run belong to the commands in the shell".into(),
        ));
    }
    let named = machine.is_some() || (file.is_some() && operands.len() < 2 && !is_machine(&operands));
    let mut operands = operands.into_iter();
    let machine = if named { machine } else { operands.next() };
    let script = operands.next();
    if let Some(extra) = operands.next() {
        return Err(Failure::Usage(format!("one script at a time, and `{extra}` is another one")));
    }
    let session = open(machine.as_deref(), file.as_deref(), ctx)?;
    let mut shell = Shell::new(session, has("keep-going"));
    match script {
        Some(path) => {
            let text = read_text(Path::new(&path))
                .map_err(|why| Complaint::new(format!("read script {path}"), why))?;
            Ok(follow(&mut shell, &path, text.lines().map(|line| Ok(line.to_owned())), has("echo"), ctx))
        }
        None if input_is_terminal() => Ok(converse(&mut shell, ctx)),
        None => Ok(follow(&mut shell, "stdin", input_lines(), has("echo"), ctx)),
    }
}

/// Whether the first of the words names a machine.
fn is_machine(words: &[String]) -> bool {
    let is_one =
        |word: &String| word == "like-host" || SIMULATED.contains(&word.as_str()) || is_machine_file(word);
    words.first().is_some_and(is_one)
}

fn open(machine: Option<&str>, file: Option<&str>, ctx: &Ctx<'_>) -> Result<Session, Failure> {
    let names = SIMULATED.join(", ");
    let name = match machine {
        None if file.is_none() => {
            let why = format!("which machine? there are {names}, like-host, and your own machine files");
            return Err(Failure::Usage(why));
        }
        Some("real") => {
            let complaint = Complaint::new("simulate machine real", "it is the one at hand");
            return Err(complaint.hint("like-host is a simulated one like it").into());
        }
        Some(name) => MachineName::Simulated(name.to_owned()),
        None => MachineName::Real,
    };
    let options = OpenOptions { machine: name, kept_in: file.map(Into::into), ..OpenOptions::default() };
    let session = Session::open(&options).map_err(|error| not_opened(&error))?.lasting();
    Ok(match ctx.given() {
        Some(given) => session.in_zone(given.zone().clone()),
        None => session,
    })
}

/// Runs the lines of a script. Errors of reading end it.
fn follow(
    shell: &mut Shell,
    name: &str,
    lines: impl Iterator<Item = Result<String, String>>,
    echo: bool,
    ctx: &mut Ctx<'_>,
) -> Exit {
    for (text, number) in lines.zip(1..) {
        let place = Place::in_script(name, number);
        let text = match text {
            Ok(text) => text,
            Err(why) => {
                place.tell(1, &format!("cannot be read: {why}"), None, ctx);
                return Exit::REFUSED;
            }
        };
        if echo {
            ctx.out.line(format_args!("{}{text}", shell.prompt()).to_string().trim_end());
        }
        if line(shell, &text, &place, ctx) == Goes::Out || ctx.out.is_closed() {
            break;
        }
    }
    shell.leave(ctx);
    shell.status
}

/// Reads lines from a terminal until the user leaves.
fn converse(shell: &mut Shell, ctx: &mut Ctx<'_>) -> Exit {
    ctx.out.line("help lists the commands, quit leaves; time passes only in run and in commands that wait");
    match shell.kept_path() {
        Some(path) => ctx.out.line(format_args!("the machine is kept in {path} after each line")),
        None => ctx
            .out
            .line("the machine lives as long as this shell; save FILE keeps it, and --state FILE always"),
    }
    ctx.out.flush();
    let mut editor = match LineEditor::new() {
        Ok(editor) => editor,
        Err(why) => {
            ctx.complain(&Complaint::new("read from the terminal", why));
            return Exit::REFUSED;
        }
    };
    loop {
        ctx.out.flush();
        ctx.err.flush();
        let prompt = shell.prompt();
        let known = Known::of(shell, ctx.commands());
        match editor.read(&prompt, move |line, at| complete::complete(&known, line, at)) {
            Ok(Typed::Line(text)) => {
                if line(shell, &text, &Place::at_terminal(), ctx) == Goes::Out {
                    break;
                }
            }
            Ok(Typed::Dropped) => {}
            Ok(Typed::End) => break,
            Err(why) => {
                ctx.complain(&Complaint::new("read from the terminal", why));
                return Exit::REFUSED;
            }
        }
    }
    shell.leave(ctx);
    Exit::DONE
}
