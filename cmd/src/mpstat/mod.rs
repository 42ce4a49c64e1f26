//! Shows what each processor does: events per second, and percent of time by use.
//!
//! The first report is about the time since boot; each one after it about the interval before it. Without an
//! interval there is one report; without a count they go on until you interrupt them. An interval is in
//! seconds and may have a fraction (`0.5`).
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
//! A dash stands for what cannot be counted; `-v` says why. Linux keeps only some columns since boot, so the
//! first report has dashes; in an interval nothing is missing where programs in the kernel or performance events may be used.
//!
//! # Columns
//!
//! ```text
//!        counted on Linux at                       differs from Solaris in that
//! minf   exceptions:page_fault_user, _kernel       faults that major ones begin with are in it
//! mjf    the software event major-faults           it counts faults that waited for input, not the inputs
//! xcal   ipi:ipi_send_cpu, ipi:ipi_send_cpumask    a call to many at once counts once. Kernels before 6.4
//!                                                  do not tell who calls: calls received, instead
//! intr   irq:irq_handler_entry, irq_vectors:*      the clock of an idle processor may rest, so it is not
//!                                                  100 at least
//! ithr   irq:softirq_entry (HI, NET_TX, NET_RX,    the deferred work of devices stands for interrupts in
//!        BLOCK, IRQ_POLL, TASKLET), and            threads; several interrupts may share one run of it
//!        irq:irq_handler_exit that wakes a thread
//! csw    sched:sched_switch                        -
//! icsw   sched:sched_switch of a thread that       a thread that yields counts as well
//!        could go on
//! migr   sched:sched_migrate_task                  -
//! smtx   lock:contention_begin of a mutex          mutexes of the kernel only, as there
//! srw    lock:contention_begin of a semaphore      -
//!        for readers and writers
//! syscl  raw_syscalls:sys_enter                    -
//! usr    /proc/stat: user, nice                    time is sampled by the clock on most kernels, not
//! sys    /proc/stat: system, irq, softirq          measured
//! wt     /proc/stat: iowait                        it is always 0 there; here it is idle time in which a
//!                                                  thread that last ran here waits for a disk
//! idl    /proc/stat: idle                          -
//! ```
//!
//! Programs at these tracepoints count in memory that is shared with `mpstat`. Where the kernel does not take a program (`-v` says
//! why), performance events count the column, or `/proc/interrupts`, `/proc/softirqs` and `/proc/schedstat` where they have it.
//!
//! A second is a second of the processor's own time. Time that the hypervisor took is part of that second,
//! but of no percentage: usr, sys, wt and idl add up to 100 and are shares of the time that the machine had.
//! With `--steal`, and in JSON, they are shares of all time, and add up to 100 together with what was taken.
//!
//! # What watching does
//!
//! Reading what programs counted interrupts no processor. Starting and ending to watch interrupts every processor a few
//! times, and while mpstat runs each system call takes some 30 ns more.
//!
//! Reading performance events of another processor interrupts it, once per report. Where they are used, those of processors of exclusive
//! sets, of no-intr processors and of those that were isolated at boot are not read: these columns have dashes there,
//! unless you ask for `--touch-fenced`.
//!
//! # Changes
//!
//! ```text
//! <<processor 3 moved from pset: 0 to: 1>>
//! <<processors added: 1, 3>>
//! <<processors removed: 1, 3>>
//! <<pset created: 1>>
//! <<pset destroyed: 1>>
//! ```
//!
//! Moves and sets are told with `-a`, `-p` or `-P` only. After any change the next report is about the time
//! since boot again.
//!
//! # JSON
//!
//! An object per report, on a line of its own. A figure is null where the table has a dash.
//!
//! ```text
//! {"time":"2024-11-20T08:14:02Z","interval_s":5.0,"changes":[{"moved":3,"from":0,"to":1}],
//!  "processors":[{"cpu":0,"set":0,"minf":10.0,"mjf":0.0,"xcal":12.4,"intr":402.0,"ithr":101.2,"csw":201.0,
//!                 "icsw":3.2,"migr":4.0,"smtx":1.2,"srw":0.0,"syscl":510.4,"usr":2.1,"sys":1.0,"wt":0.0,
//!                 "idl":96.9,"st":0.0}],"missing":[]}
//! -a: "sets":[{"set":0,"size":2,…}] in place of processors; -A core: "cores":[{"core":…; -A chip: "chips":[{"chip":…. since boot: "interval_s":null
//! other changes: {"added":"1,3"} {"removed":"1,3"} {"created":1} {"destroyed":1}
//! ```

mod options;
mod report;
mod watch;

use crate::command::Command;
use crate::ctx::Ctx;
use crate::failure::{Complaint, Exit, Failure, facet, read};
use millpond_cli::{Example, Flag, Group, INTERRUPTED, MISUSED, Operands, Parsed, Spec, ValueKind};
use millpond_formats::mpstat::Table;
use millpond_session::stop_on_signal;
use options::Options;
use report::Reports;
use watch::Watcher;

pub(crate) const COMMAND: Command = Command {
    spec: Spec {
        name: "mpstat",
        applet: true,
        summary: "show what each processor does",
        group: Group::Watch,
        forms: &["[-qv] [-a | -A core|chip|set] [-p | -P set] [-T u | d] [--steal] \
                 [--touch-fenced] [interval [count]]"],
        flags: &[
            Flag::letter(
                'a',
                "a row per processor set (rates are sums, percents averages); set 0 is the \
                 default set",
            )
            .conflicts(&["A"]),
            Flag::letter(
                'A',
                "a row per core, chip or set; -A set is -a. `sze` says how many of them are active",
            )
            .value("group", ValueKind::Word(&["core", "chip", "set"])),
            Flag::letter('p', "a row per processor, with the set that it is in").conflicts(&["P"]),
            Flag::letter('P', "only the processors of one set, or with -a only that set")
                .value("set", ValueKind::Pset),
            Flag::letter('q', "no lines about processors and sets that came, went or moved"),
            Flag::letter('T', "before each report the time: in seconds since 1970, or as date shows it")
                .value("u", ValueKind::Text),
            Flag::letter(
                'v',
                "where each column comes from here, why one is missing, and what watching costs",
            ),
            Flag::long("steal", "percent of time that the hypervisor took, as a column `st`"),
            Flag::long(
                "touch-fenced",
                "read performance events of processors that are fenced or sheltered from \
                 interrupts, too",
            ),
        ],
        in_shell: true,
        operands: Operands { shown: "[interval [count]]", kinds: &[ValueKind::Time] },
        examples: &[
            Example { words: "1", what: "a row per CPU every second" },
            Example { words: "-a 5 12", what: "a row per processor set, every 5 seconds for a minute" },
            Example { words: "-v", what: "where each column comes from" },
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
    let session = ctx.reading(&parsed.common)?;
    let machine = session.machine();
    let counters = facet("counters", machine.counters())?;
    if let Some(set) = options.set.filter(|set| !set.is_default()) {
        let sets = read("processor sets", facet("processor sets", machine.psets())?.list())?;
        if !sets.iter().any(|s| s.id == set) {
            let complaint =
                Complaint::new(format!("show processor set {set}"), "there is no such processor set");
            return Err(complaint.hint("psrset -i lists the sets that exist").into());
        }
    }
    let mut reports = Reports::new(&options, session.zone());
    if matches!(options.table, Table::Cores | Table::Chips) {
        reports = reports.of(read("processors", facet("processors", machine.processors())?.topology())?);
    }
    let stop = stop_on_signal();
    Watcher { counters, clock: machine.clock(), stop, options: &options, reports }.run(ctx)
}
