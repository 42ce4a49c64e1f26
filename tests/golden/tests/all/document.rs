//! The figures in the documents equal the program's results.

use millpond_experiments::{EXPERIMENTS, OWN, named};
use millpond_golden::document::{
    CATALOGUES, MACHINES, POOLS, SIMULATOR, TWIN, markdown, page_of, part, run, together, verbatim,
};
use millpond_sim::SimMachine;

fn is_as_the_program_says(name: &str) {
    let expected = markdown(&run(named(name).unwrap()).unwrap());
    let written = part(SIMULATOR, name).unwrap();
    assert_eq!(
        written, expected,
        "docs/explanation/simulator.md has old figures of {name}; write them anew: \
         cargo run --release -p millpond-golden --example figures {name}"
    );
}

#[test]
fn figures_of_e4_are_those_of_the_program() {
    is_as_the_program_says("e4");
}

#[test]
fn figures_of_e5_are_those_of_the_program() {
    is_as_the_program_says("e5");
}

#[test]
fn figures_of_the_service_are_those_of_the_program() {
    let expected = verbatim(&run(named("service").unwrap()).unwrap());
    let again = "docs/explanation/pools.md has old figures; write them anew: cargo run --release -p millpond-golden --example figures service";
    assert_eq!(part(POOLS, "service").unwrap(), expected, "{again}");
}

#[test]
fn the_session_about_shares_is_what_the_shell_says() {
    let page = include_str!("../../../../docs/explanation/shares.md");
    let session = part(page, "session").unwrap().trim().trim_matches('`').trim();
    let session = session.replace("sim --echo x4200 shares.sim", "sim --echo x4200 scripts/shares.sim");
    let machines = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("machines");
    let played = millpond_golden::play(&format!("@ machine x4200\n{session}\n"), &machines).unwrap();
    assert_eq!((played.commands, played.differences.as_str()), (1, ""));
}

/// Sessions are between `<!-- session MACHINE: begin -->` and its end, in the form of a transcript.
#[test]
fn sessions_of_guides_are_what_commands_say() {
    let base = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sessions = 0;
    for entry in std::fs::read_dir(base.join("../../docs/guides")).unwrap() {
        let path = entry.unwrap().path();
        let page = std::fs::read_to_string(&path).unwrap();
        for rest in page.split("<!-- session ").skip(1).filter(|rest| rest.contains(": begin -->")) {
            let (machine, rest) = rest.split_once(": begin -->").unwrap();
            let session = rest.split("<!--").next().unwrap().trim().trim_matches('`').trim();
            let session =
                session.replace(&format!("sim --echo {machine} "), &format!("sim --echo {machine} scripts/"));
            // A guide shows an empty output line as an empty line.
            let session = session.replace("\n\n", "\n|\n");
            let text = format!("@ machine {machine}\n{session}\n");
            let played = millpond_golden::play(&text, &base.join("machines")).unwrap();
            assert_eq!(played.differences, "", "{}", path.display());
            sessions += 1;
        }
    }
    assert!(sessions >= 5, "only {sessions} sessions were found");
}

#[test]
fn every_experiment_of_our_own_has_a_place() {
    for experiment in OWN {
        if experiment.name == "twin" {
            // This experiment measures the running machine.
            assert!(TWIN.contains("millpond experiment twin --machine real"));
            continue;
        }
        let text = part(POOLS, experiment.name).unwrap_or_else(|| panic!("{}", experiment.name));
        assert!(text.contains(&format!("$ millpond experiment {}\n", experiment.name)), "{text}");
    }
}

#[test]
fn every_experiment_has_a_place_with_rows() {
    for experiment in EXPERIMENTS {
        let text = part(SIMULATOR, experiment.name).unwrap_or_else(|| panic!("{}", experiment.name));
        for figure in &experiment.published().points {
            let cell = format!("| {} |", figure.variant);
            let row = text.lines().find(|line| line.contains(&cell) && line.contains(&figure.quantity));
            assert!(row.is_some(), "{}: {}, {}", experiment.name, figure.quantity, figure.variant);
        }
    }
}

#[test]
fn the_machine_file_of_the_document_is_a_machine() {
    let comment = |line: &str| line.split("   //").next().unwrap_or_default().to_owned() + "\n";
    let example = MACHINES.split("```jsonc\n").nth(1).unwrap().split("```").next().unwrap();
    let plain: String = example.lines().map(comment).collect();
    let machine = SimMachine::described(&plain, "the document").unwrap();
    assert_eq!(machine.view(|s| s.topology.processors().len()), 8);
    assert_eq!(machine.view(|s| s.check()), Ok(()));
}

#[test]
fn machines_workloads_and_fits_are_those_of_the_program() {
    for (name, write) in CATALOGUES {
        let again = "cargo run --release -p millpond-golden --example figures";
        assert_eq!(part(page_of(name).1, name), Some(write().as_str()), "{again} {name}");
    }
    assert_eq!(part(SIMULATOR, "together"), Some(together(SIMULATOR).as_str()));
}
