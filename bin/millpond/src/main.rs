//! The program: it hands its words to the command or the service that they ask for, and ends with that one's status.

use millpond_cli::Spec;
use millpond_cmd::{Ctx, run};
use millpond_session::{Output, refuse_writes_past_the_limit};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// The service that resizes sets.
const POOLD: Spec = millpond_poold::SPEC;

const SERVICES: &[Spec] = &[POOLD];

fn main() -> ExitCode {
    refuse_writes_past_the_limit();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(rest) = of_service(&words) {
        let (mut out, mut err) = (Output::stdout(), Output::stderr_of_service());
        let status = millpond_poold::run(rest, &mut out, &mut err);
        let _ = (out.finish(), err.finish());
        return ExitCode::from(status);
    }
    let mut ctx = Ctx::new(Output::stdout(), Output::stderr()).with_services(SERVICES);
    ExitCode::from(run(&words, &mut ctx).0)
}

/// The words for the service, where it is asked for: by the name of the program, or by the first word.
fn of_service(words: &[OsString]) -> Option<&[OsString]> {
    let (program, rest) = words.split_first()?;
    if Path::new(program).file_name() == Some(OsStr::new(POOLD.name)) {
        return Some(rest);
    }
    let (first, rest) = rest.split_first()?;
    (first == POOLD.name).then_some(rest)
}
