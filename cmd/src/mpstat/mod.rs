//! Shows for each CPU the interrupts, context switches and other events per second, and the use of its time in percent.
//!
//! ```text
//! $ mpstat 5 2
//! CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl
//!   0    -   -    -   318  103    -    -    -    -    -     -    6   3   0  91
//!   1    -   -    -   141   12    -    -    -    -    -     -    9   2   0  89
//! CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl
//!   0   10   0   12   402  101  201    3    4    1    0   510    2   1   0  97
//!   1   77   0   15   101    8  180    6    9    0    0  2310   21   4   0  75
//! ```
//!
//! The first report covers the time since boot, each other one its interval. Without an interval there is one report;
//! without a count they go on until you interrupt them. An interval is in seconds, with a fraction if needed (`0.5`).
//!
//! A dash is a figure that cannot be counted; `-v` says why. Linux keeps few columns since boot, so the first report
//! has dashes. An interval has every figure where BPF programs or performance events are allowed.
//!
//! # Columns
//!
//! ```text
//!        counted on Linux at                       difference from Solaris
//! minf   exceptions:page_fault_user, _kernel       includes the minor part of major faults
//! mjf    the software event major-faults           faults that waited for input, not the inputs
//! xcal   ipi:ipi_send_cpu, ipi:ipi_send_cpumask    a call to many CPUs counts once. Kernels before 6.4:
//!                                                  calls received
//! intr   irq:irq_handler_entry, irq_vectors:*      may be below 100: the clock of an idle CPU can stop
//! ithr   irq:softirq_entry (HI, NET_TX, NET_RX,    deferred work of devices stands for interrupt threads;
//!        BLOCK, IRQ_POLL, TASKLET), and            one run of it may serve several interrupts
//!        irq:irq_handler_exit that wakes a thread
//! csw    sched:sched_switch                        -
//! icsw   sched:sched_switch of a runnable thread   includes yields
//! migr   sched:sched_migrate_task                  -
//! smtx   lock:contention_begin of a mutex          kernel mutexes only, as on Solaris
//! srw    lock:contention_begin of a semaphore      -
//!        for readers and writers
//! syscl  raw_syscalls:sys_enter                    -
//! usr    /proc/stat: user, nice                    most kernels sample at clock ticks
//! sys    /proc/stat: system, irq, softirq          most kernels sample at clock ticks
//! wt     /proc/stat: iowait                        always 0 on Solaris; here idle time while a thread that
//!                                                  last ran on the CPU waits for a disk
//! idl    /proc/stat: idle                          -
//! ```
//!
//! BPF programs at these tracepoints count in memory that they share with `mpstat`. Where the kernel refuses them,
//! figures come from performance events, or from `/proc/interrupts`, `/proc/softirqs` and `/proc/schedstat`.
//!
//! usr, sys, wt and idl add up to 100, without time that the hypervisor took (steal). With `--steal`, and in JSON, they
//! add up to 100 together with steal. Rates are per second of the CPU's own time, steal included.
//!
//! # Cost
//!
//! Starting and stopping interrupts every CPU a few times. In between, BPF counters interrupt no CPU, and each system
//! call takes about 30 ns more.
//!
//! Performance events interrupt a CPU once per report. So they are not read on CPUs of exclusive sets, on no-intr CPUs
//! and on CPUs isolated at boot, whose columns have dashes. `--touch-fenced` reads them, too.
//!
//! # Changes
//!
//! Standard output also tells what changed. The next report then covers the time since boot again. Sets are told with
//! `-a`, `-p` and `-P` only.
//!
//! ```text
//! <<processor 3 moved from pset: 0 to: 1>>
//! <<processors added: 1, 3>>
//! <<processors removed: 1, 3>>
//! <<pset created: 1>>
//! <<pset destroyed: 1>>
//! ```
//!
//! # JSON
//!
//! One object per report, with the columns of the table. A dash is null. `scheduler` names the sched_ext scheduler that was loaded
//! when the interval ended, and is null for the kernel's own. The schema is `docs/reference/json/mpstat.json`.

mod options;
mod report;
mod watch;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use crate::json::{self, Describe};
use crate::recordings;
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_formats::mpstat::Table;
use millpond_machine::Dispatcher;
use millpond_session::stop_on_signal;
use options::Options;
use report::{Document, Reports};
use watch::Watcher;

/// What `--json` prints.
pub(crate) const DOCUMENTS: &[Describe] = &[json::of::<Document<'_>>()];

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "mpstat",
        applet: true,
        summary: "show interrupts, context switches and use of each CPU",
        group: Group::Slow,
        forms: &["[-qv] [-a | -A core|chip|set] [-p | -P set] [-T u | d] [--steal] \
                 [--touch-fenced] [--from recording [--at moment]] [interval [count]]"],
        flags: &[
            Flag::letter(
                'a',
                "one row per processor set: sums of rates, means of percentages; set 0 is the default set",
            )
            .conflicts(&["A"]),
            Flag::letter(
                'A',
                "one row per core, chip or set (the same as -a); `sze` is the number of active CPUs",
            )
            .value("group", ValueKind::Word(&["core", "chip", "set"])),
            Flag::letter('p', "one row per CPU, with its set").conflicts(&["P"]),
            Flag::letter('P', "only the CPUs of these sets; with -a only those sets")
                .value("set", ValueKind::Pset),
            Flag::letter('q', "print no lines about changes of CPUs and sets"),
            Flag::letter(
                'T',
                "before each report, print the time: u as seconds since 1970, d as `date` does",
            )
            .value("u", ValueKind::Text),
            Flag::letter(
                'v',
                "say where each column comes from on this machine, why one is missing, and what watching costs",
            ),
            recordings::FROM,
            recordings::AT,
            Flag::long("steal", "add the column `st`: percent of time that the hypervisor took"),
            Flag::long(
                "touch-fenced",
                "read performance events also on CPUs of exclusive sets and on no-intr and isolated CPUs",
            ),
        ],
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[
            Example { words: "1", what: "one row per CPU every second" },
            Example { words: "-a 5 12", what: "one row per processor set, every 5 seconds for a minute" },
            Example { words: "-v", what: "say where each column comes from" },
        ],
        status: &[INTERRUPTED, ("1", "the machine cannot be watched"), MISUSED],
        see_also: &["prstat(1)", "intrstat(1)", "cpustat(1)", "pgstat(1)"],
        prose: millpond_cli::head!(include_str!("mod.rs")),
        ..Spec::NEW
    },
    run,
};

fn run(parsed: &Parsed, ctx: &mut Ctx<'_>) -> Result<Exit, Failure> {
    let options = Options::of(parsed)?;
    let session = recordings::reading(parsed, ctx)?;
    let machine = session.machine();
    let counters = facet("counters", machine.counters())?;
    let chosen = options.sets.iter().flatten().filter(|set| !set.is_default());
    if chosen.clone().next().is_some() {
        let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
        if let Some(set) = chosen.into_iter().find(|set| !sets.iter().any(|s| s.id == **set)) {
            let complaint =
                Complaint::new(format!("show processor set {set}"), "there is no such processor set");
            return Err(complaint.hint("psrset -i lists the sets that exist").into());
        }
    }
    let mut reports = Reports::new(&options, session.zone());
    if matches!(options.table, Table::Cores | Table::Chips) {
        reports = reports.of(read("processors", facet("processors", machine.processors())?.topology())?);
    }
    let dispatcher = machine.dispatcher().ok();
    let scheduler = || dispatcher.and_then(Dispatcher::loaded_scheduler);
    let stop = stop_on_signal();
    Watcher { scheduler: &scheduler, counters, clock: machine.clock(), stop, options: &options, reports }
        .run(ctx)
}
