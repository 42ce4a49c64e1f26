//! The kernel of simulated machines: its speed on one CPU, and the growth of an event's cost with the machine and its load. The peer is
//! the minimum cost of an event: one entry moved in the standard library's heap of the same size.

use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, told};
use millpond_formats::dispadmin::default_tables;
use millpond_machine::Clock;
use millpond_model::{ClassParams, Nanos};
use millpond_sim::kernel::{Action, Kernel, Layout, Program, Start, Tunables};
use millpond_sim::{SimMachine, workloads};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Duration;

/// CPU time of each trial.
const TRIAL: Duration = Duration::from_millis(200);

/// Simulated nanoseconds per call.
const STRIDE: u64 = 10_000_000;

/// A machine and its load.
pub(super) struct Load {
    pub what: &'static str,
    pub cpus: u32,
    pub threads: u32,
    /// Microseconds that a thread computes, and then sleeps.
    pub cycle_us: (u64, u64),
    pub goal: Goal,
}

const LOADS: [Load; 5] = [
    Load {
        what: "128 CPUs, 256 threads",
        cpus: 128,
        threads: 256,
        cycle_us: (100, 50),
        goal: Goal::OursAtLeast(5.0),
    },
    Load { what: "2 CPUs, 4 threads", cpus: 2, threads: 4, cycle_us: (100, 50), goal: Goal::None },
    Load {
        what: "1,024 CPUs, 2,048 threads",
        cpus: 1024,
        threads: 2048,
        cycle_us: (100, 50),
        goal: Goal::None,
    },
    Load { what: "128 CPUs, 10 threads", cpus: 128, threads: 10, cycle_us: (100, 900), goal: Goal::None },
    Load {
        what: "128 CPUs, 100,000 threads",
        cpus: 128,
        threads: 100_000,
        cycle_us: (10, 10_000),
        goal: Goal::None,
    },
];

/// Measures these goals.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let mut lines: Vec<Line> = LOADS.iter().map(|load| speed(load, bench.pairs)).collect();
    lines.push(idling(bench.pairs));
    lines.extend(servers(bench.pairs));
    lines
}

fn speed(load: &Load, pairs: usize) -> Line {
    let mut kernel = machine(load);
    let found = beside_heap(&mut kernel, load, pairs, |rate| rate);
    let name = format!("simulated kernel: events ({})", load.what);
    let simulated = kernel.now().saturating_sub(1_000_000_000) / 1_000_000;
    let line = Line::of(&name, "moving one entry in a heap of as many", "M/s", &found, load.goal);
    line.noting(format!("{simulated} ms simulated in {} ms", TRIAL.as_millis() * pairs as u128))
}

/// Millions of events per second of a kernel, each trial paired with moves in a heap of the same size; `shown` converts both.
pub(super) fn beside_heap(kernel: &mut Kernel, load: &Load, pairs: usize, shown: fn(f64) -> f64) -> Pairs {
    let mut found = Pairs::default();
    for _ in 0..pairs {
        let before = kernel.happened();
        let took = run_for(kernel);
        let ours = rate(kernel.happened() - before, took);
        found.push(shown(ours), shown(bare_heap(load.threads + load.cpus)));
    }
    found
}

/// A machine of 128 CPUs with memory, caches and strands that share pipelines, with all threads busy, or with four of them. It is the
/// machine of experiment e4, with as many servers.
fn servers(pairs: usize) -> Vec<Line> {
    let names = ["128 CPUs of dc3 serve: 8 servers of 16 threads", "4 CPUs of dc3 serve: one server"];
    let goals = [Goal::OursAtLeast(1.0), Goal::OursAtLeast(100.0)];
    let machines = (serving("jbb -t 16", 8), serving("jbb -t 4", 1));
    let (Ok(all), Ok(few)) = machines else {
        let lines = names.into_iter().zip(goals);
        return lines.map(|(name, goal)| Line::unresolvable(name, "-", goal, "dc3 is not there")).collect();
    };
    let mut found = [Pairs::default(), Pairs::default()];
    for _ in 0..pairs {
        let (all, few) = (serve_for(&all), serve_for(&few));
        found[0].push(all, few);
        found[1].push(few, all);
    }
    let name = |at: usize| format!("simulated machine: seconds simulated in a second ({})", names[at]);
    (0..2).map(|at| Line::of(&name(at), names[1 - at], "s/s", &found[at], goals[at])).collect()
}

fn serving(words: &str, servers: u32) -> Result<SimMachine, Trouble> {
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let machine = told("open dc3", SimMachine::named("dc3"))?;
    let load = told("start jbb", workloads::Load::parse(&words))?;
    for _ in 0..servers {
        machine.start_load(&load);
    }
    machine.sleep_until(Nanos::from_secs(1));
    Ok(machine)
}

/// Simulated seconds per real second.
fn serve_for(machine: &SimMachine) -> f64 {
    let (begin, before) = (processor_time(), machine.now());
    while processor_time() - begin < TRIAL {
        machine.sleep_until(Nanos(machine.now().0 + STRIDE));
    }
    (machine.now().0 - before.0) as f64 / 1e9 / (processor_time() - begin).as_secs_f64()
}

/// Busy CPUs only need clock ticks; idle ones not even these.
fn idling(pairs: usize) -> Line {
    let hogs = |threads: u32| {
        let load = Load { what: "", cpus: 128, threads: 0, cycle_us: (0, 0), goal: Goal::None };
        let mut kernel = machine(&load);
        for _ in 0..threads {
            kernel.start(Start::new(kernel.entry(ClassParams::default()), Program::hog()));
        }
        kernel
    };
    let (mut few, mut all) = (hogs(4), hogs(128));
    let mut found = Pairs::default();
    for _ in 0..pairs {
        let speed = |kernel: &mut Kernel| {
            let before = kernel.now();
            let took = run_for(kernel);
            (kernel.now() - before) as f64 / 1e9 / took.as_secs_f64()
        };
        found.push(speed(&mut few), speed(&mut all));
    }
    let name = "simulated kernel: seconds simulated in a second (4 of 128 CPUs compute)";
    Line::of(name, "all 128 compute", "s/s", &found, Goal::None)
}

pub(super) fn machine(load: &Load) -> Kernel {
    let tunables = Tunables::default();
    let mut kernel = Kernel::new(&Layout::flat(load.cpus), default_tables(false), tunables);
    for number in 0..u64::from(load.threads) {
        // No two threads in step.
        let (run, sleep) = (load.cycle_us.0 * 1_000 + number, load.cycle_us.1 * 1_000 + number);
        let program = Program::repeat(vec![Action::User(run), Action::Sleep(sleep)]);
        kernel.start(Start::new(kernel.entry(ClassParams::default()), program));
    }
    // Exclude the start-up.
    let _ = kernel.run_until(1_000_000_000);
    kernel
}

fn run_for(kernel: &mut Kernel) -> Duration {
    let begin = processor_time();
    while processor_time() - begin < TRIAL {
        let until = kernel.now() + STRIDE;
        if kernel.run_until(until).is_err() {
            break;
        }
    }
    processor_time() - begin
}

/// CPU time of this thread, which excludes other programs on the host.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Millions per second.
fn rate(events: u64, took: Duration) -> f64 {
    events as f64 / 1e6 / took.as_secs_f64()
}

fn bare_heap(entries: u32) -> f64 {
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
        (0..entries).map(|n| Reverse((u64::from(n), n))).collect();
    let (begin, mut moved) = (processor_time(), 0u64);
    while processor_time() - begin < TRIAL / 4 {
        for _ in 0..1_000 {
            if let Some(Reverse((at, number))) = heap.pop() {
                heap.push(Reverse((at + 100_000 + u64::from(number), number)));
            }
            moved += 1;
        }
    }
    black_box(&heap);
    rate(moved, processor_time() - begin)
}
