//! Hostile names: in no listing do they move the cursor, add a row or change the text direction.

use crate::captured::{Captured, err, out};
use std::fs;

/// The name of a thread, as the kernel accepts it: at most fifteen bytes.
const COMM: &str = "e\u{1b}[2J\nrow\u{9b}\u{7f}";
/// Names of cgroups: an additional row, an escape sequence, a bidirectional override.
const GROUPS: [&str; 2] = ["a\n0 forged row", "b\u{1b}]0;t\u{7}\u{202e}gpj.service"];

#[test]
fn no_listing_is_changed_by_what_threads_and_groups_are_called() {
    let root = Captured::new();
    for pid in [1, 77] {
        let stat = format!("{pid} ({COMM}) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n", 1000 + pid);
        root.file(&format!("proc/{pid}/stat"), &stat);
        root.file(&format!("proc/{pid}/comm"), &format!("{COMM}\n"));
        root.file(&format!("proc/{pid}/task/{pid}/stat"), &stat);
    }
    for group in GROUPS {
        for (file, text) in
            [("cpuset.cpus", "0-3\n"), ("cpuset.mems", "0\n"), ("cgroup.procs", ""), ("tasks", "")]
        {
            root.file(&format!("cgroup/cpuset/{group}/{file}"), text);
        }
    }
    let listings: &[&[&str]] = &[
        &["zones"],
        &["zones", "--json"],
        &["prstat", "1", "1"],
        &["prstat", "-L", "1", "1"],
        &["prstat", "-m", "1", "1"],
        &["prstat", "-a", "1", "1"],
        &["prstat", "-J", "1", "1"],
        &["prstat", "-Z", "1", "1"],
        &["prstat", "--json", "1", "1"],
        &["psrset", "-i"],
        &["psrset", "-q"],
        &["psrset", "-q", "77"],
        &["pbind", "-q"],
        &["pbind", "-q", "77"],
        &["priocntl", "-d", "-i", "all"],
        &["poolbind", "-q", "77"],
        &["doctor"],
        &["diagnose", "77", "--for", "1"],
        &["umem", "stat", "77"],
    ];
    for listing in listings {
        let ended = root.run(listing);
        let said = out(&ended) + &err(&ended);
        let is_obeyed =
            |c: &char| c.is_control() && *c != '\n' && *c != '\t' || matches!(c, '\u{202a}'..='\u{202e}');
        assert_eq!(said.chars().find(is_obeyed), None, "{listing:?}: {said:?}");
        for forged in ["row", "0 forged"] {
            assert!(!said.lines().any(|line| line.starts_with(forged)), "{listing:?}: {said}");
        }
    }
    // Reasons name a cgroup that took CPUs back from a set.
    root.run(&["psrset", "-c", "1"]);
    root.file(&format!("cgroup/cpuset/{}/cpuset.cpus", GROUPS[0]), "0-3\n");
    let doctor = out(&root.run(&["doctor"]));
    assert!(doctor.contains("not as the sets want it: cg:/a\\n0 forged row/cpuset.cpus"), "{doctor}");
    root.run(&["psrset", "-d", "1"]);
    let zones = out(&root.run(&["zones"]));
    assert!(zones.contains("/a\\n0 forged row"), "{zones}");
    assert!(zones.contains("b\\u001b]0;t\\u0007\\u202egpj.service"), "{zones}");
    assert!(fs::exists(root.dir().join("cgroup/cpuset").join(GROUPS[0])).unwrap());
}
