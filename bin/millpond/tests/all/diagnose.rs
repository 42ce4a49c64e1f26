//! `millpond diagnose` on real and on simulated programs. The expected findings were written before the code.
//!
//! The tests check relations, never times: a runnable thread is runnable also on a busy machine, and an idle thread
//! is idle.

use crate::captured::{err, millpond, out};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A program that runs until it is dropped.
struct Program(Child);

impl Program {
    /// Starts the program, and waits for its message that it is ready. `None` if it ended before.
    fn start(command: &mut Command) -> Option<Program> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let is_ready = lines.any(|line| line == "ready");
        let program = Program(child);
        is_ready.then_some(program)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Programs of this folder, compiled for one test.
struct Built(tempfile::TempDir);

impl Built {
    /// Compiles a program in the folder. If the compiler is not installed, prints that and returns `None`.
    fn by(test: &str, compiler: &str, words: &[&str]) -> Option<Built> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(compiler);
        command.args(words).arg(dir.path()).current_dir(Path::new(ROOT).join("tests/programs"));
        command.env("GOCACHE", dir.path().join("cache")).stdout(Stdio::null());
        match command.status() {
            Ok(status) => assert!(status.success(), "{compiler} {words:?}"),
            Err(why) => {
                println!("skipped: {test}: there is no {compiler} here: {why}");
                return None;
            }
        }
        Some(Built(dir))
    }

    fn shapes(test: &str) -> Option<Built> {
        let words = ["-c", "exec cc -O1 -Wall -Wextra -Werror -pthread shapes.c -o \"$1/shapes\"", "sh"];
        if Command::new("cc").arg("--version").output().is_err() {
            println!("skipped: {test}: there is no cc here");
            return None;
        }
        Built::by(test, "sh", &words)
    }

    fn program(&self, name: &str) -> Command {
        Command::new(self.0.path().join(name))
    }
}

/// The verdict on a program. If the kernel does not show what its threads wait for, prints that and returns `None`.
fn verdict(test: &str, program: &Program) -> Option<Value> {
    verdict_after(test, program.pid(), "1s")
}

fn verdict_after(test: &str, pid: u32, time: &str) -> Option<Value> {
    let state = tempfile::tempdir().unwrap();
    let mut command = millpond();
    command.args(["diagnose", "--for", time, "--json", &pid.to_string()]);
    let done = command.env("MILLPOND_STATE", state.path()).output().unwrap();
    let said: Value = serde_json::from_str(&out(&done)).unwrap_or_else(|e| panic!("{e}: {}", err(&done)));
    if said["lck"].is_null() {
        println!("skipped: {test}: {}", said["missing"]);
        return None;
    }
    println!("{said:#}");
    Some(said)
}

fn kinds(said: &Value) -> Vec<&str> {
    said["findings"].as_array().unwrap().iter().map(|found| found["kind"].as_str().unwrap()).collect()
}

/// The verdict on a shape of `shapes.c`.
fn of_shape(test: &str, shape: &str) -> Option<(Value, u32)> {
    let built = Built::shapes(test)?;
    let program = Program::start(built.program("shapes").arg(shape))?;
    Some((verdict(test, &program)?, program.pid()))
}

/// Findings that no idle thread may get.
const HELD_UP: [&str; 3] = ["mutex", "resource", "priority-inversion"];

fn is_not_held_up(said: &Value) {
    let kinds = kinds(said);
    assert!(!kinds.iter().any(|kind| HELD_UP.contains(kind)), "{said}");
}

/// One thread computes and the others are idle: no finding about locks, and one runnable thread. `others` threads
/// wake up now and then by themselves. On a busy machine each may wait for a CPU then, but at most for the whole
/// time.
fn is_one_that_computes(said: &Value, others: f64) {
    let kinds = kinds(said);
    assert!(["cpu", "computes"].contains(&kinds[0]), "{kinds:?}");
    is_not_held_up(said);
    wants(said, 1.0, 1.0 + others);
}

/// The number of runnable threads is in this range, and the times of each thread in its states add up to the observed
/// time, within a twentieth.
fn wants(said: &Value, least: f64, most: f64) {
    let wanted = said["wanted_threads"].as_f64().unwrap();
    assert!((0.95 * least..=most + 0.05).contains(&wanted), "{wanted}: {said}");
}

#[test]
fn a_thread_pool_of_which_one_computes_on_a_loaded_machine_waits_for_a_cpu() {
    let test = "diagnose::a_thread_pool_of_which_one_computes_on_a_loaded_machine_waits_for_a_cpu";
    let Some(built) = Built::shapes(test) else { return };
    // Both run on the CPU of the pool.
    let _load = [(); 2].map(|()| Program::start(built.program("shapes").arg("spin")).unwrap());
    let program = Program::start(built.program("shapes").arg("pool")).unwrap();
    let Some(said) = verdict(test, &program) else { return };
    is_one_that_computes(&said, 0.0);
    assert_eq!(kinds(&said)[0], "cpu");
    assert!(!kinds(&said).contains(&"undecided"));
    // Eight of ten threads wait for work and one in pthread_join. As on Solaris, LCK includes all of them.
    let part = |name: &str| said["lck"][name].as_f64().unwrap();
    assert!((0.75..0.85).contains(&part("condition")) && (0.09..0.11).contains(&part("join")));
    assert!(said["shares"]["lck"].as_f64().unwrap() > 0.85);
}

#[test]
fn threads_of_a_connection_pool_are_idle() {
    let test = "diagnose::threads_of_a_connection_pool_are_idle";
    let Some((said, _)) = of_shape(test, "connections") else { return };
    is_not_held_up(&said);
    assert!(!kinds(&said).contains(&"undecided"), "{said}");
    assert!(said["wanted_threads"].as_f64().unwrap() < 1.0);
    assert!(said["lck"]["condition"].as_f64().unwrap() > 0.7);
}

#[test]
fn workers_that_post_work_themselves_are_at_no_mutex() {
    let test = "diagnose::workers_that_post_work_themselves_are_at_no_mutex";
    let Some((said, _)) = of_shape(test, "posters") else { return };
    is_not_held_up(&said);
}

#[test]
fn workers_that_wait_as_long_as_requests_let_them_are_idle() {
    let test = "diagnose::workers_that_wait_as_long_as_requests_let_them_are_idle";
    let Some((said, _)) = of_shape(test, "requests") else { return };
    is_not_held_up(&said);
    assert!(!kinds(&said).contains(&"undecided"), "{said}");
    assert_eq!(said["lck"]["resource"], 0.0, "{said}");
}

#[test]
fn threads_that_wait_for_the_permit_of_another_are_held_up() {
    let test = "diagnose::threads_that_wait_for_the_permit_of_another_are_held_up";
    let Some(built) = Built::shapes(test) else { return };
    let program = Program::start(built.program("shapes").arg("permits")).unwrap();
    let Some(said) = verdict_after(test, program.pid(), "3s") else { return };
    // A permit is held for 4 ms of CPU time. If other programs leave too little CPU time, there is no rhythm, or its
    // holders mostly wait for a CPU.
    let figure = |name: &str| said[name].as_f64().unwrap();
    let took = |name: &str| said["shares"][name].as_f64().unwrap() * figure("threads") * figure("elapsed_s");
    let (ran, waited) = (took("usr") + took("sys"), took("lat"));
    if ran < 0.25 || (waited > ran / 4.0 && kinds(&said).contains(&"undecided")) {
        return println!(
            "skipped: {test}: the machine is busy: of 3 s the program ran for {ran:.3} s and waited for {waited:.3} s"
        );
    }
    assert!(kinds(&said).contains(&"resource") && !kinds(&said).contains(&"mutex"), "{said}");
    // One of four threads holds the permit, or could take it.
    let found =
        said["findings"].as_array().unwrap().iter().find(|found| found["kind"] == "resource").unwrap();
    assert!(found["figure"].as_f64().unwrap() <= 3.05, "{said}");
    assert_eq!(said["locks"][0]["kind"], "resource", "{said}");
}

#[test]
fn followers_of_a_leader_that_waits_for_requests_are_not_held_up() {
    let test = "diagnose::followers_of_a_leader_that_waits_for_requests_are_not_held_up";
    let Some((said, _)) = of_shape(test, "leaders") else { return };
    // They are idle, or cannot be distinguished from threads that wait for the only connection to a slow server.
    is_not_held_up(&said);
}

#[test]
fn an_event_loop_is_idle() {
    let test = "diagnose::an_event_loop_is_idle";
    // tests/vm/tests/nginx.rs has a test with a real event loop.
    let Some((said, _)) = of_shape(test, "events") else { return };
    assert_eq!(kinds(&said), ["idle"], "{said}");
}

#[test]
fn a_contended_mutex_is_found_with_its_place_and_holder() {
    let test = "diagnose::a_contended_mutex_is_found_with_its_place_and_holder";
    let Some((said, _)) = of_shape(test, "mutex") else { return };
    assert!(kinds(&said).contains(&"mutex"), "{said}");
    let lock = said["locks"].as_array().unwrap().iter().find(|lock| lock["kind"] == "mutex").unwrap();
    assert_eq!((&lock["place"], lock["holder"].is_u64()), (&Value::from("shapes"), true), "{lock}");
    // Three threads contend. The fourth waits for work, and the first for a signal.
    wants(&said, 3.0, 3.0);
}

#[test]
fn a_mutex_that_is_held_all_the_time_is_found_with_its_holder() {
    let test = "diagnose::a_mutex_that_is_held_all_the_time_is_found_with_its_holder";
    let Some((said, pid)) = of_shape(test, "held") else { return };
    assert_eq!(kinds(&said), ["mutex"], "{said}");
    assert_eq!(said["locks"][0]["holder"], pid, "{said}");
}

#[test]
fn a_word_that_may_be_a_mutex_or_a_condition_is_undecided() {
    let test = "diagnose::a_word_that_may_be_a_mutex_or_a_condition_is_undecided";
    let Some((said, _)) = of_shape(test, "word") else { return };
    assert_eq!(kinds(&said), ["undecided"], "{said}");
    let threads = said["findings"][0]["figure"].as_f64().unwrap();
    assert!((1.9..2.1).contains(&threads), "{threads}");
}

#[test]
fn priority_inversion_is_found() {
    let test = "diagnose::priority_inversion_is_found";
    let Some(built) = Built::shapes(test) else { return };
    let Some(program) = Program::start(built.program("shapes").arg("inversion")) else {
        println!("skipped: {test}: the class for real time is not permitted here");
        return;
    };
    let Some(said) = verdict(test, &program) else { return };
    let kinds = kinds(&said);
    let at = |kind: &str| kinds.iter().position(|found| *found == kind);
    assert!(at("mutex").is_some_and(|mutex| at("priority-inversion") == Some(mutex + 1)), "{kinds:?}");
}

#[test]
fn a_mutex_with_priority_inheritance_inverts_none() {
    let test = "diagnose::a_mutex_with_priority_inheritance_inverts_none";
    let Some(built) = Built::shapes(test) else { return };
    let Some(program) = Program::start(built.program("shapes").arg("inheritance")) else {
        println!("skipped: {test}: the class for real time is not permitted here");
        return;
    };
    let Some(said) = verdict(test, &program) else { return };
    // Threads wait for the mutex, but not longer than it is held.
    assert!(said["locks"].as_array().unwrap().iter().any(|lock| lock["kind"] == "mutex"), "{said}");
    assert!(!kinds(&said).contains(&"priority-inversion"), "{said}");
}

#[test]
fn idle_workers_of_rayon_are_idle() {
    let test = "diagnose::idle_workers_of_rayon_are_idle";
    let tests = std::env::current_exe().unwrap();
    let example: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples/pool");
    if !example.is_file() {
        println!("skipped: {test}: the example is not built (cargo test builds it unless only this test is)");
        return;
    }
    let program = Program::start(&mut Command::new(example)).unwrap();
    let Some(said) = verdict(test, &program) else { return };
    let computing: Vec<&str> = kinds(&said).into_iter().filter(|kind| *kind != "undecided").collect();
    assert!(["cpu", "computes"].contains(&computing[0]), "{said}");
    is_not_held_up(&said);
    // A worker looks for work now and then. On a busy machine it may wait for a CPU then.
    wants(&said, 1.0, 2.0);
}

#[test]
fn idle_threads_of_go_are_idle() {
    let test = "diagnose::idle_threads_of_go_are_idle";
    let words = ["-c", "exec go build -o \"$1/pool\" pool.go", "sh"];
    if Command::new("go").arg("version").output().is_err() {
        println!("skipped: {test}: there is no go here");
        return;
    }
    let Some(built) = Built::by(test, "sh", &words) else { return };
    let program = Program::start(&mut built.program("pool")).unwrap();
    let Some(said) = verdict(test, &program) else { return };
    // The monitor of the Go runtime wakes up by itself, a hundred times a second.
    is_one_that_computes(&said, 1.0);
    assert!(!kinds(&said).contains(&"undecided"), "{said}");
}

#[test]
fn idle_threads_of_java_are_idle() {
    let test = "diagnose::idle_threads_of_java_are_idle";
    let Some(built) = Built::by(test, "javac", &["Pool.java", "-d"]) else { return };
    let mut java = Command::new("java");
    // The program is interpreted, with one thread for garbage collection, so that no other thread of the virtual
    // machine computes.
    java.args(["-Xint", "-XX:+UseSerialGC", "-cp"]).arg(built.0.path()).arg("Pool");
    if Command::new("java").arg("-version").output().is_err() {
        println!("skipped: {test}: there is no java here");
        return;
    }
    let program = Program::start(&mut java).unwrap();
    let Some(said) = verdict(test, &program) else { return };
    // Three threads of the virtual machine wake up by themselves: for periodic tasks, for unused monitors, and for
    // safepoints.
    is_one_that_computes(&said, 3.0);
    assert!(!kinds(&said).contains(&"undecided"), "{said}");
}

/// The verdict on the first program that a script starts.
fn simulated(load: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script.sim");
    std::fs::write(&script, format!("priocntl -e {load}\nrun 1\ndiagnose --json --for 2 300\n")).unwrap();
    let done = millpond().args(["sim", "x4200"]).arg(&script).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    serde_json::from_str(out(&done).lines().last().unwrap()).unwrap()
}

#[test]
fn threads_that_sleep_at_a_barrier_wait_for_no_mutex() {
    let said = simulated("cg -t 6 --wait block");
    let kinds = kinds(&said);
    assert!(kinds.contains(&"barrier") && !kinds.contains(&"mutex"), "{said}");
    let part = |value: &Value| value.as_f64().unwrap();
    assert_eq!(said["lck"]["barrier"], said["shares"]["lck"]);
    let waits = said["findings"].as_array().unwrap().iter().find(|found| found["kind"] == "barrier").unwrap();
    // At every moment, each of the six threads is runnable, at the barrier, or asleep.
    let sum = part(&waits["figure"]) + part(&said["wanted_threads"]) + 6.0 * part(&said["shares"]["slp"]);
    assert!((sum - 6.0).abs() < 0.01, "{sum}: {said}");
}

#[test]
fn more_that_compute_than_processors_wait_for_them() {
    let said = simulated("spin -t 6");
    assert_eq!(kinds(&said), ["cpu", "computes"], "{said}");
    assert!((said["wanted_threads"].as_f64().unwrap() - 6.0).abs() < 0.01, "{said}");
}
