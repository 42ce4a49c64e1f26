//! Links in captured machines, which another user may have made: none that leads out of the root is written through.

use crate::common::HandMade;
use crate::common::commands::{EXCLUSIVE, SHARED, create};
use std::fs;
use std::os::unix::fs::symlink;

/// A version 2 machine with one link to a target outside the root.
fn linked(link: &str, is_dir: bool) -> (HandMade, tempfile::TempDir) {
    let (made, outside) = (HandMade::new(4, false), tempfile::tempdir().unwrap());
    let target = outside.path().join("target");
    if is_dir {
        fs::create_dir(&target).unwrap();
    } else {
        fs::write(&target, "precious").unwrap();
    }
    let link = made.dir.path().join(link);
    let _ = fs::remove_file(&link);
    let _ = fs::remove_dir_all(&link);
    symlink(&target, &link).unwrap();
    (made, outside)
}

#[test]
fn no_link_that_leads_out_of_a_captured_machine_is_written_through() {
    for link in ["cgroup/cgroup.subtree_control", "proc/irq/25/smp_affinity_list", "proc/1/task/1/cgroup"] {
        let (made, outside) = linked(link, false);
        let _ = create(&made.machine(), &[2, 3], EXCLUSIVE);
        let text = fs::read_to_string(outside.path().join("target")).unwrap();
        assert_eq!(text, "precious", "{link}");
    }
    for link in ["state", "state/records", "cgroup/mpset1"] {
        let (made, outside) = linked(link, true);
        let _ = create(&made.machine(), &[2, 3], SHARED);
        let inside = fs::read_dir(outside.path().join("target")).unwrap().count();
        assert_eq!(inside, 0, "{link}");
    }
}

#[test]
fn a_link_that_leads_out_is_told() {
    let (made, _outside) = linked("cgroup/cgroup.subtree_control", false);
    let refusal = create(&made.machine(), &[2, 3], EXCLUSIVE).unwrap_err();
    assert!(
        refusal.reason.to_string().ends_with("a link on its path leads out of the captured machine"),
        "{}",
        refusal.reason
    );
    let (made, _outside) = linked("state", true);
    let refusal = create(&made.machine(), &[2, 3], EXCLUSIVE).unwrap_err();
    assert!(
        refusal
            .reason
            .to_string()
            .ends_with("/state is a link, and a captured machine keeps its state itself"),
        "{}",
        refusal.reason
    );
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let made = HandMade::new(4, false);
    let file = made.dir.path().join("cgroup/cgroup.subtree_control");
    fs::rename(&file, made.dir.path().join("cgroup/real")).unwrap();
    symlink("real", &file).unwrap();
    create(&made.machine(), &[2, 3], EXCLUSIVE).unwrap();
    assert_eq!(made.read("cgroup/real"), "cpuset");
}
