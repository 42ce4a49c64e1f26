//! Filters: programs of the host that read a command's output, as after a pipe in a shell's command line.
//!
//! Only the programs of [`FILTERS`] are started, directly and without a shell. They run in the `C` locale, so that the same command line gives
//! the same text everywhere. The last one's output, and the error output of all, is collected while the command writes.

use crate::output::reason;
use std::io::{BufWriter, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::{self, JoinHandle};

/// The programs that are allowed after a pipe.
pub const FILTERS: [&str; 18] = [
    "awk", "cat", "column", "cut", "egrep", "fgrep", "grep", "head", "nawk", "nl", "paste", "sed", "sort",
    "tail", "tee", "tr", "uniq", "wc",
];

/// Programs whose status 1 means that nothing was found.
const FINDERS: [&str; 3] = ["egrep", "fgrep", "grep"];

/// Solaris names, with the program and options that are started instead.
const RENAMED: [(&str, &str, &[&str]); 3] =
    [("nawk", "awk", &[]), ("egrep", "grep", &["-E"]), ("fgrep", "grep", &["-F"])];

/// A program could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotStarted {
    /// Its position in the pipeline, from 0.
    pub at: usize,
    /// The reason, in words.
    pub why: String,
}

/// A running pipeline.
pub struct Filters {
    children: Vec<Child>,
    out: JoinHandle<Vec<u8>>,
    complaints: Vec<JoinHandle<Vec<u8>>>,
}

/// The result of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Output of the last program.
    pub out: String,
    /// Error output of all programs.
    pub complaints: String,
    /// The first failed program, counted from 0, with its failure. A program that ended before its input did has not failed.
    pub failed: Option<(usize, String)>,
}

/// The filter with this name. Only the part after the last slash counts: Solaris has some of them twice.
#[must_use]
pub fn filter_named(word: &str) -> Option<&'static str> {
    let last = word.rsplit('/').next().unwrap_or(word);
    FILTERS.into_iter().find(|name| *name == last)
}

/// Reads to the end on a thread of its own. If no thread can be started, the pipe is closed.
///
/// # Errors
/// The system's reason why no thread was started, in words.
pub(crate) fn drained(mut from: impl Read + Send + 'static) -> Result<JoinHandle<Vec<u8>>, String> {
    let read = move || {
        let mut bytes = Vec::new();
        // Ignore a read error: the rest of the output is missing.
        let _ = from.read_to_end(&mut bytes);
        bytes
    };
    let started = thread::Builder::new().name("reader".to_owned()).spawn(read);
    started.map_err(|error| format!("no thread can be started that reads its output: {}", reason(&error)))
}

impl Filters {
    /// Starts the programs with their arguments. Returns the first one's input.
    ///
    /// # Errors
    /// [`NotStarted`] for the first program that is not a filter or cannot be started. Then none runs.
    pub fn start(commands: &[Vec<String>]) -> Result<(Filters, BufWriter<ChildStdin>), NotStarted> {
        let mut children: Vec<Child> = Vec::new();
        let mut complaints = Vec::new();
        let mut first = None;
        let mut input = Stdio::piped();
        let mut last = None;
        let fail = |children: &mut Vec<Child>, at, why| {
            children.iter_mut().for_each(stop);
            Err(NotStarted { at, why })
        };
        for (at, words) in commands.iter().enumerate() {
            let mut child = match spawn(words, input) {
                Ok(child) => child,
                Err(why) => return fail(&mut children, at, why),
            };
            first = first.or_else(|| child.stdin.take());
            let (out, err) = (child.stdout.take(), child.stderr.take());
            children.push(child);
            match err.map(drained).transpose() {
                Ok(reader) => complaints.extend(reader),
                Err(why) => return fail(&mut children, at, why),
            }
            input = Stdio::null();
            last = out;
            if at + 1 < commands.len()
                && let Some(out) = last.take()
            {
                input = out.into();
            }
        }
        let (Some(first), Some(last)) = (first, last) else {
            return Err(NotStarted { at: 0, why: "there is none".to_owned() });
        };
        match drained(last) {
            Ok(out) => Ok((Filters { children, out, complaints }, BufWriter::new(first))),
            Err(why) => fail(&mut children, commands.len().saturating_sub(1), why),
        }
    }

    /// Waits for all programs; the input must be closed before.
    #[must_use]
    pub fn finish(self, commands: &[Vec<String>]) -> Filtered {
        let text = |handle: JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&handle.join().unwrap_or_default()).into_owned()
        };
        let out = text(self.out);
        let complaints = self.complaints.into_iter().map(text).collect();
        let mut failed = None;
        for (at, mut child) in self.children.into_iter().enumerate() {
            let name = commands.get(at).and_then(|words| filter_named(words.first()?)).unwrap_or_default();
            let how = match child.wait().map(|status| status.code()) {
                Ok(Some(0)) => continue,
                Ok(Some(1)) if FINDERS.contains(&name) => continue,
                Ok(Some(code)) => format!("status {code}"),
                // A program in front ended by SIGPIPE: the one behind it had read enough.
                Ok(None) if at + 1 < commands.len() => continue,
                Ok(None) => "a signal ended it".to_owned(),
                Err(error) => reason(&error),
            };
            failed = failed.or(Some((at, how)));
        }
        Filtered { out, complaints, failed }
    }
}

fn spawn(words: &[String], input: Stdio) -> Result<Child, String> {
    let (word, arguments) = words.split_first().ok_or("there is none")?;
    let name = filter_named(word).ok_or("it is none of the programs that read a command's output")?;
    let (program, own) = RENAMED
        .into_iter()
        .find(|(solaris, ..)| *solaris == name)
        .map_or((name, &[][..]), |(_, program, own)| (program, own));
    let mut command = Command::new(program);
    command.args(own).args(arguments).env("LC_ALL", "C");
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|error| reason(&error))
}

/// Kills a started program whose pipeline failed.
fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn through(lines: &[&[&str]], text: &str) -> Filtered {
        let commands: Vec<Vec<String>> =
            lines.iter().map(|words| words.iter().map(|w| (*w).to_owned()).collect()).collect();
        let (filters, mut input) = Filters::start(&commands).unwrap();
        // A reader that exits early is not an error.
        let _ = input.write_all(text.as_bytes()).and_then(|()| input.flush());
        drop(input);
        filters.finish(&commands)
    }

    #[test]
    fn each_reads_what_the_one_before_it_writes() {
        let done =
            through(&[&["grep", "-v", "b"], &["/usr/bin/sort", "-r"], &["head", "-n", "1"]], "a\nb\nc\n");
        assert_eq!(done, Filtered { out: "c\n".into(), ..Filtered::default() });
        assert_eq!(through(&[&["nawk", "{ print $2 }"]], "a b\n").out, "b\n");
    }

    #[test]
    fn who_stops_early_or_finds_nothing_has_not_failed() {
        let text = "x\n".repeat(1_000_000);
        assert_eq!(through(&[&["cat"], &["head", "-n", "1"]], &text).failed, None);
        assert_eq!(through(&[&["egrep", "y|z"]], "x\n"), Filtered::default());
    }

    #[test]
    fn who_fails_is_named_with_what_it_says() {
        let done = through(&[&["cat"], &["grep", "[", "-"]], "x\n");
        assert_eq!(done.failed, Some((1, "status 2".to_owned())));
        assert!(done.complaints.starts_with("grep: "), "{done:?}");
    }

    #[test]
    fn nothing_else_is_started() {
        let refused = |name: &str| Filters::start(&[vec!["cat".into()], vec![name.into()]]).err().unwrap();
        for name in ["sh", "", "../bin/true", "xargs"] {
            assert_eq!(refused(name).at, 1, "{name}");
        }
    }
}
