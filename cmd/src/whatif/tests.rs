//! Tests: a minute in which a pool was too small, replayed under other configurations.

#![allow(clippy::unwrap_used)]

use super::twin::{Day, play};
use super::{told, twin};
use crate::replay::recorded::Observer;
use millpond_machine::Writer;
use millpond_machine::facets::Member;
use millpond_model::Nanos;
use millpond_model::pools::{PoolsState, PropValue};
use millpond_pools::{DemandPlayer, Editor, Element, Manager, Place, Unserved, dynamic};
use millpond_session::{MachineName, OpenOptions, Session};
use std::collections::BTreeMap;

/// A minute on four CPUs: pool a has one CPU, and its programs want the given number. Programs of the default pool
/// want half a CPU.
fn day(wanted: f64) -> Day {
    let options = OpenOptions { machine: MachineName::Simulated("x4200".into()), ..OpenOptions::default() };
    let session = Session::open(&options).unwrap();
    let machine = session.machine();
    let writer = Writer::open(machine).unwrap();
    dynamic::enable(&writer, machine, false).unwrap();
    let state = dynamic::read(machine).unwrap();
    let mut editor = Editor::new(state.conf.clone(), Place::Machine);
    editor.create_pset("a").unwrap();
    editor.put(&Element::Pset("a".into()), "pset.max", PropValue::Uint(3)).unwrap();
    editor.create_pool("a").unwrap();
    editor.associate("a", Some("a")).unwrap();
    editor.transfer(1, "pset_default", "a").unwrap();
    dynamic::commit(&writer, machine, Some(PoolsState { conf: editor.conf, ..state })).unwrap();
    let pool = dynamic::read(machine).unwrap().conf.pools[1].id.unwrap();
    let sleeper = session.simulation().unwrap().start_sleeper("a");
    dynamic::bind(&writer, machine, &Member::Process(sleeper), pool).unwrap();
    drop(writer);
    let mut player = DemandPlayer::begin(machine, Unserved::Lost);
    player.want(BTreeMap::from([("a".to_owned(), wanted), ("pool_default".to_owned(), 0.5)])).unwrap();
    let (mut manager, mut day) = (Manager::new(Box::new(Observer)).dry(), Day::default());
    for _ in 0..=60 {
        if let Some(decision) = manager.turn(machine, &mut player).unwrap().decision {
            day.look(machine, &decision.frame).unwrap();
        }
        machine.clock().sleep_until(machine.clock().now() + Nanos::from_secs(1));
    }
    day
}

fn waited(played: &twin::Played) -> f64 {
    played.pool("a").unwrap().waited
}

#[test]
fn a_pool_that_was_too_small_would_have_waited_less() {
    let day = day(2.5);
    let sum = day.pool("a").unwrap();
    // One and a half threads waited for a minute. Half of the sets were saturated throughout.
    assert!((sum.waited - 90.0).abs() < 0.1 && (sum.cpu_seconds - 60.0).abs() < 0.1, "{sum:?}");
    let known = [sum.known, day.pool("pool_default").unwrap().known];
    assert!(known == [0.0, 60.0] && day.moved() == 0 && day.looks() == 60, "{day:?}");

    // With the same sets they wait as long as in the recording, in both models of unserved demand.
    for unserved in [Unserved::Lost, Unserved::Kept] {
        let still = play(&day, None, None, unserved).unwrap();
        assert!((waited(&still) - 90.0).abs() < 0.1 && still.moved == 0, "{unserved:?}: {still:?}");
    }
    for unserved in [Unserved::Lost, Unserved::Kept] {
        let moved = play(&day, None, Some("millpond"), unserved).unwrap();
        // The waiting threads finish after poold has moved CPUs, if each has only a slice of work.
        let most = if unserved == Unserved::Lost { 3.0 } else { 0.2 };
        assert!(waited(&moved) < most && moved.moved >= 2, "{unserved:?}: {moved:?}");
        assert!(moved.pool("a").unwrap().cpu_seconds > 175.0, "{moved:?}");
    }
}

#[test]
fn another_configuration_is_committed_before_the_day_begins() {
    let day = day(2.5);
    let mut conf = millpond_model::pools::PoolsConf::fresh([]);
    let mut editor = Editor::new(conf, Place::File);
    editor.create_pset("large").unwrap();
    editor.put(&Element::Pset("large".into()), "pset.max", PropValue::Uint(3)).unwrap();
    editor.put(&Element::Pset("large".into()), "pset.min", PropValue::Uint(3)).unwrap();
    editor.create_pool("a").unwrap();
    editor.associate("a", Some("large")).unwrap();
    conf = editor.conf;
    let of = |unserved| play(&day, Some(&conf), None, unserved).unwrap();
    let text = told(&day, Some("large.xml"), "none", &[of(Unserved::Lost), of(Unserved::Kept)]).text();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("60 looks in 60.000 s; large.xml, policy none"));
    assert_eq!(
        lines.next(),
        Some("POOL             CPUS          WOULD     WAITED                WOULD   KNOWN")
    );
    assert_eq!(
        lines.next(),
        Some("a                1.00           3.00       90.0                  0.0     0 %")
    );
    assert_eq!(
        lines.next(),
        Some("pool_default     3.00           1.00        0.0                  0.0   100 %")
    );
    assert_eq!(lines.next(), Some("CPUs moved: 0; would be 0"));
}

#[test]
fn a_pool_whose_set_begins_without_a_cpu_waits_and_is_told() {
    let day = day(2.5);
    let mut editor = Editor::new(millpond_model::pools::PoolsConf::fresh([]), Place::File);
    editor.create_pset("none").unwrap();
    editor.put(&Element::Pset("none".into()), "pset.min", PropValue::Uint(0)).unwrap();
    editor.put(&Element::Pset("none".into()), "pset.max", PropValue::Uint(0)).unwrap();
    editor.create_pool("a").unwrap();
    editor.associate("a", Some("none")).unwrap();
    let conf = editor.conf;
    let of = |unserved| play(&day, Some(&conf), None, unserved).unwrap();
    let played = [of(Unserved::Lost), of(Unserved::Kept)];
    // Two and a half threads want a CPU for a minute.
    assert!((waited(&played[0]) - 150.0).abs() < 0.1, "{played:?}");
    let text = told(&day, Some("none.xml"), "none", &played).text();
    let last = text.lines().last();
    assert_eq!(last, Some("pools whose set began without a CPU, so that nothing could run there: a"));
}
