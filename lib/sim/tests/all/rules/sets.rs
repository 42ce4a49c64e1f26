//! Rules of sets and bindings, by name: refusals, ids and order, inheritance, errors, and a complete session, as psrset(8) and
//! pbind(8) describe them.

use super::hands::{Hands, lwp, refusal};
use millpond_machine::Psets;
use millpond_model::{CpuId, CpuSet, Pid, PsetId, State};

/// Four CPUs on two chips: 0 and 1, 2 and 3.
fn x4200() -> Hands {
    Hands::on("x4200")
}

#[test]
fn the_last_processor_of_the_default_set_stays() {
    let m = x4200();
    m.create(&[1, 2, 3]).unwrap();
    assert_eq!(refusal(m.assign(1, &[0])), "CPU 0: it is the last one in the default set");
    assert_eq!(refusal(m.create(&[0])), "CPU 0: it is the last one in the default set");
    assert_eq!(refusal(m.force_assign(1, &[0])), "CPU 0: it is the last one in the default set");
}

#[test]
fn off_line_processors_do_not_keep_the_default_set_going() {
    let m = x4200();
    m.state(1, State::OffLine).unwrap();
    m.create(&[2, 3]).unwrap();
    assert_eq!(refusal(m.assign(1, &[0])), "CPU 0: it is the last one in the default set");
}

#[test]
fn the_last_processor_of_a_set_with_bound_threads_stays_even_by_force() {
    let m = x4200();
    m.create(&[2]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    let why = "CPU 2: it is the last one in set 1, and threads are bound to that set";
    assert_eq!(refusal(m.assign(0, &[2])), why);
    assert_eq!(refusal(m.force_assign(0, &[2])), why);
}

#[test]
fn the_last_processor_of_a_set_nobody_is_bound_to_leaves_it_empty() {
    let m = x4200();
    m.create(&[2]).unwrap();
    m.assign(0, &[2]).unwrap();
    assert_eq!(m.members(1), "");
}

#[test]
fn threads_that_are_loosely_bound_let_the_last_processor_go_and_return_to_the_default_set() {
    let m = x4200();
    m.create(&[2]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    m.0.soften(lwp(204, 1));
    m.0.soften(lwp(204, 2));
    m.assign(0, &[2]).unwrap();
    assert_eq!(m.thread(204, 1), "set 0, processor none, 0-3");
    assert_eq!(m.thread(204, 2), "set 0, processor none, 0-3");
}

#[test]
fn a_processor_with_firmly_bound_threads_moves_only_by_force_which_unbinds_them() {
    let m = x4200();
    m.create(&[2]).unwrap();
    m.bind_cpu(204, Some(3)).unwrap();
    assert_eq!(refusal(m.assign(1, &[3])), "CPU 3: threads are bound to it: 204/1, 204/2");
    m.force_assign(1, &[3]).unwrap();
    assert_eq!(m.thread(204, 1), "set 0, processor none, 0-1");
    assert_eq!(m.members(1), "2 3");
}

#[test]
fn a_processor_with_loosely_bound_threads_moves_and_unbinds_them() {
    let m = x4200();
    m.bind_lwp_cpu(204, 1, Some(3)).unwrap();
    m.0.soften(lwp(204, 1));
    m.create(&[3]).unwrap();
    assert_eq!(m.thread(204, 1), "set 0, processor none, 0-2");
}

#[test]
fn force_breaks_bindings_to_processors_and_not_to_sets() {
    let m = x4200();
    m.create(&[1, 2]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    m.bind_lwp_cpu(204, 1, Some(2)).unwrap();
    m.force_assign(0, &[2]).unwrap();
    assert_eq!(m.thread(204, 1), "set 1, processor none, 1");
}

#[test]
fn an_off_line_processor_is_not_assigned() {
    let m = x4200();
    for state in [State::OffLine, State::Spare, State::Faulted] {
        m.force_state(3, state).unwrap();
        assert_eq!(refusal(m.create(&[3])), format!("CPU 3: it is {state}"));
    }
}

#[test]
fn a_set_that_is_destroyed_gives_back_its_processors_and_threads() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    m.state(3, State::OffLine).unwrap();
    m.destroy(1).unwrap();
    assert_eq!(m.members(0), "0 1 2 3");
    assert_eq!(m.thread(204, 2), "set 0, processor none, 0-2");
    assert_eq!(m.state_of(3), State::OffLine);
}

#[test]
fn a_thread_keeps_its_processor_when_its_set_is_destroyed() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    m.bind_lwp_cpu(204, 1, Some(3)).unwrap();
    m.destroy(1).unwrap();
    assert_eq!(m.thread(204, 1), "set 0, processor 3, 3");
}

#[test]
fn a_thread_that_is_bound_to_a_processor_elsewhere_cannot_go_to_a_set() {
    let m = x4200();
    m.create(&[2]).unwrap();
    m.bind_lwp_cpu(204, 2, Some(1)).unwrap();
    let answer = m.bind_set(204, Some(1));
    assert_eq!(refusal(answer), "process 204: it is bound to CPU 1, which is not in set 1");
    assert_eq!(m.thread(204, 1), "set 0, processor none, 0-1,3", "its other thread is not bound either");
    m.bind_lwp_set(204, 1, Some(1)).unwrap();
    assert_eq!(m.thread(204, 1), "set 1, processor none, 2");
}

#[test]
fn a_thread_that_is_bound_to_a_processor_of_its_set_cannot_leave_the_set() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    m.bind_lwp_cpu(204, 1, Some(3)).unwrap();
    let answer = m.bind_lwp_set(204, 1, None);
    assert_eq!(refusal(answer), "thread 204/1: it is bound to CPU 3, which is not in set 0");
}

#[test]
fn unbinding_from_a_processor_leaves_the_set_in_force() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    m.bind_lwp_cpu(204, 1, Some(3)).unwrap();
    m.bind_set(204, Some(1)).unwrap();
    assert_eq!(m.thread(204, 1), "set 1, processor 3, 3");
    m.bind_cpu(204, None).unwrap();
    assert_eq!(m.thread(204, 1), "set 1, processor none, 2-3");
}

#[test]
fn kernel_processes_are_not_bound() {
    let m = x4200();
    m.create(&[2]).unwrap();
    assert_eq!(refusal(m.bind_set(0, Some(1))), "process 0: it is a kernel thread");
    assert_eq!(refusal(m.bind_set(3, None)), "process 3: it is a kernel thread");
    assert_eq!(refusal(m.bind_cpu(2, Some(0))), "process 2: it is a kernel thread");
}

#[test]
fn there_are_at_most_two_sets_for_each_processor() {
    let m = Hands::on("smartos-2");
    for id in 1..=4 {
        assert_eq!(m.create(&[]).unwrap(), PsetId(id));
    }
    assert_eq!(refusal(m.create(&[])), "the machine: no more than 4 sets are possible");
}

#[test]
fn a_new_set_has_the_lowest_free_number_and_stands_last() {
    let m = x4200();
    for _ in 0..3 {
        m.create(&[]).unwrap();
    }
    m.destroy(2).unwrap();
    m.destroy(1).unwrap();
    assert_eq!(m.create(&[]).unwrap(), PsetId(1));
    let order: Vec<u32> = Psets::list(&m.0).unwrap().iter().map(|s| s.id.0).collect();
    assert_eq!(order, [3, 1], "sets are listed in order of creation");
}

#[test]
fn members_stand_in_order_of_arrival() {
    let m = Hands::on("t2000");
    m.create(&[7, 3, 5]).unwrap();
    m.assign(1, &[4]).unwrap();
    m.assign(0, &[3]).unwrap();
    m.assign(1, &[3, 7]).unwrap();
    assert_eq!(m.members(1), "7 5 4 3", "who is there already keeps the place");
    m.state(5, State::OffLine).unwrap();
    assert_eq!(m.members(1), "7 5 4 3", "who is off-line keeps it too");
}

#[test]
fn processors_come_from_other_sets_too() {
    let m = Hands::on("t2000");
    m.create(&[1, 2]).unwrap();
    m.create(&[2, 3]).unwrap();
    assert_eq!((m.members(1), m.members(2)), ("1".into(), "2 3".into()));
}

#[test]
fn a_set_of_which_one_processor_cannot_come_is_not_made() {
    let m = x4200();
    m.state(3, State::OffLine).unwrap();
    assert_eq!(refusal(m.create(&[1, 2, 3])), "CPU 3: it is off-line");
    assert_eq!(Psets::list(&m.0).unwrap(), []);
    assert_eq!(m.members(0), "0 1 2 3");
}

#[test]
fn operands_that_name_nothing_are_refused() {
    let m = x4200();
    m.create(&[2]).unwrap();
    let unknown = "CPU 8: there is no such CPU (this machine has 0-3)";
    assert_eq!(refusal(m.create(&[8])), unknown);
    assert_eq!(refusal(m.assign(1, &[1, 8])), unknown);
    assert_eq!(refusal(m.state(8, State::OffLine)), unknown);
    assert_eq!(refusal(m.bind_cpu(204, Some(8))), unknown);
    assert_eq!(refusal(m.assign(1, &[1, 1])), "CPU 1: it is named twice");
    assert_eq!(refusal(m.assign(9, &[1])), "processor set 9: there is no such processor set");
    assert_eq!(refusal(m.destroy(9)), "processor set 9: there is no such processor set");
    let default = "processor set 0: set 0 is the default set, which holds whatever is in no other";
    assert_eq!(refusal(m.destroy(0)), default);
    assert_eq!(refusal(m.bind_set(204, Some(0))), default);
    assert_eq!(refusal(m.bind_set(204, Some(9))), "processor set 9: there is no such processor set");
    assert_eq!(refusal(m.bind_set(9999, Some(1))), "process 9999: there is no such process");
    let no_lwp = "thread 204/9: there is no such thread in the process";
    assert_eq!(refusal(m.bind_lwp_set(204, 9, Some(1))), no_lwp);
}

#[test]
fn nothing_can_be_bound_to_an_empty_set() {
    let m = x4200();
    m.create(&[]).unwrap();
    assert_eq!(refusal(m.bind_set(31, Some(1))), "processor set 1: set 1 is empty");
}

#[test]
fn a_thread_is_bound_to_active_processors_of_its_own_set_only() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    let other = "process 204: CPU 2 is in set 1, the thread in set 0";
    assert_eq!(refusal(m.bind_cpu(204, Some(2))), other);
    m.bind_set(204, Some(1)).unwrap();
    m.bind_cpu(204, Some(2)).unwrap();
    m.state(3, State::OffLine).unwrap();
    assert_eq!(refusal(m.bind_cpu(204, Some(3))), "CPU 3: it is off-line");
}

#[test]
fn unbinding_what_is_not_bound_succeeds() {
    let m = x4200();
    let answer = m.bind_set(204, None).unwrap();
    assert_eq!((answer[0].pid, answer[0].from, answer[0].to), (Pid(204), None, None));
    assert_eq!(m.bind_cpu(204, None).unwrap()[0].from, None);
}

#[test]
fn a_process_answers_for_its_last_thread_about_sets_and_for_any_about_processors() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.bind_lwp_set(204, 1, Some(1)).unwrap();
    assert_eq!(m.bind_set(204, Some(1)).unwrap()[0].from, None, "its last thread was not bound");
    m.bind_lwp_cpu(204, 1, Some(3)).unwrap();
    assert_eq!(m.bind_cpu(204, Some(2)).unwrap()[0].from, Some(CpuSet::from_iter([CpuId(3)])));
}

#[test]
fn children_and_new_threads_inherit_from_their_creator() {
    let m = x4200();
    m.create(&[2, 3]).unwrap();
    m.bind_lwp_set(204, 2, Some(1)).unwrap();
    m.bind_lwp_cpu(204, 2, Some(3)).unwrap();
    m.0.soften(lwp(204, 2));
    let child = m.0.fork(lwp(204, 2)).unwrap();
    assert_eq!(m.thread(child.0, 1), "set 1, processor 3, 3");
    let thread = m.0.add_thread(lwp(204, 1)).unwrap();
    assert_eq!(m.thread(204, thread.lwp.0), "set 0, processor none, 0-1");
    // Softness is inherited too: no thread prevents the move of the CPUs.
    m.assign(0, &[3]).unwrap();
    assert_eq!(m.thread(child.0, 1), "set 1, processor none, 2");
}

#[test]
fn a_zone_is_bound_as_a_whole() {
    let m = Hands::on("smartos-2");
    m.create(&[1]).unwrap();
    assert_eq!(m.bind_zone("zone1", Some(1)).unwrap(), PsetId(1));
    let zones = millpond_machine::Zones::list(&m.0).unwrap();
    let sets: Vec<(&str, u32)> = zones.iter().map(|z| (z.name.as_str(), z.set.0)).collect();
    assert_eq!(sets, [("global", 0), ("zone1", 1), ("zone2", 0)]);
    assert_eq!(m.bind_zone("zone1", None).unwrap(), PsetId::DEFAULT);
    assert_eq!(refusal(m.bind_zone("zone3", Some(1))), "zone zone3: there is no such zone");
}

#[test]
fn the_worked_session_goes_as_in_the_book() {
    let m = x4200();
    assert_eq!(m.create(&[1, 2, 3]).unwrap(), PsetId(1));
    assert_eq!(m.members(1), "1 2 3");
    assert_eq!(m.bind_set(204, Some(1)).unwrap()[0].from, None);
    assert_eq!(m.thread(204, 2), "set 1, processor none, 1-3");
    assert_eq!(m.assign(0, &[3]).unwrap()[0].from, PsetId(1));
    m.assign(1, &[0]).unwrap();
    assert_eq!(refusal(m.assign(1, &[3])), "CPU 3: it is the last one in the default set");
    m.destroy(1).unwrap();
    assert_eq!(m.members(0), "0 1 2 3");
}
