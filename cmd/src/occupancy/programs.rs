//! The operands of `occupancy`: programs, interval and count.

use crate::failure::{Complaint, Failure};
use crate::interval::Repetition;
use millpond_machine::facets::Process;
use millpond_model::{Named, Nanos, Pid, ProcessEntry};

/// The longest interval. A larger number was probably meant as a process id, and is refused.
const INTERVAL_MAX: Nanos = Nanos::from_secs(3600);

/// The parsed operands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operands {
    /// Each program as it was typed.
    pub programs: Vec<String>,
    /// Interval and count of reports.
    pub repetition: Option<Repetition>,
}

/// A program: its name on the command line, and its processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// As it was typed.
    pub name: String,
    /// At least one.
    pub pids: Vec<Pid>,
}

impl Operands {
    /// Separates programs from interval and count.
    ///
    /// # Errors
    /// [`Failure`] if there is no program, or the interval is invalid.
    pub fn parse(words: &[String]) -> Result<Operands, Failure> {
        let is_number = |word: &&String| word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let numbers = words.iter().skip(1).rev().take(2).take_while(is_number).count();
        let (programs, repetition) = words.split_at(words.len() - numbers);
        if programs.is_empty() {
            return Err(Failure::Usage("which program?".to_owned()));
        }
        let repetition = Repetition::parse(repetition)?;
        if let Some(too_long) = repetition.filter(|r| r.interval > INTERVAL_MAX) {
            return Err(Failure::Operand(format!(
                "an interval of {:.0} seconds is longer than an hour (between processes put commas)",
                too_long.interval.as_secs_f64()
            )));
        }
        Ok(Operands { programs: programs.to_vec(), repetition })
    }

    /// Finds the processes of each program.
    ///
    /// # Errors
    /// [`Failure::Refused`] for a program without processes.
    pub fn resolve(&self, processes: &[Process]) -> Result<Vec<Program>, Failure> {
        let find = |name: &String| {
            let mut pids = Vec::new();
            for word in name.split(',') {
                let number: Option<Pid> = word.parse().ok();
                let matching = processes.iter().filter(|p| Some(p.pid) == number || p.name == word);
                let before = pids.len();
                pids.extend(matching.map(|p| p.pid));
                if pids.len() == before {
                    let (noun, reason) = match number {
                        Some(_) => ("process", "there is no such process"),
                        None => ("program", "no process has that name"),
                    };
                    return Err(Complaint::new(format!("watch {noun} {word}"), reason).into());
                }
            }
            pids.sort_unstable();
            pids.dedup();
            Ok(Program { name: name.clone(), pids })
        };
        self.programs.iter().map(find).collect()
    }
}

/// A program for each zone, by its name or number.
///
/// # Errors
/// [`Failure::Refused`] for a zone without processes.
pub fn of_zones(words: &[String], processes: &[ProcessEntry]) -> Result<Vec<Program>, Failure> {
    let find = |word: &str| {
        let is = |zone: &Named| zone.name == word || zone.id.to_string() == word;
        let pids: Vec<Pid> = processes.iter().filter(|p| is(&p.zone)).map(|p| p.pid).collect();
        if pids.is_empty() {
            let complaint = Complaint::new(
                format!("watch zone {word}"),
                "no process is in a zone of that name or number",
            );
            return Err(complaint.hint("millpond zones lists the zones").into());
        }
        Ok(Program { name: word.to_owned(), pids })
    };
    words.iter().flat_map(|list| list.split(',')).map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Operands, Failure> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Operands::parse(&words)
    }

    fn understood(text: &str) -> (String, Option<(u64, Option<u64>)>) {
        let operands = parse(text).unwrap();
        let repetition = operands.repetition.map(|r| (r.interval.0 / 1_000_000, r.count));
        (operands.programs.join(" "), repetition)
    }

    #[test]
    fn numbers_at_the_end_are_interval_and_count() {
        assert_eq!(understood("cg"), ("cg".into(), None));
        assert_eq!(understood("4711"), ("4711".into(), None));
        assert_eq!(understood("4711 1"), ("4711".into(), Some((1000, None))));
        assert_eq!(understood("4711 4712 0.5 3"), ("4711 4712".into(), Some((500, Some(3)))));
        assert_eq!(understood("4711,4712 cg 2"), ("4711,4712 cg".into(), Some((2000, None))));
        assert_eq!(understood("4711 cg"), ("4711 cg".into(), None));
    }

    #[test]
    fn a_process_where_an_interval_is_expected_is_noticed() {
        let Err(Failure::Operand(why)) = parse("4711 4712") else { panic!() };
        assert_eq!(why, "an interval of 4712 seconds is longer than an hour (between processes put commas)");
        assert!(parse("").is_err());
        assert!(parse("cg 0").is_err());
    }

    #[test]
    fn names_stand_for_all_their_processes_and_commas_join() {
        let process = |pid, name: &str| Process { pid: Pid(pid), name: name.into(), kernel: false };
        let processes = [process(5, "cg"), process(7, "cg"), process(9, "ep")];
        let resolve = |text: &str| parse(text).unwrap().resolve(&processes);
        let pids = |text: &str| resolve(text).unwrap().into_iter().map(|p| p.pids).collect::<Vec<_>>();
        assert_eq!(pids("9 cg 1"), [vec![Pid(9)], vec![Pid(5), Pid(7)]]);
        assert_eq!(pids("9,cg,5"), [[Pid(5), Pid(7), Pid(9)]]);
        let refused = |text: &str| match resolve(text) {
            Err(Failure::Refused(complaint)) => complaint.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused("12"), "cannot watch process 12: there is no such process");
        assert_eq!(refused("mg"), "cannot watch program mg: no process has that name");
    }

    #[test]
    fn fuzz_programs() {
        millpond_fuzz::check_text("cmd-programs", &["cg", "4711 4712 0.5 3", "4711,cg 2"], |text| {
            if let Ok(operands) = parse(text) {
                assert!(!operands.programs.is_empty());
                assert!(operands.repetition.is_none_or(|r| r.interval <= INTERVAL_MAX));
            }
        });
    }

    proptest! {
        #[test]
        fn any_words_are_survived(words in proptest::collection::vec(".{0,8}", 0..5)) {
            let _ = Operands::parse(&words);
        }
    }
}
