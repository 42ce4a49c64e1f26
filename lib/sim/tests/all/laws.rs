//! The laws on simulated machines.

use crate::common::SimSubject;
use millpond_machine::Machine;
use millpond_machine::laws::{self, Abilities, Law, Report, Subject, Tally, Times};
use millpond_model::{Lwp, Pid, State};
use millpond_sim::SimMachine;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Mutex;

/// Minimum number of random operations, over all machines.
const OPERATIONS: u64 = 100_000;

/// Scripts per job. The jobs are distributed over the host's CPUs.
const SCRIPTS: u32 = 100;

/// Jobs per machine: more for small machines, where operations conflict more often.
const JOBS: [(&str, u64); 3] = [("smartos-2", 26), ("x4200", 37), ("t2000", 5)];

fn named(machine: &str) -> SimSubject<SimMachine> {
    SimSubject(SimMachine::named(machine).expect("it comes with the program"))
}

/// Runs all jobs in parallel; returns the reports with their machines.
fn run_all() -> Vec<(&'static str, Report)> {
    let jobs = JOBS.iter().flat_map(|(machine, seeds)| (1..=*seeds).map(move |seed| (*machine, seed)));
    let jobs = Mutex::new(jobs);
    let work = || {
        let mut reports = Vec::new();
        loop {
            let next = jobs.lock().expect("nobody panics with it").next();
            let Some((machine, seed)) = next else { return reports };
            reports.push((machine, laws::run(|| named(machine), laws::cases(SCRIPTS), seed)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        started.into_iter().flat_map(|worker| worker.join().expect("it does not panic")).collect()
    })
}

#[test]
fn a_hundred_thousand_random_operations_break_no_law() {
    let mut total = Tally::default();
    let reports = run_all();
    for (machine, _) in JOBS {
        let mut tally = Tally::default();
        for (_, report) in reports.iter().filter(|(name, _)| *name == machine) {
            assert!(report.kept(), "{machine}\n{report}");
            tally.add(report.tally.clone());
        }
        let report = Report::of_tally(tally.clone(), &named(machine).abilities());
        report.expect_all_but(&[]);
        total.add(tally);
    }
    let report = Report::of_tally(total, &named("t2000").abilities());
    println!("{report}");
    assert!(report.tally.operations() >= OPERATIONS, "{report}");
    for sort in [
        "births",
        "changes of bindings",
        "changes of classes",
        "changes of dispatch tables",
        "changes of the memory of sets",
        "changes of sets",
        "changes of shares and caps",
        "changes of states, interrupts following",
        "ends",
        "passages of time",
        "programs started",
    ] {
        // Every kind of operation occurs.
        let done = report.tally.done.get(sort).copied().unwrap_or(0);
        assert!(done >= OPERATIONS / 100, "{sort}: {done}\n{report}");
    }
    assert!(report.tally.asked(Law::SharesAreKept) >= OPERATIONS / 400, "{report}");
    assert!(report.tally.asked(Law::CapsHold) >= OPERATIONS / 100, "{report}");
    assert!(report.tally.born.min(report.tally.ended) >= OPERATIONS / 100, "{report}");
}

#[test]
fn one_machine_obeys_every_law_through_many_scripts() {
    let mut subject = named("x4200");
    laws::run_in_place(&mut subject, laws::cases(200), 2).expect_all_but(&[]);
}

/// A machine with fewer capabilities. The snapshot number `wrong_in` is wrong.
struct Modest {
    inner: SimSubject<SimMachine>,
    wrong_in: Rc<Cell<i32>>,
}

impl Modest {
    fn new(wrong_in: &Rc<Cell<i32>>) -> Self {
        let machine = SimMachine::named("x4200").expect("it comes with the program");
        Modest { inner: SimSubject(machine), wrong_in: Rc::clone(wrong_in) }
    }
}

impl Subject for Modest {
    fn abilities(&self) -> Abilities {
        let all = Abilities::all(&"0-2".parse().expect("it is a list"));
        Abilities {
            states: vec![State::OnLine],
            exclusive: false,
            sees_lone_heirs: false,
            free_clock: false,
            programs: false,
            classes: false,
            controls: false,
            lgroups: false,
            prompt_interrupts: false,
            ..all
        }
    }
    fn machine(&self) -> &dyn Machine {
        self.inner.machine()
    }
    fn snapshot(&self, times: Times) -> Result<String, String> {
        self.wrong_in.set(self.wrong_in.get() - 1);
        if self.wrong_in.get() == 0 { Ok("a mirage".into()) } else { self.inner.snapshot(times) }
    }
    fn spawn(&mut self) -> Result<Pid, String> {
        self.inner.spawn()
    }
    fn add_thread(&mut self, pid: Pid) -> Result<Lwp, String> {
        self.inner.add_thread(pid)
    }
    fn fork(&mut self, parent: Pid) -> Result<Pid, String> {
        self.inner.fork(parent)
    }
    fn exit(&mut self, pid: Pid) -> Result<(), String> {
        self.inner.exit(pid)
    }
}

#[test]
fn what_a_machine_cannot_do_is_not_asked_and_the_report_says_so() {
    let never = Rc::new(Cell::new(-1));
    let report = laws::run(|| Modest::new(&never), 50, 1);
    report.expect_all_but(&[
        Law::OthersStayOutside,
        Law::LastOnlineStays,
        Law::LastInterruptibleStays,
        Law::ShelteredFromInterrupts,
        Law::StoppedKeepsItsSet,
        Law::SinceChangesWithState,
        Law::InterruptsArrive,
        Law::StoppedRunsNothing,
        Law::RunsWhereAllowed,
        Law::BooksBalance,
        Law::ClassesSurvive,
        Law::UndoneClassReturns,
        Law::CapsHold,
        Law::SharesAreKept,
        Law::LgroupsHoldEverything,
        Law::MemoryIsThere,
    ]);
    let text = report.to_string();
    for why in ["this machine makes no exclusive sets", "CPUs cannot be sheltered here"] {
        assert!(text.contains(why), "{why}\n{text}");
    }
}

#[test]
fn what_happens_only_once_is_shown_as_it_happened() {
    // Only some readings are compared; one of these must be.
    let reports = (200..240).map(|looks| {
        let soon = Rc::new(Cell::new(looks));
        laws::run(|| Modest::new(&soon), 50, 1)
    });
    let report = reports.into_iter().find(|report| !report.kept()).expect("one is");
    let text = report.to_string();
    for part in ["a mirage", "it did not happen again", "as code: run_script("] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| laws::run(|| SimSubject(SimMachine::named("smartos-2").unwrap()), 20, seed);
    assert_eq!(run(5).to_string(), run(5).to_string());
    assert_ne!(run(5).tally, run(6).tally);
}
