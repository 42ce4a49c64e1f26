//! Completions of a word.

use super::own;
use super::shell::Shell;
use crate::command::Command;
use millpond_cli::ValueKind;
use millpond_cli::complete::{Place, place};
use millpond_model::{Pid, SERVICES};
use millpond_session::{Workload, file_names};
use std::collections::BTreeSet;

/// Completions in addition to the fixed ones.
#[derive(Clone, Default)]
pub struct Known {
    /// Processes as operands of `kill`: numbers, and names after `%`.
    processes: Vec<String>,
    /// The commands of the machine.
    commands: &'static [Command],
}

impl Known {
    /// The processes of a shell's machine, and these commands.
    pub fn of(shell: &Shell, commands: &'static [Command]) -> Known {
        let running = shell.session.simulation().map(|s| s.processes()).unwrap_or_default();
        let running = running.iter().filter(|p| p.executes);
        Known::new(running.map(|p| (p.pid, p.name.as_str())), commands)
    }

    fn new<'n>(processes: impl Iterator<Item = (Pid, &'n str)>, commands: &'static [Command]) -> Known {
        let words: BTreeSet<String> =
            processes.flat_map(|(pid, name)| [pid.to_string(), format!("%{name}")]).collect();
        Known { processes: words.into_iter().collect(), commands }
    }
}

/// The start of the word that ends at `at`, both in bytes, and its completions.
pub fn complete(known: &Known, line: &str, at: usize) -> (usize, Vec<String>) {
    let typed = line.get(..at).unwrap_or(line);
    let start = typed
        .rfind(char::is_whitespace)
        .map_or(0, |blank| blank + typed[blank..].chars().next().map_or(1, char::len_utf8));
    let (before, word) = typed.split_at(start);
    let before: Vec<&str> = before.split_whitespace().collect();
    let mut found: Vec<String> = candidates(known, &before, word);
    found.retain(|candidate| candidate.starts_with(word));
    found.sort();
    (start, found)
}

/// The same in a line that continues the text `before`.
pub fn behind(known: &Known, before: &str, line: &str, at: usize) -> (usize, Vec<String>) {
    let (start, found) = complete(known, &format!("{before}{line}"), before.len() + at);
    // A word that began in the previous line is not changed.
    start.checked_sub(before.len()).map_or((at, Vec::new()), |start| (start, found))
}

fn owned<'t>(words: impl IntoIterator<Item = &'t str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

fn workloads() -> Vec<String> {
    owned(Workload::all().map(Workload::name))
}

fn flags(workload: &str) -> Vec<String> {
    Workload::named(workload).map(|workload| owned(workload.flags())).unwrap_or_default()
}

fn candidates(known: &Known, before: &[&str], word: &str) -> Vec<String> {
    let specs = || known.commands.iter().map(|command| &command.spec).filter(|spec| spec.in_shell);
    let commands = || owned(specs().map(|spec| spec.name).chain(own::names()));
    match before {
        [] => [commands(), workloads()].concat(),
        ["load"] => workloads(),
        ["load", workload, ..] => flags(workload),
        ["help"] => [commands(), workloads()].concat(),
        ["kill", ..] => known.processes.clone(),
        ["run"] => owned(["until"]),
        ["run", "until"] => owned(["idle"]),
        ["save" | "open"] => file_names(word),
        ["svcadm"] => owned(["enable", "disable", "refresh", "restart"]),
        ["svcadm" | "svcs", ..] => SERVICES.iter().map(ToString::to_string).collect(),
        ["ps"] => owned(["-e"]),
        [name, rest @ ..] => {
            let Some(spec) = specs().find(|spec| spec.name == *name) else { return flags(name) };
            let words: Vec<&str> = rest.iter().copied().chain([word]).collect();
            match place(spec, &words) {
                Place::Options(options) => options.into_iter().map(|(name, _)| name).collect(),
                Place::Value { kind: ValueKind::Program, .. } => workloads(),
                Place::Argument(workload) => flags(&workload),
                Place::Value { .. } | Place::Nothing => Vec::new(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let known = Known::new([(Pid(300), "nap"), (Pid(301), "nap")].into_iter(), crate::COMMANDS);
        let (start, found) = complete(&known, line, line.len());
        format!("{start} {}", found.join(" "))
    }

    #[test]
    fn a_word_becomes_what_makes_sense_at_its_place() {
        assert_eq!(shown("psr"), "0 psradm psrinfo psrset");
        assert_eq!(shown("poolb"), "0 poolbind");
        assert_eq!(shown("poolbind -p web -e na"), "19 nap");
        assert_eq!(shown("poolbind --u"), "9 --unit");
        assert_eq!(shown("load s"), "5 service spin");
        assert_eq!(shown("hack"), "0 hackbench");
        assert_eq!(shown("nap --r"), "4 --run");
        assert_eq!(shown("psrset -e 1 na"), "12 nap");
        assert_eq!(shown("priocntl -e -c FX -p 0 na"), "23 nap");
        assert_eq!(shown("pbind -e 1-3 nap --"), "17 --run --sleep");
        assert_eq!(shown("load nap --"), "9 --run --sleep");
        assert_eq!(shown("kill "), "5 %nap 300 301");
        assert_eq!(shown("run until "), "10 idle");
        assert_eq!(shown("psrset --k"), "7 --keep-others");
        assert_eq!(shown("psrset 1"), "7 ");
        assert_eq!(shown("svcadm enable svc:/system/pools/"), "14 svc:/system/pools/dynamic:default");
        assert_eq!(shown("nothing x"), "8 ");
    }

    #[test]
    fn a_line_that_goes_on_is_completed_by_what_was_before() {
        let known = Known::new([(Pid(300), "nap")].into_iter(), crate::COMMANDS);
        assert_eq!(behind(&known, "load ", "s", 1), (0, vec!["service".to_owned(), "spin".to_owned()]));
        assert_eq!(behind(&known, "lo", "ad", 2), (2, Vec::new()));
    }

    #[test]
    fn any_place_in_any_line_is_survived() {
        for at in 0..12 {
            let (start, _) = complete(&Known::default(), "lo ä\u{3000}x  ", at);
            assert!(start <= 12);
        }
    }
}
