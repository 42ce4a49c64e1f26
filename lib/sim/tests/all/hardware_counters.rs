//! Hardware counters on simulated machines: their values, and events of CPUs and threads while they count.

use millpond_machine::facets::{CpuCounting, Follow, Happening, Tracked, Tracking, Wanted};
use millpond_machine::{Clock, HardwareCounters};
use millpond_model::{CpuId, Lwp, LwpId, Nanos, Pid, State};
use millpond_sim::SimMachine;
use millpond_sim::workloads::Load;

/// 1 GHz: a cycle is a nanosecond.
fn machine() -> SimMachine {
    SimMachine::named("t2000").expect("it comes with the program")
}

fn load(machine: &SimMachine, text: &str) -> Pid {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    machine.start_load(&Load::parse(&words).expect("the words are right"))
}

fn set(event: &str, user: bool, sys: bool) -> Vec<Wanted> {
    vec![Wanted { counter: 0, event: event.into(), user, sys }]
}

fn first(counting: &mut dyn CpuCounting) -> Vec<Result<u64, String>> {
    counting.read().into_iter().map(|r| r.counted.map(|counted| counted.values[0])).collect()
}

#[test]
fn all_processors_together_count_the_time_that_threads_ran() {
    let machine = machine();
    load(&machine, "spin -t 3");
    machine.sleep_until(Nanos::from_secs(1));
    let cpus: Vec<CpuId> = (0..32).map(CpuId).collect();
    let mut counting = machine.count_cpus(&cpus, &[set("cycles", true, true)]).unwrap();
    counting.start(0).unwrap();
    machine.sleep_until(Nanos::from_secs(3));
    let sum: u64 = first(counting.as_mut()).into_iter().map(Result::unwrap).sum();
    assert_eq!(sum, 6_000_000_000);
}

#[test]
fn modes_add_up() {
    let machine = machine();
    load(&machine, "nap");
    let sets = [(true, false), (false, true), (true, true)].map(|(user, sys)| set("Cycle_cnt", user, sys));
    let cpus: Vec<CpuId> = (0..32).map(CpuId).collect();
    let mut three: Vec<_> = sets
        .iter()
        .map(|set| {
            let mut counting = machine.count_cpus(&cpus, std::slice::from_ref(set)).unwrap();
            counting.start(0).unwrap();
            counting
        })
        .collect();
    machine.sleep_until(Nanos::from_secs(1));
    let sums: Vec<u64> =
        three.iter_mut().map(|c| first(c.as_mut()).into_iter().map(Result::unwrap).sum()).collect();
    assert!(sums[0] > 0 && sums[1] > 0);
    assert_eq!(sums[0] + sums[1], sums[2]);
}

#[test]
fn a_processor_that_goes_off_line_is_told_and_does_not_count_again() {
    let machine = machine();
    let off = |state| {
        machine.edit(|s| s.tables.processors.get_mut(&CpuId(1)).unwrap().state = state);
    };
    let mut counting = machine.count_cpus(&[CpuId(0), CpuId(1)], &[set("cycles", true, false)]).unwrap();
    counting.start(0).unwrap();
    off(State::OffLine);
    assert_eq!(first(counting.as_mut()), [Ok(0), Err("it is off-line".into())]);
    off(State::OnLine);
    assert_eq!(first(counting.as_mut()), [Ok(0), Err("it is off-line".into())], "something was missed");
    off(State::OffLine);
    let refusal = machine.count_cpus(&[CpuId(1)], &[set("cycles", true, false)]).err().unwrap();
    assert_eq!(refusal.to_string(), "CPU 1: it is off-line");
}

/// Events until all threads have ended, or until `until`, without times.
fn happenings(tracking: &mut dyn Tracking, until: Nanos) -> Vec<String> {
    let lwp = |lwp: Lwp| format!("{}/{}", lwp.pid, lwp.lwp);
    let mut told = Vec::new();
    loop {
        told.push(match tracking.next(until).expect("it tells") {
            Happening::Due => return told,
            Happening::Over => {
                told.push("over".into());
                return told;
            }
            Happening::Began { lwp: who, .. } => format!("began {}", lwp(who)),
            Happening::Ended(reading) => format!("ended {}: {}", lwp(reading.lwp), reading.counted.values[0]),
            Happening::Forked { lwp: who, child } => format!("{} forked {child}", lwp(who)),
            Happening::Exited { pid } => format!("exited {pid}"),
            other => format!("{other:?}"),
        });
    }
}

#[test]
fn a_process_that_is_followed_tells_of_its_children() {
    let machine = machine();
    let pid = load(&machine, "fork --every 10 --life 5");
    let follow = Follow { forks: true, execs: false };
    let sets = [set("instructions", true, false)];
    let mut tracking = machine.track(&Tracked::Process(pid), &sets, follow).unwrap();
    let (a, b) = (Pid(pid.0 + 1), Pid(pid.0 + 2));
    let expected = [
        format!("began {pid}/1"),
        format!("{pid}/1 forked {a}"),
        format!("began {a}/1"),
        format!("ended {a}/1: 5000000"),
        format!("exited {a}"),
        format!("{pid}/1 forked {b}"),
        format!("began {b}/1"),
        format!("ended {b}/1: 5000000"),
        format!("exited {b}"),
    ];
    assert_eq!(happenings(tracking.as_mut(), Nanos::from_millis(19)), expected);
    // End the last process.
    assert!(machine.exit(pid));
    let rest = happenings(tracking.as_mut(), Nanos::from_secs(1));
    assert_eq!(rest, [format!("ended {pid}/1: 0"), format!("exited {pid}"), "over".into()]);
}

#[test]
fn a_process_that_sleeps_for_ever_counts_nothing_and_may_be_ended() {
    let machine = machine();
    let pid = machine.spawn("sleeper", 2);
    let sets = [set("cycles", true, true)];
    let mut tracking = machine.track(&Tracked::Process(pid), &sets, Follow::default()).unwrap();
    let began = happenings(tracking.as_mut(), Nanos::from_secs(1));
    assert_eq!(began, [format!("began {pid}/1"), format!("began {pid}/2")]);
    assert_eq!(tracking.read().iter().map(|r| r.counted.values[0]).collect::<Vec<_>>(), [0, 0]);
    assert!(machine.exit(pid));
    let rest = happenings(tracking.as_mut(), Nanos::from_secs(2));
    assert_eq!(
        rest,
        [format!("ended {pid}/1: 0"), format!("ended {pid}/2: 0"), format!("exited {pid}"), "over".into()]
    );
}

#[test]
fn a_thread_counts_from_the_beginning_of_its_set() {
    let machine = machine();
    let pid = load(&machine, "spin");
    machine.sleep_until(Nanos::from_secs(1));
    let sets = [set("cycles", true, false), set("instructions", true, false)];
    let mut tracking = machine.track(&Tracked::Process(pid), &sets, Follow::default()).unwrap();
    let value = |tracking: &mut dyn Tracking| tracking.read()[0].counted.values[0];
    happenings(tracking.as_mut(), Nanos::from_secs(2));
    assert_eq!(value(tracking.as_mut()), 1_000_000_000);
    tracking.start(1).unwrap();
    assert_eq!(value(tracking.as_mut()), 0);
    happenings(tracking.as_mut(), Nanos::from_millis(2_500));
    assert_eq!(value(tracking.as_mut()), 500_000_000);
    let saved = machine.save();
    assert_eq!(SimMachine::load(&saved).unwrap().save(), saved);
    let who = Lwp { pid, lwp: LwpId(1) };
    assert_eq!(tracking.read()[0].lwp, who);
}
