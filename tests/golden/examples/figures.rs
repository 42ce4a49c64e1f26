//! Writes the figures of experiments into the pages of `docs/`.
//!
//! ```text
//! cargo run --release -p millpond-golden --example figures [PART…]
//! ```
//! A part is an experiment (except `twin`, which measures the running machine), or `machines`, `workloads`, `fits`, `points` or
//! `parameters`. Without a name all of them are written, which takes minutes. The part `together` is always written, from the
//! tables of the page.

#![allow(clippy::print_stderr, reason = "a program for a terminal")]

use millpond_experiments::{EXPERIMENTS, OWN, named};
use millpond_golden::document::{CATALOGUES, markdown, page_of, run, together, verbatim, with_part};
use std::error::Error;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let names: Vec<String> = env::args().skip(1).collect();
    let catalogues = CATALOGUES.iter().map(|(name, _)| *name);
    let known: Vec<&str> = catalogues
        .chain(EXPERIMENTS.iter().chain(OWN).map(|experiment| experiment.name))
        .filter(|name| *name != "twin")
        .collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no part `{name}`; there are {}", known.join(", ")).into());
    }
    for name in known.into_iter().filter(|name| names.is_empty() || names.iter().any(|n| n == name)) {
        eprintln!("{name}");
        let is_own = OWN.iter().any(|experiment| experiment.name == name);
        let path = docs.join(page_of(name).0);
        let new = match CATALOGUES.iter().find(|(catalogue, _)| *catalogue == name) {
            Some((_, write)) => write(),
            None => {
                let findings = run(named(name).ok_or("it is gone")?)?;
                if is_own { verbatim(&findings) } else { markdown(&findings) }
            }
        };
        write(&path, name, &new)?;
    }
    let page = docs.join(page_of("together").0);
    write(&page, "together", &together(&fs::read_to_string(&page)?))
}

/// Replaces a part of a page. Reads the page each time, because it may be edited during a long run.
fn write(path: &Path, name: &str, new: &str) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(path)?;
    let text = with_part(&text, name, new).ok_or_else(|| format!("there is no place for {name}"))?;
    Ok(fs::write(path, text)?)
}
