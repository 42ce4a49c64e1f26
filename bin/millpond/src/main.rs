//! The program: it hands its words to the command that they ask for, and ends with that command's status.

use millpond_cmd::{Ctx, run};
use millpond_session::Output;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut ctx = Ctx::new(Output::stdout(), Output::stderr());
    ExitCode::from(run(&words, &mut ctx).0)
}
