//! Cost of one sample of `mpstat`: its own CPU time, without start-up.
//!
//! Both programs run in parallel with an interval of a second. In the middle of each second, when both sleep, the CPU time of
//! each is read; the difference from the second before is the cost of one sample. So start and end are excluded, and each
//! second is a pair.

use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Beside, Trouble, find_program, run_ms, told};
use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

const GOAL: Goal = Goal::RatioAtMost(0.5);
const HERE: &str = "mpstat: one sample on this machine";
const SYSSTAT: &str = "mpstat -P ALL of sysstat";
const FLOOR: &str = "reading the same files";

/// Measures this goal.
pub fn measure(bench: &Bench) -> Vec<Line> {
    let here = Line::found(HERE, SYSSTAT, "us", beside_sysstat(bench), GOAL);
    let mut lines = vec![here];
    for cpus in [128, 1024] {
        let name = format!("mpstat: the report since boot of {cpus} CPUs (a synthetic sysfs tree)");
        lines.push(Line::found(&name, FLOOR, "us", beside_floor(bench, cpus), Goal::None));
    }
    lines
}

fn beside_sysstat(bench: &Bench) -> Result<Pairs, Trouble> {
    let peer = find_program("mpstat")?;
    let mut version = Command::new(&peer);
    let said = told("start mpstat", version.arg("-V").output())?;
    if !String::from_utf8_lossy(&said.stdout).contains("sysstat") {
        return Err("mpstat on the search path is not sysstat's".into());
    }
    let ours = Beside::start(&mut bench.command(&["mpstat", "1"]))?;
    sleep(Duration::from_millis(250));
    let peer = Beside::start(Command::new(peer).args(["-P", "ALL", "1"]))?;
    sleep(Duration::from_millis(1375));
    each(1, bench.pairs, &ours, || peer.cpu_time().map(|time| time.0))
}

/// A captured machine only has one report since boot, so the cost is that of a whole run minus that of a run on a machine with one CPU,
/// which is the start-up of the program.
fn beside_floor(bench: &Bench, cpus: u32) -> Result<Pairs, Trouble> {
    let (root, small) = (bench.scratch.join(format!("machine-{cpus}")), bench.scratch.join("machine-1"));
    told("make up a machine", make_up(&root, cpus))?;
    told("make up a machine", make_up(&small, 1))?;
    let mut pairs = Pairs::default();
    for _ in 0..bench.pairs {
        let ours = report_us(bench, &root)? - report_us(bench, &small)?;
        pairs.push(ours, us(read_all(&root)?));
    }
    Ok(pairs)
}

/// CPU time of a whole run on the machine under `root`.
fn report_us(bench: &Bench, root: &Path) -> Result<f64, Trouble> {
    let before = children_us();
    run_ms(&mut bench.command(&["mpstat", "--root", root.to_str().unwrap_or_default()]))?;
    Ok(children_us() - before)
}

/// CPU time of all children that have ended and been waited for.
fn children_us() -> f64 {
    // SAFETY: all zeroes is a valid value of this structure of integers, and it is live while it is filled.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let part = |time: libc::timeval| {
        let whole = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0));
        (whole + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))).as_secs_f64() * 1e6
    };
    part(usage.ru_utime) + part(usage.ru_stime)
}

fn us(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64() * 1e6
}

/// Seconds until the least frequently read tables of a frame are read again.
pub(super) const ROUND: u32 = 5;

/// A pair every `span` seconds: microseconds per second that both used.
pub(super) fn each(
    span: u32,
    pairs: usize,
    ours: &Beside,
    mut peer: impl FnMut() -> Result<u64, Trouble>,
) -> Result<Pairs, Trouble> {
    let begin = Instant::now();
    let (mut ours_before, mut peer_before) = (ours.cpu_time()?.0, peer()?);
    let mut result = Pairs::default();
    let mut due = begin;
    for _ in 0..3 * pairs {
        due += Duration::from_secs(span.into());
        sleep(due.saturating_duration_since(Instant::now()));
        let (ours_now, peer_now) = (ours.cpu_time()?.0, peer()?);
        // On a busy machine a sample may be late. Then two samples form one pair.
        if ours_now > ours_before && peer_now > peer_before {
            let a_second = |used: u64| us(used) / f64::from(span);
            result.push(a_second(ours_now - ours_before), a_second(peer_now - peer_before));
            (ours_before, peer_before) = (ours_now, peer_now);
        }
        if result.ours.len() == pairs {
            break;
        }
    }
    Ok(result)
}

const TABLES: [&str; 4] = ["stat", "interrupts", "softirqs", "schedstat"];

/// Reads the tables completely in the simplest way; returns the CPU time in nanoseconds.
fn read_all(root: &Path) -> Result<u64, Trouble> {
    let mut buffer = vec![0_u8; 1 << 20];
    let begin = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    for table in TABLES {
        let mut file = told("read a table", fs::File::open(root.join("proc").join(table)))?;
        while told("read a table", file.read(&mut buffer))? > 0 {}
    }
    let end = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let ns = (end.tv_sec - begin.tv_sec) * 1_000_000_000 + (end.tv_nsec - begin.tv_nsec);
    u64::try_from(ns).map_err(|_| "the clock went backwards".into())
}

/// Creates the files of a machine with this many CPUs: its topology, and the tables as a kernel writes them, with 120
/// interrupts.
fn make_up(root: &Path, cpus: u32) -> std::io::Result<()> {
    let system = root.join("sys/devices/system/cpu");
    fs::create_dir_all(&system)?;
    for list in ["online", "present", "possible"] {
        fs::write(system.join(list), format!("0-{}\n", cpus - 1))?;
    }
    for cpu in 0..cpus {
        let topology = system.join(format!("cpu{cpu}/topology"));
        fs::create_dir_all(&topology)?;
        fs::write(topology.join("physical_package_id"), format!("{}\n", cpu / 64))?;
        fs::write(topology.join("core_id"), format!("{}\n", cpu / 2))?;
        fs::write(topology.join("thread_siblings_list"), format!("{}-{}\n", cpu / 2 * 2, cpu / 2 * 2 + 1))?;
    }
    let proc = root.join("proc");
    fs::create_dir_all(&proc)?;
    fs::write(proc.join("uptime"), "86400.00 86400.00\n")?;
    let (stat, schedstat) = per_processor_lines(cpus);
    fs::write(proc.join("stat"), stat)?;
    fs::write(proc.join("schedstat"), schedstat)?;
    fs::write(
        proc.join("interrupts"),
        columns(cpus, 11, (24..144).map(|irq| format!("{irq:>4}")), "IR-PCI-MSIX nvme"),
    )?;
    const DEFERRED: [&str; 10] =
        ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
    fs::write(proc.join("softirqs"), columns(cpus, 10, DEFERRED.iter().map(|d| format!("{d:>12}")), ""))
}

fn per_processor_lines(cpus: u32) -> (String, String) {
    let mut stat = String::from("cpu  9 9 9 9 9 9 9 0 0 0\n");
    let mut schedstat = String::from("version 17\ntimestamp 4299000000\n");
    for cpu in 0..cpus {
        let n = u64::from(cpu) * 7919 % 100_000;
        let _ = writeln!(stat, "cpu{cpu} {n} 12 {} {} 331 0 {} 0 0 0", n / 3, 8_640_000 - n, n / 50);
        let _ = writeln!(schedstat, "cpu{cpu} 0 0 0 0 0 0 {}0001234567 {n}456789 {n}123", n / 7);
    }
    stat.push_str(
        "intr 99\nctxt 4242424242\nbtime 1700000000\nprocesses 99\nprocs_running 1\nprocs_blocked 0\n",
    );
    (stat, schedstat)
}

fn columns(cpus: u32, width: usize, names: impl Iterator<Item = String>, tail: &str) -> String {
    let mut text = String::from("    ");
    for cpu in 0..cpus {
        let _ = write!(text, " {:>width$}", format!("CPU{cpu}"));
    }
    text.push('\n');
    for (row, name) in names.enumerate() {
        let _ = write!(text, "{name}:");
        for cpu in 0..cpus {
            let count = u64::from(cpu) * 31 % 1000 * u64::try_from(row % 5).unwrap_or(0);
            let _ = write!(text, " {count:>width$}");
        }
        let _ = writeln!(text, "  {tail}");
    }
    text
}
