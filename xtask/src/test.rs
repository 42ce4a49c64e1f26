//! `cargo xtask test`: builds the tests, runs them by group, and ends with the executed and skipped tests, with reasons.

use crate::cargo::{BuildError, Built, TestBinary, build_tests, cargo, rt_manifest};
use crate::changed::{self, Changed};
use crate::group::{ORDER, REST, grouped};
use crate::matrix;
use crate::run::{Told, as_test, begin, end, print_failure, run_one};
use crate::slowest::{self, Timed, Times};
use crate::suite::Suite;
use crate::table::{Row, counts, last_line, seconds, table, total};
use crate::tally::Tally;
use crate::whole;
use std::collections::VecDeque;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Number of random cases per property, in all suites except `all`.
pub const CASES: &str = "64";

/// Number of random cases per property in `all`.
const CASES_ALL: &str = "512";

/// The group of the documentation examples.
const DOCUMENTS: &str = "documents";

/// The selection of tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// Also the slow matrix, with more kernels and more random cases.
    pub all: bool,
    /// The suite; default: that of `make test`.
    pub suite: Suite,
    /// Only crates that changed since the main branch, and their dependents.
    pub changed: bool,
    /// Only these groups; all if it is empty.
    pub only: Vec<String>,
}

impl Wish {
    fn suite(&self) -> Suite {
        if self.all { Suite::All } else { self.suite }
    }

    fn wants(&self, group: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == group)
    }

    fn wants_slow(&self, group: &matrix::Slow) -> bool {
        self.all && self.wants(group.name) && !(group.is_asked_for && self.only.is_empty())
    }

    /// The first name in `only` that is not a group.
    #[must_use]
    pub fn unknown(&self) -> Option<&String> {
        let is_known = |name: &str| {
            ORDER.contains(&name)
                || name == DOCUMENTS
                || (self.all && matrix::GROUPS.iter().any(|group| group.name == name))
        };
        self.only.iter().find(|name| !is_known(name))
    }
}

/// Runs the selected tests; true when nothing failed.
///
/// # Errors
/// [`BuildError`] when the tests cannot be built.
pub fn run(wish: &Wish) -> Result<bool, BuildError> {
    if wish.all { run_slice(wish) } else { Ok(run_once(wish, &|_| true)?.is_well) }
}

/// Runs the next slice of all tests, or the selected groups, and records the results in the ledger.
fn run_slice(wish: &Wish) -> Result<bool, BuildError> {
    let (target, commit, start) = (matrix::target_directory(), whole::commit(), Instant::now());
    let (ledger, damage) = whole::Ledger::read(target);
    if let Some(damage) = damage {
        eprintln!("xtask: {damage}");
    }
    let parts: Vec<&str> = ORDER
        .into_iter()
        .chain([DOCUMENTS])
        .chain(matrix::GROUPS.iter().filter(|group| !group.is_asked_for).map(|group| group.name))
        .filter(|name| *name != REST.name)
        .collect();
    let mut slice = wish.clone();
    if slice.only.is_empty() {
        slice.only = ledger.next(&parts, commit.as_deref()).into_iter().map(str::to_owned).collect();
        println!(
            "this slice: {}",
            if slice.only.is_empty() { "nothing is left".into() } else { slice.only.join(", ") }
        );
    }
    if slice.only.is_empty() {
        println!("{}", ledger.table(&parts, commit.as_deref()));
        return Ok(true);
    }
    // Crates in no group run together with the others.
    if slice.only.iter().any(|name| ORDER.contains(&name.as_str())) {
        slice.only.push(REST.name.to_owned());
    }
    // A part that took longer than expected must not extend the slice. The rest runs in the next slice.
    let fits = |name: &str| !wish.only.is_empty() || start.elapsed() + ledger.expected(name) <= whole::SLICE;
    let done = run_once(&slice, &fits)?;
    // Another run may have ended meanwhile.
    let (mut ledger, _) = whole::Ledger::read(target);
    if let Some(commit) = &commit {
        ledger.record(&done.rows, commit);
        ledger.write(target)?;
    }
    print!("{}", ledger.table(&parts, commit.as_deref()));
    Ok(done.is_well)
}

/// The results of a run.
struct Done {
    rows: Vec<Row>,
    is_well: bool,
}

fn run_once(wish: &Wish, fits: &dyn Fn(&str) -> bool) -> Result<Done, BuildError> {
    let start = Instant::now();
    let slow: Vec<_> = matrix::GROUPS.iter().filter(|group| wish.wants_slow(group)).collect();
    if wish.all {
        matrix::announce(&slow);
    }
    let changed = if wish.changed { Some(changed::packages()?) } else { None };
    let is_quick = |name: &&str| wish.wants(name);
    let needs_tests = ORDER.iter().any(is_quick) || slow.iter().any(|group| group.needs_tests);
    let suite = wish.suite();
    let (built, build_times) = if needs_tests { build(suite, changed.as_deref())? } else { <_>::default() };
    let (mut rows, timed) = run_groups(wish, &built, changed.as_deref());
    if wish.wants(DOCUMENTS) && !wish.changed {
        rows.extend(run_documents(suite));
    }
    let is_first = rows.is_empty();
    for (at, group) in slow.into_iter().enumerate() {
        if fits(group.name) || (is_first && at == 0) {
            rows.push(matrix::run(group, &built));
        }
    }
    println!("{}{}{build_times}", table(&rows), slowest::list(timed));
    println!("suite {}: {} in all", suite.name(), seconds(start.elapsed()));
    let total = total(&rows);
    println!("{}", last_line(&total));
    Ok(Done { rows, is_well: total.failed == 0 })
}

/// Builds the tests of a suite or of changed packages. Also returns a line with the build time of each group.
fn build(suite: Suite, changed: Option<&[Changed]>) -> Result<(Built, String), BuildError> {
    println!("building the tests");
    let (start, mut built, mut times) = (Instant::now(), Built::default(), Vec::new());
    let builds = match changed {
        Some(changed) => {
            let (builds, left) = changed::builds(changed, suite);
            for (one, other) in left {
                println!("not tested: {} (cargo xtask test --suite {} --changed)", one.package, other.name());
            }
            builds
        }
        None => {
            let root = suite.build_arguments().map(|selection| (None, selection));
            root.into_iter()
                .chain(suite.has_rt().then(|| (Some(rt_manifest()), vec!["--workspace"])))
                .collect()
        }
    };
    for (manifest, selection) in builds {
        let since = SystemTime::now();
        built = built.with(build_tests(manifest, &selection)?);
        times = slowest::together(times, slowest::build_times(matrix::target_directory(), since));
    }
    println!("built in {}\n", seconds(start.elapsed()));
    Ok((built, slowest::built(&times)))
}

/// An executable to run.
struct Job<'b> {
    name: String,
    binary: &'b TestBinary,
    arguments: Vec<&'static str>,
    /// Its last duration in seconds. An executable that never ran gets the largest value.
    expected: f64,
}

/// The output of a job, and its duration.
struct Finished {
    package: String,
    timed: Timed,
    told: Told,
}

/// Runs the executables of all selected groups, as many at once as there are CPUs, longest first.
fn run_groups(wish: &Wish, built: &Built, changed: Option<&[Changed]>) -> (Vec<Row>, Vec<Timed>) {
    let suite = wish.suite();
    let mut times = Times::read(matrix::target_directory());
    let mut jobs = Vec::new();
    // Without known times, kernels run first, because they take longest.
    for (group, binaries) in grouped(built.tests.iter().collect(), |test| &test.package).into_iter().rev() {
        let is_wanted = |binary: &&TestBinary| {
            let is_changed = |changed| changed::distance(changed, &binary.dir) < usize::MAX;
            wish.wants(group.name) && changed.is_none_or(is_changed)
        };
        for binary in binaries.into_iter().filter(is_wanted) {
            let Some(arguments) = suite.arguments(binary) else { continue };
            let name = format!("{} of {}", binary.target, place(&binary.dir));
            let expected = times.of(&name).unwrap_or(f64::INFINITY);
            jobs.push(Job { name, binary, arguments, expected });
        }
    }
    match changed {
        // Nearest first: their failures cause those of others.
        Some(changed) => jobs.sort_by_key(|job| changed::distance(changed, &job.binary.dir)),
        None => jobs.sort_by(|a, b| b.expected.total_cmp(&a.expected)),
    }
    let is_shown = matches!(suite, Suite::Kernels);
    let (alone, parallel): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| is_alone(job.binary));
    let queue = Mutex::new(VecDeque::from(parallel));
    let finished = Mutex::new(Vec::new());
    let run = |job: Job<'_>| {
        let done = run_job(&job, built, suite, is_shown);
        println!("{}", done.line());
        finished.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    };
    thread::scope(|scope| {
        for _ in 0..matrix::cpus() {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(job) = next else { break };
                    run(job);
                }
            });
        }
    });
    alone.into_iter().for_each(run);
    let finished = finished.into_inner().unwrap_or_else(PoisonError::into_inner);
    for done in &finished {
        times.set(&done.timed.name, done.timed.time.as_secs_f64());
        if done.told.tally.failed > 0 {
            print_failure(&done.timed.name, &done.told.output);
        }
    }
    times.write(matrix::target_directory());
    let (mut rows, mut timed) = (Vec::new(), Vec::new());
    for (group, members) in grouped(finished, |done| &done.package) {
        let mut row = Row { name: group.name, tally: Tally::default(), time: Duration::ZERO };
        for done in members {
            row.tally.add(&done.told.tally);
            row.time += done.timed.time;
            timed.push(done.timed);
        }
        rows.push(row);
    }
    (rows, timed)
}

/// Whether an executable changes or measures this machine, so that no other may run at the same time.
fn is_alone(test: &TestBinary) -> bool {
    matches!((test.package.as_str(), test.target.as_str()), ("millpond", "machine") | ("linux", "kernel"))
}

fn run_job(job: &Job<'_>, built: &Built, suite: Suite, is_shown: bool) -> Finished {
    let threads = matrix::cpus().max(2);
    let mut command = as_test(job.binary, built);
    // Print the reason of a test that skips itself.
    command.arg("--show-output").arg(format!("--test-threads={threads}")).args(&job.arguments);
    set_cases(&mut command, suite);
    if let Some(guests) = suite.guests() {
        command.env("MILLPOND_VM", guests);
    }
    let began = Instant::now();
    let told = run_one(command, is_shown);
    let timed = Timed::of(job.name.clone(), &told, began.elapsed(), threads);
    Finished { package: job.binary.package.clone(), timed, told }
}

impl Finished {
    /// Its line while other jobs still run.
    fn line(&self) -> String {
        format!("{}  {}", counts(&self.told.tally, self.timed.time), self.timed.name)
    }
}

/// Sets the number of random cases per property, unless the environment has it.
fn set_cases(command: &mut Command, suite: Suite) {
    if std::env::var_os("PROPTEST_CASES").is_none() {
        command.env("PROPTEST_CASES", if suite == Suite::All { CASES_ALL } else { CASES });
    }
}

/// Runs the documentation examples of the suite.
fn run_documents(suite: Suite) -> Option<Row> {
    let root = suite.has_documents().then_some(None);
    let manifests: Vec<_> = root.into_iter().chain(suite.has_rt().then(|| Some(rt_manifest()))).collect();
    if manifests.is_empty() {
        return None;
    }
    let start = Instant::now();
    begin(DOCUMENTS, false);
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for manifest in manifests {
        let mut command = cargo();
        command.args(["test", "--quiet", "--doc"]);
        set_cases(&mut command, suite);
        match manifest {
            Some(manifest) => command.arg("--workspace").arg("--manifest-path").arg(manifest),
            None if suite == Suite::All => command.arg("--workspace"),
            None => &mut command,
        };
        let told = run_one(command, false);
        if told.tally.failed > 0 {
            failures.push((DOCUMENTS.to_owned(), told.output));
        }
        tally.add(&told.tally);
    }
    let row = Row { name: DOCUMENTS, tally, time: start.elapsed() };
    end(&row, false, &failures);
    Some(row)
}

/// The last two components of the crate's directory.
fn place(dir: &Path) -> String {
    let mut parts: Vec<_> = dir.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.reverse();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_there_are_can_be_wished_for() {
        let wish = |all, names: &[&str]| Wish {
            all,
            only: names.iter().map(|&n| n.to_owned()).collect(),
            ..Wish::default()
        };
        assert_eq!(wish(true, &["values", "documents", "fuzz"]).unknown(), None);
        assert_eq!(wish(false, &["values", "fuzz"]).unknown().map(String::as_str), Some("fuzz"));
        let slow = |name: &str| matrix::GROUPS.iter().find(|group| group.name == name).unwrap();
        assert!(wish(true, &["kubernetes"]).wants_slow(slow("kubernetes")));
        assert!(!wish(true, &[]).wants_slow(slow("kubernetes")) && wish(true, &[]).wants_slow(slow("miri")));
        assert!(wish(true, &[]).wants("fuzz") && !wish(true, &["miri"]).wants("fuzz"));
    }
}
