//! Work of poold in a second on a machine of 64 CPUs with 16 pools: one decision, and settling the machine. The machine is a synthetic
//! tree with 400 processes, 128 of them in pools, and with the changes of Millpond's own commands.

use crate::goals::sim::processor_time;
use crate::line::{Goal, Line, Pairs};
use crate::trial::{Bench, Trouble, run_ms, told};
use millpond_machine::{Machine, Writer, is_at_rest};
use millpond_pools::Manager;
use millpond_session::{OpenOptions, Session};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const NAME: &str =
    "poold: what it does in a second, in % of a CPU (64 CPUs, 16 pools, a synthetic sysfs tree)";
const PEER: &str = "reading the same files once";
const GOAL: Goal = Goal::OursAtMost(0.5);
const TURN: &str = "poold: a turn, without bringing the machine to what its sets want (the same machine)";
const CPUS: u32 = 64;
const POOLS: u32 = 16;
const PROCESSES: u32 = 400;
/// Processes per pool.
const MEMBERS: u32 = 8;
const FIRST_PID: u32 = 1_000;

pub fn measure(bench: &Bench) -> Vec<Line> {
    let names = [(NAME, "%", GOAL), (TURN, "%", Goal::None)];
    match run(bench) {
        Ok(found) => names
            .into_iter()
            .zip(found)
            .map(|((name, unit, goal), pairs)| Line::of(name, PEER, unit, &pairs, goal))
            .collect(),
        Err(why) => names
            .into_iter()
            .map(|(name, _, goal)| Line::unresolvable(name, PEER, goal, why.clone()))
            .collect(),
    }
}

fn run(bench: &Bench) -> Result<[Pairs; 2], Trouble> {
    let root = bench.scratch.join("machine-64-pools");
    told("make up a machine", make_up(&root))?;
    make_pools(bench, &root)?;
    let options = OpenOptions { root: Some(root.clone()), ..OpenOptions::default() };
    let session = told("open the machine", Session::open(&options))?;
    let machine = session.machine();
    let policy = millpond_planner::policy(millpond_planner::POLICIES[0]).ok_or("there is no policy")?;
    let mut manager = Manager::new(policy).dry();
    let watch = machine.accounting().and_then(|facet| facet.watch());
    let mut watch = watch.map_err(|absent| absent.why)?;
    let (mut all, mut turns) = (Pairs::default(), Pairs::default());
    // Discard the first trial, which has cold caches.
    for trial in 0..=bench.pairs {
        let begin = processor_time();
        let reads = machine.shared_reads();
        told("take a turn", manager.turn(machine, watch.as_mut()))?;
        let turn = percent(begin);
        settle(machine)?;
        drop(reads);
        let both = percent(begin);
        let begin = processor_time();
        read_plainly(&root)?;
        let plain = percent(begin);
        if trial > 0 {
            all.push(both, plain);
            turns.push(turn, plain);
        }
    }
    Ok([all, turns])
}

/// Percent of a CPU, if done once a second.
fn percent(begin: std::time::Duration) -> f64 {
    (processor_time() - begin).as_secs_f64() * 100.0
}

/// The other work of poold, once a second.
fn settle(machine: &dyn Machine) -> Result<(), Trouble> {
    if told("look at the machine", is_at_rest(machine))? {
        return Ok(());
    }
    let writer = told("be the writer", Writer::open(machine))?;
    told("settle the machine", writer.settle()).map(drop)
}

fn make_pools(bench: &Bench, root: &Path) -> Result<(), Trouble> {
    let at = root.to_str().ok_or("the scratch directory has no name in text")?;
    let run = |words: &[&str]| {
        let mut command = bench.command(&words[..1]);
        run_ms(command.args(["--root", at]).args(&words[1..])).map(drop)
    };
    run(&["pooladm", "-e", "--keep-others"])?;
    let each = CPUS / (POOLS + 1);
    let mut script = String::new();
    for pool in 1..=POOLS {
        let cpus: Vec<String> = (pool * each..(pool + 1) * each).map(|cpu| format!("cpu {cpu}")).collect();
        let _ = write!(
            script,
            "create pset p{pool} ( uint pset.max = 64 ) create pool p{pool} associate pool p{pool} ( pset p{pool} ) \
             transfer to pset p{pool} ( {} ) ",
            cpus.join(" ; ")
        );
    }
    run(&["poolcfg", "-d", "-c", &script])?;
    for pool in 1..=POOLS {
        let first = FIRST_PID + (pool - 1) * MEMBERS;
        let pids: Vec<String> = (first..first + MEMBERS).map(|pid| pid.to_string()).collect();
        let name = format!("p{pool}");
        let mut words = vec!["poolbind", "-p", &name];
        words.extend(pids.iter().map(String::as_str));
        run(&words)?;
    }
    Ok(())
}

/// Reads the tables of CPUs, and each file of the sets' cgroups.
fn read_plainly(root: &Path) -> Result<(), Trouble> {
    for table in ["proc/stat", "proc/schedstat", "sys/devices/system/cpu/online", "state/records/pools"] {
        let _ = told("read a table", fs::read(root.join(table)))?;
    }
    for group in told("list the cgroups", fs::read_dir(root.join("cgroup")))?.flatten() {
        if group.file_name().to_string_lossy().starts_with("mp") {
            told("read a cgroup", read_all(&group.path()))?;
        }
    }
    Ok(())
}

fn read_all(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            read_all(&entry.path())?;
        } else {
            std::hint::black_box(fs::read(entry.path())?);
        }
    }
    Ok(())
}

fn put(root: &Path, path: &str, text: &str) -> std::io::Result<()> {
    let path = root.join(path);
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    fs::write(path, text)
}

/// Creates the machine's files: cgroup version 2 with two slices, and single-threaded processes.
fn make_up(root: &Path) -> std::io::Result<()> {
    let put = |path: &str, text: &str| put(root, path, text);
    let last = CPUS - 1;
    for list in ["online", "present", "possible"] {
        put(&format!("sys/devices/system/cpu/{list}"), &format!("0-{last}\n"))?;
    }
    for cpu in 0..CPUS {
        let dir = format!("sys/devices/system/cpu/cpu{cpu}");
        let core = cpu / 2;
        put(&format!("{dir}/online"), "1\n")?;
        put(&format!("{dir}/topology/physical_package_id"), &format!("{}\n", cpu / 32))?;
        put(&format!("{dir}/topology/core_id"), &format!("{core}\n"))?;
        put(&format!("{dir}/topology/core_cpus_list"), &format!("{}-{}\n", core * 2, core * 2 + 1))?;
    }
    put("proc/sys/kernel/osrelease", "6.17.0\n")?;
    put("proc/sys/kernel/random/boot_id", "one\n")?;
    put("proc/uptime", "86400.00 86400.00\n")?;
    put("proc/loadavg", "0.50 0.50 0.50 1/400 1400\n")?;
    let (mut stat, mut schedstat) =
        (String::from("cpu  9 9 9 9 9 9 9 0 0 0\n"), String::from("version 17\ntimestamp 4299000000\n"));
    for cpu in 0..CPUS {
        let _ = writeln!(stat, "cpu{cpu} {} 12 331 8640000 331 0 12 0 0 0", 4_000 + cpu);
        let _ = writeln!(schedstat, "cpu{cpu} 0 0 0 0 0 0 1234567890 456789{cpu} 123{cpu}");
    }
    stat.push_str(
        "intr 99\nctxt 4242424242\nbtime 1700000000\nprocesses 99\nprocs_running 1\nprocs_blocked 0\n",
    );
    put("proc/stat", &stat)?;
    put("proc/schedstat", &schedstat)?;
    for group in ["", "system.slice/", "user.slice/"] {
        put(&format!("cgroup/{group}cgroup.controllers"), "cpuset cpu memory\n")?;
        put(
            &format!("cgroup/{group}cgroup.subtree_control"),
            if group.is_empty() { "cpuset cpu memory\n" } else { "\n" },
        )?;
        put(&format!("cgroup/{group}cgroup.procs"), "")?;
        if !group.is_empty() {
            put(&format!("cgroup/{group}cpuset.cpus"), "\n")?;
            put(&format!("cgroup/{group}cpuset.cpus.effective"), &format!("0-{last}\n"))?;
            put(&format!("cgroup/{group}cpuset.cpus.partition"), "member\n")?;
        }
    }
    put("cgroup/cpuset.cpus.effective", &format!("0-{last}\n"))?;
    let mut all = String::new();
    for pid in FIRST_PID..FIRST_PID + PROCESSES {
        let stat = format!("{pid} (some) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n", 1000 + pid);
        let status = format!("Name:\tsome\nTgid:\t{pid}\nCpus_allowed_list:\t0-{last}\n");
        for dir in [format!("proc/{pid}"), format!("proc/{pid}/task/{pid}")] {
            put(&format!("{dir}/stat"), &stat)?;
            put(&format!("{dir}/status"), &status)?;
            put(&format!("{dir}/cgroup"), "0::/system.slice\n")?;
            put(&format!("{dir}/schedstat"), "1234567890 123456 99\n")?;
        }
        let _ = writeln!(all, "{pid}");
    }
    put("cgroup/system.slice/cgroup.procs", &all)?;
    fs::create_dir_all(root.join("state"))
}
