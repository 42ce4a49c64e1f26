//! A shell on a simulated machine: the same commands, in simulated time, with results that can be repeated exactly.
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
//!    300    4  TS      1      20.006 nap
//! ```
//!
//! Time stands still while you type. It passes in `run`, in programs in the foreground, and in commands that wait:
//! `mpstat 1 5` returns at once, five simulated seconds later. Without a count such a command reports five times. The
//! same lines always give the same output.
//!
//! `help` lists the commands and workloads; `help COMMAND` and `help WORKLOAD` say more. `psrset -e`, `pbind -e`,
//! `poolbind -e` and `priocntl -e` start workloads by name. A terminal has a history (arrows, Ctrl-R) and Tab
//! completion. Ctrl-C drops the line, or ends the running command; Ctrl-D leaves.
//!
//! # Commands of the shell
//!
//! ```text
//! WORKLOAD [OPTION ...] [&]    run a workload as a program: ./iperf --client np1unx0006 --time 60 --dualtest
//! load WORKLOAD [OPTION ...]   the same in the background
//! results [TIME]               what programs achieved since they began, or in a time that passes now
//! ps [-e]                      started processes with their CPU time; -e: all processes
//! kill PID | %NAME             end a process, or all with a name
//! run TIME                     let 10s, 500ms, 20us pass; a number without a unit is in seconds
//! run until idle               let time pass until nothing is left to do
//! time                         time since boot
//! save FILE, open FILE         write the machine to a file; continue with the machine in a file
//! svcadm enable|disable|refresh|restart SERVICE ...   svc:/system/pools:default and svc:/system/pools/dynamic:default
//! svcs [-a | SERVICE ...]      these services with state and time; -l SERVICE: at length; -x: why one does not run
//! uptime                       time since boot, and load averages
//! zoneadm list [-cvp]          list zones; zoneadm -z ZONE boot | halt | shutdown | reboot starts or ends a zone
//! zlogin ZONE WORKLOAD ...     start a workload in a zone; zlogin ZONE getconf NAME
//! projects [-l [PROJECT ...]]  the superuser's projects; -l: all, with their configuration
//! projadd [-p NUMBER] [-K ATTRIBUTE] NAME, projmod, projdel   project.cpu-shares=(privileged,20,none)
//! newtask -p PROJECT WORKLOAD ...   start a workload in a project; -p PROJECT -c PID moves a process
//! getconf NAME, prtconf [-m]   _NPROCESSORS_CONF, _NPROCESSORS_ONLN; the size of memory
//! echo WORD ..., cat FILE      a line, for > FILE; show files
//! reboot                       boot the machine again
//! quit
//! ```
//!
//! # Lines
//!
//! Words, quotation marks, backslashes and `#` comments are as in sh, without variables. A line that ends in a
//! backslash continues on the next one. `> FILE` and `>> FILE` write to a file of this machine, if its name is
//! relative. Absolute names belong to the simulated machine: `/etc/system` and `/dev/null` can be written.
//!
//! Output can be piped through programs of this machine, in the `C` locale. These are awk, cat, column, cut, egrep, fgrep,
//! grep, head, nawk, nl, paste, sed, sort, tail, tee, tr, uniq and wc. A program that stops early, or a grep without a
//! match, is no failure. A line can begin with one of them, too: `grep total cpu*` reads files of this machine, and a
//! pattern is replaced by the matching file names. awk and tee can write files, so trust a script like one for sh.
//!
//! # Programs
//!
//! A workload by its name runs in the foreground: time passes until it has ended, and it reports its result. It runs in
//! the background with an `&`, after `load`, after `psrset -e` and the like, and if it never ends by itself. Then it
//! reports when it ends or is killed. Rates are averages since it began:
//!
//! ```text
//! t2000> ./iperf --client np1unx0006 --time 60 --dualtest
//! started iperf: process id 300
//! iperf, process id 300: out 584.3 Mbits/sec, in 519.0 Mbits/sec, over 60.000 s
//! ```
//!
//! cg reports Mop/s, jbb bops, tpce transactions a second, and hackbench the seconds that it took (`Time: 32.842`). cg
//! has a thread for each CPU that it may use: of its set, or of its zone's pool. `results 10s` shows the results of all
//! of them over the next ten seconds, for example before and after a change of sets.
//!
//! # Scripts
//!
//! `millpond sim t2000 FILE` runs the lines of a file; without FILE and terminal, those of standard input. A line that
//! fails ends the script, and is reported as `FILE:LINE:COLUMN`. With `--state FILE` the machine is saved in that file
//! after each line.
//!
//! # The twin of this machine
//!
//! `like-host` has the CPUs of this machine. `millpond sim --calibrate like-host` measures this machine, in about
//! fifteen seconds: context switch, wake-up, message, cache lines near and far, time slices of its scheduler, and one
//! thread of NPB CG. From then on, until the next boot, `like-host` has these figures too, and schedules by the rules
//! of Linux (EEVDF). Its machine file names the source of each figure; `--json` prints that file. `millpond experiment
//! twin --machine real` shows how well the twin predicts. If other programs use more than half of the CPUs, the
//! measurement is refused after a second.
//!
//! # Reboot
//!
//! `echo 'set ts_dispatch_extended=1' >> /etc/system` and `reboot` select the dispatch table of large servers. Tunables
//! are hz, lgrp_mem_pset_aware, nosteal_nsec, rechoose_interval, ts_dispatch_extended and wakeup_parity_nsec; others are
//! reported and have no effect. `wakeup_parity_nsec` is what `--parity` of millpond-schedd(8) sets, and 0 unless set.
//!
//! A reboot keeps files (`/etc/system`, `/etc/pooladm.conf`), enabled services, the default class (`dispadmin -d`),
//! projects (`projadd -K`) and zone configurations (`zonecfg`). Sets, bindings, CPU states, `prctl` values, tables of
//! `dispadmin -s` and processes are gone.
//!
//! # Services
//!
//! The pools service is `pooladm -e`, and `pooladm -c` if the simulated machine has a file /etc/pooladm.conf. Disabling
//! it is `pooladm -d`. It is online while pools are enabled, by any command. The dynamic one is a `poold` that runs
//! while the shell is open, with the policy of the property system.poold.policy (millpond, the default, or solaris).
//! Restarting it begins a new interval. `poolstat --why` shows its decisions.
//!
//! # Machine files
//!
//! A machine file can replace a machine's name, here and after `--machine`: a name that ends in `.json` or contains a
//! slash. docs/reference/simulator.md describes the format. Errors in it are reported as `FILE:LINE:COLUMN`.

mod boot;
mod calibrate;
mod complete;
mod facts;
mod lines;
mod own;
mod pipe;
mod place;
mod poold;
mod programs;
mod projects;
mod services;
mod shell;
mod svcs;
mod words;
mod zones;

use crate::command::Command;
use crate::ctx::{Ctx, not_opened};
use crate::failure::{Complaint, Exit, Failure};
use crate::json::Describe;
use complete::Known;
use lines::{Flow, line};
use millpond_cli::{Example, Flag, Group, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_session::{
    LineEditor, MachineName, OpenOptions, SIMULATED, Session, Typed, input_is_terminal, input_lines,
    is_machine_file, read_text,
};
use place::Place;
use shell::Shell;
use std::path::Path;

/// It prints no JSON.
pub(crate) const DOCUMENTS: &[Describe] = &[];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "sim",
        summary: "start a shell on a simulated machine",
        group: Group::Try,
        forms: &["[--echo] [--keep-going] [--state file] machine [script]", "--calibrate [--json] like-host"],
        flags: &[
            Flag::long("echo", "print each line of a script behind the prompt"),
            Flag::long("keep-going", "continue a script after a line that fails"),
            Flag::long("calibrate", "measure this machine, and give like-host its numbers"),
        ],
        operands: Operands { shown: "machine [script]", kinds: &[ValueKind::Machine] },
        examples: &[
            Example { words: "t2000", what: "start a shell on a simulated machine of 32 CPUs" },
            Example { words: "t2000 day.sim", what: "run the lines of a file there" },
            Example { words: "--state mine.json t2000", what: "keep the machine in a file between calls" },
            Example { words: "--calibrate like-host", what: "measure this machine for its twin" },
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
    // Options may also follow the machine's name.
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
    if has("calibrate") {
        let others = |p: &Parsed| p.common.root.is_some() || p.common.state.is_some() || p.common.dry_run;
        if sides.iter().any(others) || has("echo") || has("keep-going") {
            return Err(Failure::Usage(
                "--calibrate measures, and keeps what it finds: it goes with --json alone".into(),
            ));
        }
        let json = sides.iter().any(|p| p.common.json);
        let named: Vec<&str> = operands.iter().map(String::as_str).chain(machine.as_deref()).collect();
        return match named == ["like-host"] {
            true => calibrate::run(json, ctx),
            false => Err(Failure::Usage(
                "--calibrate measures the machine at hand: sim --calibrate like-host".into(),
            )),
        };
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

/// Whether the first word names a machine.
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

/// The prompt of a continued line.
const MORE: &str = "> ";

/// Runs the lines of a script. A read error ends it.
fn follow(
    shell: &mut Shell,
    name: &str,
    lines: impl Iterator<Item = Result<String, String>>,
    echo: bool,
    ctx: &mut Ctx<'_>,
) -> Exit {
    let mut lines = lines.zip(1..);
    // The next line of the script, printed after that prompt if lines are shown.
    let mut next = |prompt: &str, ctx: &mut Ctx<'_>| {
        let (text, number) = lines.next()?;
        match &text {
            Ok(text) if echo => ctx.out.line(format!("{prompt}{text}").trim_end()),
            Ok(_) => {}
            Err(why) => {
                Place::in_script(name, number).tell(1, &format!("cannot be read: {why}"), None, ctx);
            }
        }
        Some((text.ok(), number))
    };
    while let Some((text, number)) = next(&shell.prompt(), ctx) {
        let Some(mut text) = text else { return Exit::REFUSED };
        let mut place = Place::in_script(name, number);
        while words::goes_on(&text) {
            match next(MORE, ctx) {
                Some((Some(more), _)) => place.go_on(&mut text, &more),
                Some((None, _)) => return Exit::REFUSED,
                None => break,
            }
        }
        if line(shell, &text, &place, ctx) == Flow::Quit || ctx.out.is_closed() {
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
    // The typed part of a line that continues.
    let mut begun: Option<(String, Place)> = None;
    loop {
        ctx.out.flush();
        ctx.err.flush();
        let prompt = if begun.is_some() { MORE.to_owned() } else { shell.prompt() };
        let known = Known::of(shell, ctx.commands());
        let before =
            begun.as_ref().map(|(text, _)| text.trim_end_matches('\\').to_owned()).unwrap_or_default();
        match editor.read(&prompt, move |line, at| complete::behind(&known, &before, line, at)) {
            Ok(Typed::Line(typed)) => {
                let (text, place) = match begun.take() {
                    Some((mut text, mut place)) => {
                        place.go_on(&mut text, &typed);
                        (text, place)
                    }
                    None => (typed, Place::at_terminal()),
                };
                if words::goes_on(&text) {
                    begun = Some((text, place));
                } else if line(shell, &text, &place, ctx) == Flow::Quit {
                    break;
                }
            }
            Ok(Typed::Dropped) => begun = None,
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
