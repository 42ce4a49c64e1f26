//! Commands on synthetic trees of machines of many shapes, compared with handwritten text.

#[path = "../../../../lib/linux/tests/all/common/shape.rs"]
mod shape;

use crate::captured::{Captured, err, out};
use shape::Shape;
use std::fs;

fn made(text: &str) -> Captured {
    let (machine, shape) = (Captured::new(), Shape::new(text));
    shape.write(machine.dir());
    machine.file("cgroup/cpuset/cpuset.cpus", &format!("{}\n", shape.online()));
    machine
}

/// The output of a command that must succeed without a message.
fn said(machine: &Captured, words: &[&str]) -> String {
    let output = machine.run(words);
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""), "{words:?}");
    out(&output)
}

/// The first line of a plan, or the error message.
fn chosen(machine: &Captured, words: &[&str]) -> String {
    let output = machine.run(&[&["fence", "--plan", "--profile", "gentle"][..], words].concat());
    let text = if output.status.success() { out(&output) } else { err(&output) };
    text.lines().next().unwrap_or_default().to_owned()
}

/// Two chips of two cores of two strands.
const TWO_CHIPS: &str = "\
The physical processor has 2 cores and 4 virtual processors (0-3)
  The core has 2 virtual processors (0-1)
  The core has 2 virtual processors (2-3)
    x86 (GenuineIntel family 6 model 58 step 9)

The physical processor has 2 cores and 4 virtual processors (4-7)
  The core has 2 virtual processors (4-5)
  The core has 2 virtual processors (6-7)
    x86 (GenuineIntel family 6 model 58 step 9)

";

const ALL_GROUPS: &str = "\
System
Memory
Data_Pipe_to_memory
L3_Cache
L2_Cache
L1_Cache
Integer_Pipeline
";

#[test]
fn off_line_cpus_stay_in_their_chips_cores_and_nodes() {
    // Without a record in the state directory: SMT off, one core of the second chip off, one CPU off.
    for text in ["2x2x2 nodes=2 nosmt", "2x2x2 nodes=2 off=6-7", "2x2x2 nodes=2 off=5"] {
        let machine = made(text);
        assert_eq!(said(&machine, &["psrinfo", "-pv"]), TWO_CHIPS, "{text}");
        assert_eq!(said(&machine, &["psrinfo", "-tc"]), "4\n", "{text}");
        assert_eq!(
            said(&machine, &["pginfo", "-s"]).lines().take(3).collect::<Vec<_>>(),
            ALL_GROUPS.lines().take(3).collect::<Vec<_>>()
        );
    }
    // With a record, after psradm.
    let (shape, machine) = (Shape::new("2x2x2 nodes=2"), made("2x2x2 nodes=2"));
    let groups = said(&machine, &["pginfo", "-T"]);
    assert_eq!(said(&machine, &["pginfo", "-s"]), ALL_GROUPS);
    let plan = said(&machine, &["psradm", "--dry-run", "-f", "6", "7"]);
    let record = plan.lines().find(|line| line.starts_with("record:topology: ")).unwrap();
    assert!(record.starts_with("record:topology: absent -> a record of ") && record.len() < 60, "{record}");
    said(&machine, &["psradm", "-f", "6", "7"]);
    shape.write_with(machine.dir(), &"0-5".parse().unwrap());
    assert_eq!(said(&machine, &["psrinfo", "-pv"]), TWO_CHIPS);
    assert_eq!(said(&machine, &["psrinfo", "-tc"]), "4\n");
    let groups = groups.replace("CPUs: 0-7", "CPUs: 0-5 (off-line: 6-7)");
    let groups = groups.replace("CPUs: 4-7", "CPUs: 4-5 (off-line: 6-7)");
    assert_eq!(said(&machine, &["pginfo", "-T"]), groups.replace("CPUs: 6-7", "CPUs: - (off-line: 6-7)"));
}

#[test]
fn emulated_nodes_are_no_contradiction() {
    let machine = made("1x4x1 fake=4 arch=aarch64");
    assert_eq!(
        said(&machine, &["psrinfo", "-pv"]),
        "The physical processor has 4 virtual processors (0-3)\n  aarch64 (implementer 0x41 part 0xd0c)\n\n"
    );
    assert_eq!(said(&machine, &["pginfo", "-s"]), "System\nData_Pipe_to_memory\nL3_Cache\n");
    assert_eq!(chosen(&machine, &["--cores", "2"]), "CPUs 2-3 are 2 free cores");
    for words in [&["psrinfo", "--json"][..], &["psrinfo", "-p"], &["lgrpinfo"], &["psrinfo", "-tc"]] {
        said(&machine, words);
    }
}

#[test]
fn processors_have_the_names_of_their_architecture() {
    let paragraph = |arch: &str| {
        let text = said(&made(&format!("1x2x1 arch={arch}")), &["psrinfo", "-v", "1"]);
        text.lines().skip(2).map(str::trim).collect::<Vec<_>>().join(" ")
    };
    for (arch, clock) in [
        ("s390x", "an unknown frequency"),
        ("ppc64le", "2300 MHz"),
        ("aarch64", "an unknown frequency"),
        ("riscv64", "an unknown frequency"),
        ("loongarch64", "an unknown frequency"),
    ] {
        let expected = format!(
            "The {arch} processor operates at {clock}, and has an IEEE 754 floating point processor."
        );
        assert_eq!(paragraph(arch), expected);
    }
}

#[test]
fn a_tree_without_lists_or_cpus_is_shown_or_refused() {
    assert_eq!(said(&made("2x2x2 nodes=2 no-lists"), &["psrinfo", "-pv"]), TWO_CHIPS);
    let machine = made("1x2x1 no-lists");
    for cpu in 0..2 {
        fs::remove_dir_all(machine.dir().join(format!("sys/devices/system/cpu/cpu{cpu}"))).unwrap();
    }
    let refused = machine.run(&["psrinfo"]);
    assert_eq!((refused.status.code(), out(&refused).as_str()), (Some(1), ""));
    assert_eq!(
        err(&refused),
        "psrinfo: cannot read processors: there are no CPUs in devices/system/cpu of sysfs\n"
    );
}

#[test]
fn cores_are_chosen_by_speed_caches_and_what_others_have() {
    let hybrid = made("1x3x2 e=4");
    assert_eq!(chosen(&hybrid, &["--cores", "2"]), "CPUs 2-5 are 2 free performance cores");
    assert_eq!(chosen(&hybrid, &["--cores", "3"]), "CPUs 2-5,9 are 3 free cores");
    assert_eq!(
        chosen(&made("1x6x1 arch=aarch64 little=2-5"), &["--cores", "1"]),
        "CPU 1 is a free performance core"
    );
    let caches = made("1x8x1 l3=4");
    assert_eq!(chosen(&caches, &["--cores", "3"]), "CPUs 1-3 are 3 free cores that share an L3 cache");
    assert_eq!(chosen(&caches, &["--cores", "4"]), "CPUs 4-7 are 4 free cores that share an L3 cache");
    let isolated = made("1x4x1");
    isolated.file("sys/devices/system/cpu/isolated", "3\n");
    assert_eq!(chosen(&isolated, &["--cores", "1"]), "CPU 2 is a free core");
    assert_eq!(chosen(&isolated, &["--cores", "3"]), "CPUs 1-3 are 3 free cores; CPU 3 is isolated at boot");
    isolated.file("proc/77/task/77/mask", "3\n");
    assert_eq!(
        chosen(&isolated, &["--cores", "3"]),
        "millpond fence: cannot fence 3 cores: 2 cores are free: CPU 0 stays with the system, CPU 3 has threads bound to it"
    );
    assert_eq!(
        chosen(&isolated, &["-F", "--cores", "3"]),
        "CPUs 1-3 are 3 free cores; CPU 3 is isolated at boot"
    );
}

#[test]
fn smt_off_means_the_same_with_cores_as_with_numbers() {
    let machine = made("1x4x2");
    let plan = |words: &[&str]| said(&machine, &[&["fence", "--plan", "--smt", "off"][..], words].concat());
    let (by_cores, by_number) = (plan(&["--cores", "2"]), plan(&["4,6"]));
    let (why, steps) = by_cores.split_once('\n').unwrap();
    assert_eq!(why, "CPUs 4,6 are one strand each of 2 free cores");
    assert_eq!(steps, by_number);
    assert!(steps.contains("smt (--smt off)"), "{steps}");
}
