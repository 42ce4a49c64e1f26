//! The program: selects the command or service that the command line names, and returns its exit status.

use millpond_cli::{Answer, Spec};
use millpond_cmd::{COMMANDS, Ctx, remedy, run};
use millpond_session::{Output, Session, refuse_writes_past_the_limit};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

/// The function that runs a service with the words after its name.
type Run = fn(&[OsString], &mut Output<'_>, &mut Output<'_>) -> u8;

/// The services: they resize sets, run the classes, serve figures, and keep containers in pools.
const SERVICES: &[Spec] = &[
    millpond_poold::SPEC,
    millpond_schedd::SPEC,
    #[cfg(feature = "gauge")]
    millpond_gauge::SPEC,
    #[cfg(feature = "node")]
    millpond_node::SPEC,
];
const RUNS: &[Run] = &[
    |words, out, err| {
        serve(
            millpond_poold::parse(words),
            |options, err| millpond_poold::run(options, err, advice),
            out,
            err,
        )
    },
    |words, out, err| serve(millpond_schedd::parse(words), millpond_schedd::run, out, err),
    #[cfg(feature = "gauge")]
    |words, out, err| serve(millpond_gauge::parse(words), millpond_gauge::run, out, err),
    #[cfg(feature = "node")]
    |words, out, err| {
        serve(millpond_node::parse(words), |options, err| millpond_node::run(options, err, advice), out, err)
    },
];

/// Checks a remedy of a service on the machine, as commands do.
fn advice(session: &Session, text: &str) -> Option<String> {
    remedy::accepted(session, text, COMMANDS)
}

/// Runs a service with its parsed options, or prints help or an error. Returns the exit status: 2 for an invalid
/// command line.
fn serve<O>(
    understood: Result<O, Answer>,
    run: fn(&O, &mut Output<'_>) -> u8,
    out: &mut Output<'_>,
    err: &mut Output<'_>,
) -> u8 {
    match understood {
        Ok(options) => run(&options, err),
        Err(answer) => {
            out.text(&answer.out);
            err.text(&answer.err);
            answer.status
        }
    }
}

fn main() -> ExitCode {
    refuse_writes_past_the_limit();
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some((run, rest)) = of_service(&words) {
        let (mut out, mut err) = (Output::stdout(), Output::stderr_of_service());
        let status = run(rest, &mut out, &mut err);
        let _ = (out.finish(), err.finish());
        return ExitCode::from(status);
    }
    let mut ctx = Ctx::new(Output::stdout(), Output::stderr()).with_services(SERVICES);
    ExitCode::from(run(&words, &mut ctx).0)
}

/// The service that the program name or the first word selects, and the words after it. `None` if neither names a
/// service.
fn of_service(words: &[OsString]) -> Option<(Run, &[OsString])> {
    let service =
        |word: &OsStr| SERVICES.iter().zip(RUNS.iter().copied()).find(|(spec, _)| word == spec.name);
    let (program, rest) = words.split_first()?;
    if let Some((_, run)) = Path::new(program).file_name().and_then(service) {
        return Some((run, rest));
    }
    let (first, rest) = rest.split_first()?;
    service(first).map(|(_, run)| (run, rest))
}
