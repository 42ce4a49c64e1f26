//! Rules of CPU states, by name, as psradm(8) describes them, and interrupts.

use super::hands::{Hands, refusal};
use millpond_machine::facets::ProcessorStatus;
use millpond_machine::{Clock, Interrupts, Processors, Writer};
use millpond_model::{CpuId, Nanos, PsetId, State, WallTime};
use millpond_sim::state::BOOTED;

fn x4200() -> Hands {
    Hands::on("x4200")
}

fn since(m: &Hands, cpu: u32) -> WallTime {
    let states: Vec<ProcessorStatus> = m.0.states().expect("they can be read");
    states[cpu as usize].since
}

fn target(m: &Hands, device: &str) -> String {
    let list = Interrupts::list(&m.0).expect("they can be read");
    let found = list.iter().find(|i| i.name == device).expect("the device exists");
    found.effective.as_ref().expect("a processor takes interrupts").to_string()
}

#[test]
fn the_last_active_processor_of_its_own_set_stays_on_line() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.state(3, State::OffLine).unwrap();
    assert_eq!(refusal(m.state(2, State::OffLine)), "CPU 2: it is the last one on-line in set 1");
    m.state(1, State::OffLine).unwrap();
    assert_eq!(refusal(m.state(0, State::OffLine)), "CPU 0: it is the last one in the default set");
}

#[test]
fn the_last_processor_of_the_machine_stays_on_line() {
    let m = Hands::on("smartos-2");
    m.state(1, State::OffLine).unwrap();
    for state in [State::OffLine, State::Spare, State::Faulted] {
        assert_eq!(refusal(m.force_state(0, state)), "CPU 0: it is the last one on-line");
    }
}

#[test]
fn the_last_processor_that_takes_interrupts_neither_stops_nor_is_sheltered() {
    let m = x4200();
    for cpu in 1..4 {
        m.state(cpu, State::NoIntr).unwrap();
    }
    let why = "CPU 0: it is the last one that takes interrupts";
    assert_eq!(refusal(m.state(0, State::NoIntr)), why);
    assert_eq!(refusal(m.state(0, State::OffLine)), why);
}

#[test]
fn a_sheltered_processor_admits_interrupts_before_it_stops() {
    let m = x4200();
    for cpu in 1..4 {
        m.state(cpu, State::NoIntr).unwrap();
    }
    let writer = Writer::open(&m.0).unwrap();
    let change = m.0.prepare_state(CpuId(3), State::OffLine, false).unwrap();
    let now = BOOTED.0;
    let steps: Vec<String> = change.steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        steps,
        [
            format!("processor/3/state: no-intr since {now} -> on-line since {now}"),
            format!("processor/3/state: on-line since {now} -> off-line since {now}"),
        ]
    );
    writer.commit(change).unwrap();
    assert_eq!(m.state_of(3), State::OffLine);
}

#[test]
fn bound_threads_keep_a_processor_on_line_unless_forced() {
    let m = x4200();
    m.bind_lwp_cpu(204, 1, Some(3)).unwrap();
    assert_eq!(refusal(m.state(3, State::OffLine)), "CPU 3: a thread is bound to it: 204/1");
    m.state(3, State::NoIntr).unwrap();
    assert_eq!(m.thread(204, 1), "set 0, processor 3, 3", "no-intr leaves threads alone");
    m.force_state(3, State::Spare).unwrap();
    assert_eq!(m.thread(204, 1), "set 0, processor none, 0-2");
}

#[test]
fn a_faulted_processor_leaves_only_by_force() {
    let m = x4200();
    m.force_state(3, State::Faulted).unwrap();
    for state in [State::OnLine, State::NoIntr, State::OffLine, State::Spare] {
        let refused = m.state(3, state).unwrap_err();
        assert_eq!(refused.to_string(), "CPU 3: it is faulted");
        assert_eq!(refused.hint.as_deref(), Some("add -F to force the change"));
    }
    m.force_state(3, State::OnLine).unwrap();
}

#[test]
fn marks_change_among_stopped_processors_without_more_checks() {
    let m = Hands::on("smartos-2");
    m.state(1, State::OffLine).unwrap();
    m.state(1, State::Spare).unwrap();
    m.state(1, State::Faulted).unwrap();
    m.force_state(1, State::OffLine).unwrap();
    assert_eq!(m.state_of(1), State::OffLine);
}

#[test]
fn states_that_nobody_can_ask_for_are_refused() {
    let m = x4200();
    for state in [State::PoweredOff, State::Unknown] {
        let why = format!("CPU 3: a CPU that is on-line cannot become {state}");
        assert_eq!(refusal(m.force_state(3, state)), why);
    }
    let why = "CPU 3: a CPU that is on-line cannot become disabled";
    assert_eq!(refusal(m.state(3, State::Disabled)), why);
    m.force_state(3, State::Disabled).unwrap();
    assert_eq!(m.state_of(3), State::Disabled);
}

#[test]
fn a_stopped_processor_keeps_its_set_and_its_place() {
    let m = x4200();
    m.create(&[3, 2]).unwrap();
    m.state(3, State::OffLine).unwrap();
    assert_eq!(m.members(1), "3 2");
    m.state(3, State::OnLine).unwrap();
    assert_eq!(m.members(1), "3 2");
}

#[test]
fn setting_the_present_state_is_a_successful_nothing() {
    let m = x4200();
    m.0.sleep_until(Nanos::from_secs(60));
    let change = m.state(3, State::OnLine).unwrap();
    assert_eq!((change.from, change.to), (State::OnLine, State::OnLine));
    assert_eq!(since(&m, 3), BOOTED);
}

#[test]
fn since_times_tell_when_the_state_changed() {
    let m = x4200();
    m.0.sleep_until(Nanos::from_secs(3600));
    m.state(3, State::OffLine).unwrap();
    m.0.sleep_until(Nanos::from_secs(7200));
    m.state(2, State::NoIntr).unwrap();
    let since: Vec<i64> = (0..4).map(|cpu| since(&m, cpu).0 - BOOTED.0).collect();
    assert_eq!(since, [0, 0, 7200, 3600]);
}

#[test]
fn several_processors_change_together_or_not_at_all() {
    let m = x4200();
    let cpus = [CpuId(1), CpuId(2), CpuId(3), CpuId(0)];
    let refused = m.0.prepare_states(&cpus, State::NoIntr, false).unwrap_err();
    assert_eq!(refused.to_string(), "CPU 0: it is the last one that takes interrupts");
    let change = m.0.prepare_states(&cpus[..3], State::NoIntr, false).unwrap();
    Writer::open(&m.0).unwrap().commit(change).unwrap();
    assert_eq!(m.state_of(3), State::NoIntr);
    let again = m.0.prepare_states(&cpus[..3], State::NoIntr, false).unwrap();
    assert_eq!((again.steps.len(), again.outcome.len()), (0, 3), "no step for those that are there");
}

#[test]
fn device_interrupts_leave_sheltered_and_stopped_processors_and_come_back() {
    let m = x4200();
    assert_eq!(target(&m, "mpt0"), "2");
    m.state(2, State::NoIntr).unwrap();
    assert_eq!(target(&m, "mpt0"), "3");
    m.state(3, State::OffLine).unwrap();
    assert_eq!(target(&m, "mpt0"), "0");
    assert_eq!(target(&m, "e1000g0"), "1", "others stay where they are");
    m.state(2, State::OnLine).unwrap();
    assert_eq!(target(&m, "mpt0"), "2");
}

#[test]
fn a_set_may_keep_only_sheltered_processors() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.state(2, State::NoIntr).unwrap();
    m.state(3, State::NoIntr).unwrap();
    assert_eq!(m.0.view(|s| s.tables.active(PsetId(1)).to_string()), "2-3");
}
