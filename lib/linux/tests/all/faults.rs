//! Refusals and interference by the machine or other programs: reported by name, with a remedy, and without half-done changes.

use crate::common::HandMade;
use millpond_linux::LinuxMachine;
use millpond_machine::facets::{CreateOptions, FenceWish};
use millpond_machine::{Knobs, Machine, Step, Writer};
use millpond_model::{CpuId, Others, PsetId, Shelter, State};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

/// Changes the state of a CPU. Returns the notes, or the refusal.
fn make(machine: &LinuxMachine, cpu: u32, to: State) -> Result<Vec<String>, (String, String)> {
    let writer = Writer::open(machine).unwrap();
    let change = machine.processors().unwrap().prepare_state(CpuId(cpu), to, false);
    let done = change.and_then(|change| writer.commit(change));
    done.map(|done| done.notes).map_err(|r| (r.reason.to_string(), r.hint.unwrap_or_default()))
}

#[test]
fn who_has_a_promise_of_the_deadline_class_is_named() {
    let made = HandMade::new(4, false);
    made.process(7, &[7, 9], "radar", 0);
    let stat = made.read("proc/7/task/9/stat");
    let fields: Vec<&str> = stat.split(' ').collect();
    // The policy is the 41st field.
    let mut long: Vec<String> = fields.iter().map(|f| (*f).to_owned()).collect();
    long.resize(41, "0".to_owned());
    long[40] = "6".to_owned();
    made.file("proc/7/task/9/stat", &(long.join(" ") + "\n"));
    made.file("proc/7/task/9/mask", "2-3");
    let machine = made.machine();
    let before = made.snapshot();
    let said = make(&machine, 3, State::OffLine).unwrap_err();
    assert_eq!(
        said,
        (
            "the kernel has promised its time to thread 7/9 (radar) (SCHED_DEADLINE)".to_owned(),
            "end them; or give them another class while they compute, not while they sleep: chrt -o -p 0 9"
                .to_owned()
        )
    );
    assert_eq!(made.snapshot(), before, "nothing is half-done");
    make(&machine, 1, State::OffLine).unwrap();
}

#[test]
fn an_interrupt_that_stays_is_told_once() {
    let made = HandMade::new(4, false);
    let file = made.dir.path().join("proc/irq/25/smp_affinity_list");
    let managed = |on: bool| {
        use std::os::unix::fs::PermissionsExt;
        let mode = if on { 0o444 } else { 0o644 };
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    managed(true);
    let machine = made.machine();
    let line = "interrupt 25 (eth0-rx-25) stays on 0-3: the kernel manages it";
    assert_eq!(make(&machine, 2, State::NoIntr).unwrap(), [line]);
    assert_eq!(make(&machine, 3, State::NoIntr).unwrap(), [""; 0], "it was told already");
    assert_eq!(machine.interrupts().unwrap().staying().unwrap(), [line], "doctor tells it always");
    make(&machine, 2, State::OnLine).unwrap();
    make(&machine, 3, State::OnLine).unwrap();
    assert_eq!(made.read("state/records/told"), "(absent)", "and the memory of it is gone with the last one");
    assert_eq!(make(&machine, 2, State::NoIntr).unwrap(), [line], "a new beginning");
    managed(false);
}

#[test]
fn a_partition_that_somebody_ends_is_told_in_words() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    let writer = Writer::open(&machine).unwrap();
    let cpus = [CpuId(2), CpuId(3)];
    let change = machine.psets().unwrap().prepare_create(&cpus, CreateOptions::default(), false).unwrap();
    writer.commit(change).unwrap();
    drop(writer);
    let breach = |is: &str| {
        made.file("cgroup/mpset1/cpuset.cpus.partition", &format!("{is}\n"));
        machine.psets().unwrap().list().unwrap()[0].breaches.join("; ")
    };
    let open = "the kernel does not keep others out: ";
    assert_eq!(breach("root"), "");
    assert_eq!(breach("member"), format!("{open}its partition is switched off"));
    assert_eq!(
        breach("root invalid (No cpu available due to hotplug)"),
        format!("{open}none of its CPUs is online")
    );
    made.file("cgroup/docker/cpuset.cpus", "1-2\n");
    made.file("cgroup/docker/cpuset.cpus.partition", "member\n");
    assert_eq!(breach("root invalid"), format!("{open}group /docker lists CPU 2 as well"));
}

#[test]
fn a_list_that_vanishes_is_called_by_its_name() {
    let made = HandMade::new(4, false);
    let machine = made.machine();
    let called = |knob: &str| machine.called(&millpond_machine::Knob(knob.into()));
    assert_eq!(called("cg:/mpset1/cpuset.cpus"), "the CPU list of set 1");
    let writer = Writer::open(&machine).unwrap();
    let psets = machine.psets().unwrap();
    let change = psets.prepare_create(&[CpuId(2)], CreateOptions::default(), false).unwrap();
    writer.commit(change).unwrap();
    let change = psets.prepare_assign(PsetId(1), &[CpuId(3)], false).unwrap();
    std::fs::remove_dir_all(made.dir.path().join("cgroup/mpset1")).unwrap();
    let refusal = writer.commit(change).unwrap_err();
    assert_eq!(refusal.reason.to_string(), "the CPU list of set 1 is gone");
    assert_eq!(refusal.hint.as_deref(), Some("another program removed it meanwhile; try again"));
}

/// A daemon with the protocol of irqbalance(1). Like the real one, it applies a list at its next round.
struct Daemon {
    banned: Arc<Mutex<String>>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Daemon {
    /// Starts a daemon as process `pid` of the machine. A deaf one closes connections.
    fn start(made: &HandMade, pid: u32, banned: &str, deaf: bool) -> Daemon {
        let dir = made.dir.path().join("run/irqbalance");
        std::fs::create_dir_all(&dir).unwrap();
        let listener = UnixListener::bind(dir.join(format!("irqbalance{pid}.sock"))).unwrap();
        made.process(pid, &[pid], "irqbalance", 0);
        let daemon = Daemon { banned: Arc::new(Mutex::new(banned.into())), heard: Arc::default() };
        let (banned, heard) = (Arc::clone(&daemon.banned), Arc::clone(&daemon.heard));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = [0u8; 256];
                let len = stream.read(&mut request).unwrap();
                let request = String::from_utf8_lossy(&request[..len]).into_owned();
                if deaf {
                    continue;
                }
                if let Some(list) = request.strip_prefix("settings cpus ") {
                    heard.lock().unwrap().push(list.to_owned());
                } else {
                    assert_eq!(request, "setup");
                    let cpus: millpond_model::CpuSet = banned.lock().unwrap().parse().unwrap();
                    let answer = format!("SLEEP 10 IRQ 4 LOAD 0 DIFF 0 CLASS 1 BANNED {}", cpus.to_mask(64));
                    stream.write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        daemon
    }

    /// Applies the last list that it received.
    fn round(&self) -> String {
        let heard = self.heard.lock().unwrap().last().cloned().unwrap_or_default();
        let list = if heard == "NULL" { String::new() } else { heard };
        self.banned.lock().unwrap().clone_from(&list);
        list
    }
}

#[test]
fn irqbalance_is_told_what_to_leave_alone_and_again_after_it_was_restarted() {
    let made = HandMade::new(8, false);
    let daemon = Daemon::start(&made, 800, "1", false);
    let machine = made.machine();
    assert_eq!(make(&machine, 4, State::NoIntr).unwrap(), [""; 0]);
    assert!(machine.settle().unwrap().is_empty(), "it was told, and takes its time");
    assert_eq!(daemon.round(), "1,4");
    make(&machine, 5, State::NoIntr).unwrap();
    assert_eq!(daemon.round(), "1,4-5");
    assert!(machine.settle().unwrap().is_empty());

    // A new daemon, which has only its administrator's settings.
    made.exit(800);
    let daemon = Daemon::start(&made, 801, "1", false);
    let steps: Vec<String> = machine.settle().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["irqbalance:banned: 1 -> 1,4-5"]);
    Writer::open(&machine).unwrap().settle().unwrap();
    assert_eq!(daemon.round(), "1,4-5");

    make(&machine, 4, State::OnLine).unwrap();
    make(&machine, 5, State::OnLine).unwrap();
    assert_eq!(daemon.round(), "1", "it has the list again that its administrator gave it");
    assert!(machine.journal().baselines().is_empty());
    assert_eq!(*daemon.heard.lock().unwrap(), ["1,4-5", "1,5", "1"]);
}

#[test]
fn what_was_told_to_irqbalance_is_put_back_after_a_crash() {
    let made = HandMade::new(8, false);
    let daemon = Daemon::start(&made, 800, "", false);
    let machine = made.machine();
    let change = machine.processors().unwrap().prepare_state(CpuId(4), State::NoIntr, false).unwrap();
    let step = change.steps.iter().find(|s| s.knob.0 == "irqbalance:banned").unwrap().clone();
    machine.journal().begin("make processor 4 no-intr", &machine.boot_id(), &change.steps).unwrap();
    machine.write(&step.knob, step.after.as_ref()).unwrap();
    assert_eq!(daemon.round(), "4");
    Writer::open(&machine).unwrap();
    assert_eq!(daemon.round(), "");
    assert!(machine.journal().baselines().is_empty());
}

#[test]
fn an_irqbalance_that_cannot_be_told_is_named_with_a_remedy_and_one_that_died_is_forgotten() {
    let made = HandMade::new(8, false);
    Daemon::start(&made, 800, "", true);
    let machine = made.machine();
    let notes = make(&machine, 4, State::NoIntr).unwrap();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("irqbalance (process 800) cannot be told which CPUs to leave alone: "));
    assert!(notes[0].contains("systemctl stop irqbalance"), "{}", notes[0]);
    make(&machine, 4, State::OnLine).unwrap();

    made.exit(800);
    assert_eq!(make(&machine, 4, State::NoIntr).unwrap(), [""; 0], "its socket alone is no daemon");
}

#[test]
fn an_irqbalance_that_does_not_take_what_it_was_told_is_named() {
    let made = HandMade::new(8, false);
    let daemon = Daemon::start(&made, 800, "", false);
    let machine = made.machine();
    make(&machine, 4, State::NoIntr).unwrap();
    assert_eq!(*daemon.heard.lock().unwrap(), ["4"]);
    let memo = std::fs::File::options().write(true).open(made.dir.path().join("state/irqbalance")).unwrap();
    memo.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();
    let notes = Writer::open(&machine).unwrap().settle().unwrap().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].contains("it was told and did not take the list; it will move interrupts back"),
        "{notes:?}"
    );
}

#[test]
fn a_fence_whose_group_another_program_removed_ends_and_its_cpus_stay_no_intr() {
    for v1 in [false, true] {
        let made = HandMade::new(4, v1);
        made.file("proc/sys/kernel/watchdog_cpumask", "0-3\n");
        let machine = made.machine();
        let before = made.snapshot();
        let shelter = Shelter { others: Others::Out, interrupts: true, watchdog: true, ..Shelter::default() };
        let cpus = [CpuId(2), CpuId(3)];
        let wish =
            FenceWish { name: "job".parse().unwrap(), profile: "own".into(), shelter, cpus: cpus.into() };
        let writer = Writer::open(&machine).unwrap();
        writer.commit(machine.fences().unwrap().prepare_fence(&wish, false).unwrap()).unwrap();
        drop(writer);
        assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-1");
        std::fs::remove_dir_all(made.dir.path().join(format!("{}/mpset1", made.group_root()))).unwrap();
        assert!(machine.fences().unwrap().list().unwrap().is_empty(), "the fence has ended");
        // `doctor` lists the settings, and `doctor --repair` or the next change restores them. CPUs stay no-intr, as `psrinfo` shows.
        let steps = machine.settle().unwrap();
        let restored = |step: &Step| step.knob.0.contains("watchdog") && step.after.as_deref() == Some("0-3");
        assert!(steps.iter().any(restored), "{steps:?}");
        Writer::open(&machine).unwrap().settle().unwrap();
        assert_eq!(made.read("proc/irq/24/smp_affinity_list"), "0-1");
        make(&machine, 2, State::OnLine).unwrap();
        make(&machine, 3, State::OnLine).unwrap();
        assert!(machine.journal().baselines().is_empty(), "{:?}", machine.journal().baselines());
        let after = made.snapshot();
        let is_restored = |path: &std::path::Path| path.starts_with("proc") || path.starts_with("sys");
        for (path, text) in before.iter().filter(|(path, _)| is_restored(path)) {
            assert_eq!(after.get(path), Some(text), "{}", path.display());
        }
    }
}
