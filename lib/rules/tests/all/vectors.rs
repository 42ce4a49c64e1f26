//! Test vectors V1 to V9, V11 and V13, for one thread. Slices are in ticks.

use crate::common::{at, entered, extended, standard};
use millpond_rules::{Class, End, Place, Tables, Thread, host};

/// The system priorities of a thread that runs without interruption, each with its ticks.
fn walk(thread: &mut Thread, tables: &Tables, ticks: usize) -> Vec<(i32, usize)> {
    let mut walked: Vec<(i32, usize)> = Vec::new();
    for _ in 0..ticks {
        let level = thread.cpupri;
        match walked.last_mut() {
            Some((last, stayed)) if *last == level => *stayed += 1,
            _ => walked.push((level, 1)),
        }
        if host::charge(thread, tables, 1) {
            assert_eq!(host::preempt(thread, tables), End::Back);
        }
    }
    walked
}

/// The once-per-second update of a running thread.
fn beat(thread: &mut Thread, tables: &Tables) {
    if host::update_running(thread, tables) {
        assert!(host::boost_if_due(thread, tables));
    }
}

#[test]
fn v1_a_new_thread_sinks_to_0_within_48_ticks() {
    let tables = standard();
    let mut hog = entered(&tables, Class::Ts);
    assert_eq!(walk(&mut hog, &tables, 60), [(29, 12), (19, 16), (9, 20), (0, 12)]);
}

#[test]
fn v2_by_the_extended_table_within_226_ticks() {
    let tables = extended();
    let mut hog = entered(&tables, Class::Ts);
    let expected = [(29, 36), (19, 38), (9, 38), (4, 38), (2, 38), (1, 38), (0, 14)];
    assert_eq!(walk(&mut hog, &tables, 240), expected);
}

#[test]
fn v3_a_beat_lifts_a_hog_which_sinks_again_within_44_ticks() {
    let tables = standard();
    let mut hog = at(&tables, Class::Ts, 0);
    beat(&mut hog, &tables);
    assert_eq!(walk(&mut hog, &tables, 50), [(50, 4), (40, 4), (30, 8), (20, 12), (10, 16), (0, 6)]);
}

#[test]
fn v4_by_the_extended_table_no_beat_lifts_a_hog_that_runs() {
    let tables = extended();
    let mut hog = at(&tables, Class::Ts, 0);
    for _ in 0..20 {
        assert_eq!(walk(&mut hog, &tables, 100), [(0, 100)]);
        beat(&mut hog, &tables);
    }
    assert_eq!(hog.cpupri, 0);
}

#[test]
fn v4_the_third_beat_lifts_one_that_is_queued() {
    let tables = extended();
    let mut hog = at(&tables, Class::Ts, 0);
    hog.timeleft = 1;
    let lifted = [0; 3].map(|_| host::update_queued(&mut hog, &tables));
    assert_eq!((lifted, hog.cpupri, hog.pri), ([false, false, true], 40, 40));
    assert_eq!((hog.timeleft, hog.dispwait), (36, 0), "with a full slice");
}

#[test]
fn v5_at_59_of_the_standard_table_it_takes_32001_beats() {
    let tables = standard();
    let mut one_by_one = at(&tables, Class::Ts, 59);
    for _ in 0..32_000 {
        assert!(!host::update_queued(&mut one_by_one, &tables));
    }
    let mut at_once = at(&tables, Class::Ts, 59);
    host::wait(&mut at_once, &tables, 32_000, true);
    assert_eq!((one_by_one.dispwait, at_once), (32_000, one_by_one));
    // The boost of row 59 leads to 59: a new wait begins.
    assert!(!host::update_queued(&mut one_by_one, &tables), "no other level");
    host::wait(&mut at_once, &tables, 1, true);
    assert_eq!((one_by_one.dispwait, one_by_one.cpupri, at_once), (0, 59, one_by_one));
}

#[test]
fn v6_nice_is_three_levels_for_each() {
    assert_eq!([10, -20, 19, 0].map(|nice| host::nice(nice)), [-30, 60, -57, 0]);
    assert_eq!(
        [i32::MIN, -21, 20, i32::MAX].map(|nice| host::nice(nice)),
        [60, 60, -57, -57],
        "as the nearest"
    );
    let tables = standard();
    let mut thread = entered(&tables, Class::Ts);
    host::set(&mut thread, &tables, Class::Ts, host::nice(10), host::nice(10), false, 0, Place::Queued);
    assert_eq!((thread.uprilim, thread.upri, thread.pri), (-30, -30, 0), "29 - 30 is no level");
}

#[test]
fn v7_the_slice_goes_by_the_systems_part_and_the_wait_by_the_sum() {
    let tables = standard();
    let mut thread = at(&tables, Class::Ts, 50);
    let end = host::set(&mut thread, &tables, Class::Ts, 20, 20, false, 0, Place::Queued);
    assert_eq!((thread.pri, thread.cpupri, thread.timeleft, end), (59, 50, 4, End::Back));
    host::update_asleep(&mut thread, &tables, 32_000);
    assert_eq!((thread.cpupri, thread.dispwait), (50, 32_000));
    host::update_asleep(&mut thread, &tables, 1);
    assert_eq!((thread.cpupri, thread.dispwait), (59, 0), "column lwait of row 50");
}

#[test]
fn v8_the_foreground_is_worth_10_and_the_background_costs_10() {
    let tables = standard();
    let mut thread = at(&tables, Class::Ia, 50);
    assert_eq!((thread.pri, thread.boost), (59, 10));
    assert_eq!(host::wakeup(&mut thread, &tables, false), End::Front, "in the foreground");
    thread = at(&tables, Class::Ia, 5);
    host::set(&mut thread, &tables, Class::Ia, 0, 0, false, 0, Place::Queued);
    assert_eq!((thread.pri, thread.boost), (0, -10));
    assert_eq!(host::wakeup(&mut thread, &tables, true), End::Back, "also during the same tick");
}

#[test]
fn another_foreground_moves_a_thread_of_ia_by_20_levels_and_ends_its_wait() {
    let tables = standard();
    let mut thread = at(&tables, Class::Ia, 29);
    (thread.timeleft, thread.dispwait) = (5, 3);
    assert_eq!((thread.pri, thread.boost), (39, 10));
    assert_eq!(host::foreground(&mut thread, &tables, true, Place::Queued), End::Stays, "it has it already");
    assert_eq!((thread.timeleft, thread.dispwait), (5, 3), "nothing happens");
    assert_eq!(host::foreground(&mut thread, &tables, false, Place::Queued), End::Back);
    assert_eq!((thread.pri, thread.boost, thread.dispwait), (19, -10, 0));
    assert_eq!(thread.timeleft, 12, "row 29, of the system's part");
    thread.timeleft = 5;
    assert_eq!(host::foreground(&mut thread, &tables, true, Place::Asleep), End::Front);
    assert_eq!((thread.pri, thread.timeleft, thread.back), (39, 5, 1), "asleep: filled when it is preempted");
    let mut other = at(&tables, Class::Ts, 29);
    let before = other;
    assert_eq!(host::foreground(&mut other, &tables, true, Place::Running), End::Stays);
    assert_eq!(other, before, "a thread of TS has no foreground");
}

#[test]
fn a_thread_that_counted_no_second_wakes_up_the_same_by_any_table() {
    for tables in [standard(), extended()] {
        for level in 0..60 {
            let mut thread = at(&tables, Class::Ts, level);
            (thread.timeleft, thread.back, thread.dispwait) = (1, 1, 0);
            assert!(host::has_not_waited(&thread));
            assert_eq!(host::wakeup(&mut thread, &tables, false), End::Back);
            assert_eq!((thread.cpupri, thread.timeleft, thread.back), (level, 1, 0), "level {level}");
        }
    }
    let mut waited = at(&standard(), Class::Ts, 0);
    waited.dispwait = 1;
    assert!(!host::has_not_waited(&waited));
    host::wakeup(&mut waited, &standard(), false);
    assert_eq!((waited.cpupri, waited.dispwait, waited.timeleft), (50, 0, 4), "column slpret of row 0");
}

#[test]
fn v9_what_is_preempted_by_a_better_thread_keeps_the_rest_of_its_slice() {
    let tables = standard();
    for class in [Class::Ts, Class::Ia, Class::Fx] {
        let mut thread = entered(&tables, class);
        (thread.timeleft, thread.dispwait) = (4, 0);
        assert!(!host::charge(&mut thread, &tables, 1));
        assert_eq!((host::preempt(&mut thread, &tables), thread.timeleft), (End::Front, 3));
        // A tick that finds a waiting thread of a higher level sends this one to the back, and refills the slice.
        host::surrender(&mut thread);
        let full = host::slice(&thread, &tables);
        assert_eq!((host::preempt(&mut thread, &tables), thread.timeleft), (End::Back, full));
    }
}

#[test]
fn a_used_up_slice_is_filled_when_the_thread_leaves_and_until_then_each_tick_costs_a_level() {
    let tables = standard();
    let mut thread = at(&tables, Class::Ts, 50);
    (thread.timeleft, thread.dispwait) = (1, 1);
    assert!(host::charge(&mut thread, &tables, 1));
    assert_eq!((thread.pri, thread.timeleft, thread.dispwait), (40, 0, 0));
    assert!(host::charge(&mut thread, &tables, 1), "it stayed in the kernel");
    assert_eq!((thread.pri, thread.timeleft), (30, -1));
    thread.dispwait = 1;
    assert_eq!(host::preempt(&mut thread, &tables), End::Back);
    assert_eq!((thread.pri, thread.timeleft, thread.dispwait, thread.back), (30, 8, 0, 0));
    thread.dispwait = 1;
    assert_eq!(host::preempt(&mut thread, &tables), End::Front);
    assert_eq!(thread.dispwait, 1, "preemption alone begins no wait");
}

#[test]
fn a_sleeper_rises_by_slpret_across_a_beat_and_by_lwait_with_the_beat() {
    let tables = standard();
    // The update finds it running; it sleeps before it returns to user mode.
    let mut thread = at(&tables, Class::Ts, 50);
    assert!(host::update_running(&mut thread, &tables));
    assert!(host::boost_if_due(&mut thread, &tables), "at its sleep");
    assert_eq!((thread.cpupri, thread.timeleft), (58, 4));
    assert!(!host::boost_if_due(&mut thread, &tables), "no beat since");
    host::update_asleep(&mut thread, &tables, 1);
    assert_eq!(
        (thread.cpupri, thread.timeleft, thread.back),
        (59, 4, 1),
        "the slice is filled at its next end"
    );
}

#[test]
fn a_change_by_the_user_begins_a_wait_and_goes_by_where_the_thread_is() {
    let tables = standard();
    for (place, left, back) in
        [(Place::Asleep, 3, 1), (Place::Queued, 4, 0), (Place::Running, 4, 0), (Place::Outranked, 3, 1)]
    {
        let mut thread = at(&tables, Class::Ts, 50);
        (thread.timeleft, thread.dispwait) = (3, 7);
        let end = host::set(&mut thread, &tables, Class::Ts, 5, -5, false, 0, place);
        assert_eq!((end, thread.pri, thread.dispwait), (End::Back, 45, 0), "{place:?}");
        assert_eq!((thread.timeleft, thread.back), (left, back), "{place:?}");
    }
    let mut thread = at(&tables, Class::Ia, 20);
    let end = host::set(&mut thread, &tables, Class::Ia, 0, 0, true, 0, Place::Queued);
    assert_eq!(end, End::Front, "in the foreground");
    // Another class: a fresh start.
    let end = host::set(&mut thread, &tables, Class::Fx, 40, 70, false, 8, Place::Queued);
    assert_eq!((end, thread.pri, thread.upri, thread.uprilim), (End::Back, 40, 40, 40));
    assert_eq!((thread.timeleft, thread.cpupri, thread.boost), (8, 0, 0));
    let end = host::set(&mut thread, &tables, Class::Fx, 40, 40, false, 4, Place::Queued);
    assert_eq!((end, thread.timeleft), (End::Stays, 4), "at the same level");
}

#[test]
fn v11_a_child_has_the_old_level_and_the_parent_falls() {
    let tables = standard();
    let mut parent = at(&tables, Class::Ts, 50);
    (parent.timeleft, parent.dispwait, parent.back) = (1, 1, 1);
    let mut child = Thread::default();
    host::fork_child(&mut child, &parent, &tables);
    assert_eq!((child.pri, child.timeleft, child.dispwait, child.back), (50, 4, 0, 0));
    assert_eq!(host::wakeup(&mut child, &tables, false), End::Back);
    assert!(host::fork_parent(&mut parent, &tables), "it gives up its CPU");
    assert_eq!((parent.pri, parent.timeleft, parent.dispwait, parent.back), (40, 4, 0, 0));
    assert!(host::key(child.pri, End::Back, 1) < host::key(parent.pri, End::Back, 2), "the child goes first");
}

#[test]
fn v13_a_parent_in_fx_is_queued_behind_its_child_at_the_same_level() {
    let tables = standard();
    let mut parent = Thread::default();
    host::enter(&mut parent, &tables, Class::Fx, 30, 30, false, host::fx_quantum(&tables, 30));
    parent.timeleft = 3;
    let mut child = Thread::default();
    host::fork_child(&mut child, &parent, &tables);
    assert_eq!((child.pri, child.timeleft), (30, 8), "a full slice");
    assert_eq!(host::wakeup(&mut child, &tables, false), End::Back);
    assert!(host::fork_parent(&mut parent, &tables));
    assert_eq!((parent.pri, parent.timeleft), (30, 3), "what was left");
    assert_eq!(host::key(30, End::Back, 1), host::key(30, End::Back, 2), "first come, first served");
}
