//! The order of a queue: test vector V10, and the order of keys.

use crate::common::{entered, standard};
use millpond_rules::{Class, End, host};

#[test]
fn v10_a_thread_that_ran_during_this_tick_goes_to_the_front() {
    let tables = standard();
    for class in [Class::Ts, Class::Fx] {
        let mut thread = entered(&tables, class);
        thread.back = 1;
        assert_eq!(host::wakeup(&mut thread, &tables, true), End::Front, "{class:?}");
        assert_eq!(thread.back, 0, "what it was marked for before its sleep is over");
        assert_eq!(host::wakeup(&mut thread, &tables, false), End::Back, "{class:?}");
    }
}

#[test]
fn yield_goes_to_the_back_also_in_the_foreground() {
    let tables = standard();
    for class in [Class::Ts, Class::Ia, Class::Fx] {
        assert_eq!(host::yield_cpu(&mut entered(&tables, class), &tables), End::Back);
    }
}

/// The order in which a queue returns threads that arrive in this order, each with its level and end. Equal keys keep their order of
/// arrival.
fn order(arrivals: &[(i32, End)]) -> Vec<usize> {
    let mut keys: Vec<(u64, usize)> =
        arrivals.iter().enumerate().map(|(at, (pri, end))| (host::key(*pri, *end, at as u64), at)).collect();
    keys.sort_by_key(|(key, _)| *key);
    keys.into_iter().map(|(_, at)| at).collect()
}

#[test]
fn a_higher_level_goes_first_whatever_its_end() {
    let arrivals = [(0, End::Front), (59, End::Back), (60, End::Back), (58, End::Front), (99, End::Back)];
    assert_eq!(order(&arrivals), [4, 2, 1, 3, 0]);
}

#[test]
fn the_back_of_a_level_is_first_come_first_served_and_the_front_last_come() {
    let arrivals = [(30, End::Back), (30, End::Front), (30, End::Back), (30, End::Front), (30, End::Back)];
    assert_eq!(order(&arrivals), [3, 1, 0, 2, 4]);
}

#[test]
fn sched_idle_waits_below_the_lowest_levels_of_fx_and_ts() {
    let tables = standard();
    let idle = entered(&tables, Class::Idle);
    let fx = entered(&tables, Class::Fx);
    assert_eq!((idle.pri, fx.pri), (-1, 0));
    assert_eq!(order(&[(idle.pri, End::Front), (fx.pri, End::Back), (0, End::Back)]), [1, 2, 0]);
}

#[test]
fn a_key_tells_its_level_and_late_fronts_stay_within_it() {
    for pri in -1..=99 {
        for end in [End::Front, End::Back] {
            for arrival in [0, 1, (1 << 47) - 1, 1 << 47, u64::MAX] {
                let key = host::key(pri, end, arrival);
                assert_eq!(host::key_pri(key), pri);
                assert!(key < host::key(pri - 1, End::Front, u64::MAX) || pri == -1);
            }
        }
    }
}
