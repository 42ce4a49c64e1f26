//! Records of decisions, read from the end: users ask for the latest ones, and a record may be long.
//!
//! On a real machine a daemon's record is a file in the state directory ([`crate::Daemon::record`]), and one older file. On a simulated
//! machine it is inside the machine.

use crate::Session;
use crate::output::reason;
use millpond_linux::open_plain;
use millpond_sim::SimMachine;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that are read from the ends of both files together.
const END_BYTES: u64 = 8 << 20;

/// Maximum size of a record inside a simulated machine.
const INSIDE_BYTES: usize = 256 << 10;

/// Maximum size of a log that a user names.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// The end of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Its path or name for messages, even if it does not exist.
    pub place: String,
    /// Its lines, newest first. `None` without a record.
    pub lines: Option<Vec<RecordedLine>>,
}

/// A line of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedLine {
    /// The file's name for messages.
    pub file: String,
    /// Its line number counted from the end of the file; the last line is 1.
    pub from_end: usize,
    /// Its text.
    pub text: String,
}

impl Session {
    /// The end of a daemon's record.
    ///
    /// # Errors
    /// The system's reason, with the name of a file that cannot be read.
    pub fn recorded(&self, name: &str) -> Result<Recorded, String> {
        if let Some(sim) = &self.sim {
            let file = inside(name);
            let text = sim.view(|s| s.files.get(&file).cloned());
            let place = format!("machine {}", sim.view(|s| s.name.clone()));
            return Ok(Recorded { lines: text.map(|text| lines(&file, &text)), place });
        }
        let Some(dir) = self.state_dir() else {
            return Ok(Recorded { place: "this machine".into(), lines: None });
        };
        end_of(dir, name)
    }
}

/// Appends a line to the record of a daemon on a simulated machine, and drops the oldest lines of a long record.
pub(crate) fn record_on(machine: &SimMachine, name: &str, line: &str) {
    machine.edit(|s| {
        let text = s.files.entry(inside(name)).or_default();
        text.push_str(line);
        text.push('\n');
        if text.len() > INSIDE_BYTES {
            let from = text.len() - INSIDE_BYTES;
            let cut = text.as_bytes()[from..].iter().position(|byte| *byte == b'\n');
            text.drain(..cut.map_or(0, |at| from + at + 1));
        }
    });
}

/// The record's name inside a simulated machine.
fn inside(name: &str) -> String {
    format!("/run/millpond/{name}.decisions")
}

fn end_of(dir: &Path, name: &str) -> Result<Recorded, String> {
    let mut found = Recorded { place: dir.display().to_string(), lines: None };
    let mut left = END_BYTES;
    for kind in ["decisions", "decisions.1"] {
        let path = dir.join(format!("{name}.{kind}"));
        let file = path.display().to_string();
        match tail(&path, left) {
            Ok(text) => {
                left -= text.len() as u64;
                found.lines.get_or_insert_default().extend(lines(&file, &text));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{file}: {}", reason(&error))),
        }
    }
    Ok(found)
}

/// The last bytes of a file, at most this many, from the start of a line. Invalid UTF-8 is replaced by replacement characters.
pub(crate) fn tail(path: &Path, most: u64) -> io::Result<String> {
    // No size limit: only the end is read.
    let mut file = open_plain(path, u64::MAX)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(most);
    // The byte before shows whether the first line is complete.
    file.seek(SeekFrom::Start(from.saturating_sub(1)))?;
    let mut bytes = Vec::new();
    file.take(length - from.saturating_sub(1)).read_to_end(&mut bytes)?;
    if from > 0 {
        let whole = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        bytes.drain(..whole);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn lines(file: &str, text: &str) -> Vec<RecordedLine> {
    let numbered = text.lines().rev().zip(1..);
    let line = |(text, from_end): (&str, usize)| RecordedLine {
        file: file.to_owned(),
        from_end,
        text: text.to_owned(),
    };
    numbered.map(line).collect()
}

/// The text of a log that the user named. Invalid UTF-8 is replaced by replacement characters.
///
/// # Errors
/// The system's reason, in words, or that the file is too long.
pub fn read_log(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| reason(&error))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    if bytes.len() as u64 > LOG_BYTES_MAX {
        return Err(format!("it is longer than {} MiB", LOG_BYTES_MAX >> 20));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Daemon, MachineName, OpenOptions};
    use std::fs;

    fn told(found: &Recorded) -> Vec<String> {
        let lines = found.lines.iter().flatten();
        let file = |line: &RecordedLine| line.file.rsplit('/').next().unwrap_or_default().to_owned();
        lines.map(|line| format!("{} {} {}", file(line), line.from_end, line.text)).collect()
    }

    #[test]
    fn the_newest_line_comes_first_and_the_older_file_last() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(end_of(dir.path(), "poold").unwrap().lines, None);
        let daemon = Daemon::begin(dir.path(), "poold").unwrap();
        daemon.record("3").unwrap();
        daemon.record("4").unwrap();
        fs::write(dir.path().join("poold.decisions.1"), "1\n2\n").unwrap();
        let found = end_of(dir.path(), "poold").unwrap();
        let expected =
            ["poold.decisions 1 4", "poold.decisions 2 3", "poold.decisions.1 1 2", "poold.decisions.1 2 1"];
        assert_eq!(told(&found), expected);
        fs::remove_file(dir.path().join("poold.decisions")).unwrap();
        fs::create_dir(dir.path().join("poold.decisions")).unwrap();
        assert!(end_of(dir.path(), "poold").unwrap_err().ends_with("poold.decisions: it is no file"));
    }

    #[test]
    fn only_the_end_is_read_from_a_whole_line_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "one\ntwo\nthree\n").unwrap();
        for (most, text) in [
            (100, "one\ntwo\nthree\n"),
            (14, "one\ntwo\nthree\n"),
            (13, "two\nthree\n"),
            (10, "two\nthree\n"),
            (9, "three\n"),
            (2, ""),
            (0, ""),
        ] {
            assert_eq!(tail(&path, most).unwrap(), text, "{most}");
        }
    }

    #[test]
    fn a_simulated_machine_keeps_the_end_of_its_record() {
        let machine = MachineName::Simulated("x4200".into());
        let session = Session::open(&OpenOptions { machine, ..OpenOptions::default() }).unwrap();
        assert_eq!(
            session.recorded("poold").unwrap(),
            Recorded { place: "machine x4200".into(), lines: None }
        );
        for number in 0..3 {
            session.simulation().unwrap().record("poold", &format!("{number}{}", "x".repeat(100_000)));
        }
        let lines = session.recorded("poold").unwrap().lines.unwrap();
        let firsts: Vec<&str> = lines.iter().map(|line| &line.text[..1]).collect();
        assert_eq!(firsts, ["2", "1"]);
    }
}
