//! The table of commands. Each has a folder; only this table lists them all.

use crate::command::Command;
use crate::json;

macro_rules! table {
    ($($(#[$attribute:meta])* $name:ident)+) => {
        /// All commands, in the order of the groups of help.
        pub const COMMANDS: &[Command] = &[$($(#[$attribute])* crate::$name::COMMAND),+];

        /// The schema of each command that prints JSON, by the command's name.
        #[must_use]
        pub fn schemas() -> Vec<(&'static str, serde_json::Value)> {
            let documents = [$($(#[$attribute])* (crate::$name::COMMAND.spec.name, crate::$name::DOCUMENTS)),+];
            let printing = documents.iter().filter(|(_, documents)| !documents.is_empty());
            printing.map(|(name, documents)| (*name, json::schema(name, documents))).collect()
        }
    };
}

table! {
    psrinfo
    psradm
    psrset
    fence
    pbind
    lgrpinfo
    plgrp
    pginfo
    pooladm
    poolcfg
    poolbind
    poolstat
    replay
    whatif
    zones
    prctl
    zonecfg
    dispadmin
    priocntl
    #[cfg(feature = "top")]
    top
    record
    #[cfg(feature = "export")]
    export
    mpstat
    prstat
    occupancy
    intrstat
    pgstat
    cpustat
    cputrack
    compare
    diagnose
    doctor
    umem
    quiet
    latstat
    posix
    sim
    capture
    demo
    experiment
    load
    help
    complete
}

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
                // The usage of these commands is that of Solaris, which does not list all options.
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
                assert!(known || ["poold(8)", "schedd(8)"].contains(other), "{}: {other}", spec.name);
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
