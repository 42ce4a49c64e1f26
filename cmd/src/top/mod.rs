//! Shows sets, pools, CPUs, threads, interrupts and the decisions of poold on one screen, live.
//!
//! ```text
//! $ millpond top --machine t2000 --load 'spin -t 40'
//! t2000: 32 CPUs, 3 processes, 42 threads                     1.0 s, up 0:00:03 [×1]
//! SET POOL    CPUS MIN-MAX   USED  RUN   WAIT USE OF EACH CPU
//!   0 default   32       -  32.00   40   8.00 ████████████████████████████████
//!
//! PID LWP STATE CLASS PRI SET USR SYS DFL LCK SLP  LAT VCX ICX NAME
//! 101  1  cpu0  TS     20   0  81 0.0 0.0 0.0 0.0   19   0   5 spin
//! ```
//!
//! A frame is read every second, or at the interval. Figures cover the time since the previous frame. On a terminal `?`
//! lists the keys; otherwise, and with `--batch`, reports are printed one after the other.
//!
//! # Screens
//!
//! ```text
//! 1 overview     each set with its pool, size, use, waiting threads and the use of each of its CPUs; what poold did
//!                last; fences that leak; the busiest threads
//! 2 CPUs         time by use, and events per second as in mpstat
//! 3 threads      time by microstate as in prstat
//! 4 processes    CPU time, sizes, sets and zones
//! 5 interrupts   which CPUs take them
//! 6 decisions    what poold did and why
//! 7 fences       what holds, what leaks, the last proof
//! 8 latency      how long threads waited for a CPU after they could run: a histogram for each set
//! 9 noise        what ran on CPUs of sets beside the threads of the set, by cause, with --noise
//! Enter          of a set: its CPUs and threads; of a thread: each of its figures, with what it is
//! ```
//!
//! Time is in percent of one CPU or thread. USED is the mean number of used CPUs, WAIT the mean number of threads that
//! waited for a CPU. A dash is an unknown figure; `--once` says why it is unknown.
//!
//! # Changes
//!
//! `m` moves a CPU to another set, `b` binds a process, `f` fences CPUs. Each is a command (`psrset`, `poolcfg`,
//! `poolbind`, `fence`): its plan is shown first, and `y` applies it. `u` undoes the last one.
//!
//! # Simulated machines
//!
//! Space stops time, `.` takes one step of an interval, `+` and `-` select the speed from 1 to 1000. `--load` starts a
//! workload first, as in the shell of `millpond sim`; an interval of 0.01 shows the dispatcher at work.
//!
//! # Cost
//!
//! BPF programs account for microstates and, with `--events`, for the events of each CPU, at some tens of nanoseconds
//! per context switch and per event. If the kernel rejects them, figures come from /proc, with dashes for what it does
//! not have. The first line shows the CPU time of `top` itself, in percent of one CPU.
//!
//! # JSON
//!
//! `--json` prints one frame per report: for each kind of object a list of objects with the fields of
//! `docs/reference/fields.md`. Over an interval, counters are per second; in a first reading (`interval_s` is null)
//! they are unknown. The schema is `docs/reference/json/top.json`.

mod json;
mod live;
mod options;
mod player;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Exit, Failure, read};
use crate::interval::Rounds;
use crate::json::{Describe, of};
use crate::recordings;
use crate::start::start_loads;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_collect::Collector;
use millpond_model::WallTime;
use millpond_screen::{Screen, Watched, colour};
use millpond_session::{Session, input_is_terminal, stop_on_signal};
use options::Options;
use player::Player;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[of::<json::Document<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "top",
        summary: "show sets, pools, CPUs and threads on one screen, live",
        group: Group::Slow,
        forms: &[
            "[--view view] [--sort field] [--filter text] [--load workload] [--events] [--noise] [interval]",
            "--batch | --once [-n lines] [--view view] [--sort field] [--filter text] [--load workload] [--events] [--noise] [interval [count]]",
            "--replay recording | --at moment [--batch | --once] [-n lines] [--view view] [--sort field] [--filter text] [interval [count]]",
        ],
        flags: &[
            Flag::letter('n', "print at most this many rows of a list (20)").value("lines", ValueKind::Text),
            Flag::long("once", "print one report, about one interval, and end").conflicts(&["batch"]),
            Flag::long("batch", "print reports below one another"),
            Flag::long("view", "begin with this screen, or print it")
                .value("view", ValueKind::Word(options::VIEWS)),
            Flag::long("sort", "sort by this field, as its heading says it (LAT)")
                .value("field", ValueKind::Text),
            Flag::long("filter", "only rows that contain this text").value("text", ValueKind::Text),
            Flag::long("load", "start this workload on a simulated machine first; may be repeated")
                .value("workload", ValueKind::Text)
                .repeats(),
            Flag::long("events", "count every event of mpstat on each CPU"),
            Flag::long("noise", "tell OS noise on the CPUs of sets, by cause"),
            Flag::long("replay", "show this recording: a directory, or one of its files")
                .value("recording", ValueKind::File)
                .conflicts(&["load", "events", "noise"]),
            Flag::long("at", "show what was recorded at this moment, and what came then")
                .value("moment", ValueKind::Text)
                .conflicts(&["load", "events", "noise"]),
        ],
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[
            Example { words: "", what: "watch this machine" },
            Example {
                words: "--once --view threads --sort LAT",
                what: "print the threads that wait most for a CPU",
            },
            Example { words: "--machine t2000 --load spin", what: "watch a simulated machine" },
            Example { words: "--at 09:41", what: "watch what was recorded at that time" },
        ],
        status: &[INTERRUPTED, ("1", "the machine cannot be watched"), MISUSED],
        see_also: &["prstat(1)", "mpstat(1)", "poolstat(1)", "millpond-record(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    if options.replays {
        recordings::alone(&parsed.common, "a recording")?;
        return replay(&options, ctx);
    }
    if parsed.common.root.is_some() {
        let why = "a captured machine stands still: psrinfo, psrset -i and prstat show what was there";
        return Err(Failure::Usage(why.into()));
    }
    if parsed.common.dry_run && !options.loads.is_empty() {
        return Err(Failure::Usage("--load starts workloads: it goes without --dry-run".into()));
    }
    let session = ctx.reading(&parsed.common)?;
    start_loads(&options.loads, &session)?;
    let mut collector = Collector::open(&session, options.collected());
    if options.is_screen_wanted() && input_is_terminal() {
        return live::run(&options, &session, &mut collector, ctx);
    }
    print(&options, &session, &mut collector, ctx)
}

/// Prints reports one below another.
fn print(
    options: &Options,
    session: &Session,
    collector: &mut Collector<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<Exit, Failure> {
    let machine = session.machine();
    let mut screen = Screen::new(colour::Depth::Mono, live::watched(session));
    screen.push(read("the machine", collector.frame())?);
    let mut rounds = Rounds::begin(options.repetition, machine.clock(), stop_on_signal());
    let mut is_first = true;
    while rounds.wait(ctx) {
        screen.push(read("the machine", collector.frame())?);
        report(options, &screen, is_first, ctx);
        is_first = false;
    }
    Ok(Exit::DONE)
}

fn report(options: &Options, screen: &Screen, is_first: bool, ctx: &mut Ctx<'_>) {
    if options.json {
        ctx.json(&json::Document(screen.shown()));
    } else {
        if !is_first {
            ctx.out.line("");
        }
        ctx.out.text(&screen.text(&options.view, options.order, &options.filter, WIDTH, options.lines));
        if is_first {
            screen.missing(&options.view).into_iter().for_each(|why| ctx.warn(why));
        }
    }
    ctx.out.flush();
}

/// Shows a recording.
fn replay(options: &Options, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let path = options.recording.clone().unwrap_or_else(millpond_session::recordings_dir);
    let recording = recordings::open(&path)?;
    recording.notes.iter().for_each(|note| ctx.warn(note));
    recordings::readable(&path, &recording, WallTime(i64::MIN))?;
    if options.is_screen_wanted() && input_is_terminal() {
        return live::replay(options, &recording, ctx);
    }
    let mut screen = Screen::new(colour::Depth::Mono, Watched::Recorded);
    let mut player = Player::open(&recording, options.at.as_deref(), &mut screen, ctx.zone())?;
    let mut is_first = true;
    let mut left = options.repetition.count;
    // For the very first frame only totals are known.
    if screen.shown().elapsed.is_none() {
        let _ = player.step(&mut screen);
    }
    while left != Some(0) && !ctx.out.is_closed() {
        player.warn(ctx);
        report(options, &screen, is_first, ctx);
        is_first = false;
        left = left.map(|left| left - 1);
        if !player.step_for(options.repetition.interval, &mut screen) {
            break;
        }
    }
    player.warn(ctx);
    Ok(Exit::DONE)
}

/// The width of printed reports.
const WIDTH: usize = 132;
