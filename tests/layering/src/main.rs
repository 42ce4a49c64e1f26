//! Lists what the counted checks find, and long sentences of pages and manuals: `cargo run -p millpond-layering -- [PATH…]`.
//!
//! `--rewrite` writes the numbers of today to `tests/layering/baseline`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use millpond_layering::{Breach, House, baseline, words};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("layering: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let house = House::read("cargo", Path::new(env!("CARGO_MANIFEST_DIR")))?;
    let found = baseline::find(&house);
    if arguments.first().is_some_and(|first| first == "--rewrite") {
        baseline::rewrite(Path::new(&house.metadata.workspace_root), &baseline::count(&found))?;
        return Ok(());
    }
    let is_wanted = |breach: &&Breach| {
        arguments.is_empty() || arguments.iter().any(|path| breach.place.starts_with(path.as_str()))
    };
    for breach in found.values().flatten().filter(is_wanted) {
        println!("{breach}");
    }
    for breach in words::long_sentences(&house).iter().filter(is_wanted) {
        println!("warning: {breach}");
    }
    Ok(())
}
