//! `cargo xtask pictures`: runs commands of the built program in a terminal and renders their output as SVG for the README.

use crate::cargo::BuildError;
use millpond_report::Screen;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// A picture and its commands.
struct Recording {
    file: &'static str,
    title: &'static str,
    commands: &'static [&'static str],
    /// For a full-screen program: the keys, and for how long it runs. `None` shows the output of all commands.
    watched: Option<Watched>,
}

/// Parameters for a full-screen program.
struct Watched {
    keys: &'static [&'static str],
    seconds: u64,
}

const RECORDINGS: [Recording; 3] = [
    Recording {
        file: "top.svg",
        title: "millpond top: three pools of a simulated machine, resized by poold",
        commands: &[
            "millpond sim t2000",
            "pooladm -e",
            "poolcfg -d -c 'create pset web (uint pset.min=1; uint pset.max=24)'",
            "poolcfg -d -c 'create pool web'",
            "poolcfg -d -c 'associate pool web (pset web)'",
            "poolcfg -d -c 'create pset batch (uint pset.min=1; uint pset.max=8)'",
            "poolcfg -d -c 'create pool batch'",
            "poolcfg -d -c 'associate pool batch (pset batch)'",
            "poolcfg -d -c 'transfer to pset web (cpu 4; cpu 5)'",
            "poolcfg -d -c 'transfer to pset batch (cpu 8; cpu 9)'",
            "load spin -t 12",
            "poolbind -p web 300",
            "load cg -t 6",
            "poolbind -p batch 301",
            "svcadm enable -r svc:/system/pools/dynamic:default",
            "top",
        ],
        watched: Some(Watched { keys: &["+", "+"], seconds: 12 }),
    },
    Recording {
        file: "demo.svg",
        title: "make demo: two spinning programs, mixed and in pools",
        commands: &["millpond demo"],
        watched: None,
    },
    Recording {
        file: "quiet.svg",
        title: "millpond quiet: OS noise in a processor set",
        commands: &[
            "millpond psrset -c --keep-others 1",
            "millpond quiet 1 --for 900ms --max 5ms -- millpond priocntl -e -c RT millpond load spin",
            "millpond psrset -d 1",
        ],
        watched: None,
    },
];

/// The directory of pictures in this tree.
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/pictures");

/// Columns of a picture. A longer line is cut and ends in `…`.
const COLUMNS_MAX: usize = 160;

/// Records the pictures with these names, or all; true on success.
///
/// # Errors
/// [`BuildError::Record`] when a command cannot be run, or a picture cannot be written.
pub fn run(names: &[String]) -> Result<bool, BuildError> {
    let built = crate::matrix::target_directory().join("program");
    fs::create_dir_all(PICTURES).map_err(BuildError::Record)?;
    for recording in RECORDINGS {
        if !names.is_empty() && !names.iter().any(|name| *name == recording.file) {
            continue;
        }
        let text = match &recording.watched {
            Some(watched) => watch(recording.commands, watched, &built),
            None => record(recording.commands, &built),
        };
        let text = text.map_err(BuildError::Record)?;
        let svg = Screen { title: recording.title.to_owned(), text }.svg();
        let path = Path::new(PICTURES).join(recording.file);
        fs::write(&path, svg).map_err(BuildError::Record)?;
        println!("wrote docs/pictures/{}", recording.file);
    }
    Ok(true)
}

/// A session: each command after a prompt, and its output.
fn record(commands: &[&str], programs: &Path) -> io::Result<String> {
    let mut text = String::new();
    for command in commands {
        println!("$ {command}");
        text += &format!("\u{1b}[32m$\u{1b}[0m \u{1b}[1m{command}\u{1b}[0m\n");
        text += &colored(&in_terminal(command, programs)?);
    }
    Ok(text)
}

/// The terminal contents after the last command, with colours. tmux provides the terminal.
fn watch(commands: &[&str], watched: &Watched, programs: &Path) -> io::Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let socket = format!("millpond-pictures-{}", std::process::id());
    let tmux = |words: &[&str]| -> io::Result<String> {
        let mut command = Command::new("tmux");
        command.args(["-L", &socket]).args(words).env("PATH", format!("{}:{path}", programs.display()));
        let output = command.env("LC_ALL", "C.UTF-8").env_remove("COLORTERM").output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
        }
    };
    tmux(&["-f/dev/null", "new-session", "-d", "-x", SCREEN_COLUMNS, "-y", SCREEN_LINES, "sh"])?;
    let shown = commands.iter().try_for_each(|command| {
        println!("$ {command}");
        tmux(&["send-keys", "-l", command])?;
        tmux(&["send-keys", "Enter"])?;
        sleep(Duration::from_millis(500));
        Ok(())
    });
    let shown = shown.and_then(|()| {
        sleep(Duration::from_secs(1));
        watched.keys.iter().try_for_each(|key| tmux(&["send-keys", key]).map(|_| ()))?;
        sleep(Duration::from_secs(watched.seconds));
        tmux(&["capture-pane", "-e", "-p"])
    });
    tmux(&["kill-server"])?;
    shown.map(|text| text.trim_end().to_owned() + "\n")
}

/// The size of the terminal for full-screen programs.
const SCREEN_COLUMNS: &str = "110";
const SCREEN_LINES: &str = "26";

/// The output of a shell command in a terminal. `programs` is first on the search path.
fn in_terminal(command: &str, programs: &Path) -> io::Result<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("script")
        .args(["--quiet", "--command"])
        .arg(format!("stty cols {COLUMNS_MAX}; {command}"))
        .arg("/dev/null")
        .env("PATH", format!("{}:{path}", programs.display()))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(|line| left_of(line) + "\n").collect())
}

/// The final contents of a line: a carriage return overwrites it. A line that is too long is cut.
fn left_of(line: &str) -> String {
    let line = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
    let line = line.strip_prefix("\u{1b}[K").unwrap_or(line);
    match line.char_indices().nth(COLUMNS_MAX) {
        Some(_) => line.chars().take(COLUMNS_MAX - 1).chain(['…']).collect(),
        None => line.to_owned(),
    }
}

/// Colours verdicts and bars, and makes heads of tables grey.
fn colored(text: &str) -> String {
    let line = |line: &str| -> String {
        let letters = |word: &str| word.chars().all(|c| c.is_ascii_uppercase() || "%/".contains(c));
        if line.starts_with("not quiet: ") {
            format!("\u{1b}[31m{line}\u{1b}[0m\n")
        } else if line.starts_with("quiet: ") || line.starts_with("speed-up: ") {
            format!("\u{1b}[1;32m{line}\u{1b}[0m\n")
        } else if !line.is_empty() && line.split_whitespace().all(letters) {
            format!("\u{1b}[90m{line}\u{1b}[0m\n")
        } else {
            let words: Vec<String> = line.split(' ').map(bar).collect();
            words.join(" ") + "\n"
        }
    };
    text.lines().map(line).collect()
}

/// Colours a word of `#`; other words are unchanged.
fn bar(word: &str) -> String {
    let is_bar = !word.is_empty() && word.chars().all(|c| c == '#');
    if is_bar { format!("\u{1b}[36m{word}\u{1b}[0m") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_heads_and_bars_have_colours_and_text_has_none() {
        let text = "not quiet: 80us\nSHARE% RATE/S\n 1.0  1 ##  2 #\n\n";
        let expected = "\u{1b}[31mnot quiet: 80us\u{1b}[0m\n\u{1b}[90mSHARE% RATE/S\u{1b}[0m\n \
                        1.0  1 \u{1b}[36m##\u{1b}[0m  2 \u{1b}[36m#\u{1b}[0m\n\n";
        assert_eq!(colored(text), expected);
    }

    #[test]
    fn progress_is_overwritten_and_long_lines_are_cut() {
        assert_eq!(left_of("\rreport in 1 s\u{1b}[K\r\u{1b}[Kquiet\r"), "quiet");
        assert_eq!(left_of(&"é".repeat(160)), "é".repeat(160));
        assert_eq!(left_of(&"é".repeat(161)), "é".repeat(159) + "…");
    }

    #[test]
    fn a_command_is_recorded_as_at_a_terminal() {
        let text = record(&["test -t 1 && echo yes; stty size | cut -d' ' -f2"], Path::new("/"));
        assert!(text.is_ok_and(|text| text.ends_with("\nyes\n160\n")));
    }
}
