//! `millpond top` on a real terminal, by tmux: drawing, resizing, changes, and restoring the terminal. Without tmux,
//! the test prints that and is skipped.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// By then, a screen appears even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// A separate terminal, which is closed when this is dropped.
struct Terminal {
    socket: String,
    dir: tempfile::TempDir,
}

impl Terminal {
    /// Opens a terminal of 80 columns and 24 lines with a shell. `None` without tmux.
    fn open(name: &str) -> Option<Terminal> {
        let found = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
        if found.is_err() {
            println!("skipped: {name}: there is no tmux (apt-get install tmux)");
            return None;
        }
        let terminal = Terminal {
            socket: format!("millpond-test-{}-{name}", std::process::id()),
            dir: tempfile::tempdir().unwrap(),
        };
        terminal.tmux(&["-f/dev/null", "new-session", "-d", "-x80", "-y24", "env PS1='ready> ' sh"]);
        terminal.until("ready>");
        Some(terminal)
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command
            .args(["-L", &self.socket])
            .args(words)
            .env("MILLPOND_STATE", self.dir.path())
            .env("LC_ALL", "C.UTF-8");
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits for a text on the screen.
    fn until(&self, text: &str) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if screen.contains(text) {
                return screen;
            }
            assert!(begun.elapsed() < LONGEST, "no `{text}`:\n{screen}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").args(["-L", &self.socket, "kill-server"]).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_terminal_shows_a_simulated_machine_and_follows_its_size() {
    let Some(terminal) = Terminal::open("shows") else { return };
    let program = env!("CARGO_BIN_EXE_millpond");
    terminal.keys(&[&format!("{program} top --machine t2000 --load 'spin -t 40'"), "Enter"]);
    let screen = terminal.until("WAITED     USE OF EACH CPU");
    let screen = if screen.contains(" 32.00 ") { screen } else { terminal.until(" 32.00 ") };
    assert!(screen.starts_with("t2000: 32 CPUs, 11 processes, 53 threads"), "{screen}");
    assert!(screen.contains("1*overview 2CPUs 3threads"), "{screen}");
    terminal.tmux(&["resize-window", "-x", "120", "-y", "40"]);
    terminal.until("9noise ?");
    terminal.keys(&["2"]);
    terminal.until("CPU SET STATE   USR");
    terminal.keys(&["Space"]);
    terminal.until("[paused]");
    terminal.keys(&["q"]);
    terminal.until("ready>");
}

#[test]
fn a_change_by_keys_is_planned_made_and_undone() {
    let Some(terminal) = Terminal::open("changes") else { return };
    let program = env!("CARGO_BIN_EXE_millpond");
    terminal.keys(&[&format!("{program} sim t2000"), "Enter"]);
    terminal.until("t2000");
    terminal.keys(&["psrset -c 4", "Enter"]);
    terminal.until("created processor set 1");
    terminal.keys(&["top", "Enter"]);
    terminal.until("USE OF EACH CPU");
    terminal.keys(&["2"]);
    terminal.until("CPU SET STATE");
    // The list begins with CPU 0, which moves to set 1.
    terminal.keys(&["m"]);
    terminal.until("move CPU 0 from set 0 to set: _");
    terminal.keys(&["1", "Enter"]);
    terminal.until("y: do it");
    terminal.keys(&["y"]);
    terminal.until("processor 0: was not assigned, now 1");
    terminal.keys(&["Space"]);
    terminal.until("  0   1 on-line");
    terminal.keys(&["u"]);
    terminal.until("processor 0: was 1, now not assigned");
    terminal.keys(&["Space"]);
    terminal.until("  0   0 on-line");
    terminal.keys(&["q"]);
    terminal.until("t2000");
}

#[test]
fn a_terminated_top_leaves_the_terminal_as_it_was() {
    let Some(terminal) = Terminal::open("ends") else { return };
    let program = env!("CARGO_BIN_EXE_millpond");
    let pid = terminal.dir.path().join("pid");
    let started = format!("sh -c 'echo $$ >{}; exec {program} top --machine t2000'; stty -a", pid.display());
    terminal.keys(&[&started, "Enter"]);
    terminal.until("USE OF EACH CPU");
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(Command::new("kill").args(["-TERM", pid.trim()]).status().unwrap().success());
    let after = terminal.until("icanon");
    assert!(!after.contains("-icanon") && !after.contains("USE OF EACH CPU"), "{after}");
}

#[test]
fn a_top_whose_terminal_is_gone_ends() {
    let Some(terminal) = Terminal::open("gone") else { return };
    let program = env!("CARGO_BIN_EXE_millpond");
    let file = terminal.dir.path().join("pid");
    let started = format!("sh -c 'echo $$ >{}; exec {program} top --machine t2000'", file.display());
    terminal.keys(&[&started, "Enter"]);
    terminal.until("USE OF EACH CPU");
    let pid = std::fs::read_to_string(file).unwrap();
    terminal.tmux(&["kill-server"]);
    let lives = || {
        std::fs::read_to_string(format!("/proc/{}/comm", pid.trim())).is_ok_and(|name| name == "millpond\n")
    };
    let begun = Instant::now();
    while lives() {
        assert!(begun.elapsed() < LONGEST, "it lives without a terminal");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_recording_goes_on_and_back_by_keys() {
    let Some(terminal) = Terminal::open("replay") else { return };
    let program = env!("CARGO_BIN_EXE_millpond");
    let place = terminal.dir.path().join("day").display().to_string();
    let record = ["record", "--machine", "t2000", "--load", "spin -t 40", "--to", &place, "--for", "10m"];
    assert!(Command::new(program).args(record).stdout(Stdio::null()).status().unwrap().success());
    terminal.keys(&[&format!("clear; TZ=UTC {program} top --replay {place} --at -5m"), "Enter"]);
    terminal.until("USE OF EACH CPU");
    terminal.keys(&["Space"]);
    let screen = terminal.until("[paused]");
    let minute = |screen: &str| {
        let at = screen.find("2024-11-20 ").unwrap() + "2024-11-20 08:".len();
        screen[at..at + 2].parse::<u32>().unwrap()
    };
    let before = minute(&screen);
    terminal.keys(&["["]);
    terminal.until(&format!("2024-11-20 08:{:02}", before - 1));
    terminal.keys(&["}"]);
    terminal.until("2024-11-20 08:24:02");
    terminal.keys(&["."]);
    terminal.until("the recording ends here");
    terminal.keys(&["Enter", "m"]);
    terminal.until("this is a recording: nothing can be changed in it");
    terminal.keys(&["Enter", "q"]);
    terminal.until("ready>");
}
