//! The table of commands. Each has a folder; nothing but this table names them all.

use crate::command::Command;
use crate::json;
use crate::{
    capture, compare, complete, cpustat, cputrack, demo, diagnose, dispadmin, doctor, experiment, help,
    intrstat, latstat, lgrpinfo, load, mpstat, occupancy, pbind, pginfo, pgstat, plgrp, pooladm, poolbind,
    poolcfg, poolstat, posix, prctl, priocntl, prstat, psradm, psrinfo, psrset, quiet, replay, sim, umem,
    zonecfg, zones,
};

/// The schema of each command that has one, by the command's name.
#[must_use]
pub fn schemas() -> Vec<(&'static str, serde_json::Value)> {
    let documents = [
        ("psrinfo", psrinfo::DOCUMENTS),
        ("psradm", psradm::DOCUMENTS),
        ("psrset", psrset::DOCUMENTS),
        ("pbind", pbind::DOCUMENTS),
        ("doctor", doctor::DOCUMENTS),
        ("posix", posix::DOCUMENTS),
        ("capture", capture::DOCUMENTS),
        ("lgrpinfo", lgrpinfo::DOCUMENTS),
        ("plgrp", plgrp::DOCUMENTS),
        ("pginfo", pginfo::DOCUMENTS),
        ("mpstat", mpstat::DOCUMENTS),
        ("prstat", prstat::DOCUMENTS),
        ("occupancy", occupancy::DOCUMENTS),
        ("intrstat", intrstat::DOCUMENTS),
        ("pgstat", pgstat::DOCUMENTS),
        ("cpustat", cpustat::DOCUMENTS),
        ("cputrack", cputrack::DOCUMENTS),
        ("compare", compare::DOCUMENTS),
        ("zones", zones::DOCUMENTS),
        ("pooladm", pooladm::DOCUMENTS),
        ("poolcfg", poolcfg::DOCUMENTS),
        ("poolbind", poolbind::DOCUMENTS),
        ("poolstat", poolstat::DOCUMENTS),
        ("replay", replay::DOCUMENTS),
        ("prctl", prctl::DOCUMENTS),
        ("zonecfg", zonecfg::DOCUMENTS),
        ("dispadmin", dispadmin::DOCUMENTS),
        ("priocntl", priocntl::DOCUMENTS),
        ("demo", demo::DOCUMENTS),
        ("experiment", experiment::DOCUMENTS),
        ("latstat", latstat::DOCUMENTS),
        ("quiet", quiet::DOCUMENTS),
        ("diagnose", diagnose::DOCUMENTS),
        ("load", load::DOCUMENTS),
        ("umem", umem::DOCUMENTS),
    ];
    documents.iter().map(|(name, documents)| (*name, json::schema(name, documents))).collect()
}

/// Every command, in the order in which each group of help shows them.
pub const COMMANDS: &[Command] = &[
    psrinfo::COMMAND,
    psradm::COMMAND,
    psrset::COMMAND,
    pbind::COMMAND,
    lgrpinfo::COMMAND,
    plgrp::COMMAND,
    pginfo::COMMAND,
    pooladm::COMMAND,
    poolcfg::COMMAND,
    poolbind::COMMAND,
    poolstat::COMMAND,
    replay::COMMAND,
    zones::COMMAND,
    prctl::COMMAND,
    zonecfg::COMMAND,
    dispadmin::COMMAND,
    priocntl::COMMAND,
    mpstat::COMMAND,
    prstat::COMMAND,
    occupancy::COMMAND,
    intrstat::COMMAND,
    pgstat::COMMAND,
    cpustat::COMMAND,
    cputrack::COMMAND,
    compare::COMMAND,
    diagnose::COMMAND,
    doctor::COMMAND,
    umem::COMMAND,
    quiet::COMMAND,
    latstat::COMMAND,
    posix::COMMAND,
    sim::COMMAND,
    capture::COMMAND,
    demo::COMMAND,
    experiment::COMMAND,
    load::COMMAND,
    help::COMMAND,
    complete::COMMAND,
];

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_cli::{Misused, Spec, help, man, markdown};
    use std::collections::BTreeSet;

    fn specs() -> impl Iterator<Item = &'static Spec> {
        COMMANDS.iter().map(|command| &command.spec)
    }

    #[test]
    fn every_command_has_a_manual_that_begins_with_what_it_does() {
        for spec in specs() {
            let manual = help::manual(spec);
            let head = format!("{}: {}\n\nusage: {}", spec.prog(), spec.summary, spec.prog());
            assert!(manual.starts_with(&head), "{manual}");
            assert!(manual.lines().count() > 12 + spec.forms.len(), "{} says too little", spec.name);
            assert!(!manual.contains("```") && !manual.contains("//!"));
        }
    }

    #[test]
    fn every_option_has_help_and_stands_in_a_form() {
        let mut wrong = Vec::new();
        for spec in specs() {
            let unknown = help::unknown(spec)
                .into_iter()
                .map(|option| format!("{}: {option} is in a form only", spec.name));
            wrong.extend(unknown);
            for flag in spec.flags {
                let name = flag.names();
                if flag.help.is_empty() || flag.help.ends_with('.') {
                    wrong.push(format!("{} {name}: `{}` is no help", spec.name, flag.help));
                }
                // The usage of these is Solaris', which has no room for all options.
                if spec.misused == Misused::Ours && !help::shows(spec, flag) {
                    wrong.push(format!("{} {name} is in no form", spec.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn no_option_is_described_twice() {
        for spec in specs() {
            let names: Vec<String> = spec
                .all_flags()
                .flat_map(|flag| {
                    let letter = flag.letter.map(String::from);
                    letter.into_iter().chain(flag.long.map(str::to_owned)).collect::<Vec<_>>()
                })
                .collect();
            let own: BTreeSet<&String> = names.iter().collect();
            assert_eq!(own.len(), names.len(), "{}: {names:?}", spec.name);
        }
    }

    #[test]
    fn examples_are_command_lines_that_are_understood() {
        for spec in specs() {
            for example in spec.examples {
                let words: Vec<_> = example.words.split_whitespace().map(Into::into).collect();
                let parsed = millpond_cli::parse(spec, &words);
                assert!(parsed.is_ok(), "{} {}: {parsed:?}", spec.name, example.words);
            }
        }
    }

    #[test]
    fn commands_to_read_about_next_exist() {
        for spec in specs() {
            for other in spec.see_also {
                let name = other.trim_end_matches(|c| "()0123456789".contains(c));
                let known = specs()
                    .any(|spec| spec.page() == name && other.ends_with(&format!("({})", spec.section)));
                assert!(known || ["poold(8)"].contains(other), "{}: {other}", spec.name);
            }
        }
    }

    #[test]
    fn pages_for_man_and_for_the_reference_have_a_part_for_each_section() {
        for spec in specs() {
            let page = man::page(spec, "0.1.0", "2026-11-25");
            assert!(
                page.starts_with(".TH ")
                    && page.contains(".SH NAME\n")
                    && page.contains(".SH \"EXIT STATUS\"\n")
            );
            let page = markdown::page(spec);
            assert!(page.starts_with(&format!("# {}\n", spec.prog())) && page.contains("\n## Exit status\n"));
        }
    }
}
