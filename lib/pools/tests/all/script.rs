//! `poolcfg` scripts: their effects, and the error texts of poolcfg(8) with their positions.

use millpond_formats::pools::properties::Element as _;
use millpond_formats::pools::script::parse;
use millpond_model::pools::{Keyword, PoolsConf, PropValue};
use millpond_model::{Class, CpuId, PoolId, PsetId, State};
use millpond_pools::script::{Said, Script, Surroundings};
use millpond_pools::{Editor, Element, Place, PoolError};

/// A machine of four CPUs, and the present content of its file.
struct World {
    machine: Result<PoolsConf, PoolError>,
    file: Option<PoolsConf>,
}

fn four() -> PoolsConf {
    PoolsConf::fresh((0..4).map(|n| (CpuId(n), State::OnLine)))
}

impl World {
    fn new() -> World {
        World { machine: Ok(four()), file: None }
    }
}

impl Surroundings for World {
    fn machine(&mut self) -> Result<PoolsConf, Said> {
        self.machine.clone().map_err(Said::from)
    }
    fn write(&mut self, conf: &PoolsConf) -> Result<(), Said> {
        self.file = Some(conf.clone());
        Ok(())
    }
    fn remove(&mut self) -> Result<(), Said> {
        self.file = None;
        Ok(())
    }
}

fn on(place: Place) -> Script {
    Script::new(Some(four()), place, "/x")
}

/// The first error with its position; otherwise the configuration.
fn run_in(script: &mut Script, text: &str, world: &mut World) -> Result<(), (usize, usize, String)> {
    for command in parse(text).unwrap() {
        script.execute(&command, world).map_err(|e| (e.line, e.column, e.what))?;
    }
    Ok(())
}

fn done(place: Place, text: &str) -> PoolsConf {
    let mut script = on(place);
    run_in(&mut script, text, &mut World::new()).unwrap();
    script.editor().unwrap().conf.clone()
}

fn refused(place: Place, text: &str) -> (usize, usize, String) {
    run_in(&mut on(place), text, &mut World::new()).unwrap_err()
}

fn at(line: usize, column: usize, what: &str) -> (usize, usize, String) {
    (line, column, what.to_owned())
}

const WEB: &str = r#"create pset webset ( uint pset.min = 1 ; uint pset.max = 2 ;
                     string pset.poold.objectives = "utilization < 80" )
create pool web ( int pool.importance = 5 ; string pool.scheduler = "FSS" )
associate pool web ( pset webset )
transfer to pset webset ( cpu 1 ; cpu 2 )
modify cpu 2 ( boolean cpu.pinned = true )
"#;

#[test]
fn the_script_of_the_reference_does_what_it_shows() {
    for place in [Place::File, Place::Machine] {
        let conf = done(place, WEB);
        let set = conf.pset("webset").unwrap();
        assert_eq!((set.min, set.max, set.cpu_set().to_string().as_str()), (1, 2, "1-2"));
        assert_eq!(set.objectives.as_ref().unwrap().text, "utilization < 80");
        assert_eq!(set.pinned().to_string(), "2");
        let pool = conf.pool("web").unwrap();
        assert_eq!(
            (pool.importance, pool.scheduler.as_ref().and_then(Keyword::known)),
            (5, Some(Class::Fss))
        );
        assert_eq!(conf.pset_of(pool).unwrap().name, "webset");
    }
}

#[test]
fn of_a_minimum_and_a_maximum_that_one_first_which_keeps_their_order() {
    let bounds = |text: &str| {
        let conf = done(Place::File, text);
        let set = conf.pset("a").unwrap();
        (set.min, set.max)
    };
    let raised = "create pset a ( uint pset.min = 4 ; uint pset.max = 6 )";
    assert_eq!(bounds(raised), (4, 6));
    assert_eq!(bounds(&format!("{raised} modify pset a ( uint pset.max = 2 ; uint pset.min = 1 )")), (1, 2));
    assert_eq!(bounds(&format!("{raised} modify pset a ( uint pset.min = 8 ; uint pset.max = 9 )")), (8, 9));
    // Of the same property the last one counts.
    assert_eq!(bounds("create pset a ( uint pset.max = 9 ; uint pset.min = 2 ; uint pset.max = 3 )"), (2, 3));
}

#[test]
fn properties_are_set_in_their_order_also_behind_a_new_name() {
    let conf = done(
        Place::File,
        r#"create pool a
           modify pool a ( string pool.name = "b" ; int x = 1 ; int x = 2 ; ~ int x ; int pool.importance = 3 )
           rename pool b to c
           modify system default ( string system.name = "here" ; string system.comment = "x" )
           rename system here to there"#,
    );
    let pool = conf.pool("c").unwrap();
    assert_eq!((pool.importance, pool.user.get("x")), (3, None));
    assert_eq!((conf.system.name.as_str(), conf.system.comment.as_str()), ("there", "x"));
}

#[test]
fn what_is_not_there_is_named_as_the_command_calls_it() {
    let says = |text: &str, column, what: &str| assert_eq!(refused(Place::File, text), at(1, column, what));
    says("info pool x", 11, "cannot locate the pool, x: Invalid search");
    says("modify pool x", 13, "cannot locate the pool, x: Invalid search");
    says("destroy pool x", 14, "cannot locate the pool, x: Invalid search");
    says("rename pool x to y", 13, "cannot locate the pool, x: Invalid search");
    says("associate pool x ( pset pset_default )", 16, "cannot locate the pool, x: Invalid search");
    says("info pset x", 11, "cannot locate the resource, x: Invalid search");
    says("modify pset x", 13, "cannot locate the resource, x: Invalid search");
    says("transfer to pset x ( cpu 1 )", 18, "cannot locate the resource, x: Invalid search");
    says("transfer 1 from pset x to y", 22, "cannot locate the resource, x: Invalid search");
    says("transfer 1 from pset pset_default to y", 38, "cannot locate the resource, y: Invalid search");
    says("transfer 1 to pset y from pset_default", 20, "cannot locate the resource, y: Invalid search");
    says("destroy pset x", 14, "cannot locate the pset, x: Invalid search");
    says("rename pset x to y", 13, "cannot locate the pset, x: Invalid search");
    says("associate pool pool_default ( pset x )", 36, "cannot locate the pset, x: Invalid search");
    says("info cpu 9", 10, "cannot locate the cpu, 9: Invalid search");
    says("modify cpu x", 12, "cannot locate the cpu, x: CPU id should only contain digits");
    says("transfer to pset pset_default ( cpu 9 )", 37, "cannot locate the cpu, 9: Invalid search");
    says(
        "transfer to pset pset_default ( cpu x )",
        37,
        "cannot locate the cpu, x: CPU id should only contain digits",
    );
    says("info system x", 13, "incorrect system name supplied: x");
    says("modify system x", 15, "incorrect system name supplied: x");
    says("destroy system x", 16, "incorrect system name supplied: x");
    says("rename system x to y", 15, "incorrect system name supplied: x");
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    let says = |text: &str, place, what: &str| {
        let (line, column) = place;
        assert_eq!(refused(Place::Machine, text), at(line, column, what), "{text}");
    };
    says("create pool pool_default", (1, 13), "cannot create the pool, pool_default: Bad parameter supplied");
    says("create pset pset_default", (1, 13), "cannot create the pset, pset_default: Bad parameter supplied");
    says("create system x", (1, 15), "cannot create the configuration, x: Bad parameter supplied");
    says(
        "destroy pool pool_default",
        (1, 14),
        "cannot destroy the pool, pool_default: Bad parameter supplied",
    );
    says(
        "destroy pset pset_default",
        (1, 14),
        "cannot destroy the pset, pset_default: Bad parameter supplied",
    );
    says(
        "create pset x\nmodify pset x (\n uint pset.min = 3 )",
        (3, 2),
        "put property pset.min failed: Error putting property",
    );
    says(
        "modify pool pool_default ( uint pool.sys_id = 3 )",
        (1, 28),
        "put property pool.sys_id failed: Bad parameter supplied",
    );
    says(
        "modify pool pool_default ( int pool.comment = 3 )",
        (1, 28),
        "put property pool.comment failed: Bad parameter supplied",
    );
    says(
        "modify pset pset_default ( uint pset.min = 9 )",
        (1, 28),
        "put property pset.min failed: Invalid configuration",
    );
    says(
        "rename pool pool_default to info_x create pool x rename pool x to info_x",
        (1, 67),
        "put property pool.name failed: Error putting property",
    );
    says("modify pool pool_default ( ~ int x )", (1, 28), "remove property x failed: Invalid search");
    says(
        "modify pool pool_default ( ~ string pool.comment )",
        (1, 28),
        "remove property pool.comment failed: Bad parameter supplied",
    );
    says(
        "create pset x associate pool pool_default ( pset x )",
        (1, 50),
        "cannot associate resource x to pool: Bad parameter supplied",
    );
    says(
        "create pset x transfer 2 from pset pset_default to x",
        (1, 15),
        "cannot transfer 2 from pset_default to x: Invalid configuration",
    );
    says(
        "create pset x transfer to pset x ( cpu 3 )",
        (1, 40),
        "cannot transfer component 3 to x: Invalid configuration",
    );
}

#[test]
fn an_error_brings_its_remedy_along() {
    let mut script = on(Place::File);
    let command = &parse("info pool x").unwrap()[0];
    let error = script.execute(command, &mut World::new()).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("there are the pools pool_default"));
}

#[test]
fn elements_are_shown_as_they_are_at_that_moment_and_showing_edits_nothing() {
    let mut script = on(Place::File);
    let shown: Vec<Option<Element>> =
        parse("info info system default info pset pset_default info cpu 3 info pool pool_default")
            .unwrap()
            .iter()
            .map(|command| script.execute(command, &mut World::new()).unwrap())
            .collect();
    let expected = [
        Element::System("default".into()),
        Element::System("default".into()),
        Element::Pset("pset_default".into()),
        Element::Cpu(CpuId(3)),
        Element::Pool("pool_default".into()),
    ];
    assert_eq!(shown, expected.map(Some));
    assert!(!script.is_edited());
    run_in(&mut script, "create pool x", &mut World::new()).unwrap();
    assert!(script.is_edited());
}

#[test]
fn a_file_is_made_of_the_machine_at_once() {
    let mut world = World::new();
    let mut script = Script::new(None, Place::File, "/x");
    run_in(
        &mut script,
        "create system here ( string system.comment = \"mine\" ) create pool web",
        &mut world,
    )
    .unwrap();
    let written = world.file.clone().unwrap();
    assert_eq!(
        (written.system.name.as_str(), written.pools.len()),
        ("here", 1),
        "what comes behind is saved at the end"
    );
    let conf = &script.editor().unwrap().conf;
    assert_eq!((conf.system.comment.as_str(), conf.pools.len()), ("mine", 2));
    assert!(script.is_edited());

    let mut script = Script::new(None, Place::File, "/x");
    run_in(&mut script, "discover", &mut world).unwrap();
    assert_eq!(world.file.unwrap().system.name, "default");
    assert!(!script.is_edited(), "it is written already");

    let mut off = World { machine: Err(PoolError::not_active()), file: None };
    let mut script = Script::new(None, Place::File, "/x");
    let not_active = "cannot create the configuration, a: Facility is not active";
    assert_eq!(run_in(&mut script, "create system a", &mut off), Err(at(1, 15, not_active)));
    let not_active = "cannot discover the configuration: Facility is not active";
    assert_eq!(run_in(&mut script, "discover", &mut off), Err(at(1, 1, not_active)));
}

#[test]
fn what_a_machine_shows_for_the_moment_only_is_not_written() {
    let mut machine = four();
    machine.pools.push(millpond_model::pools::PoolNode::new(
        "SUNWtmp_z",
        "pool_1",
        "pset_1",
        Some(PoolId(1)),
    ));
    machine.pool_mut("SUNWtmp_z").unwrap().temporary = Some(true);
    let mut set = millpond_model::pools::PsetNode::new("SUNWtmp_z", "pset_1", Some(PsetId(1)));
    set.temporary = Some(true);
    machine.psets.push(set);
    let mut world = World { machine: Ok(machine), file: None };
    let mut script = Script::new(None, Place::File, "/x");
    run_in(&mut script, "discover", &mut world).unwrap();
    let conf = &script.editor().unwrap().conf;
    assert_eq!((conf.pools.len(), conf.psets.len()), (1, 1));
}

#[test]
fn a_file_is_needed_unless_the_first_command_makes_one() {
    let missing = "cannot load configuration from /x: No such file or directory";
    for (text, column) in [("create pool web", 1), ("info", 1), ("destroy system x", 1)] {
        let mut script = Script::new(None, Place::File, "/x");
        assert_eq!(run_in(&mut script, text, &mut World::new()), Err(at(1, column, missing)), "{text}");
    }
}

#[test]
fn destroying_the_whole_removes_the_file_or_everything_on_a_machine() {
    let mut world = World { file: Some(four()), ..World::new() };
    let mut script = on(Place::File);
    run_in(&mut script, "create pool web destroy system default", &mut world).unwrap();
    assert!(world.file.is_none() && script.editor().is_none() && !script.is_edited());
    let missing = "cannot load configuration from /x: No such file or directory";
    assert_eq!(run_in(&mut script, "info", &mut world), Err(at(1, 1, missing)));

    let conf = done(Place::Machine, &format!("{WEB} destroy system default"));
    assert_eq!((conf.pools.len(), conf.psets.len(), conf.psets[0].size()), (1, 1, 4));
    let mut script = on(Place::Machine);
    run_in(&mut script, "discover", &mut World::new()).unwrap();
    assert!(!script.is_edited(), "there is no file to write it into");
}

#[test]
fn objectives_that_mean_nothing_are_kept_and_told() {
    let mut script = on(Place::File);
    let text = "create pset a (\n string pset.poold.objectives = \"utilization < 80; utilization < 80; wt-load\" )\n\
                modify system default ( string system.poold.objectives = \"locality tight\" )";
    run_in(&mut script, text, &mut World::new()).unwrap();
    let told: Vec<_> = script.take_notes().into_iter().map(|n| (n.line, n.column, n.what)).collect();
    assert_eq!(
        told,
        [
            at(2, 2, "duplicate objective: utilization < 80"),
            at(2, 2, "unrecognized objective name for pset: wt-load"),
            at(3, 25, "unrecognized objective name for system: locality tight"),
        ]
    );
    assert!(script.take_notes().is_empty());
    let set = script.editor().unwrap().conf.pset("a").unwrap();
    let objectives = PropValue::from("utilization < 80; utilization < 80; wt-load");
    assert_eq!(set.property("pset.poold.objectives"), Some(objectives));
}

#[test]
fn an_editor_of_a_script_is_that_of_its_place() {
    let script = on(Place::Machine);
    assert_eq!(script.editor().map(|e: &Editor| e.place), Some(Place::Machine));
}
