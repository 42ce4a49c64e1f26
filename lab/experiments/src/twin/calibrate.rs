//! Measures the real machine, and creates a machine file with its numbers and their sources.

use super::number;
use super::others::{self, Others};
use super::predict::{call_ns, messages_waiting, processes_ns};
use crate::Failure;
use crate::here::Here;
use crate::published::{Lab, real};
use millpond_model::{Cache, CacheKind, CpuId, Nanos, Topology};
use millpond_report::Table;
use millpond_session::Workload;
use millpond_workloads::probe::{self, Probe};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Part of the outer cache's latency that a core waits for: out-of-order cores with prefetching caches, like the machines of the catalogue.
const EXPOSED: f64 = 0.2;
/// Initial estimate of the average number of hackbench's unread messages.
const MANY_WAIT: f64 = 10_000.0;
/// Size of the measured messages.
const MESSAGE_BYTES: u64 = 100;
/// Seconds of a measurement of one thread's speed.
const SECOND: u64 = 1;
const ROUNDS: usize = 3;
/// Linux's estimate of the cost of a thread's migration, in nanoseconds: the kernel's default of `migration_cost_ns`.
const MIGRATION_COST_NS: u64 = 500_000;
/// Linux's base slice in nanoseconds. It is multiplied by 1 + floor(log2(CPUs)), for a limited number of CPUs. This is the value of
/// present kernels. Kernels with 0.75 ms (from 6.6) show it in a file, see [`millpond_session::base_slice`].
const BASE_SLICE_NS: u64 = 700_000;
const SCALED_CPUS: usize = 8;

/// The twin of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Twin {
    /// The machine file.
    pub file: Value,
    /// The measurements.
    pub probe: Probe,
    /// Activity of other programs.
    pub others: Others,
    /// Mop/s of `cg` with one thread.
    pub mops: f64,
}

/// Measures on the usable CPUs: about fifteen seconds.
///
/// # Errors
/// [`Failure`] with fewer than two CPUs, when other programs use too many, or when a program cannot run.
pub fn calibrate(here: &mut Here<'_>) -> Result<Twin, Failure> {
    let (_, free, _) = here.look()?;
    let processors = here.machine().processors().map_err(Failure::NotHere)?;
    let topology = processors.topology().map_err(Failure::refused("read CPUs"))?;
    (here.tell)("what else runs");
    let others = others::look(here)?;
    others.leave(free.len())?;
    (here.tell)("switches, wake-ups, messages, caches and turns");
    let failed = |error: millpond_workloads::Error| Failure::Program {
        program: "the probe".into(),
        why: std::error::Error::source(&error).map_or(error.to_string(), |cause| format!("{error}: {cause}")),
    };
    // Adjacent CPUs could share a core although there is another one.
    let probe = probe::run(free[0].0, free[free.len() / 2].0).map_err(failed)?;
    (here.tell)("the speed of one thread");
    let mops = one_thread(here)?;
    let file = with_others(file(&topology, &probe, mops, millpond_session::base_slice()), others);
    let mut quiet = |_: &str| ();
    let lab = Lab::new(here.stop, Vec::new(), &mut quiet);
    // The time of the workload's call here, at the length that was fitted on another machine.
    let call = call_ns(&lab, &file)?;
    let of = |waiting: f64| (probe.message_among(waiting) / call).clamp(0.001, 100.0);
    // The number of unread messages depends little on the length of a call.
    let waiting = messages_waiting(&lab, &with_kernel(file.clone(), of(MANY_WAIT), MANY_WAIT))?;
    let file = with_kernel(file, of(waiting), waiting);
    let without_ends = processes_ns(&lab, &file)?;
    let file = with_ends(file, &probe.processes_ns, without_ends);
    Ok(Twin { file, probe, others, mops })
}

/// Mop/s of `cg` with one thread that nothing delays: the median of several rounds.
fn one_thread(here: &mut Here<'_>) -> Result<f64, Failure> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let mut program = here.ready("cg", "cg --class S --threads 1", |_| Ok(()))?;
        here.begin(&mut program)?;
        let clock = here.machine().clock();
        here.wait(clock.now() + Nanos::from_secs(SECOND))?;
        let result = here.end(program)?;
        rounds.extend(result["mops_total"].as_f64());
    }
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / 2).copied().filter(|mops| *mops > 0.0).ok_or_else(|| Failure::Program {
        program: "cg".into(),
        why: "it does not tell how fast it was".into(),
    })
}

/// A thread's slice: the kernel's `base`, else its rule, else the longest slice that ends at the tick at which turns were measured to end.
fn slice(cpus: usize, probe: &Probe, base: Option<u64>) -> (u64, &'static str) {
    let doublings = cpus.clamp(1, SCALED_CPUS).ilog2();
    let slice = base.unwrap_or(BASE_SLICE_NS * u64::from(1 + doublings));
    let ticks = |ns: u64| ns.div_ceil(probe.tick_ns.max(1)).max(1);
    let seen = probe.turn_ns.map(|turn| (turn.median / real(probe.tick_ns.max(1))).round());
    match (base, seen) {
        (Some(_), _) => (slice, "the kernel's file base_slice_ns"),
        // A measured turn only shows the tick at which it ends.
        (None, Some(seen)) if (seen - real(ticks(slice))).abs() < 0.5 => {
            (slice, "the kernel's rule, 0.7 ms for each doubling of CPUs; turns that were seen agree")
        }
        (None, Some(seen)) => (whole(seen.max(1.0)) * probe.tick_ns, "turns that were seen, in whole ticks"),
        (None, None) => (slice, "the kernel's rule, 0.7 ms for each doubling of CPUs; turns were not seen"),
    }
}

/// The private cache of a CPU, or the nearest shared one; its size in KiB.
fn own_cache(topology: &Topology) -> Option<&Cache> {
    let first = topology.cpus().iter().next()?;
    let own = |cache: &&Cache| {
        cache.cpus.contains(first) && cache.kind != CacheKind::Instruction && cache.size_kib.is_some()
    };
    let in_core = |cache: &&Cache| cache.cpus.len() <= topology.siblings(first).len();
    let all = || topology.caches().iter().filter(own);
    all().filter(in_core).max_by_key(|cache| cache.level).or_else(|| all().min_by_key(|cache| cache.level))
}

/// The workload's cost of an operation: its instructions, and the percentage of these that miss the first cache.
fn cg(option: &str) -> f64 {
    Workload::named("cg").and_then(|cg| cg.default_of(option)).unwrap_or(1.0)
}

/// The time to pass on a word that all CPUs write, as a multiple of the latency between CPUs: to memory, as the model has it, where each CPU
/// has a cache of its own, else to the cache.
fn handover_trips(topology: &Topology, probe: &Probe) -> f64 {
    let is_shared = own_cache(topology).is_some_and(|cache| cache.cpus == topology.cpus());
    let trip = if is_shared { probe.near_ns.median } else { probe.far_ns.median };
    (probe.transfer_ns.median / trip.max(0.1)).clamp(0.0, 100.0)
}

/// The machine file, without the factor of kernel instructions.
fn file(topology: &Topology, probe: &Probe, mops: f64, base_slice: Option<u64>) -> Value {
    let first = topology.processors().first();
    let mhz = first.and_then(|p| p.clock_mhz).filter(|mhz| *mhz > 0).unwrap_or(1_000);
    let cycles = |nanos: f64| nanos * real(mhz) / 1_000.0;
    let cache_cycles = cycles(probe.near_ns.median).round().clamp(1.0, 10_000.0);
    // Cycles of an instruction; the core has what the cache leaves of them.
    let each = cycles(1e3 / mops / cg("--op-instructions"));
    let near = cg("--op-reach") / 100.0 * cache_cycles;
    let exposed = EXPOSED.min(each / 2.0 / near);
    let cpi = (each - near * exposed).clamp(0.001, 100.0);
    let (slice_ns, slice_source) = slice(topology.processors().len(), probe, base_slice);
    let cores: BTreeMap<_, Vec<CpuId>> = topology.processors().iter().fold(BTreeMap::new(), |mut all, p| {
        all.entry((p.chip, p.core)).or_insert_with(Vec::new).push(p.id);
        all
    });
    let chips: Vec<_> = topology.chips();
    let place = |chip| chips.iter().position(|other| *other == chip).unwrap_or(0);
    let cores: Vec<Value> = cores
        .iter()
        .map(|((chip, _), strands)| json!({ "chip": place(*chip), "strands": strands.iter().map(|cpu| cpu.0).collect::<Vec<_>>() }))
        .collect();
    let mut file = json!({
        "name": "like-host",
        "about": "a twin of a machine that was measured",
        "cores": cores,
        "processor": {
            "isa": first.map_or("unknown", |p| p.isa.as_str()),
            "clock_mhz": mhz,
            "implementation": first.map_or("", |p| p.implementation.as_str()),
            "brand": first.map_or("", |p| p.brand.as_str()),
        },
        "core": { "cpi": round(cpi, 4), "exposed": round(exposed, 3) },
        "cache_cycles": whole(cache_cycles),
        "memory": { "local_ns": round(probe.far_ns.median, 1) },
        "switch_ns": whole(probe.switch_ns()),
        "space_switch_ns": whole(probe.space_switch_ns()),
        "idle_exit_ns": whole(probe.idle_exit_ns()),
        "interrupt_ns": whole(probe.interrupt_ns()),
        "socket_bytes": u64::from(probe.socket_holds.max(1)) * MESSAGE_BYTES,
        "handover_trips": round(handover_trips(topology, probe), 3),
        "tunables": {
            "hz": (1_000_000_000 / probe.tick_ns.max(1)).clamp(1, 10_000),
            "eevdf_slice_ns": slice_ns,
            "nosteal_nsec": MIGRATION_COST_NS,
        },
        "sources": {
            "cores": "as the kernel tells them",
            "core": format!("one thread of cg, class S: {mops:.0} Mop/s, of which a cache has {exposed:.2} of its answer; fitted"),
            "cache_cycles": told("lines out of 192 KiB in random order", &probe.near_ns),
            "memory": told("lines out of 64 MiB in random order", &probe.far_ns),
            "switch_ns": told("two threads that answer each other on one CPU, less their messages; a round", &probe.switch_round_ns),
            "space_switch_ns": told("two processes that do, less the same of threads; a round", &probe.process_round_ns),
            "idle_exit_ns": told("the same on two CPUs, less a switch; a round", &probe.wake_round_ns),
            "interrupt_ns": told("how late a thread is that sleeps for a millisecond, less a switch and what an idle CPU takes; each", &probe.timer_ns),
            "socket_bytes": format!("{} messages of {MESSAGE_BYTES} bytes were taken", probe.socket_holds),
            "handover_trips": told("two CPUs that write a word in turn, over the way between their caches", &probe.transfer_ns),
            "hz": "the resolution of the coarse clock",
            "eevdf_slice_ns": slice_source,
            "nosteal_nsec": "the kernel's default of migration_cost_ns",
            "caches": "as the kernel tells them; their size as lines in random order show it",
        },
    });
    if let Some(cache) = own_cache(topology) {
        let shared = if cache.cpus.len() <= topology.cores().first().map_or(1, |core| core.cpus.len()) {
            "core"
        } else {
            "chip"
        };
        file["caches"] = json!([{
            "level": cache.level, "kind": "unified", "size_kib": probe.holds_kib, "shared_by": shared
        }]);
    }
    file
}

/// Adds daemons that run as often and as long as threads of other programs.
fn with_others(mut file: Value, others: Others) -> Value {
    if others.times_s > 0.0 {
        // Four threads together wake up that many times a second.
        let every = (4_000.0 / others.times_s).clamp(1.0, 60_000.0);
        let load = format!("daemons --busy {:.3} --every {every:.3}", others.percent().clamp(0.001, 100.0));
        let daemons = json!({ "name": "daemons", "threads": 4, "load": load });
        file["zones"] = json!([{ "name": "global", "processes": [daemons] }]);
    }
    file["sources"]["zones"] = json!(format!(
        "threads of other processes: {:.0} times a second for {:.1} us on average",
        others.times_s,
        others.time_ns / 1e3
    ));
    file
}

/// Sets the factor of kernel instructions.
fn with_kernel(mut file: Value, kernel: f64, waiting: f64) -> Value {
    file["kernel"] = json!(round(kernel, 3));
    file["sources"]["kernel"] = json!(format!(
        "a message of 100 bytes written or read where {waiting:.0} wait, as many as on the twin while ten groups of hackbench run, over what a call of hackbench takes with 1"
    ));
    file
}

/// Sets the exit time of a process: the measured time of the processes, less that on the twin without it.
fn with_ends(mut file: Value, processes: &probe::Figure, without_ns: f64) -> Value {
    let each = ((processes.median - without_ns) / f64::from(probe::PROCESSES)).max(0.0);
    file["process_end_ns"] = json!(whole(each));
    file["sources"]["process_end_ns"] = json!(format!(
        "{} processes of hackbench that pass one message each way and end, less what they take on the twin without an end, {:.1} ms, for each; {}",
        probe::PROCESSES,
        without_ns / 1e6,
        told("all of them", processes)
    ));
    file
}

fn told(what: &str, figure: &probe::Figure) -> String {
    format!(
        "{what}: {:.1} ns, quartiles {:.1} and {:.1} of {} rounds",
        figure.median, figure.low, figure.high, figure.rounds
    )
}

/// Other programs below this percentage of one CPU have no visible effect.
const QUIET_PERCENT: f64 = 10.0;

impl Twin {
    /// A note about a machine that other programs used.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let percent = self.others.percent();
        (percent >= QUIET_PERCENT).then(|| {
            format!("other programs used {percent:.0} % of a CPU: times are longer than on a quiet machine, and like-host keeps them until it is measured again")
        })
    }

    /// The measurements as a table.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table =
            Table::of(&["what"], &["median", "quarter below", "quarter above"]).and_words(&["unit"]);
        let p = &self.probe;
        let figures = [
            ("a message of 100 bytes", p.message_ns),
            ("two threads answer each other on one CPU", p.switch_round_ns),
            ("two processes answer each other on one CPU", p.process_round_ns),
            ("two threads answer each other on two CPUs", p.wake_round_ns),
            ("a thread that sleeps until a moment is late", p.timer_ns),
            ("a line that another CPU wrote", p.transfer_ns),
            ("a line out of 192 KiB", p.near_ns),
            ("a line out of 64 MiB", p.far_ns),
        ];
        let queued = p.queued.iter().map(|q| (format!("a message, {} of which wait", q.messages), q.ns));
        let figures = figures.into_iter().map(|(what, figure)| (what.to_owned(), figure));
        for (what, figure) in figures.chain(queued) {
            table.row([
                what.into(),
                (figure.median, 1).into(),
                (figure.low, 1).into(),
                (figure.high, 1).into(),
                "ns".into(),
            ]);
        }
        if let Some(turn) = p.turn_ns {
            let ms = |ns: f64| (ns / 1e6, 2).into();
            table.row([
                "a turn beside another thread".into(),
                ms(turn.median),
                ms(turn.low),
                ms(turn.high),
                "ms".into(),
            ]);
        }
        let alone = |what: &str, value: f64, unit: &str| {
            [
                what.into(),
                (value, 1).into(),
                millpond_report::Cell::Missing,
                millpond_report::Cell::Missing,
                unit.into(),
            ]
        };
        table.row(alone("a cache holds", real(p.holds_kib as u64), "KiB"));
        table.row(alone("messages that a socket holds", f64::from(p.socket_holds), ""));
        table.row(alone("a switch", p.switch_ns(), "ns"));
        table.row(alone("a switch to another process, more by", p.space_switch_ns(), "ns"));
        table.row(alone("an interrupt reaches a CPU that idles later by", p.interrupt_ns(), "ns"));
        table.row(alone("a process ends", number(&self.file, "/process_end_ns"), "ns"));
        table.row(alone("a CPU that idles begins", p.idle_exit_ns(), "ns"));
        table.row(alone("one thread of cg", self.mops, "Mop/s"));
        table.row(alone("other threads run", self.others.times_s, "1/s"));
        table.row(alone("one of them, each time", self.others.time_ns, "ns"));
        table.row(alone("ticks", number(&self.file, "/tunables/hz"), "1/s"));
        table.row(alone("a slice", number(&self.file, "/tunables/eevdf_slice_ns") / 1e6, "ms"));
        table
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures are never negative, and small"
)]
fn whole(number: f64) -> u64 {
    number.round().max(0.0) as u64
}

fn round(number: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (number * scale).round() / scale
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use millpond_workloads::probe::{Figure, Queued};

    pub fn figure(median: f64) -> Figure {
        Figure { median, low: median, high: median, rounds: 31 }
    }

    pub fn probe() -> Probe {
        Probe {
            message_ns: figure(500.0),
            queued: vec![
                Queued { messages: 20_000, ns: figure(900.0) },
                Queued { messages: 40_000, ns: figure(1_300.0) },
            ],
            socket_holds: 278,
            processes_ns: figure(30e6),
            timer_ns: figure(30_000.0),
            switch_round_ns: figure(5_000.0),
            process_round_ns: figure(5_400.0),
            wake_round_ns: figure(15_000.0),
            transfer_ns: figure(60.0),
            near_ns: figure(4.0),
            far_ns: figure(90.0),
            holds_kib: 2_048,
            turn_ns: Some(figure(4_010_000.0)),
            tick_ns: 4_000_000,
        }
    }

    #[test]
    fn a_slice_follows_the_kernel_s_rule_where_turns_agree() {
        // Two CPUs: 0.7 ms doubled once. It ends at the first tick, 4 ms, and so do turns.
        assert_eq!(slice(2, &probe(), None).0, 1_400_000);
        // 8 CPUs and more: 0.7 ms times 4.
        assert_eq!(slice(64, &Probe { turn_ns: None, ..probe() }, None).0, 2_800_000);
        // Turns of three ticks do not agree with a slice of 1.4 ms.
        let long = Probe { turn_ns: Some(figure(12_020_000.0)), ..probe() };
        assert_eq!(slice(2, &long, None).0, 12_000_000);
        // Linux 6.8 has 0.75 ms, and shows it in the file.
        assert_eq!(slice(2, &long, Some(1_500_000)), (1_500_000, "the kernel's file base_slice_ns"));
    }

    #[test]
    fn a_machine_file_is_made_whose_thread_is_as_fast_as_the_one_that_was_measured() {
        use millpond_session::Session;
        let session = Session::described(&serde_json::json!({
            "name": "small", "about": "for tests", "chips": 1, "cores_per_chip": 2, "strands_per_core": 1,
            "processor": { "isa": "i386", "clock_mhz": 2000, "implementation": "x86", "brand": "a \"brand\"" },
            "caches": [{ "level": 2, "kind": "unified", "size_kib": 2048, "shared_by": "core" }] }), "small").unwrap();
        let topology = session.machine().processors().unwrap().topology().unwrap();
        // 1,000 Mop/s at 2 GHz: 2 cycles per operation, 2/3 per instruction. Near lines take 8 cycles: 0.03985 x 8 x 0.2 = 0.0638 of them.
        let made = file(&topology, &probe(), 1_000.0, None);
        assert_eq!(number(&made, "/cache_cycles"), 8.0);
        assert_eq!(number(&made, "/core/cpi"), 0.6029);
        assert_eq!((number(&made, "/switch_ns"), number(&made, "/idle_exit_ns")), (1_500.0, 5_000.0));
        // 5,400 instead of 5,000 for two switches.
        assert_eq!(number(&made, "/space_switch_ns"), 200.0);
        // 30 us late, less 5,000 and 1,500; 278 of 100 bytes.
        assert_eq!((number(&made, "/interrupt_ns"), number(&made, "/socket_bytes")), (23_500.0, 27_800.0));
        // 30 ms, less 6, for each of 400.
        assert_eq!(number(&with_ends(made.clone(), &figure(30e6), 6e6), "/process_end_ns"), 60_000.0);
        assert_eq!(number(&with_ends(made.clone(), &figure(30e6), 31e6), "/process_end_ns"), 0.0);
        // 60 ns at a latency of 90.
        assert_eq!(number(&made, "/handover_trips"), 0.667);
        assert_eq!((number(&made, "/tunables/hz"), number(&made, "/caches/0/size_kib")), (250.0, 2_048.0));
        // 100 times a second for 50 us: 0.5 % of a CPU, each of four threads every 40 ms.
        let made = with_others(made, Others { times_s: 100.0, time_ns: 50_000.0 });
        let load = made.pointer("/zones/0/processes/0/load").and_then(Value::as_str);
        assert_eq!(load, Some("daemons --busy 0.500 --every 40.000"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let mut quiet = |_: &str| ();
        let lab = Lab::new(&stop, Vec::new(), &mut quiet);
        let bench = lab.open_described(&with_kernel(made, 0.5, 0.0)).unwrap();
        let pid = bench.start("cg --class S -t 1", "global").unwrap();
        let rate = lab.rates(&bench, &[pid], Nanos::from_secs(1)).unwrap()[0];
        // Barriers and daemons take 1 % each.
        assert!((0.975..1.0).contains(&(rate / 1e9)), "{rate}");
    }
}
