//! Any state and any tables: levels stay in range, and many seconds at once equal as many single ones.

use millpond_rules::{Class, End, FX_LEVELS, Place, TS_LEVELS, Tables, Thread, TsRow, host};
use proptest::array::uniform;
use proptest::collection::vec;
use proptest::prelude::*;

/// Mostly small 32-bit numbers.
fn number() -> impl Strategy<Value = i32> + Clone {
    prop_oneof![3 => -70..110i32, 1 => any::<i32>()]
}

fn slice() -> impl Strategy<Value = i64> {
    prop_oneof![3 => -3..50i64, 1 => any::<i64>(), 1 => Just(i64::MAX)]
}

fn seconds() -> impl Strategy<Value = u32> {
    prop_oneof![3 => 0..4u32, 1 => any::<u32>(), 1 => Just(32_000)]
}

/// A table whose levels come from `level`.
fn tables(level: impl Strategy<Value = i32> + Clone + 'static) -> impl Strategy<Value = Tables> {
    let row = (slice(), level.clone(), level.clone(), level, seconds()).prop_map(
        |(quantum, tqexp, slpret, lwait, maxwait)| TsRow { quantum, tqexp, slpret, lwait, maxwait },
    );
    (vec(row, TS_LEVELS), vec(slice(), FX_LEVELS), slice()).prop_map(|(ts, fx, sys)| Tables {
        ts: ts.try_into().unwrap(),
        fx: fx.try_into().unwrap(),
        sys,
    })
}

/// A state of any class or of an unknown one. Its parts are arbitrary, except for the level and the system priority.
fn thread() -> impl Strategy<Value = Thread> {
    let parts = (number(), number(), number(), 0..2i32);
    (slice(), slice(), seconds(), -1..8i32, 0..60i32, parts).prop_map(
        |(timeleft, quantum, dispwait, class, cpupri, (upri, uprilim, boost, back))| {
            let pri = upri.clamp(-1, 99);
            let mut s =
                Thread { timeleft, quantum, dispwait, class, cpupri, upri, uprilim, boost, pri, back };
            if host::is_ts(&s) {
                host::level(&mut s);
            } else if class == Class::Fx as i32 {
                s.pri = upri.clamp(0, 60);
            }
            s
        },
    )
}

fn class() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.as_slice())
}

fn place() -> impl Strategy<Value = Place> {
    prop::sample::select([Place::Asleep, Place::Queued, Place::Running, Place::Outranked].as_slice())
}

/// Arbitrary parameters that a user sets.
type Wish = (Class, i32, i32, bool, i64, Place);

fn wish() -> impl Strategy<Value = Wish> {
    (class(), number(), number(), any::<bool>(), slice(), place())
}

/// The thread's state after each rule, by the rule's name.
fn after_each(s: &Thread, t: &Tables, wish: Wish, number: i64) -> Vec<(&'static str, Thread)> {
    let (class, uprilim, upri, foreground, quantum, place) = wish;
    let seconds = number.unsigned_abs();
    let is_odd = number & 1 == 1;
    let mut all = Vec::new();
    let mut rule = |name, apply: &dyn Fn(&mut Thread)| {
        let mut after = *s;
        apply(&mut after);
        all.push((name, after));
    };
    rule("enter", &|s| host::enter(s, t, class, uprilim, upri, foreground, quantum));
    rule("expire", &|s| host::expire(s, t));
    rule("charge", &|s| _ = host::charge(s, t, number));
    rule("surrender", &|s| host::surrender(s));
    rule("preempt", &|s| _ = host::preempt(s, t));
    rule("boost", &|s| _ = host::boost_if_due(s, t));
    rule("wakeup", &|s| _ = host::wakeup(s, t, is_odd));
    rule("foreground", &|s| _ = host::foreground(s, t, is_odd, Place::Queued));
    rule("update running", &|s| _ = host::update_running(s, t));
    rule("update queued", &|s| _ = host::update_queued(s, t));
    rule("wait", &|s| host::wait(s, t, seconds, is_odd));
    rule("yield", &|s| _ = host::yield_cpu(s, t));
    rule("fork child", &|s| {
        let parent = *s;
        host::fork_child(s, &parent, t);
    });
    rule("fork parent", &|s| _ = host::fork_parent(s, t));
    rule("set", &|s| _ = host::set(s, t, class, uprilim, upri, foreground, quantum, place));
    all
}

/// Whether the level is in the range of the class; an unknown class has the widest.
fn is_within(s: &Thread) -> bool {
    let pri = match Class::of_number(s.class) {
        Some(Class::Ts | Class::Ia) => 0..=59,
        Some(Class::Fx) => 0..=60,
        _ => -1..=99,
    };
    (0..60).contains(&s.cpupri) && pri.contains(&s.pri)
}

/// The next level for each level: random, or through all levels once and then in a cycle.
fn ways() -> impl Strategy<Value = Vec<i32>> {
    let round =
        (Just((0..60).collect::<Vec<i32>>()).prop_shuffle(), 0..60usize).prop_map(|(order, again)| {
            let mut next = vec![0; TS_LEVELS];
            for (at, level) in (0..).zip(0..60) {
                let from = order.iter().position(|l| *l == level).unwrap();
                next[at] = *order.get(from + 1).unwrap_or(&order[again]);
            }
            next
        });
    prop_oneof![vec(0..60i32, TS_LEVELS), round]
}

proptest! {
    #[test]
    fn no_rule_leads_out_of_the_levels(s in thread(), t in tables(number()), wish in wish(), number in any::<i64>()) {
        prop_assert!(is_within(&s));
        for (name, after) in after_each(&s, &t, wish, number) {
            prop_assert!(is_within(&after), "{name}: {after:?}");
        }
    }

    #[test]
    fn many_seconds_at_once_are_as_many_single_ones(s in thread(), t in tables(0..60i32), seconds in 0..=500u64) {
        for queued in [false, true] {
            let (mut at_once, mut singly) = (s, s);
            host::wait(&mut at_once, &t, seconds, queued);
            (0..seconds).for_each(|_| host::wait(&mut singly, &t, 1, queued));
            prop_assert_eq!(at_once, singly, "queued: {}", queued);
        }
    }

    #[test]
    fn a_second_at_once_is_the_update_of_a_queued_thread(s in thread(), t in tables(0..60i32)) {
        let (mut at_once, mut updated) = (s, s);
        host::wait(&mut at_once, &t, 1, true);
        host::update_queued(&mut updated, &t);
        prop_assert_eq!(at_once, updated);
    }

    /// Tables in which every wait is short: most of the seconds are whole cycles.
    #[test]
    fn whole_rounds_change_nothing(
        s in thread(),
        next in ways(),
        waits in uniform::<_, 60>(0..2u32),
        seconds in 0..=500u64,
    ) {
        let mut t = crate::common::standard();
        for (at, row) in t.ts.iter_mut().enumerate() {
            (row.lwait, row.maxwait) = (next[at], waits[at]);
        }
        for queued in [false, true] {
            let (mut at_once, mut singly) = (s, s);
            host::wait(&mut at_once, &t, seconds, queued);
            (0..seconds).for_each(|_| host::wait(&mut singly, &t, 1, queued));
            prop_assert_eq!(at_once, singly, "queued: {}", queued);
        }
    }

    #[test]
    fn keys_are_ordered_as_levels_are(a in number(), b in number(), at in any::<[u64; 2]>()) {
        let (a, b) = (a.clamp(-1, 127), b.clamp(-1, 127));
        for ends in [[End::Front, End::Back], [End::Back, End::Front], [End::Front; 2], [End::Back; 2]] {
            let (first, second) = (host::key(a, ends[0], at[0]), host::key(b, ends[1], at[1]));
            prop_assert_eq!(host::key_pri(first), a);
            if a > b {
                prop_assert!(first < second);
            }
        }
    }
}
