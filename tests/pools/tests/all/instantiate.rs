//! How files are applied to simulated machines (`pooladm -c`), and which files a machine refuses.

use millpond_machine::facets::Member;
use millpond_machine::{Machine, Writer};
use millpond_model::pools::{PoolsConf, PoolsState, PropValue};
use millpond_model::{CpuId, Pid, PoolId};
use millpond_pools::{Editor, Element, Place, dynamic, instantiate, zones};
use millpond_sim::SimMachine;

fn enabled(name: &str) -> SimMachine {
    let machine = SimMachine::named(name).unwrap();
    let writer = Writer::open(&machine).unwrap();
    dynamic::enable(&writer, &machine, false).unwrap().unwrap();
    drop(writer);
    machine
}

/// A file with one more pool and set, and these bounds.
fn file(min: u64, max: u64, importance: i64) -> PoolsConf {
    let mut editor = Editor::new(PoolsConf::fresh([]), Place::File);
    let set = Element::Pset("webset".into());
    editor.create_pset("webset").unwrap();
    editor.put(&set, "pset.max", PropValue::Uint(max)).unwrap();
    editor.put(&set, "pset.min", PropValue::Uint(min)).unwrap();
    editor.create_pool("web").unwrap();
    editor.put(&Element::Pool("web".into()), "pool.importance", PropValue::Int(importance)).unwrap();
    editor.associate("web", Some("webset")).unwrap();
    editor.conf
}

fn commit(machine: &SimMachine, file: &PoolsConf) -> PoolsState {
    let to = instantiate(file, &dynamic::read(machine).unwrap()).unwrap();
    let writer = Writer::open(machine).unwrap();
    dynamic::commit(&writer, machine, Some(to)).unwrap().outcome.unwrap()
}

fn sets(state: &PoolsState) -> String {
    let one = |s: &millpond_model::pools::PsetNode| format!("{}={}", s.name, s.cpu_set());
    state.conf.psets.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn pools_are_enabled_once_and_only_without_sets() {
    let machine = SimMachine::named("x4200").unwrap();
    let error = dynamic::read(&machine).unwrap_err();
    assert_eq!(error.to_string(), "Facility is not active");
    let writer = Writer::open(&machine).unwrap();
    let set = machine.psets().unwrap();
    writer
        .commit(
            set.prepare_create(&[CpuId(1)], millpond_machine::facets::CreateOptions::default(), false)
                .unwrap(),
        )
        .unwrap();
    let error = dynamic::enable(&writer, &machine, false).unwrap_err();
    assert_eq!(error.to_string(), "Device busy");
    writer.commit(set.prepare_destroy(millpond_model::PsetId(1)).unwrap()).unwrap();
    assert!(dynamic::enable(&writer, &machine, false).unwrap().is_some());
    assert!(dynamic::enable(&writer, &machine, false).unwrap().is_none());
    let refusal =
        set.prepare_create(&[], millpond_machine::facets::CreateOptions::default(), false).unwrap_err();
    assert_eq!(refusal.to_string(), "the machine: pools are enabled, and sets are theirs");
}

#[test]
fn what_only_the_file_has_comes_and_goes_with_the_next_one() {
    let machine = enabled("x4200");
    let before = dynamic::read(&machine).unwrap();
    let state = commit(&machine, &file(1, 2, 5));
    assert_eq!(sets(&state), "pset_default=2-3 webset=0-1");
    assert_eq!(state.conf.pool("web").unwrap().id, Some(PoolId(1)));
    assert_eq!(machine.psets().unwrap().list().unwrap()[0].members, [CpuId(0), CpuId(1)]);
    let state = commit(&machine, &PoolsConf::fresh([]));
    assert_eq!(sets(&state), "pset_default=0-3");
    assert!(machine.psets().unwrap().list().unwrap().is_empty());
    let after = dynamic::read(&machine).unwrap();
    assert_eq!(after.conf.psets, before.conf.psets);
}

#[test]
fn processes_follow_their_pool_and_come_home_when_it_ends() {
    let machine = enabled("x4200");
    let home = machine.threads().unwrap().lwps(Pid(204)).unwrap();
    commit(&machine, &file(1, 2, 5));
    let writer = Writer::open(&machine).unwrap();
    dynamic::bind(&writer, &machine, &Member::Process(Pid(204)), PoolId(1)).unwrap();
    drop(writer);
    let allowed = || machine.threads().unwrap().lwps(Pid(204)).unwrap()[0].allowed.to_string();
    assert_eq!(allowed(), "0-1");
    let child = machine.fork(millpond_model::Lwp { pid: Pid(204), lwp: millpond_model::LwpId(1) }).unwrap();
    assert_eq!(machine.pools().unwrap().members().unwrap()[&child], PoolId(1), "children are born there");
    commit(&machine, &file(3, 3, 5));
    assert_eq!(allowed(), "0-2");
    let writer = Writer::open(&machine).unwrap();
    let state = dynamic::emptied(dynamic::read(&machine).unwrap());
    dynamic::commit(&writer, &machine, Some(state)).unwrap();
    assert_eq!(machine.threads().unwrap().lwps(Pid(204)).unwrap(), home);
    assert!(machine.pools().unwrap().members().unwrap().is_empty());
    dynamic::commit(&writer, &machine, None).unwrap();
    assert_eq!(dynamic::read(&machine).unwrap_err().to_string(), "Facility is not active");
}

#[test]
fn what_the_machine_cannot_have_is_refused_with_figures() {
    let machine = enabled("x4200");
    let now = dynamic::read(&machine).unwrap();
    let error = instantiate(&file(4, 8, 1), &now).unwrap_err();
    assert_eq!(error.to_string(), "Invalid configuration");
    assert_eq!(error.hint.as_deref(), Some("all minima together are 5, and there are 4 CPUs"));
    let mut tight = file(0, 1, 1);
    tight.pset_mut("pset_default").unwrap().max = 2;
    let error = instantiate(&tight, &now).unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("all maxima together are 3, and there are 4 CPUs"));
}

#[test]
fn a_set_with_processes_cannot_be_emptied_and_nothing_is_half_done() {
    let machine = enabled("x4200");
    commit(&machine, &file(1, 2, 5));
    let writer = Writer::open(&machine).unwrap();
    dynamic::bind(&writer, &machine, &Member::Process(Pid(204)), PoolId(1)).unwrap();
    let before = machine.save();
    let mut state = dynamic::read(&machine).unwrap();
    state.conf.pset_mut("webset").unwrap().min = 0;
    for cpu in [0, 1] {
        state.conf.move_cpu(CpuId(cpu), "pset_default");
    }
    let error = dynamic::commit(&writer, &machine, Some(state)).unwrap_err();
    assert_eq!(error.to_string(), "Device busy");
    assert_eq!(machine.save(), before);
    let error = dynamic::bind(&writer, &machine, &Member::Process(Pid(9999)), PoolId(1)).unwrap_err();
    assert_eq!(error.to_string(), "No such process");
    let error = dynamic::bind(&writer, &machine, &Member::Process(Pid(204)), PoolId(7)).unwrap_err();
    assert_eq!(error.to_string(), "Invalid search");
}

#[test]
fn the_state_of_a_processor_is_a_property() {
    let machine = enabled("x4200");
    let mut editor = Editor::new(dynamic::read(&machine).unwrap().conf, Place::Machine);
    editor.put(&Element::Cpu(CpuId(3)), "cpu.status", PropValue::from("off-line")).unwrap();
    let state = PoolsState { conf: editor.conf, ..dynamic::read(&machine).unwrap() };
    let writer = Writer::open(&machine).unwrap();
    dynamic::commit(&writer, &machine, Some(state)).unwrap();
    let states = machine.processors().unwrap().states().unwrap();
    assert_eq!(states[3].state.word(), "off-line");
    let pset = dynamic::read(&machine).unwrap();
    let default = pset.conf.default_pset().unwrap();
    assert_eq!((default.size(), default.online()), (4, 3));
}

#[test]
fn zones_come_back_with_the_configuration_of_a_file() {
    let machine = enabled("smartos-2");
    commit(&machine, &file(1, 1, 1));
    let writer = Writer::open(&machine).unwrap();
    dynamic::bind(&writer, &machine, &Member::Zone("zone1".into()), PoolId(1)).unwrap();
    drop(writer);
    let inside = |machine: &SimMachine| machine.pools().unwrap().members().unwrap();
    let members = inside(&machine);
    assert!(!members.is_empty());
    let kept = zones::described(dynamic::read(&machine).unwrap());
    // Another boot with the zone present at once, and a zone that does not exist.
    let again = enabled("smartos-2");
    let mut kept = kept;
    let web = kept.pools.iter_mut().find(|pool| pool.name == "web").unwrap();
    assert_eq!(web.user.string(zones::ZONES), Some("zone1"));
    web.user.set(zones::ZONES, "zone1;zone9");
    let state = commit(&again, &kept);
    assert_eq!(inside(&again), members);
    let bound: Vec<(&str, u32)> = state.zones.iter().map(|(name, pool)| (name.as_str(), pool.0)).collect();
    assert_eq!(bound, [("zone1", 1), ("zone9", 1)]);
    assert!(state.conf.pools.iter().all(|pool| pool.user.string(zones::ZONES).is_none()));
    // A process that was bound elsewhere since then stays there.
    let writer = Writer::open(&again).unwrap();
    let pid = *members.keys().next().unwrap();
    dynamic::bind(&writer, &again, &Member::Process(pid), PoolId::DEFAULT).unwrap();
    drop(writer);
    commit(&again, &kept);
    assert!(!inside(&again).contains_key(&pid));
}
