//! Long run of poold on this machine: ten decisions a second, while the demand of two pools changes ten times a
//! second. Its memory, descriptors and files must not grow.
//!
//! `MILLPOND_POOLD_SECONDS` sets the duration; the default is a few seconds. The slow matrix runs it for an hour.
//! `MILLPOND_BIN_MILLPOND` names another program than the one that cargo built for this test.
//!
//! The pools push no thread out, and both loads have nice value 19. The test starts and ends all processes that it
//! uses.

use crate::alone;
use rustix::process::{Pid, Signal, kill_process, nice};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const SECONDS: &str = "MILLPOND_POOLD_SECONDS";
const FEW_SECONDS: u64 = 5;
const STEP: Duration = Duration::from_millis(100);
const INTERVAL_MS: &str = "100";

/// The least number of decisions and of changes of demand: at least this many, and at least one a second. Otherwise
/// the run proves nothing.
const ENOUGH: u64 = 20;

/// The record of decisions continues in a new file above this size, and one older file is kept. With so few sets, no
/// decision is longer than [`LINE_BYTES`].
const RECORD_BYTES: u64 = 16 << 20;
const LINE_BYTES: u64 = 16 << 10;
/// The limit of all other files of the state directory together: a journal, the state of the policy, a notice for
/// each pool.
const REST_BYTES: u64 = 1 << 20;

/// The allowed growth of memory at the end, in KiB.
const MEMORY_KIB: u64 = 256;

/// The resources of poold at one moment. Memory is in KiB.
#[derive(Debug, Clone, Copy)]
struct Sample {
    resident: u64,
    anonymous: u64,
    data: u64,
    descriptors: u64,
    /// Number of inotify watches.
    watches: u64,
    record: u64,
    rest: u64,
}

impl Sample {
    fn of(pid: u32, state: &Path) -> Sample {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let kib = |field: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
            line.trim_end_matches("kB").trim().parse().unwrap()
        };
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
        let told: Vec<String> = files(format!("/proc/{pid}/fdinfo").as_ref())
            .iter()
            .filter_map(|(file, _)| fs::read_to_string(file).ok())
            .collect();
        let watches = told.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("inotify "));
        let watches = watches.count() as u64;
        let (mut record, mut rest) = (0, 0);
        for (file, bytes) in files(state) {
            let is_record =
                file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"poold.decisions"));
            *(if is_record { &mut record } else { &mut rest }) += bytes;
        }
        let (resident, anonymous, data) = (kib("VmRSS:"), kib("RssAnon:"), kib("VmData:"));
        Sample { resident, anonymous, data, descriptors, watches, record, rest }
    }
}

/// The files of a directory with their sizes. A file that is replaced meanwhile is left out.
fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => found.extend(files(&entry.path())),
            Ok(metadata) => found.push((entry.path(), metadata.len())),
            Err(_) => {}
        }
    }
    found
}

/// The second and the last tenth. The first tenth is the start.
fn tenths<T>(samples: &[T]) -> (&[T], &[T]) {
    let tenth = samples.len() / 10;
    (&samples[tenth..2 * tenth], &samples[samples.len() - tenth..])
}

fn median(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> u64 {
    let mut values: Vec<u64> = samples.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

/// The minimum over the samples. While poold reads a file it has one more descriptor, so the minimum is what stays
/// open.
fn least(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> u64 {
    samples.iter().map(of).min().unwrap_or(0)
}

/// Describes each forbidden growth. Resident memory is not checked, because the kernel maps and unmaps pages of the
/// program's file.
fn growth(samples: &[Sample]) -> Vec<String> {
    let (first, last) = tenths(samples);
    let mut found = Vec::new();
    let mut compare = |what: &str, before: u64, after: u64, more: u64| {
        if after > before + more {
            found.push(format!("{what}: {before} in the second tenth, {after} in the last"));
        }
    };
    let anonymous = |samples| median(samples, |s| s.anonymous);
    compare("KiB of anonymous memory", anonymous(first), anonymous(last), MEMORY_KIB);
    let data = |samples| median(samples, |s| s.data);
    compare("KiB of data", data(first), data(last), MEMORY_KIB);
    let descriptors = |samples| least(samples, |s| s.descriptors);
    compare("descriptors", descriptors(first), descriptors(last), 0);
    let watches = |samples| least(samples, |s| s.watches);
    compare("watches", watches(first), watches(last), 0);
    let mut bound = |what: &str, of: fn(&Sample) -> u64, bytes: u64| {
        let most = samples.iter().map(of).max().unwrap_or(0);
        if most > bytes {
            found.push(format!("{what}: {most} bytes, at most {bytes} are allowed"));
        }
    };
    bound("the record of decisions", |s| s.record, 2 * (RECORD_BYTES + LINE_BYTES));
    bound("other files of the state directory", |s| s.rest, REST_BYTES);
    found
}

/// Follows the record of decisions while poold writes it, from one file to the next.
struct Decisions {
    path: PathBuf,
    open: Option<(u64, BufReader<File>)>,
    /// The beginning of an incomplete line.
    part: String,
    looks: u64,
    changes: u64,
    moves: u64,
}

impl Decisions {
    fn of(state: &Path) -> Decisions {
        let path = state.join("poold.decisions");
        Decisions { path, open: None, part: String::new(), looks: 0, changes: 0, moves: 0 }
    }

    fn read(&mut self) {
        loop {
            if let Some((_, file)) = &mut self.open {
                while file.read_line(&mut self.part).unwrap() > 0 && self.part.ends_with('\n') {
                    let decision: Value = serde_json::from_str(&self.part).unwrap();
                    let moves = decision["plan"]["moves"].as_array().unwrap().len() as u64;
                    self.looks += 1;
                    self.moves += moves;
                    self.changes += u64::from(moves > 0);
                    self.part.clear();
                }
            }
            // poold writes whole lines, and writes no more into a renamed file.
            let Ok(file) = File::open(&self.path) else { return };
            let inode = file.metadata().unwrap().ino();
            if self.open.as_ref().is_some_and(|(open, _)| *open == inode) {
                return;
            }
            self.open = Some((inode, BufReader::new(file)));
        }
    }
}

/// The pools and the state directory of this test. Dropping it ends every started process, and then removes the
/// pools.
struct Stage {
    program: PathBuf,
    dir: tempfile::TempDir,
    started: BTreeMap<&'static str, Child>,
    has_pools: bool,
}

impl Stage {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("MILLPOND_STATE", self.state()).stdin(Stdio::null());
        command
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn must(&self, words: &[&str]) {
        let output = self.output(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
    }

    /// The sets of the machine, regardless of the state directory.
    fn sets(&self) -> Value {
        let output = self.output(&["doctor", "--json"]);
        let doctor: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
        doctor["sets"].clone()
    }

    fn start(&mut self, name: &'static str, command: &mut Command) -> u32 {
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        let pid = child.id();
        self.started.insert(name, child);
        pid
    }

    fn signal(&self, name: &str, signal: Signal) {
        kill_process(Pid::from_child(&self.started[name]), signal).unwrap();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in self.started.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.has_pools {
            let _ = self.output(&["pooladm", "-x"]);
            let _ = self.output(&["pooladm", "-d"]);
        }
    }
}

#[test]
fn poold_does_not_grow_while_demand_changes_ten_times_a_second() {
    let test = "poold_does_not_grow_while_demand_changes_ten_times_a_second";
    let _machine = alone();
    let seconds = std::env::var(SECONDS).ok().map_or(FEW_SECONDS, |text| text.parse().unwrap());
    let program = std::env::var_os("MILLPOND_BIN_MILLPOND").unwrap_or(env!("CARGO_BIN_EXE_millpond").into());
    let mut stage = Stage {
        program: program.into(),
        dir: tempfile::tempdir().unwrap(),
        started: BTreeMap::new(),
        has_pools: false,
    };
    let cpus = thread::available_parallelism().unwrap().get();
    if cpus < 2 {
        return println!("skipped: {test}: there is one CPU only");
    }
    let before = stage.sets();
    if before.as_array().is_none_or(|sets| !sets.is_empty()) {
        return println!("skipped: {test}: there are processor sets already");
    }
    let enabled = stage.output(&["pooladm", "-e", "--keep-others"]);
    if !enabled.status.success() {
        let why = String::from_utf8_lossy(&enabled.stderr).into_owned();
        return println!("skipped: {test}: {}", why.lines().next().unwrap_or_default());
    }
    stage.has_pools = true;
    let samples = soak(&mut stage, seconds, cpus);
    stage.must(&["pooladm", "-x"]);
    stage.must(&["pooladm", "-d"]);
    stage.has_pools = false;
    assert_eq!(stage.sets(), before, "no set stays");
    match samples {
        Ok(samples) => assert_eq!(growth(&samples), Vec::<String>::new()),
        Err(why) => println!("skipped: {test}: {why}"),
    }
}

/// Returns the samples, or why the run proves nothing.
fn soak(stage: &mut Stage, seconds: u64, cpus: usize) -> Result<Vec<Sample>, String> {
    // Pool a begins with one CPU; the default pool has the others.
    stage.must(&[
        "poolcfg",
        "-d",
        "-c",
        "create pset a ( uint pset.max = 65536 ) create pool a associate pool a ( pset a ) \
         transfer 1 from pset pset_default to a modify pset a ( uint pset.min = 1 )",
    ]);
    // If this process is killed, the loads end by themselves.
    let longer = (seconds + 600).to_string();
    for (name, pool) in [("one", "a"), ("other", "pool_default")] {
        let threads = cpus.to_string();
        let words = ["load", "spin", "--threads", &threads, "--seconds", &longer];
        let mut command = stage.command(&words);
        command.stderr(Stdio::null());
        // The nice value belongs to a thread, and a process inherits it from the thread that starts it.
        let start = || {
            nice(19).unwrap();
            stage.start(name, &mut command)
        };
        let pid = thread::scope(|scope| scope.spawn(start).join().unwrap());
        stage.must(&["poolbind", "-p", pool, &pid.to_string()]);
    }
    let complaints = stage.dir.path().join("complaints");
    let longer = format!("{longer}s");
    let words = ["poold", "-l", "WARNING", "--record", "--interval", INTERVAL_MS, "--for", &longer];
    let mut poold = stage.command(&words);
    let pid = stage.start("poold", poold.stderr(File::create(&complaints).unwrap()));
    let mut decisions = Decisions::of(&stage.state());
    let began = Instant::now();
    while decisions.looks == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", fs::read_to_string(&complaints).unwrap());
        sleep(STEP);
        decisions.read();
    }
    let samples = change_sides(stage, pid, &mut decisions, seconds, &complaints);
    stage.signal("poold", Signal::TERM);
    let status = stage.started.remove("poold").unwrap().wait().unwrap();
    tell(&samples, &decisions, seconds, cpus);
    assert_eq!((status.code(), fs::read_to_string(&complaints).unwrap()), (Some(0), String::new()));
    let (demands, looks) = (samples.len() as u64, decisions.looks);
    if demands.min(looks) < ENOUGH.max(seconds) {
        return Err(format!(
            "the machine is busy: {looks} decisions and {demands} changes of demand in {seconds} s"
        ));
    }
    // With two CPUs, each set keeps its only one.
    assert!(cpus <= 2 || decisions.moves > 0, "no CPU moved");
    Ok(samples)
}

/// Alternates the two loads: one runs while the other is stopped. Returns a sample of poold after each change. Ends
/// early at the first message of poold.
fn change_sides(
    stage: &Stage,
    poold: u32,
    decisions: &mut Decisions,
    seconds: u64,
    complaints: &Path,
) -> Vec<Sample> {
    let (began, mut samples) = (Instant::now(), Vec::new());
    let (mut runs, mut stops) = ("one", "other");
    let mut next = STEP;
    // Changes at varying moments of poold's turn.
    let mut moments = (0..8).map(|part| STEP * part / 10).cycle();
    while next <= Duration::from_secs(seconds) && fs::metadata(complaints).unwrap().len() == 0 {
        stage.signal(stops, Signal::STOP);
        stage.signal(runs, Signal::CONT);
        (runs, stops) = (stops, runs);
        sleep(moments.next().unwrap());
        decisions.read();
        samples.push(Sample::of(poold, &stage.state()));
        sleep(next.saturating_sub(began.elapsed()));
        // A late change is skipped, not made up for.
        next = (next + STEP).max(began.elapsed());
    }
    samples
}

/// Prints the measurements, in lines with a fixed form.
fn tell(samples: &[Sample], decisions: &Decisions, seconds: u64, cpus: usize) {
    let Decisions { looks, changes, moves, .. } = decisions;
    println!(
        "figure: {seconds} s on {cpus} CPUs: {} changes of demand, {looks} decisions, {changes} of which move CPUs, {moves} moves",
        samples.len()
    );
    let (first, last) = tenths(samples);
    let told = |what: &str, of: fn(&Sample) -> u64| {
        let most = samples.iter().map(of).max().unwrap_or(0);
        let of = |samples| format!("{} (least {})", median(samples, of), least(samples, of));
        println!(
            "figure: {what}: {} in the second tenth, {} in the last, at most {most}",
            of(first),
            of(last)
        );
    };
    told("KiB resident", |s| s.resident);
    told("KiB of anonymous memory", |s| s.anonymous);
    told("KiB of data", |s| s.data);
    told("descriptors", |s| s.descriptors);
    told("watches", |s| s.watches);
    told("bytes of the record of decisions", |s| s.record);
    told("bytes of other files", |s| s.rest);
}

#[test]
fn growth_is_what_the_last_tenth_has_more_than_the_second() {
    let sample = |anonymous, descriptors, rest| Sample {
        resident: 0,
        anonymous,
        data: 0,
        descriptors,
        watches: 3,
        record: 0,
        rest,
    };
    let run = |last: Sample| {
        let mut samples = vec![sample(0, 1, 0); 10];
        samples.extend(vec![sample(1000, 7, 10); 80]);
        samples.extend(vec![last; 10]);
        growth(&samples)
    };
    assert_eq!(run(sample(1256, 7, 10)), Vec::<String>::new());
    assert_eq!(
        run(sample(1257, 7, 10)),
        ["KiB of anonymous memory: 1000 in the second tenth, 1257 in the last"]
    );
    assert_eq!(run(sample(900, 8, 10)), ["descriptors: 7 in the second tenth, 8 in the last"]);
    let long = run(sample(1000, 7, 1_048_577));
    assert_eq!(long, ["other files of the state directory: 1048577 bytes, at most 1048576 are allowed"]);
}

#[test]
fn decisions_are_counted_across_files() {
    let dir = tempfile::tempdir().unwrap();
    let mut decisions = Decisions::of(dir.path());
    decisions.read();
    let line = |moves: &str| format!("{{\"plan\":{{\"moves\":[{moves}]}}}}\n");
    fs::write(&decisions.path, line("") + &line("1,2")).unwrap();
    decisions.read();
    fs::write(&decisions.path, line("") + &line("1,2") + &line("3")).unwrap();
    fs::rename(&decisions.path, dir.path().join("poold.decisions.1")).unwrap();
    fs::write(&decisions.path, line("4") + "{\"plan\"").unwrap();
    decisions.read();
    decisions.read();
    assert_eq!((decisions.looks, decisions.changes, decisions.moves), (4, 3, 4));
}
