//! Lists phrases to avoid, import cycles, re-exports, and long sentences: `cargo run -p millpond-layering -- [PATH…]`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use millpond_layering::{Breach, House, of_words_and_imports, words};
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
    let is_wanted = |breach: &&Breach| {
        arguments.is_empty() || arguments.iter().any(|path| breach.place.starts_with(path.as_str()))
    };
    for breach in of_words_and_imports(&house).iter().filter(is_wanted) {
        println!("{breach}");
    }
    for breach in words::long_sentences(&house).iter().filter(is_wanted) {
        println!("warning: {breach}");
    }
    Ok(())
}
