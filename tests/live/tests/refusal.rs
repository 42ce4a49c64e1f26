//! The programs of this crate change the whole machine, so they do nothing without `--i-own-this-machine`.
//!
//! Because of this test cargo builds them with the selection of the suite. Guests run them.

use std::process::Command;

#[test]
fn no_machine_is_changed_without_the_permission() {
    for (program, usage) in [
        (env!("CARGO_BIN_EXE_live-laws"), "usage: live-laws --i-own-this-machine [--cases N] [--seed N]\n"),
        (
            env!("CARGO_BIN_EXE_live-classes"),
            "usage: live-classes --i-own-this-machine vectors|shares [SECONDS]|churn SECONDS\n",
        ),
    ] {
        for words in [&[] as &[&str], &["vectors"], &["--cases", "1"]] {
            let output = Command::new(program).args(words).output().unwrap();
            assert_eq!(output.status.code(), Some(2), "{program} {words:?}");
            assert_eq!(String::from_utf8_lossy(&output.stderr), usage);
        }
    }
}
