//! Boots the requested groups, several at once, then passes their results to the test harness and prints the table.

use std::collections::VecDeque;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use millpond_vm::{
    Cache, Case, CaseResult, Decision, Report, Unavailable, Verdict, VmError, available, decide, is_required,
    obtain,
};

use crate::groups::{Check, Group};

/// Number of slowest cases that are listed per group.
const SLOWEST: usize = 12;

/// A group and, after its boot, its outcome. Empty for a group that was not requested.
struct Run {
    group: Group,
    outcome: OnceLock<Outcome>,
}

/// The outcome of a group.
enum Outcome {
    Booted(Report),
    /// It cannot run here.
    Skipped(Unavailable),
    Failed(String),
}

/// One test of a group.
#[derive(Clone)]
enum Item {
    Case(String),
    Check(Check),
}

/// Runs the requested tests. The exit status is that of cargo's test harness.
pub fn run(args: &Arguments, groups: Vec<Group>) -> ExitCode {
    let runs: Vec<Arc<Run>> =
        groups.into_iter().map(|group| Arc::new(Run { group, outcome: OnceLock::new() })).collect();
    if !args.list {
        boot_all(args, &runs);
    }
    let mut trials = Vec::new();
    for run in &runs {
        for item in run.items() {
            let (run, name) = (Arc::clone(run), run.name_of(&item));
            trials.push(Trial::ignorable_test(name, move || run.judge(&item)));
        }
    }
    let conclusion = libtest_mimic::run(args, trials);
    if !args.list {
        table(&runs);
    }
    conclusion.exit_code()
}

/// Boots every group with a requested test, as many at once as there are host CPUs (`--test-threads` changes that).
fn boot_all(args: &Arguments, runs: &[Arc<Run>]) {
    let jobs: Mutex<VecDeque<&Arc<Run>>> = Mutex::new(
        runs.iter().filter(|run| run.items().iter().any(|item| run.is_wanted(args, item))).collect(),
    );
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let at_once =
        args.test_threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    thread::scope(|scope| {
        for _ in 0..at_once.min(runs.len()) {
            scope.spawn(|| {
                while let Some(run) = next() {
                    let outcome = run.boot(args);
                    println!("vm: {}: {}", run.group.name, outcome.summary(run.group.judges_cases));
                    let _ = run.outcome.set(outcome);
                }
            });
        }
    });
}

impl Run {
    fn items(&self) -> Vec<Item> {
        let cases = self.group.cases.iter().filter(|_| self.group.judges_cases);
        cases
            .map(|case| Item::Case(case.name().to_owned()))
            .chain(self.group.checks.iter().map(|check| Item::Check(*check)))
            .collect()
    }

    fn name_of(&self, item: &Item) -> String {
        let name = match item {
            Item::Case(name) => name.as_str(),
            Item::Check((name, _)) => name,
        };
        format!("{}::{name}", self.group.name)
    }

    fn is_wanted(&self, args: &Arguments, item: &Item) -> bool {
        !args.is_filtered_out(&Trial::test(self.name_of(item), || Ok(())))
    }

    /// The cases to run: the requested ones; all if a check is requested, because it may use any of them.
    fn wanted_cases(&self, args: &Arguments) -> Vec<Case> {
        let wants_check =
            self.items().iter().any(|item| matches!(item, Item::Check(_)) && self.is_wanted(args, item));
        let is_wanted =
            |case: &&Case| wants_check || self.is_wanted(args, &Item::Case(case.name().to_owned()));
        self.group.cases.iter().filter(is_wanted).cloned().collect()
    }

    fn boot(&self, args: &Arguments) -> Outcome {
        let ready = available().and_then(|()| Cache::from_environment()).and_then(|cache| {
            Ok((obtain(self.group.kernel, &cache, &|note| println!("vm: {note}"))?, cache))
        });
        let (kernel, cache) = match ready {
            Ok(ready) => ready,
            Err(why) => return Outcome::lacking(why),
        };
        let guest = match self.group.guest(kernel) {
            Ok(guest) => guest,
            Err(why) => return Outcome::Failed(why),
        };
        match guest.run_cases(&self.wanted_cases(args), &cache) {
            Ok(report) => Outcome::Booted(report),
            Err(VmError::Unavailable(why)) => Outcome::lacking(why),
            Err(other) => Outcome::Failed(told(&other)),
        }
    }

    fn judge(&self, item: &Item) -> Result<Completion, Failed> {
        match (self.outcome.get(), item) {
            (None, _) => Err(Failed::from("the group was not booted")),
            (Some(Outcome::Failed(why)), _) => Err(Failed::from(why)),
            (Some(Outcome::Skipped(why)), _) => Ok(Completion::ignored_with(&why.why)),
            (Some(Outcome::Booted(report)), Item::Check((_, check))) => {
                check(report).map(|()| Completion::Completed).map_err(Failed::from)
            }
            (Some(Outcome::Booted(report)), Item::Case(name)) => {
                match report.cases.iter().find(|c| c.name == *name) {
                    Some(case) => judge_case(case, report),
                    None => Err(Failed::from("the case was not run")),
                }
            }
        }
    }
}

impl Outcome {
    /// A skip, unless these tests are required.
    fn lacking(why: Unavailable) -> Self {
        match decide::<()>(&Err(why), is_required()) {
            Decision::Run => Self::Failed("nothing is lacking".to_owned()),
            Decision::Skip(why) => Self::Skipped(why),
            Decision::Fail(why) => Self::Failed(format!(
                "cannot boot, and MILLPOND_REQUIRE forbids to skip: {}\nhint: {}",
                why.why, why.what_would_help
            )),
        }
    }

    fn summary(&self, judges_cases: bool) -> String {
        match self {
            Self::Booted(report) => {
                // Print failures now, because the run may be ended before its end.
                let is_wrong = |case: &&CaseResult| {
                    judges_cases && !matches!(case.verdict, Verdict::Passed | Verdict::Skipped(_))
                };
                let wrong: Vec<_> =
                    report.cases.iter().filter(is_wrong).map(|case| case.name.as_str()).collect();
                let wrong =
                    if wrong.is_empty() { String::new() } else { format!(", WRONG: {}", wrong.join(" ")) };
                format!(
                    "{} cases in {:.1} s (image {} ms, boot {:.1} s){wrong}",
                    report.cases.len(),
                    report.total_time.as_secs_f64(),
                    report.image_time.as_millis(),
                    report.boot_time.as_secs_f64()
                )
            }
            Self::Skipped(why) => format!("SKIPPED: {}; hint: {}", why.why, why.what_would_help),
            Self::Failed(why) => format!("FAILED: {}", why.lines().next().unwrap_or_default()),
        }
    }
}

fn judge_case(case: &CaseResult, report: &Report) -> Result<Completion, Failed> {
    let why = match &case.verdict {
        Verdict::Passed => {
            let figures = case.stdout.lines().filter_map(|line| Some(line.split_once("figure: ")?.1));
            figures.for_each(|figure| println!("vm: {}: {figure}", case.name));
            return Ok(Completion::Completed);
        }
        Verdict::Skipped(why) => return Ok(Completion::ignored_with(why)),
        Verdict::Failed(why) => why.clone(),
        Verdict::TimedOut => "it did not end in time".to_owned(),
        Verdict::Lost => report.trouble.as_ref().map_or_else(|| "it was lost".to_owned(), |t| told(t)),
    };
    let mut text = why;
    for (title, part) in [
        ("stdout", case.stdout.clone()),
        ("stderr", case.stderr.clone()),
        ("left behind", case.left.join("\n")),
        ("kernel", case.kernel_log.clone()),
    ] {
        if !part.trim().is_empty() {
            text.push_str(&format!("\n--- {title}\n{}", part.trim_end()));
        }
    }
    Err(Failed::from(text))
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Prints what ran, what was skipped, and why.
fn table(runs: &[Arc<Run>]) {
    println!("{:<22} {:>4} {:>7} {:>8}  notes", "vm group", "ran", "skipped", "seconds");
    for run in runs {
        let name = &run.group.name;
        match run.outcome.get() {
            None => {}
            Some(Outcome::Failed(_)) => println!("{name:<22} {:>4} {:>7} {:>8}  FAILED to boot", 0, 0, "-"),
            Some(Outcome::Skipped(why)) => {
                println!("{name:<22} {:>4} {:>7} {:>8}  SKIPPED: {}", 0, run.items().len(), "-", why.why);
                println!("{:<45}  hint: {}", "", why.what_would_help);
            }
            Some(Outcome::Booted(report)) => {
                let skipped =
                    report.cases.iter().filter(|c| matches!(c.verdict, Verdict::Skipped(_))).count();
                let seconds = report.total_time.as_secs_f64();
                let slowest = slowest(&report.cases);
                println!(
                    "{name:<22} {:>4} {skipped:>7} {seconds:>8.1}  {slowest}",
                    report.cases.len() - skipped
                );
                for case in &report.cases {
                    if let Verdict::Skipped(why) = &case.verdict {
                        println!("{:<45}  skipped {}: {why}", "", case.name);
                    }
                    for line in case.kernel_complaints() {
                        println!("{:<45}  kernel in {}: {line}", "", case.name);
                    }
                }
            }
        }
    }
}

/// The slowest cases, if any took long.
fn slowest(cases: &[CaseResult]) -> String {
    let mut long: Vec<_> = cases.iter().filter(|case| case.guest_ms >= 10_000).collect();
    long.sort_by_key(|case| std::cmp::Reverse(case.guest_ms));
    let named = |case: &&CaseResult| format!("{} ({} s)", case.name, case.guest_ms / 1000);
    let named: Vec<_> = long.iter().take(SLOWEST).map(named).collect();
    if named.is_empty() { String::new() } else { format!("longest: {}", named.join(", ")) }
}
