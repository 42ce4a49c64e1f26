//! Tests of interrupts: the interrupted thread, the counters, and that no thread moves because of one.

use super::*;
use millpond_model::Column;

fn counted(k: &Kernel, cpu: CpuIndex) -> [u64; 4] {
    [Column::Intr, Column::Ithr, Column::Csw, Column::Xcal].map(|c| k.cpus()[cpu].events[c.index()])
}

/// A device that interrupts CPU 0 once per millisecond for 0.1 ms, first at 0.5 ms.
fn noisy(k: &mut Kernel, level: u8) -> ThreadId {
    let raised = k.channel();
    k.device(Program::once(vec![Action::Sleep(500_000), Action::Post(raised)]));
    let again =
        vec![Action::Sleep(1_500_000), Action::Post(raised), Action::Sleep(1_000_000), Action::Post(raised)];
    k.device(Program::once(again));
    k.handler(level, Origin::Network, CpuIndex(0), raised, vec![Action::Kernel(100_000)])
}

#[test]
fn a_handler_runs_on_the_back_of_a_thread_that_goes_on_afterwards_where_it_was() {
    let mut k = kernel(2, standard());
    noisy(&mut k, 6);
    let hog = k.ts_start(Program::hog());
    k.run_until(550_000).unwrap();
    assert_eq!(k.thread(hog).state, RunState::Pinned);
    assert_eq!(k.check(), Ok(()));
    k.run_until(4_000_000).unwrap();
    // Three interrupts of 0.1 ms. The hog had the rest of its CPU, and the other CPU did not steal it.
    assert_eq!((k.thread(hog).state, k.thread(hog).cpu), (RunState::Running, CpuIndex(0)));
    assert_eq!((k.cpus()[CpuIndex(0)].sys, k.thread(hog).user), (300_000, 3_700_000));
    assert_eq!(k.cpus()[CpuIndex(1)].idle, 4_000_000);
    // The only switch is the first one.
    let [intr, ithr, csw, _] = counted(&k, CpuIndex(0));
    assert_eq!((intr, ithr, csw), (3, 3, 1));
}

#[test]
fn high_levels_are_no_threads_and_come_before_lower_ones() {
    let mut k = kernel(1, standard());
    noisy(&mut k, 14);
    k.run_until(4_000_000).unwrap();
    let [intr, ithr, csw, _] = counted(&k, CpuIndex(0));
    assert_eq!((intr, ithr, csw), (3, 0, 0));
    assert_eq!(k.cpus()[CpuIndex(0)].sys, 300_000);
}

#[test]
fn interrupts_follow_their_route() {
    let mut k = kernel(2, standard());
    noisy(&mut k, 6);
    k.run_until(1_000_000).unwrap();
    k.route(CpuIndex(1), CpuIndex(0));
    k.run_until(4_000_000).unwrap();
    assert_eq!((k.cpus()[CpuIndex(0)].sys, k.cpus()[CpuIndex(1)].sys), (100_000, 200_000));
}

#[test]
fn a_timer_interrupts_where_its_client_waits() {
    let mut k = kernel(2, standard());
    let [raised, ring] = [(); 2].map(|()| k.channel());
    let class = k.ts_entry_at(0);
    let wait = Program::repeat(vec![Action::Wait(ring), Action::User(50_000)]);
    k.start(Start { bound: Some(CpuIndex(1)), ..Start::new(class, wait) });
    k.device(Program::once(vec![Action::Sleep(500_000), Action::Post(raised)]));
    k.handler(
        14,
        Origin::Timer(ring),
        CpuIndex(0),
        raised,
        vec![Action::Kernel(100_000), Action::Post(ring)],
    );
    k.run_until(1_000_000).unwrap();
    assert_eq!(
        (k.cpus()[CpuIndex(0)].sys, k.cpus()[CpuIndex(1)].sys, k.cpus()[CpuIndex(1)].user),
        (0, 100_000, 50_000)
    );
}

#[test]
fn the_clock_interrupts_one_processor_and_each_once_a_second() {
    let mut k = kernel(3, standard());
    k.run_until(10 * SECOND).unwrap();
    k.route(CpuIndex(0), CpuIndex(1));
    k.run_until(20 * SECOND).unwrap();
    assert_eq!(counted(&k, CpuIndex(0)), [1_020, 1_000, 0, 0]);
    assert_eq!(counted(&k, CpuIndex(1)), [1_020, 1_000, 0, 0]);
    assert_eq!(counted(&k, CpuIndex(2)), [20, 0, 0, 0]);
}

#[test]
fn who_wakes_a_thread_elsewhere_calls_across() {
    let mut k = kernel(2, standard());
    let [there, back] = [(); 2].map(|()| k.channel());
    let starts = [
        (0, vec![Action::User(1_000_000), Action::Post(there), Action::Wait(back), Action::User(1_000_000)]),
        (1, vec![Action::Wait(there), Action::User(1_000_000), Action::Post(back)]),
    ];
    for (cpu, actions) in starts {
        let class = k.ts_entry_at(0);
        k.start(Start { bound: Some(CpuIndex(cpu)), ..Start::new(class, Program::once(actions)) });
    }
    k.run_until(5_000_000).unwrap();
    // Each woke the other once: one call sent, and one interrupt received.
    let calls: Vec<(u64, u64)> =
        (0..2).map(|cpu| (counted(&k, CpuIndex(cpu))[3], counted(&k, CpuIndex(cpu))[0])).collect();
    assert_eq!(calls, [(1, 1), (1, 1)]);
}

#[test]
fn logs_say_how_long_after_the_first_stage_the_others_came() {
    let mut k = kernel(1, standard());
    let log = k.log();
    let turn = vec![
        Action::Stamp(log, 0),
        Action::User(7_000),
        Action::Stamp(log, 1),
        Action::User(3_000),
        Action::Stamp(log, 2),
    ];
    k.ts_start(Program::once([turn.clone(), turn].concat()));
    k.pass(1);
    let stages: Vec<Vec<(u64, u64)>> =
        k.logs()[0].stages.iter().map(|s| s.iter().map(|(t, n)| (*t, *n)).collect()).collect();
    assert_eq!(stages, [vec![(7_000, 2)], vec![(10_000, 2)]]);
}

#[test]
fn what_arrived_is_taken_in_order_and_measured_from_then() {
    let mut k = kernel(1, standard());
    let (shared, own) = (k.log(), k.log());
    // Two arrive at 0 and 2 us, and are answered at 7 and 12; a third one is taken on arrival, and answered after 5.
    let answer = || [Action::Take(shared, own), Action::User(5_000), Action::Stamp(own, 1)];
    let mut actions = vec![Action::Arrive(shared), Action::User(2_000), Action::Arrive(shared)];
    actions.extend(answer().into_iter().chain(answer()).chain(answer()));
    k.ts_start(Program::once(actions));
    k.pass(1);
    let times: Vec<(u64, u64)> = k.logs()[1].stages[0].iter().map(|(t, n)| (*t, *n)).collect();
    assert_eq!(times, [(5_000, 1), (7_000, 1), (10_000, 1)]);
}

#[test]
fn lots_are_drawn_alike_from_equal_seeds_and_all_come() {
    let draw = |seed| {
        let mut k = kernel(1, standard());
        k.set_seed(seed);
        (0..200).map(|_| k.draw(&[2, 3, 5])).collect::<Vec<u64>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    for prime in [2, 3, 5] {
        assert!(draw(7).iter().filter(|drawn| **drawn == prime).count() > 40);
    }
}

#[test]
fn the_account_has_every_spell_once() {
    let mut k = kernel(1, standard());
    let handler = noisy(&mut k, 6);
    let hog = k.ts_start(Program::hog());
    k.record_spells(true);
    k.run_until(4_000_000).unwrap();
    let spell_log = k.take_spells();
    // Three interrupts of 0.1 ms during one uninterrupted spell of a thread, which they do not end.
    let of =
        |source| spell_log.get(&(CpuIndex(0), source)).map(|s| (s.count, s.total, s.longest, s.longest_at));
    assert_eq!(
        of(SpellOf::Thread(handler)).map(|(count, total, longest, _)| (count, total, longest)),
        Some((3, 300_000, 100_000))
    );
    assert_eq!(of(SpellOf::Thread(hog)), Some((1, 3_700_000, 3_700_000, 0)));
    let total: u64 = spell_log.values().map(|spells| spells.total).sum();
    assert_eq!(total, 4_000_000);
    // Taken spells are not returned again, and the present spell continues.
    k.run_until(5_000_000).unwrap();
    let spells = k.take_spells()[&(CpuIndex(0), SpellOf::Thread(hog))];
    assert_eq!((spells.count, spells.total, spells.longest), (0, 1_000_000, 4_700_000));
    k.record_spells(false);
    k.run_until(6_000_000).unwrap();
    assert!(k.take_spells().is_empty());
}
