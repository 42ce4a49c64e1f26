//! One test per transcript.

use libtest_mimic::{Arguments, Failed, Trial};
use millpond_golden::play;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = fs::read_dir(here.join("transcripts"))
        .expect("the transcripts are there")
        .map(|entry| entry.expect("the directory can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    let machines = here.join("machines");
    let trials = files
        .into_iter()
        .map(|path| {
            let name = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            let machines = machines.clone();
            Trial::test(name, move || transcript(&path, &machines))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn transcript(path: &Path, machines: &Path) -> Result<(), Failed> {
    let text = fs::read_to_string(path)?;
    let played = play(&text, machines)?;
    if played.commands == 0 {
        return Err("it has no commands".into());
    }
    if played.differences.is_empty() { Ok(()) } else { Err(played.differences.into()) }
}
