//! The rules of poolcfg(8) and libpool(3LIB) for edits, one by one, with their error texts.

use millpond_model::pools::{Keyword, PoolsConf, PoolsState, PropValue};
use millpond_model::{CpuId, State};
use millpond_pools::{Editor, Element, POLICY_PROPERTY, Place, PoolError, instantiate, validate};
use std::collections::BTreeMap;

fn on(place: Place) -> Editor {
    Editor::new(PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine))), place)
}

fn pset(name: &str) -> Element {
    Element::Pset(name.into())
}

fn pool(name: &str) -> Element {
    Element::Pool(name.into())
}

/// A set that may have CPUs.
fn with_set(place: Place, min: u64, max: u64) -> Editor {
    let mut editor = on(place);
    editor.create_pset("webset").unwrap();
    editor.put(&pset("webset"), "pset.max", PropValue::Uint(max)).unwrap();
    editor.put(&pset("webset"), "pset.min", PropValue::Uint(min)).unwrap();
    editor
}

fn said<T>(result: Result<T, PoolError>) -> String {
    match result {
        Ok(_) => "done".into(),
        Err(error) => error.to_string(),
    }
}

fn cpus(editor: &Editor, set: &str) -> String {
    editor.conf.pset(set).unwrap().cpu_set().to_string()
}

#[test]
fn a_new_pool_has_the_default_set() {
    let mut editor = on(Place::File);
    editor.create_pool("web").unwrap();
    let web = editor.conf.pool("web").unwrap();
    assert_eq!(editor.conf.pset_of(web).unwrap().name, "pset_default");
    assert_eq!((web.importance, web.is_default), (1, false));
}

#[test]
fn names_are_checked_when_something_is_made_and_when_it_is_renamed() {
    let mut editor = on(Place::File);
    editor.create_pool("web").unwrap();
    editor.create_pool("shop").unwrap();
    for bad in ["web", "9x", "", "a b"] {
        assert_eq!(said(editor.create_pool(bad)), "Bad parameter supplied", "{bad}");
    }
    assert_eq!(said(editor.create_pset("web")), "done", "a pool and a set may share a name");
    assert_eq!(said(editor.rename(&pool("web"), "shop")), "Error putting property");
    assert_eq!(said(editor.rename(&pool("web"), "9x")), "Error putting property");
    assert_eq!(said(editor.rename(&pool("nobody"), "x")), "Invalid search");
    assert_eq!(said(editor.rename(&pool("web"), "web2")), "done");
    assert_eq!(said(editor.rename(&pool("pool_default"), "all")), "done");
}

#[test]
fn nothing_can_be_moved_into_a_new_set_until_its_maximum_is_raised() {
    let mut editor = on(Place::Machine);
    editor.create_pset("webset").unwrap();
    let error = editor.transfer(1, "pset_default", "webset").unwrap_err();
    assert_eq!(error.to_string(), "Invalid configuration");
    let hint = "pset webset would have 1, above its maximum of 0; raise pset.max first";
    assert_eq!(error.hint.as_deref(), Some(hint));
    editor.put(&pset("webset"), "pset.max", PropValue::Uint(2)).unwrap();
    editor.transfer(1, "pset_default", "webset").unwrap();
    assert_eq!(cpus(&editor, "webset"), "0");
}

#[test]
fn a_transfer_takes_the_lowest_numbers_and_requested_ones_last() {
    let mut editor = with_set(Place::Machine, 0, 4);
    editor.put(&Element::Cpu(CpuId(0)), "cpu.requested", PropValue::Boolean(true)).unwrap();
    editor.put(&Element::Cpu(CpuId(1)), "cpu.pinned", PropValue::Boolean(true)).unwrap();
    editor.transfer(2, "pset_default", "webset").unwrap();
    assert_eq!(cpus(&editor, "webset"), "1-2", "pinned ones are for poold alone");
    assert_eq!(
        said(editor.transfer(2, "pset_default", "webset")),
        "Invalid configuration",
        "its minimum is 1"
    );
    editor.transfer(1, "pset_default", "webset").unwrap();
    assert_eq!(cpus(&editor, "pset_default"), "0");
}

#[test]
fn bounds_hold_for_both_ends_except_the_maximum_of_the_default_set() {
    let mut editor = with_set(Place::Machine, 1, 3);
    editor.transfer(3, "pset_default", "webset").unwrap();
    assert_eq!(said(editor.transfer(3, "webset", "pset_default")), "Invalid configuration");
    assert_eq!(said(editor.transfer(9, "webset", "pset_default")), "Invalid configuration");
    editor.put(&pset("pset_default"), "pset.max", PropValue::Uint(1)).unwrap();
    assert_eq!(said(editor.transfer(2, "webset", "pset_default")), "done");
    assert_eq!(said(editor.transfer(0, "webset", "pset_default")), "done");
    assert_eq!(said(editor.transfer(99, "webset", "webset")), "done");
    assert_eq!(said(editor.transfer(1, "nobody", "webset")), "Invalid search");
}

#[test]
fn a_named_processor_comes_from_wherever_it_is() {
    let mut editor = with_set(Place::Machine, 0, 2);
    editor.transfer_cpu(CpuId(3), "webset").unwrap();
    editor.transfer_cpu(CpuId(3), "webset").unwrap();
    assert_eq!(cpus(&editor, "webset"), "3");
    let error = editor.transfer_cpu(CpuId(7), "webset").unwrap_err();
    assert_eq!((error.to_string(), error.hint), ("Invalid search".into(), Some("there are CPUs 0-3".into())));
}

#[test]
fn what_is_default_stays() {
    let mut editor = with_set(Place::Machine, 0, 2);
    assert_eq!(said(editor.destroy_pool("pool_default")), "Bad parameter supplied");
    assert_eq!(said(editor.destroy_pset("pset_default")), "Bad parameter supplied");
    assert_eq!(said(editor.associate("pool_default", Some("webset"))), "Bad parameter supplied");
    assert_eq!(
        said(editor.put(&pset("pset_default"), "pset.min", PropValue::Uint(0))),
        "Error putting property"
    );
    assert_eq!(said(editor.destroy_pool("nobody")), "Invalid search");
}

#[test]
fn the_end_of_a_set_ignores_bounds_and_its_pools_get_the_default_one() {
    let mut editor = with_set(Place::Machine, 1, 2);
    editor.create_pool("web").unwrap();
    editor.associate("web", Some("webset")).unwrap();
    editor.transfer(2, "pset_default", "webset").unwrap();
    editor.put(&pset("pset_default"), "pset.max", PropValue::Uint(2)).unwrap();
    editor.destroy_pset("webset").unwrap();
    assert_eq!(cpus(&editor, "pset_default"), "0-3");
    let web = editor.conf.pool("web").unwrap();
    assert_eq!(editor.conf.pset_of(web).unwrap().name, "pset_default");
}

#[test]
fn minima_stay_below_maxima() {
    let mut editor = with_set(Place::File, 1, 3);
    assert_eq!(said(editor.put(&pset("webset"), "pset.min", PropValue::Uint(4))), "Error putting property");
    assert_eq!(said(editor.put(&pset("webset"), "pset.max", PropValue::Uint(0))), "Error putting property");
}

#[test]
fn a_machine_must_be_able_to_satisfy_all_bounds_and_a_file_need_not() {
    for (place, outcome) in [(Place::Machine, "Invalid configuration"), (Place::File, "done")] {
        let mut editor = with_set(place, 0, 8);
        // The default set wants 1 of the 4.
        assert_eq!(said(editor.put(&pset("webset"), "pset.min", PropValue::Uint(4))), outcome);
        let mut editor = with_set(place, 0, 1);
        assert_eq!(said(editor.put(&pset("pset_default"), "pset.max", PropValue::Uint(2))), outcome);
    }
}

#[test]
fn values_are_checked_by_their_property() {
    let text = PropValue::from;
    let cases: [(Element, &str, PropValue, &str); 20] = [
        (pool("web"), "pool.importance", PropValue::Int(5), "done"),
        (pool("web"), "pool.importance", PropValue::Uint(5), "Bad parameter supplied"),
        (pool("web"), "pool.sys_id", PropValue::Int(5), "Bad parameter supplied"),
        (pool("web"), "pool.active", PropValue::Boolean(false), "Bad parameter supplied"),
        (pool("web"), "pool.scheduler", text("FX"), "done"),
        (pool("web"), "pool.scheduler", text("XX"), "Error putting property"),
        (pool("web"), "pool.scheduler", PropValue::Int(1), "Error putting property"),
        (pool("web"), "pool.temporary", PropValue::Boolean(true), "Bad parameter supplied"),
        (pset("webset"), "pset.min", text("1"), "Error putting property"),
        (pset("webset"), "pset.size", PropValue::Uint(1), "Bad parameter supplied"),
        (Element::System("default".into()), "system.allocate-method", text("surplus to default"), "done"),
        (Element::System("default".into()), "system.allocate-method", text("any"), "Error putting property"),
        (Element::System("default".into()), "system.poold.log-level", text("LOUD"), "Bad parameter supplied"),
        (Element::System("default".into()), POLICY_PROPERTY, text("nosuch"), "Bad parameter supplied"),
        (Element::System("default".into()), POLICY_PROPERTY, PropValue::Uint(1), "Bad parameter supplied"),
        (Element::System("default".into()), POLICY_PROPERTY, text("solaris"), "done"),
        (
            Element::System("default".into()),
            "system.poold.log-location",
            text("here"),
            "Bad parameter supplied",
        ),
        (Element::Cpu(CpuId(1)), "cpu.status", text("off-line"), "done"),
        (Element::Cpu(CpuId(1)), "cpu.status", text("powered-off"), "Bad parameter supplied"),
        (Element::Cpu(CpuId(1)), "cpu.pinned", text("yes"), "Bad parameter supplied"),
    ];
    for (element, name, value, outcome) in cases {
        let mut editor = with_set(Place::File, 0, 4);
        editor.create_pool("web").unwrap();
        assert_eq!(said(editor.put(&element, name, value.clone())), outcome, "{name} {value:?}");
    }
}

#[test]
fn free_properties_keep_their_type_until_they_are_removed() {
    let mut editor = on(Place::File);
    let system = Element::System("default".into());
    editor.put(&system, "site.rack", PropValue::Int(3)).unwrap();
    assert_eq!(said(editor.put(&system, "site.rack", PropValue::from("3"))), "Bad parameter supplied");
    editor.remove(&system, "site.rack").unwrap();
    assert_eq!(said(editor.remove(&system, "site.rack")), "Invalid search");
    assert_eq!(said(editor.put(&system, "site.rack", PropValue::from("3"))), "done");
    assert_eq!(said(editor.put(&system, "9site", PropValue::from("3"))), "Bad parameter supplied");
    assert_eq!(said(editor.remove(&system, "system.comment")), "Bad parameter supplied");
    assert_eq!(said(editor.remove(&system, "system.poold.objectives")), "done");
}

/// CPUs 0 and 1 are off-line.
fn half_off_line(place: Place) -> Editor {
    let mut editor = with_set(place, 0, 4);
    for cpu in [0, 1] {
        editor.conf.cpu_mut(CpuId(cpu)).unwrap().status = Some(Keyword::Known(State::OffLine));
    }
    editor
}

#[test]
fn cpus_that_are_off_line_are_not_transferred_and_fill_no_bound() {
    let mut editor = half_off_line(Place::Machine);
    let error = editor.transfer(3, "pset_default", "webset").unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("pset pset_default has 2 CPUs on-line"));
    editor.transfer(1, "pset_default", "webset").unwrap();
    assert_eq!((cpus(&editor, "pset_default"), cpus(&editor, "webset")), ("0-1,3".into(), "2".into()));
    let error = editor.transfer(1, "pset_default", "webset").unwrap_err();
    let why = "pset pset_default would have 0 of its minimum of 1; lower pset.min first";
    assert_eq!(error.hint.as_deref(), Some(why));
    let error = editor.put(&pset("webset"), "pset.min", PropValue::Uint(2)).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("all minima together would be 3, and there are 2 CPUs on-line"));
    // An off-line CPU can be moved by its number, and does not count.
    editor.put(&pset("webset"), "pset.max", PropValue::Uint(1)).unwrap();
    editor.transfer_cpu(CpuId(0), "webset").unwrap();
    assert_eq!(cpus(&editor, "webset"), "0,2");
    // The states in a file are those of the machine on which it was written.
    let mut file = half_off_line(Place::File);
    file.transfer(3, "pset_default", "webset").unwrap();
    assert_eq!(cpus(&file, "webset"), "0-2");
}

#[test]
fn a_file_gives_sets_cpus_that_are_on_line() {
    let machine =
        PoolsState { conf: half_off_line(Place::Machine).conf, keep_others: false, zones: BTreeMap::new() };
    let after = |min| instantiate(&with_set(Place::File, min, 4).conf, &machine);
    let set = after(1).unwrap().conf.pset("webset").unwrap().cpu_set();
    assert_eq!(set, "2".parse().unwrap());
    let hint = after(2).unwrap_err().hint;
    assert_eq!(hint.as_deref(), Some("all minima together are 3, and there are 2 CPUs"));
}

#[test]
fn a_file_with_a_policy_that_there_is_not_is_refused() {
    let mut conf = on(Place::File).conf;
    conf.system.user.set(POLICY_PROPERTY, "nosuch");
    let error = validate::whole(&conf).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("system.poold.policy is one of millpond, solaris"));
}
