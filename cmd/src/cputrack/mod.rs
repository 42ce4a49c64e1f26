//! Counts hardware events per thread of a program, such as cycles, instructions and cache misses.
//!
//! ```text
//! $ cputrack -T 1 -N 2 -c pic0=Cycle_cnt,pic1=Instr_cnt busyloop
//!    time lwp      event      pic0      pic1
//!   1.000   1       tick 360000000 333333333
//!   2.000   1       tick 360000000 333333333
//! ```
//!
//! It starts a program, or follows a running process (`-p`). Events are named as in `cpustat`. Several event sets take
//! turns, one per tick. On Linux a thread has its kernel thread number.
//!
//! # Lines
//!
//! ```text
//! tick         counts since the last tick, or since the thread began
//! lwp_create   another thread started this one
//! lwp_exit     the thread ended, and other threads of its process continue: its totals
//! fork         behind # the new process
//! exec         the totals of the process, and a line with the new program behind #
//! exit         the process ended: its totals
//! ```
//!
//! Totals of a set cover its turns only. Threads are followed by `ptrace`: a process can have only one tracer, and
//! starting threads and programs takes longer. Computation is not slowed down.
//!
//! # JSON
//!
//! One object per line of output; `event` is its kind. The schema is `docs/reference/json/cputrack.json`.

mod lines;
mod options;
mod sums;

use crate::command::Command;
use crate::counting::{begin, cannot_count};
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::json::{self, Describe};
use lines::{Line, Lines};
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_machine::facets::{Happening, Tracked, Tracking};
use millpond_machine::{Clock, Reason, Refusal, Subject};
use millpond_model::Nanos;
use millpond_session::{Output, create_output, reason, stop_on_signal};
use options::Options;
use std::sync::atomic::{AtomicBool, Ordering};

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Line<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "cputrack",
        applet: true,
        summary: "count hardware events per thread of a program",
        group: Group::Slow,
        forms: &["[-T secs] [-N count] [-Defhnvt] [-o file] -c events [command [args] | -p pid]", "-h"],
        flags: &[
            Flag::letter(
                'T',
                "seconds between ticks (1), may have a fraction; 0 for no ticks, only other events",
            )
            .value("seconds", ValueKind::Time),
            Flag::letter('N', "stop after this many ticks; the program continues")
                .value("count", ValueKind::Text),
            Flag::letter('D', "name the call that failed"),
            Flag::letter('e', "follow the process through exec"),
            Flag::letter('f', "follow children, too, and add a column for the process"),
            Flag::letter('h', "list the events of this machine"),
            Flag::letter('n', "print no header"),
            Flag::letter('v', "print when counting of a thread begins and ends: init_lwp, fini_lwp"),
            Flag::letter(
                't',
                "also show the CPU time of each thread: in nanoseconds on Linux, in cycles on simulated machines",
            ),
            Flag::letter('o', "write to this file").value("file", ValueKind::File),
            Flag::letter('c', "an event set").value("spec", ValueKind::Text),
            Flag::letter('p', "follow this process").value("pid", ValueKind::Process),
        ],
        in_shell: true,
        operands: Operands { shown: "command [arg ...]", kinds: &[ValueKind::Program] },
        examples: &[Example { words: "-c pic0=Instr_cnt ./server", what: "count instructions of a program" }],
        status: &[
            INTERRUPTED,
            ("1", "an event cannot be counted, or the program cannot be started"),
            MISUSED,
        ],
        see_also: &["cpustat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    let session = ctx.held(&parsed.common)?;
    let machine = session.machine();
    let counters = facet("counters of the hardware", machine.hardware_counters())?;
    let Some((sets, interface)) = begin(counters, &options.specs, options.lists, ctx)? else {
        return Ok(Exit::DONE);
    };
    let whose = options.whose.clone().ok_or_else(|| Failure::Usage("no program to start".to_owned()))?;
    let mut file = match &options.output {
        Some(path) => {
            let cannot = |why: String| Complaint::new(format!("write {}", path.display()), why);
            Some(create_output(path).map_err(cannot)?)
        }
        None => None,
    };
    let stop = stop_on_signal();
    let tracking = counters.track(&whose, &sets.wanted(), options.follow);
    let tracking = tracking.map_err(|refusal| not_tracked(&whose, &refusal, options.debug))?;
    let mut layout = sets.layout(interface.lwp_tick.filter(|_| options.tick));
    layout.pid = options.follow.forks;
    let clock = machine.clock();
    let prog = ctx.prog.clone();
    let mut exit = {
        let Ctx { out, err, .. } = ctx;
        let out: &mut Output<'_> = match &mut file {
            Some(file) => file,
            None => out,
        };
        let lines = Lines::new(&options, sets, layout, out, err, &prog, clock.now());
        Watcher { tracking, clock, stop, options: &options, lines }.run()?
    };
    if let Some(file) = &mut file
        && let Err(error) = file.finish()
    {
        let path = options.output.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        ctx.complain(&Complaint::new(format!("write {path}"), reason(&error)));
        exit = Exit::REFUSED;
    }
    Ok(exit)
}

/// Why no process can be tracked. The text is that of Solaris, where Solaris has one.
fn not_tracked(whose: &Tracked, refusal: &Refusal, debug: bool) -> Failure {
    let hint = |text: String| match &refusal.hint {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    };
    match (whose, &refusal.subject, &refusal.reason) {
        (Tracked::Program(words), _, Reason::NotStarted(why)) => {
            let name = words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
            Failure::Said(format!("failed to start program '{name}'"), Some(hint(why.clone())))
        }
        (Tracked::Process(pid), Subject::Process(_), reason) => {
            Failure::Said(format!("failed to capture pid {pid}"), Some(hint(reason.to_string())))
        }
        _ => cannot_count(refusal, "track", debug),
    }
}

/// The loop: wait for an event, or for the next tick.
struct Watcher<'a, 'o> {
    tracking: Box<dyn Tracking + 'a>,
    clock: &'a dyn Clock,
    stop: &'a AtomicBool,
    options: &'a Options,
    lines: Lines<'a, 'o>,
}

/// The longest wait before a check for an interrupt by the user, on simulated machines too.
const LOOK: Nanos = Nanos(1_000_000_000);

impl Watcher<'_, '_> {
    fn run(mut self) -> Result<Exit, Failure> {
        self.lines.head();
        let began = self.clock.now();
        let never = Nanos(u64::MAX);
        let interval = self.options.interval;
        let mut due = interval.map_or(never, |interval| began + interval);
        let (mut ticks, mut set) = (0u64, 0);
        while !self.stop.load(Ordering::Relaxed) && !self.lines.is_closed() {
            let happening = read("what happens", self.tracking.next(due.min(self.clock.now() + LOOK)))?;
            let now = self.clock.now();
            match happening {
                Happening::Over => break,
                Happening::Due if self.stop.load(Ordering::Relaxed) => break,
                Happening::Due if now >= due => {
                    self.lines.tick(now, &self.tracking.read());
                    ticks += 1;
                    if self.options.count == Some(ticks) {
                        break;
                    }
                    if self.lines.sets() > 1 {
                        set = (set + 1) % self.lines.sets();
                        read("counters", self.tracking.start(set))?;
                        self.lines.turn(set);
                    }
                    // A missed tick is not made up for.
                    let next = |interval| if due + interval > now { due + interval } else { now + interval };
                    due = interval.map_or(never, next);
                }
                Happening::Due => {}
                happening => self.lines.happened(now, happening),
            }
        }
        Ok(self.lines.end())
    }
}
