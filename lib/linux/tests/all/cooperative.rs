//! Sets for users without rights to cgroups.

use crate::common::HandMade;
use millpond_machine::facets::CreateOptions;
use millpond_machine::{Knobs, Machine, Writer};
use millpond_model::{CpuId, Pid, PsetId, PsetMode};

fn without_cgroups() -> HandMade {
    let made = HandMade::new(4, false);
    std::fs::remove_dir_all(made.dir.path().join("cgroup")).unwrap();
    std::fs::create_dir(made.dir.path().join("cgroup")).unwrap();
    made
}

fn allowed(machine: &dyn Machine, pid: u32) -> String {
    machine.threads().unwrap().lwps(Pid(pid)).unwrap()[0].allowed.to_string()
}

fn bind(machine: &dyn Machine, pid: u32, to: Option<u32>) {
    let writer = Writer::open(machine).unwrap();
    let change = machine.threads().unwrap().prepare_bind_set(Pid(pid), None, to.map(PsetId)).unwrap();
    writer.commit(change).unwrap();
}

fn create(machine: &dyn Machine, cpus: &[u32]) {
    let cpus: Vec<CpuId> = cpus.iter().copied().map(CpuId).collect();
    let writer = Writer::open(machine).unwrap();
    let change = machine.psets().unwrap().prepare_create(&cpus, CreateOptions::default(), false).unwrap();
    assert_eq!(
        change.notes,
        ["there are no rights to cgroups: members are confined, other processes are not pushed out"]
    );
    writer.commit(change).unwrap();
}

#[test]
fn members_are_confined_by_their_masks_and_get_them_back() {
    let made = without_cgroups();
    made.process(20, &[20, 21], "mine", 0);
    made.file("proc/20/task/20/mask", "0-2");
    let before = made.snapshot();
    let machine = made.machine();
    create(&machine, &[2, 3]);
    assert_eq!(machine.psets().unwrap().list().unwrap()[0].mode, PsetMode::Affinity);
    bind(&machine, 20, Some(1));
    assert_eq!(allowed(&machine, 20), "2-3");
    let lwps = machine.threads().unwrap().bound().unwrap();
    assert!(lwps.iter().all(|l| l.set == PsetId(1)) && lwps.len() == 2, "{lwps:?}");
    let writer = Writer::open(&machine).unwrap();
    let change = machine.psets().unwrap().prepare_assign(PsetId::DEFAULT, &[CpuId(3)], false).unwrap();
    writer.commit(change).unwrap();
    assert_eq!(allowed(&machine, 20), "2", "members follow their set");
    let change = machine.psets().unwrap().prepare_destroy(PsetId(1)).unwrap();
    writer.commit(change).unwrap();
    drop(writer);
    assert_eq!(allowed(&machine, 20), "0-2");
    assert_eq!(made.snapshot(), before);
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn a_processor_binding_inside_a_set_ends_in_the_set() {
    let made = without_cgroups();
    made.process(20, &[20], "mine", 0);
    let machine = made.machine();
    create(&machine, &[2, 3]);
    bind(&machine, 20, Some(1));
    for (cpu, want) in [(Some(3), "3"), (None, "2-3")] {
        let writer = Writer::open(&machine).unwrap();
        let change = machine
            .threads()
            .unwrap()
            .prepare_bind_cpus(Pid(20), None, &cpu.map(CpuId).into_iter().collect())
            .unwrap();
        writer.commit(change).unwrap();
        assert_eq!(allowed(&machine, 20), want);
    }
    bind(&machine, 20, None);
    assert_eq!(allowed(&machine, 20), "0-3");
}

#[test]
fn the_default_set_keeps_a_processor() {
    let made = without_cgroups();
    let machine = made.machine();
    let cpus: Vec<CpuId> = (0..4).map(CpuId).collect();
    let refusal =
        machine.psets().unwrap().prepare_create(&cpus, CreateOptions::default(), false).unwrap_err();
    assert_eq!(refusal.to_string(), "CPU 3: it is the last one in the default set");
}

/// Removes or restores write permissions: of a `file`, or of a whole `tree`.
fn rights(made: &HandMade, file: bool, tree: bool) {
    use std::os::unix::fs::PermissionsExt;
    let top = made.dir.path().join(made.group_root());
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&top, if tree { 0o755 } else { 0o555 });
    set(&top.join("cgroup.procs"), if file { 0o644 } else { 0o444 });
}

/// A machine with set 1 (CPUs 2 and 3) and process 20 in it, for a user without rights.
fn with_a_set_of_the_machine(v1: bool) -> HandMade {
    let made = HandMade::new(8, v1);
    made.process(20, &[20], "inside", 0);
    made.process(30, &[30], "outside", 0);
    let root = made.machine();
    let writer = Writer::open(&root).unwrap();
    let cpus = [CpuId(2), CpuId(3)];
    let change = root.psets().unwrap().prepare_create(&cpus, CreateOptions::default(), false).unwrap();
    writer.commit(change).unwrap();
    drop(writer);
    bind(&root, 20, Some(1));
    made
}

fn refused<T>(result: Result<millpond_machine::Change<T>, millpond_machine::Refusal>) -> (String, String) {
    let refusal = result.err().unwrap();
    (refusal.to_string(), refusal.hint.unwrap_or_default())
}

#[test]
fn without_rights_the_sets_of_the_machine_are_seen_and_left_alone() {
    for v1 in [false, true] {
        let made = with_a_set_of_the_machine(v1);
        rights(&made, false, true);
        let machine = made.machine();
        let psets = machine.psets().unwrap();
        let list = psets.list().unwrap();
        assert_eq!(list.len(), 1, "{list:?}");
        assert_eq!((list[0].id, list[0].mode, list[0].breaches.len()), (PsetId(1), PsetMode::Own, 0));

        let options = CreateOptions::default();
        let taken = refused(psets.prepare_create(&[CpuId(3)], options, false));
        assert_eq!(taken.0, "CPU 3: it is in set 1, which is the machine's");
        assert!(!taken.1.is_empty());
        create(&machine, &[4, 5]);
        let list: Vec<_> = psets.list().unwrap().into_iter().map(|s| (s.id, s.mode)).collect();
        assert_eq!(list, [(PsetId(1), PsetMode::Own), (PsetId(2), PsetMode::Affinity)]);

        let lwps = machine.threads().unwrap().lwps(Pid(20)).unwrap();
        assert_eq!(
            (lwps[0].set, lwps[0].cpus.is_empty()),
            (PsetId(1), true),
            "the truth about who is in a set of the machine"
        );
        bind(&machine, 30, Some(2));
        assert_eq!(machine.threads().unwrap().lwps(Pid(30)).unwrap()[0].set, PsetId(2));

        let hint = "set 1 is the machine's: only the superuser changes it";
        let denied = |what: &str| (format!("{what}: permission denied"), hint.to_owned());
        assert_eq!(refused(psets.prepare_assign(PsetId(1), &[CpuId(6)], false)), denied("processor set 1"));
        assert_eq!(refused(psets.prepare_destroy(PsetId(1))), denied("processor set 1"));
        let threads = machine.threads().unwrap();
        for (pid, to) in [(30, Some(PsetId(1))), (20, Some(PsetId(2))), (20, None)] {
            let said = refused(threads.prepare_bind_set(Pid(pid), None, to));
            assert_eq!(said, denied(&format!("process {pid}")));
        }
        let taken = refused(psets.prepare_assign(PsetId::DEFAULT, &[CpuId(2)], false));
        assert_eq!(taken.0, "CPU 2: it is in set 1, which is the machine's");
        rights(&made, true, true);
    }
}

#[test]
fn a_tree_that_is_read_only_is_named() {
    let made = with_a_set_of_the_machine(false);
    rights(&made, false, false);
    let machine = made.machine();
    let psets = machine.psets().unwrap();
    let tree = format!("the cgroup tree {}", made.dir.path().join("cgroup").display());
    let said = refused(psets.prepare_destroy(PsetId(1)));
    assert_eq!(said.0, format!("processor set 1: {tree} is read-only"));
    assert!(said.1.contains("mount it for writing"), "{}", said.1);
    let change = psets.prepare_create(&[CpuId(5)], CreateOptions::default(), false).unwrap();
    let note = format!(
        "{tree} is read-only: members are confined, other processes are not pushed out; mount it for writing, for sets that keep \
         others out"
    );
    assert_eq!(change.notes, [note]);
    rights(&made, true, true);
}

#[test]
fn a_number_that_the_machine_takes_later_is_the_machines() {
    let made = HandMade::new(8, false);
    made.process(20, &[20], "mine", 0);
    rights(&made, false, true);
    let user = made.machine();
    create(&user, &[4, 5]);
    bind(&user, 20, Some(1));
    rights(&made, true, true);
    let root = made.machine();
    let writer = Writer::open(&root).unwrap();
    let change = root.psets().unwrap().prepare_create(&[CpuId(4)], CreateOptions::default(), false).unwrap();
    assert_eq!(writer.commit(change).unwrap().outcome.0, PsetId(1));
    drop(writer);
    rights(&made, false, true);
    let user = made.machine();
    let list = user.psets().unwrap().list().unwrap();
    assert_eq!(list.iter().map(|s| s.id).collect::<Vec<_>>(), [PsetId(1), PsetId(2)]);
    assert_eq!(
        list[1].breaches,
        ["it was set 1, until the machine got a set of that number", "CPU 4 went to set 1 of the machine"]
    );
    assert_eq!(user.threads().unwrap().lwps(Pid(20)).unwrap()[0].set, PsetId(2));
    let writer = Writer::open(&user).unwrap();
    let change = user.psets().unwrap().prepare_destroy(PsetId(2)).unwrap();
    writer.commit(change).unwrap();
    drop(writer);
    let list = user.psets().unwrap().list().unwrap();
    assert_eq!(list.iter().map(|s| s.id).collect::<Vec<_>>(), [PsetId(1)]);
    assert_eq!(user.threads().unwrap().lwps(Pid(20)).unwrap()[0].set, PsetId::DEFAULT);
    rights(&made, true, true);
}

#[test]
fn the_record_of_a_member_that_has_ended_goes_with_the_next_change() {
    let made = without_cgroups();
    made.process(20, &[20], "ends", 0);
    made.process(30, &[30], "lives", 0);
    let machine = made.machine();
    create(&machine, &[1]);
    bind(&machine, 20, Some(1));
    bind(&machine, 30, Some(1));
    made.exit(20);
    assert!(machine.settle().unwrap().is_empty());
    let ended: Vec<String> = machine.stale().iter().map(ToString::to_string).collect();
    assert_eq!(ended, ["mask:20/20@1020: absent -> absent", "record:member.20@1020: 1 -> absent"]);
    Writer::open(&machine).unwrap().settle().unwrap();
    assert!(machine.stale().is_empty());
    assert_eq!(made.read("state/records/member.20@1020"), "(absent)");
    assert_eq!(made.read("state/records/member.30@1030"), "1");
}
