//! The output of a dry run on a captured machine: what would change, and more only with `-v` or `--json`.

use crate::captured::{Captured, err, out};

/// The list of interrupt 24 contains the CPU that goes off-line, that of interrupt 25 does not.
fn captured() -> Captured {
    let captured = Captured::new();
    captured.file("proc/irq/24/smp_affinity_list", "0-3\n");
    captured.file("proc/irq/25/smp_affinity_list", "0-1\n");
    captured
}

/// The output lines about lists of interrupts.
fn lists(captured: &Captured, words: &[&str]) -> Vec<String> {
    let shown = captured.run(words);
    assert_eq!((shown.status.code(), err(&shown).as_str()), (Some(0), ""), "{words:?}");
    out(&shown).lines().filter(|line| line.contains("smp_affinity_list")).map(str::to_owned).collect()
}

#[test]
fn lists_that_are_only_remembered_are_no_steps_of_a_processor_that_stops() {
    let captured = captured();
    let left = "proc:irq/24/smp_affinity_list: 0-3 -> 0-2";
    assert_eq!(lists(&captured, &["psradm", "--dry-run", "-f", "3"]), [left]);
    let remembered = [
        "proc:irq/24/smp_affinity_list: 0-3 (to be remembered)",
        "proc:irq/25/smp_affinity_list: 0-1 (to be remembered)",
    ];
    assert_eq!(
        lists(&captured, &["psradm", "--dry-run", "-v", "-f", "3"]),
        [remembered[0], remembered[1], left]
    );
    // JSON has all of them, as in the journal.
    let json = out(&captured.run(&["psradm", "--dry-run", "--json", "-f", "3"]));
    assert_eq!(json.matches("smp_affinity_list").count(), 3, "{json}");

    assert_eq!(captured.run(&["psradm", "-f", "3"]).status.code(), Some(0));
    let back = "proc:irq/24/smp_affinity_list: 0-2 -> 0-3";
    assert_eq!(lists(&captured, &["psradm", "--dry-run", "-n", "3"]), [back]);
    // The baseline of interrupt 24 is already in the journal.
    let again = "proc:irq/25/smp_affinity_list: 0-1 (to be remembered)";
    assert_eq!(lists(&captured, &["psradm", "--dry-run", "-v", "-n", "3"]), [again, back]);
}
