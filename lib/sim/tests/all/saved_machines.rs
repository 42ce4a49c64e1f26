//! Saved machines: the contents of a new file, and files of the previous format.

use millpond_machine::Clock;
use millpond_model::{
    ClassParams, ControlValues, CpuCap, CpuId, CpuSet, Lwp, LwpId, Nanos, Pid, PsetId, Quantum, SetMemory,
    Shares, State, TsTable,
};
use millpond_sim::kernel::{ClassState, LgroupAffinities, Thread};
use millpond_sim::tables::{Bond, LwpRecord, SetRecord};
use millpond_sim::workloads::Load;
use millpond_sim::{SimMachine, SimState};
use std::sync::Arc;

fn load(machine: &SimMachine, text: &str) -> Pid {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    machine.start_load(&Load::parse(&words).unwrap())
}

/// A machine with all possible settings.
fn machine() -> SimMachine {
    let machine = SimMachine::named("x4200").unwrap();
    let (spin, build, net) =
        (load(&machine, "spin -t 6"), load(&machine, "build -j 2 --files 4"), load(&machine, "iperf"));
    let shares = |shares| ControlValues { shares: Shares::new(shares).ok(), cap: None };
    machine.edit(|s| {
        s.tables.sets.insert(PsetId(1), SetRecord { shared: false, serial: 1 });
        let moved = s.tables.processors.get_mut(&CpuId(3)).unwrap();
        (moved.set, moved.arrival) = (PsetId(1), 1);
        s.tables.processors.get_mut(&CpuId(0)).unwrap().state = State::NoIntr;
        s.tables.memory.insert(PsetId(1), SetMemory::Local);
        let mut lwp = |number: u32, set: &dyn Fn(&mut LwpRecord)| {
            set(s.tables.lwp_mut(Lwp { pid: spin, lwp: LwpId(number) }).unwrap());
        };
        lwp(1, &|l| l.set = Some(Bond::hard(PsetId(1))));
        lwp(2, &|l| l.cpu = Some(Bond::hard(CpuSet::from_iter([CpuId(0), CpuId(1)]))));
        lwp(3, &|l| l.cpu = Some(Bond { to: CpuSet::from_iter([CpuId(2)]), soft: true }));
        lwp(4, &|l| l.class = ClassParams::Fx { uprilim: 20, upri: 10, quantum: Quantum::Ticks(7) });
        lwp(5, &|l| l.class = ClassParams::Ia { uprilim: 5, upri: -5, foreground: true });
        lwp(6, &|l| l.class = ClassParams::Fss { uprilim: 10, upri: 3 });
        lwp(6, &|l| l.aside = true);
        lwp(4, &|l| l.affinities = LgroupAffinities { strong: 2, weak: 1 });
        let mut rows = s.tables.dispatch.ts.rows().to_vec();
        rows[29].quantum = 11;
        Arc::make_mut(&mut s.tables.dispatch).ts = TsTable::new(rows).unwrap();
        s.add_project("web", None, shares(3)).unwrap();
        s.enter_project(net, "web").unwrap();
        s.tables.zone_controls.insert(0, shares(2));
        s.tables.processes.get_mut(&spin).unwrap().controls = shares(5);
        s.tables.processes.get_mut(&build).unwrap().controls =
            ControlValues { cap: CpuCap::new(50).ok(), shares: None };
    });
    machine.sleep_until(Nanos::from_millis(35));
    // Its children keep its former holder.
    assert!(machine.exit(build));
    machine.sleep_until(Nanos::from_millis(37));
    machine
}

/// The same machine at the same time, saved by the program of the previous format.
const BEFORE: &str = include_str!("saved/format-4.json");

/// The kernel's placement of a thread.
fn thread(state: &SimState, number: u32) -> Thread {
    let lwp = Lwp { pid: Pid(300), lwp: LwpId(number) };
    let (thread, _) = state.threads.iter().find(|(_, found)| **found == lwp).unwrap();
    state.kernel.thread(*thread).clone()
}

fn has_what_the_tables_say(state: &SimState) {
    let places = [1, 2, 3, 5, 6].map(|number| {
        let thread = thread(state, number);
        (thread.part.0, thread.bound.map(|cpu| cpu.0))
    });
    // The partition of its set, one for its two CPUs, a CPU of the default partition, the default partition, and ASIDE.
    assert_eq!(places, [(2, None), (3, None), (0, Some(2)), (0, None), (1, None)]);
    assert_eq!(thread(state, 4).affinities, LgroupAffinities { strong: 2, weak: 1 });
    let ClassState::Fx(fx) = thread(state, 4).class else { panic!("it is in FX") };
    assert_eq!((fx.pri, fx.uprilim, fx.quantum), (10, 20, Quantum::Ticks(7)));
    let ClassState::Ts(ia) = thread(state, 5).class else { panic!("it is in IA") };
    assert_eq!((ia.upri, ia.uprilim, ia.boost, ia.foreground), (-5, 5, 10, Some(true)));
    let ClassState::Fss(fss) = thread(state, 6).class else { panic!("it is in FSS") };
    assert_eq!((fss.upri, fss.uprilim), (3, 10));
    assert_eq!(state.kernel.tables().ts.row(29).quantum, 11);
    assert_eq!(state.kernel.tunables.hz, 100);
}

#[test]
fn a_machine_of_the_format_before_goes_on_as_the_same_machine_saved_anew() {
    let mut before = SimState::load(BEFORE).unwrap();
    has_what_the_tables_say(&before);
    let mut anew = SimState::load(&before.save()).unwrap();
    assert!(anew == before);
    before.advance(2_000_000_000);
    anew.advance(2_000_000_000);
    assert!(anew == before);
    assert_eq!(anew.check(), Ok(()));
}

#[test]
fn a_machine_that_was_saved_is_the_same_machine() {
    let machine = machine();
    let mut loaded = SimState::load(&machine.save()).unwrap();
    has_what_the_tables_say(&loaded);
    assert!(machine.view(|state| *state == loaded));
    loaded.advance(1_000_000_000);
    machine.sleep_until(Nanos::from_secs(1));
    assert_eq!(loaded.save(), machine.save());
}

#[test]
fn what_the_tables_say_is_saved_once() {
    let machine = machine();
    let saved: serde_json::Value = serde_json::from_str(&machine.save()).unwrap();
    let none = |value: &serde_json::Value, keys: &[&str]| {
        let object = value.as_object().unwrap();
        assert!(keys.iter().all(|key| !object.contains_key(*key)), "{keys:?} of {value}");
    };
    let kernel = &saved["kernel"];
    none(kernel, &["tables", "tunables", "parts", "levels", "clock_cpu", "capped"]);
    for cpu in kernel["cpus"].as_array().unwrap() {
        none(cpu, &["part", "lgroup", "core"]);
    }
    let threads = kernel["threads"].as_array().unwrap();
    for thread in machine.view(|state| state.threads.keys().copied().collect::<Vec<_>>()) {
        let thread = &threads[thread.0 as usize];
        none(thread, &["part", "bound", "wish", "holder"]);
        let class = thread["class"].as_object().unwrap().values().next().unwrap();
        none(class, &["upri", "uprilim", "foreground", "pri", "quantum", "signal"]);
    }
    let holders = kernel["holders"].as_array().unwrap();
    holders.iter().for_each(|holder| none(holder, &["shares"]));
}

#[test]
fn the_cap_of_a_process_that_ended_is_saved_while_its_children_have_it() {
    let machine = SimMachine::named("x4200").unwrap();
    let build = load(&machine, "build");
    let cap = ControlValues { cap: CpuCap::new(50).ok(), shares: None };
    machine.edit(|s| s.tables.processes.get_mut(&build).unwrap().controls = cap);
    let percents = || {
        let saved: serde_json::Value = serde_json::from_str(&machine.save()).unwrap();
        let holders = saved["kernel"]["holders"].as_array().unwrap().clone();
        let caps = holders.iter().filter_map(|holder| holder.get("cap"));
        caps.map(|cap| cap.get("percent").and_then(serde_json::Value::as_u64)).collect::<Vec<_>>()
    };
    machine.sleep_until(Nanos::from_millis(10));
    // The tables have it.
    assert_eq!(percents(), [None]);
    assert!(machine.exit(build));
    assert_eq!(percents(), [Some(50)]);
    assert!(SimState::load(&machine.save()).unwrap() == machine.view(Clone::clone));
}
