//! The program `millpond-controller`.

use millpond_controller::{Asked, definition, parse, run};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    // A failed write to standard error is ignored.
    let say = |text: &str| drop(std::io::stderr().write_all(text.as_bytes()));
    let print = |text: &str| std::io::stdout().write_all(text.as_bytes());
    let done = match parse(&words) {
        Ok(Asked::Service(options)) => run(&options),
        Ok(Asked::Definition) => definition()
            .map_err(|error| error.to_string())
            .and_then(|text| print(&text).map_err(|error| error.to_string())),
        Err(answer) => {
            say(&answer.err);
            let printed = print(&answer.out).is_ok();
            return ExitCode::from(if printed { answer.status } else { 1 });
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&format!("millpond-controller: {why}\n"));
            ExitCode::FAILURE
        }
    }
}
